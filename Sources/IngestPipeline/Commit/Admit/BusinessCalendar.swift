// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// The business day of an event: days since 1970-01-01 in the zone in force, fixed when the row is
/// written. Owned by the commit stage; the table is made once, at start, from a time zone.
///
/// **Layout** The instants at which the zone's offset from UTC changes, ascending, each with the offset
/// from then on. The day last answered is kept as the range of instants that belong to it.
/// **Units** Instants in microseconds since 1970 UTC, offsets in seconds east of UTC.
/// **Cost** Two comparisons for an event of the same day as the one before; else a binary search over the
/// offset changes (under 1,000 for 292 years of any zone) and a division. Allocates nothing.
package struct BusinessCalendar: Sendable {
    /// From `startMicroseconds` on, local time is UTC plus `offsetSeconds`.
    package typealias OffsetChange = (startMicroseconds: Int64, offsetSeconds: Int32)

    /// The largest distance of a zone from UTC; the widest in use are −12 h and +14 h.
    package static let offsetSecondsMax: Int32 = 86_400
    private static let dayMicroseconds: Int64 = 86_400_000_000

    private let initialOffsetSeconds: Int32
    private let changes: [OffsetChange]
    private var lastDay: Int32 = 0
    /// The instants of `lastDay` under one offset; empty before the first question.
    private var lastDayStart: Int64 = 0
    private var lastDayEnd: Int64 = 0

    /// UTC: a constant offset.
    package static let utc = BusinessCalendar(initialOffsetSeconds: 0, changes: [])!

    /// - Parameters:
    ///   - initialOffsetSeconds: the offset before the first change.
    ///   - changes: strictly ascending by instant.
    /// - Returns: `nil` if an offset is out of range or the changes do not ascend.
    package init?(initialOffsetSeconds: Int32, changes: [OffsetChange]) {
        let range = -Self.offsetSecondsMax...Self.offsetSecondsMax
        guard range.contains(initialOffsetSeconds) else { return nil }
        for (index, change) in changes.enumerated() {
            guard range.contains(change.offsetSeconds) else { return nil }
            if index > 0, changes[index - 1].startMicroseconds >= change.startMicroseconds {
                return nil
            }
        }
        self.initialOffsetSeconds = initialOffsetSeconds
        self.changes = changes
    }

    /// The day to which the instant belongs.
    ///
    /// - Parameter timestampMicroseconds: within `Limits.timestampMicrosecondsMax` of 1970.
    @inline(__always)
    package mutating func day(of timestampMicroseconds: Int64) -> Int32 {
        if timestampMicroseconds >= lastDayStart, timestampMicroseconds < lastDayEnd {
            return lastDay
        }
        return findDay(of: timestampMicroseconds)
    }

    @inline(never)
    private mutating func findDay(of timestampMicroseconds: Int64) -> Int32 {
        let next = firstChange(after: timestampMicroseconds)
        let offset = next == 0 ? initialOffsetSeconds : changes[next - 1].offsetSeconds
        let offsetMicroseconds = Int64(offset) * 1_000_000
        let local = timestampMicroseconds &+ offsetMicroseconds
        let day = Self.floorDivide(local, by: Self.dayMicroseconds)
        // A day in which the offset changes is answered in two ranges, one on each side.
        let start = day &* Self.dayMicroseconds &- offsetMicroseconds
        let end = start &+ Self.dayMicroseconds
        lastDayStart = next == 0 ? start : max(start, changes[next - 1].startMicroseconds)
        lastDayEnd = next == changes.count ? end : min(end, changes[next].startMicroseconds)
        lastDay = Int32(truncatingIfNeeded: day)
        return lastDay
    }

    /// The index of the first change later than the instant; `changes.count` if there is none.
    private func firstChange(after instant: Int64) -> Int {
        var low = 0
        var high = changes.count
        while low < high {
            let middle = (low + high) / 2
            if changes[middle].startMicroseconds > instant {
                high = middle
            } else {
                low = middle + 1
            }
        }
        return low
    }

    /// The quotient rounded down: the day before 1970-01-01 is −1, also for zones west of Greenwich.
    private static func floorDivide(_ value: Int64, by divisor: Int64) -> Int64 {
        let quotient = value / divisor
        return value % divisor < 0 ? quotient - 1 : quotient
    }
}
