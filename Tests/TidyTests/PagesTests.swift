import Foundation
import Testing

/// What the pages and the sources say about each other.
struct PagesTests {
    /// One page for each kind of bytes that leaves the process.
    private static let formatPages = [
        "block", "directory", "durable-mark", "json-event", "keys", "manifest", "names",
        "packet", "run", "segment", "session-keys", "spool",
    ]

    @Test(arguments: formatPages)
    func `every format has its page`(name: String) {
        #expect(SourceTree.exists("docs/format/\(name).md"))
    }

    @Test func `every page that a source or a page names is there`() {
        for file in SourceTree.swiftFiles + SourceTree.pages {
            let folder = file.path.split(separator: "/").dropLast().joined(separator: "/")
            // From the root, beside the file, or one of docs: `sending.md`.
            let folders = ["", "\(folder)/", "docs/"]
            let mentions = file.lines(withAny: [".md"]).map(\.1).joined(separator: "\n")
            for match in mentions.matches(of: #/[A-Za-z0-9_.\/-]*[A-Za-z0-9_-]\.md\b/#) {
                let isThere = folders.contains { SourceTree.exists($0 + String(match.0)) }
                #expect(isThere, "\(file) names \(match.0)")
            }
        }
    }

    @Test func `every relative link of a page leads somewhere`() {
        for page in SourceTree.pages {
            let folder = page.path.split(separator: "/").dropLast().joined(separator: "/")
            for match in page.text.matches(of: #/\]\(([^)#:\s]+)(?:#[^)]*)?\)/#) {
                let target = folder.isEmpty ? String(match.1) : "\(folder)/\(match.1)"
                #expect(SourceTree.exists(target), "\(page) links to \(match.1)")
            }
        }
    }

    @Test func `every Swift example of a page is compiled by a test`() {
        let sources = SourceTree.swiftFiles.filter { $0.path.hasPrefix("Tests/") }
            .map { Self.statements($0.lines) }
        var count = 0
        for page in SourceTree.pages {
            for match in page.text.matches(of: #/(?s)```swift\n(.*?)```/#) {
                let example = Self.statements(match.1.split(separator: "\n"))
                    .filter { !$0.hasPrefix("import ") }
                #expect(sources.contains { $0.contains(example) }, "\(page): \(example)")
                count += 1
            }
            // Elsewhere it would not be found.
            #expect(!page.text.contains(#/\n {4}import \w/#), "\(page)")
        }
        #expect(count >= 8)
    }

    @Test func `the small sender of the protocol's page is the one that the tests run`() throws {
        let small = try #require(SourceTree.file("examples/python/small_sender.py"))
        let page = try #require(SourceTree.file("docs/protocol.md"))
        #expect(page.text.contains("```python\n\(small.text)```"))
    }

    @Test func `an example has at most as many lines as its page says`() throws {
        let page = try #require(SourceTree.file("examples/README.md"))
        let rows = page.text.matches(of: #/\| \[(.+)\]\(.+\) \| (\d+) \|/#)
        #expect(rows.count == 5)
        for row in rows {
            let example = try #require(SourceTree.file("examples/\(row.1)"))
            let lineCount = example.lines.count - 1
            #expect(lineCount <= Int(row.2)! && lineCount <= 200, "\(example): \(lineCount)")
        }
    }

    /// Lines without what makes no difference: indentation, and empty ones.
    private static func statements(_ lines: [Substring]) -> [String] {
        lines.map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
    }

    @Test func `a line of prose has at most 110 columns`() {
        for page in SourceTree.pages {
            var isFenced = false
            for (number, line) in page.lines.enumerated() {
                let text = line.drop { $0 == " " }
                if text.hasPrefix("```") { isFenced.toggle() }
                let isProse = !isFenced && !text.hasPrefix("|") && line.count - text.count < 4
                #expect(!isProse || line.count <= 110, "\(page.path):\(number + 1)")
            }
        }
    }

    @Test(arguments: [("CHANGELOG.md", 40), ("docs/architecture.md", 120)])
    func `a page that is read as a whole has few lines`(name: String, lineCountMax: Int) throws {
        let page = try #require(SourceTree.file(name))
        #expect(page.lines.count <= lineCountMax + 1, "the empty end of the last line among them")
    }

    @Test func `every mistake of make mutants has its text in its file, once`() throws {
        let table = try #require(SourceTree.file("scripts/mutants.table"))
        let mistakes = table.text.matches(
            of: #/(?m)^mutant (\S+)\n  file: (\S+)\n  from: (.+)$/#)
        #expect(mistakes.count == table.lines.count { $0.hasPrefix("mutant ") })
        for mistake in mistakes {
            let file = try #require(SourceTree.file(String(mistake.2)), "\(mistake.1)")
            let text = mistake.3.replacing("\\n", with: "\n")
            #expect(file.text.ranges(of: text).count == 1, "\(mistake.1)")
        }
    }

    @Test func `every rule of the protocol has a test named after it, and no test another`() {
        var ids: Set<String> = []
        for page in ["docs/protocol.md", "docs/durability.md"].compactMap(SourceTree.file) {
            for row in page.text.matches(of: #/(?m)^\| ([SWALR]\d+) \| /#) {
                #expect(ids.insert(String(row.1)).inserted, "\(page) has \(row.1) twice")
            }
            for rule in page.text.matches(of: #/(?m)^- \*\*([a-z])\./#) {
                #expect(ids.insert("Rule \(rule.1)").inserted, "\(page) has \(rule.1) twice")
            }
        }
        #expect(ids.count > 40)
        var named: Set<String> = []
        for file in SourceTree.swiftFiles where file.path.hasPrefix("Tests/") {
            let names = file.text.matches(
                of:
                    #/(?:@Test\(\s*"|func\s+`)(Rules? )?([SWALR]\d+|[a-z])((?:, (?:[SWALR]\d+|[a-z]))*): /#
            )
            for name in names {
                for id in "\(name.2)\(name.3)".split(separator: ", ") {
                    let rule = name.1 == nil ? String(id) : "Rule \(id)"
                    named.insert(rule)
                    #expect(ids.contains(rule), "\(file): no page has \(rule)")
                }
            }
        }
        #expect(ids.subtracting(named) == [], "rules without a test")
    }

    @Test func `a decision has a number of its own, at most 40 lines, and says what and why`() {
        let decisions = SourceTree.pages.filter { $0.path.hasPrefix("docs/decisions/") }
        #expect(decisions.count >= 10)
        var numbers: Set<String> = []
        for page in decisions {
            let name = page.path.split(separator: "/").last ?? ""
            #expect(name.contains(#/^\d{4}-/#), "\(page)")
            #expect(numbers.insert(String(name.prefix(4))).inserted, "\(page)")
            #expect(page.lines.count <= 41, "\(page)")
            #expect(page.text.contains("## Decision"), "\(page)")
            #expect(page.text.contains("## Why"), "\(page)")
        }
    }
}
