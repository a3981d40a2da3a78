// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat
import IngestStorage

// The runs of a generation. Rows go from the sources to the file page by page: a run of any size is merged in
// the memory of a page a source.

extension SnapshotPublisher {
    /// Writes the counters of sealed segments, together with the newest runs where those span no more.
    mutating func writeRuns(
        of segments: [SealedSegmentFile], into next: inout Manifest
    ) throws(PipelineError) {
        var liveRun: RunReader<Files>?
        if segments.contains(where: { $0.remainder != nil }) {
            for run in manifest.liveRuns where run.table == .rewardDays { liveRun = try open(run) }
        }
        let fresh = try FreshCounters(
            segments, adding: liveRun, keys: keys, path: store.files.path)
        let money = next.shard.sealedMoneyMicros.addingReportingOverflow(try fresh.moneyMicros())
        next.shard.sealedMoneyMicros = money.overflow ? .max : money.partialValue
        for table in TableKind.counterTables {
            let runs = next.runs.filter { $0.table == table }
            let plan = CompactionPlan(
                runs: runs.map { Self.segmentCount($0.span) },
                newSegmentCount: Self.segmentCount(fresh.span))
            let entry = try write(
                table, of: fresh, merging: Array(runs.suffix(plan.mergedRunCount)), into: &next)
            if table == .rewardDays { counters.compact.add(.mergedRows, entry.rowCount) }
        }
        counters.compact.add(.freshRows, segments.reduce(0) { $0 &+ $1.counterRowCount })
    }

    /// Writes the live run of each table.
    mutating func writeLiveRuns(
        of live: LiveCut, into next: inout Manifest
    ) throws(PipelineError) {
        let fresh = FreshCounters<Files>(live, keys: keys)
        for table in TableKind.counterTables {
            let entry = try write(table, of: fresh, merging: [], into: &next)
            if table == .rewardDays { counters.compact.add(.liveRows, entry.rowCount) }
            counters.compact.add(.liveBytes, entry.byteCount)
        }
    }

    /// Writes one run, which takes the place of those that are merged into it.
    private mutating func write(
        _ table: TableKind, of fresh: FreshCounters<Files>, merging merged: [RunEntry],
        into next: inout Manifest
    ) throws(PipelineError) -> RunEntry {
        var older: [RunReader<Files>] = []
        for run in merged { older.append(try open(run)) }
        let span = LogSpan(
            firstSegment: merged.first?.span.firstSegment ?? fresh.span.firstSegment,
            end: fresh.span.end)
        let entry: RunEntry
        do {
            entry = try RunWriter.write(
                table, number: next.nextFileNumber, of: span, for: next, in: store.files
            ) { CounterMerge([fresh.rows(of: table)] + older.map { .run($0.makeCursor()) }) }
        } catch {
            switch error {
            case .storage(let error): throw .storage(error)
            case .source(let error): throw PipelineError(merging: error)
            }
        }
        next.nextFileNumber = next.nextFileNumber.next
        next.runs.removeAll { merged.contains($0) }
        let place = next.runs.lastIndex { $0.table.rawValue <= table.rawValue }.map { $0 + 1 }
        next.runs.insert(entry, at: place ?? 0)
        countRun(Int(entry.byteCount))
        return entry
    }

    private func open(_ run: RunEntry) throws(PipelineError) -> RunReader<Files> {
        try storing { () throws(StorageError) in
            try RunReader(run, directory: manifest.directory, in: store.files)
        }
    }

    private static func segmentCount(_ span: LogSpan) -> Int {
        Int(span.lastSegment.rawValue - span.firstSegment.rawValue) + 1
    }

    func countRun(_ byteCount: Int) {
        counters.compact.add(.runs)
        counters.compact.add(.bytes, UInt64(byteCount))
    }
}

extension SealedSegmentFile {
    /// Rows by (key, day) that came with it.
    fileprivate var counterRowCount: UInt64 {
        UInt64((remainder?.counters ?? footer.counters).rowCount)
    }
}
