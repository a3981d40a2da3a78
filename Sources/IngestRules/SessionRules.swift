// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

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
