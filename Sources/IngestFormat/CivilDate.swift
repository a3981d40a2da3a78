// packet → [decode] → ring → admit → block → segment → compaction → snapshot → [query]

/// Dates of the proleptic Gregorian calendar, and days since 1970-01-01.
///
/// **Source** H. Hinnant, "chrono-compatible low-level date algorithms": eras of 400 years, from years that begin in
/// March, so that the leap day is the last; exact for every `Int32`.
package enum CivilDate {
    /// Days since 1970-01-01; `nil` if there is no such date. **Units** `year` from 0, month 1 … 12, day 1 … 31.
    package static func day(year: Int, _ month: Int, _ day: Int) -> Int? {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let dayCount: Int
        switch month {
        case 2: dayCount = isLeap ? 29 : 28
        case 4, 6, 9, 11: dayCount = 30
        case 1...12: dayCount = 31
        default: return nil
        }
        guard day >= 1, day <= dayCount else { return nil }
        // 400 added so that nothing is negative.
        let shifted = (month <= 2 ? year - 1 : year) + 400
        let (era, yearOfEra) = shifted.quotientAndRemainder(dividingBy: 400)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return (era - 1) * 146_097 + dayOfEra - 719_468
    }

    /// Reads `YYYY-MM-DD`, the only form that is accepted; `nil` for anything else, and where there is no such date.
    package static func day(_ text: some StringProtocol) -> Int32? {
        let bytes = Array(text.utf8)
        guard bytes.count == 10, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            let year = number(bytes[0..<4]), let month = number(bytes[5..<7]),
            let day = number(bytes[8..<10])
        else { return nil }
        return Self.day(year: year, month, day).map { Int32($0) }
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        var value = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            value = value * 10 + Int(digit - UInt8(ascii: "0"))
        }
        return value
    }

    /// Year, month 1 … 12, and day 1 … 31 of a day since 1970-01-01.
    package static func components(_ day: Int32) -> (year: Int, month: Int, day: Int) {
        let shifted = Int(day) + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }

    /// `YYYY-MM-DD`. Years outside 0 … 9999, which no event can have, take a sign or more digits.
    package static func text(_ day: Int32) -> String {
        let (year, month, day) = components(day)
        func padded(_ number: Int, _ width: Int) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
        }
        return (year < 0 ? "-" : "") + padded(abs(year), 4) + "-" + padded(month, 2) + "-"
            + padded(day, 2)
    }
}
