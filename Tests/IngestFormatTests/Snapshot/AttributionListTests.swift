import IngestCounting
import IngestFormat
import TestSupport
import Testing

struct AttributionListTests {
    private static func list(_ entries: [(UInt32, UInt32, UInt32)]) -> AttributionList {
        AttributionList(
            sorted: entries.map { Attribution(key: $0.0, campaign: $0.1, source: $0.2) })
    }

    private static let other = Attribution.other

    /// A footer whose attributions are these, of keys 4..<8 and names 11..<18.
    private static func footer(_ list: AttributionList) -> SegmentFooter {
        var footer = SegmentExample.footer
        footer.attributions = list
        return footer
    }

    private static func decode(_ footer: SegmentFooter) throws -> SegmentFooter {
        let (bytes, trailer) = footer.encode(at: SegmentExample.footerOffset)
        return try SegmentFooter.decode(
            Array(bytes.dropLast(SegmentTrailer.byteCount)), trailer: trailer)
    }

    @Test func `attributions of a footer come back, none, other and the last ordinals too`() throws
    {
        let lists: [[(UInt32, UInt32, UInt32)]] = [
            [], [(0, 0, 1)], [(0, 1, 0)],
            [(0, 0, 17), (0, 3, 0), (0, 3, Self.other), (0, 17, 17), (5, 0, 1), (7, 1, 1)],
            [(7, Self.other, 0), (7, Self.other, 17), (7, Self.other, Self.other)],
        ]
        for entries in lists {
            let footer = Self.footer(Self.list(entries))
            #expect(try Self.decode(footer) == footer)
        }
    }

    @Test(
        arguments: [
            ("an attribution of nothing", [(0, 0, 0)]), ("twice", [(3, 1, 1), (3, 1, 1)]),
            ("sources out of order", [(3, 1, 2), (3, 1, 1)]),
            ("campaigns out of order", [(3, 2, 1), (3, 1, 1)]),
            ("a key that was not given", [(8, 1, 1)]),
            ("a campaign that was not given", [(3, 18, 1)]),
            ("a source that was not given", [(3, 1, 18)]),
            ("the ordinal before other", [(3, 1, .max - 1)]),
        ] as [(String, [(UInt32, UInt32, UInt32)])])
    func `what no footer has is refused`(name: String, entries: [(UInt32, UInt32, UInt32)]) {
        let error = Damage.error { _ = try Self.decode(Self.footer(Self.list(entries))) }
        #expect(error?.summary.hasPrefix("corrupt attributions") == true, "\(name)")
    }

