import IngestCounting
import IngestFormat
import TestSupport
import Testing

/// The windows as a footer holds them, and as ledgers make them again.
@Suite("Sender windows in the log")
struct SenderWindowsTests {
    private static func key(_ sender: UInt64, epoch: UInt64 = 1) -> SenderKey {
        SenderKey(
            kind: .framed, sender: SenderID(rawValue: sender), epoch: SenderEpoch(rawValue: epoch))
    }

    private static func entry(
        _ key: SenderKey, _ ranges: [ClosedRange<UInt64>] = [],
        _ change: (inout WindowDelta) -> Void = { _ in }
    ) -> LedgerEntry {
        var entry = LedgerEntry(key: key)
        entry.sequences = ranges
        change(&entry.window)
        return entry
    }

    private static func encoded(_ windows: SenderWindows) -> [UInt8] {
        var writer = ByteWriter()
        windows.encode(into: &writer)
        return writer.bytes
    }

    /// Windows of every kind: empty, with holes, with missing ranges, far along, expired.
    private static func example(seed: UInt64) -> SenderWindows {
        var random = SeededRandom(seed: seed)
        var windows = SenderWindows()
        for sender in 1...40 as ClosedRange<UInt64> {
            var ranges: [ClosedRange<UInt64>] = []
            let start = sender % 3 == 0 ? Limits.sequenceMax - 70_000 : sender * 1_000
            var next = start + UInt64(random.below(3))
            for _ in 0..<random.below(60) {
                let end = next + UInt64(random.below(40))
                ranges.append(next...end)
                next = end + 2 + UInt64(random.below(30))
            }
            windows.apply(
                [
                    entry(key(sender, epoch: sender % 5 + 1), ranges) {
                        $0.start = start
                        $0.asksForAcks = [nil, true, false][random.below(3)]
                        if sender % 4 == 0 { $0.announced = next + 9 }
                        if sender % 2 == 0 { $0.floor = start + UInt64(random.below(900)) }
                    }
                ], at: Int64(sender) - 9)
        }
        for sender in 1...9 as ClosedRange<UInt64> {
            windows.apply(
                [entry(key(sender, epoch: sender % 5 + 1)) { $0.isExpired = true }], at: 5)
        }
        return windows
    }

    @Test("windows come back as they were", arguments: 1...20 as ClosedRange<UInt64>)
    func roundTrip(seed: UInt64) throws {
        let windows = Self.example(seed: seed)
        let bytes = Self.encoded(windows)
        #expect(try SenderWindows.decode(bytes) == windows)
        #expect(windows.open.values.allSatisfy { PacketBalance($0).isKept })
        #expect(try Self.encoded(SenderWindows.decode(bytes)) == bytes)
    }

    @Test("bytes that no encoder makes are refused or read, and never trap")
    func hostile() {
        let bytes = Self.encoded(Self.example(seed: 3))
        var random = SeededRandom(seed: 4)
        for _ in 0..<4_000 {
            var damaged = bytes
            for _ in 0...random.below(3) {
                damaged[random.below(damaged.count)] = UInt8(truncatingIfNeeded: random.next())
            }
            if random.below(4) == 0 { damaged.removeLast(random.below(damaged.count)) }
            guard let windows = try? SenderWindows.decode(damaged) else { continue }
            #expect(windows.open.values.allSatisfy { PacketBalance($0).isKept })
        }
        for count in 0..<bytes.count {
            #expect(throws: FormatError.self) {
                _ = try SenderWindows.decode(Array(bytes[..<count]))
            }
        }
    }

    @Test("the sums of a segment make the same windows as its blocks")
    func sums() {
        var random = SeededRandom(seed: 8)
        var byBlock = SenderWindows()
        var sum = LedgerSum()
        for block in 0..<50 as Range<UInt64> {
            let first = block * 10 + UInt64(random.below(3))
            let entry = Self.entry(Self.key(1), [first...first + 6]) {
                if block == 0 { $0.start = 0 }
                if block % 7 == 6 { $0.floor = block * 10 - 20 }
            }
            byBlock.apply([entry], at: Int64(block))
            sum.add([entry], at: Int64(block))
        }
        var bySum = SenderWindows()
        bySum.apply(sum.entries)
        #expect(bySum == byBlock)
        #expect(bySum.open[Self.key(1)]?.sequences.missingCount ?? 0 > 0)
    }

    @Test("of expired epochs the oldest fold into one for all unknown senders")
    func expiredEpochs() {
        var expired = ExpiredEpochs()
        for sender in 1...UInt64(Limits.expiredEpochCountMax) {
            expired.add(Self.key(sender, epoch: sender + 100))
        }
        #expect(expired.watermark == 0)
        #expect(!expired.contains(Self.key(1 << 40, epoch: 1)))
        #expect(
            expired.contains(Self.key(5, epoch: 105)) && !expired.contains(Self.key(5, epoch: 106)))
        expired.add(Self.key(1 << 30, epoch: 99))
        #expect(expired.epochs.count <= Limits.expiredEpochCountMax)
        #expect(expired.watermark > 100)
        #expect(expired.contains(Self.key(1 << 40, epoch: expired.watermark)))
        #expect(!expired.contains(Self.key(1 << 40, epoch: expired.watermark + 1)))
        #expect(expired.contains(Self.key(5, epoch: 105)))
    }
}
