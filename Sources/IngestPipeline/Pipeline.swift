// [packet → decode → ring → admit → block → segment → compaction → snapshot] → query
import IngestFormat
import IngestKeys
import IngestRing
import IngestStorage

/// A running pipeline: one socket, one log, five queues. What the daemon starts and stops.
///
/// Start order is the order of the data, from its end: the stages behind the ring run before the first
/// datagram is received. Stop order is the order of the data: receive, commit, sync, compact, merge, each
/// ending because the one before has.
package final class Pipeline: Sendable {
    package let counters: PipelineCounters
    private let keyRing: KeyRing?
    private let zones: InForce<BusinessZones>
    private let owners: InForce<RewardOwners>
    /// Kept for its lock: another daemon must not find the directory free while this one writes to it.
    private let directory: DataDirectory<LinuxFileSystem>
    private let receiveQueue = StageQueue(name: "ingestd.receive")
    private let commitQueue = StageQueue(name: "ingestd.commit")
    private let syncQueue = StageQueue(name: "ingestd.sync")
    private let compactQueue = StageQueue(name: "ingestd.compact")
    private let mergeQueue = StageQueue(name: "ingestd.merge")

    /// Starts the stages over an opened directory.
    ///
    /// - Parameters:
    ///   - start: the directory; held, and locked, until the pipeline has stopped.
    ///   - socket: bound; nothing was received from it yet.
    ///   - keys: what packets must be tagged by; `nil` takes all.
    ///   - onFailure: called once for each stage that cannot go on, on that stage's queue. The process
    ///     is expected to end: the durable log is whole, and the next start goes on from there.
    package init(
        _ start: consuming PipelineStart<LinuxFileSystem, LinuxClock>,
        socket: consuming LinuxDatagramSocket, keys: KeysFile?,
        configuration: PipelineConfiguration,
        counters: PipelineCounters, log: LogLines,
        onFailure: @escaping @Sendable (PipelineError) -> Void
    ) throws(PipelineError) {
        self.counters = counters
        directory = start.directory
        let configuration = try Self.limited(configuration, in: directory, log)
        let clock = LinuxClock()
        let (hash, logID) = (start.hash, start.log.directory)
        keyRing = keys.map { KeyRing($0, hash: hash) }
        guard let batch = PacketBatch() else {
            throw .inconsistent("no memory for \(PacketBatch.defaultCapacity) receive buffers")
        }
        var stages = try PipelineStages(
            start, configuration: configuration, clock: clock, acks: socket.acks,
            keyRing: keyRing, counters: counters,
            say: { log.inform($0) }, warn: { log.warn($0) })
        zones = stages.zones
        owners = stages.owners
        guard let producer = stages.producer.take() else { throw .inconsistent("no ring") }
        let acks = socket.acks
        let receiver = UDPReceiver(
            socket: socket, batch: batch, ring: producer, hash: hash,
            acks: AckSender(socket: acks, directory: logID, keyRing: keyRing),
            keyRing: keyRing, state: stages.state, clock: clock, counters: counters,
            warn: { log.warn($0) })
        mergeQueue.start(stages.merge, onFailure: onFailure)
        compactQueue.start(stages.compact, onFailure: onFailure)
        syncQueue.start(stages.sync, onFailure: onFailure)
        commitQueue.start(stages.commit) { (_: Never) in }
        receiveQueue.start(receiver) { onFailure(.socket($0)) }
    }

    private static func limited(
        _ configuration: PipelineConfiguration, in directory: DataDirectory<LinuxFileSystem>,
        _ log: LogLines
    ) throws(PipelineError) -> PipelineConfiguration {
        var configuration = configuration
        let space: FileSystemSpace
        do { space = try directory.files.space() } catch { throw .storage(error) }
        if configuration.limitSegments(to: space) {
            log.inform(
                """
                segments of \(configuration.segmentByteCountMax) bytes: an eighth of the file system of \
                \(space.totalByteCount) bytes
                """)
        }
        return configuration
    }

    /// Takes packets under these keys from now on.
    package func replaceKeys(by keys: KeysFile) { keyRing?.replace(by: keys) }

    /// Writes days by these zones from the next block's first row on.
    package func replaceZones(by zones: BusinessZones) { self.zones.replace(by: zones) }

    /// Takes these for the owners of their rewards from the next block's first row on.
    package func replaceOwners(by owners: RewardOwners) { self.owners.replace(by: owners) }

    /// Stops receiving, then waits until everything received is durable, sealed and published. A disk that does not
    /// take it is not waited for: that ends the stage.
    package func stop() {
        receiveQueue.stop()
        receiveQueue.join()
        syncQueue.stop()
        compactQueue.stop()
        for queue in [commitQueue, syncQueue, compactQueue, mergeQueue] {
            queue.join()
        }
    }
}

