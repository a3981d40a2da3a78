// packet → decode → ring → [admit] → [block] → segment → compaction → snapshot → [query]

/// The small fields of one row, packed: a block stores them as one dictionary-coded column.
///
/// **Layout** u16: bits 0–1 `EventType`, 2–5 `Verdict`, 6–7 `Consent`, 8–9 `AdFormat`, 10 measured,
/// 11 has event id, 12 has session, 13 has money, 14 marked invalid by the sender, 15 outside the window.
@frozen package struct RowAttributes: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    package let rawValue: UInt16
    @inlinable package init(rawValue: UInt16) { self.rawValue = rawValue }

    package static let measured: UInt16 = 1 << 10
    package static let eventID: UInt16 = 1 << 11
    package static let session: UInt16 = 1 << 12
    package static let money: UInt16 = 1 << 13
    package static let markedInvalid: UInt16 = 1 << 14
    package static let outsideWindow: UInt16 = 1 << 15

    @inlinable package init(
        type: UInt8, verdict: Verdict, consent: UInt8, format: UInt8, bits: UInt16
    ) {
        rawValue =
            UInt16(type & 3) | UInt16(verdict.rawValue) << 2 | UInt16(consent & 3) << 6
            | UInt16(format & 3) << 8 | bits
    }

    /// `nil` where the stored bits name no type (0 is none).
    package var type: EventType? { EventType(rawValue: UInt8(rawValue & 3)) }
    /// `nil` where the stored bits name no verdict (13 … 15).
    package var verdict: Verdict? { Verdict(rawValue: UInt8(rawValue >> 2 & 15)) }
    package var consent: Consent? { Consent(rawValue: UInt8(rawValue >> 6 & 3)) }
    package var format: AdFormat? { AdFormat(rawValue: UInt8(rawValue >> 8 & 3)) }
    package var isMeasured: Bool { rawValue & Self.measured != 0 }
    package var hasEventID: Bool { rawValue & Self.eventID != 0 }
    package var hasSession: Bool { rawValue & Self.session != 0 }
    package var hasMoney: Bool { rawValue & Self.money != 0 }
    package var isOutsideWindow: Bool { rawValue & Self.outsideWindow != 0 }

    /// Whether every field holds a value that a row may have (opt-out and malformed events never are
    /// rows); a decoder refuses a block with a row that does not.
    package var isValid: Bool {
        type != nil && verdict != nil && verdict != .malformed && format != nil
            && (consent == .notSet || consent == .optIn)
    }
}
