// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

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
