// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestCounting
import IngestFormat

/// Makes what is derived from the log again: the manifest, names and counter tables. What a start does that misses one
/// of them or cannot read it, a daemon whose merge meets a bad page, and `ingest-reader rebuild`. For the same log and the
/// same bad runs it writes the same bytes.
///
/// Sound runs of counters stay. A bad one of rewards or days is made of the reward-days run beside it, which has all of it;
/// with that, all three are made of the footers of their segments and what is left of expired ones. Names come from the
/// blocks that introduced them, all else from headers and footers. Order: runs of some segments each, where there are more;
/// names and runs; what may be evidence goes aside; a manifest. A crash before that leaves files with numbers still to be
/// given, which a start removes.
///
/// **Cost** The footers of what is replaced, and the blocks with new names; that of `TableMerge`, once or twice; 8 bytes a key.
package struct LogRebuild<Files: FileSystem> {
    /// What was made: the next generation, and lines for the log about what is lost of it.
    package typealias Outcome = (manifest: Manifest, losses: [String])

    let store: ManifestStore<Files>
    var next: Manifest
    /// What was there before.
    private let present: Set<FileName>
    /// Of that, what may have what the log has no more: beside a running daemon the runs of its manifest alone, since others
    /// were merged into these.
    private let witnesses: Set<FileName>
    /// Names runs of which a page cannot be believed.
    var damagedNames: [FileName] = []
    /// Files that are merged again.
    var scratch: [FileName] = []
    var made: [FileName] = []
    private let isStopped: @Sendable () -> Bool
    private let loss: Loss
    /// Whether the runs that are replaced may have counters that the log no longer has.
    private var isLossy = false
    /// Segments that expired without a footer, of those that runs were made of.
    private var missingCount: UInt64 = 0
    private var losses: [String] = []

    /// What is given up, where all else has failed.
    private enum Loss {
        case nothing
        /// The counters of segments that expired without a footer, which were in runs only; and of what is derived from
        /// reward-days, the businesses of lost keys, which footers may know.
        case counters
        /// As that, and blocks that cannot be read: footers that cannot are made of the others. Nobody else may use the
        /// directory. A segment that is missing is not given up: somebody may have it.
        case blocks
    }

    /// What is made again beside the counter tables.
    package enum Names: Sendable {
        /// Names runs stay as they are.
        case kept
        /// Those behind the first run that cannot be read are made again, from the blocks that introduced them.
        case made
    }

    /// Publishes the next generation.
    ///
    /// - Parameters:
    ///   - manifest: the newest, or one that was made from the log (`manifest(of:)`).
    ///   - bad: the runs of counters that are replaced; `nil`: all, and level 0 with them.
    ///   - mayLose: whether to go on without what is nowhere, once all else has failed: for a start.
    /// **Errors** `corrupt`, `notFound` for what cannot be read and is needed: nothing has changed then, but that segments may
    /// have been sealed again. Those of writing; behind `durabilityLost` either generation may stand.
    package static func run(
        _ store: ManifestStore<Files>, after manifest: Manifest, names: Names = .kept,
        bad: Set<FileName>? = nil, mayLose: Bool = false
    ) throws(StorageError) -> Outcome {
        // Behind the runs of a generation whose manifest is gone: they are evidence.
        let numbers = try store.files.names().compactMap { FileName($0)?.fileNumber?.next }
        var start = manifest
        start.nextFileNumber = max(start.nextFileNumber, numbers.max() ?? start.nextFileNumber)
        let made = try make(
            store, start, names, bad, mayLose: mayLose, isAlone: true, isStopped: { false }
        ) { (next) throws(StorageError) in try store.publish(next) }
        return made ?? (manifest, [])
    }

    /// Makes all tables again, of footers alone, into one run of each, and the names that are bad or lost: `ingest-reader
    /// rebuild`. Where the footers have not all, the runs that are bad, a page of them too, and the names.
    ///
    /// **Errors** As `run`; what footers lack, where neither runs nor names are bad. Nothing is given up.
    package static func all(
        of newest: Manifest, _ store: ManifestStore<Files>
    ) throws(StorageError) -> Outcome {
        let bad = try store.badRuns(of: newest) ?? BadRuns()
        let whole = try complete(newest, bad, store)
        let pages = try store.damagedNames(of: whole.namesRuns, whole.directory)
        var isBad = bad.areNamesBad || !pages.isEmpty
        // What is lost may be in blocks that have come back from a copy.
        if !isBad { isBad = try store.lostText(of: whole) != nil }
        let names = isBad ? Names.made : .kept
        do throws(StorageError) {
            return try run(store, after: whole, names: names)
        } catch {
            guard error.damagedFile != nil else { throw error }
            let damaged = try store.damagedRuns(of: whole)
            if damaged.isEmpty && !isBad { throw error }
            return try run(store, after: whole, names: names, bad: damaged)
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
        of store: ManifestStore<Files>, for manifest: Manifest, names: Names, bad: Set<FileName>,
        isStopped: @escaping @Sendable () -> Bool
    ) throws(StorageError) -> Outcome? {
        try make(
            store, manifest, names, bad, mayLose: false, isAlone: false, isStopped: isStopped
        ) { (_) throws(StorageError) in
        }
    }

    /// The way that loses least: without reward-days runs beside bad ones only where these will not do.
    private static func make(
        _ store: ManifestStore<Files>, _ manifest: Manifest, _ names: Names, _ bad: Set<FileName>?,
        mayLose: Bool, isAlone: Bool, isStopped: @escaping @Sendable () -> Bool,
        publish: (Manifest) throws(StorageError) -> Void
    ) throws(StorageError) -> Outcome? {
        let spans = manifest.runs.filter { bad?.contains($0.fileName) == true }.map(\.span)
        let beside = manifest.runs(of: .rewardDays).filter { spans.contains($0.span) }
        let wide = bad?.union(beside.map(\.fileName))
        var ways: [(bad: Set<FileName>?, loss: Loss)] = [(bad, .nothing)]
        if wide != bad { ways.append((wide, .nothing)) }
        if mayLose && bad != [] { ways += [(bad, .counters), (wide, .blocks)] }
        while true {
            let way = ways.removeFirst()
            do throws(StorageError) {
                var rebuild = try LogRebuild(store, manifest, way.loss, isAlone, isStopped)
                return try rebuild.run(names, way.bad, publish: publish)
            } catch {
                switch error {
                case .corrupt, .notFound: if ways.isEmpty { throw error }
                default: throw error
                }
            }
        }
    }

    private init(
        _ store: ManifestStore<Files>, _ manifest: Manifest, _ loss: Loss, _ isAlone: Bool,
        _ isStopped: @escaping @Sendable () -> Bool
    ) throws(StorageError) {
        self.store = store
        self.loss = loss
        self.isStopped = isStopped
        present = Set(try store.files.names().compactMap { FileName($0) })
        witnesses = isAlone ? present : present.intersection(manifest.fileNames)
        next = manifest
        next.generation = manifest.generation.next
    }

    private mutating func run(
        _ names: Names, _ bad: Set<FileName>?, publish: (Manifest) throws(StorageError) -> Void
    ) throws(StorageError) -> Outcome? {
        defer { removeFiles(scratch) }
        do throws(StorageError) {
            if case .made = names { try makeNames() }
            try makeTables(bad)
            if missingCount > 0 {
                losses.append(
                    "\(missingCount) segments had expired without a footer: their counters were in the replaced runs "
                        + "alone, and are lost; these are in aside/")
            }
            if case .made = names, let text = try store.lostText(of: next) {
                losses.append(text)
                // Perhaps on pages of theirs that cannot be read now.
                damagedNames += unlistedNames
            }
            if isStopped() {
                removeFiles(made)
                return nil
            }
            try keepEvidence()
            try publish(next)
        } catch {
            // Behind a sync that failed the manifest that names them may stand all the same.
            if case .durabilityLost = error { throw error }
            removeFiles(made)
            throw error
        }
        return (next, losses)
    }

    /// Keeps in `aside/` what is replaced and not made again for certain: damaged names runs, whose pages may have names that
    /// are nowhere else, and the runs of counters, where the log has not all that was in them.
    private func keepEvidence() throws(StorageError) {
        let kept = Set(next.runs.map(\.fileName))
        let runs = witnesses.filter { name in
            guard isLossy, case .run(let table, _) = name else { return false }
            return TableKind.counterTables.contains(table) && !kept.contains(name)
        }
        try store.keepAside(runs + damagedNames)
    }

    /// Names runs that are there and that the manifest does not name.
    var unlistedNames: [FileName] {
        let listed = Set(next.fileNames)
        return witnesses.filter { name in
            guard case .run(.names, _) = name else { return false }
            return !listed.contains(name) && !made.contains(name) && !scratch.contains(name)
        }.sorted { ($0.fileNumber?.rawValue ?? 0) < ($1.fileNumber?.rawValue ?? 0) }
    }

    // MARK: Tables

    private mutating func makeTables(_ bad: Set<FileName>?) throws(StorageError) {
        guard let bad else {
            next.runs = []
            let first = LogPosition.start.segment.next
            if next.cut > .start {
                try makeRuns(of: LogSpan(firstSegment: first, end: next.cut))
            }
            return
        }
        for span in spans(of: bad) { try makeRuns(of: span) }
        for whole in next.runs(of: .rewardDays) {
            for (place, run) in next.runs.enumerated()
            where run.span == whole.span && bad.contains(run.fileName) {
                next.runs[place] = try makeRun(run, of: whole)
                made.append(next.runs[place].fileName)
            }
        }
    }

    /// What bad reward-days runs cover, each with the runs beside it on which an expired run lies as well: its rows cannot be
    /// told apart.
    private func spans(of bad: Set<FileName>) -> [LogSpan] {
        var groups: [(span: LogSpan, isBad: Bool)] = []
        for run in next.runs(of: .rewardDays) {
            let isBad = bad.contains(run.fileName)
            if let last = groups.last,
                next.expired.contains(where: {
                    $0.span.contains(last.span.lastSegment)
                        && $0.span.contains(run.span.firstSegment)
                })
            {
                let span = LogSpan(firstSegment: last.span.firstSegment, end: run.span.end)
                groups[groups.count - 1] = (span, last.isBad || isBad)
            } else {
                groups.append((run.span, isBad))
            }
        }
        return groups.filter(\.isBad).map(\.span)
    }

    /// Makes a run of reward-days: a reward is the sum of its days, a day that of its rewards.
    private mutating func makeRun(
        _ run: RunEntry, of whole: RunEntry
    ) throws(StorageError) -> RunEntry {
        let reader = try RunReader(whole, directory: next.directory, in: store.files)
        guard run.table == .days else {
            return try RunWriter.merge(
                run.table, takeNumbers(1), of: run.span, for: next, metadata: RunMetadata(),
                [reader], in: store.files, isStopped: isStopped) ?? run
        }
        let keys = try store.readKeys(of: next)
        if keys.contains(where: { $0.business.rawValue == 0 }) {
            guard loss != .nothing else {
                throw .corrupt(path: reader.path, offset: 0, detail: "rows of lost keys")
            }
            isLossy = true
        }
        let sums = DaySums(keys: keys)
        try add(reader, to: sums)
        return try write(sums, of: run.span)
    }

    /// Makes runs of footers, and of what is left of expired segments.
    private mutating func makeRuns(of span: LogSpan) throws(StorageError) {
        isLossy = isLossy || loss != .nothing || !next.lost.isEmpty
        let places = next.sealed.indices.filter { span.contains(next.sealed[$0].number) }
        var left = (places.first ?? 0)..<(places.last ?? -1) + 1
        if loss == .blocks { try repair(left) }
        var whole = TableMerge(for: next, in: store.files)
        try addExpired(next.expired.filter { span.contains($0.span.firstSegment) }, to: &whole)
        while left.count > Limits.level0MergeCountMax {
            let segments = next.sealed[left.prefix(Limits.level0MergeCountMax)]
            left = left.dropFirst(Limits.level0MergeCountMax)
            var part = TableMerge(for: next, in: store.files)
            for segment in segments { try part.add(segment) }
            let end = segments[segments.endIndex - 1]
            let runs = try write(
                part, makesRewards: false,
                of: LogSpan(
                    firstSegment: segments[segments.startIndex].number,
                    end: LogPosition(segment: end.number, blockCount: end.blockCount)))
            scratch += runs.map(\.fileName)
            try whole.add(runs)
        }
        for segment in next.sealed[left] { try whole.add(segment) }
        let runs = try write(whole, of: span)
        made += runs.map(\.fileName)
        next.runs.removeAll { span.contains($0.span.firstSegment) }
        next.runs = (next.runs + runs).sorted {
            ($0.table.rawValue, $0.span.firstSegment) < ($1.table.rawValue, $1.span.firstSegment)
        }
    }

    private mutating func write(
        _ merge: TableMerge<Files>, makesRewards: Bool = true, of span: LogSpan
    ) throws(StorageError) -> [RunEntry] {
        try merge.run(
            of: span, firstNumber: takeNumbers(TableKind.counterTables.count),
            makesRewards: makesRewards, isStopped: isStopped) ?? []
    }

    /// Seals segments again whose footers cannot be read. A crash leaves the manifest that was there; what was sealed again is
    /// taken as it is by the next attempt.
    private mutating func repair(_ places: Range<Int>) throws(StorageError) {
        let names = Set(try store.files.names())
        for segment in next.sealed[places] {
            let name = FileName.segment(segment.number).text
            if !names.contains(name) { throw .notFound(path: "\(store.files.path)/\(name)") }
        }
        let repaired = try FooterRepair(
            of: places, files: store.files, manifest: next, keys: try store.readKeys(of: next),
            now: next.createdAt
        ).run()
        losses += RecoveryReport.messages(of: repaired.segments)
        next = repaired.manifest
    }

    /// Adds what is left of expired segments: reward-days as they lie, and days made of them.
    private mutating func addExpired(
        _ expired: [ExpiredEntry], to merge: inout TableMerge<Files>
    ) throws(StorageError) {
        guard let first = expired.first, let last = expired.last else { return }
        let sums = DaySums(keys: try store.readKeys(of: next))
        for entry in expired {
            let run = try RunReader(entry.run, directory: next.directory, in: store.files)
            let count = try run.readExpired().missingCount
            guard count == 0 || loss != .nothing else {
                throw .corrupt(
                    path: run.path, offset: 0,
                    detail: "\(count) segments without a footer: their counters are in runs only")
            }
            missingCount += UInt64(count)
            merge.add(rewardDays: run)
            try add(run, to: sums)
        }
        let span = LogSpan(firstSegment: first.span.firstSegment, end: last.span.end)
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

    mutating func takeNumbers(_ count: Int) -> FileNumber {
        defer { next.nextFileNumber = next.nextFileNumber.advanced(by: count) }
        return next.nextFileNumber
    }

    private func removeFiles(_ names: [FileName]) {
        for name in names where !present.contains(name) { try? store.unlink(name) }
    }
}
