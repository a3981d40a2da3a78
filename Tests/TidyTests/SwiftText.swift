/// Swift source with comments and the insides of string literals made blank, line for line, so that a
/// search finds code only.
struct SwiftText {
    let lines: [String]

    init(_ source: String) {
        var scanner = Scanner(Array(source.unicodeScalars))
        lines = scanner.blanked().split(separator: "\n", omittingEmptySubsequences: false)
            .map(String.init)
    }

    private struct Scanner {
        let scalars: [Unicode.Scalar]
        var index = 0
        var output = String.UnicodeScalarView()

        init(_ scalars: [Unicode.Scalar]) { self.scalars = scalars }

        mutating func blanked() -> String {
            while index < scalars.count {
                if starts("//") {
                    skip { !$0.starts("\n") }
                } else if starts("/*") {
                    skip { !$0.starts("*/") }
                } else if starts("\"\"\"") {
                    literal(endingWith: "\"\"\"")
                } else if starts("\"") {
                    literal(endingWith: "\"")
                } else {
                    output.append(scalars[index])
                    index += 1
                }
            }
            return String(output)
        }

        private func starts(_ text: String) -> Bool {
            var place = index
            for scalar in text.unicodeScalars {
                guard place < scalars.count, scalars[place] == scalar else { return false }
                place += 1
            }
            return true
        }

        /// Steps over what the condition holds for, keeping line breaks.
        private mutating func skip(while condition: (Scanner) -> Bool) {
            while index < scalars.count, condition(self) {
                output.append(scalars[index] == "\n" ? "\n" : " ")
                index += 1
            }
        }

        private mutating func literal(endingWith end: String) {
            output.append("\"")
            index += end.unicodeScalars.count
            while index < scalars.count, !starts(end) {
                if scalars[index] == "\\", index + 1 < scalars.count {
                    output.append(" ")
                    index += 1
                }
                output.append(scalars[index] == "\n" ? "\n" : " ")
                index += 1
            }
            output.append("\"")
            index += end.unicodeScalars.count
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

    private static func functionName(in line: String) -> String? {
        guard
            let match = line.firstMatch(
                of:
                    #/(?:^|\s)(?:func\s+([^\s(<]+)|(init)[?!]?\s*[(<]|(deinit)\s*\{|(subscript)\s*[(<])/#
            )
        else { return nil }
        let name = match.1 ?? match.2 ?? match.3 ?? match.4
        // A call such as `super.init(` or `.init(` is no declaration.
        let before = line[..<match.range.lowerBound].trimmingSuffix(while: \.isWhitespace)
        if before.hasSuffix(".") || before.hasSuffix("=") || before.hasSuffix("return") {
            return nil
        }
        return name.map(String.init)
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
            for character in lines[number] {
                switch character {
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
