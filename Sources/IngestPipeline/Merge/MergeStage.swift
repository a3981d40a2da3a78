// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import Glibc
import IngestFormat
import IngestStorage

/// Merges runs beside everything else: a merge of millions of rows never holds up the folding of a block. Owned by
/// the merge queue; `step` is one order of the compact stage's, of which there is at most one at a time
/// (docs/decisions/0031-merge-queue.md).
package struct MergeStage<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    private let files: Files
    private let clock: Clock
    private let links: StageLinks
    private let counters: CounterGroup<MergeCounter>
    private let spareByteCount: UInt64

    /// - Parameter spareByteCount: what a merge that can wait leaves free on the disk: what the log takes next.
    package init(
        files: Files, clock: Clock, links: StageLinks, counters: PipelineCounters,
        spareByteCount: UInt64
    ) {
        self.spareByteCount = spareByteCount
        self.files = files
        self.clock = clock
        self.links = links
        self.counters = counters.merge
    }

    /// One turn: the next order. At a stop it is not begun, or ends at its next page.
    package mutating func step(mayWait: Bool) throws(PipelineError) -> StageOutcome {
        guard let order = links.toMerge.pop(waitNanoseconds: mayWait ? 100_000_000 : 0) else {
            guard links.toMerge.isFinished else { return .idle }
            links.merged.close()
            return .finished
        }
        let start = clock.threadNanoseconds()
        let state = links.state
        let result = try RunMerge(
            files: files, order: order, counters: counters, spareByteCount: spareByteCount
        ) {
            state.isMergeStopped
        }.run()
        counters.add(.nanoseconds, clock.threadNanoseconds() &- start)
        links.merged.push(result)
        return .worked
    }
}

extension MergeStage: PipelineStage {
    /// Runs until the compact stage is done.
    package mutating func run(stop: StopFlag) throws(PipelineError) {
        while true {
            if case .finished = try step(mayWait: true) { return }
        }
    }
}

/// Carries out one `MergeOrder`: reads files that never change, writes runs. What it writes counts once a manifest
/// names it; until then it is a file that a start removes.
///
/// **Cost** That of `TableMerge`, and 300 to 400 ns a name.
struct RunMerge<Files: FileSystem> {
    let files: Files
    let order: MergeOrder
    let counters: CounterGroup<MergeCounter>
    /// What is left free for others by a merge that can wait.
    var spareByteCount: UInt64 = 0
    /// Asked once a page: whether the merge is to end early.
    let isStopped: @Sendable () -> Bool

    /// Writes the runs of the order: names that the disk does not take keep no tables from being merged.
    ///
    /// - Returns: empty if it was stopped; then nothing is left of it.
    /// **Errors** `footer` that cannot be merged; `removed`, its segment. Nothing is left of what was written. A
    /// `Shortage` is in the result, as a run that cannot be read, and why segments could not expire.
    func run() throws(PipelineError) -> MergeResult {
        var result = MergeResult(order)
        do throws(StorageError) {
            if let number = order.rebuildNumber {
                try noting(&result) { (runs) throws(StorageError) in try rebuild(&runs, number) }
            } else {
                try noting(&result) { (runs) throws(StorageError) in runs.names = try mergeNames() }
                try noting(&result) { (runs) throws(StorageError) in
                    runs.tables = try mergeTables()
                }
            }
            try expire(&result)
        } catch {
            removeRuns(of: result.runs)
            throw failure(error)
        }
        if isStopped() {
            removeRuns(of: result.runs)
            return MergeResult(order)
        }
        counters.add(result.refusal == nil ? .merges : .refusals)
        return result
    }

    /// As `run`, where there is no later time.
    /// **Errors** Any `Shortage`.
    func runAtOnce() throws(PipelineError) -> MergedRuns {
        let result = try run()
        let failure = result.damage ?? result.expiryFailure
        guard let refusal = result.refusal ?? failure.map({ .storage($0) }) else {
            return result.runs
        }
        removeRuns(of: result.runs)
        throw refusal
    }

    /// What cannot be merged: a segment of level 0 is no run, and is made good by a start alone.
    private func failure(_ error: StorageError) -> PipelineError {
        let level0 = order.tables?.level0.map { FileName.segment($0.number) } ?? []
        guard let file = error.damagedFile, level0.contains(file) else { return .storage(error) }
        if case .notFound(let path) = error {
            return .storage(
                .removed(path: path, detail: "a sealed segment was removed while the daemon ran"))
        }
        return .footer(error)
    }

    private func noting(
        _ result: inout MergeResult, _ body: (inout MergedRuns) throws(StorageError) -> Void
    ) throws(StorageError) {
        do { try body(&result.runs) } catch {
            if error.shortage != nil {
                result.refusal = result.refusal ?? .storage(error)
            } else if let file = error.damagedFile,
                order.rebuildNumber != nil || order.inputs.contains(file)
            {
                result.damage = result.damage ?? error
            } else {
                throw error
            }
        }
    }

