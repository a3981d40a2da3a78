// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// The rule of a time zone for all years: `CET-1CEST,M3.5.0,M10.5.0/3`, a POSIX TZ string as the end of a TZif file has it.
///
/// **Source** POSIX.1-2024, 8.3 *Other Environment Variables*, TZ; RFC 9636, section 3.3.1: times of a rule from −167 to
/// 167 hours.
struct PosixZone {
    /// Seconds east of UTC.
    private let standard: Int32
    private let daylight: (offset: Int32, start: Rule, end: Rule)?

    private struct Rule {
        enum Day {
            /// 1 … 365, of a year without 29 February.
            case julian(Int)
            /// 0 … 365.
            case ofYear(Int)
            /// Week 1 … 5 (5 is the last), day 0 (Sunday) … 6.
            case weekday(month: Int, week: Int, day: Int)
        }

        let day: Day
        /// Of local time, from the day's midnight.
        let seconds: Int

        /// Seconds since 1970 on the local clock.
        func local(year: Int) -> Int {
            let firstDay = CivilDate.day(year: year, 1, 1) ?? 0
            let number =
                switch day {
                case .julian(let day):
                    firstDay + day - 1
                        + (day >= 60 && CivilDate.day(year: year, 2, 29) != nil ? 1 : 0)
                case .ofYear(let day): firstDay + day
                case .weekday(let month, let week, let day):
                    Self.number(year: year, month, week, day)
                }
            return number * 86_400 + seconds
        }

        private static func number(year: Int, _ month: Int, _ week: Int, _ day: Int) -> Int {
            let first = CivilDate.day(year: year, month, 1) ?? 0
            let next =
                month == 12
                ? CivilDate.day(year: year + 1, 1, 1) : CivilDate.day(year: year, month + 1, 1)
            // 1970-01-01, day 0, was a Thursday. No year before 1969 is asked for.
            let weekday = (first + 4 + 371) % 7
            var found = first + (day - weekday + 7) % 7 + 7 * (week - 1)
            while found >= next ?? 0 { found -= 7 }
            return found
        }
    }

    /// `nil` for a text that is none.
    init?(_ text: ArraySlice<UInt8>) {
        var cursor = Cursor(rest: text)
        guard cursor.skipName(), let west = cursor.time(hourMax: 24) else { return nil }
        standard = -west
        if cursor.rest.isEmpty {
            daylight = nil
            return
        }
        guard cursor.skipName() else { return nil }
        var offset = standard + 3_600
        if cursor.rest.first != UInt8(ascii: ",") {
            guard let west = cursor.time(hourMax: 24) else { return nil }
            offset = -west
        }
        guard let start = cursor.rule(), let end = cursor.rule(), cursor.rest.isEmpty,
            abs(offset) <= ZoneOffsets.offsetSecondsMax
        else { return nil }
        daylight = (offset, start, end)
    }

    /// The changes of offset from 1969 on, as far as event times go, ascending.
    func changes() -> [(seconds: Int64, offsetSeconds: Int32)] {
        guard let daylight else { return [] }
        var changes: [(seconds: Int64, isDaylight: Bool)] = []
        for year in 1969...2262 {
            let start = daylight.start.local(year: year) - Int(standard)
            let end = daylight.end.local(year: year) - Int(daylight.offset)
            changes.append((Int64(start), true))
            changes.append((Int64(end), false))
        }
        // Where daylight-saving time ends when the next begins, it never ends: the start comes last and counts.
        changes.sort { ($0.seconds, $0.isDaylight ? 1 : 0) < ($1.seconds, $1.isDaylight ? 1 : 0) }
        return changes.map { ($0.seconds, $0.isDaylight ? daylight.offset : standard) }
    }

    /// Reads the text from its front.
    private struct Cursor {
        var rest: ArraySlice<UInt8>

        mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: character) else { return false }
            rest.removeFirst()
            return true
        }

        /// `CET` or `<+0530>`, of three characters at least.
        mutating func skipName() -> Bool {
            let isQuoted = skip("<")
            let name = rest.prefix {
                switch $0 {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"):
                    true
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"):
                    isQuoted
                default: false
                }
            }
            rest = rest.dropFirst(name.count)
            return name.count >= 3 && (!isQuoted || skip(">"))
        }

        /// At most three digits.
        mutating func number(_ range: ClosedRange<Int>) -> Int? {
            let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            guard (1...3).contains(digits.count) else { return nil }
            rest = rest.dropFirst(digits.count)
            let value = digits.reduce(0) { 10 * $0 + Int($1 - UInt8(ascii: "0")) }
            return range.contains(value) ? value : nil
        }

        /// `[+-]hh[:mm[:ss]]` in seconds.
        mutating func time(hourMax: Int) -> Int32? {
            let isNegative = skip("-")
            if !isNegative { _ = skip("+") }
            guard let hours = number(0...hourMax) else { return nil }
            var seconds = hours * 3_600
            for unit in [60, 1] where skip(":") {
                guard let value = number(0...59) else { return nil }
                seconds += value * unit
            }
            guard hourMax > 24 || seconds <= Int(ZoneOffsets.offsetSecondsMax) else { return nil }
            return Int32(isNegative ? -seconds : seconds)
        }

        /// `,Mm.w.d`, `,Jn` or `,n`, each with an optional `/time`; 02:00 without.
        mutating func rule() -> Rule? {
            guard skip(","), let day = day() else { return nil }
            guard skip("/") else { return Rule(day: day, seconds: 7_200) }
            return time(hourMax: 167).map { Rule(day: day, seconds: Int($0)) }
        }

        private mutating func day() -> Rule.Day? {
            if skip("J") { return number(1...365).map { .julian($0) } }
            guard skip("M") else { return number(0...365).map { .ofYear($0) } }
            guard let month = number(1...12), skip("."), let week = number(1...5), skip("."),
                let day = number(0...6)
            else { return nil }
            return .weekday(month: month, week: week, day: day)
        }
    }
}
