// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat

/// A sum of money, exact: whole micros of one currency unit. One deployment has one currency.
public struct Money: Hashable, Sendable, Comparable {
    /// Millionths of a currency unit.
    public let micros: UInt128

    public init(micros: UInt128) { self.micros = micros }

    public static func < (a: Self, b: Self) -> Bool { a.micros < b.micros }
}

extension Money: CustomStringConvertible {
    /// Decimal text in currency units with at least 2 and at most 6 decimals, never rounded: `12.50`.
    public var description: String {
        if micros == 0 { return "0.00" }
        var rest = micros % 1_000_000
        var width = 6
        while width > 2, rest % 10 == 0 {
            rest /= 10
            width -= 1
        }
        let decimals = String(rest)
        let zeros = String(repeating: "0", count: width - decimals.utf8.count)
        return "\(micros / 1_000_000).\(zeros)\(decimals)"
    }
}

/// A quotient of two counters, kept as the two integers so that comparing is exact: 1/2 and 2/4 are equal.
public struct Rate: Hashable, Sendable, Comparable {
    public let part: UInt64
    /// Never 0: of nothing there is no rate.
    public let whole: UInt64

    /// `nil` where `whole` is 0.
    public init?(_ part: UInt64, of whole: UInt64) {
        guard whole > 0 else { return nil }
        self.part = part
        self.whole = whole
    }

    /// part / whole in ten-thousandths, half rounded up. **Units** may exceed 10,000.
    public var tenThousandths: UInt128 {
        // Nearly always: a division of 128 bits costs as much as the rest of a row's text.
        if part < 1 << 48, whole < 1 << 62 {
            return UInt128((part * 20_000 + whole) / (whole * 2))
        }
        return (UInt128(part) * 20_000 + UInt128(whole)) / (UInt128(whole) * 2)
    }

    /// By the exact quotient, not by the rounded one.
    public static func < (a: Self, b: Self) -> Bool {
        UInt128(a.part) * UInt128(b.whole) < UInt128(b.part) * UInt128(a.whole)
    }

    public static func == (a: Self, b: Self) -> Bool {
        UInt128(a.part) * UInt128(b.whole) == UInt128(b.part) * UInt128(a.whole)
    }

    /// **Cost** That of finding the greatest common divisor.
    public func hash(into hasher: inout Hasher) {
        var (divisor, rest) = (whole, part)
        while rest > 0 { (divisor, rest) = (rest, divisor % rest) }
        hasher.combine(part / divisor)
        hasher.combine(whole / divisor)
    }
}

extension Rate: CustomStringConvertible {
    /// Four decimals: `0.0125`.
    public var description: String {
        if part == 0 { return "0.0000" }
        let value = tenThousandths
        let decimals = String(value % 10_000)
        return "\(value / 10_000)." + String(repeating: "0", count: 4 - decimals.utf8.count)
            + decimals
    }
}

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
