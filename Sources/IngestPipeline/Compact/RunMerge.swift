// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
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
    /// Asked once a page: whether the merge is to end early.
    let isStopped: @Sendable () -> Bool

    /// Writes all runs of the order.
    ///
    /// - Returns: `nil` if it was stopped; then nothing is left of it.
    /// **Errors** `corrupt` with the path of a run that cannot be merged. Nothing is left of what was written.
    func run() throws(PipelineError) -> MergedRuns? {
        var merged = MergedRuns()
        do throws(PipelineError) {
            for part in order.parts {
                if try carryOut(part, into: &merged) { continue }
                removeRuns(of: merged)
                return nil
            }
        } catch {
            removeRuns(of: merged)
            throw error
        }
        counters.add(.merges)
        return merged
    }

    /// - Returns: `false` if it was stopped. A merge of names is not ended early, but not begun either.
    private func carryOut(
        _ part: MergeOrder.Part, into merged: inout MergedRuns
    ) throws(PipelineError) -> Bool {
        if isStopped() { return false }
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
        guard let last = inputs.last, let hash = KeyedHash(key: order.manifest.hashKey) else {
            throw .inconsistent("a merge of no names")
        }
        let none = FreshNames(
            firstName: NameOrdinal(rawValue: last.names.upperBound),
            firstKey: KeyOrdinal(rawValue: last.keys.upperBound), hash: hash)
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
