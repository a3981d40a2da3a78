// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestFormat

/// Makes what is derived from the log again: the manifest, names and counter tables. What a start does that misses one
/// of them or cannot read it, a daemon whose merge meets a bad page, and `ingest-reader rebuild`. For the same log and the
/// same bad runs it writes the same bytes.
///
/// Sound runs of counters stay. A bad one of rewards or days is made of the reward-days run beside it, which has all of it;
/// with that, all three are made of the footers of their segments and what is left of expired ones. Names come from the
/// blocks that introduced them, all else from headers and footers. Order: runs of some segments each, where there are more;
/// names and runs; what may be evidence goes aside; a manifest. A crash before that leaves files with numbers still to be
/// given (`Leftovers`).
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
    /// Of these, runs from this number on that are there were never published, or their manifest is gone; `nil` beside a
    /// running daemon.
    private let unpublished: FileNumber?
    /// Names runs of which a page cannot be believed.
    var damagedNames: [FileName] = []
    /// Files that are merged again.
    var scratch: [FileName] = []
    var made: [FileName] = []
    let isStopped: @Sendable () -> Bool
    let loss: Loss
    /// Whether the runs that are replaced may have counters that the log no longer has.
    var isLossy = false
    /// Segments that expired without a footer, of those that runs were made of.
    var missingCount: UInt64 = 0
    var losses: [String] = []

    /// What is given up, where all else has failed.
    enum Loss {
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
        var leftovers = Leftovers(store: store, newest: manifest)
        try leftovers.clearUnfinished()
        // Behind the runs of a generation whose manifest is gone: they are evidence.
        let numbers = try store.files.names().compactMap { FileName($0)?.fileNumber?.next }
        var start = manifest
        start.nextFileNumber = max(start.nextFileNumber, numbers.max() ?? start.nextFileNumber)
        let made = try make(
            store, start, names, bad, mayLose: mayLose, unpublished: manifest.nextFileNumber,
            isStopped: { false }
        ) { (next) throws(StorageError) in try store.publish(next) }
        return made ?? (manifest, [])
    }

    /// Makes all tables again, of footers alone, into one run of each, and the names that are bad or lost: `ingest-reader
    /// rebuild`. Where the footers have not all, the runs that are bad, a page of them too, and the names. Before that, segments
    /// are sealed again whose footers cannot be read, if all of them have all of their blocks. Each step is a generation.
    /// What cannot be read, and the last one does not name, goes to `aside/`.
    ///
    /// **Errors** As `run`; what footers lack, where neither runs nor names are bad. Nothing is given up.
    package static func all(
        of newest: Manifest, _ store: ManifestStore<Files>
    ) throws(StorageError) -> Outcome {
        let bad = try store.badRuns(of: newest) ?? BadRuns()
        var made: Outcome = (try complete(newest, bad, store), [])
        let pages = try store.damagedNames(of: made.manifest.namesRuns, newest.directory)
        let damaged = try store.damagedRuns(of: made.manifest.runs, newest.directory)
            .union(bad.counterRuns)
        var isBad = bad.areNamesBad || !pages.isEmpty
        // What is lost may be in blocks that have come back from a copy.
        if !isBad { isBad = try store.lostText(of: made.manifest) != nil }
        if isBad { made = try run(store, after: made.manifest, names: .made, bad: []) }
        var refusal: StorageError?
        var sealed: Outcome = (made.manifest, [])
        do throws(StorageError) { sealed = try sealAgain(made.manifest, store) } catch {
            guard error.damagedFile != nil else { throw error }
            refusal = error
        }
        var losses = made.losses + sealed.losses
        do throws(StorageError) {
            made = try run(store, after: sealed.manifest)
        } catch {
            guard error.damagedFile != nil else { throw error }
            if damaged.isEmpty && !isBad { throw refusal ?? error }
            made = try run(store, after: sealed.manifest, bad: damaged)
        }
        losses += made.losses
        try store.putDamagedAside(behind: made.manifest)
        return (made.manifest, losses)
    }

    /// Seals segments again whose footers cannot be read, and publishes that: none where one of them lacks a block. Segments that
    /// runs cover only where these can be made again, since they say which footers they are of.
    ///
    /// **Errors** `corrupt` for a segment that lacks one: nothing has changed then. Those of writing.
    private static func sealAgain(
        _ manifest: Manifest, _ store: ManifestStore<Files>
    ) throws(StorageError) -> Outcome {
        var isWhole = true
        for entry in manifest.expired {
            let count = try StorageError.readable { () throws(StorageError) in
                let run = try RunReader(entry.run, directory: manifest.directory, in: store.files)
                try run.checkPages()
                return try run.readExpired().missingCount
            }
            isWhole = isWhole && count == 0
        }
        let repaired = try FooterRepair(
            files: store.files,
            range: isWhole ? manifest.sealed.indices : manifest.level0.indices, manifest: manifest,
            now: manifest.createdAt, mayLose: false
        ).run { () throws(StorageError) in try store.readKeys(of: manifest) }
        if repaired.segments.isEmpty { return (manifest, []) }
        var next = repaired.manifest
        next.generation = manifest.generation.next
        try store.publish(next)
        return (next, RecoveryReport.messages(of: repaired.segments))
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
            store, manifest, names, bad, mayLose: false, unpublished: nil, isStopped: isStopped
        ) { (_) throws(StorageError) in
        }
    }

    /// The way that loses least: without reward-days runs beside bad ones only where these will not do.
    private static func make(
        _ store: ManifestStore<Files>, _ manifest: Manifest, _ names: Names, _ bad: Set<FileName>?,
        mayLose: Bool, unpublished: FileNumber?, isStopped: @escaping @Sendable () -> Bool,
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
                var rebuild = try LogRebuild(store, manifest, way.loss, unpublished, isStopped)
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
        _ store: ManifestStore<Files>, _ manifest: Manifest, _ loss: Loss,
        _ unpublished: FileNumber?,
        _ isStopped: @escaping @Sendable () -> Bool
    ) throws(StorageError) {
        self.store = store
        self.loss = loss
        self.isStopped = isStopped
        present = Set(try store.files.names().compactMap { FileName($0) })
        self.unpublished = unpublished
        witnesses = unpublished == nil ? present.intersection(manifest.fileNames) : present
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
            try keepEvidence(names)
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
    /// are nowhere else; the runs of counters, where the log has not all that was in them; and what `Leftovers` did not find
    /// in the log of those that were never published.
    private func keepEvidence(_ names: Names) throws(StorageError) {
        let kept = Set(next.runs.map(\.fileName))
        var runs = witnesses.filter { name in
            guard case .run(let table, let number) = name, !kept.contains(name) else {
                return false
            }
            return TableKind.counterTables.contains(table) && (isLossy || isUnpublished(number))
        }
        if case .kept = names {
            runs.formUnion(unlistedNames.filter { $0.fileNumber.map(isUnpublished) == true })
        }
        try store.keepAside(runs.union(damagedNames))
    }

    private func isUnpublished(_ number: FileNumber) -> Bool {
        unpublished.map { number >= $0 } ?? false
    }

    /// Names runs that are there and that the manifest does not name.
    var unlistedNames: [FileName] {
        let listed = Set(next.fileNames)
        return witnesses.filter { name in
            guard case .run(let table, _) = name else { return false }
            return table.isNames && !listed.contains(name)
        }.sorted { ($0.fileNumber?.rawValue ?? 0) < ($1.fileNumber?.rawValue ?? 0) }
    }

    mutating func takeNumbers(_ count: Int) -> FileNumber {
        defer { next.nextFileNumber = next.nextFileNumber.advanced(by: count) }
        return next.nextFileNumber
    }

    private func removeFiles(_ names: [FileName]) {
        for name in names where !present.contains(name) { try? store.unlink(name) }
    }
}
