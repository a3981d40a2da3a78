// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// One event as the log keeps it. Ids of events and sessions are never stored, and so never here; events of
/// users who opted out and malformed ones are no rows.
public struct EventRow: Sendable, Equatable {
    /// What happened to the ad; raw values are those of JSON events.
    public enum Kind: String, Sendable, CaseIterable { case impression, click, redemption }

    /// What admission decided, in the order of the codes. Only `counted` rows are in the counters of events counted.
    public enum Verdict: String, Sendable, CaseIterable {
        case counted
        case notViewable = "not_viewable"
        case undetermined, duplicate, conflict
        case sessionRepeat = "session_repeat"
        case invalidTraffic = "invalid_traffic"
        case tooOld = "too_old"
        case tooEarly = "too_early"
        case noConsent = "no_consent"
        case outsideWindow = "outside_window"
        case wrongBusiness = "wrong_business"
        /// Never that of a row: the ledger and the status count them.
        case malformed
    }

    /// The user's choice as the sender knew it.
    public enum Consent: String, Sendable, CaseIterable { case notSet, optIn }

    /// Which viewability threshold applied.
    public enum Format: String, Sendable, CaseIterable { case display, largeDisplay, video }

    /// What was measured of an impression.
    public struct Viewability: Sendable, Equatable {
        /// The visible share of the ad's pixels, parts per million: 0 … 1,000,000.
        public let visiblePartsPerMillion: UInt32
        /// The longest continuous time at or above the threshold.
        public let durationMilliseconds: UInt32
    }

    /// Where the row lies: the segment, the block's ordinal in it, and the row's number in the block.
    public let segment: UInt32
    public let block: UInt32
    public let row: Int

    /// When it happened, by the sender. Microseconds since 1970 UTC.
    public let timestampMicroseconds: Int64
    /// The business-day that it counts for; fixed when it was written.
    public let date: CivilDay
    public let kind: Kind
    public let verdict: Verdict
    /// `(lost:N)` where the block that held the name was lost; of the other names too.
    public let rewardID: String
    public let businessID: String
    public let consent: Consent
    public let format: Format
    /// `nil` where it was not measured.
    public let viewability: Viewability?
    public let platform: String?
    public let campaign: String?
    public let source: String?
    /// `nil` where the event had no amounts.
    public let revenue: Money?
    public let spend: Money?
    /// Whether it had an id or a session, by which repeats can be told.
    public let hasEventID: Bool
    public let hasSession: Bool
    /// Whether the sender itself marked it as invalid traffic.
    public let isMarkedInvalid: Bool
    /// Whether it was older than the window of ids that could be compared.
    public let isOutsideWindow: Bool
}

extension EventRow {
    package init(_ event: ListedEvent) {
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        func name(_ bytes: [UInt8]) -> String? { bytes.isEmpty ? nil : text(bytes) }
        segment = event.segment
        block = event.block
        row = event.row
        timestampMicroseconds = event.timestamp
        date = CivilDay(dayNumber: event.day)
        kind = event.kind
        verdict = event.verdict
        rewardID = text(event.reward)
        businessID = text(event.business)
        consent = event.consent
        format = event.format
        let attributes = event.attributes
        viewability =
            attributes.isMeasured
            ? Viewability(
                visiblePartsPerMillion: event.visible, durationMilliseconds: event.duration)
            : nil
        platform = name(event.platform)
        campaign = name(event.campaign)
        source = name(event.source)
        revenue = attributes.hasMoney ? Money(micros: event.revenueMicros) : nil
        spend = attributes.hasMoney ? Money(micros: event.spendMicros) : nil
        hasEventID = attributes.hasEventID
        hasSession = attributes.hasSession
        isMarkedInvalid = event.isMarkedInvalid
        isOutsideWindow = attributes.isOutsideWindow
    }
}