    @Test func `a reward-days run and an expired one have theirs beside the rest`() throws {
        let list = Self.list([(0, 1, 0), (0, 2, Self.other), (9, 0, 1)])
        var sealed = SealedSegments()
        sealed.attributions = list
        #expect(try SealedSegments.decode(sealed.encode(), of: GoldenFiles.span) == sealed)
        for cut in 1...3 {
            let bytes = Array(sealed.encode().dropLast(cut))
            #expect(
                Damage.error { _ = try SealedSegments.decode(bytes, of: GoldenFiles.span) } != nil)
        }
        var footer = SegmentExample.footer
        footer.keys = 4..<10
        var expired = ExpiredSegments(
            footer, from: footer.segment, nextCommitEpoch: footer.commitEpoch + 1)
        expired.ledger = SegmentExample.ledger
        expired.attributions = list
        #expect(try ExpiredSegments.decode(expired.encode(), of: expired.span) == expired)
    }

    @Test(arguments: 1...40)
    func `merged lists have each attribution once, and places lead to it`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let lists = (0..<Int(random.below(7))).map { _ in
            Set(
                (0..<Int(random.below(60))).map { _ in
                    Attribution(
                        key: UInt32(random.below(5)), campaign: 1 + UInt32(random.below(4)),
                        source: UInt32(random.below(5)))
                }
            ).sorted()
        }
        let (all, places) = AttributionList.merged(lists.map { AttributionList(sorted: $0) })
        #expect(all.entries == Set(lists.flatMap { $0 }).sorted())
        #expect(places.count == lists.count)
        for (list, places) in zip(lists, places) {
            #expect(places.map { all.entries[Int($0)] } == list)
        }
        for key in 0..<UInt32(6) {
            let found = all.places(ofKeys: key...key)
            #expect(all.entries[found].elementsEqual(all.entries.filter { $0.key == key }))
        }
        #expect(all.places(ofKeys: 0...UInt32.max) == all.entries.indices)
    }

    // MARK: Folding

    private static func rows(
        _ count: Int, attributed: UInt64, days: ClosedRange<Int32>, _ random: inout SeededRandom
    ) -> [Row] {
        RowGenerator(keyCount: 30, days: days).rows(count, &random).map { row in
            var row = row
            let names = [0, 1, 2, 900, Self.other]
            if random.below(100) < attributed {
                row.campaign = names[Int(random.below(5))]
                row.source = names[Int(random.below(5))]
            }
            return row
        }
    }

    /// Attributed rows by attribution and day.
    private static func found(
        _ table: CounterTable, _ list: AttributionList
    ) throws -> [Attribution: CounterModel] {
        let keys = CounterKeys.firstAttributed...UInt32.max
        var found: [Attribution: CounterModel] = [:]
        for (place, counters) in try CounterModel(table.makeCursor(keys: keys)).rows {
            let entry = list.entries[Int(place.key - CounterKeys.firstAttributed)]
            found[entry, default: CounterModel()].add(
                counters, .init(key: entry.key, day: place.day))
        }
        return found
    }

    private static func model(_ rows: [Row]) -> [Attribution: CounterModel] {
        var model: [Attribution: CounterModel] = [:]
        for row in rows where row.campaign | row.source != 0 {
            let its = Attribution(key: row.key, campaign: row.campaign, source: row.source)
            model[its, default: CounterModel()].add([row])
        }
        return model
    }

    @Test(arguments: 1...6)
    func `rows with a campaign or a source are counted under both, and keys as ever`(
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed)
        let counters = SegmentCounters()
        for round in 0..<2 {
            var all: [Row] = []
            for (count, share) in [(700, 0), (3_000, 40), (1, 100), (5_000, 7), (200, 100)] {
                let rows = Self.rows(
                    count, attributed: UInt64(share), days: seed < 4 ? 5...6 : -30...2_000, &random)
                #expect(counters.fold(BlockRows(rows)) == .folded)
                all += rows
            }
            let (table, list) = counters.encodeTableAndAttributions()
            let model = Self.model(all)
            #expect(list.entries == model.keys.sorted(), "round \(round)")
            #expect(try Self.found(table, list) == model)
            var keys = CounterModel()
            keys.add(all)
            #expect(try CounterModel(table.makeCursor(keys: CounterKeys.rewards)) == keys)
            #expect(counters.encodeTable().rowCount == keys.rows.count)
            counters.removeAll()
        }
    }

    @Test func `one attribution with more days than a page has rows is in order`() throws {
        var random = SeededRandom(seed: 3)
        let days = (Int32(0)..<3_000).shuffled(using: &random)
        let rows = days.flatMap { day in
            (1...2).map { Row(key: 4, day: day, campaign: $0) }
        }
        let counters = SegmentCounters()
        #expect(counters.fold(BlockRows(rows)) == .folded)
        let (table, list) = counters.encodeTableAndAttributions()
        #expect(try Self.found(table, list) == Self.model(rows))
    }

    @Test func `a block that says that it has no attribution is not looked at for it`() throws {
        let counters = SegmentCounters()
        let rows = BlockRows([Row(key: 1, day: 2)])
        (rows.campaign[0], rows.source[0]) = (77, 78)
        #expect(counters.fold(rows) == .folded)
        let (table, list) = counters.encodeTableAndAttributions()
        #expect(list.count == 0 && table.rowCount == 1)
    }
}
