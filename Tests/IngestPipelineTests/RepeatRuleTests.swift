import IngestFormat
import IngestStorage
import Testing

@testable import IngestPipeline

/// What a repeat is, and what is too old to be told from one.
@Suite("The rule of repeats")
struct RepeatRuleTests {
    private static let second: Int64 = 1_000_000

    @Test("other key or amounts make another check, whichever amounts they are")
    func checks() {
        var checks: [UInt16: Int] = [:]
        for revenue in 0..<100 as Range<Int64> {
            for spend in 0..<100 as Range<Int64> {
                let check = RepeatRule.check(key: 9, revenue: revenue, spend: spend)
                checks[check, default: 0] += 1
            }
        }
        // 10,000 of 65,536 values by chance: 9,292 different ones, with a deviation of 25.
        #expect(checks.count > 9_000)
        func check(_ key: UInt32, _ revenue: Int64, _ spend: Int64) -> UInt16 {
            RepeatRule.check(key: key, revenue: revenue, spend: spend)
        }
        #expect(check(9, 1_000_000, 0) != check(9, 0, 3_000_000))
        #expect(check(9, 10_000_000, 1_000_000) != check(9, 9_000_000, 4_000_000))
        #expect(check(9, 5, 7) != check(9, 7, 5))
        #expect(check(9, 0, 0) != check(10, 0, 0))
    }

    /// A rule that has forgotten what was committed up to second 100, with a lead of 10 s.
    private func rule(refuses: Bool) -> RepeatRule {
        let policy = CountingPolicy(
            leadMicrosecondsMax: 10 * Self.second, windowMicroseconds: 1_000 * Self.second,
            keyCountMax: 1_000, refusesOutsideWindow: refuses)
        var index = DedupIndex(
            keyCountMax: 1_000, windowMicroseconds: 1_000 * Self.second, leastBitCount: 4)
        index.open(admissionTime: 101 * Self.second)
        #expect(index.claim(7, check: 1) == .first)
        return RepeatRule(index, policy, completeSince: 100 * Self.second)
    }

    @Test(
        "an event may be as old as what was forgotten if its time less the lead is",
        arguments: [
            (111, false), (110, true), (109, true),
        ])
    func lead(second: Int64, isOutside: Bool) {
        var counting = rule(refuses: false)
        let counted = counting.judge(1, check: 1, timestamp: second * Self.second)
        #expect(counted.verdict.rawValue == Verdict.counted.rawValue)
        #expect(counted.isOutsideWindow == isOutside)
        var refusing = rule(refuses: true)
        let refused = refusing.judge(1, check: 1, timestamp: second * Self.second)
        let expected: Verdict = isOutside ? .outsideWindow : .counted
        #expect(refused.verdict.rawValue == expected.rawValue)
        #expect(refused.isOutsideWindow == isOutside)
    }

    @Test("a repeat of what is still known is one, however old the event is")
    func knownOutside() {
        for refuses in [false, true] {
            var rule = rule(refuses: refuses)
            let same = rule.judge(7, check: 1, timestamp: 0)
            #expect(same.verdict.rawValue == Verdict.duplicate.rawValue && !same.isOutsideWindow)
            let other = rule.judge(7, check: 2, timestamp: 0)
            #expect(other.verdict.rawValue == Verdict.conflict.rawValue)
        }
        var refusing = rule(refuses: true)
        // What is refused claims nothing.
        _ = refusing.judge(8, check: 1, timestamp: 0)
        let later = refusing.judge(8, check: 1, timestamp: 200 * Self.second)
        #expect(later.verdict.rawValue == Verdict.counted.rawValue)
    }

    @Test("counts of a footer may be anything")
    func countsOfFooters() {
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 1)))
        entry.events[Int(Verdict.counted.rawValue)] = .max
        var footer = SegmentFooter(
            header: SegmentHeader(
                directory: DirectoryID(rawValue: 1), segment: SegmentNumber(rawValue: 1),
                createdAt: 0, previousChecksum: 0, firstName: NameOrdinal(rawValue: 1),
                firstKey: KeyOrdinal(rawValue: 0), commitEpoch: 1),
            headerChecksum: 0, sealedAt: 0)
        footer.ledger = [entry, entry]
        footer.rowCount = 5
        #expect(footer.claimCountMin == 0)
    }
}
