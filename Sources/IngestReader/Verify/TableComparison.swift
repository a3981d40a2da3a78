// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// Holds the runs of one table against the recount.
struct TableComparison<Files: FileSystem> {
    let table: TableKind
    let runs: [RunReader<Files>]

    /// Sums the runs, and reports every counter that is not what the rows say.
    ///
    /// - Parameter total: of all rows that the runs cover; `nil` where not all could be read, and the
    ///   runs are only checked.
    func run(_ recount: inout LogRecount, against total: Tally?) throws(ReaderError) {
        var found = Tally()
        var areAllRead = true
        for run in runs {
            do throws(StorageError) { try sum(run, into: &found, &recount) } catch {
                guard error.isOfData else { throw ReaderError(error) }
                recount.report.add(
                    Finding(error, file: run.header.entry.fileName.text, what: "run"))
                areAllRead = false
            }
        }
        guard let total, areAllRead else { return }
        let names = recount.names
        let file = runs.map(\.header.entry.fileName.text).joined(separator: "+")
        var findings: [Finding] = []
        expected(of: total, recount).differences(from: found) { difference in
            findings.append(
                Finding(
                    difference, file: file.isEmpty ? "no \(table.name) run" : file, offset: nil,
                    of: "\(table.name) table"
                ) { item in
                    table == .days ? names.describe(text: item) : names.describe(pair: item)
                })
        }
        for finding in findings { recount.report.add(finding) }
    }

    private func sum(
        _ run: RunReader<Files>, into found: inout Tally, _ recount: inout LogRecount
    ) throws(StorageError) {
        let page = CounterPage()
        var cursor = run.makeCursor()
        while try cursor.nextPage(into: page) {
            for row in 0..<page.rowCount {
                let ordinal = page.key(row)
                let item =
                    table == .days
                    ? recount.names.text(ofName: ordinal) : recount.names.pair(ofKey: ordinal)
                found.add(
                    page.counters(row), item: item, day: table.hasDay ? page.day(row) : 0)
            }
        }
    }

    private func expected(of total: Tally, _ recount: LogRecount) -> Tally {
        var expected = Tally()
        switch table {
        case .rewardDays, .names: expected = total
        case .rewards:
            expected.add(total) { Tally.Place(item: $0.item, day: 0) }
        case .days:
            expected.add(total) {
                Tally.Place(item: recount.names.business(ofPair: $0.item), day: $0.day)
            }
        }
        return expected
    }
}

extension Finding {
    init(
        _ difference: Tally.Difference, file: String, offset: UInt64?, of source: String,
        describe: (UInt32) -> String
    ) {
        func text(_ place: Tally.Place) -> String {
            "\(describe(place.item)) day \(CivilDay(dayNumber: place.day))"
        }
        switch difference {
        case .counter(let place, let column, let got, let expected):
            self.init(
                .difference, file: file, offset: offset,
                what: "\(column) of \(text(place)) in the \(source)", got: "\(got)",
                expected: "\(expected)")
        case .overflow(let place, let column):
            self.init(
                .difference, file: file, offset: offset,
                what: "\(column) of \(text(place)) in the \(source)",
                got: "a sum that does not fit 64 bits", expected: "one that does")
        case .surplus(let place):
            self.init(
                .difference, file: file, offset: offset, what: "\(text(place)) in the \(source)",
                got: "a row", expected: "no event")
        case .missing(let place):
            self.init(
                .difference, file: file, offset: offset, what: "\(text(place)) in the \(source)",
                got: "no row", expected: "a row")
        }
    }
}
