import IngestFormat
import TestSupport
import Testing

@testable import IngestPipeline

@Suite("The ledger of a block")
struct BlockLedgerTests {
    private func key(_ sender: UInt64, epoch: UInt64 = 1) -> SenderKey {
        SenderKey(
            kind: .framed, sender: SenderID(rawValue: sender), epoch: SenderEpoch(rawValue: epoch))
    }

    private static func check(of sequence: UInt64) -> UInt16 {
        UInt16(truncatingIfNeeded: sequence &* 40_503) | 1
    }

    private static func add(_ sequence: UInt64, to ledger: inout BlockLedger) {
        ledger.continueRun(
            of: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 7), epoch: SenderEpoch(rawValue: 1)))
        ledger.addAccepted(
            ArrivedSequence(
                sequence: PacketSequence(rawValue: sequence), check: check(of: sequence)))
    }

    @Test("ranges come out ascending, disjoint and not adjacent, whatever the order of arrival")
    func ranges() {
        var generator = SeededRandom(seed: 3)
        for _ in 0..<200 {
            let sequences = Array(0...40).shuffled(using: &generator)
                .prefix(Int.random(in: 1...41, using: &generator)).map { UInt64($0) }
            var ledger = BlockLedger()
            for sequence in sequences {
                Self.add(sequence, to: &ledger)
            }
            let entry = ledger.take()[0]
            let ranges = entry.sequences
            #expect(ranges.flatMap { Array($0) } == sequences.sorted())
            #expect(entry.checks == sequences.sorted().map(Self.check))
            for (earlier, later) in zip(ranges, ranges.dropFirst()) {
                #expect(earlier.upperBound + 1 < later.lowerBound)
            }
        }
    }

    @Test("the greatest sequence there is does not overflow a range")
    func lastSequence() {
        var ledger = BlockLedger()
        for sequence in [UInt64.max, 0, UInt64.max - 1] {
            Self.add(sequence, to: &ledger)
        }
        let sequences = ledger.take()[0].sequences
        #expect(sequences == [0...0, (UInt64.max - 1)...UInt64.max])
    }

    @Test("senders and ranges end at what a block may hold, and a taken ledger has room again")
    func room() {
        var ledger = BlockLedger()
        var roomy = 0
        for sender in 0..<UInt64(Limits.blockSenderCountMax - 2) {
            if ledger.hasRoom { roomy += 1 }
            ledger.addPackets(1, .accepted, from: key(sender))
        }
        let isFullOfSenders = !ledger.hasRoom
        _ = ledger.take()
        for sequence in 0..<UInt64(Limits.blockSequenceRangeCountMax) {
            if ledger.hasRoom { roomy += 1 }
            Self.add(2 * sequence, to: &ledger)
        }
        let isFullOfRanges = !ledger.hasRoom
        _ = ledger.take()
        let hasRoomAgain = ledger.hasRoom
        #expect(roomy == Limits.blockSenderCountMax - 2 + Limits.blockSequenceRangeCountMax)
        #expect(isFullOfSenders && isFullOfRanges && hasRoomAgain)
    }

    @Test("the entries so far have what the packets of the last sender brought")
    func openRun() {
        var ledger = BlockLedger()
        for sequence in 5...7 as ClosedRange<UInt64> {
            Self.add(sequence, to: &ledger)
            ledger.tally.add(.counted, 2)
            let entry = ledger.completeEntries()[0]
            #expect(entry.sequences == [5...sequence])
            #expect(entry.packets[Int(PacketResult.accepted.rawValue)] == sequence - 4)
            #expect(entry.events[Int(Verdict.counted.rawValue)] == 2 * (sequence - 4))
        }
        #expect(ledger.take()[0].events[Int(Verdict.counted.rawValue)] == 6)
    }

    @Test("counts of interleaved senders are kept apart and come out in the order of their keys")
    func senders() throws {
        var ledger = BlockLedger()
        var generator = SeededRandom(seed: 5)
        var model: [SenderKey: (packets: UInt64, counted: UInt64)] = [:]
        var next: [SenderKey: UInt64] = [:]
        var (taken, last) = (0 as UInt32, SenderKey.plain)
        for _ in 0..<1_000 {
            // Packets of one sender often follow each other.
            let key =
                generator.next() % 2 == 0 && last != .plain
                ? last : key(generator.next() % 5, epoch: generator.next() % 3)
            last = key
            ledger.continueRun(of: key)
            ledger.tally.add(.counted)
            ledger.tally.add(.tooOld)
            ledger.tally.add(.counted)
            let sequence = next[key, default: 0]
            next[key] = sequence + 1
            ledger.addAccepted(
                ArrivedSequence(
                    sequence: PacketSequence(rawValue: sequence), check: Self.check(of: sequence)))
            if generator.next() % 10 == 0 {
                taken += ledger.takeTally().counts[Int(Verdict.counted.rawValue)]
            }
            model[key, default: (0, 0)].packets += 1
            model[key, default: (0, 0)].counted += 2
        }
        let entries = ledger.take()
        #expect(entries.map(\.key) == model.keys.sorted())
        for entry in entries {
            #expect(entry.packets[Int(PacketResult.accepted.rawValue)] == model[entry.key]?.packets)
            #expect(entry.events[Int(Verdict.counted.rawValue)] == model[entry.key]?.counted)
            let end = try #require(next[entry.key])
            #expect(entry.sequences == [0...end - 1])
            #expect(entry.checks == (0..<end).map(Self.check))
        }
        let isEmpty = ledger.isEmpty
        taken += ledger.takeTally().counts[Int(Verdict.counted.rawValue)]
        #expect(isEmpty && taken == 2_000)
        let again = ledger.take()
        #expect(again.isEmpty)
    }
}
