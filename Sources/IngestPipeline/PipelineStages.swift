// packet → decode → [ring → admit → block → segment → compaction → snapshot] → query
import IngestFormat
import IngestRing
import IngestStorage

/// The stages of one shard, assembled over a recovered directory: everything behind the socket.
///
/// `Pipeline` gives each stage a queue of its own; a simulation steps them by hand, in one thread. Both
/// run the same code from the ring to the snapshot.
package struct PipelineStages<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    /// Gone once the input was closed.
    package var producer: RingProducer?
    package var commit: CommitStage<Clock>
    package var sync: SyncStage<Files, Clock>
    package var compact: CompactStage<Files, Clock>
    package var merge: MergeStage<Files, Clock>
    /// What the receive stage must know of the others.
    package let state: StageLinks.SharedState

    /// Says that nothing more will come: the stages finish what they have, one after the other.
    package mutating func closeInput() { producer = nil }

    /// Assembles the stages behind what `start` found.
    ///
    /// - Parameters:
    ///   - start: of a directory that this process has locked; its recovery is done.
    ///   - answers: where acks leave.
    ///   - keyRing: what tagged answers are tagged by.
    ///   - say: takes a line for the log from the compact stage, and never blocks.
    ///   - warn: as `say`, of what an operator has to look after, from all stages.
    /// **Errors** `inconsistent` if the memory of the ring cannot be had; `storage` if the reserve on disk can be
    /// neither held nor waited for.
    package init(
        _ start: consuming PipelineStart<Files, Clock>, configuration: PipelineConfiguration,
        clock: Clock, answers: any AnswerSocket, keyRing: KeyRing? = nil,
        counters: PipelineCounters,
        say: @escaping @Sendable (String) -> Void = { _ in },
        warn: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(PipelineError) {
        guard let ends = EventRing.make(byteCount: configuration.ringByteCount) else {
            throw .inconsistent("no memory for a ring of \(configuration.ringByteCount) bytes")
        }
        let links = StageLinks()
        let reserve = start.reserve
        links.state.shortage = try SyncStage<Files, Clock>.holdFirst(
            reserve, segmentByteCountMax: configuration.segmentByteCountMax)
        for _ in 0..<StageLinks.slotCount { links.free.push(BlockSlot(log: start.log)) }
        let waker = ends.consumer.waker()
        let files = start.directory.files
        let input = ends.producer
        producer = consume input
        commit = CommitStage(
            consumer: ends.consumer, dictionary: start.dictionary, repeats: start.repeats,
            clock: clock, start: start.log,
            configuration: configuration, links: links, counters: counters, warn: warn)
        sync = SyncStage(
            files: files, mark: start.mark,
            segmentByteCountMax: configuration.segmentByteCountMax, reserve: reserve, clock: clock,
            waker: waker, answers: AnswerSender(socket: answers, keyRing: keyRing), links: links,
            counters: counters, warn: warn)
        compact = CompactStage(
            publisher: start.publisher, windows: start.log.windows, files: files, clock: clock,
            reserve: reserve, configuration: configuration, links: links, counters: counters,
            say: say, warn: warn)
        state = links.state
        merge = MergeStage(
            files: files, clock: clock, links: links, counters: counters,
            spareByteCount: DiskReserve<Files>.stepByteCount(
                forSegmentsOf: UInt64(configuration.segmentByteCountMax)))
    }
}
