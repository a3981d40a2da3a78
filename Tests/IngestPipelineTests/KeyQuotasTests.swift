import IngestFormat
import IngestRing
import Testing

@testable import IngestPipeline

/// What the senders of one key may take of what all share (PROTOCOL 2.8).
struct KeyQuotasTests {
    private static let minute: UInt64 = 60_000_000_000

    private static func bounds(windows: Int = 4_096, names: Int = 100_000) -> KeyQuotas.Bounds {
        KeyQuotas.Bounds(windowCountMax: windows, namesPerMinute: names)
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
        "Senders over their key's windows are shed, until one of that key was idle for ten minutes")
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
        let ack = bench.windows.acks.refusals.last
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
    }

    @Test("A window of before a start counts for the key of its first packet")
    func afterStart() {
        var first = WindowBench()
        for sender in 1...3 as ClosedRange<UInt64> {
            first.key = WindowBench.key(sender)
            #expect(first.send(0) == .accepted)
        }
        var log = SenderWindows()
        log.apply(first.takeLedger(), at: first.now.wallMicroseconds)
        var bench = WindowBench(log, quotas: Self.bounds(windows: 2))
        bench.keyID = 5
        for sender in 1...3 as ClosedRange<UInt64> {
            bench.key = WindowBench.key(sender)
            #expect(bench.send(1) == .accepted)
        }
        bench.key = WindowBench.key(4)
        #expect(bench.send(0) == .shed)
        bench.keyID = 6
        #expect(bench.send(0) == .accepted)
    }

    @Test("Packets with new rewards are shed while their key has no names left, and others are not")
    func shedForNames() throws {
        let bench = CommitBench { $0.newNamesPerMinute = 1 }
        let flags = RingRecordHeader.Flags.hasTag
        var sequence: UInt64 = 0
        func send(
            rewards: ClosedRange<UInt8>, keyID: UInt16 = 3, isTagged: Bool = true
        ) -> Int {
            let events = rewards.map { byteCount in
                var event = bench.click()
                (event.rewardByteCount, event.pairHash) = (byteCount, UInt64(byteCount))
                return event
            }
            bench.offer(
                RingRecordKind.framed, flags: isTagged ? flags : 0, sequence: sequence,
                sender: UInt64(keyID) + (isTagged ? 0 : 100), keyID: keyID, events)
            sequence += 1
            let rows = bench.turns().reduce(0) { $0 + $1.rows.rowCount }
            bench.clock.advance(milliseconds: 700)
            return rows
        }
        // The business and ten rewards, where ten names are there at once.
        #expect(send(rewards: 1...10) == 10)
        #expect(send(rewards: 10...11) == 0)
        #expect(bench.counters.packetsOfCommit[.shed] == 1)
        #expect(bench.counters.commit[.shedForNames] == 1)
        #expect(bench.links.state.lastShedKey == 3)
        // What is known goes on, as do other keys and who proves none.
        #expect(send(rewards: 9...10) == 2)
        #expect(send(rewards: 11...12, keyID: 4) == 2)
        #expect(send(rewards: 13...14, isTagged: false) == 2)
        bench.clock.advance(milliseconds: 60_000)
        #expect(send(rewards: 15...15) == 1)
        #expect(send(rewards: 16...16) == 0)
        #expect(bench.counters.commit[.shedForNames] == 2)
    }
}
