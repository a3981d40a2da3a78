// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestCounting
import IngestFormat
import IngestStorage

/// Turns sealed segments into the next generation: a run of their names, and a manifest in which their footers are
/// level 0, in the order of writes that leaves either the old generation or the new one. Owned by the compact queue.
///
/// Merges, which are not done here, make runs of level 0.
///
/// **Cost** 300 to 400 ns a new name; and two syncs a file.
package struct SnapshotPublisher<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    let store: ManifestStore<Files>
    let clock: Clock
    let counters: PipelineCounters
    package internal(set) var manifest: Manifest
    /// The names of every key of the sealed segments, by ordinal; (none, none) for one that was lost.
    package private(set) var keys: [RewardKey]
    /// Of the generations to come, as in `Manifest`.
    private(set) var idsCompleteSince: Int64
    /// What a start has sealed or repaired and has still to publish.
    private(set) var owed: (segments: [SealedSegmentFile], uncleanStop: UncleanStop?)?
    private var retired = RetiredFiles()
    private let leases: SegmentLeases<Files>
    private var merge = MergeState.none
    private var mergeBackoff = Backoff(milliseconds: 1_000, most: 4_000)
    /// Runs that cannot be read, and are to be made again from the log: of names, which comes first, and of tables.
    private var damaged: (names: Bool, tables: Set<FileName>) = (false, [])
    /// Of attempts at that: what cannot be read now may be there again in a minute.
    private var rebuildBackoff = Backoff(milliseconds: 60_000)

    /// Where the one merge stands that there can be at a time. Whoever carries an order to the merge queue brings its
    /// result back, whatever that is.
    private enum MergeState {
        case none
        case ordered
        /// Runs that no generation names yet.
        case written(MergedRuns)
    }

    /// - Parameter keys: those of the manifest.
    package init(
        store: ManifestStore<Files>, manifest: Manifest, keys: [RewardKey], clock: Clock,
        counters: PipelineCounters
    ) {
        self.store = store
        self.manifest = manifest
        idsCompleteSince = manifest.idsCompleteSince
        self.keys = keys
        leases = SegmentLeases(makingIn: store.files)
        self.clock = clock
        self.counters = counters
    }

    /// Of ids that were counted up to this time, µs since 1970, repeats may not have been found. What was not found once
    /// stays so, however much a later start knows.
    mutating func noteForgottenIDs(_ time: Int64) {
        idsCompleteSince = max(idsCompleteSince, time)
    }

    /// Takes on the keys of a segment that is being sealed.
    package mutating func add(_ blocks: [NamesOfBlock], upTo nextKey: UInt32) {
        keys.append(blocks, upTo: nextKey)
    }

    /// Publishes a generation that covers `segments`, sealed one after the other since the last one.
    ///
    /// **Errors** `overLimit`, before anything is written, if the manifest would have more entries than one can have. After a
    /// `Shortage` the generation before stands, nothing is left of this one, and the same or a later one can be published.
    package mutating func publish(_ segments: [SealedSegmentFile]) throws(PipelineError) {
        let start = clock.threadNanoseconds()
        try checkCounts(adding: segments)
        var next = makeNext()
        if let stop = owed?.uncleanStop { next.note(stop) }
        do throws(PipelineError) {
            if !segments.isEmpty {
                try writeFiles(of: segments, into: &next)
            }
            try publish(next)
        } catch {
            if error.shortage != nil { removeFiles(of: next) }
            throw error
        }
        owed = nil
        counters.compact.add(.publishNanoseconds, clock.threadNanoseconds() &- start)
    }

    /// Publishes what a start has sealed or repaired, and that it did. Where the disk does not take it the compact stage does so
    /// later: until then readers have it from the log, and a start would seal it again.
    /// **Errors** As `publish`, but no `Shortage`.
    mutating func publishFirst(
        _ segments: [SealedSegmentFile], uncleanStop: UncleanStop? = nil
    ) throws(PipelineError) {
        owed = (segments, uncleanStop)
        do throws(PipelineError) { try publish(segments) } catch {
            if error.shortage == nil { throw error }
        }
    }

    /// The newest generation with what is owed to it: all that is sealed at a start.
    var whole: Manifest {
        var whole = manifest
        whole.add(owed?.segments ?? [])
        if let stop = owed?.uncleanStop { whole.note(stop) }
        return whole
    }

    /// Writes what a generation has more than the one before.
    private mutating func writeFiles(
        of segments: [SealedSegmentFile], into next: inout Manifest
    ) throws(PipelineError) {
        next.add(segments)
        try measuring(.namesNanoseconds) { (publisher) throws(PipelineError) in
            try publisher.writeNames(of: segments.flatMap(\.names), into: &next)
        }
    }

    /// Writes the blocks' names and keys; merges make larger runs of them.
    private func writeNames(
        of blocks: [NamesOfBlock], into next: inout Manifest
    ) throws(PipelineError) {
        let (start, end) = (manifest.shard, next.shard)
        if start.nextName == end.nextName && start.nextKey == end.nextKey { return }
        let fresh = FreshNames(
            of: blocks, names: start.nextName..<end.nextName, keys: start.nextKey..<end.nextKey)
        let none: [NamesRunReader<Files>] = []
        let number = next.takeFileNumbers(1)
        let origin = next
        let entry = try storing { () throws(StorageError) in
            try NamesRunWriter.write(
                number, merging: none, and: fresh, for: origin, in: store.files)
        }
        next.namesRuns.append(entry)
        counters.compact.add(.namesBytes, entry.byteCount)
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
    mutating func publish(_ generation: Manifest) throws(PipelineError) {
        var next = generation
        // Until the segments that the time is of have gone: else each generation would put off what a start removes.
        if next.lastExpired > next.droppedSegment, !retired.holdsSegment(upTo: next.droppedSegment)
        {
            (next.droppedSegment, next.droppedAt) = (next.lastExpired, next.createdAt)
        }
        try storing { () throws(StorageError) in try store.publish(next) }
        retire(notIn: next)
        manifest = next
        counters.compact.add(.manifests)
        counters.compact.add(.manifestBytes, UInt64(next.fileByteCount))
    }

    private func checkCounts(adding segments: [SealedSegmentFile]) throws(PipelineError) {
        let level0Count = manifest.level0.count + segments.count
        let counts = [
            ("segments that are not merged", level0Count, Limits.manifestLevel0CountMax),
            ("names runs", manifest.namesRuns.count + 1, Limits.manifestNamesRunCountMax),
        ]
        for (what, count, max) in counts where count > max {
            throw .storage(
                .overLimit(
                    path: store.files.path,
                    detail:
                        "\(count) \(what) of at most \(max), stop the daemon and run ingest-reader "
                        + "rebuild, which merges them"))
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

    /// Whether a merge may be ordered now.
    var mayOrderMerge: Bool {
        !isMergeUnderWay && mergeBackoff.nanosecondsLeft(at: clock.monotonicNanoseconds()) == 0
    }

    /// The merge that is due, if one is and may be ordered. It has to come back by `take`.
    /// - Parameter due: segments that are to expire.
    package mutating func orderMerge(expiring due: ArraySlice<SealedSegment> = []) -> MergeOrder? {
        guard mayOrderMerge, let order = nextOrder(expiring: due) else { return nil }
        merge = .ordered
        return order
    }

    private mutating func nextOrder(expiring due: ArraySlice<SealedSegment>) -> MergeOrder? {
        let now = clock.wallMicroseconds()
        let hasDamage = damaged.names || !damaged.tables.isEmpty
        if hasDamage, rebuildBackoff.nanosecondsLeft(at: clock.monotonicNanoseconds()) == 0 {
            return manifest.orderRebuild(of: damaged.names ? [] : damaged.tables, at: now)
        }
        // Merges would find the same again; expiry needs none.
        if hasDamage, due.isEmpty { return nil }
        let order = manifest.orderMerge(
            at: now, expiring: due, isRefused: hasDamage || mergeBackoff.isWaiting)
        return hasDamage && order?.expiry == nil ? nil : order
    }

    /// Whether there is room for a generation with sealed segments: not while level 0 is full, until a merge has made
    /// room. A start and a stop need none: nothing more comes before a merge.
    package var canPublish: Bool { manifest.hasRoomForSegments }

    /// Takes an order back; what was merged is to be published.
    package mutating func take(_ result: MergeResult) {
        merge = result.runs.isEmpty ? .none : .written(result.runs)
        let now = clock.monotonicNanoseconds()
        note(result, at: now)
        if result.refusal == nil {
            _ = mergeBackoff.succeed(at: now)
        } else {
            _ = mergeBackoff.fail(at: now)
        }
    }

    private mutating func note(_ result: MergeResult, at now: UInt64) {
        let isRebuild = result.order.rebuildNumber != nil
        if let damage = result.damage {
            if case .run(.names, _)? = damage.damagedFile {
                damaged.names = true
            } else if !isRebuild, let file = damage.damagedFile {
                damaged.tables.insert(file)
            }
            if isRebuild { _ = rebuildBackoff.fail(at: now) }
        } else if isRebuild && !result.runs.isEmpty {
            _ = rebuildBackoff.succeed(at: now)
            if result.runs.names != nil { damaged.names = false } else { damaged.tables = [] }
        }
    }

    /// Publishes what was merged, if anything was, as a generation of its own. Damaged segments that expire with it are kept
    /// aside before: nobody deletes them.
    /// - Returns: what has expired, if anything has.
    package mutating func publishMerged() throws(PipelineError) -> ExpiredOutput? {
        guard case .written(let merged) = merge else { return nil }
        let damaged = merged.expired?.damaged.map { FileName.segment($0) } ?? []
        try storing { () throws(StorageError) in try store.keepAside(damaged) }
        var next = makeNext()
        next.replace(merged)
        try publish(next)
        merge = .none
        guard let expired = merged.expired else { return nil }
        counters.compact.add(.segmentsExpired, expired.segments.span.segmentCount)
        counters.compact.add(.rowsExpired, expired.segments.rowCount)
        counters.compact.add(
            .expiredBytes, expired.entry.run.byteCount + expired.entry.names.byteCount)
        return expired
    }

    /// Does the merge that is due, if one is, and publishes it: where there is no merge queue.
    /// - Parameters:
    ///   - level0CountMin: as many footers gather before they are merged.
    ///   - due: segments that are to expire.
    /// - Returns: whether one was.
    package mutating func mergeAtOnce(
        level0CountMin: Int = Limits.level0MergeCount, expiring due: ArraySlice<SealedSegment> = []
    ) throws(PipelineError) -> Bool {
        var next = makeNext()
        guard
            let order = next.orderMerge(
                at: next.createdAt, level0CountMin: level0CountMin, expiring: due)
        else { return false }
        next.replace(
            try RunMerge(
                files: store.files, order: order, counters: counters.merge, isStopped: { false }
            ).runAtOnce())
        try publish(next)
        return true
    }

    /// Merges what starts and stops without a merge between them have gathered, before a manifest can hold no more of it. What
    /// the disk does not take, or is damaged, waits for the merge queue.
    ///
    /// **Cost** Nothing but after hundreds of such lives.
    package mutating func mergeCrowd() throws(PipelineError) {
        while manifest.level0.count > Limits.manifestLevel0CountMax / 2
            || manifest.namesRuns.count > Limits.manifestNamesRunCountMax / 2
            || manifest.lost.count > Limits.manifestLostRangeCountMax / 2
        {
            do throws(PipelineError) {
                guard try mergeAtOnce() else { return }
            } catch {
                guard case .storage(let cause) = error,
                    cause.shortage != nil || cause.damagedFile != nil
                else { throw error }
                return
            }
        }
    }

    // MARK: Retired files

    /// Takes on, at a start, files that only older generations name. How long ago segments were dropped is in the
    /// manifest: were each process to begin anew, those that end within a minute would never remove any.
    package mutating func retire(_ names: [FileName]) {
        let (now, wall) = (clock.monotonicNanoseconds(), clock.wallMicroseconds())
        // A clock that went back since: the time is taken to be this one, once and for all.
        manifest.droppedAt = min(manifest.droppedAt, wall)
        let age = UInt64(wall - manifest.droppedAt).multipliedReportingOverflow(by: 1_000)
        let old = names.filter {
            if case .segment(let number) = $0 { number <= manifest.droppedSegment } else { false }
        }
        let isOld = Set(old)
        retired.add(
            old, at: now,
            age: age.overflow
                ? RetiredFiles.leasedNanoseconds
                : min(age.partialValue, RetiredFiles.leasedNanoseconds))
        retired.add(names.filter { !isOld.contains($0) }, at: now)
    }

    /// Removes the files that no reader can be on any more. What cannot be removed is tried again a minute
    /// later: nothing that is durable depends on it.
    /// - Parameter needsSpace: whether the disk is full: no lease counts then.
    package mutating func unlinkRetired(at now: UInt64, needsSpace: Bool = false) {
        while let batch = retired.takeDue(at: now) {
            let mayWait = !needsSpace && batch.age(at: now) < RetiredFiles.leasedNanoseconds
            var left: [FileName] = []
            for name in batch.names {
                if mayWait, case .segment(let number) = name, leases.isHeld(number) {
                    left.append(name)
                    continue
                }
                do { try store.unlink(name) } catch {
                    counters.compact.add(.unlinkFailures)
                    left.append(name)
                }
            }
            retired.putBack(left, of: batch, at: now)
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
        runs.map(\.fileName) + namesRuns.map(\.fileName) + expired.flatMap(\.fileNames)
    }

    /// Moves the cut behind segments that were sealed since.
    fileprivate mutating func add(_ segments: [SealedSegmentFile]) {
        for segment in segments {
            add(
                segment.footer, segment.entry,
                next: LogAnchor(after: segment.footer, startingAt: LogAnchor(cutOf: shard)))
        }
    }
}
