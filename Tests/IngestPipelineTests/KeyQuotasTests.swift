import IngestFormat
import IngestRing
import Testing

@testable import IngestPipeline

/// What the senders of one key may take of what all share.
struct KeyQuotasTests {
    private static let minute: UInt64 = 60_000_000_000

    private static func bounds(
        windows: Int = 4_096, names: Int = 100_000, epochs: Int = 1_000
    ) -> KeyQuotas.Bounds {
        KeyQuotas.Bounds(windowCountMax: windows, namesPerMinute: names, epochsPerMinute: epochs)
    }

    @Test(
        "A key has ten minutes' worth of names at once, of which one packet may take more than is left"
    )
    func names() {
        var quotas = KeyQuotas(Self.bounds(names: 6))
        let start: UInt64 = 77
        quotas.take(59, of: 1, at: start)
        #expect(quotas.mayName(1, at: start))
        quotas.take(13, of: 1, at: start)
        // 12 are owed, at 6 a minute.
        #expect(!quotas.mayName(1, at: start + 2 * Self.minute))
        #expect(quotas.mayName(1, at: start + 2 * Self.minute + 1))
        #expect(quotas.mayName(2, at: start) && quotas.mayName(0, at: start))
        // No more than ten minutes' worth is saved up, however long it takes.
        quotas.take(60, of: 1, at: start + 10_000_000 * Self.minute)
        #expect(!quotas.mayName(1, at: start + 10_000_000 * Self.minute))
        #expect(quotas.mayName(1, at: start + 10_000_000 * Self.minute + 1))
        // The clock of a machine that is suspended stands still at worst.
        #expect(!quotas.mayName(1, at: 0))
    }

    @Test("The greatest quota overflows nowhere, and 0 is none")
    func ends() {
        var greatest = KeyQuotas(Self.bounds(names: 5_000_000))
        greatest.take(1, of: 1, at: 0)
        #expect(greatest.mayName(1, at: 10 * Self.minute - 1))
        greatest.take(50_000_000, of: 1, at: 10 * Self.minute - 1)
        #expect(!greatest.mayName(1, at: 10 * Self.minute - 1))
        #expect(greatest.mayName(1, at: .max))
        var none = KeyQuotas(Self.bounds(names: 0))
        none.take(1 << 30, of: 1, at: 0)
        #expect(none.mayName(1, at: 0))
        greatest.take(1 << 30, of: 0, at: 0)
        #expect(greatest.mayName(0, at: 0))
    }

    @Test(
        "W8: Senders over their key's windows are shed, until one of that key was idle for ten minutes"
    )
    func windows() {
        var bench = WindowBench(quotas: Self.bounds(windows: 2))
        func send(_ sender: UInt64, _ keyID: UInt16, _ sequence: UInt64 = 0) -> PacketResult {
            (bench.key, bench.keyID) = (WindowBench.key(sender), keyID)
            return bench.send(sequence)
        }
        #expect(send(10, 2) == .accepted)
        #expect(send(11, 1) == .accepted)
        #expect(send(12, 1) == .accepted)
        bench.dropAcks()
        #expect(send(13, 1) == .shed)
        let ack = bench.windows.acks.others.last
        #expect(ack?.packet.status == .busy && ack?.sender.rawValue == 13)
        // Those of other keys, and who has none, go on.
        #expect(send(14, 2) == .accepted)
        #expect(send(15, 0) == .accepted)
        #expect(send(16, 0) == .accepted)
        #expect(send(17, 0) == .accepted)
        bench.dropAcks()
        bench.advance(milliseconds: 599_000)
        #expect(send(11, 1, 1) == .accepted)
        #expect(send(13, 1) == .shed)
        bench.dropAcks()
        bench.advance(milliseconds: 2_000)
        // 10 was idle as long as 12, and is of another key.
        #expect(send(13, 1) == .accepted)
        #expect(send(10, 2, 1) == .accepted)
        #expect(send(11, 1, 2) == .accepted)
        #expect(send(12, 1, 1) == .oldEpoch)
        #expect(send(18, 1) == .shed)
        #expect(bench.windows.sheds[.windows].count == 3)
        #expect(bench.windows.sheds[.windows].lastKey == 1 && bench.windows.sheds.forRoom == 0)
    }

    @Test("a sender is not silent while the disk takes nothing", arguments: [false, true])
    func silentInShortage(isFull: Bool) {
        let bench = CommitBench { $0.quotas.windowCountMax = 1 }
        for sender in [7, 8] as [UInt64] {
            bench.offer(
                RingRecordKind.framed, flags: RingRecordHeader.Flags.hasTag, sequence: 0,
                sender: sender, keyID: 5, [bench.click()])
            bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
            _ = bench.turn()
            // What came before the shortage waits in the ring, since no block is free.
            var waiting: [BlockSlot] = []
            if isFull {
                bench.links.state.shortage = .space
                while let slot = bench.links.free.pop(waitNanoseconds: 0) { waiting.append(slot) }
                bench.offerHeartbeat(next: 0, sender: 9)
            }
            bench.clock.advance(milliseconds: 601_000)
            _ = bench.turn()
            bench.links.state.shortage = nil
            for slot in waiting { bench.links.free.push(slot) }
        }
        #expect(bench.counters.commit[.shedForWindows] == (isFull ? 1 : 0))
    }

