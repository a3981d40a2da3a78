// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// Event time in text: ISO 8601 calendar date and time with a zone, in the extended form.
///
/// **Layout** `YYYY-MM-DDThh:mm:ss[.f…](Z|±hh:mm|±hhmm)`. The `T` and the `Z` may be small and the `T` a
/// space, as RFC 3339 lets them; the fraction may have any number of digits after a point or comma and is
/// cut to microseconds. A leap second (`:60`) is the last microsecond of its minute, so that it stays in
/// its minute and its day.
enum TimestampText {
    /// Microseconds since 1970 UTC; `nil` if the text is not of this form or names no real time. Years
    /// are not limited here.
    @unsafe static func microseconds(_ text: UnsafePointer<UInt8>, _ byteCount: Int) -> Int64? {
        // SAFETY: 20 bytes are there, checked first; the rest is read below `byteCount` only.
        guard byteCount >= 20,
            unsafe text[4] == UInt8(ascii: "-"), unsafe text[7] == UInt8(ascii: "-"),
            unsafe text[10] | 0x20 == UInt8(ascii: "t") || text[10] == UInt8(ascii: " "),
            unsafe text[13] == UInt8(ascii: ":"), unsafe text[16] == UInt8(ascii: ":"),
            let century = unsafe twoDigits(text, 0), let yearOfCentury = unsafe twoDigits(text, 2),
            let month = unsafe twoDigits(text, 5), let day = unsafe twoDigits(text, 8),
            let hour = unsafe twoDigits(text, 11), hour < 24,
            let minute = unsafe twoDigits(text, 14), minute < 60,
            let second = unsafe twoDigits(text, 17), second <= 60,
            let days = daysSince1970(year: century * 100 + yearOfCentury, month, day)
        else { return nil }
        var at = 19
        guard let fraction = unsafe fraction(text, byteCount, &at),
            let offsetMinutes = unsafe zone(text, byteCount, &at), at == byteCount
        else { return nil }
        let microseconds =
            second == 60 ? 59_999_999 : Int64(second) * 1_000_000 + Int64(fraction)
        let minutes = Int64(days) * 1440 + Int64(hour * 60 + minute - offsetMinutes)
        return minutes * 60_000_000 + microseconds
    }

    @unsafe private static func twoDigits(_ text: UnsafePointer<UInt8>, _ at: Int) -> Int? {
        // SAFETY: the caller has checked that both bytes are there.
        let tens = unsafe text[at] &- UInt8(ascii: "0")
        let ones = unsafe text[at + 1] &- UInt8(ascii: "0")
        return tens < 10 && ones < 10 ? Int(tens) * 10 + Int(ones) : nil
    }

    /// Microseconds of the fraction at `at`, 0 where there is none.
    @unsafe private static func fraction(
        _ text: UnsafePointer<UInt8>, _ byteCount: Int, _ at: inout Int
    ) -> Int? {
        // SAFETY: at < byteCount is checked before each load.
        guard at < byteCount,
            unsafe text[at] == UInt8(ascii: ".") || text[at] == UInt8(ascii: ",")
        else { return 0 }
        at += 1
        let start = at
        var value = 0
        while at < byteCount {
            let digit = unsafe text[at] &- UInt8(ascii: "0")
            guard digit < 10 else { break }
            if at - start < 6 { value = value * 10 + Int(digit) }
            at += 1
        }
        guard at > start else { return nil }
        for _ in 0..<max(0, 6 - (at - start)) { value *= 10 }
        return value
    }

    /// Minutes east of UTC.
    @unsafe private static func zone(
        _ text: UnsafePointer<UInt8>, _ byteCount: Int, _ at: inout Int
    ) -> Int? {
        // SAFETY: every index is checked against `byteCount` first.
        guard at < byteCount else { return nil }
        let sign = unsafe text[at]
        at += 1
        if sign | 0x20 == UInt8(ascii: "z") { return 0 }
        guard sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-"), byteCount - at >= 4,
            let hours = unsafe twoDigits(text, at), hours < 24
        else { return nil }
        at += 2
        if unsafe text[at] == UInt8(ascii: ":") { at += 1 }
        guard byteCount - at >= 2, let minutes = unsafe twoDigits(text, at), minutes < 60 else {
            return nil
        }
        at += 2
        let offset = hours * 60 + minutes
        return sign == UInt8(ascii: "-") ? -offset : offset
    }

    /// Days of the proleptic Gregorian calendar; `nil` if the month has no such day.
    /// **Source** H. Hinnant, "chrono-compatible low-level date algorithms", days_from_civil.
    static func daysSince1970(year: Int, _ month: Int, _ day: Int) -> Int? {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let dayCount: Int
        switch month {
        case 2: dayCount = isLeap ? 29 : 28
        case 4, 6, 9, 11: dayCount = 30
        case 1...12: dayCount = 31
        default: return nil
        }
        guard day >= 1, day <= dayCount else { return nil }
        // Years begin in March, so that the leap day is the last; 400 added so that nothing is negative.
        let shifted = (month <= 2 ? year - 1 : year) + 400
        let era = shifted / 400
        let yearOfEra = shifted % 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return (era - 1) * 146_097 + dayOfEra - 719_468
    }
}
