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
            var entry = entry(key(sender, epoch: sender % 5 + 1), ranges) {
                ($0.start, $0.keyID) = (start, UInt16(sender % 3))
                $0.asksForAcks = [nil, true, false][random.below(3)]
                if sender % 4 == 0 { $0.announced = next + 9 }
                if sender % 2 == 0 { $0.floor = start + UInt64(random.below(900)) }
            }
            for _ in 0..<random.below(4) {
                entry.events[random.below(entry.events.count)] = random.next() >> 1
            }
            windows.apply([entry], at: Int64(sender) - 9)
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

    @Test("the golden section has a window with checks, and a tombstone of its key")
    func golden() throws {
        let bytes = try Repository.fixture("v1/windows.bin")
        func check(_ sequence: UInt64) -> UInt16 { UInt16(sequence * 257 + 1) }
        let ranges: [ClosedRange<UInt64>] = [5...14, 16...74]
        var opened = Self.entry(Self.key(77, epoch: 1 << 60), ranges) {
            ($0.start, $0.keyID, $0.asksForAcks) = (5, 3, true)
        }
        opened.checks = ranges.joined().map(check)
        var closed = Self.entry(Self.key(78, epoch: 9)) { $0.isExpired = true }
        closed.window.keyID = 3
        var windows = SenderWindows()
        windows.apply([opened, closed], at: 1_763_600_000_000_000)
        #expect(Self.encoded(windows) == bytes)
        let window = try #require(try SenderWindows.decode(bytes).open[opened.key])
        for sequence in ranges.joined() {
            #expect(!window.isConflict(sequence, check: check(sequence)))
            #expect(window.isConflict(sequence, check: check(sequence) ^ 1))
        }
        #expect(!window.isConflict(15, check: 1))
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
        // The last part may be left out.
        var wholes: [Int] = []
        for count in 0..<bytes.count {
            guard let windows = try? SenderWindows.decode(Array(bytes[..<count])) else { continue }
            wholes.append(count)
            #expect(windows.expired.ofKeys.keys.allSatisfy { $0 == 0 })
            #expect(Self.encoded(windows).count == count)
        }
        #expect(wholes.count == 1)
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

    @Test("so they do where a footer alone tells where windows begin")
    func sumsBehindAFooter() {
        let (early, late) = (Self.key(1), Self.key(2))
        var windows = SenderWindows()
        windows.apply(
            [
                Self.entry(early, [0...65_999, 66_001...70_000]) { ($0.start, $0.keyID) = (0, 3) },
                Self.entry(late, [5...6]) { $0.start = 5 },
            ], at: 1)
        // The hole is filled behind what came after it; and a heartbeat alone passes a packet that is missing.
        let blocks = [
            [Self.entry(early, [70_003...70_003]), Self.entry(late) { $0.floor = 9 }],
            [Self.entry(early, [66_000...66_000]), Self.entry(late, [10...11])],
            [
                Self.entry(early, [70_001...70_002]),
                Self.entry(Self.key(3), [0...4]) { $0.start = 0 },
            ],
        ]
        var footer = SegmentFooter(header: SegmentExample.header, headerChecksum: 5, sealedAt: 6)
        var sum = LedgerSum()
        for (time, block) in blocks.enumerated() {
            sum.add(block, at: Int64(time))
            windows.apply(block, at: Int64(time))
        }
        (footer.ledger, footer.windows) = (sum.entries, windows)
        var (byBlock, bySum) = (SenderWindows(before: footer), SenderWindows(before: footer))
        for (time, block) in blocks.enumerated() { byBlock.apply(block, at: Int64(time)) }
        bySum.apply(sum.entries)
        #expect(bySum == byBlock)
        #expect(byBlock.open[late]?.sequences.missingCount == 2 + 2)
        #expect(Set(byBlock.open.keys) == Set(windows.open.keys))
        #expect(byBlock.open[early]?.keyID == 3)
    }

    @Test("of the expired epochs of a key the oldest fold into one for all its unknown senders")
    func expiredEpochs() {
        var expired = ExpiredEpochs()
        func isExpired(_ sender: UInt64, _ epoch: UInt64, of keyID: UInt16 = 3) -> Bool {
            expired.contains(Self.key(sender, epoch: epoch), of: keyID)
        }
        for sender in 1...UInt64(Limits.expiredEpochOfKeyCountMax) {
            expired.add(Self.key(sender, epoch: sender + 100), of: 3)
        }
        #expect(expired.ofKeys[3]?.watermark == 0 && !isExpired(1 << 40, 1))
        #expect(isExpired(5, 105) && isExpired(5, 1) && !isExpired(5, 106))
        for sender in 10...12 as ClosedRange<UInt64> {
            expired.add(Self.key(1 << 30 + sender, epoch: 1 << 50), of: 3)
        }
        #expect(expired.ofKeys[3]?.watermark == 103)
        #expect(expired.ofKeys[3]?.epochs.count == Limits.expiredEpochOfKeyCountMax)
        #expect(isExpired(1 << 40, 103) && !isExpired(1 << 40, 104) && isExpired(3, 103))
        // An older one of a sender that is not known is under the watermark already.
        expired.add(Self.key(1 << 31, epoch: 99), of: 3)
        #expect(expired.ofKeys[3]?.watermark == 103 && expired.ofKeys[3]?.epochs[1 << 31] == nil)
        // Of other keys nothing has changed, but that what is closed is closed under each.
        #expect(!isExpired(1 << 40, 103, of: 4) && !isExpired(1 << 40, 1, of: 0))
        #expect(isExpired(5, 105, of: 4) && !isExpired(5, 104, of: 4))
    }

    @Test("a key is full of expired epochs for as long as the oldest began within a week")
    func fullOfExpiredEpochs() {
        var expired = ExpiredEpochs()
        let (time, week): (UInt64, UInt64) = (1_763_600_000_000, 7 * 86_400_000)
        func key(_ sender: UInt64, _ milliseconds: UInt64) -> SenderKey {
            Self.key(sender, epoch: milliseconds << 20)
        }
        for sender in 1...UInt64(Limits.expiredEpochOfKeyCountMax) {
            #expect(!expired.isFull(3, at: time))
            expired.add(key(sender, time + sender), of: 3)
        }
        #expect(expired.isFull(3, at: time) && expired.isFull(3, at: time + week))
        #expect(!expired.isFull(3, at: time + week + 1) && !expired.isFull(4, at: time))
        // The place of its own epoch before is a sender's to take.
        #expect(expired.hasRoom(for: key(1, time + 9_999), of: 3, at: time))
        #expect(!expired.hasRoom(for: key(1 << 20, time), of: 3, at: time))
        expired.add(key(1, time + 9_999), of: 3)
        #expect(!expired.isFull(3, at: time + week + 2) && expired.isFull(3, at: time + week + 1))
    }

    @Test("in whatever order epochs expire, the same ones are known", arguments: 1...4)
    func orderOfExpiry(seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        let count = Limits.expiredEpochOfKeyCountMax + 900
        var keys = (0..<2 * count).map { _ in
            Self.key(UInt64(random.below(count)), epoch: UInt64(random.below(20_000)))
        }
        var first = ExpiredEpochs()
        for key in keys { first.add(key, of: 9) }
        for _ in 0..<2 {
            keys.shuffle(using: &random)
            var second = ExpiredEpochs()
            for key in keys { second.add(key, of: 9) }
            #expect(second.ofKeys == first.ofKeys)
        }
    }
}
