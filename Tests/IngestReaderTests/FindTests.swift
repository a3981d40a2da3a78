import Foundation
import IngestFormat
import IngestStorage
import TestSupport
import Testing

@testable import IngestReader
@testable import IngestReaderTool

@Suite struct FindTests {
    private static func hash(_ id: String, business: String = "shop") -> UInt64 {
        KeyedHash(key: InlineArray(repeating: 7)).event(
            business: Array(business.utf8), id: Array(id.utf8))
    }

    private static func event(
        _ id: String, _ verdict: Verdict = .counted, business: String = "shop",
        _ change: (inout FixtureEvent) -> Void = { _ in }
    ) -> FixtureEvent {
        var event = FixtureEvent()
        event.business = business
        event.type = .click
        event.verdict = verdict
        change(&event)
        event.eventHash = KeyedHash.event(
            hash(id, business: business), ofType: event.type.rawValue)
        return event
    }

    /// An event that was counted, sent again, sent with other contents, and counted at another business; in a sealed
    /// segment, in the live one, and among others.
    private static func fixture(seed: UInt64 = 1) throws -> LogFixture {
        let fixture = try LogFixture(seed: seed)
        var random = SeededRandom(seed: seed)
        func others(_ count: Int) -> [FixtureEvent] {
            (0..<count).map { _ in FixtureEvent(&random) }
        }
        try fixture.beginSegment()
        try fixture.append(others(20))
        try fixture.append(others(5) + [event("a-1")] + others(5))
        try fixture.append(others(9))
        try fixture.seal()
        try fixture.publish()
        try fixture.beginSegment()
        try fixture.append([event("a-1", .duplicate)] + others(3))
        try fixture.append(
            [
                event("a-1", .conflict) { $0.reward = "other" },
                event("a-1", .conflict) { $0.money = (5_000_000, 0) },
                event("a-1") {
                    $0.type = .redemption
                    $0.money = (5_000_000, 0)
                },
                event("a-1", business: "second shop"), event("a-2", .tooOld),
            ])
        return fixture
    }

    @Test("Every row of an id is found, in order, with its verdict, its place and its sender")
    func rows() throws {
        let fixture = try Self.fixture()
        let reader = try fixture.reader
        let found = try reader.find(eventID: "a-1", business: "shop")
        #expect(found.map(\.row.verdict) == [.counted, .duplicate, .conflict, .conflict, .counted])
        #expect(found.map(\.row.segment) == [1, 2, 2, 2, 2])
        #expect(found.map(\.row.block) == [1, 0, 1, 1, 1])
        #expect(found.map(\.row.row) == [5, 0, 0, 1, 2])
        #expect(found.map(\.differences) == [nil, nil, [.rewardId], [.revenue], nil])
        #expect(found.allSatisfy { $0.row.businessID == "shop" && $0.committedMicroseconds == 7 })
        #expect(found.allSatisfy { $0.sender == .framed(id: 9, epoch: 4) })
        #expect(found.map(\.sequences) == [2...2, 4...4, 5...5, 5...5, 5...5])
        let second = try reader.find(eventID: "a-1", business: "second shop")
        #expect(second.map(\.row.verdict) == [.counted])
        #expect(
            try reader.find(eventID: "a-2", business: "shop").map(\.row.verdict) == [.tooOld])
        for (id, business) in [
            ("a-2", "second shop"), ("a-3", "shop"), ("a-1", "nobody"), ("", "shop"), ("a-1", ""),
            (String(repeating: "x", count: 65), "shop"),
        ] { #expect(try reader.find(eventID: id, business: business).isEmpty) }
    }

    @Test("A search can be ended, and a UUID in text is its bytes")
    func edges() throws {
        let fixture = try Self.fixture()
        var count = 0
        try fixture.reader.forEachFound(eventID: Array("a-1".utf8), business: "shop") { _ in
            count += 1
            return count < 2 ? .next : .stop
        }
        #expect(count == 2)
        let uuid = UUID()
        try fixture.append([Self.event(uuid.uuidString)])
        let bytes = withUnsafeBytes(of: uuid.uuid) { Array($0) }
        for id in [bytes, Array(uuid.uuidString.utf8), Array(uuid.uuidString.lowercased().utf8)] {
            count = 0
            try fixture.reader.forEachFound(eventID: id, business: "shop") { _ in
                count += 1
                return .next
            }
            #expect(count == 1)
        }
    }

