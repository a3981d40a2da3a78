import IngestFormat
import TestSupport
import Testing

@Suite struct BlockRoundTripTests {
    private let decoder = BlockDecoder()
    private let encoder = BlockEncoder()
    private let rows = BlockRows()

    private func expectRoundTrip(
        _ content: BlockContent, _ place: SourceLocation = #_sourceLocation
    ) throws {
        let bytes = content.encoded(by: encoder)
        let alignment =
            content.context.rewritten == nil
            ? BlockLayout.commitAlignment : BlockLayout.alignment
        #expect(bytes.count % alignment == 0, sourceLocation: place)
        let decoded = try decoder.decode(bytes, into: rows)
        #expect(decoded == content, sourceLocation: place)
        #expect(decoded.encoded(by: encoder) == bytes, sourceLocation: place)
        #expect(try decoder.check(bytes.span.bytes).byteCount == bytes.count, sourceLocation: place)
    }

    @Test func `A block without anything in it is a header alone`() throws {
        let content = BlockContent()
        #expect(content.encoded().count == BlockLayout.commitAlignment)
        try expectRoundTrip(content)
    }

    @Test func `A block of ledger entries without rows is legal`() throws {
        var content = BlockContent()
        content.ledger = LedgerEntry.examples
        try expectRoundTrip(content)
    }

    @Test func `One row comes back as it was`() throws {
        var content = BlockContent.example
        content.rows = [content.rows[0]]
        try expectRoundTrip(content)
    }

    @Test func `Event times at both ends of Int64 come back`() throws {
        var content = BlockContent.example
        content.rows[0].timestamp = .min
        content.rows[2].timestamp = .max
        content.rows[1].day = Limits.businessDays.lowerBound
        content.rows[3].day = Limits.businessDays.upperBound
        try expectRoundTrip(content)
    }

    @Test func `Campaigns and sources may be beyond the bound, and platforms not`() throws {
        let other = Attribution.other
        for row in [Row(campaign: other), Row(source: other), Row(campaign: other, source: other)] {
            var content = BlockContent.example
            content.rows.append(row)
            #expect(try decoder.decode(content.encoded()) == content)
        }
        let nextName = BlockContent.example.context.firstName.rawValue + 3
        for row in [
            Row(platform: other), Row(campaign: nextName), Row(source: nextName),
            Row(campaign: other - 1), Row(source: other - 1),
        ] {
            var content = BlockContent.example
            content.rows.append(row)
            let error = Damage.error { _ = try decoder.decode(content.encoded()) }
            #expect(error?.summary.hasPrefix("corrupt") == true, "\(row)")
        }
    }

    @Test func `Every defined value of the attributes comes back, and so do all flags`() throws {
        var content = BlockContent.example
        content.rows = []
        for raw in 0..<UInt16.max {
            let attributes = RowAttributes(rawValue: raw)
            guard attributes.isValid else { continue }
            var row = Row()
            row.type = attributes.type!
            row.verdict = attributes.verdict!
            row.consent = attributes.consent
            row.format = attributes.format!
            row.bits = raw & Row.marks
            if attributes.hasSession { row.session = 0xFFFF_FFFF_0000 | UInt64(raw) }
            if attributes.hasEventID { row.eventHash = UInt64(raw) }
            if attributes.isMeasured { row.viewability = .init(visible: 1, duration: 2) }
            if attributes.hasMoney { row.money = .init(revenue: 3, spend: 4) }
            content.rows.append(row)
        }
        #expect(content.rows.count > 13_000)
        try expectRoundTrip(content)
    }

    @Test(arguments: 0..<60 as Range<UInt64>)
    func `Blocks of every shape come back, and encode to the same bytes again`(seed: UInt64) throws
    {
        var random = SeededRandom(seed: seed)
        for count in [random.below(4), random.below(70), random.below(3000)] {
            try expectRoundTrip(BlockContent(seed: &random, rowCount: count))
        }
    }

