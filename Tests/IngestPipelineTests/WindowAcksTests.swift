import IngestFormat
import IngestRing
import Testing

@testable import IngestPipeline

/// What senders are told, and how much they may send: docs/protocol.md.
@Suite("The answers of the windows")
struct WindowAnswersTests {
    @Test("credit is shared out in equal parts, and the sum of it fits the pool")
    func credit() {
        var bench = WindowBench(creditByteCount: 100 * (64 + 1_000))
        var granted: [UInt64: UInt32] = [:]
        for round in 0..<3 as Range<UInt64> {
            for sender in 1...20 as ClosedRange<UInt64> {
                bench.key = WindowBench.key(sender)
                #expect(bench.send(round, byteCount: 1_000) == .accepted)
                granted[sender] = bench.acks().first?.credit
                // A sender that came when nothing was left had one packet.
                #expect(granted.values.reduce(0) { $0 + Int($1) } <= 100 + 19)
            }
        }
        #expect(granted.values.allSatisfy { $0 == 5 })
        // Only one of them is still there.
        bench.advance(milliseconds: 2_500)
        #expect(bench.send(3, byteCount: 1_000) == .accepted)
        #expect(bench.acks().first?.credit == 100)
    }

    @Test("nobody gets nothing, and before the first batch nobody gets more than 64 packets")
    func leastCredit() {
        var bench = WindowBench(creditByteCount: 10_000)
        for sender in 1...20 as ClosedRange<UInt64> {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(0, byteCount: 60_000) == .accepted)
            #expect(bench.acks().first?.credit == 1)
        }
        var large = WindowBench()
        #expect(large.heartbeat(next: 0, base: 0) == nil)
        #expect(large.acks().first?.credit == 64)
        // A heartbeat says nothing of how large batches are.
        #expect(large.send(0, byteCount: 60_000) == .accepted)
        #expect(large.heartbeat(next: 1, base: 0) == nil)
        #expect(
            large.acks().first?.credit
                == UInt32((64 << 20) / RingLayout.shareByteCount(of: 64 + 60_000)))
    }

    @Test("a packet that is owed nothing moves no answer, and makes none larger")
    func answersOfOthers() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(200) == .accepted)
        _ = bench.acks()
        #expect(bench.send(1, acks: false, byteCount: 60_000) == .badKind)
        #expect(bench.send(0, byteCount: 56) == .resend)
        #expect(bench.acks().first?.words.count == 1)
        // The largest of one address does not count for another.
        #expect(bench.send(200, byteCount: 1_000) == .resend)
        #expect(bench.send(0, byteCount: 56, port: 9) == .resend)
        #expect(bench.acks().first?.words.count == 1)
    }

    @Test("a packet far away does not keep a sender from hearing what has arrived")
    func statusOfFarPacket() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(1 << 30) == .farJump)
        #expect(bench.acks().map(\.status) == [.ok])
        #expect(bench.send(1 << 30) == .farJump)
        #expect(bench.send(1) == .accepted)
        #expect(bench.acks().map(\.status) == [.ok])
        #expect(bench.send(1 << 30) == .farJump)
        #expect(bench.acks().map(\.status) == [.beyondWindow])
        #expect(bench.send(1, check: 9) == .sequenceConflict)
        #expect(bench.send(2) == .accepted)
        #expect(bench.acks().map(\.status) == [.refused])
    }

    @Test("the answers of one block are bounded in memory")
    func boundedAnswers() {
        var bench = WindowBench()
        for sender in 1...400 as ClosedRange<UInt64> {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(0, byteCount: 8_300) == .accepted)
            #expect(bench.send(65_535, byteCount: 8_300) == .accepted)
        }
        let acks = bench.acks()
        #expect(acks.count == 400)
        #expect(acks.first?.words.count ?? 0 > 1_000)
        #expect(acks.last?.words.count == 1)
        #expect(acks.reduce(0) { $0 + $1.words.count } <= 1 << 17 + 400)
    }

    @Test("an ack is no larger than the packet, and says what has arrived as far as it fits")
    func acks() {
        var bench = WindowBench()
        #expect(bench.send(0, byteCount: 55) == .accepted)
        #expect(bench.acks().isEmpty)
        for sequence in [1, 3, 64, 200] as [UInt64] {
            #expect(bench.send(sequence, byteCount: 72) == .accepted)
        }
        let ack = bench.acks()[0]
        #expect(ack.floor == 2)
        #expect(ack.words.count == 3)
        #expect(ack.durable == [3, 64])
        #expect(bench.send(200, byteCount: 80) == .resend)
        #expect(bench.acks()[0].durable == [3, 64, 200])
    }
}
