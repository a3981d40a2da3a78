import Foundation
import IngestPipeline
import TestSupport
import Testing

@testable import Ingestd

/// The table of offsets against Foundation's own calendar, which knows nothing of the table.
struct BusinessZoneTests {
    /// Days by Foundation: the civil date in the zone, counted from 1970-01-01.
    private func dayByFoundation(_ seconds: Int64, in zone: TimeZone) -> Int32 {
        var local = Calendar(identifier: .gregorian)
        local.timeZone = zone
        var utc = Calendar(identifier: .gregorian)
        utc.timeZone = TimeZone(secondsFromGMT: 0)!
        let date = local.dateComponents(
            [.year, .month, .day], from: Date(timeIntervalSince1970: Double(seconds)))
        let midnight = utc.date(from: date)!.timeIntervalSince1970
        return Int32((midnight / 86_400).rounded(.down))
    }

    private static let zones = [
        "UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata",
        "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kiritimati",
        "Africa/Casablanca", "Asia/Pyongyang", "America/St_Johns",
    ]

    @Test(arguments: zones)
    func `days agree with Foundation around every change of offset`(identifier: String) throws {
        let zone = try #require(TimeZone(identifier: identifier))
        var calendar = try #require(BusinessZone(identifier: identifier)).calendar
        var instant = Date(timeIntervalSince1970: 0)
        let end = Date(timeIntervalSince1970: 2_200_000_000)
        while let next = zone.nextDaylightSavingTimeTransition(after: instant), next < end {
            let change = Int64(next.timeIntervalSince1970)
            for distance in [-86_400, -43_200, -3_601, -1, 0, 1, 3_599, 43_200, 86_400] as [Int64] {
                let seconds = change + distance
                if seconds < 0 { continue }
                #expect(
                    calendar.day(of: seconds * 1_000_000) == dayByFoundation(seconds, in: zone),
                    "\(identifier) at \(seconds)")
            }
            instant = next
        }
    }

    @Test(arguments: zones)
    func `days agree with Foundation at random instants`(identifier: String) throws {
        let zone = try #require(TimeZone(identifier: identifier))
        var calendar = try #require(BusinessZone(identifier: identifier)).calendar
        var random = SeededRandom(seed: 7)
        for _ in 0..<400 {
            let seconds = Int64(random.next() % 9_214_646_400)
            #expect(
                calendar.day(of: seconds * 1_000_000) == dayByFoundation(seconds, in: zone),
                "\(identifier) at \(seconds)")
        }
    }

    @Test(arguments: ["Europe/Berlin", "Africa/Casablanca", "Pacific/Apia", "Australia/Lord_Howe"])
    func `no change of offset is missed in ten years of hours`(identifier: String) throws {
        let zone = try #require(TimeZone(identifier: identifier))
        var calendar = try #require(BusinessZone(identifier: identifier)).calendar
        // Every hour from 2008 to 2018; the day of an hour follows from the offset Foundation gives for it.
        for hour in Int64(333_120)..<420_768 {
            let seconds = hour * 3_600
            let offset = zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds)))
            let day = Int32((seconds + Int64(offset)) / 86_400)
            if calendar.day(of: seconds * 1_000_000) != day {
                Issue.record("\(identifier) at \(seconds)")
                break
            }
        }
    }

    @Test func `a day of daylight saving has 23 or 25 hours`() throws {
        var calendar = try #require(BusinessZone(identifier: "Europe/Berlin")).calendar
        func hours(of day: Int32, from first: Int64) -> Int {
            (first..<first + 72).count { calendar.day(of: $0 * 3_600_000_000) == day }
        }
        // 2026-03-29 and 2026-10-25 are days 20541 and 20751.
        #expect(hours(of: 20_541, from: 20_540 * 24) == 23)
        #expect(hours(of: 20_751, from: 20_750 * 24) == 25)
        #expect(hours(of: 20_600, from: 20_599 * 24) == 24)
    }

    @Test func `Samoa has no 30 December 2011`() throws {
        var calendar = try #require(BusinessZone(identifier: "Pacific/Apia")).calendar
        let days = (15_337 * 24..<15_343 * 24).map {
            calendar.day(of: Int64($0) * 3_600_000_000)
        }
        #expect(days.contains(15_337))
        #expect(!days.contains(15_338))
        #expect(days.contains(15_339))
    }
}
