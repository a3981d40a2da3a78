import ArgumentParser
import Foundation
import IngestClient
import IngestFormat
import IngestKeys
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
        /// Of free memory, before the daemon started.
        let touchedByteCount: UInt64
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

        /// The daemon's, of an event that became durable: what was dropped cost it nothing.
        var cpuNanosecondsOfEvent: Double {
            Double(cpu.userNanoseconds + cpu.systemNanoseconds) / Double(max(1, durableEventCount))
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
        let touched = FreeMemory.touch(eventCount: eventCount + warmUpEventCount)
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
            residentByteCountMax: after.residentByteCountMax, touchedByteCount: touched,
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

/// What the load is made of; the same for every command that sends one.
struct MixOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Distinct rewards in the load.", valueName: "n"))
    var rewards = 100_000

    @Option(
        help: ArgumentHelp("Distinct businesses, each with its share of rewards.", valueName: "n"))
    var businesses = 1_000

    @Option(
        help: ArgumentHelp(
            "How often each reward comes: uniform, zipf, or turns (each in its turn).",
            valueName: "shape"))
    var popularity = Popularity.Shape.uniform

    @Option(help: ArgumentHelp("What names look like: uuid or number.", valueName: "style"))
    var names = EventMix.NameStyle.uuid

    @Option(
        help: ArgumentHelp(
            "Packets of 11 events that are encoded beforehand and sent round and round, ids, times and, but "
                + "with zipf, names new each time.",
            valueName: "n"))
    var poolPackets = 8_192

    @Option(
        help: ArgumentHelp(
            "Days that the event times go through during the load, up to now; 0 = all are of now. More "
                + "than 7 need --daemon-option=--max-event-age-seconds=0.",
            valueName: "n"))
    var days = 0

    @Flag(help: "Ask for acks, and keep to the window and the credit; nothing is sent again.")
    var acks = false

    @Option(
        help: ArgumentHelp(
            "Share of the events behind the first million that repeat one of these, with its id.",
            valueName: "share"))
    var repeats = 0.0

    @Option(help: ArgumentHelp("Senders, which take turns packet by packet.", valueName: "n"))
    var senders = 1

    @Flag(
        help: "Send packets one by one, by sendmmsg, not as segments of one message (UDP_SEGMENT).")
    var singly = false

    @Flag(help: "Tag every packet, and give the daemon a keys file.")
    var tags = false

    @Option(
        help: ArgumentHelp(
            "Sessions that are going on at a time, of 10 events each on average; 0 = events have none. "
                + "Needs --names number, so that 11 events fit a packet.", valueName: "n"))
    var sessions = 0

    @Option(help: ArgumentHelp("Seed of the load.", valueName: "n"))
    var seed: UInt64 = 1

    func validate() throws {
        guard rewards > 0, businesses > 0, 1...1_000_000 ~= poolPackets else {
            throw ValidationError(
                "--rewards and --businesses are 1 or more, --pool-packets 1 to 1,000,000")
        }
        guard names == .uuid || rewards <= EventMix.NameStyle.numberCountMax else {
            throw ValidationError("--rewards is at most 100,000,000 with --names number")
        }
        guard (1...4_096).contains(senders) else {
            throw ValidationError("--senders is 1 to 4,096")
        }
        guard (0...0.5).contains(repeats) else { throw ValidationError("--repeats is 0 to 0.5") }
        guard sessions == 0 || sessions > 0 && names == .number else {
            throw ValidationError("--sessions is 0, or 1 or more with --names number")
        }
        guard (0...10_000).contains(days) else { throw ValidationError("--days is 0 to 10,000") }
    }

    var options: EventMix.Options {
        EventMix.Options(
            rewardCount: rewards, businessCount: businesses, popularity: popularity,
            names: names, seed: seed, dayCount: days, sessionCount: sessions)
    }

    /// Of the load and its daemon.
    static let keyBytes: [UInt8] = (0..<32).map { $0 }

    /// Whether a pool of JSON can be of it.
    var isPlain: Bool {
        !acks && !tags && senders == 1 && repeats == 0 && sessions == 0 && days == 0
            && popularity != .zipf
    }

    func makePool(isJSON: Bool = false) -> PacketPool {
        let senders = LoadSenders(
            count: senders, first: UInt64.random(in: 1...UInt64.max / 2),
            epoch: SenderIdentity.epoch(
                unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000,
                random: UInt64.random(in: 0...UInt64.max)))
        if isJSON { return PacketPool(packetCount: poolPackets, jsonOf: options, senders: senders) }
        return PacketPool(
            packetCount: poolPackets, mix: options, senders: senders,
            key: tags ? PacketKey(id: 1, key: Self.keyBytes) : nil, asksForAcks: acks,
            repeatShare: repeats)
    }
}

