// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// How one format writes the rows of a listing.
package protocol RowText {
    associatedtype Row
    /// Puts one row.
    mutating func put(_ row: Row, to bytes: RowBytes)
}

/// How one format writes rows of counters, as bytes.
///
/// Most counters of most rows are 0. So the bytes of a row without events are made once; of a row, those
/// columns that differ are written, and the bytes between them are copied in one piece.
///
/// **Cost** 100 to 200 ns a row.
package struct RowTemplate: RowText {
    private let kind: ListingKind
    private let isJSON: Bool
    /// What stands before each of the columns that name the row.
    private let identityKeys: [[UInt8]]
    /// All counters of a row without events, each behind its key or comma.
    private var zeros: [UInt8] = []
    /// By counter: where its value is in `zeros`.
    private var values: [Range<Int>] = []
    private let end: [UInt8]
    private var dayText = DayText()

    /// - Parameter end: what stands behind the last value.
    package init(_ kind: ListingKind, isJSON: Bool, end: [UInt8]) {
        self.kind = kind
        self.isJSON = isJSON
        self.end = end
        let keys = isJSON ? JSONText.keys(kind.columns) : CSVText.separators(kind.columns)
        identityKeys = Array(keys.prefix(ListingKind.identityColumnCount))
        let counterKeys = keys.dropFirst(ListingKind.identityColumnCount)
        for (key, cell) in zip(counterKeys, Counters(CounterRow()).cells) {
            zeros += key
            let start = zeros.count
            if isJSON {
                JSONText.append(cell, to: &zeros)
            } else {
                zeros += Array(cell.plainText.utf8)
            }
            values.append(start..<zeros.count)
        }
    }

    /// Puts one row.
    package mutating func put(_ row: ListedRow, to bytes: RowBytes) {
        bytes.put(identityKeys[0])
        switch kind {
        case .rewards, .rewardDays: put(text: row.id, to: bytes)
        case .days: putDayID(row, to: bytes)
        }
        bytes.put(identityKeys[1])
        put(text: row.business, to: bytes)
        bytes.put(identityKeys[2])
        if kind == .rewards {
            bytes.put(UInt64(row.businessCount))
        } else {
            put(text: dayText.text(of: row.day), to: bytes)
        }
        putCounters(row.counters, to: bytes)
        bytes.put(end)
    }

    private mutating func putDayID(_ row: ListedRow, to bytes: RowBytes) {
        let date = dayText.text(of: row.day)
        put(text: row.id + [UInt8(ascii: "#")] + date, to: bytes)
    }

    private func put(text: [UInt8], to bytes: RowBytes) {
        if isJSON { JSONText.put(text, to: bytes) } else { CSVText.put(text, to: bytes) }
    }

    private func putCounters(_ row: CounterRow, to bytes: RowBytes) {
        var copied = 0
        /// Copies what lies before a value that is not as in a row without events.
        func put(before column: Int) {
            bytes.put(zeros, copied..<values[column].lowerBound)
            copied = values[column].upperBound
        }
        func put(_ value: UInt64, _ column: Int) {
            if value == 0 { return }
            put(before: column)
            bytes.put(value)
        }
        put(row[.impressions], 0)
        put(row[.clicks], 1)
        put(row[.redemptions], 2)
        let rate = ClickThroughRate(clicks: row[.clicks], impressions: row[.impressions])
        if let rate {
            put(before: 3)
            bytes.put(rate)
        }
        for (column, micros) in [(4, row[.revenueMicros]), (5, row[.spendMicros])]
        where micros != 0 {
            put(before: column)
            if isJSON { bytes.put(UInt8(ascii: "\"")) }
            bytes.put(Money(micros: micros))
            if isJSON { bytes.put(UInt8(ascii: "\"")) }
        }
        put(row[.viewableImpressions], 6)
        put(row[.undeterminedImpressions], 7)
        put(row[.notViewableImpressions], 8)
        // Of most rows nothing was refused or left out but for viewability.
        var others: UInt64 = 0
        let first = CounterColumn.invalidImpressions.rawValue
        for column in first...CounterColumn.refusedRedemptions.rawValue {
            others |= row.values[column]
        }
        if others == 0 {
            put(row[.impressions].saturatingSum(row[.notViewableImpressions]), 9)
            put(row[.clicks], 14)
            put(row[.redemptions], 19)
        }
        // By type: its columns of the row follow each other by the type's number.
        for type in 0..<(others == 0 ? 0 : 3) {
            let column = 9 + 5 * type
            put(row.gross(ofType: type), column)
            put(row.values[CounterColumn.invalidImpressions.rawValue + type], column + 1)
            put(row.values[CounterColumn.duplicateImpressions.rawValue + type], column + 2)
            put(row.values[CounterColumn.conflictImpressions.rawValue + type], column + 3)
            put(row.values[CounterColumn.refusedImpressions.rawValue + type], column + 4)
        }
        put(row[.uncheckedEvents], 24)
        bytes.put(zeros, copied..<zeros.count)
    }
}

extension RowBytes {
    /// As `Money.description`.
    func put(_ amount: Money) {
        put(amount.micros / 1_000_000)
        put(UInt8(ascii: "."))
        var rest = amount.micros % 1_000_000
        var width = 6
        while width > 2, rest % 10 == 0 {
            rest /= 10
            width -= 1
        }
        put(rest, width: width)
    }

    /// As `ClickThroughRate.description`.
    func put(_ rate: ClickThroughRate) {
        let value = rate.tenThousandths
        if let small = UInt64(exactly: value) {
            put(small / 10_000)
            put(UInt8(ascii: "."))
            put(small % 10_000, width: 4)
        } else {
            put(Array(rate.description.utf8))
        }
    }
}
