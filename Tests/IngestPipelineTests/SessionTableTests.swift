import IngestFormat
import TestSupport
import Testing

@testable import IngestPipeline

/// The room that sessions take, and give back.
struct SessionTableTests {
    private static let second: Int64 = 1_000_000

    private static func begin(
        _ pseudonym: UInt64, rewards: Range<UInt32>, at now: Int64, in table: inout SessionTable
    ) -> Bool {
        guard let session = table.begin(pseudonym, now: now, isPartial: false) else { return false }
        for key in rewards where !table.noteImpression(session, key) { return false }
        return true
    }

    @Test("Ended sessions and their rewards make room, in a table of many too")
    func room() {
        var table = SessionTable(SessionPolicy(timeoutSeconds: 10, keyCountMax: 40_000))
        for round in 0..<10 as Range<Int64> {
            let now = round * 11 * Self.second
            // Blocks that come after the sessions of the round before have ended.
            for _ in 0..<256 { table.open(now: now) }
            for number in 0..<4_000 as Range<UInt64> {
                let pseudonym = number * 0x5DEE_CE66 + UInt64(round)
                let hadRoom = Self.begin(pseudonym, rewards: 0..<9, at: now, in: &table)
                #expect(hadRoom)
            }
            // As many as the table may have.
            #expect(table.begin(1 << 47, now: now, isPartial: false) == nil)
            let session = table.find(3_999 * 0x5DEE_CE66 + UInt64(round), now: now)!
            #expect(table.isKnown(session) == true)
            #expect(table.hasImpression(session, 8) == true)
            #expect(table.noteClick(session, 8, at: 0) == false)
            #expect(table.isKnown(session) == false)
        }
    }

    @Test("A session that begins anew has nothing of the one before")
    func restart() {
        var table = SessionTable(SessionPolicy(timeoutSeconds: 10))
        let end = 10 * Self.second
        #expect(Self.begin(5, rewards: 0..<100, at: 0, in: &table) == true)
        let first = table.find(5, now: end)!
        for key in 0...100 as ClosedRange<UInt32> {
            #expect(table.hasImpression(first, key) == (key < 100))
        }
        #expect(table.noteClick(first, 3, at: 77) == true)
        #expect(table.lastClick(first, 3) == 77)
        #expect(table.lastClick(first, 4) == nil)
        #expect(table.find(5, now: end + 1) == nil)
        #expect(Self.begin(5, rewards: 200..<201, at: end + 1, in: &table) == true)
        let second = table.find(5, now: end + 1)!
        for key in [0, 3, 99] as [UInt32] {
            #expect(table.hasImpression(second, key) == false)
        }
        #expect(table.hasImpression(second, 200) == true)
        #expect(table.lastClick(second, 3) == nil)
    }

    @Test("Rows that are missed leave what was going on unknown, and what begins later known")
    func missed() {
        var table = SessionTable(SessionPolicy())
        let first = table.begin(1, now: 0, isPartial: false)!
        #expect(table.isKnown(first) == true)
        table.missRows()
        #expect(table.isKnown(first) == false)
        let second = table.begin(2, now: 0, isPartial: false)!
        #expect(table.isKnown(second) == true)
        let partial = table.begin(3, now: 0, isPartial: true)!
        #expect(table.isKnown(partial) == false)
    }

    @Test("Memory of small sessions serves large ones, and that of large ones small ones")
    func sizes() {
        let countMax: UInt32 = 20_000
        var table = SessionTable(
            SessionPolicy(timeoutSeconds: 10, keyCountMax: Int(countMax)))
        for (round, rewardCount) in [1, 60, 13, 4_000, 1, 25].enumerated()
            as EnumeratedSequence<[UInt32]>
        {
            let now = Int64(round) * 11 * Self.second
            for _ in 0..<64 { table.open(now: now) }
            for number in 0..<UInt64(countMax / (rewardCount + 1)) {
                let pseudonym = number * 0x5DEE_CE66 + UInt64(round)
                let hadRoom = Self.begin(pseudonym, rewards: 0..<rewardCount, at: now, in: &table)
                #expect(hadRoom)
            }
        }
    }

