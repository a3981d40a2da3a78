import Foundation
import IngestClient
import IngestFormat
import IngestReader
import IngestStorage

/// What a data directory holds once its daemon has stopped: the durable truth that sent events are
/// compared with.
struct LogFigures {
    let rowCount: UInt64
    /// Packets by what became of them and events by verdict; only what occurred.
    let packets: [PacketOutcome: UInt64]
    let events: [EventRow.Verdict: UInt64]
    let blockCount: UInt64
    let commitCount: UInt64
    let segmentCount: Int
    let byteCounts: [String: UInt64]

    init(_ directory: ScratchDirectory) throws {
        let status = try IngestReader.open(directory: directory.path).status()
        rowCount = status.rowCount
        packets = status.packets
        events = status.events
        let files = try LinuxFileSystem(path: directory.path, create: false)
        let manifest = try ManifestStore(files: files).readNewest()
        blockCount = manifest.sealed.reduce(0) { $0 + UInt64($1.blockCount) }
        commitCount = manifest.shard.commitEpoch
        segmentCount = manifest.sealed.count
        byteCounts = try directory.byteCounts()
    }

    var segmentByteCount: UInt64 { byteCounts["segment"] ?? 0 }
    var byteCount: UInt64 { byteCounts.values.reduce(0, +) }
}

/// Rows that are durable now, counted by the reader.
func durableRowCount(_ directory: ScratchDirectory) throws -> UInt64 {
    try IngestReader.open(directory: directory.path).status().rowCount
}

/// Watches the durable mark: when the log last grew. A read of 64 bytes, so that watching costs the
/// daemon nothing.
struct DurableWatch {
    private static let pollNanoseconds: UInt64 = 2_000_000
    private let path: String

    init(_ directory: ScratchDirectory) { path = directory.path + "/durable-mark" }

    var bytes: Data { FileManager.default.contents(atPath: path) ?? Data() }

    /// Waits until the mark has stood still for so long, at most `limit` in all.
    ///
    /// - Returns: when it last moved, by the monotonic clock; now, if it did not.
    func waitUntilStill(
        forNanoseconds still: UInt64 = 1_000_000_000,
        limitNanoseconds limit: UInt64 = 120_000_000_000
    ) -> UInt64 {
        let startedAt = SenderClock.monotonicNanoseconds()
        var last = bytes
        var movedAt = startedAt
        while true {
            let now = SenderClock.monotonicNanoseconds()
            if now - movedAt >= still || now - startedAt >= limit { return movedAt }
            SenderClock.sleep(untilMonotonicNanoseconds: now + Self.pollNanoseconds)
            let current = bytes
            if current != last {
                last = current
                movedAt = SenderClock.monotonicNanoseconds()
            }
        }
    }
}
