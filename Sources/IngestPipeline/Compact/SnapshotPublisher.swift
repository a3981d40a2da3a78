// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat
import IngestStorage

/// Turns sealed segments into the next generation: names run, runs of the three tables, manifest, in the
/// order of writes that leaves either the old generation or the new one. Owned by the compact queue.
///
/// **Cost** Distinct keys, not events: about 100 ns a row of what is merged, and two syncs a file.
package struct SnapshotPublisher<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    private let store: ManifestStore<Files>
    private let clock: Clock
    private let counters: PipelineCounters
    package private(set) var manifest: Manifest
    /// The names of every key up to the manifest's cut, by ordinal; (none, none) for one that was lost.
    package private(set) var keys: [RewardKey]
    /// Files that the newest generation no longer uses, and when it was published.
    private var retired: [(name: FileName, atNanoseconds: UInt64)] = []

    /// A reader may be on the generation before for so long, before it must look at the manifest again.
    private static var unlinkAfterNanoseconds: UInt64 { 60_000_000_000 }

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

    /// Publishes a generation that covers `segments`, sealed one after the other since the last one.
    ///
    /// - Parameter uncleanStop: noted in the manifest, with or without segments.
    /// **Errors** `overLimit`, before anything is written, if the manifest would have more entries than one can
    /// have; `corrupt` with the path of a run that cannot be merged.
    package mutating func publish(
        _ segments: [SealedSegmentFile], uncleanStop: UncleanStop? = nil
    ) throws(PipelineError) {
        try checkCounts(adding: segments)
        var next = manifest
        next.generation = manifest.generation.next
        next.createdAt = clock.wallMicroseconds()
        if let uncleanStop { next.note(uncleanStop) }
        if let last = segments.last?.footer {
            for segment in segments {
                next.sealed.append(segment.entry)
                next.lost.append(contentsOf: segment.footer.lost)
            }
            next.shard.cut = last.end
            next.shard.nextName = last.names.upperBound
            next.shard.nextKey = last.keys.upperBound
            next.shard.commitEpoch = last.commitEpoch
            next.shard.lastBlockChecksum = last.lastBlockChecksum
            try writeNames(of: uncovered(segments.flatMap(\.names)), into: &next)
            try writeRuns(of: segments, into: &next)
        }
        try storing { () throws(StorageError) in try store.publish(next) }
        let kept = next.fileNames
        retire(manifest.fileNames.filter { $0.isRun && !kept.contains($0) })
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
                        + "larger --segment-bytes-max"))
        }
    }

    private func storing<Result>(
        _ body: () throws(StorageError) -> Result
    ) throws(PipelineError) -> Result {
        do { return try body() } catch { throw .storage(error) }
    }

    // MARK: Retired files

    /// Takes on files that only older generations name.
    package mutating func retire(_ names: some Sequence<FileName>) {
        let now = clock.monotonicNanoseconds()
        for name in names { retired.append((name, now)) }
    }

    /// Removes the files that no reader can be on any more.
    package mutating func unlinkRetired(at now: UInt64) throws(PipelineError) {
        while let first = retired.first,
            now &- first.atNanoseconds >= Self.unlinkAfterNanoseconds
        {
            try storing { () throws(StorageError) in try store.unlink(first.name) }
            retired.removeFirst()
        }
    }
}

// MARK: - Names

extension SnapshotPublisher {
    /// Those whose names and keys no generation has yet; a cut lies between two blocks.
    private func uncovered(_ blocks: [NamesOfBlock]) -> [NamesOfBlock] {
        blocks.filter {
            $0.firstName.rawValue >= manifest.shard.nextName
                && $0.firstKey.rawValue >= manifest.shard.nextKey
        }
    }

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

// MARK: - Runs

extension SnapshotPublisher {
    private mutating func writeRuns(
        of segments: [SealedSegmentFile], into next: inout Manifest
    ) throws(PipelineError) {
        let fresh = try FreshCounters(segments.map(\.footer), keys: keys)
        for kind in TableKind.counterTables {
            let runs = next.runs.filter { $0.table == kind }
            let plan = CompactionPlan(
                runs: runs.map { Self.segmentCount($0.span) },
                newSegmentCount: Self.segmentCount(fresh.span))
            let merged = Array(runs.suffix(plan.mergedRunCount))
            var table = fresh.table(kind)
            var span = fresh.span
            if let first = merged.first {
                var sources = [
                    CounterSource<Files>.table(table.makeCursor(), path: store.files.path)
                ]
                for run in merged {
                    let old = try storing { () throws(StorageError) in
                        try RunReader(run, directory: next.directory, in: store.files)
                    }
                    sources.append(.run(old.makeCursor()))
                }
                table = try FreshCounters.table(of: CounterMerge(sources), hasDay: kind.hasDay)
                span = LogSpan(firstSegment: first.span.firstSegment, end: fresh.span.end)
            }
            let entry = try write(table, kind, span, generation: next)
            next.nextFileNumber = next.nextFileNumber.next
            next.runs.removeAll { merged.contains($0) }
            let place =
                next.runs.lastIndex { $0.table.rawValue <= kind.rawValue }.map { $0 + 1 } ?? 0
            next.runs.insert(entry, at: place)
        }
    }

    private func write(
        _ table: CounterTable, _ kind: TableKind, _ span: LogSpan, generation next: Manifest
    ) throws(PipelineError) -> RunEntry {
        let header = RunHeader(
            table: kind, fileNumber: next.nextFileNumber, directory: next.directory, span: span,
            generation: next.generation, createdAt: next.createdAt, index: table.index)
        let image = header.encode()
        let pieces = [image, table.pages, table.index.encode()]
        try storing { () throws(StorageError) in
            try store.write(.run(kind, next.nextFileNumber), pieces)
        }
        countRun(Int(header.fileByteCount))
        return header.entry
    }

    private static func segmentCount(_ span: LogSpan) -> Int {
        Int(span.lastSegment.rawValue - span.firstSegment.rawValue) + 1
    }

    private func countRun(_ byteCount: Int) {
        counters.compact.add(.runs)
        counters.compact.add(.bytes, UInt64(byteCount))
    }
}

extension FileName {
    /// Whether it is a run of counters or names.
    fileprivate var isRun: Bool { if case .run = self { true } else { false } }
}
