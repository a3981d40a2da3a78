import Foundation

/// The project's own files, read once, for the rules that a compiler does not hold.
struct SourceFile: Sendable, CustomStringConvertible {
    /// From the root of the package, with `/`.
    let path: String
    let text: String
    /// The text without comments and literals; Swift files only.
    let code: SwiftText

    init(path: String, text: String) {
        self.path = path
        self.text = text
        lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        code = SwiftText(path.hasSuffix(".swift") ? text : "")
    }

    let lines: [Substring]

    /// The lines that have any of some words, with their numbers from 0 on: a plain search is a hundredth of what a
    /// regular expression costs, and hardly any line needs one.
    func lines(withAny words: [String]) -> [(Int, Substring)] {
        guard words.contains(where: { text.contains($0) }) else { return [] }
        return lines.enumerated().filter { line in words.contains { line.element.contains($0) } }
            .map { ($0.offset, $0.element) }
    }

    var description: String { path }

    /// `Sources/IngestFormat/Limits.swift` is of target `IngestFormat`.
    var target: String {
        let parts = path.split(separator: "/")
        return parts.count > 1 ? String(parts[1]) : ""
    }
    var isInSources: Bool { path.hasPrefix("Sources/") }
}

enum SourceTree {
    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// All Swift files of ours.
    static let swiftFiles: [SourceFile] =
        files(in: ["Sources", "Tests", "Benchmarks"], withExtension: ["swift"])

    /// All pages.
    static let pages: [SourceFile] =
        files(in: ["docs", "examples", "Sources", "Tests/Fixtures"], withExtension: ["md"])
        + ["README.md", "CONTRIBUTING.md", "STYLE.md", "CHANGELOG.md"].compactMap(file)

    static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appendingPathComponent(path).path)
    }

    static func file(_ path: String) -> SourceFile? {
        guard let data = try? Data(contentsOf: root.appendingPathComponent(path)) else {
            return nil
        }
        return SourceFile(path: path, text: String(decoding: data, as: UTF8.self))
    }

    private static func files(
        in folders: [String], withExtension extensions: Set<String>
    ) -> [SourceFile] {
        var found: [SourceFile] = []
        for folder in folders {
            let start = root.appendingPathComponent(folder)
            let below = FileManager.default.enumerator(atPath: start.path)
            while let name = below?.nextObject() as? String {
                guard extensions.contains((name as NSString).pathExtension) else { continue }
                if let file = file("\(folder)/\(name)") { found.append(file) }
            }
        }
        return found.sorted { $0.path < $1.path }
    }
}
