// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// The tables that there are: their columns, in the order of every format.
import IngestFormat
import IngestReader

extension RewardRow: OutputRow {
    package func give(to sink: inout some ValueSink) {
        sink.text("id", row.id)
        sink.text("businessId", row.business)
        sink.count("businessCount", UInt64(row.businessCount))
        row.counters.give(to: &sink)
    }
}

extension DayRow: OutputRow {
    package func give(to sink: inout some ValueSink) {
        sink.text("id", row.business + Array("#\(date)".utf8))
        row.giveDay(to: &sink)
    }
}

extension RewardDayRow: OutputRow {
    package func give(to sink: inout some ValueSink) {
        sink.text("id", row.id)
        row.giveDay(to: &sink)
    }
}

extension CampaignRow: OutputRow {
    package static var empty: CampaignRow { CampaignRow() }
    package var summed: CounterRow? { row }

    package func give(to sink: inout some ValueSink) {
        func name(_ column: StaticString, _ text: [UInt8]?, _ sink: inout some ValueSink) {
            if let text { sink.text(column, text) } else { sink.put(column, .text, .none) }
        }
        sink.text("id", idText)
        sink.text("businessId", businessText)
        name("campaign", campaignText, &sink)
        name("source", sourceText, &sink)
        sink.flag("overflow", isOverflow)
        row.give(to: &sink)
    }
}

extension ListedRow {
    fileprivate func giveDay(to sink: inout some ValueSink) {
        sink.text("businessId", business)
        sink.day("date", day)
        counters.give(to: &sink)
    }
}

extension OutputRow where Self: CounterListedRow {
    package static var empty: Self { Self(ListedRow()) }
    package var summed: CounterRow? { row.counters }
}

extension CounterRow {
    /// The counters, the same in every table.
    func give(to sink: inout some ValueSink) {
        let (impressions, clicks) = (self[.impressions], self[.clicks])
        sink.count("impressions", impressions)
        sink.count("clicks", clicks)
        sink.count("redemptions", self[.redemptions])
        sink.rate("ctr", ctr)
        sink.money("revenue", sum(.revenueMicros))
        sink.money("spend", sum(.spendMicros))
        sink.detail("viewableImpressions", self[.viewableImpressions], usual: 0)
        sink.detail("undeterminedImpressions", self[.undeterminedImpressions], usual: 0)
        sink.detail("notViewableImpressions", self[.notViewableImpressions], usual: 0)
        sink.detailRate("measuredRate", measuredRate)
        sink.detailRate("viewableRate", viewableRate)
        sink.detail("grossImpressions", gross(ofType: 0), usual: impressions)
        sink.detail("invalidImpressions", self[.invalidImpressions], usual: 0)
        sink.detail("duplicateImpressions", self[.duplicateImpressions], usual: 0)
        sink.detail("conflictImpressions", self[.conflictImpressions], usual: 0)
        sink.detail("refusedImpressions", self[.refusedImpressions], usual: 0)
        sink.detail("grossClicks", gross(ofType: 1), usual: clicks)
        sink.detail("invalidClicks", self[.invalidClicks], usual: 0)
        sink.detail("duplicateClicks", self[.duplicateClicks], usual: 0)
        sink.detail("conflictClicks", self[.conflictClicks], usual: 0)
        sink.detail("refusedClicks", self[.refusedClicks], usual: 0)
        sink.detail("grossRedemptions", gross(ofType: 2), usual: self[.redemptions])
        sink.detail("invalidRedemptions", self[.invalidRedemptions], usual: 0)
        sink.detail("duplicateRedemptions", self[.duplicateRedemptions], usual: 0)
        sink.detail("conflictRedemptions", self[.conflictRedemptions], usual: 0)
        sink.detail("refusedRedemptions", self[.refusedRedemptions], usual: 0)
        sink.detail("uncheckedEvents", self[.uncheckedEvents], usual: 0)
        sink.detail("orphanClicks", self[.orphanClicks], usual: 0)
        sink.detail("orphanRedemptions", self[.orphanRedemptions], usual: 0)
        sink.detail("overflowEvents", self[.overflowEvents], usual: 0)
    }
}

/// The names are those of JSON events (docs/format/json-event.md), where they have one.
extension EventRow: OutputRow {
    package static var empty: EventRow { EventRow() }

    /// The columns of a table, of those that most rows differ in.
    static let tableColumns = [
        "segment", "block", "row", "timestamp", "date", "eventType", "rewardId", "businessId",
        "verdict", "consent", "format", "viewability", "duration", "campaign", "source", "revenue",
        "spend",
    ]

