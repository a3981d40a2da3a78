import Testing

@testable import IngestClient
@testable import IngestFormat

struct SendWindowTests {
    private static let millisecond: UInt64 = 1_000_000

    /// A window that `#expect` can look into, which takes only what can be copied.
    private final class Held {
        var window: SendWindow
        init(_ window: consuming SendWindow) { self.window = window }

        var base: UInt64 { window.base }
        var byteCount: Int { window.byteCount }
        var packetCount: Int { window.packetCount }
        var isEmpty: Bool { window.isEmpty }
        var lostCount: Int { window.lostCount }
        private var number: UInt64 = 0
        subscript(sequence: UInt64) -> SendWindow.Entry { window[sequence] }
        func append(_ bytes: [UInt8], eventCount: Int) {
            window.append(bytes, eventCount: eventCount)
        }
        func sent(_ sequence: UInt64, now: UInt64) -> Bool {
            number += 1
            return window.sent(sequence, CongestionControl.Departure(number: number, at: now))
        }
        func firstUnsent() -> UInt64? { window.firstUnsent() }
        func next(edge: UInt64 = .max, newEdge: UInt64 = .max, countMax: Int = 9) -> [UInt64] {
            window.next(edge: edge, newEdge: newEdge, countMax: countMax)
        }
        func lose(
            sentBefore time: UInt64, floor: UInt64, words: [UInt64] = [0]
        ) -> CongestionControl.Progress {
            var progress = CongestionControl.Progress()
            SendWindowTests.view(floor: floor, words: words) {
                window.lose(sentBefore: time, known: $0, into: &progress)
            }
            return progress
        }
    }

