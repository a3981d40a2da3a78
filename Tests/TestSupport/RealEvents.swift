import Foundation

/// The 20,080 real events of the fixture, as the lines that senders read.
package enum RealEvents {
    package static let lines: [String] = {
        let path = Repository.root.appendingPathComponent(
            "Tests/Fixtures/openbandit-all.ndjson.gz"
        ).path
        guard let folder = try? TemporaryFolder(),
            let ended = try? run("/usr/bin/env", ["gzip", "-dc", path], in: folder)
        else { return [] }
        return ended.output.split(separator: "\n").map(String.init)
    }()
}