    @Test("Of idle windows those that lack no packet make room first")
    func complete() {
        var bench = WindowBench(quotas: Self.bounds(windows: 2))
        bench.keyID = 4
        for (sender, sequence) in [(1, 3), (2, 0)] as [(UInt64, UInt64)] {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(sequence) == .accepted)
            bench.advance(milliseconds: 1_000)
        }
        bench.dropAcks()
        bench.advance(milliseconds: 600_000)
        for sender in [3, 4] as [UInt64] {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(0) == .accepted)
            bench.dropAcks()
            // The second was idle for less, and is whole; then the first has to go.
            bench.key = WindowBench.key(2)
            #expect(bench.windows.window(of: bench.key) == nil)
            bench.key = WindowBench.key(1)
            #expect((bench.windows.window(of: bench.key) == nil) == (sender == 4))
            bench.advance(milliseconds: 1_000)
        }
    }

    @Test("A window counts for the key that opened it, also after a start")
    func afterStart() {
        var first = WindowBench()
        first.keyID = 5
        for sender in 1...3 as ClosedRange<UInt64> {
            first.key = WindowBench.key(sender)
            #expect(first.send(0) == .accepted)
        }
        var log = SenderWindows()
        log.apply(first.takeLedger(), at: first.now.wallMicroseconds)
        var bench = WindowBench(log, quotas: Self.bounds(windows: 3))
        bench.key = WindowBench.key(4)
        bench.keyID = 5
        #expect(bench.send(0) == .shed)
        bench.keyID = 6
        #expect(bench.send(0) == .accepted)
        // Another key of the same sender takes over nothing.
        bench.key = WindowBench.key(1)
        #expect(bench.send(1) == .accepted)
        bench.key = WindowBench.key(5)
        bench.keyID = 5
        #expect(bench.send(0) == .shed)
    }

    @Test(
        "W8: Packets with new rewards are shed while their key has no names left, and others are not"
    )
    func shedForNames() throws {
        let bench = CommitBench { $0.quotas.namesPerMinute = 1 }
        var shedCount: UInt64 = 0
        /// How many rows there are of it, and its ack.
        func send(
            _ sequence: UInt64, rewards: ClosedRange<UInt8>, sender: UInt64 = 3, keyID: UInt16 = 3
        ) -> (rows: Int, status: AckStatus?, credit: UInt32?) {
            let events = rewards.map { byteCount in
                var event = bench.click()
                (event.rewardByteCount, event.pairHash) = (byteCount, UInt64(byteCount))
                return event
            }
            let tag = keyID == 0 ? 0 : RingRecordHeader.Flags.hasTag
            bench.offer(
                RingRecordKind.framed, flags: tag | RingRecordHeader.Flags.wantsAck,
                sequence: sequence, sender: sender, keyID: keyID == 0 ? 3 : keyID,
                byteCountMin: 200, events)
            bench.clock.advance(milliseconds: 700)
            var rows = 0
            var ack: AckPacket?
            for block in bench.turns() {
                rows += block.rows.rowCount
                shedCount += block.ledger.reduce(0) {
                    $0 + $1.packets[Int(PacketResult.shed.rawValue)]
                }
                ack = block.acks.acks.last?.packet ?? ack
            }
            return (rows, ack?.status, ack?.credit)
        }
        // The business and ten rewards, where ten names are there at once.
        let first = send(0, rewards: 1...10)
        #expect(first.rows == 10 && first.status == .ok && first.credit ?? 0 > 0)
        let shed = send(2, rewards: 10...11)
        #expect(shed == (0, .busy, 0))
        #expect(bench.counters.packetsOfCommit[.shed] == 1)
        #expect(bench.counters.commit[.shedForNames] == 1)
        #expect(bench.links.state.lastKey(over: .names) == 3)
        // What was counted is known as a resend, and what is known goes on, as do other keys and who proves none.
        #expect(send(0, rewards: 1...10).rows == 0)
        #expect(bench.counters.packetsOfCommit[.resend] == 1)
        #expect(send(3, rewards: 9...10).rows == 2)
        #expect(send(0, rewards: 11...12, sender: 4, keyID: 4).rows == 2)
        #expect(send(0, rewards: 13...14, sender: 5, keyID: 0).rows == 2)
        // A sender that is not known opens no window by it.
        let names = send(0, rewards: 15...15, sender: 6)
        #expect(names == (0, .busy, 0))
        #expect(send(0, rewards: 9...10, sender: 6).rows == 2)
        bench.clock.advance(milliseconds: 60_000)
        // The same packet, now taken.
        #expect(send(2, rewards: 15...16).rows == 2)
        #expect(send(4, rewards: 17...17).rows == 0)
        #expect(bench.counters.commit[.shedForNames] == 3)
        #expect(send(5, rewards: 1...1).rows == 1 && shedCount == 3)
    }

    @Test("Known names in new pairs are names too")
    func pairs() throws {
        let bench = CommitBench { $0.quotas.namesPerMinute = 1 }
        func send(_ sequence: UInt64, business byteCount: UInt8) -> Int {
            let events = (1...4 as ClosedRange<UInt8>).map { rewardByteCount in
                var event = bench.click()
                (event.rewardByteCount, event.businessByteCount) = (rewardByteCount, byteCount)
                event.pairHash = UInt64(rewardByteCount) << 8 | UInt64(byteCount)
                return event
            }
            bench.offer(
                RingRecordKind.framed, flags: RingRecordHeader.Flags.hasTag, sequence: sequence,
                keyID: 3, events)
            bench.clock.advance(milliseconds: 700)
            return bench.turns().reduce(0) { $0 + $1.rows.rowCount }
        }
        // 5 names, then a business and 4 pairs: 9 of 10; then 4 more; and then none is left.
        #expect((1...4).map { send(UInt64($0) - 1, business: $0) } == [4, 4, 4, 0])
        #expect(send(4, business: 2) == 4)
    }
}
