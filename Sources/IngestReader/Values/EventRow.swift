// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// One event as the log keeps it. Ids of events and sessions are never stored, and so never here; events of
/// users who opted out and malformed ones are no rows.
public struct EventRow: Sendable, Equatable {
    public typealias Kind = EventType
    /// What admission decided. Only `counted` rows are in the counters of events counted; none is `malformed`.
    public typealias Verdict = IngestFormat.Verdict
    public typealias Consent = IngestFormat.Consent
    public typealias Format = AdFormat

    /// What was measured of an impression.
    public struct Viewability: Sendable, Equatable {
        /// The visible share of the ad's pixels, parts per million: 0 … 1,000,000.
        public let visiblePartsPerMillion: UInt32
        /// The longest continuous time at or above the threshold.
        public let durationMilliseconds: UInt32
    }

    /// Where the row lies: the segment, the ordinal of its commit in it, and the row's number in the commit. It stays so
    /// when the segment is sealed.
    public package(set) var segment: UInt32 = 0
    public package(set) var block: UInt32 = 0
    public package(set) var row = 0
    /// When it happened, by the sender. Microseconds since 1970 UTC.
    public package(set) var timestampMicroseconds: Int64 = 0

    /// Microseconds since 1970 UTC.
    package var admissionTime: Int64 = 0
    package var day: Int32 = 0
    package var key: UInt32 = 0
    /// Of its id, business and type, as the log has it; 0 without an id.
    package var eventHash: UInt64 = 0
    /// Of the name of its reward, where that is beyond the limit of its business; else 0.
    package var rewardHash: UInt64 = 0
    /// Valid: the decoder refuses a block with others.
    package var attributes = RowAttributes(rawValue: 1)
    // Names as they are shown; those of the last three are empty where there is none.
    package var rewardText: [UInt8] = []
    package var businessText: [UInt8] = []
    package var platformText: [UInt8] = []
    package var campaignText: [UInt8] = []
    package var sourceText: [UInt8] = []
    /// Whether its campaign and source are beyond the bound, and shown as `(other)`.
    public package(set) var isCampaignOverflow = false
    /// Parts per million and milliseconds; 0 where it was not measured.
    package var visible: UInt32 = 0
    package var duration: UInt32 = 0
    /// 0 where the event had no amounts.
    package var revenueMicros: UInt64 = 0
    package var spendMicros: UInt64 = 0

    package init() {}

    /// Takes each event; `false` ends the listing.
    package typealias Body = (EventRow) -> Bool
}

extension EventRow {
    /// The business-day that it counts for; fixed when it was written.
    public var date: CivilDay { CivilDay(dayNumber: day) }

    public var kind: Kind { attributes.type ?? .impression }
    public var verdict: Verdict { attributes.verdict ?? .counted }
    public var consent: Consent { attributes.consent }
    public var format: Format { attributes.format ?? .display }

    /// `(lost:N)` where the block that held the name was lost; of the other names too.
    public var rewardID: String { String(decoding: rewardText, as: UTF8.self) }
    public var businessID: String { String(decoding: businessText, as: UTF8.self) }
    public var platform: String? { Self.name(platformText) }
    public var campaign: String? { Self.name(campaignText) }
    public var source: String? { Self.name(sourceText) }

    /// `nil` where it was not measured.
    public var viewability: Viewability? {
        guard attributes.isMeasured else { return nil }
        return Viewability(visiblePartsPerMillion: visible, durationMilliseconds: duration)
    }

    /// `nil` where the event had no amounts.
    public var revenue: Money? { attributes.hasMoney ? Money(micros: UInt128(revenueMicros)) : nil }
    public var spend: Money? { attributes.hasMoney ? Money(micros: UInt128(spendMicros)) : nil }

    /// Whether it had an id or a session, by which repeats can be told.
    public var hasEventID: Bool { attributes.hasEventID }
    public var hasSession: Bool { attributes.hasSession }
    /// Which rule found it to be invalid traffic; `nil` if none did.
    public var invalidTrafficRule: InvalidTrafficRule? { attributes.invalidTrafficRule }
    /// Whether repeats of it could not be told: without id and session, older than the window of ids, or of a session that
    /// the table of sessions had no room for.
    public var isUnchecked: Bool { attributes.isUnchecked }
    /// Counted, but no impression of the reward had been counted in the session.
    public var isOrphan: Bool { attributes.isOrphan }
    /// Whether its reward is beyond the limit of its business, and counted under `(other)`: that is its `rewardID` then.
    public var isOverflow: Bool { attributes.isOverflow }

    private static func name(_ text: [UInt8]) -> String? {
        text.isEmpty ? nil : String(decoding: text, as: UTF8.self)
    }
}

extension NamedCode {
    /// Those that there are.
    /// - Parameter byCode: a count for each case, in their order.
    static func counts(_ byCode: [UInt64]) -> [Self: UInt64] {
        Dictionary(uniqueKeysWithValues: zip(allCases, byCode).filter { $1 > 0 })
    }
}
