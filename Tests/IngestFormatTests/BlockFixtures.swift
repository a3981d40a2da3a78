import TestSupport

@testable import IngestFormat

/// All that goes into a block, as values.
struct BlockContent: Equatable {
    var rows: [Row] = []
    var names: [String] = []
    var keys: [RewardKey] = []
    var ledger: [LedgerEntry] = []
    /// Of a rewritten block.
    var commits = BlockCommits()
    var context = BlockContext.example

    var newNames: NewNames {
        var list = NewNames()
        for name in names { list.append(Array(name.utf8).span.bytes) }
        return list
    }

    func encoded(by encoder: BlockEncoder = BlockEncoder()) -> [UInt8] {
        let buffer = BlockBuffer()
        _ = encoder.encode(
            rows: BlockRows(rows), names: newNames, keys: keys, ledger: ledger, context: context,
            commits: commits, into: buffer)
        return buffer.copy
    }

    init() {}

    init(_ block: DecodedBlock, _ rows: BlockRows) {
        self.rows = rows.values
        names = (0..<block.names.count).map {
            String(decoding: block.names.name($0), as: UTF8.self)
        }
        keys = block.keys
        ledger = block.ledger
        context = block.header.context
        if context.rewritten != nil { commits = block.commits }
    }
}

extension BlockContext {
    static let example = BlockContext(
        directory: DirectoryID(rawValue: 0x0123_4567_89ab_cdef), shard: 1,
        segment: SegmentNumber(rawValue: 7), blockOrdinal: 3, commitEpoch: 1_000_001,
        previousChecksum: 0xdead_beef, admissionTime: 1_795_000_000_123_456, policyVersion: 2,
        zoneVersion: 0x5a6f_6e65, firstName: NameOrdinal(rawValue: 1),
        firstKey: KeyOrdinal(rawValue: 0))
}

extension BlockDecoder {
    func decode(
        _ bytes: [UInt8], at place: BlockPlace = .anywhere, wanted: BlockSections = .all,
        into rows: BlockRows = BlockRows()
    ) throws(FormatError) -> BlockContent {
        BlockContent(try decode(bytes.span.bytes, at: place, wanted: wanted, into: rows), rows)
    }
}