    private static func view<Result>(
        floor: UInt64, words: [UInt64], _ body: (borrowing AckView) -> Result
    ) -> Result? {
        let header = PacketHeader(
            kind: .batch, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 2),
            sequence: PacketSequence(rawValue: 0))
        let packet = ModelReceiver.ack(header, floor: floor, credit: 100, .ok, words: words)
        return packet.withUnsafeBytes { bytes in
            guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender),
                let view = AckView(header, of: bytes)
            else { return nil }
            return body(view)
        }
    }

    private static func apply(
        _ window: Held, floor: UInt64, words: [UInt64] = [0], now: UInt64
    ) -> SendWindow.Change {
        view(floor: floor, words: words) { window.window.apply($0, now: now) }
            ?? SendWindow.Change()
    }

    private static func window(packets: Int, from first: UInt64 = 0, areLeft: Bool = false) -> Held
    {
        var left = SequenceArray<SendWindow.Entry>(start: first)
        for _ in 0..<(areLeft ? packets : 0) {
            left.append(SendWindow.Entry(byteCount: 100, eventCount: 3))
        }
        let window = Held(SendWindow(left: left))
        for number in 0..<(areLeft ? 0 : packets) {
            window.window.append(
                [UInt8](repeating: UInt8(number % 251), count: 100), eventCount: 3)
        }
        return window
    }

    @Test func `Packets stay until an ack covers them, by floor or by bit`() {
        let window = Self.window(packets: 10)
        for sequence in 0..<10 as Range<UInt64> {
            let wasSent = window.sent(sequence, now: 1)
            #expect(!wasSent)
        }
        #expect(window.byteCount == 1_000)
        var change = Self.apply(window, floor: 2, words: [0b1001_0000], now: 5)
        #expect(change.ackedEvents == 12)
        #expect(change.ackedPackets == 4)
        #expect(window.base == 2)
        #expect(window.byteCount == 600)
        change = Self.apply(window, floor: 2, words: [0b1001_0000], now: 6)
        #expect(change.ackedPackets == 0 && change.progress == CongestionControl.Progress())
        change = Self.apply(window, floor: 10, now: 7)
        #expect(change.ackedPackets == 6)
        #expect(window.isEmpty && window.next().isEmpty)
    }

    @Test func `The window grows with what it holds, and keeps every packet in its place`() {
        let window = Self.window(packets: 100, from: 1_000_000)
        for sequence in 1_000_000..<1_000_050 as Range<UInt64> {
            _ = window.sent(sequence, now: 1)
        }
        _ = Self.apply(window, floor: 1_000_050, now: 2)
        for number in 0..<2_000 {
            window.append([UInt8(number % 256)], eventCount: 1)
        }
        #expect(window.packetCount == 2_050)
        #expect(
            (0..<2_000).allSatisfy {
                window.window.bytes(of: 1_000_100 + UInt64($0)) == [UInt8($0 % 256)]
            })
    }

    @Test func `What an earlier start has sent is finished by an ack without being sent again`() {
        let window = Self.window(packets: 10, from: 5, areLeft: true)
        let change = Self.apply(window, floor: 12, words: [0b10], now: 5)
        #expect(change.ackedPackets == 8)
        #expect(change.unsentEvents == 24)
        #expect(window.firstUnsent() == 12)
        _ = window.sent(12, now: 6)
        #expect(window.firstUnsent() == 14)
    }

    @Test func `What left once and last tells the time, what was sent again does not`() {
        let window = Self.window(packets: 4)
        for sequence in 0..<4 as Range<UInt64> { _ = window.sent(sequence, now: sequence + 1) }
        _ = window.lose(sentBefore: 5, floor: 0)
        for sequence in [2, 3] as [UInt64] { _ = window.sent(sequence, now: 9) }
        let change = Self.apply(window, floor: 4, now: 20)
        #expect(change.newest?.at == 2)
        #expect(change.progress.durableCount == 4)
        // Two had been judged lost, and were on their way all the same.
        #expect(change.progress.landedCount == 2 && window.lostCount == 0)
    }

    @Test func `Rule j: lost is what three later sends have overtaken, if the ack tells of it`() {
        let window = Self.window(packets: 200)
        for sequence in 0..<200 as Range<UInt64> { _ = window.sent(sequence, now: 1) }
        // 1, 2 and 3 have arrived: 0 may have been overtaken, 4 to 199 are on their way.
        #expect(Self.apply(window, floor: 0, words: [0b0110], now: 2).progress.lostCount == 0)
        #expect(Self.apply(window, floor: 0, words: [0b1110], now: 3).progress.lostCount == 1)
        #expect(window.next() == [0])
        #expect(window.next(edge: 0).isEmpty)
        _ = window.sent(0, now: 3)
        #expect(Self.apply(window, floor: 0, words: [0b1110], now: 4).progress.lostCount == 0)
        // 150 alone may have overtaken the others; what left before 150, 151 and 152, but for 0, has not come.
        #expect(
            Self.apply(window, floor: 0, words: [0, 0, 1 << 22], now: 5).progress.lostCount == 0)
        #expect(
            Self.apply(window, floor: 0, words: [0, 0, 7 << 22], now: 5).progress.lostCount == 146)
        let short = Self.window(packets: 200)
        for sequence in 0..<200 as Range<UInt64> { _ = short.sent(sequence, now: 1) }
        #expect(Self.apply(short, floor: 0, words: [7 << 61], now: 2).progress.lostCount == 61)
        #expect(Self.apply(short, floor: 0, words: [0], now: 4).progress.lostCount == 0)
    }

    @Test
    func `Rule m: the first leaves twice after four losses, one with many behind after three`() {
        let window = Self.window(packets: 4_100)
        for now in 1...3 as ClosedRange<UInt64> {
            #expect(window.next(newEdge: 8, countMax: 100) == Array(0..<8))
            for sequence in 0..<8 as Range<UInt64> { _ = window.sent(sequence, now: now) }
            #expect(window.lose(sentBefore: now + 1, floor: 0).lostCount == 8)
        }
        #expect(window.next(newEdge: 8, countMax: 100) == Array(0..<8))
        // Those before it that have never left are as lost ones from now on.
        _ = window.sent(4_098, now: 4)
        let doubled: [UInt64] = [0, 0, 1, 1, 2, 2, 3, 3]
        #expect(
            window.next(edge: 10, newEdge: 8, countMax: 100) == doubled + Array(4..<10))
        let few = Self.window(packets: 8)
        for now in 1...4 as ClosedRange<UInt64> {
            for sequence in 0..<8 as Range<UInt64> { _ = few.sent(sequence, now: now) }
            #expect(few.lose(sentBefore: now + 1, floor: 0).lostCount == 8)
        }
        #expect(few.next(countMax: 100) == [0, 0] + Array(1..<8))
    }

    @Test func `Rule k: what left before an answered question and is not durable is lost`() {
        let window = Self.window(packets: 100)
        for sequence in 0..<100 as Range<UInt64> { _ = window.sent(sequence, now: sequence) }
        _ = Self.apply(window, floor: 10, now: 100)
        #expect(window.lose(sentBefore: 50, floor: 10).lostCount == 40)
        #expect(window.next(countMax: 100) == Array(10..<50))
        // The answer tells of 64 packets.
        #expect(window.lose(sentBefore: 90, floor: 10) == .init(lostCount: 24))
        for sequence in 10..<20 as Range<UInt64> { _ = window.sent(sequence, now: 200) }
        #expect(window.lose(sentBefore: 200, floor: 10).lostCount == 0)
        let progress = window.lose(sentBefore: 201, floor: 10)
        #expect(progress.lostCount == 10, "resends are judged too")
        #expect(progress.resent == .init(lostCount: 10))
        for sequence in 10..<15 as Range<UInt64> { _ = window.sent(sequence, now: 300) }
        let acked = Self.apply(window, floor: 15, words: [1 << 60], now: 400).progress
        #expect(acked.durableCount == 6 && acked.resent == .init(durableCount: 5))
    }

    @Test func `What was lost leaves first, then what is new, each up to its edge`() {
        let window = Self.window(packets: 20)
        for sequence in 0..<10 as Range<UInt64> { _ = window.sent(sequence, now: 1) }
        _ = Self.apply(window, floor: 0, words: [0b11_1100_0100], now: 2)
        #expect(window.next(countMax: 100) == [0, 1, 3, 4, 5] + Array(10..<20))
        #expect(window.next(edge: 4, newEdge: 12, countMax: 100) == [0, 1, 3, 10, 11])
        #expect(window.next(countMax: 2) == [0, 1])
        _ = window.sent(0, now: 3)
        #expect(window.next(countMax: 2) == [1, 3])
        _ = Self.apply(window, floor: 10, now: 4)
        #expect(window.next(countMax: 2) == [10, 11])
    }
}
