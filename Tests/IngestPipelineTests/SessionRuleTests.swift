import IngestFormat
import IngestRing
import TestSupport
import Testing

@testable import IngestPipeline

/// Sessions at the commit stage: what is counted once, what is invalid, what follows what.
struct SessionRuleTests {
    private static let second: Int64 = 1_000_000

    @Test(
        "What comes in one turn, into several blocks, is judged as if it came packet by packet",
        arguments: 0..<6, [false, true])
    func turns(seed: UInt64, hasNewKey: Bool) {
        var random = SeededRandom(seed: seed)
        let rings = [Bench.ring(), Bench.ring()]
        // Some hundred rows fill a block, in the middle of a turn.
        let together = Bench(keys: rings[0], segmentByteCountMax: 12_000)
        let apart = Bench(keys: rings[1])
        var packets: [Packet] = []
        var sequence: UInt64 = 0
        for _ in 0..<30 {
            // One in four comes a second time, and is refused; so the events of a turn are not all admitted.
            let isResend = sequence > 0 && random.next(upperBound: UInt64(4)) == 0
            let events = (0..<[0, 3, 20, 150][Int(random.next(upperBound: UInt64(4)))]).map { _ in
                // Places in "reward-1business-1": 11 different letters, or none.
                let session = Int(random.next(upperBound: UInt64(16)))
                return together.event(
                    [.impression, .impression, .click][Int(random.next(upperBound: UInt64(3)))],
                    session: session < 12 ? session : nil,
                    reward: 1 + random.next(upperBound: UInt64(30)),
                    id: random.next(upperBound: UInt64(2)) == 0
                        ? nil : random.next(upperBound: UInt64(500)))
            }
            if random.next(upperBound: UInt64(5)) == 0 {
                packets.append((RingRecordKind.plain, 0, events))
            } else {
                packets.append(
                    (RingRecordKind.framed, isResend ? sequence - 1 : sequence, events))
                if !isResend { sequence += 1 }
            }
        }
        if hasNewKey {
            // Sessions that have begun keep their key, so that only pseudonyms differ by when it was replaced.
            for (ring, bench) in zip(rings, [together, apart]) {
                bench.bench.offerBatch(sequence: 1_000, [bench.impression(session: 3, reward: 99)])
                _ = bench.bench.turns()
                var keys = Bench.keys()
                keys.renew(at: 1_763_600_000_000_000 + 86_400 * Self.second, random: &random)
                ring.replace(by: keys)
            }
        }
        let judged = together.send(packets)
        #expect(packets.reduce(0) { $0 + $1.events.count } > judged.count)
        #expect(judged == packets.flatMap { apart.send([$0]) })
        if hasNewKey { return }
        #expect(together.pseudonyms == apart.pseudonyms && Set(apart.pseudonyms).count == 11)
        #expect(judged.contains(.sessionRepeat) && judged.contains(.orphan))
    }

