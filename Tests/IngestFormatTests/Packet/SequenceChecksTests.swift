import TestSupport
import Testing

@testable import IngestFormat

@Suite("Checks of the newest packets of a window")
struct SequenceChecksTests {
    private static func check(of sequence: UInt64) -> UInt16 {
        UInt16(truncatingIfNeeded: sequence &* 40_503) | 1
    }

    private static func window(_ start: UInt64) -> SenderWindow {
        SenderWindow(start: start, lastSeen: 0)
    }

    /// What a window says of a sequence that arrived: whether it knows the packet's bytes.
    private static func isKnown(_ sequence: UInt64, to window: SenderWindow) -> Bool {
        let same = window.isConflict(sequence, check: check(of: sequence))
        if same { Issue.record("the packet \(sequence) itself is a conflict") }
        return window.isConflict(sequence, check: check(of: sequence) ^ 2)
    }

    @Test(
        "whatever the order, each of the newest is known, and no older one is taken for it",
        arguments: [0, 7, 1 << 61] as [UInt64])
    func newest(start: UInt64) {
        var random = SeededRandom(seed: start)
        let countMax = UInt64(Limits.windowCheckCountMax)
        for count in [1, 63, 64, 65, 4_096, 4_097, 9_000] as [UInt64] {
            // In windows of 64, each in an order of its own.
            var window = Self.window(start)
            for base in stride(from: 0, to: count, by: 64) {
                for place in (base..<min(base + 64, count)).shuffled(using: &random) {
                    window.accept(start + place, check: Self.check(of: start + place), room: .max)
                }
            }
            let known = (0..<count).filter { Self.isKnown(start + $0, to: window) }
            #expect(known == Array(count - min(count, countMax)..<count))
        }
    }

    @Test("the entries of a block make the same of a window as the packets did")
    func replay() throws {
        var random = SeededRandom(seed: 2)
        for _ in 0..<20 {
            let key = SenderKey(
                kind: .framed, sender: SenderID(rawValue: 5), epoch: SenderEpoch(rawValue: 6))
            var (window, windows) = (Self.window(3), SenderWindows())
            var left = Array(3..<UInt64(3 + random.below(9_000)))
            while !left.isEmpty {
                let count = min(left.count, 1 + random.below(2_000))
                let arrived = left.prefix(count + 200).shuffled(using: &random).prefix(count)
                let taken = Set(arrived)
                left.removeAll { taken.contains($0) }
                var entry = LedgerEntry(key: key)
                if windows.open.isEmpty { entry.window.start = 3 }
                for sequence in arrived {
                    window.accept(sequence, check: Self.check(of: sequence), room: .max)
                }
                entry.sequences = SequenceSet.merged(arrived.map { $0...$0 })
                entry.checks = arrived.sorted().map(Self.check)
                windows.apply([entry], at: 1)
            }
            var writer = ByteWriter()
            windows.encode(into: &writer)
            let read = try #require(try SenderWindows.decode(writer.bytes).open[key])
            #expect(read.sequences == window.sequences)
            let all = 3..<window.sequences.end
            #expect(
                all.filter { Self.isKnown($0, to: read) }
                    == all.filter { Self.isKnown($0, to: window) })
        }
    }

    @Test("what is not known of a sequence is not taken from another one of its place")
    func unknown() {
        let key = SenderKey(
            kind: .framed, sender: SenderID(rawValue: 5), epoch: SenderEpoch(rawValue: 6))
        // The checks of the second block are lost, as where it was rewritten.
        var (first, second) = (LedgerEntry(key: key), LedgerEntry(key: key))
        (first.window.start, first.sequences) = (0, [0...4_095])
        first.checks = (0...4_095).map(Self.check)
        second.sequences = [4_096...5_000]
        var windows = SenderWindows()
        windows.apply([first], at: 1)
        #expect(windows.checkPlaceCount == 4_096)
        windows.apply([second], at: 2)
        #expect(windows.open[key].map { Self.isKnown(4_500, to: $0) } == false)
        #expect(windows.checkPlaceCount == 0)
        // A missing sequence that is forgotten is taken for one that arrived.
        var window = Self.window(0)
        for sequence in 0..<8_192 as Range<UInt64> where sequence < 4_096 || sequence % 2 == 0 {
            window.accept(sequence, check: Self.check(of: sequence), room: .max)
        }
        #expect(window.raise(to: 8_192) == 2_048)
        #expect(window.sequences.state(of: 5_001) == .arrived)
        #expect(!Self.isKnown(5_001, to: window) && !Self.isKnown(5_000, to: window))
        #expect(Self.isKnown(8_190, to: window) && window.sequences.state(of: 8_191) == .missing)
    }

    @Test("windows that come when there are no places left have no checks, until others are closed")
    func bound() throws {
        let fullCount = UInt64(Limits.checkPlaceCountMax / Limits.windowCheckCountMax)
        var windows = SenderWindows()
        func entry(_ sender: UInt64) -> LedgerEntry {
            var entry = LedgerEntry(
                key: SenderKey(
                    kind: .framed, sender: SenderID(rawValue: sender),
                    epoch: SenderEpoch(rawValue: 1)))
            entry.window.start = 0
            entry.sequences = [0...4_999]
            entry.checks = (0...4_999).map(Self.check)
            return entry
        }
        for sender in 1...fullCount + 3 { windows.apply([entry(sender)], at: 1) }
        var closing = LedgerEntry(key: entry(1).key)
        closing.window.isExpired = true
        windows.apply([closing], at: 2)
        windows.apply([entry(fullCount + 4)], at: 3)
        var writer = ByteWriter()
        windows.encode(into: &writer)
        let read = try SenderWindows.decode(writer.bytes)
        #expect(read.checkPlaceCount == Limits.checkPlaceCountMax)
        let unknown = read.open.filter { !Self.isKnown(4_999, to: $0.value) }
        let expected = (1...3).map { fullCount + $0 }
        #expect(unknown.keys.map(\.sender.rawValue).sorted() == expected)
    }

    @Test("false counts of checks are errors")
    func falseCounts() {
        var (window, windows) = (LedgerEntry(key: .plain), SenderWindows())
        window.key = SenderKey(
            kind: .framed, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 1))
        (window.window.start, window.sequences, window.checks) = (0, [0...0], [7])
        windows.apply([window], at: 1)
        var writer = ByteWriter()
        windows.encode(into: &writer)
        // The checks are last: a count and 64 of them.
        let place = writer.bytes.count - 128 - 1
        #expect(writer.bytes[place] == 64)
        for count in [0, 1, 63, 64, 96, 127, 128, 4_095, 4_096, 8_192] as [UInt64] {
            var bytes = ByteWriter()
            for byte in writer.bytes.prefix(place) { bytes.append(u8: byte) }
            bytes.append(varint: count)
            for _ in 0..<count { bytes.append(u16: 7) }
            let isRight = [64, 128, 4_096].contains(count)
            #expect(((try? SenderWindows.decode(bytes.bytes)) != nil) == isRight, "\(count)")
        }
        // Of a range as long as all sequences.
        var entry = ByteWriter()
        LedgerCodec.encode([window], into: &entry)
        var bytes = entry.bytes
        #expect(bytes.suffix(5) == [1, 0, 0, 7, 0])
        bytes.replaceSubrange(
            (bytes.count - 3)..<(bytes.count - 2),
            with: [UInt8](repeating: 0xFF, count: 9) + [1])
        #expect(throws: FormatError.self) {
            try LedgerCodec.decode(whole: bytes, entryCount: 1, rangeCountMax: 1)
        }
    }
}
