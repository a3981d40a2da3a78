import IngestFormat
import TestSupport
import Testing

@testable import IngestPipeline

struct BusinessCalendarTests {
    private static let hour: Int64 = 3_600_000_000
    private static let dayMicroseconds: Int64 = 24 * hour

    private static func zone(hours: Int32, _ changes: [(hour: Int64, hours: Int32)] = [])
        -> ZoneOffsets
    {
        var zone = ZoneOffsets(initialOffsetSeconds: hours * 3_600)
        for change in changes {
            zone.append(at: change.hour * 3_600, offsetSeconds: change.hours * 3_600)
        }
        return zone
    }

    @Test func `UTC days begin at multiples of 24 hours`() {
        var calendar = BusinessCalendar.utc
        #expect(calendar.day(of: 0) == 0)
        #expect(calendar.day(of: Self.dayMicroseconds - 1) == 0)
        #expect(calendar.day(of: Self.dayMicroseconds) == 1)
        #expect(calendar.day(of: 9_214_646_400_000_000) == 106_651)
        #expect(calendar.day(of: 0) == 0)
    }

    @Test func `west of Greenwich 1970 begins in the day before`() {
        var calendar = BusinessCalendar(Self.zone(hours: -5))
        #expect(calendar.day(of: 0) == -1)
        #expect(calendar.day(of: 5 * Self.hour - 1) == -1)
        #expect(calendar.day(of: 5 * Self.hour) == 0)
    }

    @Test func `a day in which the offset changes is 23 hours long`() {
        // At 01:00 UTC of day 10 the clock goes from UTC+1 to UTC+2.
        var calendar = BusinessCalendar(Self.zone(hours: 1, [(241, 2)]))
        let first = 10 * Self.dayMicroseconds - Self.hour
        #expect(calendar.day(of: first - 1) == 9)
        #expect(calendar.day(of: first) == 10)
        #expect(calendar.day(of: first + 23 * Self.hour - 1) == 10)
        #expect(calendar.day(of: first + 23 * Self.hour) == 11)
    }

    @Test func `the answer does not depend on what was asked before`() {
        let hours: ClosedRange<Int64> = 1...40
        let offsets = hours.map { (hour: 5 * $0, hours: Int32($0 % 7) - 1) }
        let zone = Self.zone(hours: 3, offsets)
        let fresh = BusinessCalendar(
            zone, changes: [(4, Self.zone(hours: -7)), (9, zone)])
        var used = fresh
        var random = SeededRandom(seed: 11)
        for _ in 0..<20_000 {
            let instant = Int64(random.below(300)) * Self.hour + Int64(random.below(3)) - 1
            if instant < 0 { continue }
            #expect(used.day(of: instant) == fresh.span(of: instant).day)
            #expect(fresh.span(of: instant).contains(instant))
        }
    }

    /// Of a change on day 10: the hour of UTC, from day 0, at which each of the days 9, 10 and 11 begins.
    @Test(arguments: [
        // The same zone, or one of the same offset: nothing is longer or shorter.
        (0, 0, [216, 240, 264]),
        // To the east by 9 h: day 9 has 15 hours. To the west by 8 h: it has 32.
        (0, 9, [216, 231, 255]), (0, -8, [216, 248, 272]),
        // From the farthest east to the farthest west; and back, which leaves day 9 without an instant.
        (14, -12, [202, 252, 276]), (-12, 14, [226, 226, 250]),
    ])
    func `at a change of zone a day is longer or shorter and none comes twice`(
        old: Int32, new: Int32, starts: [Int64]
    ) {
        let calendar = BusinessCalendar(
            Self.zone(hours: old), changes: [(10, Self.zone(hours: new))])
        for (place, start) in starts.enumerated() {
            let day = Int32(9 + place)
            let first = start * Self.hour
            #expect(calendar.span(of: first).day >= day)
            #expect(calendar.span(of: first - 1).day < day)
        }
        var last: Int32 = -1
        for half in Int64(0)..<600 {
            let day = calendar.span(of: half * Self.hour / 2).day
            #expect(day >= last)
            last = day
        }
    }

    @Test func `a change that the next one comes before never takes effect`() {
        // Day 10 would begin at hour 252 in the west, day 11 at hour 250 in the east.
        let calendar = BusinessCalendar(
            Self.zone(hours: 0),
            changes: [(10, Self.zone(hours: -12)), (11, Self.zone(hours: 14))])
        #expect(calendar.span(of: 250 * Self.hour - 1).day == 10)
        #expect(calendar.span(of: 250 * Self.hour).day == 11)
    }

    @Test func `a zone in which midnight comes twice goes back a day, but not before its first`() {
        // At 00:01 of day 10 the clock goes back an hour: St. John's until 2011.
        var zone = ZoneOffsets(initialOffsetSeconds: 0)
        zone.append(at: 10 * 86_400 + 60, offsetSeconds: -3_600)
        let midnight = 10 * Self.dayMicroseconds
        let days = { (calendar: BusinessCalendar) in
            [-1, 0, 60_000_000, Self.hour].map { calendar.span(of: midnight + $0).day }
        }
        #expect(days(BusinessCalendar(zone)) == [9, 10, 9, 10])
        #expect(days(BusinessCalendar(.utc, changes: [(10, zone)])) == [9, 10, 10, 10])
    }

    @Test func `each business has the days of its own zone, also after a reload`() throws {
        let file = try ZonesFile(Array("east A/East\nboth A/East from=1970-01-11\n".utf8))
        let zones = ["A/East": Self.zone(hours: 9)]
        let loaded = try #require(BusinessZones(.utc, file, zones, version: 7))
        #expect(loaded.calendars.count == 3)
        var days = BusinessDays(loaded)
        let businesses = ["east", "both", "none", "east"].map { Array($0.utf8) }
        let find = { (days: inout BusinessDays, hour: Int64) -> [Int32] in
            businesses.indices.reversed().map { index in
                let key = KeyOrdinal(rawValue: UInt32(index * 1_000))
                let instant = hour * Self.hour
                if let known = days.known(instant, of: key) { return known }
                let found = days.find(instant, of: key) { businesses[index] }
                #expect(days.known(instant, of: key) == found)
                return found
            }.reversed()
        }
        for _ in 0..<2 {
            #expect(find(&days, 16 * 24 - 9) == [16, 16, 15, 16])
            #expect(find(&days, 5 * 24 - 9) == [5, 4, 4, 5])
        }
        days = BusinessDays(.utc)
        #expect(find(&days, 16 * 24 - 9) == [15, 15, 15, 15])
    }
}
