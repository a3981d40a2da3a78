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
        var nextWaitEnd: UInt64 { window.nextWaitEnd }
        var hasOverdue: Bool { window.hasOverdue }
        subscript(sequence: UInt64) -> SendWindow.Entry { window[sequence] }
        func append(_ bytes: [UInt8], eventCount: Int) {
            window.append(bytes, eventCount: eventCount)
        }
        func sent(_ sequence: UInt64, now: UInt64) -> Bool { window.sent(sequence, now: now) }
        func firstUnsent() -> UInt64? { window.firstUnsent() }
        func recheck() { window.recheck() }
        func due(now: UInt64, edge: UInt64, countMax: Int) -> [UInt64] {
            window.due(now: now, edge: edge, countMax: countMax)
        }
    }

    private static func apply(
        _ window: Held, floor: UInt64, words: [UInt64] = [0], now: UInt64
    ) -> SendWindow.Change {
        let header = PacketHeader(
            kind: .batch, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 2),
            sequence: PacketSequence(rawValue: 0))
        let packet = ModelReceiver.ack(header, floor: floor, credit: 100, .ok, words: words)
        return packet.withUnsafeBytes { bytes in
            guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender),
                let view = AckView(header, of: bytes)
            else { return SendWindow.Change() }
            return window.window.apply(view, now: now)
        }
    }

    private static func window(packets: Int, from first: UInt64 = 0, areLeft: Bool = false) -> Held
    {
        let window = Held(SendWindow(firstSequence: first))
        for number in 0..<packets {
            window.window.append(
                [UInt8](repeating: UInt8(number % 251), count: 100), eventCount: 3, isLeft: areLeft)
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
        #expect(change == SendWindow.Change())
        change = Self.apply(window, floor: 10, now: 7)
        #expect(change.ackedPackets == 6)
        #expect(window.isEmpty)
        #expect(window.nextWaitEnd == .max)
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
            (0..<2_000).allSatisfy { window[1_000_100 + UInt64($0)].bytes == [UInt8($0 % 256)] })
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

    @Test func `A packet is due when its wait ends, twice as long each time`() {
        let window = Self.window(packets: 1)
        var now: UInt64 = 0
        _ = window.sent(0, now: now)
        for wait in [500, 1_000, 2_000, 4_000, 5_000, 5_000] as [UInt64] {
            let end = now + wait * Self.millisecond
            #expect(window.nextWaitEnd == end)
            #expect(window.due(now: end - 1, edge: .max, countMax: 9) == [])
            #expect(window.due(now: end, edge: 0, countMax: 9) == [])
            window.recheck()
            #expect(window.due(now: end, edge: .max, countMax: 9) == [0])
            let wasSent = window.sent(0, now: end)
            #expect(wasSent)
            now = end
        }
    }

    @Test func `The wait follows the measured round trips, within its bounds`() {
        var trip = RoundTrip()
        #expect(trip.wait(sendCount: 1) == RoundTrip.waitFirst)
        for _ in 0..<50 { trip.measured(2 * Self.millisecond) }
        #expect(trip.wait(sendCount: 1) == RoundTrip.waitMin)
        for _ in 0..<50 { trip.measured(300 * Self.millisecond) }
        #expect(trip.wait(sendCount: 1) > 300 * Self.millisecond)
        #expect(trip.wait(sendCount: 1) < 400 * Self.millisecond)
        trip.measured(.max)
        #expect(trip.wait(sendCount: 9) == RoundTrip.waitMax)
        #expect(trip.wait(sendCount: .max) == RoundTrip.waitMax)
    }

    @Test func `A packet that three later ones have overtaken is sent again at once, and once`() {
        let window = Self.window(packets: 8)
        for sequence in 0..<8 as Range<UInt64> { _ = window.sent(sequence, now: 1) }
        // 1, 2 and 3 have arrived: 0 may have been overtaken, 4 to 7 are on their way.
        _ = Self.apply(window, floor: 0, words: [0b0110], now: 2)
        #expect(!window.hasOverdue)
        _ = Self.apply(window, floor: 0, words: [0b1110], now: 3)
        #expect(window.due(now: 3, edge: .max, countMax: 9) == [0])
        _ = window.sent(0, now: 3)
        _ = Self.apply(window, floor: 0, words: [0b1110], now: 4)
        #expect(window.due(now: 4, edge: .max, countMax: 9) == [])
        _ = Self.apply(window, floor: 0, words: [0b1000_1110], now: 5)
        #expect(window.due(now: 5, edge: .max, countMax: 9) == [4])
    }

    @Test func `Many resends leave in portions`() {
        let window = Self.window(packets: 500)
        for sequence in 0..<500 as Range<UInt64> { _ = window.sent(sequence, now: 1) }
        let now: UInt64 = 10_000_000_000
        let first = window.due(now: now, edge: .max, countMax: 100)
        #expect(first == Array(0..<100))
        for sequence in first { _ = window.sent(sequence, now: now) }
        #expect(window.nextWaitEnd == now + SendWindow.paceNanoseconds)
        #expect(window.due(now: window.nextWaitEnd, edge: 150, countMax: 100) == Array(100..<150))
    }
}
