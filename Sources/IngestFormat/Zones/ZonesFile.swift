// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// The zones file: which business has its days in which time zone, and from when.
///
/// **Layout** A line a rule, fields apart by blanks: `businessId IANA/Zone [from=YYYY-MM-DD]`; empty lines, and what
/// follows a `#` at the start of a field, mean nothing. In the id `%XX` is the byte with these hexadecimal digits: a
/// blank, a `%`, a `#` at the start. Without `from` a rule holds from the beginning. The lines of a business may come in any
/// order.
package struct ZonesFile: Sendable {
    /// From when on a business is in a zone.
    package struct Rule: Hashable, Sendable {
        /// Days since 1970-01-01, a date of the new zone; `nil` from the beginning.
        package let from: Int32?
        package let zone: String
        /// Of the file, from 1 on.
        package let line: Int
    }

    /// By the bytes of the business id, ascending by date.
    package private(set) var rules: [[UInt8]: [Rule]] = [:]

    /// **Errors** `ZonesFileError` for the first line that breaks a rule. An empty file is valid.
    package init(_ bytes: [UInt8]) throws(ZonesFileError) {
        var number = 0
        var first: ZonesFileError?
        for line in bytes.lines {
            number += 1
            let fields = line.fields
            if fields.isEmpty { continue }
            do throws(ZonesFileError.Fault) {
                let (business, rule) = try Self.rule(fields, line: number)
                rules[business, default: []].append(rule)
            } catch {
                first = ZonesFileError(line: number, fault: error)
                break
            }
        }
        for business in rules.keys {
            guard let line = rules[business]?.sortByDate(), line < first?.line ?? .max else {
                continue
            }
            first = ZonesFileError(line: line, fault: .repeated)
        }
        if let first { throw first }
    }

    private static func rule(
        _ fields: [ArraySlice<UInt8>], line: Int
    ) throws(ZonesFileError.Fault) -> (business: [UInt8], Rule) {
        guard fields.count >= 2 else { throw .noZone }
        guard fields.count <= 3 else { throw .tooManyFields }
        guard let business = fields[0].decodedName else { throw .business }
        guard let zone = ZoneName(fields[1]) else { throw .zone }
        var from: Int32?
        if fields.count == 3 {
            let text = String(decoding: fields[2], as: UTF8.self)
            guard text.hasPrefix("from="), let day = CivilDate.day(text.dropFirst(5)),
                (0...Limits.businessDays.upperBound).contains(day)
            else { throw .date }
            from = day
        }
        return (business, Rule(from: from, zone: zone.text, line: line))
    }
}

/// The name of a time zone as a path below a directory of zones: `UTC`, or an IANA name with its slash. Abbreviations
/// (`EST`) do not say which rules apply, and `posix/…` and `right/…` are other editions of the same zones.
package struct ZoneName: Hashable, Sendable {
    package let text: String
    package static let utc = "UTC"

    package init?(_ name: some Collection<UInt8>) {
        let text = String(decoding: name, as: UTF8.self)
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        let isPath =
            parts.count >= 2 && name.count <= 64 && !["posix", "right"].contains(parts[0])
            && parts.allSatisfy { part in
                part.first?.isLetter == true && part.utf8.allSatisfy(Self.isAllowed)
            }
        guard isPath || text == Self.utc else { return nil }
        self.text = text
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "+"),
            UInt8(ascii: "-"):
            true
        default: false
        }
    }
}

/// Which line of a zones file is wrong, and why.
package struct ZonesFileError: Error, Equatable, Sendable {
    package let line: Int
    package let fault: Fault

    package enum Fault: Error, Equatable, Sendable {
        case noZone
        case tooManyFields
        case business
        case zone
        case date
        case repeated
    }
}

extension ZonesFileError.Fault: CustomStringConvertible {
    /// What, and what to do.
    package var description: String {
        switch self {
        case .noZone: "missing zone after the business id, write an IANA name such as Europe/Berlin"
        case .tooManyFields: "more than three fields, write businessId IANA/Zone [from=YYYY-MM-DD]"
        case .business:
            "no business id, write 1 to \(Limits.nameByteCountMax) bytes of UTF-8, a blank as %20 and a % as %25"
        case .zone: "no zone name, write UTC or an IANA name such as Europe/Berlin"
        case .date:
            "no from= with a date from 1970-01-01 to \(CivilDate.text(Limits.businessDays.upperBound)), "
                + "write from=YYYY-MM-DD"
        case .repeated: "the same business and date a second time, remove one"
        }
    }
}

extension [ZonesFile.Rule] {
    /// Sorts a business's rules; the first line, if any, that has the date of one before it.
    fileprivate mutating func sortByDate() -> Int? {
        sort { ($0.from ?? .min, $0.line) < ($1.from ?? .min, $1.line) }
        return zip(self, dropFirst()).filter { $0.from == $1.from }.map { $1.line }.min()
    }
}

extension [UInt8] {
    /// The lines of a text file, one behind the last newline too; without the byte order mark that some editors put in front.
    package var lines: [ArraySlice<UInt8>] {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        return self[(starts(with: mark) ? mark.count : 0)...]
            .split(separator: 0x0A, omittingEmptySubsequences: false)
    }
}

