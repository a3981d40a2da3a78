import Foundation
import Synchronization

/// A folder of a test's own, removed with it.
final class TemporaryFolder {
    let path: String
    private let nameCount = Mutex(0)

    init() throws {
        path =
            FileManager.default.temporaryDirectory
            .appendingPathComponent("ingestd-test-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The data directory of the test's daemon.
    var data: String { "\(path)/data" }

    func unusedName(for program: String) -> String {
        nameCount.withLock { count in
            count += 1
            return "\(program)-\(count)"
        }
    }

    func write(_ name: String, _ text: String) throws -> String {
        try Data(text.utf8).write(to: URL(fileURLWithPath: "\(path)/\(name)"))
        return "\(path)/\(name)"
    }

    /// The names of the files in the data directory that end so.
    func files(ending suffix: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: data)) ?? [])
            .filter { $0.hasSuffix(suffix) }.sorted()
    }
}
