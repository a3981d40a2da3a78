import IngestFormat
import IngestRing
import PipelineTestSupport
import Testing

@testable import IngestPipeline

/// The commit stage alone: records in by hand, blocks out by hand, a clock that stands still.
@Suite("The commit stage")
struct CommitStageTests {
    @Test("a packet's rows, its ledger entry and its sequence are in one block")
    func oneBlock() throws {
        let bench = CommitBench()
        bench.offerBatch(sequence: 5, [bench.click(), bench.click(), bench.unmeasured()])
        let block = try #require(bench.turn())
        #expect(block.rows.rowCount == 3)
        let entry = try #require(block.ledger.first)
        #expect(block.ledger.count == 1)
        #expect(entry.sequences == [5...5])
        #expect(entry.packets[Int(PacketResult.accepted.rawValue)] == 1)
        #expect(entry.events[Int(Verdict.counted.rawValue)] == 3)
        #expect(bench.counters.events[.counted] == 3)
    }

    @Test("where no block is free for 100 ms others are told, until there is one")
    func noFreeBlock() throws {
        let bench = CommitBench()
        var taken: [BlockSlot] = []
        while let slot = bench.links.free.pop(waitNanoseconds: 0) { taken.append(slot) }
        bench.offerBatch(sequence: 0, [bench.click()])
        for (milliseconds, isTold) in [(0, false), (99, false), (1, true), (50, true)] {
            bench.clock.advance(milliseconds: milliseconds)
            #expect(bench.turn() == nil)
            #expect(bench.links.state.lacksBlocks == isTold, "\(milliseconds)")
        }
        // Also where the commit stage has not come to it yet.
        bench.links.free.push(taken.removeLast())
        #expect(!bench.links.state.lacksBlocks)
        #expect(bench.turn()?.rows.rowCount == 1)
        let isTold = bench.links.state.lacksBlocks
        #expect(!isTold)
    }

