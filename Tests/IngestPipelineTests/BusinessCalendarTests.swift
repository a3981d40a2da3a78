import IngestPipeline
import Testing

struct BusinessCalendarTests {
    private static let hour: Int64 = 3_600_000_000
    private static let dayMicroseconds: Int64 = 24 * hour

    @Test func `UTC days begin at multiples of 24 hours`() {
        var calendar = BusinessCalendar.utc
        #expect(calendar.day(of: 0) == 0)
        #expect(calendar.day(of: Self.dayMicroseconds - 1) == 0)
        #expect(calendar.day(of: Self.dayMicroseconds) == 1)
        #expect(calendar.day(of: 9_214_646_400_000_000) == 106_651)
        #expect(calendar.day(of: 0) == 0)
    }

    @Test func `west of Greenwich 1970 begins in the day before`() throws {
        var calendar = try #require(
            BusinessCalendar(initialOffsetSeconds: -18_000, changes: []))
        #expect(calendar.day(of: 0) == -1)
        #expect(calendar.day(of: 5 * Self.hour - 1) == -1)
        #expect(calendar.day(of: 5 * Self.hour) == 0)
    }

    @Test func `a day in which the offset changes is 23 hours long`() throws {
        // At 01:00 UTC of day 10 the clock goes from UTC+1 to UTC+2.
        let change = 10 * Self.dayMicroseconds + Self.hour
        var calendar = try #require(
            BusinessCalendar(
                initialOffsetSeconds: 3_600,
                changes: [(startMicroseconds: change, offsetSeconds: Int32(7_200))]))
        let first = 10 * Self.dayMicroseconds - Self.hour
        #expect(calendar.day(of: first - 1) == 9)
        #expect(calendar.day(of: first) == 10)
        #expect(calendar.day(of: first + 23 * Self.hour - 1) == 10)
        #expect(calendar.day(of: first + 23 * Self.hour) == 11)
    }

    @Test func `the answer does not depend on what was asked before`() throws {
        let changes = (1...40).map {
            (
                startMicroseconds: Int64($0) * 5 * Self.hour,
                offsetSeconds: Int32($0 % 7) * 1_800 - 3_600
            )
        }
        let fresh = try #require(BusinessCalendar(initialOffsetSeconds: 900, changes: changes))
        var used = fresh
        var state: UInt64 = 11
        for _ in 0..<20_000 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let instant = Int64(state >> 20) % (300 * Self.hour)
            var untouched = fresh
            #expect(used.day(of: instant) == untouched.day(of: instant))
        }
    }

    @Test func `changes that do not ascend and offsets beyond a day are refused`() {
        let change = (startMicroseconds: Int64(5), offsetSeconds: Int32(0))
        #expect(BusinessCalendar(initialOffsetSeconds: 0, changes: [change, change]) == nil)
        #expect(BusinessCalendar(initialOffsetSeconds: 86_401, changes: []) == nil)
        let far = (startMicroseconds: Int64(5), offsetSeconds: Int32(-86_401))
        #expect(BusinessCalendar(initialOffsetSeconds: 0, changes: [far]) == nil)
    }
}
