// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import Glibc
import IngestCounting
import IngestFormat
import IngestStorage

/// Carries out one `MergeOrder`: reads runs that never change, writes others. What it writes counts once a manifest
/// names it; until then it is a file that a start removes.
///
/// **Cost** 10 to 20 ns a row read and 30 to 40 ns a row written, 300 to 400 ns a name; a page a run in memory.
struct RunMerge<Files: FileSystem> {
    let files: Files
    let order: MergeOrder
    let counters: CounterGroup<MergeCounter>
    /// What is left free for others by a merge that can wait.
    var spareByteCount: UInt64 = 0
    /// Asked once a page: whether the merge is to end early.
    let isStopped: @Sendable () -> Bool

    /// Writes the runs of the order, part by part: one that the disk does not take keeps no other from being done.
    ///
    /// - Returns: empty if it was stopped; then nothing is left of it.
    /// **Errors** `corrupt` with the path of a run that cannot be merged. Nothing is left of what was written. A
    /// `Shortage` is in the result.
    func run() throws(PipelineError) -> MergeResult {
        var result = MergeResult()
        var lacksRewards = false
        for part in order.parts {
            // Runs of rewards end where one of reward-days does: those are merged after them, or not.
            if lacksRewards, case .counters(.rewardDays, _, _) = part { continue }
            do throws(PipelineError) {
                if try carryOut(part, into: &result.runs) { continue }
                removeRuns(of: result.runs)
                return MergeResult()
            } catch {
                guard error.shortage != nil else {
                    removeRuns(of: result.runs)
                    throw error
                }
                if case .counters(.rewards, _, _) = part { lacksRewards = true }
                result.refusal = result.refusal ?? error
            }
        }
        counters.add(result.refusal == nil ? .merges : .refusals)
        return result
    }

    /// As `run`, where there is no later time.
    /// **Errors** Any `Shortage`.
    func runAtOnce() throws(PipelineError) -> MergedRuns {
        let result = try run()
        guard let refusal = result.refusal else { return result.runs }
        removeRuns(of: result.runs)
        throw refusal
    }

    /// **Errors** `diskFull` where the disk has no room for a part, before anything of it is written: to find that out
    /// by writing would take from the log, meanwhile, what room it has.
    private func checkRoom(for part: MergeOrder.Part) throws(PipelineError) {
        let inputs = part.inputByteCounts
        // What everybody waits for is tried where it may have room; otherwise it must have it for certain.
        let wanted =
            order.isNeeded
            ? inputs.max() ?? 0 : inputs.reduce(0) { $0 &+ $1 } &+ spareByteCount
        do {
            if try files.space().freeByteCount >= wanted { return }
        } catch { throw .storage(error) }
        throw .storage(
            .diskFull(path: files.path, call: "merge of \(wanted) bytes", errno: ENOSPC))
    }

    /// - Returns: `false` if it was stopped. A merge of names is not ended early, but not begun either.
    private func carryOut(
        _ part: MergeOrder.Part, into merged: inout MergedRuns
    ) throws(PipelineError) -> Bool {
        if isStopped() { return false }
        try checkRoom(for: part)
        switch part {
        case .names(let inputs, let number):
            merged.names = (inputs, try mergeNames(inputs, number))
        case .counters(let table, let inputs, let number):
            guard let run = try mergeCounters(table, inputs, number) else { return false }
            merged.counters.append((inputs, run))
        }
        return true
    }

