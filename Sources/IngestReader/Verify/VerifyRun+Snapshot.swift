// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

// The newest generation's runs held against the log.

extension VerifyRun {
    /// What comes of holding a part of the newest generation against the log.
    private enum Outcome: Sendable {
        case names(NamesComparison<Files>.Outcome)
        case table(TableComparison<Files>.Outcome)
    }

    func compare(
        _ target: VerifyTarget<Files>, _ recount: inout LogRecount, _ wait: () -> Bool
    ) throws(ReaderError) {
        let isComplete = recount.isTotalComplete
        let names = namesComparisons(target, recount)
        let total = recount.total.sum
        let tables = TableKind.counterTables.map { table in
            // Behind the runs of rewards, those of reward-days stand for them.
            let numbers = Set(target.manifest.runs(of: table).map(\.fileNumber))
            let runs = target.runs.filter { numbers.contains($0.header.fileNumber) }
            return TableComparison(
                table: table, runs: runs,
                total: isComplete && runs.count == numbers.count ? total : nil,
                names: recount.names,
                lostRowCount: recount.lostRowCount(
                    in: LogSpan(firstSegment: SegmentNumber(rawValue: 1), end: recount.cut)),
                meter: meter)
        }
        var attestedNames: [UInt64] = []
        let work = OrderedWork<Void, Outcome>(
            count: names.count + tables.count, workerCount: workerCount)
        try work.run(
            work: { index in
                index < names.count
                    ? .names(names[index].run()) : .table(tables[index - names.count].run())
            }, wait: wait,
            take: { (outcome) throws(ReaderError) in
                switch outcome {
                case .names(let outcome):
                    attestedNames += outcome.attested
                    try recount.take(outcome)
                case .table(let outcome): try recount.take(outcome)
                }
                return true
            })
        try stopIfAsked()
        try findRepeats(target, attestedNames, &recount, wait)
        if !isComplete {
            recount.report.add(
                Finding(
                    .note, file: FileName.manifest(target.manifest.generation).text,
                    what: "the runs were not held against the rows: not all rows can be read"))
        }
    }

    private func namesComparisons(
        _ target: VerifyTarget<Files>, _ recount: LogRecount
    ) -> [NamesComparison<Files>] {
        let isLogWhole =
            recount.report.corruptionCount == 0 && recount.report.evidenceLostCount == 0
        return target.namesRuns.map { run in
            NamesComparison(
                reader: run, names: recount.names, areNamesComplete: isLogWhole,
                meter: meter)
        }
    }

    /// Looks for names and keys that were given more than once.
    private func findRepeats(
        _ target: VerifyTarget<Files>, _ attestedNames: [UInt64], _ recount: inout LogRecount,
        _ wait: () -> Bool
    ) throws(ReaderError) {
        let search = RepeatSearch(names: recount.names, attestedNames: attestedNames)
        let manifest = FileName.manifest(target.manifest.generation).text
        let work = OrderedWork<Void, RepeatSearch.Outcome>(
            count: RepeatSearch.partCount, workerCount: workerCount)
        var found = RepeatSearch.Outcome()
        work.run(work: { search.run(part: $0) }, wait: wait) { outcome in
            found.names += outcome.names
            found.keys += outcome.keys
            return true
        }
        try stopIfAsked()
        found.names.sort { ($0.ordinal, $0.other) < ($1.ordinal, $1.other) }
        found.keys.sort { ($0.ordinal, $0.other) < ($1.ordinal, $1.other) }
        recount.take(found, manifest)
    }
}

extension LogRecount {
    /// Reports what came of a names run of the newest generation.
    ///
    /// **Errors** `io`.
    fileprivate mutating func take<Files>(
        _ outcome: NamesComparison<Files>.Outcome
    ) throws(ReaderError) {
        report.append(outcome.report)
        guard let error = outcome.failure else { return }
        guard error.isOfData else { throw ReaderError(error) }
        report.add(Finding(error, file: outcome.file, what: "run"))
    }
}
