// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestCounting
import IngestFormat

/// Makes what is derived from the log again: the manifest, names and counter tables. What a start does that misses one
/// of them or cannot read it, and `ingest-reader rebuild`. For the same log it writes the same bytes.
///
/// Counters come from the footers of all segments and what is left of expired ones, names from the blocks that
/// introduced them, all else from headers and footers. Order: runs of some segments each, where there are more; one
/// names run and one run of each table; a manifest that names these alone. A crash before that leaves files with
/// numbers still to be given, which a start removes.
///
/// **Cost** All footers, and the blocks with new names; that of `TableMerge`, once or twice; 8 bytes a key.
package struct LogRebuild<Files: FileSystem> {
    private let store: ManifestStore<Files>
    private var next: Manifest
    /// What was there before.
    private let present: Set<FileName>
    /// Names runs of which a page cannot be believed.
    private var damagedNames: [FileName] = []
    /// Files that are merged again.
    private var scratch: [FileName] = []
    private var made: [FileName] = []
    private let isStopped: @Sendable () -> Bool
    /// Whether to go on without the counters of segments that expired without a footer: they were in runs only.
    private var mayMiss = false
    /// Whether the runs that are replaced may have counters that the log no longer has.
    private var isLossy = false

    /// What is made again beside the counter tables.
    package enum Names: Sendable {
        /// Names runs stay as they are.
        case kept
        /// Those behind the first run that cannot be read are made again, from the blocks that introduced them.
        case made
    }

    /// Publishes the next generation, with tables that were made again.
    ///
    /// - Parameters:
    ///   - manifest: the newest, or one that was made from the log (`manifest(of:)`).
    ///   - hasTables: whether counter tables are made; the runs of the manifest stay otherwise.
    ///   - bad: runs of rewards and days that alone are made again, each of the reward-days run beside it; none: all are
    ///     made, from the log. With a key that is lost no days are made so but with `mayMiss`: footers may know its business.
    ///   - mayMiss: whether to go on without the counters of segments that expired without a footer, which is otherwise an
    ///     error. Where such may be in the runs that are replaced, these are put aside before.
    /// **Errors** `corrupt`, `notFound` for a footer or an expired one that cannot be read: then what is there is
    /// all that there is. Those of writing.
    package static func run(
        _ store: ManifestStore<Files>, after manifest: Manifest, names: Names = .kept,
        hasTables: Bool = true, bad: Set<FileName> = [], mayMiss: Bool = false
    ) throws(StorageError) -> Manifest {
        var rebuild = try LogRebuild(store, manifest)
        rebuild.mayMiss = mayMiss
        // Behind those of a generation whose manifest is gone: they are evidence.
        let numbers = rebuild.present.compactMap(\.fileNumber?.next)
        rebuild.next.nextFileNumber = max(
            manifest.nextFileNumber, numbers.max() ?? manifest.nextFileNumber)
        return try rebuild.run(names, hasTables: hasTables, bad: bad) {
            (made) throws(StorageError) in try store.publish(made)
        }
    }

    /// Writes the files of the next generation without publishing it: beside a daemon's own generations.
    ///
    /// - Parameters:
    ///   - manifest: its next file number, and those behind, up to four for each sealed segment and two more, are nobody
    ///     else's.
    ///   - isStopped: asked once a page: whether to end early.
    /// - Returns: the manifest with them; `nil` if it was stopped, and nothing is left of what was written.
    /// **Errors** as `run`.
    package static func files(
        of store: ManifestStore<Files>, for manifest: Manifest, names: Names, hasTables: Bool,
        isStopped: @escaping @Sendable () -> Bool
    ) throws(StorageError) -> Manifest? {
        var rebuild = try LogRebuild(store, manifest, isStopped)
        let made = try rebuild.run(names, hasTables: hasTables, bad: []) {
            (_) throws(StorageError) in
        }
        if !isStopped() { return made }
        rebuild.removeFiles(rebuild.made)
        return nil
    }

    private init(
        _ store: ManifestStore<Files>, _ manifest: Manifest,
        _ isStopped: @escaping @Sendable () -> Bool = { false }
    ) throws(StorageError) {
        self.store = store
        self.isStopped = isStopped
        present = Set(try store.files.names().compactMap { FileName($0) })
        next = manifest
        next.generation = manifest.generation.next
    }

    private mutating func run(
        _ names: Names, hasTables: Bool, bad: Set<FileName>,
        publish: (Manifest) throws(StorageError) -> Void
    ) throws(StorageError) -> Manifest {
        defer { removeFiles(scratch) }
        do throws(StorageError) {
            if case .made = names { try makeNames() }
            if !bad.isEmpty { try makeTables(again: bad) } else if hasTables { try makeTables() }
            try keepEvidence()
            try publish(next)
        } catch {
            // Behind a sync that failed the manifest that names them may stand all the same.
            if case .durabilityLost = error { throw error }
            removeFiles(made)
            throw error
        }
        return next
    }

    /// Keeps in `aside/` what is replaced and not made again for certain: damaged names runs, whose pages may have names that
    /// are nowhere else, and the runs of counters, where the log has not all that was in them.
    private func keepEvidence() throws(StorageError) {
        let kept = Set(next.runs.map(\.fileName))
        let runs = present.filter { name in
            guard case .run(let table, _) = name else { return false }
            return TableKind.counterTables.contains(table) && !kept.contains(name)
        }
        try store.keepAside((isLossy ? Array(runs) : []) + damagedNames)
    }

    // MARK: Tables

    /// Of reward-days, the others: a reward is the sum of its days, a day that of its rewards.
    private mutating func makeTables(again bad: Set<FileName>) throws(StorageError) {
        for (place, run) in next.runs.enumerated() where bad.contains(run.fileName) {
            let whole = next.runs.first { $0.table == .rewardDays && $0.span == run.span }
            guard run.table != .rewardDays, let whole, !bad.contains(whole.fileName) else {
                throw .corrupt(
                    path: "\(store.files.path)/\(run.fileName.text)", offset: 0,
                    detail: "no reward-days run to make it of")
            }
            let reader = try RunReader(whole, directory: next.directory, in: store.files)
            if run.table == .days {
                let keys = try store.readKeys(of: next)
                guard mayMiss || !keys.contains(where: { $0.business.rawValue == 0 }) else {
                    throw .corrupt(path: whole.fileName.text, offset: 0, detail: "lost keys")
                }
                let sums = DaySums(keys: keys)
                try add(reader, to: sums)
                next.runs[place] = try write(sums, of: run.span)
            } else {
                let rewards = try RunWriter.merge(
                    run.table, takeNumbers(1), of: run.span, for: next, metadata: RunMetadata(),
                    [reader], in: store.files, isStopped: isStopped)
                guard let rewards else { return }
                next.runs[place] = rewards
            }
            made.append(next.runs[place].fileName)
        }
    }

    private mutating func makeTables() throws(StorageError) {
        next.runs = []
        isLossy = mayMiss || !next.lost.isEmpty
        if next.cut == .start { return }
        var whole = newMerge()
        try addExpired(to: &whole)
        var first = 0
        while next.sealed.count - first > Limits.level0MergeCountMax {
            let segments = next.sealed[first..<first + Limits.level0MergeCountMax]
            first = segments.endIndex
            var part = newMerge()
            for segment in segments { try part.add(segment) }
            let runs = try write(part, of: segments, makesRewards: false)
            scratch += runs.map(\.fileName)
            try whole.add(runs)
        }
        for segment in next.sealed[first...] { try whole.add(segment) }
        next.runs = try write(whole, of: next.sealed[...])
        made += next.runs.map(\.fileName)
    }

    private func newMerge() -> TableMerge<Files> { TableMerge(for: next, in: store.files) }

    /// - Parameter segments: whose counters the runs have; with all of them, those of expired ones too.
    private mutating func write(
        _ merge: TableMerge<Files>, of segments: ArraySlice<SealedSegment>,
        makesRewards: Bool = true
    ) throws(StorageError) -> [RunEntry] {
        let first = makesRewards ? nil : segments.first?.number
        let last = makesRewards ? nil : segments.last
        let span = LogSpan(
            firstSegment: first ?? LogPosition.start.segment.next,
            end: last.map { LogPosition(segment: $0.number, blockCount: $0.blockCount) } ?? next.cut
        )
        return try merge.run(
            of: span, firstNumber: takeNumbers(TableKind.counterTables.count),
            makesRewards: makesRewards, isStopped: isStopped) ?? []
    }

    /// Adds what is left of expired segments: reward-days as they lie, and days made of them.
    private mutating func addExpired(to merge: inout TableMerge<Files>) throws(StorageError) {
        guard let last = next.expired.last else { return }
        let sums = DaySums(keys: try store.readKeys(of: next))
        for entry in next.expired {
            let run = try RunReader(entry.run, directory: next.directory, in: store.files)
            let missingCount = try run.readExpired().missingCount
            guard missingCount == 0 || mayMiss else {
                throw .corrupt(
                    path: run.path, offset: 0,
                    detail:
                        "\(missingCount) segments without a footer: their counters are in runs only"
                )
            }
            merge.add(rewardDays: run)
            try add(run, to: sums)
        }
        let span = LogSpan(firstSegment: LogPosition.start.segment.next, end: last.span.end)
        let run = try write(sums, of: span)
        scratch.append(run.fileName)
        merge.add(days: try RunReader(run, directory: next.directory, in: store.files))
    }

    private func add(_ run: RunReader<Files>, to sums: DaySums) throws(StorageError) {
        var rows = DaySumming(run.makeCursor(), into: sums)
        do { try rows.drain() } catch {
            if case .source(let error) = error { throw error }
            throw .corrupt(
                path: run.path, offset: 0, detail: "counters that cannot be: \(error)")
        }
    }

    private mutating func write(
        _ sums: DaySums, of span: LogSpan
    ) throws(StorageError) -> RunEntry {
        do {
            return try RunWriter.write(
                .days, number: takeNumbers(1), of: span, for: next, in: store.files
            ) { sums.makeCursor() }
        } catch {
            switch error {
            case .storage(let error): throw error
            }
        }
    }

    // MARK: Names

    /// Makes one names run, of the runs that can be read up to the first that cannot, of the blocks behind them, and of what
    /// pages that can be read have of names whose blocks are gone. What is nowhere is lost: its ordinals stay.
    private mutating func makeNames() throws(StorageError) {
        var parts = try soundNames()
        var start = (parts.last?.names.upperBound ?? 1, parts.last?.keys.upperBound ?? 0)
        var (blocks, byteCount): ([NamesOfBlock], Int) = ([], 0)
        for (place, segment) in next.sealed.enumerated() {
            let isLast = place == next.sealed.count - 1
            let found = try SealedBlocks(segment, directory: next.directory, in: store.files)
            let names = try found.readNames(of: segment.number, next.directory)
            blocks += names
            byteCount += names.reduce(0) { $0 + $1.names.byteCount }
            guard isLast || byteCount >= Limits.rollNameByteCount else { continue }
            let reach =
                blocks.last.map { ($0.nameRange.upperBound, $0.keyRange.upperBound) } ?? start
            let end = isLast ? (next.shard.nextName, next.shard.nextKey) : reach
            if end.0 > start.0 || end.1 > start.1 {
                let (names, keys) = (start.0..<max(start.0, end.0), start.1..<max(start.1, end.1))
                let known = try KnownNames(
                    names, keys, notIn: blocks, of: next.namesRuns, directory: next.directory,
                    in: store.files)
                let fresh = FreshNames(
                    of: blocks, names: names, keys: keys, name: known.name, key: known.key)
                parts.append(try write([], fresh))
                scratch.append(parts[parts.count - 1].fileName)
                start = (fresh.names.upperBound, fresh.keyRange.upperBound)
            }
            (blocks, byteCount) = ([], 0)
        }
        if parts.count < 2 && parts.allSatisfy({ $0.table == .names }) {
            scratch.removeAll { name in parts.contains { $0.fileName == name } }
        } else {
            parts = [
                try write(
                    parts, FreshNames(of: [], names: start.0..<start.0, keys: start.1..<start.1))
            ]
        }
        made += parts.map(\.fileName)
        next.namesRuns = parts
    }

    /// The runs from the first on that can be read: they may have names of blocks that are lost. Where they have not
    /// all names of expired segments, what is left of those.
    private mutating func soundNames() throws(StorageError) -> [NamesRunEntry] {
        damagedNames = try store.damagedNames(of: next.namesRuns, next.directory)
        var parts = Array(next.namesRuns.prefix { !damagedNames.contains($0.fileName) })
        // Blocks that were given up may be there again, from a copy.
        for (place, entry) in parts.enumerated() {
            let run = try NamesRunReader(entry, directory: next.directory, in: store.files)
            if try run.lostNames().count + run.lostKeyCount() == 0 { continue }
            parts.removeSubrange(place...)
            break
        }
        guard let expired = next.expired.last?.names else { return parts }
        let isWhole =
            parts.last?.names.upperBound ?? 1 >= expired.names.upperBound
            && parts.last?.keys.upperBound ?? 0 >= expired.keys.upperBound
        return isWhole ? parts : next.expired.map(\.names)
    }

    private mutating func write(
        _ parts: [NamesRunEntry], _ fresh: FreshNames
    ) throws(StorageError) -> NamesRunEntry {
        var readers: [NamesRunReader<Files>] = []
        for part in parts {
            readers.append(
                try NamesRunReader(part, directory: next.directory, in: store.files))
        }
        return try NamesRunWriter.write(
            takeNumbers(1), merging: readers, and: fresh, for: next, in: store.files)
    }

    private mutating func takeNumbers(_ count: Int) -> FileNumber {
        defer { next.nextFileNumber = next.nextFileNumber.advanced(by: count) }
        return next.nextFileNumber
    }

    private func removeFiles(_ names: [FileName]) {
        for name in names where !present.contains(name) { try? store.unlink(name) }
    }
}
