// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat
import IngestStorage

/// Turns sealed segments, and the live one as far as it has come, into the next generation: names run, runs
/// of the three tables, manifest, in the order of writes that leaves either the old generation or the new
/// one. Owned by the compact queue.
///
/// A sealed segment's counters are merged into the runs as `CompactionPlan` says. Those of the live segment
/// are a run of their own in each table, the *live run*, which every generation replaces whole; once the
/// segment is sealed, its footer takes their place.
///
/// **Cost** Distinct keys, not events: about 200 ns a row of the live segment and of what is merged, in the
/// memory of a page a source; and two syncs a file.
package struct SnapshotPublisher<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    let store: ManifestStore<Files>
    private let clock: Clock
    let counters: PipelineCounters
    package private(set) var manifest: Manifest
    /// The names of every key up to the manifest's cut, by ordinal; (none, none) for one that was lost.
    package private(set) var keys: [RewardKey]
    private var retired = RetiredFiles()

    package init(
        store: ManifestStore<Files>, manifest: Manifest, keys: [RewardKey], clock: Clock,
        counters: PipelineCounters
    ) {
        self.store = store
        self.manifest = manifest
        self.keys = keys
        self.clock = clock
        self.counters = counters
    }

    /// Publishes a generation that covers `segments`, sealed one after the other since the last one, and then
    /// the live segment up to `live`.
    ///
    /// - Parameter uncleanStop: noted in the manifest, with or without segments.
    /// **Errors** `overLimit`, before anything is written, if the manifest would have more entries than one can
    /// have; `corrupt` with the path of a run that cannot be merged.
    package mutating func publish(
        _ segments: [SealedSegmentFile], live: LiveCut? = nil, uncleanStop: UncleanStop? = nil
    ) throws(PipelineError) {
        try checkCounts(adding: segments)
        var next = makeNext()
        if let uncleanStop { next.note(uncleanStop) }
        if !segments.isEmpty || live != nil {
            next.add(segments)
            if let live { next.shard.move(to: live) }
            let blocks = segments.flatMap(\.names) + (live?.names ?? [])
            try writeNames(of: manifest.uncovered(blocks), into: &next)
            let replaced = manifest.liveRuns
            next.runs.removeAll { replaced.contains($0) }
            if !segments.isEmpty { try writeRuns(of: segments, into: &next) }
            if let live { try writeLiveRuns(of: live, into: &next) }
        }
        try publish(next)
    }

    /// The next generation, as yet with everything that the newest one has.
    func makeNext() -> Manifest {
        var next = manifest
        next.generation = manifest.generation.next
        next.createdAt = clock.wallMicroseconds()
        return next
    }

    /// Publishes a generation whose files are all written, and retires those that it no longer names.
    mutating func publish(_ next: Manifest) throws(PipelineError) {
        try storing { () throws(StorageError) in try store.publish(next) }
        try retire(notIn: next)
        manifest = next
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

    // MARK: Retired files

    /// Takes on files that only older generations name.
    package mutating func retire(_ names: some Sequence<FileName>) {
        retired.add(Array(names), at: clock.monotonicNanoseconds())
    }

    /// Removes the files that no reader can be on any more.
    package mutating func unlinkRetired(at now: UInt64) throws(PipelineError) {
        while let names = retired.takeDue(at: now) {
            for name in names { try storing { () throws(StorageError) in try store.unlink(name) } }
        }
    }

    private mutating func retire(notIn next: Manifest) throws(PipelineError) {
        let kept = next.fileNames
        let live = Set(manifest.liveRuns.map(\.fileName))
        let dropped = manifest.fileNames.filter { !$0.isManifest && !kept.contains($0) }
        let now = clock.monotonicNanoseconds()
        retired.add(
            dropped.filter { !live.contains($0) }, live: dropped.filter { live.contains($0) },
            at: now)
        try unlinkRetired(at: now)
    }
}

extension Manifest {
    /// Those of the blocks whose names and keys this generation does not have; its cut lies between two.
    func uncovered(_ blocks: [NamesOfBlock]) -> [NamesOfBlock] {
        blocks.filter {
            $0.firstName.rawValue >= shard.nextName && $0.firstKey.rawValue >= shard.nextKey
        }
    }

