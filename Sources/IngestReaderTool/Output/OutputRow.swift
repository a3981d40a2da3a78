// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// A column of a table, whatever the format.
package struct OutputColumn: Sendable, Equatable {
    package enum Kind: Sendable {
        case text, count
        /// A number with decimals: a rate, a share.
        case number
        /// Money.
        case decimal
        case flag
        /// A table within the row, or a list.
        case nested
    }

    package let name: String
    package let kind: Kind
    /// Whether a table shows it only where it says more than the other columns do.
    package let isDetail: Bool
}

/// A row that can be written in every format: `give` names its columns and gives their values, both in one place and
/// in the order of every format.
package protocol OutputRow: Sendable {
    /// A row of which only the columns are asked for.
    static var empty: Self { get }
    func give(to sink: inout some ValueSink)
    /// What a table's line of totals sums up; such columns are the last ones.
    var summed: CounterRow? { get }
}

extension OutputRow {
    package var summed: CounterRow? { nil }

    package static var columns: [OutputColumn] {
        var sink = ColumnSink()
        empty.give(to: &sink)
        return sink.columns
    }

    /// The values of `columns`, in their order.
    package var cells: [Cell] {
        var sink = CellSink()
        give(to: &sink)
        return sink.cells
    }
}

/// Takes the values of a row. One that knows cells only has them from all of these.
package protocol ValueSink {
    /// A value of any kind.
    mutating func put(
        _ name: StaticString, _ kind: OutputColumn.Kind, _ cell: @autoclosure () -> Cell)
    mutating func text(_ name: StaticString, _ text: [UInt8])
    /// A name of a closed set, which needs no escapes.
    mutating func word(_ name: StaticString, _ word: String)
    mutating func count(_ name: StaticString, _ count: UInt64)
    /// - Parameter usual: a table leaves the column out where this is what all rows have.
    mutating func detail(_ name: StaticString, _ count: UInt64, usual: UInt64)
    /// - Parameter micros: `nil` is none; of `fraction` too.
    mutating func money(_ name: StaticString, _ micros: UInt128?)
    mutating func fraction(_ name: StaticString, _ micros: UInt64?)
    mutating func rate(_ name: StaticString, _ rate: Rate?)
    /// A table leaves the column out where all rows have 0 or none.
    mutating func detailRate(_ name: StaticString, _ rate: Rate?)
    mutating func flag(_ name: StaticString, _ isSet: Bool)
    mutating func day(_ name: StaticString, _ dayNumber: Int32)
    mutating func time(_ name: StaticString, _ microseconds: Int64)
}

extension ValueSink {
    package mutating func text(_ name: StaticString, _ text: [UInt8]) {
        put(name, .text, .text(String(decoding: text, as: UTF8.self)))
    }

    package mutating func word(_ name: StaticString, _ word: String) {
        put(name, .text, .text(word))
    }

    package mutating func count(_ name: StaticString, _ count: UInt64) {
        put(name, .count, .count(count))
    }

    package mutating func detail(_ name: StaticString, _ count: UInt64, usual: UInt64) {
        self.count(name, count)
    }

    package mutating func money(_ name: StaticString, _ micros: UInt128?) {
        put(name, .decimal, micros.map { .decimal(Money(micros: $0).description) } ?? .none)
    }

    package mutating func fraction(_ name: StaticString, _ micros: UInt64?) {
        put(name, .number, micros.map { .number(Money(micros: UInt128($0)).description) } ?? .none)
    }

    package mutating func rate(_ name: StaticString, _ rate: Rate?) {
        put(name, .number, rate.map { .number($0.description) } ?? .none)
    }

    package mutating func detailRate(_ name: StaticString, _ rate: Rate?) { self.rate(name, rate) }

    package mutating func flag(_ name: StaticString, _ isSet: Bool) {
        put(name, .flag, .flag(isSet))
    }

    package mutating func day(_ name: StaticString, _ dayNumber: Int32) {
        put(name, .text, .text(CivilDay(dayNumber: dayNumber).description))
    }

    package mutating func time(_ name: StaticString, _ microseconds: Int64) {
        put(name, .text, .time(microseconds))
    }
}

