import IngestFormat
import IngestRing
import Testing

@testable import IngestPipeline

/// What senders are told, and how much they may send: docs/protocol.md.
@Suite("The answers of the windows")
struct WindowAnswersTests {
    @Test("a packet that is owed nothing moves no answer, and makes none larger")
    func answersOfOthers() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(200) == .accepted)
        _ = bench.acks()
        #expect(bench.send(1, acks: false, byteCount: 60_000) == .badKind)
        #expect(bench.send(0, byteCount: 80) == .resend)
        #expect(bench.acks().first?.words.count == 1)
        // The largest of one address does not count for another.
        #expect(bench.send(200, byteCount: 1_000) == .resend)
        #expect(bench.send(0, byteCount: 80, port: 9) == .resend)
        #expect(bench.acks().first?.words.count == 1)
    }

    @Test("A1: packets that are sent again from elsewhere turn no ack of a new batch away")
    func addresses() {
        var bench = WindowBench()
        #expect(bench.send(0, port: 1) == .accepted)
        #expect(bench.send(0, byteCount: 80, port: 9) == .resend)
        #expect(bench.send(200, port: 1) == .accepted)
        #expect(bench.send(0, byteCount: 60_000, port: 9) == .resend)
        bench.close()
        #expect(bench.owedPorts == [1])
        #expect(bench.takeAcks().first?.durable == [200])
        // Alone they are answered where they came from.
        #expect(bench.send(0, port: 9) == .resend)
        bench.close()
        #expect(bench.owedPorts == [9])
        _ = bench.takeAcks()
        // The sender's address has changed.
        #expect(bench.send(0, port: 9) == .resend)
        #expect(bench.send(1, port: 2) == .accepted)
        bench.close()
        #expect(bench.owedPorts == [2])
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

    @Test("A2: an ack is no larger than the packet, and says what has arrived as far as it fits")
    func acks() {
        var bench = WindowBench()
        #expect(bench.send(0, byteCount: 79) == .accepted)
        #expect(bench.acks().isEmpty)
        for sequence in [1, 3, 64, 200] as [UInt64] {
            #expect(bench.send(sequence, byteCount: 96) == .accepted)
        }
        let ack = bench.acks()[0]
        #expect(ack.floor == 2)
        #expect(ack.words.count == 3)
        #expect(ack.durable == [3, 64])
        #expect(bench.send(200, byteCount: 104) == .resend)
        #expect(bench.acks()[0].durable == [3, 64, 200])
    }

    // MARK: Answers to heartbeats

    @Test("an ack echoes the last sequence of the commit, or the nonce of a heartbeat")
    func echoes() {
        var bench = WindowBench()
        for sequence in [0, 5, 3] as [UInt64] { #expect(bench.send(sequence) == .accepted) }
        #expect(bench.acks().map(\.echo) == [.sequence(3)])
        #expect(bench.heartbeat(next: 6, base: 1, nonce: 99) == nil)
        let answer = bench.acks()
        #expect(answer.map(\.echo) == [.nonce(99)])
        #expect(answer.first?.durable == [3, 5])
        // One that opens a window, or raises its floor, is answered by the commit that says so.
        #expect(bench.heartbeat(next: 6, base: 3, nonce: 98) == nil)
        #expect(bench.takeAcks().isEmpty)
        #expect(bench.send(6) == .accepted)
        let both = bench.acks()
        #expect(both.map(\.echo) == [.nonce(98)])
        #expect(both.first?.floor == 4)
    }

    @Test(
        "A2: while packets are not durable a heartbeat is answered with the floor of before, no bits"
    )
    func pending() {
        var bench = WindowBench()
        for sequence in 0..<3 as Range<UInt64> { #expect(bench.send(sequence) == .accepted) }
        #expect(bench.acks().map(\.floor) == [3])
        for sequence in [3, 4, 8] as [UInt64] { #expect(bench.send(sequence) == .accepted) }
        #expect(bench.heartbeat(next: 9, base: 3, seen: 3, nonce: 7) == nil)
        // Also while the block is closed, and waits for the disk.
        bench.close()
        #expect(bench.heartbeat(next: 9, base: 3, seen: 3, nonce: 8) == nil)
        #expect(bench.send(9) == .accepted)
        bench.close()
        #expect(bench.heartbeat(next: 10, base: 3, seen: 3, nonce: 9) == nil)
        let answers = bench.takeAcks()
        #expect(answers.filter(\.isPending).map(\.echo) == [.nonce(7), .nonce(8), .nonce(9)])
        #expect(answers.filter(\.isPending).allSatisfy { $0.floor == 3 && $0.words == [0] })
        #expect(answers.allSatisfy { $0.commitEpoch == 1 })
        // The ack of a commit answers it again if one was due; 9 came last in the other.
        #expect(answers.filter { !$0.isPending }.map(\.echo) == [.nonce(7), .sequence(9)])
        bench.sync()
        #expect(bench.heartbeat(next: 10, base: 3, seen: 3, nonce: 10) == nil)
        let answer = bench.takeAcks().last
        #expect(answer?.isPending == false && answer?.floor == 5 && answer?.durable == [8, 9])
        #expect(answer?.commitEpoch == 3)
    }

    @Test("a pending floor is durable, however long commits follow each other")
    func pendingFloors() {
        var bench = WindowBench()
        var durable: UInt64 = 0
        for sequence in 0..<50 as Range<UInt64> {
            #expect(bench.send(sequence) == .accepted)
            #expect(bench.heartbeat(next: sequence + 1, base: 0, seen: durable) == nil)
            let floor = bench.takeAcks().first { $0.isPending }?.floor ?? .max
            #expect(floor <= durable && floor + 4 >= durable)
            bench.close()
            if sequence % 2 == 1 {
                bench.sync()
                durable = sequence + 1
            }
        }
    }

    @Test("W5: a sender that has heard of more than there is gets status 6, and moves nothing")
    func rolledBack() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        _ = bench.acks()
        #expect(bench.heartbeat(next: 9, base: 5, seen: 5, nonce: 3) == nil)
        var answer = bench.takeAcks()
        #expect(answer.map(\.status) == [.rolledBack] && answer.map(\.echo) == [.nonce(3)])
        #expect(answer.map(\.floor) == [1])
        #expect(bench.windows.window(of: bench.key)?.sequences.floor == 1)
        #expect(bench.windows.window(of: bench.key)?.announced == 1)
        bench.key = WindowBench.key(8)
        #expect(bench.heartbeat(next: 9, base: 5, seen: 1, nonce: 4) == nil)
        answer = bench.acks()
        #expect(answer.map(\.status) == [.rolledBack] && answer.map(\.echo) == [.nonce(4)])
        #expect(bench.windows.window(of: bench.key) == nil)
        // Accepted, it begins at its base.
        #expect(bench.heartbeat(next: 9, base: 5, seen: 0) == nil)
        #expect(bench.acks().map(\.status) == [.ok])
        #expect(bench.send(5) == .accepted)
        #expect(bench.windows.window(of: bench.key)?.start == 5)
    }

    @Test("an epoch that has expired is refused, whatever its sender has heard")
    func rolledBackOrOver() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        _ = bench.acks()
        bench.advance(milliseconds: 7 * 86_400_000 + 1)
        bench.expire()
        #expect(bench.heartbeat(next: 1, base: 1, seen: 1) == .oldEpoch)
        #expect(bench.acks().map(\.status) == [.refused])
    }

    // MARK: The end of an epoch

    @Test("W7: the end of an epoch closes its window for good, also for who reads the log")
    func end() {
        var bench = WindowBench()
        for sequence in 0..<3 as Range<UInt64> { #expect(bench.send(sequence) == .accepted) }
        _ = bench.acks()
        #expect(bench.heartbeat(next: 3, base: 3, seen: 3, nonce: 6, ends: true) == nil)
        #expect(bench.windows.window(of: bench.key) == nil)
        let answer = bench.acks()
        #expect(answer.map(\.status) == [.ok] && answer.map(\.echo) == [.nonce(6)])
        #expect(answer.map(\.floor) == [3] && answer.map(\.credit) == [0])
        var fromLog = SenderWindows()
        fromLog.apply(bench.takeLedger(), at: bench.now.wallMicroseconds)
        #expect(fromLog.open.isEmpty)
        var again = WindowBench(fromLog)
        #expect(again.send(1) == .oldEpoch)
        #expect(again.send(3) == .oldEpoch)
        #expect(again.heartbeat(next: 3, base: 3, seen: 3, ends: true) == .oldEpoch)
        #expect(again.acks().last?.status == .refused)
        again.key = WindowBench.key(7, milliseconds: WindowBench.milliseconds + 1)
        #expect(again.send(0) == .accepted)
    }

    @Test("an end is none of before the last packets, none before all is durable, none of a clone")
    func endTooEarly() {
        var bench = WindowBench()
        func isOpen() -> Bool { bench.windows.window(of: bench.key) != nil }
        for sequence in [0, 1, 3] as [UInt64] { #expect(bench.send(sequence) == .accepted) }
        #expect(bench.heartbeat(next: 4, base: 2, ends: true) == nil)
        #expect(isOpen())
        #expect(bench.acks().last?.floor == 2)
        // Below what was announced; with a hole; announcing more; of one who has heard of more.
        for (next, seen) in [(2, 2), (3, 2), (4, 2), (9, 2), (4, 4)] as [(UInt64, UInt64)] {
            #expect(bench.heartbeat(next: next, base: 2, seen: seen, ends: true) == nil)
            #expect(isOpen())
        }
        _ = bench.acks()
        #expect(bench.send(2) == .accepted)
        for sequence in 4..<9 as Range<UInt64> { #expect(bench.send(sequence) == .accepted) }
        #expect(bench.heartbeat(next: 9, base: 9, seen: 2, ends: true) == nil)
        bench.close()
        #expect(bench.heartbeat(next: 9, base: 9, seen: 2, ends: true) == nil)
        #expect(isOpen())
        _ = bench.acks()
        #expect(bench.send(8, check: 9) == .sequenceConflict)
        #expect(bench.heartbeat(next: 9, base: 9, seen: 9, ends: true) == nil)
        #expect(isOpen())
        bench.advance(milliseconds: 10_000)
        // An ack that is due of the window goes with it.
        #expect(bench.send(7) == .resend)
        #expect(bench.heartbeat(next: 9, base: 9, seen: 9, ends: true) == nil)
        #expect(!isOpen())
        #expect(bench.acks().last?.floor == 9)
    }

    @Test("without acks, and before the first batch, there is no end")
    func endOfOthers() {
        var bench = WindowBench()
        #expect(bench.heartbeat(next: 0, base: 0, ends: true) == nil)
        _ = bench.acks()
        #expect(bench.heartbeat(next: 0, base: 0, ends: true) == nil)
        #expect(bench.send(0, acks: false) == .accepted)
        _ = bench.acks()
        #expect(bench.heartbeat(next: 1, base: 0, acks: false, ends: true) == nil)
        #expect(bench.heartbeat(next: 1, base: 1, ends: true) == .badKind)
        #expect(bench.send(1, acks: false) == .accepted)
    }

    @Test("a refusal is repeated to heartbeats for ten seconds")
    func repeatedRefusal() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(0, check: 9) == .sequenceConflict)
        #expect(bench.acks().map(\.status) == [.refused])
        #expect(bench.heartbeat(next: 1, base: 0, nonce: 5) == nil)
        let answer = bench.acks()
        #expect(answer.map(\.status) == [.refused] && answer.map(\.echo) == [.nonce(5)])
        bench.advance(milliseconds: 10_000)
        #expect(bench.heartbeat(next: 1, base: 0) == nil)
        #expect(bench.acks().map(\.status) == [.ok])
    }
}
