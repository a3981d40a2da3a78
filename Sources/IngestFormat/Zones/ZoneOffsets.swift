// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// The offsets of a time zone from UTC over all event times, and the local dates that follow from them. A value, made
/// from a TZif file (`ZoneFile`).
///
/// **Layout** The instants at which the offset changes, ascending, each with the offset from then on. An instant before
/// 1970 has the offset of 1970-01-01T00:00:00Z.
/// **Units** Instants in microseconds since 1970 UTC, offsets in seconds east of UTC.
/// **Cost** 16 bytes a change, at most some 600 of them up to 2262; a look-up is a binary search.
package struct ZoneOffsets: Hashable, Sendable {
    /// From `start` on, local time is UTC plus `offsetSeconds`.
    package struct Change: Hashable, Sendable {
        package let start: Int64
        package let offsetSeconds: Int32
    }

    /// The largest distance of a zone from UTC; the widest in use are −12 h and +14 h.
    package static let offsetSecondsMax: Int32 = 86_400
    static let dayMicroseconds: Int64 = 86_400_000_000
    static let secondsMax = Limits.timestampMicrosecondsMax / 1_000_000

    package private(set) var initialOffsetSeconds: Int32
    package private(set) var changes: [Change] = []

    package static let utc = ZoneOffsets(initialOffsetSeconds: 0)

    /// - Parameter initialOffsetSeconds: within `offsetSecondsMax`.
    package init(initialOffsetSeconds: Int32) { self.initialOffsetSeconds = initialOffsetSeconds }

    /// Adds a change of offset, which is not before those that were added. What an event time cannot show is left out.
    ///
    /// - Parameters:
    ///   - seconds: since 1970 UTC.
    ///   - offsetSeconds: within `offsetSecondsMax`.
    package mutating func append(at seconds: Int64, offsetSeconds: Int32) {
        if seconds > Self.secondsMax { return }
        if seconds <= 0 {
            initialOffsetSeconds = offsetSeconds
            return
        }
        let start = seconds * 1_000_000
        if changes.last?.start == start { changes.removeLast() }
        if offsetSeconds == changes.last?.offsetSeconds ?? initialOffsetSeconds { return }
        changes.append(Change(start: start, offsetSeconds: offsetSeconds))
    }

    /// The local date of an instant, with the instants about it that have the same date and offset.
    ///
    /// - Parameter instant: within `Limits.timestampMicrosecondsMax` of 1970.
    package func day(of instant: Int64) -> DaySpan {
        let next = firstChange(after: instant)
        let offset = Int64(next == 0 ? initialOffsetSeconds : changes[next - 1].offsetSeconds)
        let local = instant &+ offset &* 1_000_000
        let (quotient, rest) = local.quotientAndRemainder(dividingBy: Self.dayMicroseconds)
        // Rounded down: the day before 1970-01-01 is −1.
        let day = rest < 0 ? quotient - 1 : quotient
        let start = day &* Self.dayMicroseconds &- offset &* 1_000_000
        let end = start &+ Self.dayMicroseconds
        // A day in which the offset changes is answered in several spans.
        return DaySpan(
            day: Int32(truncatingIfNeeded: day),
            start: next == 0 ? start : max(start, changes[next - 1].start),
            end: next == changes.count ? end : min(end, changes[next].start))
    }

    /// The first instant whose local date is this day or a later one.
    /// - Parameter day: since 1970-01-01, within `Limits.businessDays`.
    package func start(of day: Int32) -> Int64 {
        let midnight = Int64(day) * Self.dayMicroseconds
        var (begin, offset) = (Int64.min, initialOffsetSeconds)
        for change in changes {
            let start = max(begin, midnight - Int64(offset) * 1_000_000)
            if start < change.start { return start }
            (begin, offset) = (change.start, change.offsetSeconds)
        }
        return max(begin, midnight - Int64(offset) * 1_000_000)
    }

    /// The place of the first change later than the instant; `changes.count` if there is none.
    private func firstChange(after instant: Int64) -> Int {
        var (low, high) = (0, changes.count)
        while low < high {
            let middle = (low + high) / 2
            if changes[middle].start > instant { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

/// Instants that belong to one day: all of it, or a part.
public struct DaySpan: Hashable, Sendable, BitwiseCopyable {
    /// Days since 1970-01-01.
    public var day: Int32 = 0
    /// Microseconds since 1970 UTC: from `start` on, before `end`. Empty as it is made.
    public var start: Int64 = 0
    public var end: Int64 = 0

    @inlinable public init() {}

    public init(day: Int32, start: Int64, end: Int64) {
        (self.day, self.start, self.end) = (day, start, end)
    }

    @inlinable public func contains(_ instant: Int64) -> Bool { instant >= start && instant < end }
}