extension ArraySlice<UInt8> {
    /// The fields of a line, apart by blanks, up to the first that begins with `#`.
    package var fields: [ArraySlice<UInt8>] {
        let fields = split { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
        return Array(fields.prefix { $0.first != UInt8(ascii: "#") })
    }

    /// The id that a field of an operator's file says, in which `%XX` is the byte with these hexadecimal digits; `nil` if it
    /// is none.
    package var decodedName: [UInt8]? {
        var name: [UInt8] = []
        var rest = self
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                name.append(byte)
                continue
            }
            let digits = rest.prefix(2).compactMap { Character(UnicodeScalar($0)).hexDigitValue }
            guard digits.count == 2 else { return nil }
            name.append(UInt8(digits[0] << 4 | digits[1]))
            rest = rest.dropFirst(2)
        }
        let isName =
            name.count <= Limits.nameByteCountMax && String(validating: name, as: UTF8.self) != nil
        return isName ? name : nil
    }
}

/// The offsets of a time zone from UTC over all event times, and the local dates that follow from them. A value, made
/// from a TZif file (`ZoneFile`).
///
/// **Layout** The instants at which the offset changes, ascending, each with the offset from then on. An instant before
/// 1970 has the offset of 1970-01-01T00:00:00Z.
/// **Units** Instants in microseconds since 1970 UTC, offsets in seconds east of UTC.
/// **Cost** 16 bytes a change, at most some 600 of them up to 2262; a look-up is a binary search.
package struct ZoneOffsets: Hashable, Sendable {
    /// From `start` on, local time is UTC plus `offsetSeconds`.
    package struct Change: Hashable, Sendable {
        package let start: Int64
        package let offsetSeconds: Int32
    }

    /// The largest distance of a zone from UTC; the widest in use are −12 h and +14 h.
    package static let offsetSecondsMax: Int32 = 86_400
    static let dayMicroseconds: Int64 = 86_400_000_000
    static let secondsMax = Limits.timestampMicrosecondsMax / 1_000_000

    package private(set) var initialOffsetSeconds: Int32
    package private(set) var changes: [Change] = []

    package static let utc = ZoneOffsets(initialOffsetSeconds: 0)

    /// - Parameter initialOffsetSeconds: within `offsetSecondsMax`.
    package init(initialOffsetSeconds: Int32) { self.initialOffsetSeconds = initialOffsetSeconds }

    /// Adds a change of offset, which is not before those that were added. What an event time cannot show is left out.
    ///
    /// - Parameters:
    ///   - seconds: since 1970 UTC.
    ///   - offsetSeconds: within `offsetSecondsMax`.
    package mutating func append(at seconds: Int64, offsetSeconds: Int32) {
        if seconds > Self.secondsMax { return }
        if seconds <= 0 {
            initialOffsetSeconds = offsetSeconds
            return
        }
        let start = seconds * 1_000_000
        if changes.last?.start == start { changes.removeLast() }
        if offsetSeconds == changes.last?.offsetSeconds ?? initialOffsetSeconds { return }
        changes.append(Change(start: start, offsetSeconds: offsetSeconds))
    }

    /// The local date of an instant, with the instants about it that have the same date and offset.
    ///
    /// - Parameter instant: within `Limits.timestampMicrosecondsMax` of 1970.
    package func day(of instant: Int64) -> DaySpan {
        let next = changes.indices.firstPlace { changes[$0].start > instant }
        let offset = Int64(next == 0 ? initialOffsetSeconds : changes[next - 1].offsetSeconds)
        let local = instant &+ offset &* 1_000_000
        let (quotient, rest) = local.quotientAndRemainder(dividingBy: Self.dayMicroseconds)
        // Rounded down: the day before 1970-01-01 is −1.
        let day = rest < 0 ? quotient - 1 : quotient
        let start = day &* Self.dayMicroseconds &- offset &* 1_000_000
        let end = start &+ Self.dayMicroseconds
        // A day in which the offset changes is answered in several spans.
        return DaySpan(
            day: Int32(truncatingIfNeeded: day),
            start: next == 0 ? start : max(start, changes[next - 1].start),
            end: next == changes.count ? end : min(end, changes[next].start))
    }

    /// The first instant whose local date is this day or a later one.
    /// - Parameter day: since 1970-01-01, within `Limits.businessDays`.
    package func start(of day: Int32) -> Int64 {
        let midnight = Int64(day) * Self.dayMicroseconds
        var (begin, offset) = (Int64.min, initialOffsetSeconds)
        for change in changes {
            let start = max(begin, midnight - Int64(offset) * 1_000_000)
            if start < change.start { return start }
            (begin, offset) = (change.start, change.offsetSeconds)
        }
        return max(begin, midnight - Int64(offset) * 1_000_000)
    }
}

/// Instants that belong to one day: all of it, or a part.
public struct DaySpan: Hashable, Sendable, BitwiseCopyable {
    /// Days since 1970-01-01.
    public var day: Int32 = 0
    /// Microseconds since 1970 UTC: from `start` on, before `end`. Empty as it is made.
    public var start: Int64 = 0
    public var end: Int64 = 0

    @inlinable public init() {}

    public init(day: Int32, start: Int64, end: Int64) {
        (self.day, self.start, self.end) = (day, start, end)
    }

    @inlinable public func contains(_ instant: Int64) -> Bool { instant >= start && instant < end }
}
