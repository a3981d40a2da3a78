// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// The zones file: which business has its days in which time zone, and from when.
///
/// **Layout** A line a rule, fields apart by blanks: `businessId IANA/Zone [from=YYYY-MM-DD]`; empty lines, and what
/// follows a `#` at the start of a field, mean nothing. Without `from` a rule holds from the beginning. The lines of a
/// business may come in any order.
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
        for line in bytes.split(separator: 0x0A, omittingEmptySubsequences: false) {
            number += 1
            let fields = line.fields
            if fields.isEmpty { continue }
            do throws(ZonesFileError.Fault) {
                let (business, rule) = try Self.rule(fields, line: number)
                try add(rule, to: business)
            } catch {
                throw ZonesFileError(line: number, fault: error)
            }
        }
    }

    private static func rule(
        _ fields: [ArraySlice<UInt8>], line: Int
    ) throws(ZonesFileError.Fault) -> (business: [UInt8], Rule) {
        guard fields.count >= 2 else { throw .noZone }
        guard fields.count <= 3 else { throw .tooManyFields }
        let business = Array(fields[0])
        guard business.count <= Limits.nameByteCountMax,
            String(validating: business, as: UTF8.self) != nil
        else { throw .business }
        guard let zone = ZoneName(fields[1]) else { throw .zone }
        var from: Int32?
        if fields.count == 3 {
            let text = String(decoding: fields[2], as: UTF8.self)
            guard text.hasPrefix("from="), let day = CivilDate.day(text.dropFirst(5)),
                Limits.businessDays.contains(day)
            else { throw .date }
            from = day
        }
        return (business, Rule(from: from, zone: zone.text, line: line))
    }

    private mutating func add(_ rule: Rule, to business: [UInt8]) throws(ZonesFileError.Fault) {
        var own = rules[business] ?? []
        let place = own.firstIndex { $0.from ?? .min >= rule.from ?? .min } ?? own.count
        if place < own.count, own[place].from == rule.from { throw .repeated }
        own.insert(rule, at: place)
        rules[business] = own
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
        case .business: "no business id, write 1 to \(Limits.nameByteCountMax) bytes of UTF-8"
        case .zone: "no zone name, write UTC or an IANA name such as Europe/Berlin"
        case .date: "no from= with a date from 1970 on, write from=YYYY-MM-DD"
        case .repeated: "the same business and date a second time, remove one"
        }
    }
}

extension ArraySlice<UInt8> {
    /// The fields of a line, apart by blanks, up to the first that begins with `#`.
    package var fields: [ArraySlice<UInt8>] {
        let fields = split { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
        return Array(fields.prefix { $0.first != UInt8(ascii: "#") })
    }
}
