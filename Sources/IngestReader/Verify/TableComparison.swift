// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// Holds the runs of one table against the recount: their sum against the rows of the stretch that they cover.
struct TableComparison<Files: FileSystem>: Sendable {
    let table: TableKind
    let runs: [RunReader<Files>]
    /// The counters of all rows that the runs cover; `nil` where not all could be read, and the runs are only
    /// checked.
    let total: Tally?
    let names: RecountNames
    /// Of how many events of the stretch the rows are recorded as lost.
    let lostRowCount: UInt64
    let meter: WorkMeter

    struct Outcome: Sendable {
        let table: TableKind
        let runs: [FileName]
        let differences: DifferenceList
        /// How many events are counted whose rows are lost.
        let lostRowCount: UInt64
        /// What is wrong with the bytes of a run, by its place; or `io`.
        let failures: [(run: Int, error: StorageError)]
    }

    /// Reads all pages and compares their rows; on any thread.
    func run() -> Outcome {
        let comparison = TallyComparison.run({ runs.map { $0.makeCursor() } }, to: expected)
        return Outcome(
            table: table, runs: runs.map(\.header.entry.fileName),
            // Without all rows, what is missing says nothing.
            differences: comparison.failures.isEmpty ? comparison.differences : DifferenceList(),
            lostRowCount: comparison.failures.isEmpty ? comparison.lostRowCount : 0,
            failures: comparison.failures.map { ($0.source, $0.error) })
    }

    private var expected: TallyComparison<RunReader<Files>.Cursor>.Expected? {
        guard let total else { return nil }
        let tally =
            switch table {
            case .days: total.folded { names.business(ofKey: $0) }
            case .rewards: total.withoutDays()
            default: total
            }
        return .init(
            tally: tally, areDaysFolded: table == .rewards, lostRowCount: lostRowCount,
            meter: meter)
    }
}

extension LogRecount {
    /// Reports what came of the comparison of a table.
    ///
    /// **Errors** `io`.
    mutating func take<Files>(_ outcome: TableComparison<Files>.Outcome) throws(ReaderError) {
        for failure in outcome.failures {
            guard failure.error.isOfData else { throw ReaderError(failure.error) }
            report.add(
                Finding(failure.error, file: outcome.runs[failure.run].text, what: "run"))
        }
        let table = outcome.table
        let file = outcome.runs.map(\.text).joined(separator: "+")
        if outcome.lostRowCount > 0 {
            report.add(
                Finding(
                    .evidenceLost, file: file,
                    what: "\(outcome.lostRowCount) events in the \(table.name) table whose rows "
                        + "are recorded as lost"))
        }
        add(
            outcome.differences, in: file.isEmpty ? "no \(table.name) run" : file, at: nil,
            of: "\(table.name) table", table: table)
    }
}