    @Test("a lone packet is committed at once, the next one with what comes in a commit interval")
    func intervals() throws {
        let bench = CommitBench()
        bench.offerBatch(sequence: 0, [bench.click()])
        #expect(bench.turn()?.rows.rowCount == 1)
        bench.offerBatch(sequence: 1, [bench.click()])
        #expect(bench.turn() == nil)
        bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds - 1)
        bench.offerBatch(sequence: 2, [bench.click(), bench.click()])
        #expect(bench.turn() == nil)
        bench.clock.advance(milliseconds: 1)
        #expect(bench.turn()?.rows.rowCount == 3)
    }

    @Test("packets that wait in the ring make the credit smaller, by a quarter at once")
    func creditWhilePacketsWait() throws {
        func credit(ofPackets count: Int) throws -> Int {
            let ringByteCount = 16 << 20
            let bench = CommitBench(ringByteCount: ringByteCount) {
                $0.ringByteCount = ringByteCount
            }
            for sequence in 0..<UInt64(count) {
                bench.offer(
                    RingRecordKind.framed, flags: RingRecordHeader.Flags.wantsAck,
                    sequence: sequence, byteCountMin: 60_000, [bench.click()])
            }
            #expect(bench.turn() == nil)
            bench.clock.advance(milliseconds: 250)
            let block = try #require(bench.turn())
            return Int(try #require(block.acks.acks.first).packet.credit)
        }
        // Of 260, of 60 kB each, 164 are in the ring when the block is closed; of 128, 32.
        let (all, less) = try (credit(ofPackets: 128), credit(ofPackets: 260))
        #expect(less == all * 3 / 4, "\(all), \(less)")
    }

    @Test("a block waits while two are being written, and closes when one of them is durable")
    func backPressure() {
        let bench = CommitBench(isDurableAtOnce: false)
        for sequence in 0..<2 as Range<UInt64> {
            bench.offerBatch(sequence: sequence, [bench.click()])
            bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
            _ = bench.turn()
            bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
            _ = bench.turn()
        }
        bench.offerBatch(sequence: 2, [bench.click()])
        for _ in 0..<5 {
            bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
            #expect(bench.turn() == nil)
        }
        bench.links.state.didSync()
        #expect(bench.turn()?.rows.rowCount == 1)
    }

    @Test("a block has the zones that are in force at its first row")
    func zonesOfBlock() throws {
        let bench = CommitBench()
        bench.offerBatch(sequence: 0, [bench.click()])
        #expect(try #require(bench.turn()).context.zoneVersion == 0)
        bench.offerHeartbeat(next: 1)
        #expect(bench.turn() == nil)
        bench.zones.replace(by: BusinessZones(ZoneOffsets(initialOffsetSeconds: 0), version: 9))
        bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
        bench.offerBatch(sequence: 1, [bench.click()])
        #expect(try #require(bench.turn()).context.zoneVersion == 9)
    }

    @Test("a clock that steps while nothing comes is seen")
    func clockOfSilence() {
        let bench = CommitBench()
        #expect(bench.turn() == nil)
        bench.clock.jumpWall(milliseconds: 86_400_000)
        #expect(bench.turn() == nil)
        #expect(bench.counters.commit[.clockSteps] == 1)
    }

    @Test("a heartbeat is no packet of the ledger, and those of a turn are answered in one call")
    func heartbeat() throws {
        let bench = CommitBench()
        bench.offerHeartbeat(next: 9)
        let wantsAck = RingRecordHeader.Flags.wantsAck
        bench.offer(RingRecordKind.framed, flags: wantsAck, sequence: 0, [bench.click()])
        let block = try #require(bench.turn())
        #expect(block.ledger.count == 1)
        #expect(block.ledger.first?.packets.reduce(0, +) == 1)
        // It opens no window, and is answered at once.
        #expect(bench.answers.takeCalls().map(\.count) == [1])
        for _ in 0..<3 { bench.offerHeartbeat(next: 9) }
        #expect(bench.turn() == nil)
        #expect(bench.answers.takeCalls().map(\.count) == [3])
        #expect(bench.counters.commit[.answers] == 4)
    }

    @Test("heartbeats that have heard of more than there is are counted")
    func rolledBack() throws {
        let bench = CommitBench()
        bench.offerHeartbeat(next: 9)
        _ = bench.turn()
        #expect(bench.counters.commit[.rolledBackHeartbeats] == 0)
        bench.offerHeartbeat(next: 9, seen: 4)
        bench.offerHeartbeat(next: 9, seen: 4, sender: 8)
        _ = bench.turn()
        #expect(bench.counters.commit[.rolledBackHeartbeats] == 2)
    }

    @Test("W3: an undecodable packet uses its sequence up and is counted, without a row")
    func malformed() throws {
        let bench = CommitBench()
        bench.offer(
            RingRecordKind.framed, flags: RingRecordHeader.Flags.isMalformed, sequence: 4)
        #expect(bench.turn() == nil)
        bench.clock.advance(milliseconds: 1000)
        let block = try #require(bench.turn())
        #expect(block.rows.rowCount == 0)
        #expect(block.ledger.first?.sequences == [4...4])
        #expect(block.ledger.first?.packets[Int(PacketResult.malformed.rawValue)] == 1)
    }

    @Test("an id counts once: the same event again is a duplicate, another one under it a conflict")
    func repeats() throws {
        let bench = CommitBench()
        var event = bench.click()
        (event.flags, event.eventHash) = (EventDescriptor.Flags.hasEventID, 77)
        var other = event
        other.revenueMicros = 5
        // An impression's id is given to its click and redemption too: it is one of each type.
        var redemption = event
        redemption.type = EventType.redemption.rawValue
        bench.offerBatch(sequence: 0, [event, event, other, redemption])
        let block = try #require(bench.turn())
        let verdicts = (0..<4).map { RowAttributes(rawValue: block.rows.attributes[$0]).verdict }
        #expect(verdicts == [.counted, .duplicate, .conflict, .counted])
        let entry = try #require(block.ledger.first)
        #expect(entry.events[Int(Verdict.counted.rawValue)] == 2)
        #expect(entry.events[Int(Verdict.duplicate.rawValue)] == 1)
        #expect(entry.events[Int(Verdict.conflict.rawValue)] == 1)
        bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
        bench.offerBatch(sequence: 1, [event])
        bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
        let next = try #require(bench.turn())
        #expect(RowAttributes(rawValue: next.rows.attributes[0]).verdict == .duplicate)
    }

    @Test("at the limit on names an event of a new one is refused, and its packet is taken")
    func namesFull() throws {
        // Two names more may be given, and the first event has them.
        let names = NameDictionary(nextName: UInt32(Limits.nameCountMax) - 1)
        let bench = CommitBench(dictionary: names)
        var other = bench.click()
        // The reward is then "reward-".
        (other.rewardByteCount, other.pairHash) = (7, 0x9999_9999_9999_9999)
        (other.platformByteCount, other.platformHash) = (4, 5)
        var decorated = bench.click()
        (decorated.platformByteCount, decorated.platformHash) = (4, 5)
        other.revenueMicros = 3
        bench.offerBatch(sequence: 0, [bench.click(), other, decorated])
        let block = try #require(bench.turn())
        #expect(block.rows.rowCount == 2)
        #expect(block.rows.platform[1] == 0)
        let entry = try #require(block.ledger.first)
        #expect(entry.sequences == [0...0])
        #expect(entry.events[Int(Verdict.counted.rawValue)] == 2)
        #expect(entry.events[Int(Verdict.malformed.rawValue)] == 1)
        #expect(bench.counters.commit[.nameRefusals] == 1)
    }

    @Test(
        "one in 4,096 events of known pairs has its names compared, and is refused if they are others"
    )
    func sampledNames() throws {
        let bench = CommitBench()
        bench.offerBatch(sequence: 0, [bench.click()])
        var events = [EventDescriptor](repeating: bench.click(), count: 64)
        for sequence in 1..<64 as Range<UInt64> { bench.offerBatch(sequence: sequence, events) }
        // "reward-" under the hash of "reward-1": such an event counts wherever nobody looks.
        for place in [62, 63] { events[place].rewardByteCount = 7 }
        bench.offerBatch(sequence: 64, events)
        var (rowCount, keyCount) = (0, 0)
        for _ in 0..<4 {
            bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
            for block in bench.turns() {
                rowCount += block.rows.rowCount
                keyCount += block.keys.count
            }
        }
        #expect(rowCount == 4_096 && keyCount == 1)
        #expect(bench.counters.commit[.pairMismatches] == 1)
        #expect(bench.counters.commit[.nameRefusals] == 0)
        #expect(bench.counters.events[.malformed] == 1)
    }

    @Test("a ledger that is full is written, even if nothing waits for it")
    func fullLedger() throws {
        let bench = CommitBench()
        let senders = 1...UInt64(Limits.blockSenderCountMax) + 40
        for round in 0..<2 {
            for sender in senders {
                bench.offer(RingRecordKind.framed, sequence: 0, sender: sender)
                for block in bench.turns() {
                    #expect(block.ledger.count <= Limits.blockSenderCountMax)
                }
            }
            if round == 0 {
                bench.clock.advance(milliseconds: 1_000)
                _ = bench.turns()
            }
        }
        bench.clock.advance(milliseconds: 1_000)
        _ = bench.turns()
        #expect(bench.counters.packetsOfCommit[.resend] == UInt64(senders.count))
    }

    @Test("a ledger entry waits 700 ms at most, and rows have the time at which the first came")
    func ledgerAlone() throws {
        let bench = CommitBench()
        bench.offer(
            RingRecordKind.framed, flags: RingRecordHeader.Flags.isMalformed, sequence: 0)
        #expect(bench.turn() == nil)
        bench.clock.advance(milliseconds: 690)
        // At the edge of the lead as of now; 690 ms ago it would have been too early.
        var early = bench.click()
        early.timestampMicroseconds = bench.clock.wallMicroseconds() + 300_000_000
        bench.offerBatch(sequence: 1, [early])
        let block = try #require(bench.turn())
        #expect(block.admissionTime == bench.clock.wallMicroseconds())
        #expect(bench.counters.events[.counted] == 1)
        #expect(bench.counters.events[.tooEarly] == 0)
        bench.offer(
            RingRecordKind.framed, flags: RingRecordHeader.Flags.isMalformed, sequence: 2)
        #expect(bench.turn() == nil)
        bench.clock.advance(milliseconds: 700)
        #expect(bench.turn()?.rows.rowCount == 0)
    }

    @Test("an event that opted out leaves no row and no name, only a count")
    func optOut() throws {
        let bench = CommitBench()
        var event = bench.click()
        event.consent = Consent.optOut.rawValue
        // One upon the other, they are in the log within a second all the same.
        for sequence in 0..<3 as Range<UInt64> {
            bench.offerBatch(sequence: sequence, [event])
            #expect(bench.turn() == nil)
            bench.clock.advance(milliseconds: 300)
        }
        let block = try #require(bench.turn())
        #expect(block.rows.rowCount == 0)
        #expect(block.names.count == 0)
        #expect(block.keys.isEmpty)
        #expect(block.ledger.first?.events[Int(Verdict.noConsent.rawValue)] == 3)
    }

    @Test("names beyond those that a block may hold go into the next one")
    func names() {
        let bench = CommitBench()
        let (packetCount, nameCount) = (40, 1_000)
        var counts: [Int] = []
        for packet in 0...packetCount {
            if packet == packetCount {
                bench.clock.advance(milliseconds: CommitBench.intervalMilliseconds)
            } else {
                var text = Array("business".utf8)
                let events = (0..<nameCount).map { name in
                    var event = bench.click()
                    let number = 10_000 + packet * nameCount + name
                    event.pairHash = UInt64(number)
                    (event.rewardOffset, event.rewardByteCount) = (UInt16(text.count), 5)
                    (event.businessOffset, event.businessByteCount) = (0, 8)
                    text += Array(String(number).utf8)
                    return event
                }
                bench.offer(
                    RingRecordKind.framed, sequence: UInt64(packet), text: text, events)
            }
            // Slots are used again, so that a block is looked at before the next turn.
            counts += bench.turns().map { $0.names.count }
        }
        #expect(counts.allSatisfy { $0 <= Limits.blockNameCountMax })
        // One of them was closed for its names, and not for its time.
        #expect(counts.contains { $0 > Limits.blockNameCountMax - 2 * nameCount })
        #expect(counts.reduce(0, +) == packetCount * nameCount + 1)
    }

    @Test("the largest amounts end blocks and segments, so that no sum of a segment passes 64 bits")
    func money() throws {
        let bench = CommitBench { $0.moneyMicrosMax = Limits.moneyMicrosMax }
        var event = bench.click()
        (event.revenueMicros, event.spendMicros) = (Limits.moneyMicrosMax, Limits.moneyMicrosMax)
        // More than fits one block, in packets of which a block takes several.
        let (eventCount, packetCount) = (800, 12 as UInt64)
        var sums: [SegmentNumber: UInt128] = [:]
        var greatest = 0
        for sequence in 0..<packetCount {
            bench.offerBatch(sequence: sequence, Array(repeating: event, count: eventCount))
            guard sequence % 6 == 5 else { continue }
            let taken = bench.turns()
            bench.clock.advance(milliseconds: 1_000)
            // Slots are used again in their order, and there are more of them.
            for block in taken + bench.turns() {
                let money = (0..<block.rows.moneyCount).reduce(UInt128(0)) {
                    $0 + UInt128(block.rows.revenue[$1]) + UInt128(block.rows.spend[$1])
                }
                #expect(money <= UInt128(Limits.blockMoneyMicrosMax))
                #expect(money == UInt128(block.rows.mark.moneyMicros))
                sums[block.context.segment, default: 0] += money
                greatest = max(greatest, block.rows.rowCount)
            }
        }
        let all = UInt128(eventCount) * UInt128(packetCount) * 2 * UInt128(Limits.moneyMicrosMax)
        #expect(sums.values.reduce(0, +) == all)
        #expect(sums.count > 1 && sums.values.allSatisfy { $0 <= UInt128(UInt64.max) })
        #expect(greatest > eventCount)
        #expect(bench.counters.events[.counted] == UInt64(eventCount) * packetCount)
    }

    @Test("what the clock refused from more than 400 days away belongs to the day of its admission")
    func refusedDays() throws {
        let bench = CommitBench()
        let day: Int64 = 86_400_000_000
        let now = bench.clock.wallMicroseconds()
        let today = Int32(now / day)
        let cases: [(days: Int64, expected: Int32)] = [
            (0, today), (-8, today - 8), (-399, today - 399), (-401, today), (-20_000, today),
            (2, today + 2), (401, today), (60_000, today),
        ]
        bench.offerBatch(
            sequence: 0,
            cases.map {
                var event = bench.click()
                event.timestampMicroseconds += $0.days * day
                return event
            })
        let block = try #require(bench.turn())
        #expect((0..<cases.count).map { block.rows.day[$0] } == cases.map(\.expected))
        #expect(block.rows.timestamp[5] == now + 2 * day)
        #expect(bench.counters.events[.tooOld] == 4 && bench.counters.events[.tooEarly] == 3)
    }

    @Test("a closed ring ends the stage, with what it held handed over")
    func end() throws {
        let bench = CommitBench()
        bench.offerBatch(sequence: 0, [bench.click()])
        #expect(bench.turn() != nil)
        bench.offerBatch(sequence: 1, [bench.click()])
        bench.producer.close()
        #expect(bench.turn()?.rows.rowCount == 1)
        #expect(bench.links.toSync.isFinished)
    }
}
