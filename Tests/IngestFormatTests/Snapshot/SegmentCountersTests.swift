import IngestCounting
import IngestFormat
import TestSupport
import Testing

struct SegmentCountersTests {
    private static func fold(_ rows: [Row]) throws -> CounterModel {
        let counters = SegmentCounters()
        #expect(counters.fold(BlockRows(rows)) == .folded)
        return try CounterModel(counters.makeCursor())
    }

    /// One row of every type, verdict and combination of the bits that matter.
    private static let everyKindOfRow: [Row] = {
        var rows: [Row] = []
        for type in EventType.allCases {
            for verdict in Verdict.allCases where verdict != .malformed {
                for bits in 0..<256 {
                    var row = Row(key: UInt32(rows.count % 7), day: 100, type: type)
                    row.verdict = verdict
                    row.consent = bits % 2 == 0 ? .notSet : .optIn
                    row.format = AdFormat.allCases[bits % 3]
                    row.session = bits & 1 != 0 ? 1 : nil
                    row.bits |= bits & 32 != 0 ? RowAttributes.orphan : 0
                    row.rewardHash = bits & 64 != 0 ? 1 : nil
                    row.bits |= bits & 128 != 0 ? RowAttributes.unchecked : 0
                    row.eventHash = bits & 4 != 0 ? 1 : nil
                    row.viewability = bits & 8 != 0 ? .init(visible: 1, duration: 1) : nil
                    row.money = bits & 16 != 0 ? .init(revenue: 3, spend: 5) : nil
                    rows.append(row)
                }
            }
        }
        return rows
    }()

    @Test func `every kind of row adds what the model says, alone`() throws {
        let counters = SegmentCounters()
        for row in Self.everyKindOfRow {
            counters.removeAll()
            #expect(counters.fold(BlockRows([row])) == .folded)
            var model = CounterModel()
            model.add([row])
            #expect(try CounterModel(counters.makeCursor()) == model, "\(row)")
        }
    }

    @Test func `every row is in exactly one of the disjoint outcomes`() throws {
        let apart: Set<CounterColumn> = [
            .viewableImpressions, .undeterminedImpressions, .uncheckedEvents, .orphanClicks,
            .orphanRedemptions, .overflowEvents,
        ]
        for row in Self.everyKindOfRow {
            let columns = CountingRule.columns(of: row.attributes)
            #expect(columns.filter { !apart.contains($0) }.count == 1, "\(row)")
        }
    }