    @Test("A session that ended while the table grows begins anew where it lies")
    func growing() {
        var table = SessionTable(SessionPolicy(timeoutSeconds: 10))
        let end = 10 * Self.second + 1
        for pseudonym in 1...2_048 as ClosedRange<UInt64> {
            #expect(Self.begin(pseudonym << 37, rewards: 0..<1, at: 0, in: &table) == true)
        }
        // Half full: the next one has it grow.
        #expect(Self.begin(1 << 20, rewards: 0..<1, at: end, in: &table) == true)
        for pseudonym in 1...2_048 as ClosedRange<UInt64> {
            #expect(table.find(pseudonym << 37, now: end) == nil)
            #expect(Self.begin(pseudonym << 37, rewards: 5..<6, at: end, in: &table) == true)
        }
        for pseudonym in 1...2_048 as ClosedRange<UInt64> {
            let session = table.find(pseudonym << 37, now: end)!
            #expect(table.hasImpression(session, 5) == true)
            #expect(table.hasImpression(session, 0) == false)
        }
    }

    @Test(
        "All rewards of a session take room and give it back, those in its node and those elsewhere"
    )
    func counts() {
        for rewardCount in [0, 1, 7, 8, 9, 15, 16, 17, 33] as [UInt32] {
            for clickCount in [0, 1, 2, 6] as [UInt32] {
                let keyCount = 1 + Int(rewardCount + clickCount)
                var table = SessionTable(
                    SessionPolicy(timeoutSeconds: 10, keyCountMax: keyCount))
                for round in 0..<3 as Range<Int64> {
                    let now = round * 11 * Self.second
                    // The one of the round before has ended: the same again begins in its place, another one behind it.
                    let pseudonym: UInt64 = round == 2 ? 8 << 40 : 7 << 40
                    if round == 2 { table.open(now: now) }
                    #expect(
                        Self.begin(pseudonym, rewards: 0..<rewardCount, at: now, in: &table) == true
                    )
                    let session = table.find(pseudonym, now: now)!
                    for key in 0..<clickCount {
                        #expect(table.noteClick(session, key, at: now) == true)
                    }
                    for key in 0..<40 as Range<UInt32> {
                        #expect(table.hasImpression(session, key) == (key < rewardCount))
                        #expect(table.lastClick(session, key) == (key < clickCount ? now : nil))
                    }
                    #expect(table.isKnown(session) == true)
                    #expect(table.begin(9 << 40, now: now, isPartial: false) == nil)
                }
            }
        }
    }

    @Test("A session has 65,536 rewards outside its node at most, of impressions as of clicks")
    func largest() {
        var table = SessionTable(SessionPolicy(timeoutSeconds: 10))
        let session = table.begin(9, now: 0, isPartial: false)!
        let impressionCount = 65_536 + 16 as UInt32
        let clickCount = 65_536 + 1 as UInt32
        for key in 0..<impressionCount where !table.noteImpression(session, key) {
            Issue.record("no room for the impression of \(key)")
        }
        for key in 0..<clickCount where !table.noteClick(session, key, at: 7) {
            Issue.record("no room for the click on \(key)")
        }
        #expect(table.isKnown(session) == true)
        #expect(table.noteImpression(session, impressionCount) == false)
        #expect(table.isKnown(session) == false)
        #expect(table.noteClick(session, clickCount, at: 7) == false)
        #expect(table.hasImpression(session, impressionCount - 1) == true)
        #expect(table.hasImpression(session, impressionCount) == false)
        #expect(table.lastClick(session, clickCount - 1) == 7)
        #expect(table.lastClick(session, clickCount) == nil)
    }

    @Test("The sweep goes round in a quarter of the time-out, faster in a table nearly full")
    func sweep() {
        let (timeout, block) = (40 * Self.second, Self.second / 20)
        let pseudonyms = (0..<20_000 as Range<UInt64>).map { SplitMix.finish($0) >> 16 }
        for isFull in [false, true] {
            var table = SessionTable(
                SessionPolicy(timeoutSeconds: 40, keyCountMax: isFull ? 20_000 : 100_000))
            func blocks(from first: Int64, through last: Int64) {
                for now in stride(from: first, through: last, by: Int(block)) {
                    table.open(now: now)
                }
            }
            func count() -> Int { pseudonyms.count { table.nodeNumber(of: $0) != nil } }
            table.open(now: 0)
            for pseudonym in pseudonyms {
                #expect(Self.begin(pseudonym, rewards: 0..<0, at: 0, in: &table) == true)
            }
            blocks(from: block, through: timeout)
            // They go on up to now.
            #expect(pseudonyms.allSatisfy { table.find($0, now: timeout) != nil })
            blocks(from: timeout + block, through: timeout + 5 * block)
            // In 250 ms a 40th of a quarter of the time-out; seven eighths are nearly full.
            #expect(isFull ? count() <= 17_500 : 19_000...19_600 ~= count())
            blocks(from: timeout + 6 * block, through: timeout + timeout / 8)
            #expect(count() > 5_000)
            blocks(from: timeout + timeout / 8 + block, through: timeout + timeout / 4 + 2 * block)
            #expect(count() == 0)
        }
    }

    @Test("A full table has room once sessions have ended, also while its index grows")
    func roomWhileGrowing() {
        var table = SessionTable(SessionPolicy(timeoutSeconds: 10, keyCountMax: 2_100))
        for number in 0..<2_100 as Range<UInt64> {
            let pseudonym = SplitMix.finish(number) >> 16
            #expect(Self.begin(pseudonym, rewards: 0..<0, at: 0, in: &table) == true)
        }
        let end = 10 * Self.second + 1
        table.advance(to: end)
        // The index has 4,096 places to move, 256 at a time.
        let first = (0..<20 as Range<UInt64>).first {
            Self.begin(1 << 40 | $0 << 20, rewards: 0..<0, at: end, in: &table)
        }
        #expect(first != nil)
    }

    @Test("Sessions that begin take out ended ones, also where no block does")
    func roomWithoutBlocks() {
        // Nearly full, and far from it: 400 sessions, 800 keys, are going on at a time.
        for keyCountMax in [2_000, 1 << 24] {
            var table = SessionTable(
                SessionPolicy(timeoutSeconds: 10, keyCountMax: keyCountMax))
            let pseudonyms = (0..<20_000 as Range<UInt64>).map { SplitMix.finish($0) >> 16 }
            for (number, pseudonym) in pseudonyms.enumerated() {
                let now = Int64(number) * Self.second / 40
                table.advance(to: now)
                let isThere = Self.begin(pseudonym, rewards: 3..<4, at: now, in: &table)
                guard isThere else {
                    Issue.record("no room for session \(number)")
                    return
                }
            }
            // Those of a quarter of the time-out, and those that the last round came by too early for.
            #expect(pseudonyms.count { table.nodeNumber(of: $0) != nil } <= 600)
        }
    }

    private struct Model {
        var seenAt: Int64
        var impressions: Set<UInt32> = []
        var clicks: [UInt32: Int64] = [:]
    }

    @Test(
        "Random sessions with impressions and clicks in any order are as a dictionary has them",
        arguments: [1, 2, 3])
    func model(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var table = SessionTable(SessionPolicy(timeoutSeconds: 10))
        var models: [UInt64: Model] = [:]
        var (now, begunAnew, largest) = (0 as Int64, 0, 0)
        for step in 0..<60_000 {
            now += Int64(random.next() % 20_000)
            if step % 50 == 0 { table.open(now: now) }
            let pseudonym = SplitMix.finish(random.next() % 300 * (random.next() % 4)) >> 16
            let key = UInt32(random.next() % 60)
            var session = table.find(pseudonym, now: now)
            let known = models[pseudonym].flatMap { now - $0.seenAt > 10_000_000 ? nil : $0 }
            #expect((session != nil) == (known != nil))
            if session == nil {
                begunAnew += models[pseudonym] != nil ? 1 : 0
                session = table.begin(pseudonym, now: now, isPartial: false)
            }
            guard let session else {
                Issue.record("no room at \(step)")
                return
            }
            var model = known ?? Model(seenAt: now)
            (session.pointee.seenAt, model.seenAt) = (now, now)
            for key in 0..<60 as Range<UInt32> {
                guard table.hasImpression(session, key) == model.impressions.contains(key),
                    table.lastClick(session, key) == model.clicks[key]
                else {
                    Issue.record("key \(key) at \(step)")
                    return
                }
            }
            // Some have clicks before impressions, some few of either, some all.
            if random.next() % 4 == 0 {
                #expect(table.noteClick(session, key, at: now) == true)
                model.clicks[key] = now
            } else if !model.impressions.contains(key) {
                #expect(table.noteImpression(session, key) == true)
                model.impressions.insert(key)
            }
            #expect(table.isKnown(session) == true)
            largest = max(largest, model.impressions.count)
            models[pseudonym] = model
        }
        #expect(begunAnew > 1_000 && largest > 30)
    }

    @Test("Each reward of a session has its own last click")
    func clicks() {
        var table = SessionTable(SessionPolicy(timeoutSeconds: 10))
        let session = table.begin(9, now: 0, isPartial: false)!
        for round in 0..<2 as Range<Int64> {
            for key in 0..<500 as Range<UInt32> {
                #expect(table.lastClick(session, key) == (round == 0 ? nil : Int64(key)))
                #expect(table.noteClick(session, key, at: Int64(key) + round) == true)
                #expect(table.lastClick(session, key) == Int64(key) + round)
            }
        }
    }

    @Test("A session is known by all of its pseudonym, also where another one has its node by now")
    func nodes() {
        var table = SessionTable(SessionPolicy(timeoutSeconds: 10))
        // They differ in bits that the index does not have.
        let (first, second) = (7 << 16 | 1 as UInt64, 7 << 16 | 2 as UInt64)
        #expect(table.nodeNumber(of: first) == nil)
        #expect(Self.begin(first, rewards: 0..<3, at: 0, in: &table) == true)
        #expect(table.find(second, now: 0) == nil)
        #expect(Self.begin(second, rewards: 3..<40, at: 0, in: &table) == true)
        let node = table.nodeNumber(of: first)!
        var foundCount = 0
        for (pseudonym, keys) in [(first, 0..<3), (second, 3..<40)] as [(UInt64, Range<UInt32>)] {
            let session = table.find(pseudonym, now: 0)!
            // One of the two is there.
            let there = table.find(pseudonym, atNode: node, now: 0)
            #expect(there == session || there == nil)
            foundCount += there == nil ? 0 : 1
            for key in 0..<41 as Range<UInt32> {
                #expect(table.hasImpression(session, key) == keys.contains(key))
            }
        }
        #expect(foundCount == 1)
        let end = 10 * Self.second + 1
        table.open(now: end)
        #expect(table.find(first, atNode: node, now: end) == nil)
        // One of the two gets the node that was given back last.
        #expect(Self.begin(9 << 40, rewards: 5..<6, at: end, in: &table) == true)
        #expect(Self.begin(8 << 40, rewards: 6..<7, at: end, in: &table) == true)
        #expect([9 << 40, 8 << 40].contains { table.nodeNumber(of: $0) == node })
        #expect(table.find(first, atNode: node, now: end) == nil)
        #expect(table.find(second, atNode: node, now: end) == nil)
        let session = table.find(8 << 40, now: end)!
        #expect(table.hasImpression(session, 6) == true)
        #expect(table.hasImpression(session, 0) == false)
    }
}
