// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader
import IngestVerify

/// What the rows of a listing have in common as JSON or CSV: the bytes of a row of zeros.
struct RowTemplate: Sendable {
    fileprivate let style: ValueText
    /// What stands between two rows, then a row of zeros, with what stands before and behind its values.
    fileprivate let bytes: [UInt8]
    fileprivate let rowStart: Int
    /// By column: where its value is in `bytes`.
    fileprivate let values: [Range<Int>]

    /// More bytes than most rows have.
    var rowByteCount: Int { bytes.count + 192 }

    /// - Parameters:
    ///   - between: what stands between two rows.
    ///   - end: what stands behind the last value.
    init(_ columns: [OutputColumn], _ style: ValueText, between: String = "", end: String) {
        self.style = style
        var bytes = Array(between.utf8)
        var values: [Range<Int>] = []
        for (index, column) in columns.enumerated() {
            bytes += OutputBuffer.bytes {
                style.separator(before: column.name, isFirst: index == 0, to: $0)
            }
            let start = bytes.count
            bytes += OutputBuffer.bytes {
                switch column.kind {
                case .text, .nested: break
                case .count: $0.put("0")
                case .number: $0.put(style.absent)
                case .decimal: style.put(Cell.decimal("0.00"), to: $0)
                case .flag: $0.put("false")
                }
            }
            values.append(start..<bytes.count)
        }
        rowStart = between.utf8.count
        self.bytes = bytes + Array(end.utf8)
        self.values = values
    }
}

/// Rows → JSON or CSV. Owned by one thread of a listing.
///
/// Most counters of most rows are 0. So the bytes of a row of zeros are made once; of a row, those columns that differ
/// are written, and the bytes between them are copied in one piece. So is a text that the row before had too.
///
/// **Cost** 100 to 200 ns a row of counters. To be used between two flushes of its buffer.
struct RowWriter: ValueSink {
    private let style: ValueText
    private let output: OutputBuffer
    private let template: RowTemplate
    // Of the row that is being written.
    private var column = 0
    private var copied = 0
    private var days = DayPlaces()
    // By column: the last text that is not empty, and where it lies in the output.
    private var texts: [[UInt8]]
    private var places: [Range<Int>]

    init(_ template: RowTemplate, to output: OutputBuffer) {
        style = template.style
        self.template = template
        self.output = output
        texts = Array(repeating: [], count: template.values.count)
        places = Array(repeating: 0..<0, count: template.values.count)
    }

    /// - Parameter isFirst: whether no row stands before it.
    mutating func write(_ row: some OutputRow, isFirst: Bool) {
        column = 0
        copied = isFirst ? template.rowStart : 0
        row.give(to: &self)
        output.put(template.bytes, copied..<template.bytes.count)
    }

    /// Goes past a column that is as in the template.
    @inline(__always)
    private mutating func skip() { column &+= 1 }

    /// Copies what stands before the next column's value, and leaves out the value.
    private mutating func begin() {
        let value = template.values[column]
        output.put(template.bytes, copied..<value.lowerBound)
        copied = value.upperBound
        column &+= 1
    }

    private func quote() { if style == .json { output.put(UInt8(ascii: "\"")) } }

    mutating func put(
        _ name: StaticString, _ kind: OutputColumn.Kind, _ cell: @autoclosure () -> Cell
    ) {
        begin()
        style.put(cell(), to: output)
    }

    mutating func text(_ name: StaticString, _ text: [UInt8]) {
        let column = column
        begin()
        if !places[column].isEmpty, texts[column] == text {
            return output.putAgain(places[column])
        }
        let start = output.position
        style.put(text, to: output)
        (texts[column], places[column]) = (text, start..<output.position)
    }

    mutating func word(_ name: StaticString, _ word: String) {
        begin()
        quote()
        output.put(word)
        quote()
    }

    @inline(__always)
    mutating func count(_ name: StaticString, _ count: UInt64) {
        if count == 0 { return skip() }
        begin()
        output.put(count)
    }

    @inline(__always)
    mutating func detail(_ name: StaticString, _ count: UInt64, usual: UInt64) {
        self.count(name, count)
    }

    mutating func money(_ name: StaticString, _ micros: UInt128?) {
        if micros == 0 { return skip() }
        begin()
        guard let micros else { return output.put(style.absent) }
        quote()
        output.put(Money(micros: micros))
        quote()
    }

    mutating func fraction(_ name: StaticString, _ micros: UInt64?) {
        guard let micros else { return skip() }
        begin()
        output.put(Money(micros: UInt128(micros)))
    }

    mutating func rate(_ name: StaticString, _ rate: Rate?) {
        guard let rate else { return skip() }
        begin()
        output.put(rate)
    }

    mutating func detailRate(_ name: StaticString, _ rate: Rate?) { self.rate(name, rate) }

    mutating func flag(_ name: StaticString, _ isSet: Bool) {
        if !isSet { return skip() }
        begin()
        output.put("true")
    }

