import Foundation
import IngestClient
import IngestFormat
import IngestReader
import IngestStorage

/// One load against one fresh daemon: start, send, wait until the log stands still, stop, count.
struct LoadRun {
    struct Result {
        let sent: SendFigures
        /// Events that were sent before them.
        let warmUpEventCount: UInt64
        let log: LogFigures
        /// From the first departure to the last growth of the log.
        let durableNanoseconds: UInt64
        /// Of the daemon, from before the first packet until the log had stood still for a second.
        let cpu: CPUFigures
        let memory: [MemoryWatch.Sample]
        let residentByteCountMax: UInt64
        let writtenByteCount: UInt64
        let kernelDropCount: UInt64
        let readySeconds: Double
        let stopSeconds: Double
        /// Of the daemon's log: what it said of its receive buffer.
        let receiveBuffer: String
        /// Of its last lines: bytes written by kind of file, and what the compact and the merge queue spent on what.
        let writtenByKind: [(name: String, value: UInt64)]
        let compactNanoseconds: [(name: String, value: UInt64)]
        let compactCounts: [(name: String, value: UInt64)]

        /// Events that were sent and are not durable; negative would be events that nobody sent.
        var lostEventCount: Int64 {
            Int64(sent.eventCount + warmUpEventCount) - Int64(log.eventCount)
        }
        /// Of those that were sent after the warm-up.
        var durableEventCount: UInt64 { log.eventCount - min(log.eventCount, warmUpEventCount) }

        var durableEventsPerSecond: Double {
            Double(durableEventCount) / (Double(durableNanoseconds) / 1e9)
        }
    }

    struct CPUFigures {
        let userNanoseconds: UInt64
        let systemNanoseconds: UInt64
        /// By thread name, longest first.
        let threads: [(name: String, nanoseconds: UInt64)]

        init(from before: ProcessFigures, to after: ProcessFigures) {
            userNanoseconds = after.userNanoseconds - before.userNanoseconds
            systemNanoseconds = after.systemNanoseconds - before.systemNanoseconds
            threads = after.threadNanoseconds
                .map { ($0.key, $0.value - min($0.value, before.threadNanoseconds[$0.key] ?? 0)) }
                .sorted { $0.1 > $1.1 }
        }
    }

    let daemon: DaemonOptions
    var isSingly = false

    func run(
        _ pool: inout PacketPool, eventCount: UInt64, eventsPerSecond: Double,
        warmUpEventCount: UInt64 = 0, onSample: (@Sendable (MemoryWatch.Sample) -> Void)? = nil,
        sampleMilliseconds: Int = 200
    ) throws -> Result {
        let directory = try daemon.makeScratch()
        let process = try daemon.start(in: directory, hasKeys: pool.isTagged)
        let sender = try LoadSender(to: process.address, isSingly: isSingly)
        var warmUp = SendFigures()
        if warmUpEventCount > 0 {
            warmUp = try sender.send(
                &pool, eventCount: warmUpEventCount, eventsPerSecond: eventsPerSecond / 10)
            _ = DurableWatch(directory).waitUntilStill()
        }
        let before = try ProcessFigures(processID: process.processID)
        let watch = MemoryWatch(
            processID: process.processID, intervalMilliseconds: sampleMilliseconds,
            onSample: onSample)
        let startedAt = SenderClock.monotonicNanoseconds()
        let sent = try sender.send(
            &pool, eventCount: eventCount, eventsPerSecond: eventsPerSecond,
            firstEvent: warmUp.eventCount)
        let durableAt = DurableWatch(directory).waitUntilStill()
        let after = try ProcessFigures(processID: process.processID)
        let memory = watch.stop()
        let drops = kernelDropCount(port: HostPort(process.address)?.port ?? 0)
        let stopSeconds = try process.stop()
        return Result(
            sent: sent, warmUpEventCount: warmUp.eventCount, log: try LogFigures(directory),
            durableNanoseconds: max(durableAt, startedAt + sent.nanoseconds) - startedAt,
            cpu: CPUFigures(from: before, to: after), memory: memory,
            residentByteCountMax: after.residentByteCountMax,
            writtenByteCount: after.writtenByteCount - before.writtenByteCount,
            kernelDropCount: drops, readySeconds: process.readySeconds, stopSeconds: stopSeconds,
            receiveBuffer: process.receiveBuffer,
            writtenByKind: process.lastNumbers(of: "bytes written"),
            compactNanoseconds: process.lastNumbers(of: "CPU nanoseconds"),
            compactCounts: process.lastNumbers(of: "counted")
                + process.lastNumbers(of: "rows by reward and day"))
    }
}

/// What a data directory holds once its daemon has stopped: the durable truth that sent events are
/// compared with.
struct LogFigures {
    let rowCount: UInt64
    /// Packets by what became of them and events by verdict; only what occurred.
    let packets: [PacketResult: UInt64]
    let events: [Verdict: UInt64]
    let blockCount: UInt64
    let commitCount: UInt64
    let segmentCount: Int
    /// Of the ledger: a refused event whose names are not known has no row.
    var eventCount: UInt64 { events.values.reduce(0, +) }
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
