// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestCounting
import IngestFormat
import IngestStorage

/// Turns sealed segments into the next generation: names run, runs of reward-days and days, manifest, in the
/// order of writes that leaves either the old generation or the new one. Owned by the compact queue.
///
/// Merges, which are not done here, make fewer runs of them, and runs of rewards.
///
/// **Cost** Distinct keys, not events: 45 ns a row in the memory of a page a source; and two syncs a file.
package struct SnapshotPublisher<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    let store: ManifestStore<Files>
    let clock: Clock
    let counters: PipelineCounters
    package internal(set) var manifest: Manifest
    /// The names of every key up to the manifest's cut, by ordinal; (none, none) for one that was lost.
    package internal(set) var keys: [RewardKey]
    /// Of the generations to come, as in `Manifest`.
    private var idsCompleteSince: Int64
    private let mergesAtOnce: Bool
    private var retired = RetiredFiles()
    private var merge = MergeState.none
    private var mergeBackoff = Backoff(milliseconds: 1_000, most: 4_000)

    /// Where the one merge stands that there can be at a time. Whoever carries an order to the merge queue brings its
    /// result back, whatever that is.
    private enum MergeState {
        case none
        case ordered
        /// Runs that no generation names yet.
        case written(MergedRuns)
    }

    /// - Parameter mergesAtOnce: whether a generation merges what it appends, for a directory that is written without
    ///   a merge queue.
    package init(
        store: ManifestStore<Files>, manifest: Manifest, keys: [RewardKey], clock: Clock,
        counters: PipelineCounters, mergesAtOnce: Bool = false
    ) {
        self.mergesAtOnce = mergesAtOnce
        self.store = store
        self.manifest = manifest
        idsCompleteSince = manifest.idsCompleteSince
        self.keys = keys
        self.clock = clock
        self.counters = counters
    }

    /// Of ids that were counted up to this time, µs since 1970, repeats may not have been found. What was not found once
    /// stays so, however much a later start knows.
    mutating func noteForgottenIDs(_ time: Int64) {
        idsCompleteSince = max(idsCompleteSince, time)
    }

    /// Publishes a generation that covers `segments`, sealed one after the other since the last one.
    ///
    /// - Parameters:
    ///   - uncleanStop: noted in the manifest, with or without segments.
    ///   - isLast: whether the next one comes after a merge: that of a start, and the last one. It may have a run more
    ///     of each table.
    /// **Errors** `overLimit`, before anything is written, if the manifest would have more entries than one can
    /// have; `inconsistent` if `canPublish` is not true. After a `Shortage` the generation before
    /// stands, nothing is left of this one, and the same or a later one can be published.
    package mutating func publish(
        _ segments: [SealedSegmentFile], uncleanStop: UncleanStop? = nil, isLast: Bool = false
    ) throws(PipelineError) {
        let start = clock.threadNanoseconds()
        try checkCounts(adding: segments)
        guard segments.isEmpty || canPublish(isLast: isLast) else {
            throw .inconsistent("a generation for tables that are full")
        }
        var next = makeNext()
        if let uncleanStop { next.note(uncleanStop) }
        do throws(PipelineError) {
            if !segments.isEmpty {
                try writeFiles(of: segments, into: &next)
                if mergesAtOnce { try mergeRuns(into: &next) }
            }
            try publish(next)
        } catch {
            if error.shortage != nil { removeFiles(of: next) }
            throw error
        }
        counters.compact.add(.publishNanoseconds, clock.threadNanoseconds() &- start)
    }

    /// Writes what a generation has more than the one before.
    private mutating func writeFiles(
        of segments: [SealedSegmentFile], into next: inout Manifest
    ) throws(PipelineError) {
        next.add(segments)
        try measuring(.namesNanoseconds) { (publisher) throws(PipelineError) in
            try publisher.writeNames(of: segments.flatMap(\.names), into: &next)
        }
        try measuring(.sealedNanoseconds) { (publisher) throws(PipelineError) in
            try publisher.writeRuns(of: segments, into: &next)
        }
    }

    /// Removes what was written for a generation that was refused; the next one writes it again. What stays is
    /// removed by a start.
    private mutating func removeFiles(of next: Manifest) {
        let kept = Set(manifest.derivedNames)
        for name in next.derivedNames where !kept.contains(name) { try? store.unlink(name) }
    }

    /// Counts the time that a part of the work takes on a core.
    private mutating func measuring(
        _ counter: CompactCounter, _ body: (inout Self) throws(PipelineError) -> Void
    ) throws(PipelineError) {
        let start = clock.threadNanoseconds()
        try body(&self)
        counters.compact.add(counter, clock.threadNanoseconds() &- start)
    }

    /// The next generation, as yet with everything that the newest one has.
    func makeNext() -> Manifest {
        var next = manifest
        next.generation = manifest.generation.next
        next.createdAt = clock.wallMicroseconds()
        next.idsCompleteSince = idsCompleteSince
        return next
    }

    /// Publishes a generation whose files are all written, and retires those that it no longer names.
    mutating func publish(_ next: Manifest) throws(PipelineError) {
        try storing { () throws(StorageError) in try store.publish(next) }
        retire(notIn: next)
        manifest = next
        counters.compact.add(.manifests)
        counters.compact.add(.manifestBytes, UInt64(next.fileByteCount))
    }

    private func checkCounts(adding segments: [SealedSegmentFile]) throws(PipelineError) {
        let lostCount = segments.reduce(manifest.lost.count) { $0 + $1.footer.lost.count }
        let counts = [
            ("segments", manifest.sealed.count + segments.count, Limits.manifestFileCountMax),
            ("lost ranges", lostCount, Limits.manifestLostRangeCountMax),
        ]
        for (what, count, max) in counts where count > max {
            throw .storage(
                .overLimit(
                    path: store.files.path,
                    detail: "\(count) \(what) of at most \(max), go on in a new directory, with a "
                        + "larger --segment-bytes-max or less --retention-days"))
        }
    }

    func storing<Result>(
        _ body: () throws(StorageError) -> Result
    ) throws(PipelineError) -> Result {
        do { return try body() } catch { throw .storage(error) }
    }

    // MARK: Merges

    /// Whether an order has been given and what it wrote is in no generation yet.
    var isMergeUnderWay: Bool { if case .none = merge { false } else { true } }
    var isMergeOrdered: Bool { if case .ordered = merge { true } else { false } }
    var hasMerged: Bool { if case .written = merge { true } else { false } }

    /// The merge that is due, if one is and none is under way. It has to come back by `take`.
    ///
    /// - Parameter mayRetry: whether one that the disk refused can wait.
    package mutating func orderMerge(mayRetry: Bool = true) -> MergeOrder? {
        guard !isMergeUnderWay,
            !mayRetry || mergeBackoff.nanosecondsLeft(at: clock.monotonicNanoseconds()) == 0,
            let order = manifest.orderMerge(at: clock.wallMicroseconds())
        else { return nil }
        merge = .ordered
        return order
    }

    /// Whether the tables have room for the runs of a generation with sealed segments: not while one is full, until a
    /// merge has made room.
    package func canPublish(isLast: Bool = false) -> Bool {
        isLast ? manifest.hasRoomForLastRuns : manifest.hasRoomForRuns
    }

    /// Takes an order back; what was merged is to be published.
    package mutating func take(_ result: MergeResult) {
        merge = result.runs.isEmpty ? .none : .written(result.runs)
        let now = clock.monotonicNanoseconds()
        if result.refusal == nil {
            _ = mergeBackoff.succeed(at: now)
        } else {
            _ = mergeBackoff.fail(at: now)
        }
    }

    /// Publishes what was merged, if anything was, as a generation of its own.
    package mutating func publishMerged() throws(PipelineError) {
        guard case .written(let merged) = merge else { return }
        var next = makeNext()
        next.replace(merged)
        try publish(next)
        merge = .none
    }

    /// Merges at once as long as there is no room for a generation: at a start, where there is no merge queue yet.
    package mutating func makeRoom() throws(PipelineError) {
        while !canPublish(isLast: true),
            let order = manifest.orderMerge(at: clock.wallMicroseconds())
        {
            var next = makeNext()
            next.replace(
                try RunMerge(
                    files: store.files, order: order, counters: counters.merge,
                    isStopped: { false }
                ).runAtOnce())
            try publish(next)
        }
    }

    /// Merges the runs of a generation that is not published yet.
    private mutating func mergeRuns(into next: inout Manifest) throws(PipelineError) {
        guard let order = next.orderMerge(at: next.createdAt, runCountMin: 1) else { return }
        let before = next.derivedNames
        next.replace(
            try RunMerge(
                files: store.files, order: order, counters: counters.merge, isStopped: { false }
            ).runAtOnce())
        // Nobody has seen what this generation wrote and merged again.
        let (known, kept) = (Set(manifest.derivedNames), Set(next.derivedNames))
        for name in before where !known.contains(name) && !kept.contains(name) {
            try storing { () throws(StorageError) in try store.unlink(name) }
        }
    }

    // MARK: Retired files

    /// Takes on files that only older generations name.
    package mutating func retire(_ names: some Sequence<FileName>) {
        retired.add(Array(names), at: clock.monotonicNanoseconds())
    }

    /// Removes the files that no reader can be on any more. What cannot be removed is tried again a minute
    /// later: nothing that is durable depends on it.
    package mutating func unlinkRetired(at now: UInt64) {
        while let names = retired.takeDue(at: now) {
            var left: [FileName] = []
            for name in names {
                do { try store.unlink(name) } catch { left.append(name) }
            }
            if left.isEmpty { continue }
            counters.compact.add(.unlinkFailures, UInt64(left.count))
            retired.add(left, at: now)
        }
    }

    private mutating func retire(notIn next: Manifest) {
        let kept = Set(next.derivedNames)
        let dropped =
            manifest.derivedNames.filter { !kept.contains($0) }
            + manifest.sealed.prefix { $0.number <= next.lastExpired }
            .map { .segment($0.number) }
        let now = clock.monotonicNanoseconds()
        retired.add(dropped, at: now)
        unlinkRetired(at: now)
    }
}

