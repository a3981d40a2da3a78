import IngestFormat
import Testing

@Suite struct BlockRoundTripTests {
    let decoder = BlockDecoder()

    func expectRoundTrip(_ content: BlockContent, _ place: SourceLocation = #_sourceLocation) throws {
        let bytes = content.encoded()
        #expect(bytes.count % 8 == 0, sourceLocation: place)
        let decoded = try decoder.decode(bytes)
        #expect(decoded == content, sourceLocation: place)
        #expect(decoded.encoded() == bytes, sourceLocation: place)
    }

    @Test func `A block without anything in it is a header alone`() throws {
        let content = BlockContent()
        #expect(content.encoded().count == BlockLayout.headerByteCountMin)
        try expectRoundTrip(content)
    }

    @Test func `One row comes back as it was`() throws {
        var content = BlockContent()
        content.names = ["r", "b"]
        content.keys = [
            RewardKey(reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 2))
        ]
        content.rows = [Row(timestamp: 1, day: 20_000)]
        try expectRoundTrip(content)
    }
}