    /// Makes again from the log what the order names.
    private func rebuild(_ runs: inout MergedRuns, _ number: FileNumber) throws(StorageError) {
        // With a bad run of reward-days those beside it are made too.
        try checkRoom(
            order.names?.inputs.map(\.byteCount) ?? order.manifest.runs.map(\.byteCount))
        var manifest = order.manifest
        manifest.nextFileNumber = number
        let store = ManifestStore(files: files)
        let made = try LogRebuild.files(
            of: store, for: manifest,
            names: order.names == nil ? .kept : .made,
            bad: Set(order.tables?.runs.map(\.fileName) ?? []), isStopped: isStopped)
        guard let made else { return }
        runs.losses = made.losses
        if var inputs = order.tables {
            inputs.runs = manifest.runs.filter { !made.manifest.runs.contains($0) }
            runs.tables = (inputs, made.manifest.runs.filter { !manifest.runs.contains($0) })
        }
        if let inputs = order.names?.inputs, let run = made.manifest.namesRuns.first {
            runs.names = (inputs, run)
        }
    }

    /// **Errors** `diskFull` where the disk has no room for a part, before anything of it is written: to find that out
    /// by writing would take from the log, meanwhile, what room it has.
    private func checkRoom(_ inputs: [UInt64]) throws(StorageError) {
        // What everybody waits for is tried where it may have room; otherwise it must have it for certain.
        let wanted =
            order.isNeeded
            ? inputs.max() ?? 0 : inputs.reduce(0) { $0 &+ $1 } &+ spareByteCount
        if try files.space().freeByteCount >= wanted { return }
        throw .diskFull(
            path: files.path, call: "merge of \(wanted) bytes", errno: ENOSPC, wanted: wanted)
    }

    private func mergeTables() throws(StorageError) -> MergedRuns.Tables? {
        guard let inputs = order.tables, !isStopped() else { return nil }
        var merge = TableMerge(for: order.manifest, in: files)
        try merge.add(inputs.runs)
        for segment in inputs.level0 { try merge.add(segment) }
        // Twice: rewards are written from the new reward-days.
        try checkRoom(merge.inputByteCounts + merge.inputByteCounts)
        guard
            let runs = try merge.run(
                of: inputs.span, firstNumber: inputs.firstNumber, isStopped: isStopped)
        else { return nil }
        counters.add(.rowsRead, merge.inputRowCount)
        counters.add(.rows, runs.reduce(0) { $0 &+ $1.rowCount })
        counters.add(.bytes, runs.reduce(0) { $0 &+ $1.byteCount })
        return (inputs, runs)
    }

    /// A merge of names is not ended early, but not begun either.
    private func mergeNames() throws(StorageError) -> MergedRuns.Names? {
        guard let (inputs, number) = order.names, let last = inputs.last, !isStopped() else {
            return nil
        }
        try checkRoom(inputs.map(\.byteCount))
        let none = FreshNames(
            firstName: NameOrdinal(rawValue: last.names.upperBound),
            firstKey: KeyOrdinal(rawValue: last.keys.upperBound))
        var runs: [NamesRunReader<Files>] = []
        for input in inputs {
            runs.append(
                try NamesRunReader(input, directory: order.manifest.directory, in: files))
        }
        let run = try NamesRunWriter.write(
            number, merging: runs, and: none, for: order.manifest, in: files)
        counters.add(.namesBytes, run.byteCount)
        return (inputs, run)
    }

    /// Merges what is left of the segments that are to expire.
    private func expire(_ result: inout MergeResult) throws(StorageError) {
        guard let expiry = order.expiry, !isStopped() else { return }
        do throws(StorageError) {
            var merge = ExpiredMerge(for: order.manifest, in: files)
            result.runs.expired = try merge.run(
                expiry.segments, older: try fitting(expiry.older),
                firstNumber: expiry.firstNumber, isStopped: isStopped)
        } catch {
            switch error {
            case _ where error.shortage != nil: result.expiryFailure = error
            case .io, .corrupt, .notFound: result.expiryFailure = error
            default: throw error
            }
        }
    }

    /// What expired before and is merged too: nothing where the disk has no room for it, as long as there are few.
    private func fitting(
        _ older: [ExpiredEntry]
    ) throws(StorageError) -> ArraySlice<ExpiredEntry> {
        let wanted = older.reduce(spareByteCount) { $0 &+ $1.run.byteCount &+ $1.names.byteCount }
        if order.manifest.expired.count >= Limits.runCountMax { return older[...] }
        return try files.space().freeByteCount < wanted ? [] : older[...]
    }

    /// Removes what was written before the stop. One that stays is removed by a start.
    private func removeRuns(of merged: MergedRuns) {
        var names = merged.tables?.runs.map(\.fileName) ?? []
        if let run = merged.names?.run { names.append(run.fileName) }
        names += merged.expired?.entry.fileNames ?? []
        // A names run that was to be made again may have turned out to be sound.
        let used = Set(order.manifest.fileNames)
        for name in names where !used.contains(name) { try? files.unlink(name.text) }
    }
}
