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
}
