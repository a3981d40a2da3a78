// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat
import IngestReader

/// How JSON and CSV write events. The names are those of JSON events (docs/format/json-event.md), where they have
/// one.
///
/// **Cost** With reading and writing, 1.3 µs of CPU an event whose names are at hand (blocks of a hundred rows).
package struct EventText: RowText {
    package static let columns = [
        "segment", "block", "row", "timestamp", "date", "eventType", "rewardId", "businessId",
        "verdict", "consent", "format", "viewability", "duration", "platform", "campaign", "source",
        "revenue", "spend", "hasEventId", "hasSession", "invalidTraffic", "outsideWindow",
    ]

    private let isJSON: Bool
    /// What stands before each value, and behind the last.
    private let keys: [[UInt8]]
    private let end: [UInt8]
    private let absent: [UInt8]
    private var dayTexts = [DayText(), DayText()]

    package init(isJSON: Bool) {
        self.isJSON = isJSON
        keys = isJSON ? JSONText.keys(Self.columns) : CSVText.separators(Self.columns)
        end = isJSON ? Array("}\n".utf8) : [0x0D, 0x0A]
        absent = isJSON ? Array("null".utf8) : []
    }

    package mutating func put(_ event: ListedEvent, to bytes: RowBytes) {
        let attributes = event.attributes
        var column = 0
        /// Puts what stands before the next value.
        func next() {
            bytes.put(keys[column])
            column += 1
        }
        func put(_ text: [UInt8]?) {
            next()
            if let text { self.put(text: text, to: bytes) } else { bytes.put(absent) }
        }
        func put(_ isSet: Bool) {
            next()
            bytes.put(isSet ? Self.yes : Self.no)
        }
        for number in [UInt64(event.segment), UInt64(event.block), UInt64(event.row)] {
            next()
            bytes.put(number)
        }
        next()
        putTime(event.timestamp, to: bytes)
        put(dayTexts[1].text(of: event.day))
        put(Self.kinds[event.kind])
        put(event.reward)
        put(event.business)
        put(Self.verdicts[event.verdict])
        put(Self.consents[event.consent])
        put(Self.formats[event.format])
        for micros in [UInt64(event.visible), UInt64(event.duration) * 1_000] {
            next()
            guard attributes.isMeasured else {
                bytes.put(absent)
                continue
            }
            bytes.put(Money(micros: micros))
        }
        for name in [event.platform, event.campaign, event.source] {
            put(name.isEmpty ? nil : name)
        }
        for micros in [event.revenueMicros, event.spendMicros] {
            next()
            putAmount(attributes.hasMoney ? Money(micros: micros) : nil, to: bytes)
        }
        put(attributes.hasEventID)
        put(attributes.hasSession)
        put(event.isMarkedInvalid)
        put(attributes.isOutsideWindow)
        bytes.put(end)
    }

    private static let yes = Array("true".utf8)
    private static let no = Array("false".utf8)
    private static let kinds = texts(of: EventRow.Kind.self)
    private static let verdicts = texts(of: EventRow.Verdict.self)
    private static let consents = texts(of: EventRow.Consent.self)
    private static let formats = texts(of: EventRow.Format.self)

    private static func texts<Value: CaseIterable & Hashable & RawRepresentable>(
        of type: Value.Type
    ) -> [Value: [UInt8]] where Value.RawValue == String {
        Dictionary(uniqueKeysWithValues: Value.allCases.map { ($0, Array($0.rawValue.utf8)) })
    }

    private func put(text: [UInt8], to bytes: RowBytes) {
        if isJSON { JSONText.put(text, to: bytes) } else { CSVText.put(text, to: bytes) }
    }

    private func putAmount(_ amount: Money?, to bytes: RowBytes) {
        guard let amount else { return bytes.put(absent) }
        if isJSON { bytes.put(UInt8(ascii: "\"")) }
        bytes.put(amount)
        if isJSON { bytes.put(UInt8(ascii: "\"")) }
    }

    /// As `TimeText.utc`, with the text of the last day at hand.
    private mutating func putTime(_ microseconds: Int64, to bytes: RowBytes) {
        let parts = microseconds.quotientAndRemainder(dividingBy: TimeText.dayMicroseconds)
        let isBefore = parts.remainder < 0
        let day = Int32(clamping: parts.quotient - (isBefore ? 1 : 0))
        let rest = UInt64(parts.remainder + (isBefore ? TimeText.dayMicroseconds : 0))
        let seconds = rest / 1_000_000
        if isJSON { bytes.put(UInt8(ascii: "\"")) }
        bytes.put(dayTexts[0].text(of: day))
        bytes.put(UInt8(ascii: "T"))
        bytes.put(seconds / 3600, width: 2)
        bytes.put(UInt8(ascii: ":"))
        bytes.put(seconds / 60 % 60, width: 2)
        bytes.put(UInt8(ascii: ":"))
        bytes.put(seconds % 60, width: 2)
        bytes.put(UInt8(ascii: "."))
        bytes.put(rest % 1_000_000, width: 6)
        bytes.put(UInt8(ascii: "Z"))
        if isJSON { bytes.put(UInt8(ascii: "\"")) }
    }
}

/// The text of the day that was asked for last: days of neighbouring rows are nearly always the same.
struct DayText {
    private var day: Int32?
    private var text: [UInt8] = []

    mutating func text(of day: Int32) -> [UInt8] {
        if self.day != day {
            self.day = day
            text = Array(CivilDay(dayNumber: day).description.utf8)
        }
        return text
    }
}

extension EventRow {
    /// The values of `EventText.columns`, in their order.
    package var cells: [Cell] {
        func name(_ text: String?) -> Cell { text.map { .text($0) } ?? .none }
        /// A number with the decimals of money.
        func number(_ micros: UInt64?) -> Cell {
            micros.map { .number(Money(micros: $0).description) } ?? .none
        }
        func amount(_ money: Money?) -> Cell { money.map { .decimal($0.description) } ?? .none }
        return [
            .count(UInt64(segment)), .count(UInt64(block)), .count(UInt64(row)),
            .text(TimeText.utc(timestampMicroseconds)), .text(date.description),
            .text(kind.rawValue), .text(rewardID), .text(businessID), .text(verdict.rawValue),
            .text(consent.rawValue), .text(format.rawValue),
            number(viewability.map { UInt64($0.visiblePartsPerMillion) }),
            number(viewability.map { UInt64($0.durationMilliseconds) * 1_000 }),
            name(platform), name(campaign), name(source), amount(revenue), amount(spend),
            .flag(hasEventID), .flag(hasSession), .flag(isMarkedInvalid), .flag(isOutsideWindow),
        ]
    }
}
