// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import Synchronization

/// The time zones of all businesses as they are in force: a value, made when the daemon starts and when its zones are
/// reloaded.
package struct BusinessZones: Sendable {
    /// The calendars in use; the first is that of businesses without one of their own.
    package let calendars: [BusinessCalendar]
    /// Of businesses with zones of their own, by the bytes of the id: the place of the calendar.
    package let places: [[UInt8]: UInt16]
    /// Stands in the header of each block: the CRC-32C of everything that days are made from. 0 for UTC alone.
    package let version: UInt32

    package static let utc = BusinessZones(.utc, version: 0)

    package init(_ zone: ZoneOffsets, version: UInt32) {
        (calendars, places, self.version) = ([BusinessCalendar(zone)], [:], version)
    }

    /// - Parameters:
    ///   - zone: of businesses that the file does not name, and of those that it names, before their first date.
    ///   - file: the businesses' own.
    ///   - zones: by name, each that the file names.
    /// - Returns: `nil` if there are more different calendars than `Limits.businessCalendarCountMax`.
    package init?(
        _ zone: ZoneOffsets, _ file: ZonesFile, _ zones: [String: ZoneOffsets], version: UInt32
    ) {
        var calendars = [BusinessCalendar(zone)]
        var known: [[Step]: UInt16] = [:]
        var places: [[UInt8]: UInt16] = [:]
        for (business, rules) in file.rules {
            let steps = rules.map { Step(from: $0.from, zone: $0.zone) }
            if known[steps] == nil {
                guard calendars.count < Limits.businessCalendarCountMax else { return nil }
                known[steps] = UInt16(calendars.count)
                calendars.append(Self.calendar(steps, zone, zones))
            }
            places[business] = known[steps]
        }
        (self.calendars, self.places, self.version) = (calendars, places, version)
    }

    private struct Step: Hashable {
        let from: Int32?
        let zone: String
    }

    private static func calendar(
        _ steps: [Step], _ zone: ZoneOffsets, _ zones: [String: ZoneOffsets]
    ) -> BusinessCalendar {
        var first = zone
        var changes: [(first: Int32, zone: ZoneOffsets)] = []
        for step in steps {
            let zone = zones[step.zone] ?? zone
            if let from = step.from { changes.append((from, zone)) } else { first = zone }
        }
        return BusinessCalendar(first, changes: changes)
    }
}

/// What the next block is written by, of a file that is replaced as a whole while the daemon runs.
package final class InForce<Value: Sendable>: Sendable {
    private let value: Mutex<Value>
    private let changeCount = Atomic<Int>(0)

    package init(_ value: Value) { self.value = Mutex(value) }

    /// From the next block's first row on it is this one.
    package func replace(by new: Value) {
        value.withLock { $0 = new }
        // Relaxed, partner: `taken`; the lock orders the value.
        changeCount.add(1, ordering: .relaxed)
    }

    /// The value, if it was replaced since the count was taken, which becomes that of this one.
    /// **Cost** One load while nothing was replaced.
    func taken(since count: inout Int) -> Value? {
        let now = changeCount.load(ordering: .relaxed)
        if now == count { return nil }
        count = now
        return value.withLock { $0 }
    }
}

/// Key → the day of an event. Owned by the commit queue.
///
/// **Layout** The span of the day last answered for each calendar. While businesses have zones of their own, 2 bytes a
/// key: the place of its calendar, found by the business's id when the key is first asked for.
/// **Cost** 1 ns an event of one zone; 2 ns with zones, and a look-up by id once a key and reload.
struct BusinessDays: ~Copyable {
    private var zones: BusinessZones
    private var spans: [DaySpan]
    /// By key; empty if there is one calendar.
    private var places: [UInt16]

    private static let unknown = UInt16.max

    var version: UInt32 { zones.version }

    init(_ zones: BusinessZones) {
        self.zones = zones
        spans = Array(repeating: DaySpan(), count: zones.calendars.count)
        places = zones.places.isEmpty ? [] : [Self.unknown]
    }

    /// The day, if it is one that was answered last for the key's business.
    ///
    /// - Parameter instant: within `Limits.timestampMicrosecondsMax` of 1970.
    @inline(__always)
    func known(_ instant: Int64, of key: KeyOrdinal) -> Int32? {
        var place = 0
        if !places.isEmpty {
            guard Int(key.rawValue) < places.count else { return nil }
            place = Int(places[Int(key.rawValue)])
            // One that is not known is past the end.
            guard place < spans.count else { return nil }
        }
        let span = spans[place]
        return span.contains(instant) ? span.day : nil
    }

    /// The day of any instant.
    ///
    /// - Parameter business: the id behind the key; asked for once a key.
    mutating func find(
        _ instant: Int64, of key: KeyOrdinal, business: () -> [UInt8]
    ) -> Int32 {
        let place = place(of: key, business)
        spans[place] = zones.calendars[place].span(of: instant)
        return spans[place].day
    }

    private mutating func place(of key: KeyOrdinal, _ business: () -> [UInt8]) -> Int {
        if places.isEmpty { return 0 }
        let index = Int(key.rawValue)
        if index >= places.count {
            let count = max(index + 1, min(2 * places.count, Limits.keyCountMax))
            places += repeatElement(Self.unknown, count: count - places.count)
        }
        if places[index] == Self.unknown { places[index] = zones.places[business()] ?? 0 }
        return Int(places[index])
    }
}

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
            while let last = parts.last, last.start >= start { parts.removeLast() }
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
        // The first part begins before any instant.
        let next = (1..<parts.count).firstPlace { parts[$0].start > instant }
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
}
