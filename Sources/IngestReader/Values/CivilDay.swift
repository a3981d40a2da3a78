// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat

/// A calendar day of the proleptic Gregorian calendar, kept as its number of days since 1970-01-01.
///
/// The log fixes an event's day when it is written, so no zone plays a part here: this type only turns
/// the stored number into a date and back (`CivilDate`).
public struct CivilDay: Hashable, Sendable, Comparable {
    /// Days since 1970-01-01; negative before it.
    public let dayNumber: Int32

    public init(dayNumber: Int32) { self.dayNumber = dayNumber }

    /// The day of a date; `nil` where there is no such date. **Units** `year` 0 … 9999.
    public init?(year: Int, month: Int, day: Int) {
        guard (0...9999).contains(year), let number = CivilDate.day(year: year, month, day) else {
            return nil
        }
        dayNumber = Int32(number)
    }

    /// Reads `YYYY-MM-DD`, the only form that is accepted; `nil` for anything else.
    public init?(_ text: String) {
        guard let number = CivilDate.day(text) else { return nil }
        dayNumber = number
    }

    /// Year, month 1 … 12, and day 1 … 31.
    public var components: (year: Int, month: Int, day: Int) {
        CivilDate.components(dayNumber)
    }

    public static func < (a: Self, b: Self) -> Bool { a.dayNumber < b.dayNumber }
}

extension CivilDay: CustomStringConvertible {
    /// `YYYY-MM-DD`. Years outside 0 … 9999, which no event can have, take a sign or more digits.
    public var description: String { CivilDate.text(dayNumber) }
}

/// Points in time as text.
package enum TimeText {
    package static let dayMicroseconds: Int64 = 86_400_000_000

    /// `2026-11-20T10:00:00.123456Z`. **Units** microseconds since 1970 UTC, any value.
    package static func utc(_ microseconds: Int64) -> String {
        let parts = microseconds.quotientAndRemainder(dividingBy: dayMicroseconds)
        let isBefore = parts.remainder < 0
        let dayNumber = parts.quotient - (isBefore ? 1 : 0)
        let rest = parts.remainder + (isBefore ? dayMicroseconds : 0)
        let seconds = rest / 1_000_000
        let date = CivilDay(dayNumber: Int32(clamping: dayNumber))
        let time = [seconds / 3600, seconds / 60 % 60, seconds % 60].map { padded($0, 2) }
        return "\(date)T\(time.joined(separator: ":")).\(padded(rest % 1_000_000, 6))Z"
    }

    private static func padded(_ value: Int64, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
}
