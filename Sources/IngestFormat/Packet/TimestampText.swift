// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// Event time in text: ISO 8601 calendar date and time of day with a zone.
///
/// **Layout** `YYYY-MM-DDThh:mm[:ss[.f…]]` (extended form) or `YYYYMMDDThhmm[ss[.f…]]` (basic form), then
/// `Z`, `±hh`, `±hhmm` or `±hh:mm`. The `T` and the `Z` may be small and the `T` a space, as RFC 3339 lets
/// them; the fraction may have any number of digits after a point or comma and is cut to microseconds.
/// 24:00 is the next midnight. A leap second (`:60`) is the last microsecond of its minute, so that it
/// stays in its minute and its day. Week and ordinal dates are not taken.
enum TimestampText {
    /// `20261120T1000Z`, the shortest.
    private static let byteCountMin = 14

    /// Microseconds since 1970 UTC; `nil` if the text is not of this form or names no real time. Years
    /// are 0000 … 9999 and not limited further here.
    @unsafe static func microseconds(_ text: UnsafePointer<UInt8>, _ byteCount: Int) -> Int64? {
        // SAFETY: 14 bytes are there, checked first, which hold a date and the byte behind it in either
        // form; the rest is read below `byteCount` only.
        guard byteCount >= byteCountMin else { return nil }
        let isExtended = unsafe text[4] == UInt8(ascii: "-")
        guard let days = unsafe days(text, byteCount, isExtended) else { return nil }
        var at = isExtended ? 10 : 8
        guard unsafe text[at] | 0x20 == UInt8(ascii: "t") || text[at] == UInt8(ascii: " ") else {
            return nil
        }
        at += 1
        guard let time = unsafe timeOfDay(text, byteCount, &at, isExtended),
            let offsetMinutes = unsafe zone(text, byteCount, &at), at == byteCount
        else { return nil }
        return Int64(days * 1440 - offsetMinutes) * 60_000_000 + time
    }

    /// Days since 1970 of the date at the start.
    @unsafe private static func days(
        _ text: UnsafePointer<UInt8>, _ byteCount: Int, _ isExtended: Bool
    ) -> Int? {
        var at = 0
        guard let century = unsafe twoDigits(text, byteCount, &at),
            let yearOfCentury = unsafe twoDigits(text, byteCount, &at),
            unsafe passDash(text, byteCount, &at, isExtended),
            let month = unsafe twoDigits(text, byteCount, &at),
            unsafe passDash(text, byteCount, &at, isExtended),
            let day = unsafe twoDigits(text, byteCount, &at)
        else { return nil }
        return CivilDate.day(year: century * 100 + yearOfCentury, month, day)
    }

    @unsafe private static func passDash(
        _ text: UnsafePointer<UInt8>, _ byteCount: Int, _ at: inout Int, _ isExtended: Bool
    ) -> Bool {
        unsafe !isExtended || pass(UInt8(ascii: "-"), text, byteCount, &at)
    }

    /// Microseconds since midnight, up to a whole day.
    @unsafe private static func timeOfDay(
        _ text: UnsafePointer<UInt8>, _ byteCount: Int, _ at: inout Int, _ isExtended: Bool
    ) -> Int64? {
        let colon = UInt8(ascii: ":")
        guard let hour = unsafe twoDigits(text, byteCount, &at), hour <= 24,
            unsafe !isExtended || pass(colon, text, byteCount, &at),
            let minute = unsafe twoDigits(text, byteCount, &at), minute < 60
        else { return nil }
        var microseconds = Int64(hour * 60 + minute) * 60_000_000
        // SAFETY: at < byteCount is checked before the load.
        let hasSecond =
            unsafe isExtended
            ? pass(colon, text, byteCount, &at)
            : at < byteCount && text[at] &- UInt8(ascii: "0") < 10
        if hasSecond {
            guard let second = unsafe twoDigits(text, byteCount, &at), second <= 60,
                let fraction = unsafe fraction(text, byteCount, &at)
            else { return nil }
            microseconds +=
                second == 60 ? 59_999_999 : Int64(second) * 1_000_000 + Int64(fraction)
        }
        return microseconds <= 86_400_000_000 ? microseconds : nil
    }

    /// Moves past `byte` if it stands at `at`.
    @unsafe private static func pass(
        _ byte: UInt8, _ text: UnsafePointer<UInt8>, _ byteCount: Int, _ at: inout Int
    ) -> Bool {
        // SAFETY: at < byteCount is checked first.
        guard at < byteCount, unsafe text[at] == byte else { return false }
        at += 1
        return true
    }

