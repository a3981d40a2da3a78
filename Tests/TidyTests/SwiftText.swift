/// Swift source with comments and the insides of string literals made blank, line for line, so that a
/// search finds code only.
struct SwiftText: Sendable {
    let lines: [String]

    init(_ source: String) {
        var scanner = Scanner(bytes: Array(source.utf8))
        lines = String(decoding: scanner.blanked(), as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }

    /// Bytes, not characters: the tests read the whole tree, in debug builds too.
    private struct Scanner {
        let bytes: [UInt8]
        var index = 0
        var output: [UInt8] = []

        private static let newline = UInt8(ascii: "\n")
        private static let blank = UInt8(ascii: " ")
        private static let quote = UInt8(ascii: "\"")
        private static let slash = UInt8(ascii: "/")
        private static let backslash = UInt8(ascii: "\\")

        init(bytes: [UInt8]) { self.bytes = bytes }

        mutating func blanked() -> [UInt8] {
            output.reserveCapacity(bytes.count)
            while index < bytes.count {
                switch bytes[index] {
                case Self.slash where next == Self.slash: skipLine()
                case Self.quote: literal()
                default:
                    output.append(bytes[index])
                    index += 1
                }
            }
            return output
        }

        private var next: UInt8? { index + 1 < bytes.count ? bytes[index + 1] : nil }

        private var isAtTripleQuote: Bool {
            index + 2 < bytes.count && bytes[index] == Self.quote
                && bytes[index + 1] == Self.quote && bytes[index + 2] == Self.quote
        }

        private mutating func skipLine() {
            while index < bytes.count, bytes[index] != Self.newline { index += 1 }
        }

        /// A literal of one line ends with it at the latest, so that one that is misread spoils no more.
        private mutating func literal() {
            let isLong = isAtTripleQuote
            output.append(Self.quote)
            index += isLong ? 3 : 1
            while index < bytes.count {
                if isLong ? isAtTripleQuote : bytes[index] == Self.quote { break }
                if bytes[index] == Self.newline {
                    if !isLong { return }
                    output.append(Self.newline)
                }
                index += bytes[index] == Self.backslash && next != Self.newline ? 2 : 1
            }
            output.append(Self.quote)
            index += isLong ? 3 : 1
        }
    }

    /// The functions, initialisers and accessors with a body: first line (from 1) and number of lines.
    var functions: [(name: String, firstLine: Int, lineCount: Int)] {
        var found: [(String, Int, Int)] = []
        for (number, line) in lines.enumerated() {
            guard let name = Self.functionName(in: line),
                let last = lastLine(ofBodyAfter: number)
            else { continue }
            found.append((name, number + 1, last - number + 1))
        }
        return found
    }

    /// As `SourceFile.lines(withAny:)`.
    func lines(withAny words: [String]) -> [(Int, String)] {
        lines.enumerated().filter { line in words.contains { line.element.contains($0) } }
            .map { ($0.offset, $0.element) }
    }

    private static func functionName(in line: String) -> String? {
        let mayDeclare = ["func ", "init", "subscript"].contains { line.contains($0) }
        guard mayDeclare, let match = line.firstMatch(of: declaration) else { return nil }
        let name = match.1 ?? match.2 ?? match.3 ?? match.4
        // A call such as `super.init(` or `.init(` is no declaration.
        let before = line[..<match.range.lowerBound].trimmingSuffix(while: \.isWhitespace)
        if before.hasSuffix(".") || before.hasSuffix("=") || before.hasSuffix("return") {
            return nil
        }
        return name.map(String.init)
    }

    /// Regexes cannot be `Sendable` constants, so one is made for each use.
    private static var declaration:
        Regex<(Substring, Substring?, Substring?, Substring?, Substring?)>
    {
        #/(?:^|\s)(?:func\s+(`[^`]+`|[^\s(<]+)|(init)[?!]?\s*[(<]|(deinit)\s*\{|(subscript)\s*[(<])/#
    }

    /// The line on which the body that begins after the declaration ends, or `nil` if it has none.
    private func lastLine(ofBodyAfter first: Int) -> Int? {
        var parentheses = 0
        var braces = 0
        for number in first..<lines.count {
            let isNextDeclaration =
                number > first && braces == 0 && parentheses == 0
                && (Self.functionName(in: lines[number]) != nil
                    || lines[number].trimmingPrefix(while: \.isWhitespace).isEmpty)
            if isNextDeclaration { return nil }
            for byte in lines[number].utf8 {
                switch UnicodeScalar(byte) {
                case "(", "[": parentheses += 1
                case ")", "]": parentheses -= 1
                case "{" where parentheses == 0 || braces > 0: braces += 1
                case "}" where parentheses == 0 || braces > 0:
                    if braces == 0 { return nil }
                    braces -= 1
                    if braces == 0 { return number }
                default: break
                }
            }
        }
        return nil
    }
}

extension Substring {
    fileprivate func trimmingSuffix(while condition: (Character) -> Bool) -> Substring {
        var rest = self
        while let last = rest.last, condition(last) { rest.removeLast() }
        return rest
    }
}
