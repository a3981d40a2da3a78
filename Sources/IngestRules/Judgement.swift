// packet → decode → ring → [admit] → block → segment → compaction → snapshot → [query]
import IngestFormat

/// What the counting rules look at of one event: the same of a packet's event and of a row of the log.
public struct JudgedEvent: BitwiseCopyable {
    public var timestampMicroseconds: Int64
    public var visiblePartsPerMillion: UInt32
    public var durationMilliseconds: UInt32
    /// Raw values of `EventType`, `Consent`, `AdFormat`.
    public var type: UInt8
    public var consent: UInt8
    public var format: UInt8
    /// Whether the two numbers of viewability are there.
    public var isMeasured: Bool
    /// Whether the sender's own filter says so.
    public var isMarkedInvalid: Bool
    /// Whether its sender's key may not send for this business.
    public var isWrongBusiness: Bool

    @inlinable @inline(__always)
    public init(
        timestampMicroseconds: Int64, type: UInt8, consent: UInt8, format: UInt8, isMeasured: Bool,
        visiblePartsPerMillion: UInt32, durationMilliseconds: UInt32, isMarkedInvalid: Bool,
        isWrongBusiness: Bool
    ) {
        self.timestampMicroseconds = timestampMicroseconds
        self.type = type
        self.consent = consent
        self.format = format
        self.isMeasured = isMeasured
        self.visiblePartsPerMillion = visiblePartsPerMillion
        self.durationMilliseconds = durationMilliseconds
        self.isMarkedInvalid = isMarkedInvalid
        self.isWrongBusiness = isWrongBusiness
    }

    /// An event as the ring carries it.
    @inlinable @inline(__always)
    public init(_ row: borrowing PacketRow) {
        self.init(
            timestampMicroseconds: row.timestampMicroseconds, type: row.type, consent: row.consent,
            format: row.format, isMeasured: row.flags & EventDescriptor.Flags.isMeasured != 0,
            visiblePartsPerMillion: row.visiblePartsPerMillion,
            durationMilliseconds: row.durationMilliseconds,
            isMarkedInvalid: row.flags & EventDescriptor.Flags.isInvalidTraffic != 0,
            isWrongBusiness: row.flags & EventDescriptor.Flags.isWrongBusiness != 0)
    }
}

/// The counting rules that look at one event alone: a pure function of (event, policy, clock) → verdict.
///
/// The rules apply in a fixed order and the first match wins: consent, the key's business, clock, the sender's mark of
/// invalid traffic, viewability, counted. Those that compare events (rates, repeats, sessions) are asked of events that these
/// count; nothing here keeps state.
///
/// **Cost** About 2 ns an event; no memory beyond the value itself.
/// **Source** MRC Viewable Ad Impression Measurement Guidelines (50 % for 1 s; video 2 s; large display
/// 30 %): the thresholds are compared raw, in parts per million and milliseconds, and never rounded.
extension CountingPolicy {
    /// The verdict over one well-formed event.
    ///
    /// An event that opted out gets `noConsent` like one that is refused by policy; only the caller,
    /// which sees the consent field, knows that the first must not be stored.
    /// - Parameter admissionTime: wall clock of the block that will hold the event, µs since 1970 UTC.
    @inlinable @inline(__always)
    public func verdict(on event: JudgedEvent, admissionTime: Int64) -> Verdict {
        if event.consent != Consent.optIn.rawValue {
            if event.consent == Consent.optOut.rawValue || !countsConsentNotSet {
                return .noConsent
            }
        }
        if event.isWrongBusiness { return .wrongBusiness }
        // Event times are within Limits.timestampMicrosecondsMax of 1970, so the difference fits;
        // wrapping operators keep a clock that is set to nonsense from trapping.
        let age = admissionTime &- event.timestampMicroseconds
        // No time at all, or one before 1970: of no day, also where events of any age are taken.
        if event.timestampMicroseconds == 0 { return .tooOld }
        if age < 0 &- leadMicrosecondsMax { return .tooEarly }
        if let ageMicrosecondsMax, age > ageMicrosecondsMax { return .tooOld }
        if event.isMarkedInvalid { return .invalidTraffic }
        if event.type != EventType.impression.rawValue { return .counted }
        if !event.isMeasured { return countsUndetermined ? .counted : .undetermined }
        let threshold = Self.threshold(of: event.format)
        if event.visiblePartsPerMillion < threshold.visiblePartsPerMillion { return .notViewable }
        if event.durationMilliseconds < threshold.durationMilliseconds { return .notViewable }
        return .counted
    }

    /// The least share and time at which an impression of this format (`AdFormat` raw value) is viewable.
    @inlinable public static func threshold(
        of format: UInt8
    ) -> (visiblePartsPerMillion: UInt32, durationMilliseconds: UInt32) {
        switch format {
        case AdFormat.largeDisplay.rawValue: (300_000, 1_000)
        case AdFormat.video.rawValue: (500_000, 2_000)
        default: (500_000, 1_000)
        }
    }
}

/// How many events of a session there were in the newest minute of event time that it has. An event of an earlier minute
/// counts for that one: so a limit cannot be got round by sending times in disorder.
///
/// **Layout** 8 bytes; plain old data.
public struct SessionRates: BitwiseCopyable, Equatable {
    /// Minutes since 1970 UTC.
    @usableFromInline var minute: UInt32 = 0
    @usableFromInline var impressions: UInt16 = 0
    @usableFromInline var clicks: UInt16 = 0

    @inlinable @inline(__always)
    public init() {}

    @inlinable @inline(__always)
    static func minute(_ timestamp: Int64) -> UInt32 {
        UInt32(truncatingIfNeeded: max(timestamp, 0) / 60_000_000)
    }

    /// The rule that an event of the session would break; `nil` if it would not.
    ///
    /// - Parameters:
    ///   - type: raw value of `EventType`; redemptions have no limit.
    ///   - timestamp: of the event, µs since 1970.
    @inlinable @inline(__always)
    public func broken(
        by type: UInt8, at timestamp: Int64, _ policy: SessionPolicy
    ) -> InvalidTrafficRule? {
        let isNewMinute = Self.minute(timestamp) > minute
        switch type {
        case EventType.impression.rawValue:
            let max = policy.impressionsPerMinuteMax
            return max > 0 && !isNewMinute && UInt32(impressions) >= max ? .impressionRate : nil
        case EventType.click.rawValue:
            let max = policy.clicksPerMinuteMax
            return max > 0 && !isNewMinute && UInt32(clicks) >= max ? .clickRate : nil
        default: return nil
        }
    }

    /// Counts an event of the session that broke no rule and is no repeat of an id.
    @inlinable @inline(__always)
    public mutating func add(_ type: UInt8, at timestamp: Int64) {
        let minute = Self.minute(timestamp)
        if minute > self.minute {
            self = SessionRates()
            self.minute = minute
        }
        if type == EventType.impression.rawValue, impressions < .max { impressions += 1 }
        if type == EventType.click.rawValue, clicks < .max { clicks += 1 }
    }
}

extension SessionPolicy {
    /// Whether a click is nearer to the last one on its reward that was counted than the interval, in event time.
    @inlinable @inline(__always)
    public func isTooSoon(_ timestamp: Int64, after last: Int64) -> Bool {
        (timestamp &- last).magnitude < UInt64(clickIntervalMilliseconds) &* 1_000
    }
}