    @Test func `A full block with all counts at their limits fits, and comes back`() throws {
        var random = SeededRandom(seed: 8)
        var content = BlockContent(seed: &random, rowCount: Limits.blockEventCountMax)
        content.names = (0..<Limits.blockNameCountMax).map { index in
            let text = String(index)
            return text + String(repeating: "x", count: Limits.nameByteCountMax - text.utf8.count)
        }
        content.keys = (0..<Limits.blockKeyCountMax).map { index in
            RewardKey(
                reward: NameOrdinal(rawValue: UInt32(index % Limits.blockNameCountMax) + 1),
                business: NameOrdinal(rawValue: 1))
        }
        content.context.firstName = NameOrdinal(rawValue: 1)
        content.context.firstKey = KeyOrdinal(rawValue: 0)
        content.ledger = LedgerEntry.largest()
        for i in content.rows.indices {
            content.rows[i].key %= UInt32(Limits.blockKeyCountMax)
            content.rows[i].platform %= UInt32(Limits.blockNameCountMax)
            content.rows[i].campaign %= UInt32(Limits.blockNameCountMax)
            content.rows[i].source %= UInt32(Limits.blockNameCountMax)
        }
        let bytes = content.encoded(by: encoder)
        #expect(try decoder.decode(bytes, into: rows) == content)
    }

    @Test func `The limits on counts keep raw bytes within the limit on bytes`() {
        let rowByteCount = 4 + 8 + 4 + 2 + 3 * 4 + 8 + 2 * 4 + 2 * 8
        let most =
            Limits.blockEventCountMax * rowByteCount
            + Limits.blockNameCountMax * (1 + Limits.nameByteCountMax)
            + Limits.blockKeyCountMax * 8
            + Limits.blockSenderCountMax * LedgerCodec.entryByteCountMax
            + Limits.blockSequenceRangeCountMax * LedgerCodec.rangeByteCountMax
            + Limits.blockCheckCountMax * LedgerCodec.checkByteCount
            + 8 * Limits.blockSectionCountMax
        #expect(most <= Limits.blockByteCountMax)
        #expect(Limits.packetByteCountMax / 3 <= Limits.blockNameCountMax)
        #expect(Limits.packetEventCountMax <= Limits.blockEventCountMax)
        #expect(Limits.blockEventCountMax <= Limits.blockKeyCountMax)
        #expect(Limits.blockEventCountMax <= 1 << 16)
    }

    @Test func `Only what is asked for is filled, and only that is checked`() throws {
        var random = SeededRandom(seed: 9)
        let content = BlockContent(seed: &random, rowCount: 1000)
        var bytes = content.encoded()
        let sections = try decoder.sections(bytes.span.bytes)
        let days = try #require(sections.first { $0.kind == .day })
        bytes[days.offset] ^= 1
        #expect(throws: FormatError.self) { try decoder.check(bytes.span.bytes) }
        #expect(throws: FormatError.self) {
            try decoder.decode(bytes.span.bytes, wanted: .counters, into: rows)
        }
        #expect(rows.rowCount == 0)

        let block = try decoder.decode(bytes.span.bytes, wanted: .identity, into: rows)
        #expect(block.names.count == 0 && block.keys.isEmpty && block.ledger.isEmpty)
        #expect(rows.rowCount == 1000)
        let hashes = content.rows.compactMap(\.eventHash)
        #expect(rows.eventHashCount == hashes.count)
        for (index, hash) in hashes.enumerated() { #expect(rows.eventHash[index] == hash) }
        for (index, row) in content.rows.enumerated() {
            #expect(rows.key[index] == row.key)
            #expect(rows.attributes[index] == row.attributes.rawValue)
        }

        let names = try decoder.decode(bytes.span.bytes, wanted: .dictionary, into: rows)
        #expect(names.names.count == content.names.count)
        #expect(names.keys == content.keys)
        #expect(rows.rowCount == 0)
    }