extension Manifest {
    /// The files made of the log: there are some dozens of them, however many segments there are.
    fileprivate var derivedNames: [FileName] {
        runs.map(\.fileName) + namesRuns.map(\.fileName) + expired.map(\.fileName)
    }

    /// Moves the cut behind segments that were sealed since.
    fileprivate mutating func add(_ segments: [SealedSegmentFile]) {
        for segment in segments {
            sealed.append(segment.entry)
            lost.append(contentsOf: segment.footer.lost)
            shard.totals.add(LogTotals(segment.footer))
        }
        guard let last = segments.last?.footer else { return }
        // As recovery counts on: the epochs of blocks that were lost at the end are not given again.
        let next = segments.reduce(LogAnchor(cutOf: shard)) {
            LogAnchor(after: $1.footer, startingAt: $0)
        }
        shard.cut = last.end
        shard.nextName = last.names.upperBound
        shard.nextKey = last.keys.upperBound
        shard.commitEpoch = next.commitEpoch &- 1
        shard.lastBlockChecksum = next.previousChecksum
    }
}

extension SnapshotPublisher {
    /// Writes the counters of sealed segments: a run of reward-days, which is the footer's table as it lies where
    /// there is one segment, and one of days.
    mutating func writeRuns(
        of segments: [SealedSegmentFile], into next: inout Manifest
    ) throws(PipelineError) {
        let fresh = try FreshCounters<Files>(segments, path: store.files.path)
        let sums = DaySums(keys: keys)
        let entry: RunEntry
        if let table = fresh.onlyTable {
            var rows = DaySumming(fresh.rows(), into: sums)
            do { try rows.drain() } catch { throw PipelineError(merging: error) }
            let number = next.takeFileNumber()
            entry = try storing { () throws(StorageError) in
                try RunWriter.write(
                    .rewardDays, copying: table, number: number, of: fresh.span, for: next,
                    in: store.files)
            }
            next.insert(entry)
        } else {
            entry = try write(.rewardDays, of: fresh.span, into: &next) {
                sums.removeAll()
                return DaySumming(fresh.rows(), into: sums)
            }
        }
        let days = try write(.days, of: fresh.span, into: &next) { sums.makeCursor() }
        let money = next.shard.sealedMoneyMicros.addingReportingOverflow(sums.moneyMicros)
        next.shard.sealedMoneyMicros = money.overflow ? .max : money.partialValue
        counters.compact.add(.sealedRows, entry.rowCount)
        counters.compact.add(.sealedBytes, entry.byteCount &+ days.byteCount)
    }

    /// Writes one run.
    private mutating func write<Source: CounterPageSource>(
        _ table: TableKind, of span: LogSpan, into next: inout Manifest, rows: () -> Source
    ) throws(PipelineError) -> RunEntry {
        let number = next.takeFileNumber()
        let entry: RunEntry
        do {
            entry = try RunWriter.write(
                table, number: number, of: span, for: next, in: store.files, rows: rows)
        } catch {
            switch error {
            case .storage(let error): throw .storage(error)
            case .source(let error): throw PipelineError(merging: error)
            }
        }
        next.insert(entry)
        return entry
    }
}