/// The stages of one shard, assembled over a recovered directory: everything behind the socket.
///
/// `Pipeline` gives each stage a queue of its own; a simulation steps them by hand, in one thread. Both
/// run the same code from the ring to the snapshot.
package struct PipelineStages<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    /// `nil` closes the input: nothing more will come, and the stages finish what they have, one after the other.
    package var producer: RingProducer?
    package var commit: CommitStage<Clock>
    package var sync: SyncStage<Files, Clock>
    package var compact: CompactStage<Files, Clock>
    package var merge: MergeStage<Files, Clock>
    /// What the receive stage must know of the others.
    package let state: StageLinks.SharedState
    /// What days are made by.
    package let zones: InForce<BusinessZones>
    /// Of rewards, where they are not those of the log.
    package let owners: InForce<RewardOwners>

    /// Assembles the stages behind what `start` found.
    ///
    /// - Parameters:
    ///   - start: of a directory that this process has locked; its recovery is done.
    ///   - acks: where acks leave.
    ///   - keyRing: what tagged acks are tagged by.
    ///   - say: takes a line for the log from the compact stage, and never blocks.
    ///   - warn: as `say`, of what an operator has to look after, from all stages.
    /// **Errors** `inconsistent` if the memory of the ring cannot be had; `storage` if the reserve on disk can be
    /// neither held nor waited for.
    package init(
        _ start: consuming PipelineStart<Files, Clock>, configuration: PipelineConfiguration,
        clock: Clock, acks: any AckSocket, keyRing: KeyRing? = nil,
        counters: PipelineCounters,
        say: @escaping @Sendable (String) -> Void = { _ in },
        warn: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(PipelineError) {
        guard let ends = EventRing.make(byteCount: configuration.ringByteCount) else {
            throw .inconsistent("no memory for a ring of \(configuration.ringByteCount) bytes")
        }
        let links = StageLinks()
        let reserve = start.reserve
        var shortage = try SyncStage<Files, Clock>.holdFirst(
            reserve, segmentByteCountMax: configuration.segmentByteCountMax)
        let log = start.log
        links.state.durableEpoch = log.commitEpoch - min(log.commitEpoch, 1)
        for _ in 0..<StageLinks.slotCount { links.free.push(BlockSlot(log: log)) }
        let files = start.directory.files
        let first = try SyncStage<Files, Clock>.beginFirst(
            log.segmentHeader, segmentByteCountMax: configuration.segmentByteCountMax, in: files,
            &shortage)
        links.state.shortage = shortage
        zones = InForce(configuration.zones)
        owners = InForce(configuration.owners)
        let waker = ends.consumer.waker()
        let input = ends.producer
        producer = consume input
        commit = CommitStage(
            consumer: ends.consumer, hash: start.hash, dictionary: start.dictionary,
            attributions: start.attributions, repeats: start.repeats, sessions: start.sessions,
            clock: clock, start: start.log, configuration: configuration, zones: zones,
            owners: owners,
            acks: AckSender(socket: acks, directory: log.directory, keyRing: keyRing),
            keyRing: keyRing, links: links, counters: counters, warn: warn)
        sync = SyncStage(
            files: files, mark: start.mark, first: first, of: log.segmentHeader,
            segmentByteCountMax: configuration.segmentByteCountMax, reserve: reserve, clock: clock,
            waker: waker,
            acks: AckSender(socket: acks, directory: log.directory, keyRing: keyRing), links: links,
            counters: counters, warn: warn)
        compact = CompactStage(
            publisher: start.publisher, windows: start.log.windows,
            sessionKeys: start.sessionKeys, files: files, clock: clock,
            reserve: reserve, configuration: configuration, links: links, counters: counters,
            say: say, warn: warn)
        state = links.state
        merge = MergeStage(
            files: files, clock: clock, links: links, counters: counters,
            spareByteCount: DiskReserve<Files>.stepByteCount(
                forSegmentsOf: UInt64(configuration.segmentByteCountMax)))
    }
}