    @Test func `Of a block that is not whole, only what is there is decoded`() throws {
        var random = SeededRandom(seed: 11)
        let content = BlockContent(seed: &random, rowCount: 1000)
        let bytes = content.encoded()
        let sections = try decoder.sections(bytes.span.bytes)
        let header = try decoder.header(bytes.span.bytes)
        var part = [UInt8](repeating: 0, count: bytes.count)
        part[..<header.headerByteCount] = bytes[..<header.headerByteCount]
        for section in sections where section.kind.part == .dictionary {
            let range = section.offset..<section.offset + section.byteCount
            part[range] = bytes[range]
        }
        let names = try #require(sections.first { $0.kind == .names })
        for count in [bytes.count, bytes.count - 1, names.offset + names.byteCount - 1] {
            let isThere = count >= bytes.count - 1
            let some = Array(part[..<count])
            let decoded = try? decoder.decode(
                some.span.bytes, wanted: .dictionary, isWhole: false, into: rows)
            #expect(decoded?.keys == (isThere ? content.keys : nil))
            #expect(throws: FormatError.self) {
                try decoder.decode(some.span.bytes, wanted: .counters, isWhole: false, into: rows)
            }
        }
        let cut = Array(part.dropLast())
        #expect(throws: FormatError.self) {
            try decoder.decode(cut.span.bytes, wanted: .dictionary, into: rows)
        }
    }

    @Test func `The encoder's summary is what a reader finds in the header`() throws {
        let content = BlockContent.example
        let buffer = BlockBuffer()
        let summary = encoder.encode(
            rows: BlockRows(content.rows), names: content.newNames, keys: content.keys,
            ledger: content.ledger, context: content.context, into: buffer)
        let header = try decoder.header(buffer.copy.span.bytes)
        #expect(header.summary == summary)
        #expect(header.context == content.context)
        #expect(summary.byteCount == buffer.byteCount)
        #expect(header.nextName.rawValue == 1 + UInt32(content.names.count))
        #expect(header.nextKey.rawValue == UInt32(content.keys.count))
    }

    @Test func `A block encodes to the same bytes whatever the encoder did before`() throws {
        var random = SeededRandom(seed: 10)
        let content = BlockContent(seed: &random, rowCount: 2000)
        let first = content.encoded(by: encoder)
        for _ in 0..<10 {
            _ = BlockContent(seed: &random, rowCount: random.below(5000)).encoded(by: encoder)
        }
        #expect(content.encoded(by: encoder) == first)
    }

    @Test func `Ledger entries out of order are put in order`() throws {
        var content = BlockContent()
        content.ledger = LedgerEntry.examples.reversed()
        #expect(try decoder.decode(content.encoded()).ledger == LedgerEntry.examples)
    }

    @Test(arguments: 1...8)
    func `The rows of a key are picked with their days, attributes and amounts`(seed: UInt64) throws
    {
        var random = SeededRandom(seed: seed)
        for count in [random.below(4), random.below(70), 512, random.below(3_000)] {
            var content = BlockContent(seed: &random, rowCount: count)
            // Some have many rows, some one.
            for row in content.rows.indices { content.rows[row].key = UInt32(random.below(5)) }
            if let last = content.rows.indices.last { content.rows[last].key = 5 }
            for wanted in UInt32(0)...6 {
                let all = BlockRows(content.rows)
                let found = all.rows(ofKey: wanted)
                #expect(found == content.rows.indices.filter { content.rows[$0].key == wanted })
                all.keep(found)
                #expect(all.rowCount == found.count)
                var money = 0
                for (place, row) in found.enumerated() {
                    let expected = content.rows[row]
                    #expect(all.key[place] == 0 && all.day[place] == expected.day)
                    #expect(all.attributes[place] == expected.attributes.rawValue)
                    guard let amounts = expected.money else { continue }
                    #expect(
                        all.revenue[money] == amounts.revenue && all.spend[money] == amounts.spend)
                    money += 1
                }
                #expect(all.moneyCount == money)
            }
        }
    }
}