    mutating func day(_ name: StaticString, _ dayNumber: Int32) {
        begin()
        quote()
        days.put(dayNumber, to: output)
        quote()
    }

    /// As `TimeText.utc`, with the texts of days at hand.
    mutating func time(_ name: StaticString, _ microseconds: Int64) {
        let parts = microseconds.quotientAndRemainder(dividingBy: TimeText.dayMicroseconds)
        let isBefore = parts.remainder < 0
        let day = Int32(clamping: parts.quotient - (isBefore ? 1 : 0))
        let rest = UInt64(parts.remainder + (isBefore ? TimeText.dayMicroseconds : 0))
        let seconds = rest / 1_000_000
        begin()
        quote()
        days.put(day, to: output)
        let parted = [("T", seconds / 3600), (":", seconds / 60 % 60), (":", seconds % 60)]
        for (mark, number) in parted {
            output.put(mark)
            output.put(number, width: 2)
        }
        output.put(UInt8(ascii: "."))
        output.put(rest % 1_000_000, width: 6)
        output.put(UInt8(ascii: "Z"))
        quote()
    }
}

/// Where the days that were put last lie in the output: rows have few.
private struct DayPlaces {
    private static let slotCount = 64

    /// By day, modulo their number.
    private var slots = [(day: Int32, place: Range<Int>)](
        repeating: (0, 0..<0), count: slotCount)

    mutating func put(_ day: Int32, to output: OutputBuffer) {
        let slot = Int(truncatingIfNeeded: day) & (Self.slotCount - 1)
        if slots[slot].day == day, !slots[slot].place.isEmpty {
            return output.putAgain(slots[slot].place)
        }
        let start = output.position
        output.put(CivilDay(dayNumber: day).description)
        slots[slot] = (day, start..<output.position)
    }
}

/// Some rows of a listing, in their order. Parts of them may be read side by side, on several threads.
package protocol RowBatch: Sendable {
    associatedtype Row: OutputRow
    var rowCount: Int { get }
    /// - Parameter part: inside `0 ..< rowCount`.
    func forEachRow(in part: Range<Int>, _ body: (Row) throws -> Void) rethrows
}

/// Gives all rows of a listing, batch by batch; the same ones at each call.
package typealias Rows<Batch: RowBatch> = ((Batch) throws -> Void) throws -> Void

extension RowBatch {
    func forEachRow(_ body: (Row) throws -> Void) rethrows {
        try forEachRow(in: 0..<rowCount, body)
    }
}

extension Array: RowBatch where Element: OutputRow {
    package var rowCount: Int { count }
    package func forEachRow(in part: Range<Int>, _ body: (Element) throws -> Void) rethrows {
        for row in self[part] { try body(row) }
    }
}

/// Rows of counters.
package struct ListedRows<Row: CounterListedRow & OutputRow>: RowBatch {
    fileprivate let range: ListedRange
    fileprivate let start: Int
    package let rowCount: Int

    package func forEachRow(in part: Range<Int>, _ body: (Row) throws -> Void) rethrows {
        try range.forEachRow(in: start + part.lowerBound..<start + part.upperBound) { row in
            try body(row)
            return true
        }
    }
}

extension IngestReader {
    /// Some parts for each core (`RowFormatter`), and few enough rows that the text of two cores stays in their caches: with
    /// four times as many an export took some percent longer.
    private static let batchRowCountMax = max(1 << 11, processorCount << 10)
    /// Of rows that are made one by one.
    private static var madeRowCountMax: Int { 1 << 12 }

    func rows<Listing: CounterListing>(
        of listing: Listing
    ) -> Rows<ListedRows<Listing.Row>> where Listing.Row: OutputRow {
        { body in
            try forEachRange(of: listing) { range in
                for start in stride(from: 0, to: range.rowCount, by: Self.batchRowCountMax) {
                    let count = min(Self.batchRowCountMax, range.rowCount - start)
                    try body(ListedRows(range: range, start: start, rowCount: count))
                }
            }
        }
    }

    func rows(of query: EventsQuery) -> Rows<[EventRow]> {
        Self.gathered { give in try forEachEvent(query) { try give($0) } }
    }

    func rows(of query: CampaignsQuery) -> Rows<[CampaignRow]> {
        Self.gathered { give in try forEachCampaign(query) { try give($0) } }
    }

    func rows(ofEvent id: [UInt8], business: String) -> Rows<[FoundEvent]> {
        Self.gathered { give in
            try forEachFound(eventID: id, business: business) { try give($0) }
        }
    }

    private static func gathered<Row: OutputRow>(
        _ list: @escaping ((Row) throws -> Iteration) throws -> Void
    ) -> Rows<[Row]> {
        { body in
            var rows: [Row] = []
            try list { row in
                rows.append(row)
                if rows.count == madeRowCountMax {
                    try body(rows)
                    rows.removeAll(keepingCapacity: true)
                }
                return .next
            }
            if !rows.isEmpty { try body(rows) }
        }
    }
}