/// The columns of a row.
private struct ColumnSink: ValueSink {
    var columns: [OutputColumn] = []

    mutating func put(
        _ name: StaticString, _ kind: OutputColumn.Kind, _ cell: @autoclosure () -> Cell
    ) {
        columns.append(OutputColumn(name: "\(name)", kind: kind, isDetail: false))
    }

    mutating func detail(_ name: StaticString, _ count: UInt64, usual: UInt64) {
        columns.append(OutputColumn(name: "\(name)", kind: .count, isDetail: true))
    }

    mutating func detailRate(_ name: StaticString, _ rate: Rate?) {
        columns.append(OutputColumn(name: "\(name)", kind: .number, isDetail: true))
    }
}

/// The values of a row as cells.
struct CellSink: ValueSink {
    private(set) var cells: [Cell] = []
    /// Columns that say more than others do.
    private(set) var tellingColumns: [Int] = []

    mutating func put(
        _ name: StaticString, _ kind: OutputColumn.Kind, _ cell: @autoclosure () -> Cell
    ) {
        cells.append(cell())
    }

    mutating func detail(_ name: StaticString, _ count: UInt64, usual: UInt64) {
        if count != usual { tellingColumns.append(cells.count) }
        cells.append(.count(count))
    }

    mutating func detailRate(_ name: StaticString, _ rate: Rate?) {
        if let rate, rate.part > 0 { tellingColumns.append(cells.count) }
        self.rate(name, rate)
    }
}

/// One value of a row, before it has a format: what tables show, and what has no column type of its own.
package enum Cell: Sendable, Equatable {
    /// An id or a date: a JSON string.
    case text(String)
    case count(UInt64)
    /// A number with decimals that JSON shows as a number: a rate.
    case number(String)
    /// A decimal that JSON shows as a string, so that no reader makes a binary fraction of it: money.
    case decimal(String)
    case flag(Bool)
    /// Not known, not defined.
    case none
    /// A smaller table within a row, as in `status`.
    case fields([Field])
    case list([Cell])

    /// The value as a person reads it, and as CSV has it.
    package var plainText: String {
        switch self {
        case .text(let text), .number(let text), .decimal(let text): text
        case .count(let count): String(count)
        case .flag(let isSet): isSet ? "true" : "false"
        case .none: ""
        case .fields(let fields):
            fields.map { "\($0.name) \($0.cell == .none ? "-" : $0.cell.plainText)" }
                .joined(separator: ", ")
        case .list(let cells): cells.map(\.plainText).joined(separator: ", ")
        }
    }

    /// The value in a table, where an empty one must be seen, and nothing may act on the terminal.
    package var tableText: String {
        let text = plainText
        return text.isEmpty && self != .text("") ? "-" : TerminalText.escaped(text)
    }

    /// Whether a table aligns it to the right.
    package var isNumeric: Bool {
        switch self {
        case .count, .number, .decimal, .none: true
        case .text, .flag, .fields, .list: false
        }
    }
}

/// A named value.
package struct Field: Sendable, Equatable {
    package let name: String
    package let cell: Cell

    package init(_ name: String, _ cell: Cell) {
        self.name = name
        self.cell = cell
    }
}

extension Cell {
    static func text(orNone text: String?) -> Cell { text.map { .text($0) } ?? .none }
    static func count(orNone count: UInt64?) -> Cell { count.map { .count($0) } ?? .none }
    static func time(_ microseconds: Int64?) -> Cell {
        .text(orNone: microseconds.map { TimeText.utc($0) })
    }

    /// Counts by what they are of, in the order of `keys`; what is not in `counts` is 0.
    static func counts<Key: NamedCode>(
        _ counts: [Key: UInt64], of keys: some Sequence<Key>
    ) -> Cell {
        .fields(keys.map { Field($0.name, .count(counts[$0, default: 0])) })
    }

    /// Those that there are, in the order of their codes.
    static func counts<Key: NamedCode>(_ counts: [Key: UInt64]) -> Cell {
        Cell.counts(counts, of: Key.allCases.filter { counts[$0] != nil })
    }
}

extension Cut {
    package var cell: Cell {
        .fields([Field("segment", .count(UInt64(segment))), Field("block", .count(UInt64(block)))])
    }
}
