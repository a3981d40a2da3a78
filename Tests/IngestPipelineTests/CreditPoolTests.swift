import IngestFormat
import Testing

@testable import IngestPipeline

/// How much senders may have in flight: docs/protocol.md, A3.
@Suite("The credit")
struct CreditPoolTests {
    @Test("A3: credit is shared out in equal parts, and the sum of it fits the pool")
    func credit() {
        var bench = WindowBench(creditByteCount: 100 * (64 + 1_000))
        var granted: [UInt64: UInt32] = [:]
        for round in 0..<3 as Range<UInt64> {
            for sender in 1...20 as ClosedRange<UInt64> {
                bench.key = WindowBench.key(sender)
                #expect(bench.send(round, byteCount: 1_000) == .accepted)
                granted[sender] = bench.acks().first?.credit
                // A sender that came when nothing was left had two packets.
                let sum = granted.values.reduce(Int(0)) { $0 + Int($1) }
                #expect(sum <= 100 + 2 * 19)
            }
        }
        #expect(granted.values.allSatisfy { $0 == 5 })
        // Only one of them is still there.
        bench.advance(milliseconds: 2_500)
        for sequence in 3..<28 as Range<UInt64> {
            #expect(bench.send(sequence, byteCount: 1_000) == .accepted)
        }
        #expect(bench.acks().last?.credit == 100)
    }