/// Which daemon is measured, and where it keeps its data.
struct DaemonOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The daemon; beside this program by default.", valueName: "path"))
    var daemon: String?

    @Option(
        help: ArgumentHelp(
            "Where data directories are made; they are removed at the end. On the disk that is to be "
                + "measured.", valueName: "dir"))
    var scratch = "/tmp"

    @Flag(help: "Leave the data directory and the daemon's log where they are, and say where.")
    var keep = false

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            "A further option for the daemon, as in --daemon-option=--commit-interval-ms=10.",
            valueName: "option"))
    var daemonOption: [String] = []

    /// The path of a program that was built together with this one.
    static func besideThis(_ name: String) -> String {
        Bundle.main.executableURL!.deletingLastPathComponent().appendingPathComponent(name).path
    }

    var daemonPath: String { daemon ?? Self.besideThis("ingestd") }

    /// - Parameter hasKeys: it takes packets under the load's key alone.
    func start(in directory: ScratchDirectory, hasKeys: Bool = false) throws -> DaemonProcess {
        var arguments = daemonOption
        if hasKeys {
            let path = directory.path + ".keys"
            let key = MixOptions.keyBytes.map { String(0x100 | Int($0), radix: 16).dropFirst() }
            guard
                FileManager.default.createFile(
                    atPath: path, contents: Data("1 \(key.joined())\n".utf8),
                    attributes: [.posixPermissions: 0o600])
            else { throw BenchFailure("\(path) cannot be made") }
            arguments.append("--keys=\(path)")
        }
        return try DaemonProcess(
            DaemonProcess.Options(
                executable: daemonPath, directory: directory.path, arguments: arguments))
    }

    func makeScratch() throws -> ScratchDirectory {
        try ScratchDirectory(in: scratch, isKept: keep)
    }
}

extension Popularity.Shape: ExpressibleByArgument {}
extension EventMix.NameStyle: ExpressibleByArgument {}

/// A directory of its own for one run, removed with it.
final class ScratchDirectory {
    let path: String
    private let isKept: Bool

    init(in parent: String, isKept: Bool) throws {
        let name = "ingest-bench-" + String(UInt64.random(in: 0...UInt64.max), radix: 36)
        path = URL(fileURLWithPath: parent).appendingPathComponent(name).path
        self.isKept = isKept
        if !isKept { RunRemains.add(paths: Self.paths(path)) }
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    /// It, and what stands beside it.
    private static func paths(_ path: String) -> [String] {
        [path, path + ".log", path + ".keys"]
    }

    /// A directory under a name of the caller's, which stays.
    init(at path: String) throws {
        self.path = path
        isKept = true
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        if isKept {
            print("\nkept: \(path) and \(path).log")
        } else {
            RunRemains.remove(paths: Self.paths(path))
        }
    }

    /// Bytes of the files in it, by the end of their names.
    func byteCounts() throws -> [String: UInt64] {
        var sums: [String: UInt64] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: path) {
            let attributes = try FileManager.default.attributesOfItem(atPath: path + "/" + name)
            guard attributes[.type] as? FileAttributeType == .typeRegular else { continue }
            let kind = name.split(separator: ".", maxSplits: 1).last.map(String.init) ?? name
            sums[kind, default: 0] += (attributes[.size] as? NSNumber)?.uint64Value ?? 0
        }
        return sums
    }
}
