import Foundation
import Glibc
import TestSupport
import Testing

/// `ingest-send --follow` and `--listen`, and what they are given.
enum AgentProgram {
    /// A click without an id: nothing but places and sequences keeps it from being counted twice.
    static func line(_ number: Int) -> String {
        #"{"eventType":"click","rewardId":"r\#(number % 5)","businessId":"b","timestamp":"#
            + "\(1_700_000_000_000 + number)}"
    }

    /// - Parameter hasSmallSockets: root may have larger socket buffers than net.core.rmem_max; not then.
    static func start(
        to address: String, _ arguments: [String], in folder: TemporaryFolder,
        hasSmallSockets: Bool = false
    ) throws -> Running {
        let all = ["--to", address, "--spool", folder.path + "/spool"] + arguments
        guard hasSmallSockets, getuid() == 0 else {
            return try Running("ingest-send", all, in: folder)
        }
        return try Running(
            "/usr/bin/env",
            ["setpriv", "--bounding-set=-net_admin", Programs.path("ingest-send")] + all,
            in: folder)
    }

    static func summary(_ ended: Ended) throws -> [String: Any] {
        let summary = try JSONSerialization.jsonObject(with: Data(ended.output.utf8))
        return summary as? [String: Any] ?? [:]
    }
}
