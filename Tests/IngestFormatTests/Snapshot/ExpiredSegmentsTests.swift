import IngestCounting
import IngestFormat
import TestSupport
import Testing

/// What expired runs say of their segments, and what several stretches are together.
struct ExpiredSegmentsTests {
    private static let layout = ExpiredSegments.layout

    private static func segments(
        _ numbers: ClosedRange<UInt32>, rows: UInt64 = 5
    ) -> ExpiredSegments {
        var footer = SegmentExample.footer
        footer.segment = SegmentNumber(rawValue: numbers.upperBound)
        footer.rowCount = rows
        if rows == 0 { (footer.minTimestamp, footer.maxTimestamp) = (0, 0) }
        var found = ExpiredSegments(
            footer, from: SegmentNumber(rawValue: numbers.lowerBound),
            nextCommitEpoch: footer.commitEpoch + 2)
        found.uncleanStops = [
            UncleanStop(
                foundAt: SegmentExample.time,
                position: ManifestExample.position(numbers.lowerBound - 1, 2))
        ]
        return found
    }

    private static func file(_ segments: ExpiredSegments) -> Run {
        let metadata = RunMetadata(segments.encode())
        let table = SegmentExample.counters
        return Run(
            header: RunHeader(
                table: .expired, fileNumber: FileNumber(rawValue: 30),
                directory: SegmentExample.directory, span: segments.span,
                generation: Generation(rawValue: 12), createdAt: SegmentExample.time,
                index: table.index, metadata: metadata), counters: table, metadata: metadata.bytes)
    }

    private static let example: ExpiredSegments = {
        var example = segments(3...7)
        example.ledger = sum(SegmentExample.ledger).entries
        return example
    }()

    /// All that a reader checks.
    @discardableResult
    private static func read(_ bytes: [UInt8]) throws -> ExpiredSegments {
        let run = try Run.decode(bytes)
        _ = try CounterModel(run.counters.makeCursor())
        return try ExpiredSegments.decode(
            run.header.decodeMetadata(run.metadata), of: run.header.span)
    }

    @Test func `they come back as they were written`() throws {
        let bytes = Self.file(Self.example).encode()
        #expect(try Self.read(bytes) == Self.example)
        #expect(Self.example.missingCount == 4 && Self.example.lost == SegmentExample.footer.lost)
        // Without rows and senders, too, and where LZ4 saves something.
        let empty = Self.segments(1...1, rows: 0)
        #expect(try Self.read(Self.file(empty).encode()) == empty)
        var long = Self.example
        long.ledger = (1...200).map { Self.sender($0) }
        #expect(RunMetadata(long.encode()).bytes.count < long.encode().count)
        #expect(try Self.read(Self.file(long).encode()) == long)
    }

    @Test func `every flipped bit and every cut is seen`() {
        let bytes = Self.file(Self.example).encode()
        #expect(Damage.unseenFlips(bytes) { _ = try Self.read($0) } == [])
        #expect(Damage.unseenCuts(bytes) { _ = try Self.read($0) } == [])
    }

