// packet → decode → ring → [admit] → [block] → segment → compaction → snapshot → [query]

/// The small fields of one row, packed: a block stores them as one dictionary-coded column.
///
/// **Layout** u16: bits 0–1 `EventType`, 2–5 `Verdict`, 6 measured, 7–8 detail, 9 overflow, 10 `Consent` (not set or
/// opt-in), 11–12 `AdFormat`, 13 has event id, 14 has session, 15 has money. The counting rule looks at bits 0–9 alone.
///
/// *Detail* says more about the verdict. Of counted rows: bit 7 orphan, bit 8 unchecked. Of invalid traffic: the code of
/// the rule, see `InvalidTrafficRule`. Of others it is 0, but for bit 8 of those refused as outside the window.
@frozen public struct RowAttributes: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt16
    @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

    public static let measured: UInt16 = 1 << 6
    public static let orphan: UInt16 = 1 << 7
    public static let unchecked: UInt16 = 1 << 8
    public static let overflow: UInt16 = 1 << 9
    public static let eventID: UInt16 = 1 << 13
    public static let session: UInt16 = 1 << 14
    public static let money: UInt16 = 1 << 15

    /// What decides which counters a row adds to.
    @inlinable public static var countingMask: UInt16 { 0x03FF }
    /// The bits of the verdict: none are set in a counted row.
    @inlinable public static var verdictMask: UInt16 { 0x003C }

    /// - Parameter consent: not opt-out, which is no row.
    @inlinable public init(
        type: UInt8, verdict: Verdict, consent: UInt8, format: UInt8, bits: UInt16
    ) {
        rawValue =
            UInt16(type & 3) | UInt16(verdict.rawValue) << 2 | UInt16(consent & 1) << 10
            | UInt16(format & 3) << 11 | bits
    }

    /// The detail of a row that a rule found to be invalid traffic.
    @inlinable public static func detail(_ rule: InvalidTrafficRule) -> UInt16 {
        UInt16(rule.rawValue) << 7
    }

    /// `nil` where the stored bits name no type (0 is none).
    public var type: EventType? { EventType(rawValue: UInt8(rawValue & 3)) }
    /// `nil` where the stored bits name no verdict (13 … 15).
    public var verdict: Verdict? { Verdict(rawValue: UInt8(rawValue >> 2 & 15)) }
    public var consent: Consent { rawValue & 1 << 10 != 0 ? .optIn : .notSet }
    public var format: AdFormat? { AdFormat(rawValue: UInt8(rawValue >> 11 & 3)) }
    public var isMeasured: Bool { rawValue & Self.measured != 0 }
    public var hasEventID: Bool { rawValue & Self.eventID != 0 }
    public var hasSession: Bool { rawValue & Self.session != 0 }
    public var hasMoney: Bool { rawValue & Self.money != 0 }
    /// Whether its reward is one of those beyond its business's limit, counted under `(other)`.
    public var isOverflow: Bool { rawValue & Self.overflow != 0 }
    /// Counted, but no impression of the reward was counted in the session before.
    public var isOrphan: Bool { verdict == .counted && rawValue & Self.orphan != 0 }
    /// Could not be compared with what was counted before: without id and session, outside the window, or of a session
    /// that the table had no room for.
    public var isUnchecked: Bool {
        (verdict == .counted || verdict == .outsideWindow) && rawValue & Self.unchecked != 0
    }
    /// Why it is invalid traffic; `nil` if it is not.
    public var invalidTrafficRule: InvalidTrafficRule? {
        verdict == .invalidTraffic
            ? InvalidTrafficRule(rawValue: UInt8(rawValue >> 7 & 3)) : nil
    }

    /// Whether every field holds a value that a row may have (opt-out and malformed events never are
    /// rows); a decoder refuses a block with a row that does not.
    public var isValid: Bool {
        type != nil && verdict != nil && verdict != .malformed && format != nil
    }
}

/// What the attributes of all rows of a block say together: how long its sparse columns are, and
/// whether every row holds defined values.
///
/// **Cost** 0.2 ns a row: no branch, and the compiler makes vectors of it.
package struct AttributeTally {
    package private(set) var eventHashCount = 0
    package private(set) var sessionCount = 0
    package private(set) var overflowCount = 0
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
        var (eventHash, session) = (UInt16(0), UInt16(0))
        var (measured, money, overflow) = (UInt16(0), UInt16(0), UInt16(0))
        var invalid: UInt16 = 0
        for i in rows {
            // SAFETY: i < count.
            let bits = unsafe source[i]
            measured &+= bits &>> 6 & 1
            overflow &+= bits &>> 9 & 1
            eventHash &+= bits &>> 13 & 1
            session &+= bits &>> 14 & 1
            money &+= bits &>> 15
            // Type 0 borrows into the top bit.
            invalid |= ((bits & 3) &- 1) & 0x8000
            // Both upper bits of the verdict (12 … 15); both bits of the format (3).
            invalid |= bits & (bits &<< 1) & 0x1020
        }
        eventHashCount &+= Int(eventHash)
        sessionCount &+= Int(session)
        overflowCount &+= Int(overflow)
        measuredCount &+= Int(measured)
        moneyCount &+= Int(money)
        invalidBits |= invalid
    }
}

/// Pseudonyms of sessions as blocks store them: 48 bits of a keyed hash, 6 bytes each, back to back. They do not compress.
enum SessionPseudonym {
    static let byteCount = 6

    /// Writes the low 48 bits of `count` pseudonyms.
    ///
    /// SAFETY (caller): `target` has room for 6 × `count` bytes and two more.
    @unsafe static func pack(
        _ source: UnsafePointer<UInt64>, count: Int, to target: UnsafeMutableRawPointer
    ) {
        for index in 0..<count {
            // SAFETY: as above. The upper two bytes are written over by the next one.
            unsafe target.storeBytes(
                of: source[index].littleEndian, toByteOffset: index &* byteCount, as: UInt64.self)
        }
    }

    /// Reads the pseudonyms that the bytes hold.
    ///
    /// SAFETY (caller): `target` has room for as many values.
    @unsafe static func unpack(
        _ bytes: UnsafeRawBufferPointer, to target: UnsafeMutablePointer<UInt64>
    ) {
        for index in 0..<bytes.count / byteCount {
            let place = index &* byteCount
            // SAFETY: six bytes are there from `place` on.
            let low = unsafe UInt64(
                bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self).littleEndian)
            let high = unsafe UInt64(
                bytes.loadUnaligned(fromByteOffset: place &+ 4, as: UInt16.self).littleEndian)
            unsafe target[index] = high &<< 32 | low
        }
    }
}
