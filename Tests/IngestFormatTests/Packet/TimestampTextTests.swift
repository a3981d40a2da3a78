import Foundation
import TestSupport
import Testing

@testable import IngestFormat

struct TimestampTextTests {
    private static func microseconds(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        return bytes.withUnsafeBufferPointer {
            $0.baseAddress.flatMap { TimestampText.microseconds($0, bytes.count) }
        }
    }

    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.000001Z", 1),
            ("1969-12-31T23:59:59.999999Z", -1),
            ("2026-11-20T10:00:00.123Z", 1_795_168_800_123_000),
            ("2026-11-20T10:00:00,123Z", 1_795_168_800_123_000),
            ("2026-11-20t10:00:00.123z", 1_795_168_800_123_000),
            ("2026-11-20 10:00:00.123Z", 1_795_168_800_123_000),
            ("2026-11-20T10:00:00.1Z", 1_795_168_800_100_000),
            ("2026-11-20T10:00:00.1234567890123456789012345Z", 1_795_168_800_123_456),
            ("2026-11-20T10:00:00.9999999Z", 1_795_168_800_999_999),
            ("2026-11-20T11:30:00.123+01:30", 1_795_168_800_123_000),
            ("2026-11-20T11:30:00.123+0130", 1_795_168_800_123_000),
            ("2026-11-20T00:00:00-10:00", 1_795_168_800_000_000),
            ("2026-11-20T10:00:00-00:00", 1_795_168_800_000_000),
            ("2016-12-31T23:59:60Z", 1_483_228_799_999_999),
            ("2016-12-31T23:59:60.5Z", 1_483_228_799_999_999),
            ("2026-11-20T11:00:00.123+01", 1_795_168_800_123_000),
            ("2026-11-19T22:00-12", 1_795_168_800_000_000),
            ("2026-11-20T10:00Z", 1_795_168_800_000_000),
            ("2026-11-20T11:30+01:30", 1_795_168_800_000_000),
            ("20261120T100000Z", 1_795_168_800_000_000),
            ("20261120T100000.123Z", 1_795_168_800_123_000),
            ("20261120t1000z", 1_795_168_800_000_000),
            ("20261120 1130+0130", 1_795_168_800_000_000),
            ("20261120T110000+01", 1_795_168_800_000_000),
            ("2026-11-19T24:00:00Z", 1_795_132_800_000_000),
            ("2026-11-19T24:00Z", 1_795_132_800_000_000),
            ("20261119T240000.000Z", 1_795_132_800_000_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000_000),
            ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
            ("2000-02-29T00:00:00Z", 951_782_400_000_000),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000_000),
        ] as [(String, Int64)])
    func `A time with its zone is microseconds`(text: String, expected: Int64) {
        #expect(Self.microseconds(text) == expected)
    }

    @Test(arguments: [
        "", "2026-11-20", "2026-11-20T10:00:00", "2026-11-20T10:00:00.Z",
        "2026-11-20T10:00:00.123", "2026-11-20T10:60:00Z", "2026-11-20T10:00", "2026-11-20T10Z",
        "2026-11-20T10:00:Z", "2026-11-20T10:0Z", "2026-11-20T10:00.5Z", "2026-11-20T24:00:00.1Z",
        "2026-11-20T24:01:00Z", "2026-11-20T24:00:60Z", "2026-11-20T25:00:00Z",
        "20261120T100000", "20261120T10000Z", "20261120T10:00:00Z", "2026-11-20T100000Z",
        "2026-1120T10:00:00Z", "202611-20T10:00:00Z", "20261120T1000Z5", "20261131T100000Z",
        "20261120T10Z00", "2026324T100000Z", "2026-324T10:00:00Z", "2026-11-20T10:00:00+01:",
        "20261120T1000+1", "20261120T1000:0Z",
        "2026-11-20T10:00:61Z", "2026-00-20T10:00:00Z", "2026-13-20T10:00:00Z",
        "2026-11-00T10:00:00Z", "2026-11-31T10:00:00Z", "2026-02-29T10:00:00Z",
        "1900-02-29T10:00:00Z", "2100-02-29T00:00:00Z", "2026-11-20T10:00:00+24:00",
        "2026-11-20T10:00:00+01:60", "2026-11-20T10:00:00+24", "2026-11-20T10:00:00+1:00",
        "2026-11-20T10:00:00+01:0", "2026-11-20T10:00:00+", "2026-11-20T10:00:00ZZ",
        "2026-11-20T10:00:00Z ", " 2026-11-20T10:00:00Z", "2026/11/20T10:00:00Z",
        "2026-11-20X10:00:00Z", "2026-11-20T10-00-00Z", "+2026-11-20T10:00:00Z",
        "2026-11-2OT10:00:00Z", "2026-11-20T10:00:00.12a3Z", "2026-W47-5T10:00:00Z", "now",
    ])
    func `What names no time, or no zone, is refused`(text: String) {
        #expect(Self.microseconds(text) == nil)
    }

    /// Every day of 400 years around now, the whole cycle of the calendar.
    @Test func `The calendar is Foundation's`() throws {
        var calendar = Calendar(identifier: .iso8601)
        calendar.timeZone = try #require(TimeZone(identifier: "UTC"))
        for day in stride(from: -11_000, through: 135_100, by: 1) {
            let date = Date(timeIntervalSince1970: Double(day) * 86_400)
            let parts = calendar.dateComponents([.year, .month, .day], from: date)
            let (year, month, dayOfMonth) = (parts.year!, parts.month!, parts.day!)
            if CivilDate.day(year: year, month, dayOfMonth) != day {
                Issue.record("\(year)-\(month)-\(dayOfMonth)")
                return
            }
        }
        for year in 1970...2262 {
            for month in 1...12 {
                let first = DateComponents(
                    calendar: calendar, timeZone: calendar.timeZone, year: year, month: month)
                let days = calendar.range(of: .day, in: .month, for: first.date!)!.count
                #expect(CivilDate.day(year: year, month, days) != nil)
                #expect(CivilDate.day(year: year, month, days + 1) == nil)
            }
        }
    }

    @Test func `Random times are those that Foundation writes and reads`() throws {
        var random = SeededRandom(seed: 600)
        let formatter = ISO8601DateFormatter()
        formatter.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
        for _ in 0..<500 {
            let milliseconds = Int64(random.below(9_214_646_400_000))
            formatter.timeZone = TimeZone(secondsFromGMT: (random.below(1681) - 840) * 60)
            let text = formatter.string(
                from: Date(timeIntervalSince1970: Double(milliseconds) / 1000))
            let parsed = try #require(Self.microseconds(text), "\(text)")
            // A Date is a Double and may write the millisecond below.
            #expect(abs(parsed - milliseconds * 1000) <= 1000, "\(text)")
        }
    }
}
