import TestSupport
import Testing

@testable import IngestFormat

/// docs/format/json-event.md against the decoder.
struct JSONPageTests {
    private typealias Line = JSONEventDecoderTests.Line
    private let page: FormatPage

    init() throws { page = try FormatPage("json-event") }

    /// The keys of a table's rows, of which one may name several, with the row.
    private func keys(under heading: String) -> [(key: String, row: [String: String])] {
        page.table(under: heading).flatMap { row in
            (row["key"] ?? "").split(separator: ", ").map { (String($0), row) }
        }
    }

    private func events(_ line: Line) -> [DecodedEvent] {
        DecoderHarness.json(line.text)?.events ?? []
    }

    @Test func `The page has every key once`() {
        let outside = keys(under: "Keys").map(\.key)
        let inside = keys(under: "Metadata").map(\.key)
        #expect(outside.count + inside.count == JSONEventFields.Field.allCases.count)
        #expect(Set(outside).count == outside.count)
        #expect(Set(inside).count == inside.count)
    }

    /// A list is a value that no key may have, so a key that refuses it is one that is read.
    @Test func `The keys of the page are those that are read, and needed where it says so`() {
        for (key, row) in keys(under: "Keys") {
            #expect(events(Line().with(key, "[]")).isEmpty, "\(key)")
            #expect(events(Line().with(key, nil)).isEmpty == (row["needed"] == "yes"), "\(key)")
        }
        for (key, row) in keys(under: "Metadata") {
            if row["value"]?.contains("dropped") == true {
                let plain = events(Line())
                #expect(events(Line().metadata("\"\(key)\":\"x\"")) != plain, "\(key)")
                #expect(events(Line().metadata("\"\(key)\":[]")) == plain, "\(key)")
            } else {
                #expect(events(Line().metadata("\"\(key)\":[]")).isEmpty, "\(key)")
            }
        }
    }

    @Test func `The page's limits are the code's`() {
        let milliseconds = UInt32.max
        #expect(
            page.numbers(under: "Limits", column: "at most") == [
                "datagram": "\(Limits.packetByteCountMax)",
                "rewardId, businessId": "\(Limits.nameByteCountMax)",
                "eventId": "\(Limits.eventIDByteCountMax)",
                "sessionId": "\(Limits.sessionIDByteCountMax)",
                "platform, campaign, source": "\(Limits.attributionByteCountMax)",
                "revenue, spend": "\(Limits.moneyMicrosMax / 1_000_000)",
                "duration": "\(milliseconds / 1000).\(milliseconds % 1000)",
                "objects and arrays in each other": "\(Limits.jsonDepthMax)",
            ])
        let last = events(Line().with("timestamp", #""2262-01-01T00:00:00Z""#)).first
        #expect(last?.timestamp == Limits.timestampMicrosecondsMax)
        let times = page.table(under: "Limits").first { $0["what"] == "timestamp" }
        #expect(times?["at most"]?.hasPrefix("1970-01-01 … 2262-01-01;") == true)
    }
}
