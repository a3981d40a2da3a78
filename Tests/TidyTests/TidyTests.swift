import Testing

/// The rules of STYLE.md that a machine can hold.
struct TidyTests {
    private static let files = SourceTree.swiftFiles
    private static let sources = files.filter(\.isInSources)
    private static let benchmarks = files.filter { $0.path.hasPrefix("Benchmarks/") }

    @Test func `the tree is found`() {
        #expect(Self.sources.count > 20)
        #expect(SourceTree.pages.count > 5)
    }

    // MARK: Targets

    @Test func `a target imports only what the design allows it`() {
        var unused = ImportRules.allowed.mapValues { $0.subtracting(ImportRules.system) }
        for file in Self.sources + Self.benchmarks {
            guard let allowed = ImportRules.allowed[file.target] else {
                Issue.record("\(file): target \(file.target) has no line in ImportRules")
                continue
            }
            for module in Self.imports(of: file) {
                unused[file.target]?.remove(module)
                if !allowed.contains(module) { Issue.record("\(file) imports \(module)") }
            }
        }
        for (target, modules) in unused {
            for module in modules.sorted() {
                Issue.record("ImportRules allows \(module) to \(target), which imports it nowhere")
            }
        }
    }

    private static func imports(of file: SourceFile) -> [String] {
        file.code.lines.filter { $0.contains("import ") }.compactMap { line in
            line.firstMatch(
                of:
                    #/^\s*(?:@\w+\s+)*(?:(?:public|package|internal|private)\s+)?import\s+(?:\w+\s+)?(\w+)/#
            ).map { String($0.1) }
        }
    }

    @Test func `unsafe appears only in the files that are listed with a reason`() {
        var found: Set<String> = []
        for file in Self.sources where Self.usesUnsafe(file) {
            found.insert(file.path)
            #expect(UnsafeFiles.reasons[file.path] != nil, "\(file) is not in UnsafeFiles")
            #expect(file.text.contains("SAFETY"), "\(file) never says what makes it sound")
        }
        for path in UnsafeFiles.reasons.keys.sorted() where !found.contains(path) {
            Issue.record("UnsafeFiles lists \(path), which is gone or uses none")
        }
    }

    private static func usesUnsafe(_ file: SourceFile) -> Bool {
        file.code.lines.contains {
            $0.contains("unsafe") && $0.contains(#/(^|[^\w@(.])unsafe\b/#)
        }
    }

    @Test func `what can trap or escape the compiler is listed with a reason`() {
        let hatches = #/\btry!|\bas!|\bfatalError\(|nonisolated\(unsafe\)|\bpreconditionFailure\(/#
        let words = ["try!", "as!", "fatalError", "nonisolated", "preconditionFailure"]
        let found = Self.paths(Self.sources) { line in
            words.contains { line.contains($0) } && line.contains(hatches)
        }
        Self.expect(found, listedIn: Exceptions.escapeHatches, as: "escape hatch")
    }

    // MARK: Size

    @Test func `a file has at most 400 lines`() {
        let found = Set(Self.files.filter { $0.lines.count > 401 }.map(\.path))
        Self.expect(found, listedIn: Exceptions.longFiles, as: "long file")
    }

    @Test func `a function has at most 60 lines`() {
        var found: Set<String> = []
        for file in Self.files {
            for function in file.code.functions where function.lineCount > 60 {
                found.insert("\(file): \(function.name)")
            }
        }
        Self.expect(found, listedIn: Exceptions.longFunctions, as: "long function")
    }

    /// Code is held to 100 by the formatter, which leaves comments alone.
    @Test func `a comment line has at most 130 columns`() {
        for file in Self.files {
            for (number, line) in file.lines.enumerated() where line.utf8.count > 130 {
                let isComment = line.drop { $0 == " " }.hasPrefix("//")
                #expect(!isComment || line.count <= 130, "\(file):\(number + 1)")
            }
        }
    }

    // MARK: Words

    private static let stations = [
        "packet", "decode", "ring", "admit", "block", "segment", "compaction", "snapshot", "query",
    ]

    @Test func `a file of the data path says where it stands`() {
        let onThePath: Set = [
            "IngestFormat", "IngestRing", "IngestStorage", "IngestPipeline", "IngestReader",
        ]
        for file in Self.sources where onThePath.contains(file.target) {
            let first = file.lines.prefix(2).first { $0.hasPrefix("// ") && $0.contains("→") }
            let named = first.map { line in
                line.dropFirst(3).split(separator: "→").map {
                    $0.filter { !" []".contains($0) }
                }
            }
            #expect(named == Self.stations, "\(file): no line of the data path on top")
        }
    }

    @Test func `nothing is left to do, and no name says nothing`() {
        let unfinished = #/\b(TODO|FIXME|XXX|HACK)\b/#
        let empty =
            #/\b(?:class|struct|enum|protocol|actor|func|typealias)\s+\w*(?:Manager|Helper|Utils?|Impl)\b/#
        let bare = #/\b(?:let|var)\s+(?:size|len|timeout)\b/#
        for file in Self.files where file.target != "TidyTests" {
            for (number, line) in file.lines(withAny: ["TODO", "FIXME", "XXX", "HACK"])
            where line.contains(unfinished) {
                Issue.record("\(file):\(number + 1): \(line)")
            }
            let suspects = ["Manager", "Helper", "Util", "Impl", "size", "len", "timeout"]
            for (number, line) in file.code.lines(withAny: suspects)
            where line.contains(empty) || line.contains(bare) {
                Issue.record("\(file):\(number + 1): \(line)")
            }
        }
    }

    @Test func `no tabs, no trailing blanks, and a line break at the end`() {
        for file in Self.files + SourceTree.pages {
            for (number, line) in file.lines.enumerated()
            where line.contains("\t") || line.last == " " {
                Issue.record("\(file):\(number + 1): tab or trailing blank")
            }
            #expect(file.text.hasSuffix("\n"), "\(file)")
            #expect(!file.text.hasSuffix("\n\n"), "\(file) ends with empty lines")
        }
    }

    @Test func `a test waits for a condition, not for time`() {
        let tests = Self.files.filter { $0.path.hasPrefix("Tests/") }
        let found = Self.paths(tests) {
            $0.contains("sleep(") && $0.contains(#/(?:^|[^A-Za-z])(?:u|nano)?sleep\(/#)
        }
        Self.expect(found, listedIn: Exceptions.sleeps, as: "sleep")
    }

    // MARK: Lists with reasons

    private static func paths(
        _ files: [SourceFile], where condition: (String) -> Bool
    ) -> Set<String> {
        Set(files.filter { $0.code.lines.contains(where: condition) }.map(\.path))
    }

    private static func expect(
        _ found: Set<String>, listedIn list: [String: String], as what: String
    ) {
        for entry in found.sorted() where list[entry] == nil { Issue.record("\(what): \(entry)") }
        for entry in list.keys.sorted() where !found.contains(entry) {
            Issue.record("no longer a \(what), take it off the list: \(entry)")
        }
    }
}