    @unsafe private static func twoDigits(
        _ text: UnsafePointer<UInt8>, _ byteCount: Int, _ at: inout Int
    ) -> Int? {
        guard byteCount - at >= 2 else { return nil }
        // SAFETY: both bytes are there, checked above.
        let tens = unsafe text[at] &- UInt8(ascii: "0")
        let ones = unsafe text[at + 1] &- UInt8(ascii: "0")
        guard tens < 10, ones < 10 else { return nil }
        at += 2
        return Int(tens) * 10 + Int(ones)
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
        guard at < byteCount else { return nil }
        // SAFETY: at < byteCount, checked above.
        let sign = unsafe text[at]
        at += 1
        if sign | 0x20 == UInt8(ascii: "z") { return 0 }
        guard sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-"),
            let hours = unsafe twoDigits(text, byteCount, &at), hours < 24
        else { return nil }
        var offset = hours * 60
        if at < byteCount {
            _ = unsafe pass(UInt8(ascii: ":"), text, byteCount, &at)
            guard let minutes = unsafe twoDigits(text, byteCount, &at), minutes < 60 else {
                return nil
            }
            offset += minutes
        }
        return sign == UInt8(ascii: "-") ? -offset : offset
    }
}

/// A decimal number in text, times a power of ten, without ever going through floating point.
struct DecimalText {
    /// The number times 10^scale, cut to an integer.
    let value: UInt64
    /// Whether the value is that of the text: nothing but zeros was cut off, and it fits 64 bits.
    let isExact: Bool

    /// Reads a number of JSON's grammar that fills `text` (so `cursor.number()` has taken it). `nil` if
    /// it is negative (and not zero). What does not fit 64 bits is the largest value that does.
    @unsafe init?(_ text: UnsafePointer<UInt8>, _ byteCount: Int, scale: Int) {
        // SAFETY: every index below is less than `byteCount`, for which the caller vouches.
        let isNegative = unsafe text[0] == UInt8(ascii: "-")
        var mantissaEnd = byteCount
        var pointAt: Int?
        for i in 0..<byteCount {
            let byte = unsafe text[i]
            if byte == UInt8(ascii: ".") { pointAt = i }
            if byte | 0x20 == UInt8(ascii: "e") {
                mantissaEnd = i
                break
            }
        }
        let exponent = unsafe Self.exponent(text, mantissaEnd + 1, byteCount)
        let first = isNegative ? 1 : 0
        let integerDigitCount = (pointAt ?? mantissaEnd) - first
        // How many of the digits stand before the point, once scaled.
        var keep = integerDigitCount + exponent + scale
        var value: UInt64 = 0
        var isExact = true
        for i in first..<mantissaEnd where i != pointAt {
            let digit = unsafe UInt64(text[i] &- UInt8(ascii: "0"))
            if keep > 0 {
                isExact = Self.append(digit, to: &value) && isExact
                keep -= 1
            } else if digit != 0 {
                isExact = false
            }
        }
        while keep > 0 && value != 0 && isExact {
            isExact = Self.append(0, to: &value) && isExact
            keep -= 1
        }
        if isNegative && (value != 0 || !isExact) { return nil }
        self.value = value
        self.isExact = isExact
    }

    /// Adds a digit behind the others; `false`, and the largest value from then on, if that is too much.
    private static func append(_ digit: UInt64, to value: inout UInt64) -> Bool {
        let (product, overflow) = value.multipliedReportingOverflow(by: 10)
        let (sum, carry) = product.addingReportingOverflow(digit)
        value = overflow || carry ? .max : sum
        return !overflow && !carry
    }

    /// The exponent's value, held within a range in which sums of counts cannot overflow; 0 if none.
    private static func exponent(_ text: UnsafePointer<UInt8>, _ start: Int, _ end: Int) -> Int {
        var value = 0
        var isNegative = false
        var at = start
        while at < end {
            // SAFETY: at < end, the text's byte count.
            let byte = unsafe text[at]
            if byte == UInt8(ascii: "-") {
                isNegative = true
            } else if byte != UInt8(ascii: "+") {
                value = min(value * 10 + Int(byte &- UInt8(ascii: "0")), 1_000_000)
            }
            at += 1
        }
        return isNegative ? -value : value
    }
}
