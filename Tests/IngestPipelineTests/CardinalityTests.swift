import IngestFormat
import Testing

@testable import IngestPipeline

/// What gives names and keys, and how many.
struct CardinalityTests {
    private static func verdicts(of block: BlockSlot) -> [Verdict?] {
        (0..<block.rows.rowCount).map {
            RowAttributes(rawValue: block.rows.attributes[$0]).verdict
        }
    }

    @Test(
        "W9: a refused event gives no name and no key, and is a row only where all its names are known"
    )
    func refusedNames() throws {
        let bench = CommitBench()
        var refused = (0..<4).map { _ in bench.click() }
        refused[0].timestampMicroseconds -= 700_000_000_000
        refused[1].timestampMicroseconds += 700_000_000_000
        refused[2].flags |= EventDescriptor.Flags.isInvalidTraffic
        refused[3].flags |= EventDescriptor.Flags.isWrongBusiness
        for index in refused.indices {
            // "reward" as a platform.
            (refused[index].platformByteCount, refused[index].platformHash) = (6, 77)
        }
        var hidden = bench.unmeasured()
        hidden.flags |= EventDescriptor.Flags.isMeasured
        let verdicts: [Verdict] = [
            .tooOld, .tooEarly, .invalidTraffic, .wrongBusiness, .notViewable,
        ]
        bench.offerBatch(sequence: 0, refused + [hidden])
        #expect(bench.turn() == nil)
        bench.clock.advance(milliseconds: 700)
        let first = try #require(bench.turn())
        #expect(first.rows.rowCount == 0 && first.names.count == 0 && first.keys.isEmpty)
        for verdict in verdicts {
            #expect(first.ledger.first?.events[Int(verdict.rawValue)] == 1)
        }
        bench.clock.advance(milliseconds: 10)
        bench.offerBatch(sequence: 1, [bench.click()] + refused + [hidden])
        let second = try #require(bench.turns().first { $0.rows.rowCount > 0 })
        #expect(second.names.count == 2 && second.keys.count == 1)
        // Their platform is not known either, but of the last.
        #expect(Self.verdicts(of: second) == [.counted, .notViewable])
        for index in refused.indices { refused[index].platformByteCount = 0 }
        bench.clock.advance(milliseconds: 10)
        bench.offerBatch(sequence: 2, refused + [hidden])
        let third = try #require(bench.turns().first { $0.rows.rowCount > 0 })
        #expect(third.names.count == 0 && third.keys.isEmpty)
        #expect(Self.verdicts(of: third) == [.tooOld, .tooEarly, .invalidTraffic, .notViewable])
        // What counts gives the platform its name; from then on it is known of the others too.
        var known = bench.click()
        (known.platformByteCount, known.platformHash) = (6, 77)
        for index in refused.indices { refused[index].platformByteCount = 6 }
        bench.clock.advance(milliseconds: 10)
        bench.offerBatch(sequence: 3, [known] + refused)
        let fourth = try #require(bench.turns().first { $0.rows.rowCount > 0 })
        #expect(fourth.names.count == 1)
        #expect(Self.verdicts(of: fourth) == [.counted, .tooOld, .tooEarly, .invalidTraffic])
    }

    @Test(
        "where all keys are given a new pair is malformed, and gives no name either",
        arguments: [0, 1])
    func keysFull(keysLeft: UInt32) throws {
        var dictionary = NameDictionary()
        dictionary.reserve(nextName: 5, nextKey: UInt32(Limits.keyCountMax) - keysLeft)
        let bench = CommitBench(dictionary: dictionary)
        bench.offerBatch(sequence: 0, [bench.click()])
        var blocks = bench.turns()
        bench.clock.advance(milliseconds: 700)
        blocks += bench.turns()
        let given = blocks.reduce(0) { $0 + $1.names.count }
        let rows = blocks.reduce(0) { $0 + $1.rows.rowCount }
        #expect(given == 2 * Int(keysLeft) && rows == Int(keysLeft))
        let malformed = blocks.reduce(0) {
            $0 + ($1.ledger.first?.events[Int(Verdict.malformed.rawValue)] ?? 0)
        }
        #expect(malformed == UInt64(1 - keysLeft))
    }

    @Test("a name is known to refused events whatever else it names, as it is after a start")
    func sharedName() throws {
        let bench = CommitBench()
        bench.offerBatch(sequence: 0, [bench.click()])
        #expect(bench.turns().first { $0.rows.rowCount > 0 } != nil)
        var refused = bench.click()
        refused.timestampMicroseconds -= 700_000_000_000
        // The name of the reward as a platform.
        refused.platformByteCount = refused.rewardByteCount
        refused.platformHash = KeyedHash(key: .init(repeating: 7)).name(Array("reward-1".utf8))
        bench.clock.advance(milliseconds: 10)
        bench.offerBatch(sequence: 1, [refused])
        let block = try #require(bench.turns().first { $0.rows.rowCount > 0 })
        #expect(Self.verdicts(of: block) == [.tooOld])
        #expect(block.rows.platform[0] != 0 && block.names.count == 0)
    }