    @Test("An impression of a reward counts once a session, with or without an id")
    func onceASession() throws {
        let bench = Bench()
        let found = try bench.send([
            bench.impression(), bench.impression(), bench.impression(id: 5),
            bench.impression(id: 6, after: 3_000), bench.impression(reward: 2),
            bench.impression(session: 1), bench.impression(session: nil),
            bench.impression(session: nil, id: 9), bench.impression(session: 1, id: 9),
        ])
        #expect(
            found == [
                .counted, .sessionRepeat, .sessionRepeat, .sessionRepeat, .counted, .counted,
                .unchecked, .counted, .duplicate,
            ])
        // Two sessions, and the same pseudonym for one session every time.
        #expect(bench.pseudonyms.count == 7 && Set(bench.pseudonyms).count == 2)
        #expect(bench.pseudonyms.allSatisfy { $0 < 1 << 48 })
        // What a session's repeat had as its id is free: it was not counted.
        #expect(try bench.send([bench.impression(session: nil, id: 5)]) == [.counted])
    }

    @Test(
        "A session ends when it was not seen for longer than the time-out",
        arguments: [(-1, true), (0, true), (1, false)])
    func timeOut(milliseconds: Int, isRepeat: Bool) throws {
        let bench = Bench(SessionPolicy(timeoutSeconds: 10))
        #expect(try bench.send([bench.impression()]) == [.counted])
        // The turns of the bench take two intervals.
        let turn = 2 * CommitBench.intervalMilliseconds
        bench.advance(milliseconds: 10_000 - turn + milliseconds)
        #expect(try bench.send([bench.impression()]) == [isRepeat ? .sessionRepeat : .counted])
    }

    @Test("Any event of a session lets it go on, whatever becomes of it")
    func goesOn() throws {
        let bench = Bench(SessionPolicy(timeoutSeconds: 10))
        #expect(try bench.send([bench.impression(), bench.click(id: 1)]) == [.counted, .counted])
        for _ in 0..<5 {
            bench.advance(milliseconds: 9_000)
            #expect(try bench.send([bench.click(id: 1)]) == [.duplicate])
        }
        #expect(try bench.send([bench.impression()]) == [.sessionRepeat])
    }

    @Test("Clicks too near to each other are invalid, and a resent one is a duplicate")
    func clicks() throws {
        let bench = Bench()
        let found = try bench.send([
            bench.impression(), bench.click(id: 1), bench.click(id: 1),
            bench.click(id: 2, after: 999_999), bench.click(id: 3, after: 1_000_000),
            bench.click(after: 1_999_999), bench.click(id: 2, after: 2_000_000),
            bench.click(session: 1, id: 1), bench.click(session: 1),
        ])
        #expect(
            found == [
                .counted, .counted, .duplicate, .invalid(.clickInterval), .counted,
                .invalid(.clickInterval), .counted, .duplicate, .orphan,
            ])
    }

    @Test("More events of a session and minute than the limits are invalid")
    func rates() throws {
        let bench = Bench(
            SessionPolicy(
                clickIntervalMilliseconds: 0, impressionsPerMinuteMax: 2, clicksPerMinuteMax: 1))
        let minute = 60 * Self.second
        var notViewable = bench.impression()
        notViewable.flags = EventDescriptor.Flags.isMeasured
        // What breaks a rate gives no name: of a reward that is not known it is no row. No more does what repeats an id.
        let first = try bench.send([
            bench.impression(), notViewable, bench.impression(), notViewable,
            bench.impression(reward: 4), bench.click(id: 1), bench.click(id: 1), bench.click(id: 2),
            bench.click(reward: 5, id: 3), bench.event(.redemption),
            bench.impression(session: 1, reward: 4), bench.click(reward: 6, id: 1),
        ])
        #expect(
            first == [
                .counted, Judged(verdict: .notViewable), .invalid(.impressionRate),
                .invalid(.impressionRate), .counted, .duplicate, .invalid(.clickRate), .counted,
                .counted,
            ])
        #expect(bench.bench.counters.events[.invalidTraffic] == 5)
        #expect(bench.bench.counters.events[.conflict] == 1)
        bench.advance(milliseconds: Int(minute / 1_000))
        #expect(
            try bench.send([bench.impression(reward: 4), bench.click(id: 2)])
                == [.counted, .counted])
    }

    @Test("Clicks and redemptions without an impression before are orphans, and are counted")
    func orphans() throws {
        let bench = Bench()
        let found = try bench.send([
            bench.click(), bench.event(.redemption, id: 4), bench.impression(),
            bench.event(.redemption, id: 5), bench.click(reward: 2), bench.click(session: nil),
            bench.click(session: nil, id: 7),
        ])
        #expect(
            found == [
                .orphan, .orphan, .counted, .counted, .orphan, .unchecked, .counted,
            ])
    }

    @Test("Sessions for which there is no room count their events, unchecked")
    func full() throws {
        let bench = Bench(SessionPolicy(timeoutSeconds: 10, keyCountMax: 3))
        let events = [
            bench.impression(), bench.impression(reward: 2), bench.impression(reward: 3),
            bench.impression(session: 1), bench.impression(session: 1, id: 8),
            bench.click(session: 1, id: 8), bench.click(session: 1), bench.click(reward: 3, id: 9),
        ]
        let found = try bench.send(events)
        // The last is no orphan: an impression for which there was no room was counted.
        #expect(
            found == [
                .counted, .counted, .unchecked, .unchecked, .unchecked, .counted, .unchecked,
                .counted,
            ])
        // Once the first session has ended there is room again. The second may have begun before.
        let turn = 2 * CommitBench.intervalMilliseconds
        bench.advance(milliseconds: 10_000 - turn)
        #expect(try bench.send([bench.click(session: 2, id: 10)]) == [.counted])
        bench.advance(milliseconds: 1)
        let isKnown = try bench.send([bench.impression(session: 1), bench.impression(session: 1)])
        #expect(isKnown == [.unchecked, .sessionRepeat])
        bench.advance(milliseconds: 10_001)
        #expect(
            try bench.send([bench.impression(session: 1), bench.impression(session: 1)])
                == [.counted, .sessionRepeat])
    }

    @Test("Events that are refused before are no part of a session")
    func refused() throws {
        let bench = Bench()
        var optOut = bench.impression()
        optOut.consent = Consent.optOut.rawValue
        var marked = bench.impression()
        marked.flags = EventDescriptor.Flags.isInvalidTraffic
        let old = bench.impression(after: -30 * 86_400 * Self.second)
        #expect(try bench.send([bench.impression(session: 1)]) == [.counted])
        #expect(
            try bench.send([optOut, marked, old])
                == [.invalid(.sender), Judged(verdict: .tooOld)])
        #expect(bench.pseudonyms.isEmpty)
        #expect(try bench.send([bench.impression()]) == [.counted])
    }

    @Test("Without keys, or with the rule off, no session is kept", arguments: [false, true])
    func off(hasKeys: Bool) throws {
        let keys = hasKeys ? Bench.ring() : SessionKeyRing()
        let bench = Bench(SessionPolicy(isOn: !hasKeys), keys: keys)
        let events = [
            bench.impression(), bench.impression(), bench.click(id: 1), bench.impression(id: 2),
            bench.impression(id: 2), bench.impression(session: nil, id: 3),
        ]
        // Whether it is the first of its session nobody knows, which matters where the rule is on.
        let withID = hasKeys ? Judged.counted : .unchecked
        #expect(
            try bench.send(events)
                == [.unchecked, .unchecked, .counted, withID, .duplicate, .counted])
        #expect(bench.pseudonyms.isEmpty)
    }

    @Test("Sessions that went on when the first key came, or when keys went early, are unchecked")
    func lateKey() throws {
        let ring = SessionKeyRing()
        let bench = Bench(SessionPolicy(timeoutSeconds: 10), keys: ring)
        #expect(try bench.send([bench.impression(id: 1)]) == [.unchecked])
        for seed in 1...2 as ClosedRange<UInt64> {
            ring.replace(by: Bench.keys(seed: seed))
            #expect(
                try bench.send([bench.impression(id: 1 + seed), bench.impression()])
                    == [.unchecked, .sessionRepeat])
            bench.advance(milliseconds: 20_001)
            #expect(try bench.send([bench.impression(id: 10 + seed)]) == [.counted])
        }
    }

    @Test("A session keeps the key under which it was first seen, a new one gets the new key")
    func newKey() throws {
        let ring = SessionKeyRing()
        var keys = SessionKeys(directory: DirectoryID(rawValue: 1))
        var random = SeededRandom(seed: 2)
        let now: Int64 = 1_763_600_000_000_000
        keys.renew(at: now, random: &random)
        ring.replace(by: keys)
        let bench = Bench(keys: ring)
        #expect(try bench.send([bench.impression()]) == [.counted])
        let first = bench.pseudonyms
        keys.renew(at: now + 86_400 * Self.second, random: &random)
        ring.replace(by: keys)
        #expect(
            try bench.send([bench.impression(), bench.impression(session: 1)])
                == [.sessionRepeat, .counted])
        #expect(bench.pseudonyms.first == first.first)
        let second = bench.pseudonyms[1]
        // Destroyed, both at once: the session of the first key cannot be told any more, nor is it known to be a new one.
        keys.renew(at: now + 3 * 86_400 * Self.second, random: &random)
        ring.replace(by: keys)
        #expect(try bench.send([bench.impression()]) == [.unchecked])
        #expect(!first.contains(bench.pseudonyms[0]) && bench.pseudonyms[0] != second)
    }

    @Test(
        "Of sessions that went on when their key's time was over not all is known, of others it is",
        arguments: [true, false])
    func expiredKey(goesOn: Bool) throws {
        let ring = SessionKeyRing()
        var keys = SessionKeys(directory: DirectoryID(rawValue: 1))
        var random = SeededRandom(seed: 3)
        let now: Int64 = 1_763_600_000_000_000
        keys.renew(at: now, random: &random)
        ring.replace(by: keys)
        let bench = Bench(keys: ring)
        #expect(try bench.send([bench.impression()]) == [.counted])
        keys.renew(at: now + 86_400 * Self.second, random: &random)
        ring.replace(by: keys)
        #expect(try bench.send([bench.impression()]) == [.sessionRepeat])
        if !goesOn { bench.advance(milliseconds: 600_001) }
        // The first key is destroyed, the second is not.
        keys.renew(at: now + 2 * 86_400 * Self.second, random: &random)
        ring.replace(by: keys)
        #expect(try bench.send([bench.impression()]) == [goesOn ? .unchecked : .counted])
    }

    @Test(
        "A session's repeat is one whether or not its names are known, also outside of the window")
    func repeatOutsideWindow() throws {
        let start: Int64 = 1_763_600_000_000_000
        let bench = Bench(idsCompleteSince: start)
        #expect(try bench.send([bench.impression()]) == [.counted])
        var named = bench.impression(id: 1)
        named.timestampMicroseconds = start
        let unnamed = named
        // "reward" as a platform, which nobody has named before.
        (named.platformByteCount, named.platformHash) = (6, 77)
        #expect(try bench.send([unnamed, named]) == [.sessionRepeat, .sessionRepeat])
    }
}
