// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// A TZif file, as the package tzdata installs one for each IANA time zone → the offsets of that zone.
///
/// **Layout** (big-endian) A header of 44 bytes and a data block with 32-bit times, which are skipped; a header and a data
/// block with 64-bit times: transition times (i64 each), the type of each (u8), types (offset i32, daylight-saving u8,
/// designation u8), designations, leap seconds, two lists of indicators; then a line feed, a POSIX TZ string for all
/// times after the last transition, and a line feed.
///
/// **Errors** `notThisFile`: it is no TZif file. `torn`: it ends early. `corrupt`: any value is out of its range; also a
/// file of version 1, whose times end in 2038, and one that counts leap seconds (`right/…`).
/// **Cost** 20 µs; the file is at most `Limits.zoneFileByteCountMax`.
/// **Source** RFC 9636 (RFC 8536 before it), sections 3 and 3.3; tzfile(5).
package enum ZoneFile {
    private static let magic = Array("TZif".utf8)
    private static let headerByteCount = 44
    private static let typeByteCount = 6

    package static func decode(_ bytes: [UInt8]) throws(FormatError) -> ZoneOffsets {
        let old = try Header(bytes, at: 0)
        let header = try Header(bytes, at: old.end(timeByteCount: 4))
        let end = header.end(timeByteCount: 8)
        guard end < bytes.count else {
            throw .torn("data block", at: header.start, available: bytes.count, needed: end + 1)
        }
        try header.check()
        let footer = try footer(bytes, at: end)
        var offsets = ZoneOffsets(
            initialOffsetSeconds: try type(0, header, bytes))
        var last: Int64?
        for place in 0..<header.timeCount {
            let time = bigEndian(bytes, header.timesStart + 8 * place, byteCount: 8)
            if let last, time <= last {
                throw .corrupt(
                    "order of transition times", at: header.timesStart + 8 * place, got: time,
                    expected: .atLeast(last &+ 1))
            }
            last = time
            let type = Int(bytes[header.timesStart + 8 * header.timeCount + place])
            offsets.append(at: time, offsetSeconds: try self.type(type, header, bytes))
        }
        for change in footer?.changes() ?? [] where change.seconds > last ?? .min {
            offsets.append(at: change.seconds, offsetSeconds: change.offsetSeconds)
        }
        return offsets
    }

    /// The offset of a type.
    private static func type(
        _ place: Int, _ header: Header, _ bytes: [UInt8]
    ) throws(FormatError) -> Int32 {
        guard place < header.typeCount else {
            throw .corrupt(
                "type of a transition", at: header.timesStart, got: place,
                expected: .atMost(header.typeCount - 1))
        }
        let start = header.timesStart + 9 * header.timeCount + Self.typeByteCount * place
        let offset = Int32(truncatingIfNeeded: bigEndian(bytes, start, byteCount: 4))
        let range = -ZoneOffsets.offsetSecondsMax...ZoneOffsets.offsetSecondsMax
        guard range.contains(offset) else {
            throw .corrupt(
                "offset from UTC", at: start, got: offset,
                expected: .atMost(ZoneOffsets.offsetSecondsMax))
        }
        return offset
    }

    /// `nil` for an empty one: nothing is known of later times, and the last offset is kept.
    private static func footer(_ bytes: [UInt8], at start: Int) throws(FormatError) -> PosixZone? {
        guard bytes[start] == UInt8(ascii: "\n") else {
            throw .corrupt("footer", at: start, got: bytes[start], expected: .exactly(0x0A))
        }
        guard let end = bytes[(start + 1)...].firstIndex(of: UInt8(ascii: "\n")) else {
            throw .torn("footer", at: start, available: bytes.count, needed: bytes.count + 1)
        }
        let text = bytes[start + 1..<end]
        if text.isEmpty { return nil }
        guard let zone = PosixZone(text) else {
            throw .corrupt(
                "TZ string", at: start + 1, got: text.count, expected: .exactly(0))
        }
        return zone
    }

    /// A signed number of so many bytes, which are there.
    private static func bigEndian(_ bytes: [UInt8], _ start: Int, byteCount: Int) -> Int64 {
        var bits: UInt64 = 0
        for place in start..<start + byteCount { bits = bits << 8 | UInt64(bytes[place]) }
        return byteCount == 8
            ? Int64(bitPattern: bits) : Int64(Int32(truncatingIfNeeded: bits))
    }

    private struct Header {
        let start: Int
        private let counts: [Int]

        private static let names = [
            "UT indicator count", "standard indicator count", "leap second count",
            "transition count", "type count", "designation byte count",
        ]

        var timeCount: Int { counts[3] }
        var typeCount: Int { counts[4] }
        /// Where the data block begins.
        var timesStart: Int { start + ZoneFile.headerByteCount }

        init(_ bytes: [UInt8], at start: Int) throws(FormatError) {
            guard start <= bytes.count - ZoneFile.headerByteCount else {
                throw .torn(
                    "header", at: start, available: bytes.count,
                    needed: start + ZoneFile.headerByteCount)
            }
            guard bytes[start..<start + 4].elementsEqual(ZoneFile.magic) else {
                throw .notThisFile(
                    "magic", at: start, got: bytes[start], expected: .exactly(ZoneFile.magic[0]))
            }
            // The digit: '2' is the first version with 64-bit times.
            guard bytes[start + 4] >= UInt8(ascii: "2") else {
                throw .corrupt(
                    "version", at: start + 4, got: bytes[start + 4], expected: .atLeast(0x32))
            }
            self.start = start
            counts = (0..<6).map {
                Int(
                    UInt32(
                        truncatingIfNeeded: ZoneFile.bigEndian(
                            bytes, start + 20 + 4 * $0, byteCount: 4)))
            }
        }

        /// Where the data block ends. Six counts of 32 bits: no sum of them passes 64.
        func end(timeByteCount: Int) -> Int {
            timesStart + counts[3] * (timeByteCount + 1) + counts[4] * ZoneFile.typeByteCount
                + counts[5] + counts[2] * (timeByteCount + 4) + counts[1] + counts[0]
        }

        /// Holds the counts against each other; the data block is there.
        func check() throws(FormatError) {
            for place in [0, 1] where counts[place] != 0 && counts[place] != typeCount {
                throw fault(place, .exactly(typeCount))
            }
            if counts[2] != 0 { throw fault(2, .exactly(0)) }
            if typeCount == 0 { throw fault(4, .atLeast(1)) }
            if counts[5] == 0 { throw fault(5, .atLeast(1)) }
        }

        private func fault(_ place: Int, _ expected: FormatFault.Expectation) -> FormatError {
            .corrupt(
                Self.names[place], at: start + 20 + 4 * place, got: counts[place],
                expected: expected)
        }
    }
}

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
