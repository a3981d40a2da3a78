import IngestCounting
import IngestFormat
import TestSupport
import Testing

@testable import IngestPipeline

/// What the windows say to packets, rule by rule of docs/protocol.md.
@Suite("The windows of the commit stage")
struct AdmittedWindowsTests {
    @Test("W6: a batch is new once; again it is a resend, with other bytes a conflict")
    func repeats() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(0) == .resend)
        #expect(bench.send(0, check: 9) == .sequenceConflict)
        #expect(bench.send(1) == .accepted)
        #expect(bench.send(0, check: 9) == .sequenceConflict)
    }

    @Test("a late packet does not make a conflict of the one that shares its place")
    func checksOfLatePackets() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(1 + 1024, check: 3) == .accepted)
        #expect(bench.send(1, check: 4) == .accepted)
        #expect(bench.send(1 + 1024, check: 3) == .resend)
        #expect(bench.send(1 + 1024, check: 4) == .sequenceConflict)
    }

    @Test(
        "a sender without acks loses one packet and is never blocked; it is missing once the window has slid"
    )
    func slides() {
        var bench = WindowBench()
        for sequence in 1...100_000 as ClosedRange<UInt64> {
            #expect(bench.send(sequence, acks: false) == .accepted)
        }
        let window = bench.windows.window(of: bench.key)!
        #expect(window.sequences.missingCount == 1)
        #expect(window.sequences.missing == [0...0])
        #expect(PacketBalance(window).isKept)
        #expect(bench.send(0, acks: false) == .belowFloor)
        #expect(bench.send(50, acks: false) == .resend)
    }

    @Test("W5: a sender with acks is held to its window, and gives up by the base of a heartbeat")
    func heldByFloor() {
        var bench = WindowBench()
        #expect(bench.send(1) == .accepted)
        #expect(bench.send(65_535) == .accepted)
        _ = bench.acks()
        #expect(bench.send(65_536) == .farJump)
        #expect(bench.acks().first?.status == .beyondWindow)
        #expect(bench.heartbeat(next: 65_537, base: 1) == nil)
        #expect(bench.send(65_536) == .accepted)
        #expect(bench.windows.window(of: bench.key)?.sequences.missing == [0...0])
        #expect(bench.send(0) == .belowFloor)
    }

    @Test("W4: the first batch of an epoch decides whether it is acked")
    func kinds() {
        var bench = WindowBench()
        #expect(bench.send(0, acks: false) == .accepted)
        #expect(bench.send(1, acks: true) == .badKind)
        #expect(bench.acks().map(\.status) == [.refused])
        #expect(bench.send(1, acks: false) == .accepted)
        #expect(bench.acks().isEmpty)
    }

    @Test("W4: a heartbeat of the other kind moves no window, and says nothing of where one begins")
    func kindsOfHeartbeats() {
        var bench = WindowBench()
        #expect(bench.heartbeat(next: 10, base: 10, acks: false) == nil)
        #expect(bench.send(0) == .accepted)
        #expect(bench.heartbeat(next: 10, base: 5, acks: false) == .badKind)
        #expect(bench.windows.window(of: bench.key)?.sequences.floor == 1)
        #expect(bench.windows.window(of: bench.key)?.announced == 1)
        bench.key = WindowBench.key(8)
        #expect(bench.heartbeat(next: 40, base: 40) == nil)
        #expect(bench.send(0, acks: false) == .accepted)
        _ = bench.acks()
        #expect(bench.heartbeat(next: 40, base: 40) == .badKind)
        #expect(bench.acks().map(\.status) == [.refused])
        #expect(bench.windows.window(of: bench.key)?.sequences.floor == 1)
        #expect(bench.heartbeat(next: 3, base: 0, acks: false) == nil)
        #expect(bench.windows.window(of: bench.key)?.announced == 3)
    }

    @Test("W4: a jump of 2^20 is refused until 16 packets in a row agree on it within a second")
    func farJumps() {
        var bench = WindowBench()
        #expect(bench.send(0, acks: false) == .accepted)
        let far: UInt64 = 1 + 1 << 20
        for sequence in far..<far + 15 { #expect(bench.send(sequence, acks: false) == .farJump) }
        // A packet that is where the window is breaks the row.
        #expect(bench.send(1, acks: false) == .accepted)
        for sequence in far + 1..<far + 16 {
            #expect(bench.send(sequence, acks: false) == .farJump)
        }
        #expect(bench.send(far + 16, acks: false) == .accepted)
        let window = bench.windows.window(of: bench.key)!
        #expect(window.sequences.floor == far + 1)
        #expect(PacketBalance(window).isKept)
    }

    @Test("16 far packets over more than a second, or far from each other, do not agree")
    func farJumpsThatDoNotAgree() {
        var bench = WindowBench()
        #expect(bench.send(0, acks: false) == .accepted)
        for index in 0..<40 as Range<UInt64> {
            #expect(bench.send(1 << 21 + index, acks: false) == .farJump)
            bench.advance(milliseconds: 100)
        }
        for index in 0..<40 as Range<UInt64> {
            #expect(bench.send(1 << 21 + index * 70_000, acks: false) == .farJump)
        }
    }

    @Test(
        "the floor of a sender with acks is moved by a base alone, and no jump has to be agreed on")
    func farHeartbeats() {
        var bench = WindowBench()
        func floor() -> UInt64? { bench.windows.window(of: bench.key)?.sequences.floor }
        #expect(bench.send(0) == .accepted)
        // However many packets its sender holds.
        let next = 3 << 20 + 700 as UInt64
        for announced in [1, 1 + 1 << 20, 1 + 2 << 20, 1 + 3 << 20] as [UInt64] {
            #expect(bench.windows.window(of: bench.key)?.announced ?? 0 >= announced)
            #expect(bench.heartbeat(next: next, base: 0) == nil)
        }
        #expect(bench.windows.window(of: bench.key)?.announced == next)
        for sequence in 1 << 30..<1 << 30 + 40 as Range<UInt64> {
            #expect(bench.send(sequence) == .farJump)
        }
        #expect(bench.send(65_536) == .accepted && floor() == 1)
        #expect(bench.send(65_537) == .farJump && floor() == 1)
        #expect(bench.heartbeat(next: 9 << 30, base: 8 << 30, acks: true) == nil)
        #expect(floor() == 8 << 30)
        let window = bench.windows.window(of: bench.key)!
        #expect(window.announced == 8 << 30 + 1 << 20 && PacketBalance(window).isKept)
    }

    @Test("W5: the first packet says where a window begins")
    func starts() {
        var bench = WindowBench()
        #expect(bench.send(65_535) == .accepted)
        #expect(bench.windows.window(of: bench.key)?.start == 0)
        bench.key = WindowBench.key(8)
        #expect(bench.send(65_536) == .farJump)
        #expect(bench.windows.window(of: bench.key) == nil)
        #expect(bench.heartbeat(next: 70_000, base: 65_000) == nil)
        #expect(bench.send(65_536) == .accepted)
        #expect(bench.windows.window(of: bench.key)?.start == 65_000)
        bench.key = WindowBench.key(9)
        #expect(bench.send(1_000_000, acks: false) == .accepted)
        #expect(bench.windows.window(of: bench.key)?.start == 934_465)
        #expect(bench.windows.window(of: bench.key)?.sequences.missingCount == 0)
    }

    @Test(
        "epoch 0 and one more than ten minutes ahead of the clock are refused, a greater one opens a window of its own"
    )
    func epochs() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        let older = bench.key
        bench.key = WindowBench.key(7, milliseconds: WindowBench.milliseconds + 600_000)
        #expect(bench.send(0) == .accepted)
        bench.key = WindowBench.key(7, milliseconds: WindowBench.milliseconds + 600_001)
        #expect(bench.send(0) == .oldEpoch)
        let refusal = bench.acks().last
        #expect(refusal?.status == .refused)
        #expect(refusal?.credit == 0)
        bench.key = SenderKey(
            kind: older.kind, sender: older.sender, epoch: SenderEpoch(rawValue: 0))
        #expect(bench.send(0) == .oldEpoch)
        bench.key = older
        #expect(bench.send(1) == .accepted)
    }

    @Test(
        "a week of silence closes a window for good; what was announced and did not come is missing"
    )
    func expiry() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.heartbeat(next: 5, base: 0) == nil)
        bench.advance(milliseconds: 7 * 86_400_000 + 1)
        _ = bench.acks()
        bench.expire()
        #expect(bench.windows.window(of: bench.key) == nil)
        let entry = bench.takeLedger().last
        #expect(entry?.window.isExpired == true)
        #expect(entry?.window.missingCount == 4)
        #expect(bench.send(5) == .oldEpoch)
        #expect(bench.acks().first?.epoch == bench.key.epoch)
        bench.key = WindowBench.key(7, milliseconds: WindowBench.milliseconds + 1)
        #expect(bench.send(0) == .accepted)
    }

    @Test("W1: senders over the limit are shed, until one was idle for ten minutes")
    func limit() {
        var bench = WindowBench()
        for sender in 1...UInt64(Limits.windowCountMax) {
            bench.key = WindowBench.key(sender)
            if bench.send(0) != .accepted { Issue.record("sender \(sender)") }
            if sender % 1_000 == 0 {
                _ = bench.acks()
                _ = bench.takeLedger()
            }
        }
        _ = bench.acks()
        _ = bench.takeLedger()
        #expect(bench.windows.table.byteCount <= Limits.windowByteCountMax)
        bench.key = WindowBench.key(1 << 20)
        #expect(bench.send(0) == .shed)
        #expect(bench.acks().first?.status == .busy)
        // While the disk takes nothing nobody can be heard.
        bench.advance(milliseconds: 3_600_000)
        bench.windows.idle.restart(at: bench.now)
        #expect(bench.send(0) == .shed)
        _ = bench.acks()
        bench.advance(milliseconds: 599_000)
        bench.key = WindowBench.key(2)
        #expect(bench.send(1) == .accepted)
        _ = bench.acks()
        bench.advance(milliseconds: 2_000)
        bench.key = WindowBench.key(1 << 20)
        #expect(bench.send(0) == .accepted)
        #expect(bench.windows.table.entries.count == Limits.windowCountMax)
        bench.key = WindowBench.key(2)
        #expect(bench.send(2) == .accepted)
    }

    @Test("a sender with acks that begins with a heartbeat may still hold everything")
    func beginsWithHeartbeat() {
        var bench = WindowBench()
        #expect(bench.heartbeat(next: 70_000, base: 0) == nil)
        #expect(bench.acks().first?.floor == 0)
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(4_463) == .accepted)
        bench.key = WindowBench.key(8)
        #expect(bench.heartbeat(next: 70_000, base: 0, acks: false) == nil)
        #expect(bench.send(69_000, acks: false) == .accepted)
        #expect(bench.windows.window(of: bench.key)?.start == 4_464)
    }

    @Test("a start leaves the windows of senders a day, however long the log was silent of them")
    func startsAfterSilence() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        #expect(bench.send(1) == .accepted)
        var fromLog = SenderWindows()
        fromLog.apply(bench.takeLedger(), at: bench.now.wallMicroseconds)
        // Heartbeats without news are not in the log; or the clock is a month ahead.
        var again = WindowBench(fromLog, daysLater: 30)
        again.expire()
        #expect(again.heartbeat(next: 2, base: 2) == nil)
        #expect(again.send(1) == .resend)
        again.advance(milliseconds: 86_400_001)
        again.expire()
        #expect(again.windows.window(of: again.key) != nil)
        again.advance(milliseconds: 7 * 86_400_000)
        _ = again.acks()
        again.expire()
        #expect(again.windows.window(of: again.key) == nil)
    }

    @Test("a window whose first block was lost takes nothing for arrived that may be on its way")
    func firstBlockLost() {
        var bench = WindowBench()
        for sequence in 0..<10 as Range<UInt64> { _ = bench.send(sequence) }
        _ = bench.takeLedger()
        for sequence in 20..<30 as Range<UInt64> { _ = bench.send(sequence) }
        var fromLog = SenderWindows()
        fromLog.apply(bench.takeLedger(), at: bench.now.wallMicroseconds)
        var again = WindowBench(fromLog)
        #expect(again.send(15) == .accepted)
        #expect(again.send(25) == .resend)
        let window = again.windows.window(of: again.key)
        #expect(window.map { PacketBalance($0).isKept } == true)
    }

    @Test("W1: the memory that is counted is that of the windows, whatever happened to them")
    func memory() {
        var bench = WindowBench()
        let empty = bench.windows.table.byteCount
        var random = SeededRandom(seed: 3)
        for sender in 1...40 as ClosedRange<UInt64> {
            bench.key = WindowBench.key(sender)
            let acks = sender % 2 == 0
            for sequence in stride(from: 0, to: 3_000 as UInt64, by: 2) {
                _ = bench.send(sequence, acks: acks)
            }
            _ = bench.send(.random(in: 0...65_000, using: &random), acks: acks)
            _ = bench.heartbeat(
                next: 65_001, base: .random(in: 0...3_000, using: &random), acks: acks)
        }
        _ = bench.acks()
        #expect(bench.windows.table.byteCount > 40 * (14 << 10))
        bench.advance(milliseconds: 8 * 86_400_000)
        bench.expire()
        #expect(bench.windows.table.entries.count == 0)
        #expect(bench.windows.table.byteCount == empty)
    }

    @Test("a window gives back the memory that a hole took")
    func holeFilled() {
        var bench = WindowBench()
        #expect(bench.send(0) == .accepted)
        let before = bench.windows.table.byteCount
        for sequence in 2...65_000 as ClosedRange<UInt64> { _ = bench.send(sequence) }
        #expect(bench.windows.table.byteCount > before + 7_000)
        #expect(bench.send(1) == .accepted)
        #expect(bench.windows.table.byteCount == before)
        #expect(bench.send(65_001) == .accepted)
        #expect(bench.send(40_000) == .resend)
    }

    @Test("where memory is full a sender without acks slides over a hole, one with acks waits")
    func memoryFull() {
        var bench = WindowBench()
        bench.key = WindowBench.key(1 << 31)
        #expect(bench.send(1) == .accepted)
        bench.key = WindowBench.key(1 << 30)
        #expect(bench.send(1, acks: false) == .accepted)
        var sender: UInt64 = 1
        // Two packets, far apart, take the most memory.
        while bench.windows.table.byteCount + (8 << 10) <= Limits.windowByteCountMax {
            bench.key = WindowBench.key(sender)
            _ = bench.send(1, acks: false)
            _ = bench.send(65_535, acks: false)
            sender += 1
        }
        bench.key = WindowBench.key(1 << 30)
        var results: Set<PacketResult> = []
        for sequence in 2...3_000 as ClosedRange<UInt64> {
            results.insert(bench.send(sequence, acks: false))
        }
        #expect(results == [.accepted])
        #expect(bench.windows.window(of: bench.key)?.sequences.missing == [0...0])
        bench.key = WindowBench.key(1 << 31)
        _ = bench.acks()
        #expect(bench.send(3_000) == .shed)
        #expect(bench.acks().first?.status == .busy)
        #expect(bench.windows.table.byteCount <= Limits.windowByteCountMax)
    }

    @Test(
        "W10: windows made again from the ledger are those of the commit stage", arguments: 1...12)
    func replay(seed: Int) {
        var bench = WindowBench()
        var random = SeededRandom(seed: UInt64(seed))
        var fromLog = SenderWindows()
        var model: [SenderKey: Set<UInt64>] = [:]
        var next: [UInt64: UInt64] = [:]
        for _ in 0..<4_000 {
            let sender = UInt64.random(in: 1...3, using: &random)
            let acks = sender != 2
            bench.key = WindowBench.key(sender)
            let end = next[sender, default: 0]
            var sequence = end
            switch Int.random(in: 0..<10, using: &random) {
            case 0: sequence = UInt64.random(in: 0...end, using: &random)
            case 1: sequence = end + UInt64.random(in: 0...3_000, using: &random)
            case 2: sequence = end + UInt64.random(in: 0...90_000, using: &random)
            default: break
            }
            if Int.random(in: 0..<60, using: &random) == 0 {
                let base = UInt64.random(in: 0...end, using: &random)
                _ = bench.heartbeat(next: end + 2, base: base, acks: acks)
            } else if bench.send(sequence, acks: acks) == .accepted {
                #expect(model[bench.key, default: []].insert(sequence).inserted)
                next[sender] = max(end, sequence + 1)
            }
            bench.advance(milliseconds: 1)
            if Int.random(in: 0..<20, using: &random) == 0 {
                fromLog.apply(bench.takeLedger(), at: bench.now.wallMicroseconds)
                _ = bench.acks()
            }
        }
        fromLog.apply(bench.takeLedger(), at: bench.now.wallMicroseconds)
        for (key, sequences) in model {
            let window = bench.windows.window(of: key)!
            #expect(PacketBalance(window).isKept)
            #expect(window.sequences.arrivedCount == UInt64(sequences.count))
            #expect(fromLog.open[key]?.sequences == window.sequences)
            #expect(fromLog.open[key]?.announced == window.announced)
            #expect(fromLog.open[key]?.asksForAcks == window.asksForAcks)
            // After a restart nothing that arrived is new again.
            var again = WindowBench(fromLog)
            again.key = key
            for sequence in sequences {
                #expect(again.send(sequence, acks: window.asksForAcks!) != .accepted)
            }
        }
    }
}