    @Test("nobody gets nothing, and before the first batch nobody gets more than 64 packets")
    func leastCredit() {
        var bench = WindowBench(creditByteCount: 10_000)
        for sender in 1...20 as ClosedRange<UInt64> {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(0, byteCount: 60_000) == .accepted)
            #expect(bench.acks().first?.credit == 2)
        }
        var large = WindowBench()
        #expect(large.heartbeat(next: 0, base: 0) == nil)
        #expect(large.acks().first?.credit == 64)
        // A heartbeat says nothing of how large batches are, and is no demand.
        #expect(large.send(0, byteCount: 60_000) == .accepted)
        #expect(large.heartbeat(next: 1, base: 0) == nil)
        #expect(large.acks().last?.credit == 8)
        for sequence in 1...64 as ClosedRange<UInt64> {
            #expect(large.send(sequence, byteCount: 60_000) == .accepted)
        }
        #expect(large.acks().last?.credit == 256)
    }

    @Test("A3: idle senders take no credit, and what some do not need is for others")
    func creditByDemand() {
        var bench = WindowBench(creditByteCount: 10_000 * (64 + 1_000))
        for sender in 1...500 as ClosedRange<UInt64> {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(0, byteCount: 1_000) == .accepted)
        }
        #expect(bench.acks().count == 500)
        var (busy, slow): (UInt32, UInt32) = (0, 0)
        for second in 0..<3 as Range<UInt64> {
            for sequence in 0..<3_000 as Range<UInt64> {
                bench.key = WindowBench.key(1_000)
                #expect(bench.send(second * 3_000 + sequence, byteCount: 1_000) == .accepted)
                if sequence % 500 == 0 {
                    bench.key = WindowBench.key(1_001)
                    let number = second * 6 + sequence / 500
                    #expect(bench.send(number, byteCount: 1_000) == .accepted)
                    bench.advance(milliseconds: 150)
                    for ack in bench.acks() {
                        if ack.floor > 100 { busy = ack.credit } else { slow = ack.credit }
                    }
                }
            }
            bench.advance(milliseconds: 150)
        }
        // Four times what comes; the pool bounds the busy one.
        #expect(slow == 24 && busy > 9_000 && busy + slow <= 10_000, "\(slow), \(busy)")
    }

    @Test("five hundred senders of a batch every three seconds leave a busy one its credit")
    func creditBesideReturning() {
        let pool = 22_584
        var bench = WindowBench(creditByteCount: pool * (64 + 1_000))
        var least = UInt32.max
        var sequence: UInt64 = 0
        for step in 0..<60 as Range<UInt64> {
            // Each of 500 once in thirty steps of 100 ms.
            for sender in 0..<500 as Range<UInt64> where sender % 30 == step % 30 {
                bench.key = WindowBench.key(1 + sender)
                #expect(bench.send(step / 30, byteCount: 1_000) == .accepted)
            }
            bench.key = WindowBench.key(1_000)
            for _ in 0..<600 {
                #expect(bench.send(sequence, byteCount: 1_000) == .accepted)
                sequence += 1
            }
            for ack in bench.acks() where step >= 20 && ack.floor > 100 {
                least = min(least, ack.credit)
            }
            bench.advance(milliseconds: 100)
        }
        // All others together never need more than eight packets each.
        #expect(Int(least) >= pool - 500 * 8, "\(least)")
    }

    @Test("what stays in the ring is taken from the credit, and comes back once it is gone")
    func creditOfStanding() {
        let pool = 40_000
        var bench = WindowBench(creditByteCount: pool * (64 + 1_000))
        var sequence: UInt64 = 0
        // The credit after a second in which so much was in the ring at least, and at times more.
        func credit(whileWaiting least: Int) -> Int {
            for _ in 0..<5 {
                for packet in 0..<4_000 {
                    #expect(bench.send(sequence, byteCount: 1_000) == .accepted)
                    sequence += 1
                    let waiting = least + (packet == 2_000 ? 0 : 10 << 20)
                    bench.windows.credit.note(waitingByteCount: waiting)
                }
                bench.advance(milliseconds: 200)
                _ = bench.acks()
            }
            #expect(bench.send(sequence, byteCount: 1_000) == .accepted)
            sequence += 1
            return bench.acks().last.map { Int($0.credit) } ?? 0
        }
        // In the second after the first its need is known.
        _ = credit(whileWaiting: 0)
        let all = credit(whileWaiting: 0)
        #expect(all > pool * 9 / 10)
        // A MiB too much at each of five looks, of which every second one lets the one before take effect.
        let less = credit(whileWaiting: CreditPool.standingByteCountMax + (1 << 20))
        #expect((2...3).contains((all - less) * (64 + 1_000) / (1 << 20)), "\(all), \(less)")
        // A quarter at once, and not to nothing, whoever fills the ring.
        let much = credit(whileWaiting: 60 << 20)
        #expect((less / 3...less * 3 / 5).contains(much), "\(less), \(much)")
        var least = much
        for _ in 0..<4 { least = credit(whileWaiting: 60 << 20) }
        #expect(least == pool / CreditPool.leastDivisor)
        // An eighth more at each of five looks.
        let more = credit(whileWaiting: CreditPool.standingByteCountMax)
        #expect((least * 3 / 2...least * 2).contains(more), "\(least), \(more)")
        for _ in 0..<4 { _ = credit(whileWaiting: CreditPool.standingByteCountMax) }
        #expect(credit(whileWaiting: 0) == all)
    }

    @Test("a pool that gets smaller takes of each sender some, and of none all")
    func creditOfManyWhileStanding() {
        let (senders, packetByteCount) = (20, 64 + 1_000)
        let pool = 10_000
        var bench = WindowBench(creditByteCount: pool * packetByteCount)
        var (least, most) = (Int.max, 0)
        for second in 0..<3 as Range<UInt64> {
            (least, most) = (.max, 0)
            for round in 0..<5 as Range<UInt64> {
                for sender in 1...UInt64(senders) {
                    bench.key = WindowBench.key(sender)
                    for packet in 0..<50 as Range<UInt64> {
                        let sequence = (second * 5 + round) * 50 + packet
                        #expect(bench.send(sequence, byteCount: 1_000) == .accepted)
                    }
                    if second == 2 {
                        bench.windows.credit.note(
                            waitingByteCount: CreditPool.standingByteCountMax + (1 << 20))
                    }
                }
                bench.advance(milliseconds: 200)
                for ack in bench.acks() {
                    (least, most) = (min(least, Int(ack.credit)), max(most, Int(ack.credit)))
                }
            }
        }
        let part = pool / senders
        // A MiB at each second of five looks.
        let leastPart = part - (3 << 20) / senders / packetByteCount - 2
        #expect(most <= part && (leastPart..<part * 9 / 10).contains(least), "\(least), \(most)")
    }

    @Test("senders without acks, and refused packets, take no part of the credit")
    func creditOfUnacked() {
        var bench = WindowBench(creditByteCount: 100 * (64 + 1_000))
        for sender in 1...50 as ClosedRange<UInt64> {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(0, acks: false, byteCount: 1_000) == .accepted)
            #expect(bench.send(1, byteCount: 1_000) == .badKind)
        }
        _ = bench.acks()
        bench.key = WindowBench.key(100)
        for sequence in 0..<50 as Range<UInt64> {
            #expect(bench.send(sequence, byteCount: 1_000) == .accepted)
        }
        #expect(bench.acks().last?.credit == 100)
    }
}