    @Test("a refused event takes no room for platforms")
    func refusedPlatform() throws {
        var bound = AttributionBound()
        bound.platformCountMax = 1
        let bench = CommitBench(bound: bound)
        var (refused, counted) = (bench.click(), bench.click())
        refused.timestampMicroseconds -= 700_000_000_000
        let hash = KeyedHash(key: .init(repeating: 7))
        for (name, offset) in [("reward-1", 0), ("business-1", 8)] as [(String, UInt16)] {
            var event = offset == 0 ? refused : counted
            event.platformOffset = offset
            event.platformByteCount = UInt8(name.utf8.count)
            event.platformHash = hash.name(Array(name.utf8))
            if offset == 0 { refused = event } else { counted = event }
        }
        var platforms: [[Bool]] = []
        for (sequence, events) in [[bench.click()], [refused, refused], [counted, refused]]
            .enumerated()
        {
            bench.offerBatch(sequence: UInt64(sequence), events)
            let rows = try #require(bench.turns().first { $0.rows.rowCount > 0 }).rows
            platforms.append((0..<rows.rowCount).map { rows.platform[$0] != 0 })
            bench.clock.advance(milliseconds: 10)
        }
        #expect(platforms == [[false], [true, true], [true, false]])
    }

    @Test("an event of another business than its key's is no row, whatever else refuses it")
    func otherBusiness() throws {
        let bench = CommitBench(policy: CountingPolicy(countsConsentNotSet: false))
        var known = bench.click()
        known.consent = Consent.optIn.rawValue
        var notSet = bench.click()
        notSet.consent = Consent.notSet.rawValue
        var alien = notSet
        alien.flags |= EventDescriptor.Flags.isWrongBusiness
        bench.offerBatch(sequence: 0, [known, notSet, alien])
        let slot = try #require(bench.turns().first { $0.rows.rowCount > 0 })
        #expect(Self.verdicts(of: slot) == [.counted, .noConsent])
    }

    @Test(
        "rewards beyond the limit of their business share a key, and rows keep the hashes of their names"
    )
    func otherRewards() throws {
        let bench = CommitBench { $0.rewardKeyCountMax = 2 }
        let hash = KeyedHash(key: .init(repeating: 7))
        let events = (1...5 as ClosedRange<UInt8>).map { byteCount in
            var event = bench.click()
            (event.rewardByteCount, event.pairHash) = (byteCount, UInt64(byteCount))
            return event
        }
        for sequence in 0..<2 as Range<UInt64> {
            bench.offerBatch(sequence: sequence, events)
            let block = try #require(bench.turns().first { $0.rows.rowCount > 0 })
            // The business, two rewards and the one for all others, of which the second block has none.
            #expect(block.names.count == (sequence == 0 ? 4 : 0))
            #expect(block.keys.count == (sequence == 0 ? 3 : 0))
            #expect((0..<5).map { block.rows.key[$0] } == [0, 1, 2, 2, 2])
            let marks = (0..<5).map {
                RowAttributes(rawValue: block.rows.attributes[$0]).isOverflow
            }
            #expect(marks == [false, false, true, true, true])
            let hashes = (0..<block.rows.rewardHashCount).map { block.rows.rewardHash[$0] }
            #expect(hashes == (3...5).map { hash.name(Array(CommitBench.name[..<$0])) })
            bench.clock.advance(milliseconds: 10)
        }
        #expect(bench.counters.events[.counted] == 10)
    }

    @Test("an event with more money than one may have is malformed, and gives no name")
    func moneyMax() throws {
        let bench = CommitBench { $0.moneyMicrosMax = 5_000_000 }
        let amounts: [(revenue: Int64, spend: Int64)] = [
            (5_000_001, 0), (0, 5_000_001), (5_000_000, 5_000_000), (5_000_001, 5_000_001), (0, 0),
        ]
        var events = amounts.map { amounts in
            var event = bench.click()
            (event.revenueMicros, event.spendMicros) = amounts
            return event
        }
        // The first two come before their names are known, and opt-out goes before all.
        events.append(events[0])
        events[5].consent = Consent.optOut.rawValue
        bench.offerBatch(sequence: 0, events)
        let block = try #require(bench.turns().first { $0.rows.rowCount > 0 })
        #expect(Self.verdicts(of: block) == [.counted, .counted])
        #expect(block.rows.revenue[0] == 5_000_000 && block.rows.spend[0] == 5_000_000)
        #expect(block.keys.count == 1)
        #expect(bench.counters.events[.malformed] == 3 && bench.counters.events[.noConsent] == 1)
        #expect(bench.counters.commit[.moneyRefusals] == 3)
        #expect(block.ledger.first?.events[Int(Verdict.malformed.rawValue)] == 3)
    }
}
