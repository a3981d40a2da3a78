import Foundation
import IngestPipeline

/// A time zone by name, with its table of offsets for the data path, which knows no Foundation.
struct BusinessZone: Sendable {
    let identifier: String
    let calendar: BusinessCalendar

    static let utc = BusinessZone(identifier: "UTC", calendar: .utc)

    private init(identifier: String, calendar: BusinessCalendar) {
        self.identifier = identifier
        self.calendar = calendar
    }

    /// - Parameter identifier: `UTC` or an IANA name with its slash. Abbreviations (`EST`) and offsets
    ///   (`GMT+3`) are refused: they do not say which rules apply, or in which direction they count.
    init?(identifier: String) {
        if identifier == "UTC" {
            self = .utc
            return
        }
        guard identifier.contains("/"), let zone = TimeZone(identifier: identifier),
            let calendar = BusinessCalendar(zone)
        else { return nil }
        self.init(identifier: identifier, calendar: calendar)
    }
}

extension BusinessCalendar {
    /// The last instant for which offsets are looked up: 2262-01-01, the end of the accepted event times.
    private static let lastInstant = Date(timeIntervalSince1970: 9_214_646_400)
    /// No zone has more than some 600 in that time; the bound only keeps a broken zone from filling memory.
    private static let changeCountMax = 4_096

    /// The zone's changes of offset from 1970 on, as Foundation knows them. About a millisecond.
    ///
    /// **Errors** `nil` if the zone's changes do not ascend or never end.
    init?(_ zone: TimeZone) {
        var changes: [OffsetChange] = []
        let start = Date(timeIntervalSince1970: 0)
        var instant = start
        // Despite its name the call finds every change of the offset, a zone that moves for good too.
        while let next = zone.nextDaylightSavingTimeTransition(after: instant),
            next <= Self.lastInstant
        {
            guard changes.count < Self.changeCountMax, next > instant else { return nil }
            changes.append(
                OffsetChange(
                    startMicroseconds: Int64(next.timeIntervalSince1970) * 1_000_000,
                    offsetSeconds: Int32(zone.secondsFromGMT(for: next))))
            instant = next
        }
        self.init(
            initialOffsetSeconds: Int32(zone.secondsFromGMT(for: start)), changes: changes)
    }
}