extension BlockContent {
    /// The worked example of docs/format/block.md. No section of it is long enough for LZ4, so that its
    /// bytes are the same with every version of that library.
    static var example: BlockContent {
        let noon: Int64 = 1_795_176_000_000_000  // 2026-11-20T12:00:00Z
        var content = BlockContent()
        content.names = ["r-1", "b-1", "iOS"]
        content.keys = [
            RewardKey(reward: NameOrdinal(rawValue: 1), business: NameOrdinal(rawValue: 2))
        ]
        content.rows = [
            Row(
                timestamp: noon, day: 20_777, platform: 3, eventHash: 0x1111_2222_3333_4444,
                viewability: .init(visible: 750_000, duration: 1000)),
            Row(timestamp: noon + 4000, day: 20_777, consent: .notSet, platform: 3),
            Row(
                timestamp: noon + 1500, day: 20_777, type: .click,
                eventHash: 0x5555_6666_7777_8888),
            Row(
                timestamp: noon - 1000, day: 20_777, type: .redemption, platform: 3,
                eventHash: 0x9999_aaaa_bbbb_cccc, money: .init(revenue: 12_500_000, spend: 0)),
        ]
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 42),
                epoch: SenderEpoch(rawValue: 1_795_176_000_000 << 20 | 7)))
        entry.packets[Int(PacketResult.accepted.rawValue)] = 2
        entry.events[Int(Verdict.counted.rawValue)] = 4
        entry.sequences = [0...1]
        entry.window.start = 0
        entry.window.asksForAcks = true
        content.ledger = [entry]
        content.context.previousChecksum = 0
        content.context.admissionTime = noon + 5000
        return content
    }

    /// Random content that a block may have, each column of a shape of its own.
    init(seed random: inout SeededRandom, rowCount: Int) {
        names = (0..<random.below(40)).map { _ in
            String(String(random.next(), radix: 36).prefix(1 + random.below(12)))
        }
        context.firstName = NameOrdinal(rawValue: 1 + UInt32(random.below(100_000)))
        context.firstKey = KeyOrdinal(rawValue: 1 + UInt32(random.below(100_000)))
        context.commitEpoch = random.next()
        context.admissionTime = Int64(bitPattern: random.next())
        let nextName = Int64(context.firstName.rawValue) + Int64(names.count)
        let anyName = { (random: inout SeededRandom) in
            NameOrdinal(rawValue: 1 + UInt32(random.below(Int(nextName) - 1)))
        }
        if nextName > 1 {
            keys = (0..<random.below(40)).map { _ in
                RewardKey(reward: anyName(&random), business: anyName(&random))
            }
        }
        ledger = Array(LedgerEntry.examples.prefix(random.below(4)))
        let nextKey = Int64(context.firstKey.rawValue) + Int64(keys.count)

        func column(below bound: Int64) -> [Int64] {
            let shapes = ColumnShape.allCases
            return shapes[random.below(shapes.count)].values(count: rowCount, from: &random)
                .map { Int64(bitPattern: UInt64(bitPattern: $0) % UInt64(bound)) }
        }
        let (key, platform) = (column(below: nextKey), column(below: nextName))
        let (campaign, source) = (column(below: nextName), column(below: nextName))
        let timestamp = ColumnShape.allCases[random.below(ColumnShape.allCases.count)]
            .values(count: rowCount, from: &random)
        let (day, visible) = (column(below: 106_654), column(below: 1_000_001))
        let (duration, attributes) = (column(below: 1 << 32), column(below: 1 << 16))
        let revenue = column(below: Limits.moneyMicrosMax + 1)
        let spend = column(below: Limits.moneyMicrosMax + 1)
        let (hasIDs, hasCampaigns) = (!random.oneIn(5), random.oneIn(2))
        let hasSessions = random.oneIn(2)
        rows = (0..<rowCount).map { i in
            let bits = UInt16(attributes[i])
            return Row(
                key: UInt32(key[i]), timestamp: timestamp[i],
                day: Int32(day[i]) - 1,
                type: EventType(rawValue: UInt8(1 + bits % 3))!,
                verdict: Verdict(rawValue: UInt8(bits >> 2 & 15) % 12)!,
                consent: bits & 64 == 0 ? .notSet : .optIn,
                format: AdFormat(rawValue: UInt8(bits >> 8 & 3) % 3)!,
                bits: bits & Row.marks,
                platform: UInt32(platform[i]), campaign: hasCampaigns ? UInt32(campaign[i]) : 0,
                source: hasCampaigns ? UInt32(source[i]) : 0,
                eventHash: hasIDs && bits & RowAttributes.eventID == 0 ? random.next() : nil,
                session: hasSessions && bits & RowAttributes.session == 0
                    ? random.next() & 0xFFFF_FFFF_FFFF : nil,
                rewardHash: bits & RowAttributes.overflow == 0 ? nil : random.next(),
                viewability: bits & RowAttributes.measured == 0
                    ? .init(visible: UInt32(visible[i]), duration: UInt32(duration[i])) : nil,
                money: bits & RowAttributes.money == 0
                    ? .init(revenue: revenue[i], spend: spend[i]) : nil)
        }
        if random.oneIn(2) { rewrite(asCommits: 1 + random.below(300), from: &random) }
    }

    /// Makes it a rewritten block.
    mutating func rewrite(asCommits count: Int, from random: inout SeededRandom) {
        var left = rows.count
        for place in 0..<count {
            let own = place == count - 1 ? left : random.below(left + 1)
            left -= own
            commits.append(
                rowCount: own, admissionTime: context.admissionTime &+ Int64(place) * 33_000,
                policyVersion: context.policyVersion &+ UInt16(place / 100),
                zoneVersion: context.zoneVersion &+ UInt32(place / 50))
        }
        context.rewritten = RewrittenCommits(
            count: UInt32(count), lastAdmissionTime: commits.admissionTimes[count - 1],
            lastChecksum: UInt32(truncatingIfNeeded: random.next()))
    }

    /// The example, as if it had been three commits.
    static var rewritten: BlockContent {
        var (content, random) = (example, SeededRandom(seed: 3))
        content.rewrite(asCommits: 3, from: &random)
        return content
    }
}