    /// Moves the cut behind segments that were sealed since, and keeps of them what is kept.
    fileprivate mutating func add(_ segments: [SealedSegmentFile]) {
        for segment in segments {
            sealed.append(segment.entry)
            lost.append(contentsOf: segment.footer.lost)
            guard let remainder = segment.remainder else {
                shard.sealedTotals.add(LogTotals(segment.footer))
                continue
            }
            // What was shown of its first blocks stays.
            shard.sealedTotals.add(shard.liveTotals)
            shard.sealedTotals.add(remainder.totals)
        }
        guard let last = segments.last?.footer else { return }
        // As recovery counts on: the epochs of blocks that were lost at the end are not given again.
        let next = segments.reduce(LogAnchor(cutOf: shard)) {
            LogAnchor(after: $1.footer, startingAt: $0)
        }
        shard.cut = last.end
        shard.cutOffset = 0
        shard.nextName = last.names.upperBound
        shard.nextKey = last.keys.upperBound
        shard.commitEpoch = next.commitEpoch &- 1
        shard.lastBlockChecksum = next.previousChecksum
        shard.liveTotals = LogTotals()
    }
}

extension ShardState {
    /// Moves the cut to a place inside the live segment.
    fileprivate mutating func move(to live: LiveCut) {
        cut = live.position
        cutOffset = live.offset
        nextName = live.next.nextName
        nextKey = live.next.nextKey
        commitEpoch = live.next.commitEpoch &- 1
        lastBlockChecksum = live.next.previousChecksum
        liveTotals = live.totals
    }
}

// MARK: - Names

extension SnapshotPublisher {
    /// Writes the blocks' names and keys, together with the newest names runs where those are no
    /// larger, so that there are about log2 of them.
    private mutating func writeNames(
        of blocks: [NamesOfBlock], into next: inout Manifest
    ) throws(PipelineError) {
        let names = manifest.shard.nextName..<next.shard.nextName
        let newKeys = manifest.shard.nextKey..<next.shard.nextKey
        appendKeys(of: blocks, upTo: next.shard.nextKey)
        if names.isEmpty && newKeys.isEmpty { return }
        let plan = CompactionPlan(
            runs: next.namesRuns.map { max(1, $0.names.count + $0.keys.count) },
            newSegmentCount: names.count + newKeys.count)
        let merged = Array(next.namesRuns.suffix(plan.mergedRunCount))
        guard let hash = KeyedHash(key: next.hashKey) else {
            throw .inconsistent("hash key of \(next.hashKey.count) bytes")
        }
        var fresh = FreshNames(
            firstName: NameOrdinal(rawValue: names.lowerBound),
            firstKey: KeyOrdinal(rawValue: newKeys.lowerBound), hash: hash)
        Self.appendNames(of: blocks, range: names, to: &fresh)
        for key in keys[Int(newKeys.lowerBound)..<Int(newKeys.upperBound)] {
            fresh.append(key: key.reward == .none ? nil : key)
        }
        fresh.sort()
        let entry = try storing { () throws(StorageError) in
            var runs: [NamesRunReader<Files>] = []
            for run in merged {
                runs.append(try NamesRunReader(run, directory: next.directory, in: store.files))
            }
            return try NamesRunWriter.write(
                next.nextFileNumber, merging: runs, and: fresh, for: next, in: store.files)
        }
        next.namesRuns.removeLast(plan.mergedRunCount)
        next.namesRuns.append(entry)
        next.nextFileNumber = next.nextFileNumber.next
        countRun(Int(entry.byteCount))
    }

    private mutating func appendKeys(of blocks: [NamesOfBlock], upTo nextKey: UInt32) {
        let lost = RewardKey(reward: .none, business: .none)
        for block in blocks {
            for (index, key) in block.keys.enumerated() {
                let ordinal = Int(block.firstKey.rawValue) + index
                while keys.count < ordinal { keys.append(lost) }
                if keys.count == ordinal { keys.append(key) }
            }
        }
        while keys.count < Int(nextKey) { keys.append(lost) }
    }

    /// Appends the names with ordinals in `range`, and gaps for those whose block was lost.
    private static func appendNames(
        of blocks: [NamesOfBlock], range: Range<UInt32>, to fresh: inout FreshNames
    ) {
        var next = range.lowerBound
        for block in blocks {
            while next < block.firstName.rawValue {
                fresh.append(name: [])
                next += 1
            }
            for index in 0..<block.names.count {
                fresh.append(name: block.names.name(index)[...])
                next += 1
            }
        }
        while next < range.upperBound {
            fresh.append(name: [])
            next += 1
        }
    }
}

extension FileName {
    /// Whether it is a manifest: those are the store's to remove.
    fileprivate var isManifest: Bool { if case .manifest = self { true } else { false } }
}
