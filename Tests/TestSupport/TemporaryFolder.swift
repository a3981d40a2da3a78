import Foundation
import Synchronization

/// A folder of a test's own, removed with the last reference to it.
package final class TemporaryFolder: Sendable {
    package let path: String
    private let nameCount = Mutex(0)

    package init() throws {
        path =
            FileManager.default.temporaryDirectory
            .appendingPathComponent("ingestd-test-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The data directory of the test's daemon.
    package var data: String { "\(path)/data" }

    package func unusedName(for program: String) -> String {
        nameCount.withLock { count in
            count += 1
            return "\(program)-\(count)"
        }
    }

    /// Writes a file of the folder, over what was there.
    /// - Returns: its path.
    @discardableResult
    package func write(_ name: String, _ bytes: some Sequence<UInt8>) throws -> String {
        try Data(bytes).write(to: URL(fileURLWithPath: "\(path)/\(name)"))
        return "\(path)/\(name)"
    }

    @discardableResult
    package func write(_ name: String, _ text: String) throws -> String {
        try write(name, text.utf8)
    }

    /// Writes a file with a line break behind each of the lines.
    @discardableResult
    package func write(_ name: String, lines: some Sequence<String>) throws -> String {
        try write(name, lines.map { $0 + "\n" }.joined())
    }

    // MARK: The data directory

    /// The names of the files in the data directory that end so.
    package func files(ending suffix: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: data)) ?? [])
            .filter { $0.hasSuffix(suffix) }.sorted()
    }

    /// The files in the data directory, what was put aside not included.
    package var dataFiles: [String] { files(ending: "").filter { $0 != "aside" } }

    package func bytes(_ name: String) -> [UInt8] {
        Array(FileManager.default.contents(atPath: "\(data)/\(name)") ?? Data())
    }

    package func replace(_ name: String, _ bytes: [UInt8]) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: "\(data)/\(name)"))
    }
}
