// packet → decode → ring → [admit] → [block] → segment → compaction → snapshot → [query]

/// The small fields of one row, packed: a block stores them as one dictionary-coded column.
///
/// **Layout** u16: bits 0–1 `EventType`, 2–5 `Verdict`, 6–7 `Consent`, 8–9 `AdFormat`, 10 measured,
/// 11 has event id, 12 has session, 13 has money, 14 marked invalid by the sender, 15 outside the window.
@frozen public struct RowAttributes: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt16
    @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

    public static let measured: UInt16 = 1 << 10
    public static let eventID: UInt16 = 1 << 11
    public static let session: UInt16 = 1 << 12
    public static let money: UInt16 = 1 << 13
    public static let markedInvalid: UInt16 = 1 << 14
    public static let outsideWindow: UInt16 = 1 << 15

    @inlinable public init(
        type: UInt8, verdict: Verdict, consent: UInt8, format: UInt8, bits: UInt16
    ) {
        rawValue =
            UInt16(type & 3) | UInt16(verdict.rawValue) << 2 | UInt16(consent & 3) << 6
            | UInt16(format & 3) << 8 | bits
    }

    /// `nil` where the stored bits name no type (0 is none).
    public var type: EventType? { EventType(rawValue: UInt8(rawValue & 3)) }
    /// `nil` where the stored bits name no verdict (13 … 15).
    public var verdict: Verdict? { Verdict(rawValue: UInt8(rawValue >> 2 & 15)) }
    public var consent: Consent? { Consent(rawValue: UInt8(rawValue >> 6 & 3)) }
    public var format: AdFormat? { AdFormat(rawValue: UInt8(rawValue >> 8 & 3)) }
    public var isMeasured: Bool { rawValue & Self.measured != 0 }
    public var hasEventID: Bool { rawValue & Self.eventID != 0 }
    public var hasSession: Bool { rawValue & Self.session != 0 }
    public var hasMoney: Bool { rawValue & Self.money != 0 }
    public var isOutsideWindow: Bool { rawValue & Self.outsideWindow != 0 }

    /// Whether every field holds a value that a row may have (opt-out and malformed events never are
    /// rows); a decoder refuses a block with a row that does not.
    public var isValid: Bool {
        type != nil && verdict != nil && verdict != .malformed && format != nil
            && (consent == .notSet || consent == .optIn)
    }
}

/// What the attributes of all rows of a block say together: how long its sparse columns are, and
/// whether every row holds defined values.
///
/// **Cost** 0.2 ns a row: no branch, and the compiler makes vectors of it.
package struct AttributeTally {
    package private(set) var eventHashCount = 0
    package private(set) var measuredCount = 0
    package private(set) var moneyCount = 0
    private var invalidBits: UInt16 = 0

    /// The same answer as `RowAttributes.isValid` of every row.
    package var areAllValid: Bool { invalidBits == 0 }

    package init(_ source: UnsafePointer<UInt16>, count: Int) {
        var start = 0
        while start < count {
            // As many rows as 16 bits count: vectors hold twice as many as of 32.
            let end = min(start &+ Int(UInt16.max), count)
            unsafe add(source, start..<end)
            start = end
        }
    }

    private mutating func add(_ source: UnsafePointer<UInt16>, _ rows: Range<Int>) {
        var (eventHash, measured, money) = (UInt16(0), UInt16(0), UInt16(0))
        var invalid: UInt16 = 0
        for i in rows {
            // SAFETY: i < count.
            let bits = unsafe source[i]
            measured &+= bits &>> 10 & 1
            eventHash &+= bits &>> 11 & 1
            money &+= bits &>> 13 & 1
            // Type 0 borrows into the top bit.
            invalid |= ((bits & 3) &- 1) & 0x8000
            // Both upper bits of the verdict (12 … 15); both bits of the format (3).
            invalid |= bits & (bits &<< 1) & 0x0220
            // The upper bit of consent: opt-out and undefined.
            invalid |= bits & 0x0080
        }
        eventHashCount &+= Int(eventHash)
        measuredCount &+= Int(measured)
        moneyCount &+= Int(money)
        invalidBits |= invalid
    }
}