extension LedgerEntry {
    /// Senders of several kinds, in order.
    static var examples: [LedgerEntry] {
        func framed(_ sender: UInt64, _ epoch: UInt64, _ ranges: [ClosedRange<UInt64>]) -> Self {
            var entry = LedgerEntry(
                key: SenderKey(
                    kind: .framed, sender: SenderID(rawValue: sender),
                    epoch: SenderEpoch(rawValue: epoch)))
            entry.packets[0] = UInt64(ranges.count)
            entry.events[0] = 300
            entry.sequences = ranges
            return entry
        }
        var moved = framed(1, 7, [4...4])
        (moved.window.start, moved.window.keyID) = (3, .max)
        moved.window.floor = 1 << 40
        moved.window.announced = Limits.sequenceMax + 1
        moved.window.missingCount = .max
        moved.window.asksForAcks = false
        moved.window.isExpired = true
        var checked = framed(1, 8, [2...4, 9...9])
        checked.checks = [1, .max, 0x8000, 300]
        var plain = LedgerEntry(key: .plain)
        plain.seen = Int64.min...(.max)
        plain.events = plain.events.indices.map { 1 << UInt64(5 * $0) }
        var unidentified = LedgerEntry(key: .unidentified)
        unidentified.packets = unidentified.packets.indices.map { UInt64.max >> UInt64($0) }
        return [
            framed(1, 5, [0...0]), framed(1, 6, [3...9, 11...11, 1_000_000...(1 << 40)]),
            moved, checked, framed(.max, .max, [(.max - 2)...(.max)]), plain, unidentified,
        ]
    }

    /// As many entries and ranges as a block may have, with the longest varints.
    static func largest() -> [LedgerEntry] {
        (0..<Limits.blockSenderCountMax).map { index in
            var entry = LedgerEntry(
                key: SenderKey(
                    kind: .framed, sender: SenderID(rawValue: UInt64(index)),
                    epoch: SenderEpoch(rawValue: .max)))
            entry.packets = entry.packets.map { _ in .max }
            entry.events = entry.events.map { _ in .max }
            entry.seen = Int64.min...(.max)
            entry.window.start = Limits.sequenceMax + 1
            entry.window.floor = Limits.sequenceMax + 1
            entry.window.announced = Limits.sequenceMax + 1
            entry.window.missingCount = .max
            let perEntry = Limits.blockSequenceRangeCountMax / Limits.blockSenderCountMax
            entry.sequences = (0..<UInt64(perEntry)).map { ($0 << 61)...($0 << 61) }
            entry.checks = Array(repeating: .max, count: perEntry)
            return entry
        }
    }
}

extension BlockContent {
    /// 400 rows that repeat themselves: LZ4 finds something in several sections.
    static var compressible: BlockContent {
        var content = BlockContent.example
        content.names = (1...30).map { "reward-\(1000 + $0)" }
        content.rows = (0..<400).map { i in
            var row = Row()
            row.timestamp = 1_795_176_000_000_000 + Int64(i) * 1000
            row.day = i < 399 ? 20_777 : 20_778
            row.type = i % 50 == 49 ? .click : .impression
            row.platform = UInt32(1 + i / 20)
            row.campaign = UInt32(1 + i % 16)
            return row
        }
        return content
    }
}