/// What an operator may choose, already judged. Defaults are those of `ingestd --help`.
package struct PipelineConfiguration: Sendable {
    package var zones = BusinessZones.utc
    package var owners = RewardOwners()
    /// Reward keys of one business; what is beyond is counted under its `(other)`.
    package var rewardKeyCountMax = 1_000_000
    /// The greatest revenue and the greatest spend of one event, micros, at most `Limits.moneyMicrosMax`: what has more is
    /// malformed.
    package var moneyMicrosMax: Int64 = 1_000_000_000_000
    package var quotas = KeyQuotas.Bounds()
    /// A power of two within `RingLayout`'s bounds.
    package var ringByteCount = Limits.ringByteCount
    /// `Limits.segmentByteCountMin` … `Limits.segmentByteCountMax`.
    package var segmentByteCountMax = Limits.segmentByteCountDefault
    /// How old a block may get before it is closed, while there is something else to do.
    package var commitIntervalNanoseconds: UInt64 = 5_000_000
    /// How often a generation of sealed segments may be published.
    package var compactIntervalNanoseconds: UInt64 = 1_000_000_000
    /// Which rows are removed; their counters stay.
    package var retention = RetentionPolicy()
    /// Sealed segments that wait for a generation are kept in memory with their counters and names; at so many, or
    /// so many bytes of these, one is published before its time.
    package var unpublishedSegmentCountMax = 16
    package var unpublishedByteCountMax: UInt64 = 64 << 20

    package init() {}

    /// What all senders together may have on its way here: nearly what the ring holds, for a packet that finds it full is
    /// shed. An eighth is for those that are beyond a grant.
    package var creditByteCount: Int { ringByteCount / 8 * 7 }

    /// Segments of at most an eighth of the file system, as far as they may be so small: a start copies what a
    /// crash left unsealed, and must find room for that.
    /// - Returns: whether that is less than what was chosen.
    package mutating func limitSegments(to space: FileSystemSpace) -> Bool {
        // A file system that does not say how large it is.
        guard space.totalByteCount > 0 else { return false }
        let eighth = Int(clamping: space.totalByteCount / 8)
        let byteCountMax = max(eighth, Limits.segmentByteCountMin)
        guard byteCountMax < segmentByteCountMax else { return false }
        segmentByteCountMax = byteCountMax
        return true
    }
}

/// What ends a pipeline. Everything that a packet can cause is a counted refusal and never one of these.
package enum PipelineError: Error, Sendable {
    /// The directory could not be read or written.
    case storage(StorageError)
    /// The socket could not be read.
    case socket(SocketError)
    /// The footer of a sealed segment is damaged. A start seals the segment again.
    case footer(StorageError)
    /// Something that the pipeline itself keeps true was found untrue. Nothing more is written; the log
    /// is whole up to the durable mark, and the next start goes on from there.
    case inconsistent(String)

    /// As `StorageError.shortage`.
    package var shortage: Shortage? {
        if case .storage(let error) = self { error.shortage } else { nil }
    }

    /// What has to be free for what a full disk refused, in bytes, where that is known.
    var wantedByteCount: UInt64? {
        guard case .storage(.diskFull(_, _, _, let wanted)) = self else { return nil }
        return wanted
    }

    /// The exit code; the table is in docs/operations.md.
    package var exitCode: Int32 {
        switch self {
        case .storage(let error): error.exitCode
        case .socket(let error): error.exitCode
        // Not 65, "corrupt data": a start mends the one, and the fault of the other is the program's.
        case .footer, .inconsistent: 74
        }
    }
}

extension PipelineError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .storage(let error): "\(error)"
        case .socket(let error): "\(error)"
        case .footer(let error):
            "damaged footer: \(error.finding), start again: the segment is sealed again from its blocks"
        case .inconsistent(let what):
            "internal state, \(what), keep the directory as it is and report this; "
                + "then start again: the durable log is whole"
        }
    }
}
