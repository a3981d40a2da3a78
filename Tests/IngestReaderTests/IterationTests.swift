import IngestFormat
import IngestReader
import IngestStorage
import Testing

@Suite struct IterationTests {
    private struct Failed: Error, Equatable { var row: Int }

    /// A row of each listing for every reward, of which there are five.
    private static func reader() throws -> IngestReader {
        let fixture = try LogFixture(seed: 3)
        try fixture.beginSegment()
        let hash = KeyedHash(key: InlineArray(repeating: 7))
        let events = (0..<5).map { number in
            var event = FixtureEvent()
            event.reward = "reward-\(number)"
            event.business = "shop"
            event.day = 20_000 + Int32(number)
            let id = hash.event(business: Array("shop".utf8), id: Array("one".utf8))
            event.eventHash = KeyedHash.event(id, ofType: event.type.rawValue)
            return event
        }
        try fixture.append(events)
        return try fixture.reader
    }

    /// All listings, each with a body that counts and stops or throws at its second row.
    private static func listings(
        _ reader: IngestReader, _ body: @escaping () throws -> Iteration
    ) -> [(name: String, run: () throws -> Void)] {
        [
            ("rewards", { try reader.forEachReward { _ in try body() } }),
            ("days", { try reader.forEachDay { _ in try body() } }),
            ("reward-days", { try reader.forEachRewardDay { _ in try body() } }),
            ("events", { try reader.forEachEvent { _ in try body() } }),
            (
                "found",
                {
                    try reader.forEachFound(eventID: Array("one".utf8), business: "shop") { _ in
                        try body()
                    }
                }
            ),
        ]
    }

    @Test("An error of a body ends every listing at its row, and comes out as it is")
    func bodyThrows() throws {
        var count = 0
        let listings = Self.listings(try Self.reader()) {
            count += 1
            if count == 2 { throw Failed(row: count) }
            return .next
        }
        for listing in listings {
            count = 0
            #expect(throws: Failed(row: 2), "\(listing.name)") { try listing.run() }
            #expect(count == 2, "\(listing.name)")
        }
    }

    @Test("A body that stops ends every listing without an error")
    func bodyStops() throws {
        var count = 0
        let listings = Self.listings(try Self.reader()) {
            count += 1
            return count == 2 ? .stop : .next
        }
        for listing in listings {
            count = 0
            try listing.run()
            #expect(count == 2, "\(listing.name)")
        }
    }

    @Test("With a body that throws nothing a listing throws the reader's errors alone")
    func typed() throws {
        let reader = try Self.reader()
        var count = 0
        // Would not compile if the listing could throw anything else.
        do throws(ReaderError) {
            try reader.forEachReward { _ in
                count += 1
                return .next
            }
        } catch { Issue.record("\(error)") }
        #expect(count == 5)
    }
}
