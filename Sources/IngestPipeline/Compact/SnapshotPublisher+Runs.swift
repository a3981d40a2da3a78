// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestCounting
import IngestFormat
import IngestStorage

// The runs of a generation. Rows go from the sources to the file page by page, and on their way into the sums of
// their business and day: they are gone through once.

extension SnapshotPublisher {
    /// Writes the counters of sealed segments: a run of reward-days, which is the footer's table as it lies where
    /// there is one segment, and one of days.
    mutating func writeRuns(
        of segments: [SealedSegmentFile], into next: inout Manifest
    ) throws(PipelineError) {
        let fresh = try FreshCounters<Files>(segments, path: store.files.path)
        let sums = DaySums(keys: keys)
        let entry: RunEntry
        if let table = fresh.onlyTable {
            var rows = DaySumming(fresh.rows(), into: sums)
            do { try rows.drain() } catch { throw PipelineError(merging: error) }
            let number = next.takeFileNumber()
            entry = try storing { () throws(StorageError) in
                try RunWriter.write(
                    .rewardDays, copying: table, number: number, of: fresh.span, for: next,
                    in: store.files)
            }
            next.insert(entry)
        } else {
            entry = try write(.rewardDays, of: fresh.span, into: &next) {
                sums.removeAll()
                return DaySumming(fresh.rows(), into: sums)
            }
        }
        let days = try write(.days, of: fresh.span, into: &next) { sums.makeCursor() }
        let money = next.shard.sealedMoneyMicros.addingReportingOverflow(sums.moneyMicros)
        next.shard.sealedMoneyMicros = money.overflow ? .max : money.partialValue
        counters.compact.add(.sealedRows, entry.rowCount)
        counters.compact.add(.sealedBytes, entry.byteCount &+ days.byteCount)
    }

    /// Writes one run.
    private mutating func write<Source: CounterPageSource>(
        _ table: TableKind, of span: LogSpan, into next: inout Manifest, rows: () -> Source
    ) throws(PipelineError) -> RunEntry {
        let number = next.takeFileNumber()
        let entry: RunEntry
        do {
            entry = try RunWriter.write(
                table, number: number, of: span, for: next, in: store.files, rows: rows)
        } catch {
            switch error {
            case .storage(let error): throw .storage(error)
            case .source(let error): throw PipelineError(merging: error)
            }
        }
        next.insert(entry)
        return entry
    }
}
