// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

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
            fields.map { "\($0.name) \($0.cell.plainText)" }.joined(separator: ", ")
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