    @Test(arguments: [1, 2, 3])
    func `folded blocks are what the model counts`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let counters = SegmentCounters()
        var model = CounterModel()
        let generator = RowGenerator(
            keyCount: seed == 3 ? 5_000 : 40, days: seed == 2 ? -40...40 : 20_000...20_001)
        for count in [0, 1, 7, 3_000, 20_000, 64] {
            let rows = generator.rows(count, &random)
            #expect(counters.fold(BlockRows(rows)) == .folded)
            model.add(rows)
            #expect(try CounterModel(counters.makeCursor()) == model)
        }
        #expect(counters.rowCount == 23_072)
    }

    @Test func `a full block of one key and its coded table agree with the model`() throws {
        let rows = [Row](repeating: Row(key: 3, day: -5), count: BlockRows.capacity)
        let counters = SegmentCounters()
        #expect(counters.fold(BlockRows(rows)) == .folded)
        #expect(counters.fold(BlockRows(rows)) == .folded)
        var model = CounterModel()
        model.add(rows + rows)
        #expect(try CounterModel(counters.encodeTable().makeCursor()) == model)
    }

    /// More than 16 bits count.
    @Test func `a full block of rows with money is tallied to its last row`() throws {
        let rows = [Row](
            repeating: Row(
                key: 3, day: 2, type: .redemption, money: .init(revenue: 5, spend: 1 << 40)),
            count: BlockRows.capacity)
        var model = CounterModel()
        model.add(rows)
        #expect(try Self.fold(rows) == model)
    }

    @Test func `a key of thousands of days keeps them apart and in order`() throws {
        var random = SeededRandom(seed: 5)
        let days = (Int32(-3_000)..<3_000).shuffled(using: &random)
        let rows = (days + days.shuffled(using: &random)).flatMap { day in
            [Row(key: 9, day: day), Row(key: UInt32(abs(day) % 3), day: day, type: .click)]
        }
        var model = CounterModel()
        model.add(rows)
        #expect(try Self.fold(rows) == model)
    }

    @Test func `days at the ends of their range are in order`() throws {
        let rows = [Int32.max, 0, .min, -1, 1].map { Row(key: 1, day: $0) }
        let model = try Self.fold(rows)
        #expect(model.sorted.map(\.place.day) == [.min, -1, 0, 1, .max])
    }

    @Test func `an accumulator that was emptied counts like a new one`() throws {
        var random = SeededRandom(seed: 6)
        let reused = SegmentCounters()
        for keyCount in [3_000, 20, 100_000] {
            let rows = RowGenerator(keyCount: keyCount, days: 0...4).rows(9_000, &random)
            reused.removeAll()
            #expect(reused.rowCount == 0)
            #expect(reused.fold(BlockRows(rows)) == .folded)
            var model = CounterModel()
            model.add(rows)
            #expect(try CounterModel(reused.makeCursor()) == model)
        }
    }

    /// Lanes are of a byte and full with 128.
    @Test(arguments: [127, 128, 129, 255, 256, 257, 1_000])
    func `no counter ends with what its lane holds`(count: Int) throws {
        let kinds = [
            Row(key: 1, day: 7), Row(key: 1, day: 7, type: .click),
            Row(key: 1, day: 7, verdict: .duplicate), Row(key: 1, day: 7, verdict: .conflict),
            Row(key: 1, day: 7, type: .redemption, money: .init(revenue: 3, spend: 2)),
        ]
        for kind in kinds {
            let rows =
                [Row](repeating: kind, count: count) + kinds + [Row(key: 0, day: 7)]
                + [Row](repeating: Row(key: 2, day: 7, type: .click), count: count - 1)
            var model = CounterModel()
            model.add(rows)
            #expect(try Self.fold(rows) == model)
        }
    }

    /// The day of the lanes is that of the first block: later ones are of other days, alone and mixed.
    @Test func `rows of any day are counted on it whichever came first`() throws {
        var random = SeededRandom(seed: 8)
        let counters = SegmentCounters()
        for _ in 0..<2 {
            var model = CounterModel()
            for days in [50...50, 51...51, 49...51, 50...50, 48...52] as [ClosedRange<Int32>] {
                let rows = RowGenerator(keyCount: 300, days: days).rows(4_000, &random)
                #expect(counters.fold(BlockRows(rows)) == .folded)
                model.add(rows)
                #expect(try CounterModel(counters.makeCursor()) == model)
                #expect(try CounterModel(counters.encodeTable().makeCursor()) == model)
            }
            counters.removeAll()
        }
    }

    /// Large memory is mapped, grows by moving, and is not cleared where it was never used.
    @Test func `keys far apart are counted, and nothing of them is left when all is forgotten`()
        throws
    {
        let counters = SegmentCounters()
        let keys: [UInt32] = [0, 1, 5_000, 300_000, 600_000, 2_500_000]
        for last in [3, 6, 2, 5, 6] {
            counters.removeAll()
            var model = CounterModel()
            for key in keys.prefix(last) {
                let rows = [
                    Row(key: key, day: 3), Row(key: key, day: 3, type: .click),
                    Row(key: key / 2, day: 4, type: .redemption),
                ]
                #expect(counters.fold(BlockRows(rows)) == .folded)
                model.add(rows)
            }
            #expect(try CounterModel(counters.makeCursor()) == model)
        }
    }

    /// A block that is good but for one thing, and what the fold says to it.
    private static let refusals:
        [(String, SegmentCounters.FoldOutcome, @Sendable (BlockRows) -> Void)] =
            [
                ("type 0", .invalidRow, { $0.attributes[1] &= ~3 }),
                ("verdict malformed", .invalidRow, { $0.attributes[1] = 12 << 2 | 1 }),
                ("verdict 15", .invalidRow, { $0.attributes[1] = 15 << 2 | 1 }),
                ("format 3", .invalidRow, { $0.attributes[1] |= 3 << 11 }),
                ("money without a row", .invalidRow, { $0.mark.money += 1 }),
                ("a row without money", .invalidRow, { $0.mark.money -= 1 }),
                ("revenue below 0", .invalidRow, { $0.revenue[0] = -1 }),
                ("spend below 0", .invalidRow, { $0.spend[0] = .min }),
                ("key too great", .keyBeyondLimit, { $0.key[1] = UInt32(Limits.keyCountMax) }),
                ("greatest key", .keyBeyondLimit, { $0.key[1] = .max }),
                (
                    "revenue sums", .moneyOverflow,
                    { for i in 0..<3 { $0.revenue[i] = .max } }
                ),
                ("spend sums", .moneyOverflow, { for i in 0..<3 { $0.spend[i] = .max } }),
            ]

    @Test(arguments: Self.refusals.indices)
    func `a block that cannot be is refused whole`(index: Int) throws {
        let (name, expected, damage) = Self.refusals[index]
        let good = (0..<4).map {
            Row(key: UInt32($0), day: 1, money: .init(revenue: 10, spend: 20))
        }
        let counters = SegmentCounters()
        #expect(counters.fold(BlockRows(good)) == .folded)
        let before = try CounterModel(counters.makeCursor())
        let bad = BlockRows(good)
        damage(bad)
        #expect(counters.fold(bad) == expected, "\(name)")
        #expect(try CounterModel(counters.makeCursor()) == before)
        #expect(counters.rowCount == 4)
        #expect(counters.fold(BlockRows(good)) == .folded)
    }

    @Test func `money is summed up to the last bit and refused after it`() throws {
        let counters = SegmentCounters()
        let most = Row(key: 0, day: 0, money: .init(revenue: .max, spend: 0))
        let one = Row(key: 1, day: 0, money: .init(revenue: 1, spend: 0))
        #expect(counters.fold(BlockRows([most, most, one])) == .folded)
        #expect(counters.fold(BlockRows([one])) == .moneyOverflow)
        let model = try CounterModel(counters.makeCursor())
        #expect(
            model.rows[.init(key: 0, day: 0)]?[CounterColumn.revenueMicros.rawValue] == UInt64.max
                - 1)
    }

    @Test func `money of rows that do not count is passed over, not summed`() throws {
        let refused = Row(
            key: 0, day: 0, verdict: .duplicate, money: .init(revenue: 5, spend: 5))
        let counted = Row(key: 0, day: 0, money: .init(revenue: 7, spend: 9))
        var model = CounterModel()
        model.add([refused, counted, refused])
        #expect(try Self.fold([refused, counted, refused]) == model)
    }
}