    @Test(arguments: [
        (layout.nextName, 0, "corrupt next name"),
        (layout.nextKey, 1 << 30, "corrupt next key"),
        (layout.missingCount, 5, "corrupt missing count"),
        (layout.expiredRowCount, 0, "corrupt max timestamp"),
        (layout.minTimestamp, UInt64(Int64.max), "corrupt max timestamp"),
        (layout.lostRangeCount, UInt64(UInt32.max), "corrupt lost range count"),
        (layout.uncleanStopCount, UInt64(UInt32.max), "corrupt unclean stop count"),
        (layout.ledgerEntryCount, UInt64(UInt32.max), "corrupt ledger entry count"),
        (layout.attributionCount, 1, "corrupt attributions: attribution count"),
    ])
    func `a field that cannot be is refused`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let bytes = Self.example.encode().with(field, value)
        let error = Damage.error {
            _ = try ExpiredSegments.decode(bytes, of: Self.example.span)
        }
        #expect(error?.summary == expected)
    }

    @Test func `random damage never traps`() {
        var random = SeededRandom(seed: 5)
        let bytes = Self.example.encode()
        for _ in 0..<5_000 {
            var damaged = bytes
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                damaged[place] = UInt8.random(in: 0...255, using: &random)
            }
            damaged.removeLast(Int.random(in: 0...4, using: &random))
            _ = Damage.error { _ = try ExpiredSegments.decode(damaged, of: Self.example.span) }
        }
    }

    @Test func `two stretches are one where they touch`() throws {
        let (first, second) = (Self.segments(1...3), Self.segments(4...9, rows: 0))
        let joined = try #require(first.joined(with: second))
        #expect(joined.span == ManifestExample.span(1, 9))
        #expect(joined.missingCount == 7 && joined.rowCount == 5)
        #expect(joined.minTimestamp == first.minTimestamp)
        #expect(joined.maxTimestamp == first.maxTimestamp)
        #expect(joined.nextName == second.nextName)
        #expect(joined.lost == first.lost + second.lost)
        #expect(joined.uncleanStops == first.uncleanStops + second.uncleanStops)
        #expect(second.joined(with: first) == nil)
        #expect(first.joined(with: Self.segments(5...5)) == nil)
        var huge = second
        huge.rowCount = .max
        #expect(first.joined(with: huge) == nil)
        // As many stops as a reader takes: the first and the newest.
        var many = second
        many.uncleanStops = (0..<Int64(Limits.manifestUncleanStopCountMax)).map {
            UncleanStop(foundAt: $0, position: ManifestExample.position(5, 2))
        }
        var all = try #require(first.joined(with: many))
        all.lost = []
        #expect(all.uncleanStops.count == Limits.manifestUncleanStopCountMax)
        #expect(all.uncleanStops.first == first.uncleanStops.first)
        #expect(all.uncleanStops.last == many.uncleanStops.last)
        #expect(try ExpiredSegments.decode(all.encode(), of: all.span) == all)
    }

    // MARK: Ledger

    /// - Parameter epoch: the sender's number too.
    private static func sender(_ epoch: UInt64, ranges: Int = 1) -> LedgerEntry {
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: epoch),
                epoch: SenderEpoch(rawValue: epoch)))
        entry.packets[0] = epoch
        entry.events[0] = 2 * epoch
        entry.sequences = (0..<UInt64(ranges)).map { 3 * $0...3 * $0 }
        return entry
    }

    private static func sum(_ entries: [LedgerEntry]) -> LedgerSum {
        var sum = LedgerSum()
        sum.add(entries)
        return sum
    }

    @Test func `a ledger has as many senders as fit, and the sums of all`() throws {
        let all = (1...25).map { Self.sender($0) } + [LedgerEntry(key: .plain)]
        #expect(Self.sum(all).entries(countMax: 26, rangeCountMax: 25).count == 26)
        let found = Self.sum(all).entries(countMax: 20, rangeCountMax: 25)
        #expect(found.count == 20)
        // Those of the oldest epochs make room for `plain` and for what they are folded into.
        let others = try #require(found.first { $0.key == .others })
        #expect(others.events[0] == 2 * (1...7).reduce(0, +) && others.sequences.isEmpty)
        #expect(!found.contains { $0.key == Self.sender(7).key })
        #expect(found.contains(Self.sender(8)))
        let more = found + [Self.sender(1), Self.sender(26)]
        let later = Self.sum(more).entries(countMax: 20, rangeCountMax: 25)
        #expect(later.count == 20)
        let packetCount = later.reduce(UInt64(0)) { $0 + $1.packets[0] }
        #expect(packetCount == UInt64((1...26).reduce(0, +)) + 1)
        #expect(later == later.sorted { $0.key < $1.key })
    }

    @Test func `a ledger has as many ranges of sequences as fit, of the newest epochs`() {
        let all = [Self.sender(1), Self.sender(2, ranges: 11), Self.sender(3, ranges: 10)]
        #expect(Self.sum(all).entries(countMax: 20, rangeCountMax: 22).count == 3)
        let found = Self.sum(all).entries(countMax: 20, rangeCountMax: 20)
        #expect(found.map(\.key) == [.others, Self.sender(3).key])
        #expect(found[0].packets[0] == 3 && found[1].sequences.count == 10)
    }
}
