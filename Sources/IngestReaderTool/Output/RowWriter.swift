// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// Rows → JSON or CSV. Owned by one listing.
///
/// Most counters of most rows are 0. So the bytes of a row of zeros are made once; of a row, those columns that differ
/// are written, and the bytes between them are copied in one piece.
///
/// **Cost** 100 to 200 ns a row of counters.
struct RowWriter: ValueSink {
    private let style: ValueText
    private let output: OutputBuffer
    /// A row of zeros, with what stands before and behind its values.
    private let template: [UInt8]
    /// By column: where its value is in the template.
    private let values: [Range<Int>]
    // Of the row that is being written.
    private var column = 0
    private var copied = 0
    private var dayTexts = [DayText(), DayText()]

    /// - Parameter end: what stands behind the last value.
    init(_ columns: [OutputColumn], _ style: ValueText, end: [UInt8], to output: OutputBuffer) {
        self.style = style
        self.output = output
        var template: [UInt8] = []
        var values: [Range<Int>] = []
        for (index, column) in columns.enumerated() {
            template += OutputBuffer.bytes {
                style.separator(before: column.name, isFirst: index == 0, to: $0)
            }
            let start = template.count
            template += OutputBuffer.bytes {
                switch column.kind {
                case .text, .nested: break
                case .count: $0.put("0")
                case .number: $0.put(style.absent)
                case .decimal: style.put(Cell.decimal("0.00"), to: $0)
                case .flag: $0.put("false")
                }
            }
            values.append(start..<template.count)
        }
        self.template = template + end
        self.values = values
    }

    mutating func write(_ row: some OutputRow) {
        column = 0
        copied = 0
        row.give(to: &self)
        output.put(template, copied..<template.count)
    }

    /// Goes past a column that is as in the template.
    @inline(__always)
    private mutating func skip() { column &+= 1 }

    /// Copies what stands before the next column's value, and leaves out the value.
    private mutating func begin() {
        let value = values[column]
        output.put(template, copied..<value.lowerBound)
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
        begin()
        style.put(text, to: output)
    }

    mutating func word(_ name: StaticString, _ word: String) {
        begin()
        quote()
        output.put(word)
        quote()
    }

    mutating func count(_ name: StaticString, _ count: UInt64) {
        if count == 0 { return skip() }
        begin()
        output.put(count)
    }

    mutating func money(_ name: StaticString, _ micros: UInt64?) {
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
        output.put(Money(micros: micros))
    }

    mutating func rate(_ name: StaticString, _ rate: ClickThroughRate?) {
        guard let rate else { return skip() }
        begin()
        output.put(rate)
    }

    mutating func flag(_ name: StaticString, _ isSet: Bool) {
        if !isSet { return skip() }
        begin()
        output.put("true")
    }

    mutating func day(_ name: StaticString, _ dayNumber: Int32) {
        begin()
        quote()
        output.put(dayTexts[0].text(of: dayNumber))
        quote()
    }

    /// As `TimeText.utc`, with the text of the last day at hand.
    mutating func time(_ name: StaticString, _ microseconds: Int64) {
        let parts = microseconds.quotientAndRemainder(dividingBy: TimeText.dayMicroseconds)
        let isBefore = parts.remainder < 0
        let day = Int32(clamping: parts.quotient - (isBefore ? 1 : 0))
        let rest = UInt64(parts.remainder + (isBefore ? TimeText.dayMicroseconds : 0))
        let seconds = rest / 1_000_000
        begin()
        quote()
        output.put(dayTexts[1].text(of: day))
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

/// The text of the day that was asked for last: days of neighbouring rows are nearly always the same.
private struct DayText {
    private var day: Int32?
    private var text: [UInt8] = []

    mutating func text(of day: Int32) -> [UInt8] {
        if self.day != day {
            self.day = day
            text = Array(CivilDay(dayNumber: day).description.utf8)
        }
        return text
    }
}
