// packet → decode → ring → [admit] → block → [segment] → compaction → snapshot → [query]

/// The numbers of the counting rules, as an operator chose them: options of the daemon. They stand in the header of each
/// segment, so that its rows can be judged again by the rules of their time. The rules are in `IngestRules`.
public struct CountingPolicy: Hashable, Sendable {
    /// Stands in each block header. Raised with every change of a rule.
    public static let version: UInt16 = 3

    /// Oldest accepted event: admission time minus this; `nil` accepts any age. Microseconds, > 0.
    public var ageMicrosecondsMax: Int64?
    /// Furthest accepted future: admission time plus this. Microseconds, ≥ 0.
    public var leadMicrosecondsMax: Int64
    /// Whether impressions without both viewability numbers count (they are shown apart either way).
    public var countsUndetermined: Bool
    /// Whether events whose consent is not set count.
    public var countsConsentNotSet: Bool
    /// Claims of event ids are kept for so long after their commit, µs, > 0.
    public var windowMicroseconds: Int64
    /// Claims kept at most, ≥ 1.
    public var keyCountMax: Int
    /// Whether an event with an id that is too old to be compared is refused; else it is counted, and shown.
    public var refusesOutsideWindow: Bool
    public var sessions: SessionPolicy

    public init(
        ageMicrosecondsMax: Int64? = 604_800_000_000, leadMicrosecondsMax: Int64 = 300_000_000,
        countsUndetermined: Bool = true, countsConsentNotSet: Bool = true,
        windowMicroseconds: Int64 = 605_100_000_000, keyCountMax: Int = 1 << 26,
        refusesOutsideWindow: Bool = false, sessions: SessionPolicy = SessionPolicy()
    ) {
        self.ageMicrosecondsMax = ageMicrosecondsMax
        self.leadMicrosecondsMax = leadMicrosecondsMax
        self.countsUndetermined = countsUndetermined
        self.countsConsentNotSet = countsConsentNotSet
        self.windowMicroseconds = windowMicroseconds
        self.keyCountMax = keyCountMax
        self.refusesOutsideWindow = refusesOutsideWindow
        self.sessions = sessions
    }
}

/// The numbers of the rules on sessions.
public struct SessionPolicy: Hashable, Sendable {
    /// Whether sessions are looked at; if not, none is kept.
    public var isOn: Bool
    /// A session ends when no event of it was received for so long, seconds, > 0.
    public var timeoutSeconds: UInt32
    /// A click on a reward nearer than this to the last one counted in the session is invalid, milliseconds of event time.
    /// 0 = no limit, as below.
    public var clickIntervalMilliseconds: UInt32
    public var impressionsPerMinuteMax: UInt32
    public var clicksPerMinuteMax: UInt32
    /// Sessions, and rewards in sessions, kept at most.
    public var keyCountMax: Int

    public init(
        isOn: Bool = true, timeoutSeconds: UInt32 = 600, clickIntervalMilliseconds: UInt32 = 1_000,
        impressionsPerMinuteMax: UInt32 = 120, clicksPerMinuteMax: UInt32 = 30,
        keyCountMax: Int = 1 << 24
    ) {
        self.isOn = isOn
        self.timeoutSeconds = timeoutSeconds
        self.clickIntervalMilliseconds = clickIntervalMilliseconds
        self.impressionsPerMinuteMax = impressionsPerMinuteMax
        self.clicksPerMinuteMax = clicksPerMinuteMax
        self.keyCountMax = keyCountMax
    }
}

// MARK: As in a segment header

extension CountingPolicy {
    /// Of a segment whose header was lost: any age, and all that is a matter of policy.
    static let unknown = CountingPolicy(ageMicrosecondsMax: nil)

    private static var undeterminedBit: UInt8 { 1 }
    private static var notSetBit: UInt8 { 2 }
    private static var outsideBit: UInt8 { 4 }
    private static var sessionsBit: UInt8 { 8 }
    static let flagsMax: UInt64 = 15

    /// What is on.
    var flags: UInt8 {
        get {
            (countsUndetermined ? Self.undeterminedBit : 0)
                | (countsConsentNotSet ? Self.notSetBit : 0)
                | (refusesOutsideWindow ? Self.outsideBit : 0)
                | (sessions.isOn ? Self.sessionsBit : 0)
        }
        set {
            countsUndetermined = newValue & Self.undeterminedBit != 0
            countsConsentNotSet = newValue & Self.notSetBit != 0
            refusesOutsideWindow = newValue & Self.outsideBit != 0
            sessions.isOn = newValue & Self.sessionsBit != 0
        }
    }

    /// 0 for any age.
    var age: Int64 {
        get { ageMicrosecondsMax ?? 0 }
        set { ageMicrosecondsMax = newValue == 0 ? nil : newValue }
    }

    var keys: UInt64 {
        get { UInt64(keyCountMax) }
        set { keyCountMax = Int(clamping: newValue) }
    }

    var sessionKeys: UInt64 {
        get { UInt64(sessions.keyCountMax) }
        set { sessions.keyCountMax = Int(clamping: newValue) }
    }
}