    package func give(to sink: inout some ValueSink) {
        func name(_ column: StaticString, _ text: [UInt8], _ sink: inout some ValueSink) {
            if text.isEmpty { sink.put(column, .text, .none) } else { sink.text(column, text) }
        }
        let (isMeasured, hasMoney) = (attributes.isMeasured, attributes.hasMoney)
        sink.count("segment", UInt64(segment))
        sink.count("block", UInt64(block))
        sink.count("row", UInt64(row))
        sink.time("timestamp", timestampMicroseconds)
        sink.day("date", day)
        sink.word("eventType", kind.name)
        sink.text("rewardId", rewardText)
        sink.text("businessId", businessText)
        sink.word("verdict", verdict.name)
        sink.word("consent", consent.name)
        sink.word("format", format.name)
        sink.fraction("viewability", isMeasured ? UInt64(visible) : nil)
        sink.fraction("duration", isMeasured ? UInt64(duration) * 1_000 : nil)
        name("platform", platformText, &sink)
        name("campaign", campaignText, &sink)
        name("source", sourceText, &sink)
        sink.money("revenue", hasMoney ? UInt128(revenueMicros) : nil)
        sink.money("spend", hasMoney ? UInt128(spendMicros) : nil)
        sink.flag("hasEventId", hasEventID)
        sink.flag("hasSession", hasSession)
        sink.put("invalidTraffic", .text, .text(orNone: invalidTrafficRule?.name))
        sink.flag("unchecked", isUnchecked)
        sink.flag("orphan", isOrphan)
        sink.flag("overflow", isOverflow)
        sink.flag("campaignOverflow", isCampaignOverflow)
    }
}

extension FoundEvent: OutputRow {
    package static var empty: FoundEvent { FoundEvent(EventRow()) }

    /// The columns of a table, where only what tells rows of one id apart has room.
    static let tableColumns = [
        "verdict", "committedAt", "sender", "epoch", "firstSequence", "lastSequence", "differs",
        "segment", "block", "row", "eventType", "rewardId", "revenue", "spend",
    ]

    package func give(to sink: inout some ValueSink) {
        row.give(to: &sink)
        sink.time("committedAt", committedMicroseconds)
        sink.put("sender", .text, .text(orNone: sender?.name))
        sink.put("epoch", .text, sender?.epoch ?? .none)
        sink.put("firstSequence", .count, .count(orNone: sequences?.lowerBound))
        sink.put("lastSequence", .count, .count(orNone: sequences?.upperBound))
        sink.put(
            "differs", .nested, differences.map { .list($0.map { .text($0.rawValue) }) } ?? .none)
    }
}

extension LedgerRow: OutputRow {
    package static var empty: LedgerRow { LedgerRow() }

    package func give(to sink: inout some ValueSink) {
        sink.word("sender", sender.name)
        sink.put("epoch", .text, sender.epoch)
        sink.put("packetsAnnounced", .count, .count(orNone: packetsAnnounced))
        sink.count("packetsReceived", packetsReceived)
        sink.put("packetsMissing", .count, .count(orNone: packetsMissing))
        sink.put("packetsOpen", .count, .count(orNone: packetsOpen))
        sink.count("packetsResent", packetsResent)
        sink.count("eventsDecoded", eventsDecoded)
        sink.count("eventsCounted", eventsCounted)
        sink.put("packetsRefused", .nested, .counts(packetsRefused))
        sink.put("eventsRefused", .nested, .counts(eventsRefused))
        sink.put("eventsRepeated", .nested, .counts(eventsRepeated, of: Self.repeats))
        sink.put("firstSeen", .text, .time(firstSeenMicroseconds))
        sink.put("lastSeen", .text, .time(lastSeenMicroseconds))
        sink.put("unknownSince", .text, .time(unknownSinceMicroseconds))
        sink.put(
            "clockSkewSeconds", .number,
            clockSkewMilliseconds.map { .number(Self.seconds($0)) } ?? .none)
    }

    /// With three decimals.
    private static func seconds(_ milliseconds: Int64) -> String {
        let (whole, rest) = milliseconds.magnitude.quotientAndRemainder(dividingBy: 1_000)
        return "\(milliseconds < 0 ? "-" : "")\(whole).\(String(1_000 + rest).dropFirst())"
    }
}

extension LedgerRow.Sender {
    /// A framed sender's id in decimal digits.
    package var name: String {
        switch self {
        case .framed(let id, _): String(id)
        case .plain: "plain"
        case .http: "http"
        case .unidentified: "unidentified"
        case .others: "others"
        }
    }

    /// In decimal digits, as the id.
    var epoch: Cell {
        if case .framed(_, let epoch) = self { return .decimal(String(epoch)) }
        return .none
    }
}
