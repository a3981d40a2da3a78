// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// The counting rules: a pure function of (event, policy, clock) → verdict.
///
/// The rules apply in a fixed order and the first match wins: consent, the key's business, clock, invalid
/// traffic, viewability, counted. The rule of repeats, which needs an index of what came before, is asked of events
/// that these count (`RepeatRule`); nothing here keeps state.
///
/// **Cost** About 2 ns an event; no memory beyond the value itself.
/// **Source** MRC Viewable Ad Impression Measurement Guidelines (50 % for 1 s; video 2 s; large display
/// 30 %): the thresholds are compared raw, in parts per million and milliseconds, and never rounded.
package struct AdmissionPolicy: Sendable, Equatable {
    /// Stands in each block header. Raised with every change of a rule, so that old rows can be judged
    /// again by the rules of their time.
    package static let version: UInt16 = 2

    /// Oldest accepted event: admission time minus this; `nil` accepts any age. Microseconds, > 0.
    package var ageMicrosecondsMax: Int64?
    /// Furthest accepted future: admission time plus this. Microseconds, ≥ 0.
    package var leadMicrosecondsMax: Int64
    /// Whether impressions without both viewability numbers count (they are shown apart either way).
    package var countsUndetermined: Bool
    /// Whether events whose consent is not set count.
    package var countsConsentNotSet: Bool

    package init(
        ageMicrosecondsMax: Int64? = 604_800_000_000,
        leadMicrosecondsMax: Int64 = 300_000_000,
        countsUndetermined: Bool = true,
        countsConsentNotSet: Bool = true
    ) {
        self.ageMicrosecondsMax = ageMicrosecondsMax
        self.leadMicrosecondsMax = leadMicrosecondsMax
        self.countsUndetermined = countsUndetermined
        self.countsConsentNotSet = countsConsentNotSet
    }

    /// The verdict over one well-formed event.
    ///
    /// An event that opted out gets `noConsent` like one that is refused by policy; only the caller,
    /// which sees the consent field, knows that the first must not be stored.
    /// - Parameter admissionTime: wall clock of the block that will hold the event, µs since 1970 UTC.
    @inline(__always)
    package func verdict(on event: borrowing PacketRow, admissionTime: Int64) -> Verdict {
        if event.consent != Consent.optIn.rawValue {
            if event.consent == Consent.optOut.rawValue || !countsConsentNotSet {
                return .noConsent
            }
        }
        if event.flags & EventDescriptor.Flags.isWrongBusiness != 0 { return .wrongBusiness }
        // Event times are within Limits.timestampMicrosecondsMax of 1970, so the difference fits;
        // wrapping operators keep a clock that is set to nonsense from trapping.
        let age = admissionTime &- event.timestampMicroseconds
        // No time at all, or one before 1970: of no day, also where events of any age are taken.
        if event.timestampMicroseconds == 0 { return .tooOld }
        if age < 0 &- leadMicrosecondsMax { return .tooEarly }
        if let ageMicrosecondsMax, age > ageMicrosecondsMax { return .tooOld }
        if event.flags & EventDescriptor.Flags.isInvalidTraffic != 0 { return .invalidTraffic }
        if event.type != EventType.impression.rawValue { return .counted }
        if event.flags & EventDescriptor.Flags.isMeasured == 0 {
            return countsUndetermined ? .counted : .undetermined
        }
        let threshold = Self.threshold(of: event.format)
        if event.visiblePartsPerMillion < threshold.visiblePartsPerMillion { return .notViewable }
        if event.durationMilliseconds < threshold.durationMilliseconds { return .notViewable }
        return .counted
    }

    /// The least share and time at which an impression of this format (`AdFormat` raw value) is viewable.
    package static func threshold(
        of format: UInt8
    ) -> (visiblePartsPerMillion: UInt32, durationMilliseconds: UInt32) {
        switch format {
        case AdFormat.largeDisplay.rawValue: (300_000, 1_000)
        case AdFormat.video.rawValue: (500_000, 2_000)
        default: (500_000, 1_000)
        }
    }
}
