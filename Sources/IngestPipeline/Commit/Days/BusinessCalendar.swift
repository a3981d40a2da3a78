// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// The days of a business: the local dates of its time zone, and from some date on of another. A value; of all
/// businesses with the same zones there is one.
///
/// Where the zone changes, each instant has one day and days never go back: the change is at the first instant of its
/// date in the new zone. Before it a day is that of the old zone, but one before the date at the latest; from it on
/// that of the new zone, but the date at the earliest. So the day before the change, or the day of it, may be up to 26
/// hours longer or shorter than others.
///
/// **Cost** Two comparisons for an instant of the same day as the one before; else two binary searches. Allocates nothing.
package struct BusinessCalendar: Sendable {
    /// What holds from an instant on.
    private struct Part {
        /// Microseconds since 1970 UTC.
        let start: Int64
        /// The earliest day of the part.
        let first: Int32
        let zone: ZoneOffsets
    }

    private var parts: [Part]
    /// Of the last question.
    private var last = DaySpan()

    package static let utc = BusinessCalendar(.utc)

    /// - Parameters:
    ///   - zone: from the beginning.
    ///   - changes: ascending by date; `first` in days since 1970-01-01, within `Limits.businessDays`.
    package init(
        _ zone: ZoneOffsets, changes: [(first: Int32, zone: ZoneOffsets)] = []
    ) {
        parts = [Part(start: .min, first: .min, zone: zone)]
        for change in changes {
            let start = change.zone.start(of: change.first)
            // A date may begin earlier in a zone far to the east than the date before it in one far to the west.
            parts.removeAll { $0.start >= start }
            parts.append(Part(start: start, first: change.first, zone: change.zone))
        }
    }

    /// The day to which an instant belongs, in days since 1970-01-01.
    ///
    /// - Parameter instant: within `Limits.timestampMicrosecondsMax` of 1970.
    package mutating func day(of instant: Int64) -> Int32 {
        if !last.contains(instant) { last = span(of: instant) }
        return last.day
    }

    /// The same, with the instants about it that have the same day.
    package func span(of instant: Int64) -> DaySpan {
        let next = firstPart(after: instant)
        let part = parts[next - 1]
        var span = part.zone.day(of: instant)
        span.day = max(span.day, part.first)
        span.start = max(span.start, part.start)
        if next < parts.count {
            span.day = min(span.day, parts[next].first - 1)
            span.end = min(span.end, parts[next].start)
        }
        return span
    }

    /// The place of the first part that begins later; the first part never does.
    private func firstPart(after instant: Int64) -> Int {
        var (low, high) = (1, parts.count)
        while low < high {
            let middle = (low + high) / 2
            if parts[middle].start > instant { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