    @Test("A conflict whose counted row has expired says nothing of its difference")
    func expired() throws {
        let fixture = try Self.fixture()
        try fixture.expire(1)
        let found = try fixture.reader.find(eventID: "a-1", business: "shop")
        #expect(found.map(\.row.verdict) == [.duplicate, .conflict, .conflict, .counted])
        #expect(found.allSatisfy { $0.differences == nil })
    }

    @Test("Where several senders have events of a verdict in the block, none is named")
    func severalSenders() throws {
        let fixture = try LogFixture()
        try fixture.beginSegment()
        fixture.alterLedger = { $0.events[Int(Verdict.counted.rawValue)] = 1 }
        fixture.otherSenders = {
            var plain = LedgerEntry(key: .plain)
            plain.packets[Int(PacketResult.accepted.rawValue)] = 1
            plain.events[Int(Verdict.counted.rawValue)] = 1
            return [plain]
        }
        try fixture.append(
            [Self.event("a-1"), Self.event("a-2"), Self.event("a-1", .duplicate)])
        let found = try fixture.reader.find(eventID: "a-1", business: "shop")
        #expect(found.map(\.sender) == [nil, .framed(id: 9, epoch: 4)])
        #expect(found.map(\.sequences) == [nil, 1...1])
    }

    @Test("Blocks without ids, and those before the business had a name, are not read")
    func skipped() throws {
        let fixture = try LogFixture()
        try fixture.beginSegment()
        var early = FixtureEvent()
        early.business = "first shop"
        try fixture.append([early])
        let tooEarly = fixture.lastBlock
        try fixture.append([Self.event("a-1")])
        let holding = fixture.lastBlock
        var plain = FixtureEvent()
        plain.hasEventID = false
        try fixture.append([plain])
        let withoutIDs = fixture.lastBlock
        try fixture.seal()
        try fixture.publish()
        let reader = try fixture.reader
        let name = "0000000001.segment"
        for block in [tooEarly, withoutIDs] {
            fixture.flip(name, byte: block.upperBound - 20)
            #expect(try reader.find(eventID: "a-1", business: "shop").count == 1)
        }
        fixture.files.disk.damage(name) { bytes in
            for byte in holding.lowerBound + 200..<holding.upperBound { bytes[byte] ^= 1 }
        }
        let error = #expect(throws: ReaderError.self) {
            try reader.find(eventID: "a-1", business: "shop")
        }
        #expect(error?.kind == .corrupt && error?.path.hasSuffix(name) == true)
    }

    @Test("Every format has every row")
    func formats() throws {
        let found = try Self.fixture().reader.find(eventID: "a-1", business: "shop")
        func text(_ format: OutputFormat, _ cut: Cut? = nil) throws -> String {
            try FormattingTests.written { output in
                let count = try RowFormatter(format: format, cut: cut, output: output)
                    .list(FormattingTests.given(found))
                #expect(count == 5)
            }
        }
        let json = try JSONSerialization.jsonObject(with: Data(text(.json).utf8))
        let rows = try #require(json as? [[String: Any]])
        #expect(rows.count == 5 && rows.allSatisfy { $0.count == FoundEvent.columns.count })
        #expect(rows.map { $0["verdict"] as? String }.last == "counted")
        #expect(rows[3]["differs"] as? [String] == ["revenue"])
        #expect(rows[0]["sender"] as? String == "9" && rows[0]["firstSequence"] as? Int == 2)
        #expect(rows[0]["committedAt"] as? String == "1970-01-01T00:00:00.000007Z")
        let cut = Cut(segment: 2, block: 2)
        #expect(
            try text(.ndjson, cut).split(separator: "\n").allSatisfy { $0.contains("\"cut\":") })
        #expect(try text(.csv).split(separator: "\r\n").count == 6)
        #expect(try text(.table).split(separator: "\n").count == 6)
    }
}