    private func mergeCounters(
        _ table: TableKind, _ inputs: [RunEntry], _ number: FileNumber
    ) throws(PipelineError) -> RunEntry? {
        var runs: [RunReader<Files>] = []
        for input in inputs {
            do {
                runs.append(
                    try RunReader(input, directory: order.manifest.directory, in: files))
            } catch { throw .storage(error) }
        }
        guard let first = inputs.first, let last = inputs.last else {
            throw .inconsistent("a merge of nothing")
        }
        let span = LogSpan(firstSegment: first.span.firstSegment, end: last.span.end)
        do {
            let run = try RunWriter.write(
                table, number: number, of: span, for: order.manifest, in: files
            ) {
                StoppableRows(
                    CounterMerge(runs.map { $0.makeCursor() }, dropsDays: !table.hasDay),
                    isStopped: isStopped)
            }
            counters.add(.rowsRead, inputs.reduce(0) { $0 &+ $1.rowCount })
            counters.add(.rows, run.rowCount)
            counters.add(.bytes, run.byteCount)
            return run
        } catch {
            switch error {
            case .storage(let error): throw .storage(error)
            case .source(.stopped): return nil
            case .source(.failed(let error)): throw PipelineError(merging: error)
            }
        }
    }

    private func mergeNames(
        _ inputs: [NamesRunEntry], _ number: FileNumber
    ) throws(PipelineError) -> NamesRunEntry {
        guard let last = inputs.last else { throw .inconsistent("a merge of no names") }
        let none = FreshNames(
            firstName: NameOrdinal(rawValue: last.names.upperBound),
            firstKey: KeyOrdinal(rawValue: last.keys.upperBound))
        do {
            var runs: [NamesRunReader<Files>] = []
            for input in inputs {
                runs.append(
                    try NamesRunReader(input, directory: order.manifest.directory, in: files))
            }
            let run = try NamesRunWriter.write(
                number, merging: runs, and: none, for: order.manifest, in: files)
            counters.add(.namesBytes, run.byteCount)
            return run
        } catch {
            throw .storage(error)
        }
    }

    /// Removes what was written before the stop. One that stays is removed by a start.
    private func removeRuns(of merged: MergedRuns) {
        for (_, run) in merged.counters { try? files.unlink(run.fileName.text) }
        if let names = merged.names { try? files.unlink(names.run.fileName.text) }
    }
}

/// Rows that end in an error when they are no longer wanted.
private struct StoppableRows<Source: CounterPageSource>: CounterPageSource {
    enum Failure: Error {
        case stopped
        case failed(Source.Failure)
    }

    private var source: Source
    private let isStopped: @Sendable () -> Bool

    init(_ source: Source, isStopped: @escaping @Sendable () -> Bool) {
        self.source = source
        self.isStopped = isStopped
    }

    mutating func nextPage(into page: CounterPage) throws(Failure) -> Bool {
        if isStopped() { throw .stopped }
        do { return try source.nextPage(into: page) } catch { throw .failed(error) }
    }
}

/// The counters that sealed segments add to a generation, as rows of reward-days.
///
/// **Cost** Nothing before the rows are read, and then a page a source: the tables are never put together
/// in memory.
struct FreshCounters<Files: FileSystem> {
    let span: LogSpan
    private let parts: [CounterInput<Files>]
    /// The footer's own table, where that is all.
    let onlyTable: CounterTable?

    /// - Parameter segments: sealed one after the other, at least one.
    init(_ segments: [SealedSegmentFile], path: String) throws(PipelineError) {
        guard let first = segments.first?.footer, let last = segments.last?.footer else {
            throw .inconsistent("a generation without new segments")
        }
        span = LogSpan(firstSegment: first.segment, end: last.end)
        let tables = segments.map(\.footer.counters)
        onlyTable = tables.count == 1 ? tables[0] : nil
        parts = tables.map { .table($0.makeCursor(), path: path) }
    }

    /// The rows from the first on.
    func rows() -> CounterMerge<CounterInput<Files>> { CounterMerge(parts) }
}

extension PipelineError {
    /// Why rows cannot be put together. A run that cannot be read is a damaged file, and says which.
    init(merging error: any Error) {
        switch error {
        case let error as StorageError: self = .storage(error)
        case CounterMergeError<StorageError>.source(let error): self = .storage(error)
        case CounterMergeError<CounterMergeError<StorageError>>.source(let error):
            self.init(merging: error)
        default: self = .inconsistent("counters cannot be merged: \(error)")
        }
    }
}
