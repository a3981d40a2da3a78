import Testing

/// The messages that operators see, against the one table that says what to do for each.
struct MessagesTests {
    /// Where messages about disk, log, clocks and refusals are made: each literal in them of three words or more begins one.
    private static let sources = [
        "IngestPipeline/Commit/Admit/AdmissionClock", "IngestPipeline/Commit/Admit/LoggedClaims",
        "IngestPipeline/Compact/CompactStage", "IngestPipeline/Compact/Retention",
        "IngestPipeline/Merge/MergeOrder", "IngestPipeline/Receive/RefusalLog",
        "IngestPipeline/Sync/SyncStage", "IngestReader/ReaderError",
        "IngestReader/Snapshot/DirectoryStatus", "IngestReader/Snapshot/Snapshot",
        "IngestReaderTool/Commands/VerifyCommand", "IngestStorage/DataDirectory",
        "IngestStorage/Segment/RecoveryReport", "IngestStorage/StorageError", "Ingestd/Daemon",
    ]

    /// Lines that begin none: comments, ends of messages, what is said when all is well or is for the maintainers.
    private static let others = [
        "///", "detail:", "advice:", "Advice", "return \"try", "remedy", "case .writeAccess:",
        "case .resources:", "case .space, nil:", ".inconsistent(", "log.inform(", "abstract:",
        "the log is sound", "restart the daemon", "help:", "accepted by --accept-clock",
        "% of the log",
        "0x", ", beginning with", "the clock of this machine", "an unknown number",
        "if it is correct",
        "look at the directory", "receiving on udp",
    ]

    @Test func `every message of daemon and reader has its line in the table`() throws {
        let page = try #require(SourceTree.file("docs/operations.md"))
        let start = try #require(page.lines.firstIndex(of: "## Messages"))
        let table = page.lines[start...].prefix { !$0.hasPrefix("## Reading") }
            .filter { $0.hasPrefix("|") }.joined(separator: "\n")
        var count = 0
        for name in Self.sources {
            let source = try #require(SourceTree.file("Sources/\(name).swift"), "\(name)")
            for (number, line) in source.lines.enumerated() {
                let code = line.trimmingPrefix { $0 == " " }
                let isContinued = ["+", "?", ":"].contains { code.hasPrefix($0) }
                if isContinued || Self.others.contains(where: { code.contains($0) }) { continue }
                for text in Self.literals(of: code) {
                    count += 1
                    #expect(
                        table.contains(text),
                        "\(name).swift:\(number + 1): '\(text)' is not in docs/operations.md")
                }
            }
        }
        #expect(count > 40, "\(count)")
    }

    /// Of each literal of a line the first piece between values and marks that has three words.
    private static func literals(of line: Substring) -> [String] {
        var (found, pieces, piece): ([String], [String], String) = ([], [], "")
        /// Literals and values that are open, as the character that ends each.
        var open: [Character] = []
        var before: Character = " "
        for character in line {
            let isInText = open.last == "\""
            if character == "\"" && before != "\\" {
                if isInText { open.removeLast() } else { open.append("\"") }
                if open.isEmpty {
                    let words = (pieces + [piece]).map { $0.split(separator: " ") }
                    if let first = words.first(where: { $0.count >= 3 }) {
                        found.append(first.joined(separator: " "))
                    }
                    (pieces, piece) = ([], "")
                }
            } else if character == "(" && (!isInText && !open.isEmpty || before == "\\") {
                open.append(")")
                if open.count == 2 { (pieces, piece) = (pieces + [piece], "") }
            } else if character == ")" && !isInText && !open.isEmpty {
                open.removeLast()
            } else if open.count == 1 && ":;,()".contains(character) {
                (pieces, piece) = (pieces + [piece], "")
            } else if open.count == 1 && character != "\\" {
                piece.append(character)
            }
            before = character
        }
        return found
    }
}
