import IngestFormat
import IngestRing
import Testing

@testable import IngestPipeline

/// Whose a reward is, and who may add to it: docs/counting.md, *Owners of rewards*.
struct RewardOwnerTests {
    /// An event of `reward-1` or `reward-`, and of `business-1` or `business-`.
    private static func event(
        _ bench: CommitBench, reward: UInt8 = 8, business: UInt8 = 10, id: UInt64? = nil
    ) -> EventDescriptor {
        var event = bench.click()
        (event.rewardByteCount, event.businessByteCount) = (reward, business)
        event.businessHash = UInt64(business)
        event.pairHash = UInt64(reward) << 8 | UInt64(business)
        if let id {
            event.eventHash = id
            event.flags |= EventDescriptor.Flags.hasEventID
        }
        return event
    }

    /// The verdicts in the ledger, the rows, and the new keys of one packet.
    private static func send(
        _ bench: CommitBench, _ sequence: UInt64, isBound: Bool, _ events: [EventDescriptor]
    ) -> (verdicts: [Verdict: UInt64], rowCount: Int, keyCount: Int, nameCount: Int) {
        bench.clock.advance(milliseconds: 1_000)
        let flags = isBound ? RingRecordHeader.Flags.isBound : 0
        bench.offer(RingRecordKind.framed, flags: flags, sequence: sequence, events)
        var (verdicts, rows, keys, names): ([Verdict: UInt64], Int, Int, Int) = ([:], 0, 0, 0)
        for _ in 0..<2 {
            for block in bench.turns() {
                for verdict in Verdict.allCases {
                    for entry in block.ledger where entry.events[Int(verdict.rawValue)] > 0 {
                        verdicts[verdict, default: 0] += entry.events[Int(verdict.rawValue)]
                    }
                }
                rows += block.rows.rowCount
                keys += block.keys.count
                names += block.names.count
            }
            bench.clock.advance(milliseconds: 1_000)
        }
        return (verdicts, rows, keys, names)
    }

    @Test(
        "W9: a key bound to a business adds to its rewards and to pairs that have counted, no others"
    )
    func bound() {
        let bench = CommitBench()
        var sent = Self.send(bench, 0, isBound: true, [Self.event(bench)])
        #expect(sent.verdicts == [.counted: 1] && sent.keyCount == 1)
        // Another business's, of a name that is not known and then is.
        let taken = [Self.event(bench, business: 9), Self.event(bench, reward: 7, business: 9)]
        sent = Self.send(bench, 1, isBound: true, taken)
        #expect(sent.verdicts == [.wrongBusiness: 1, .counted: 1])
        #expect(sent.rowCount == 1 && sent.keyCount == 1 && sent.nameCount == 2)
        sent = Self.send(bench, 2, isBound: true, [taken[0], Self.event(bench, reward: 7)])
        #expect(sent.verdicts == [.wrongBusiness: 2])
        #expect(sent.rowCount == 0 && sent.keyCount == 0 && sent.nameCount == 0)
        // Who is not bound may; it owns nothing by it, but the pair has counted.
        sent = Self.send(bench, 3, isBound: false, [taken[0]])
        #expect(sent.verdicts == [.counted: 1] && sent.keyCount == 1)
        sent = Self.send(bench, 4, isBound: true, [taken[0], Self.event(bench)])
        #expect(sent.verdicts == [.counted: 2] && sent.keyCount == 0)
    }

    @Test("what is refused, and a conflict, makes nobody an owner")
    func notCounted() {
        let bench = CommitBench()
        var late = Self.event(bench, reward: 7)
        late.timestampMicroseconds -= 700_000_000_000
        let first = Self.event(bench, reward: 6, id: 5)
        let conflict = Self.event(bench, reward: 7, id: 5)
        var sent = Self.send(bench, 0, isBound: true, [first, late, conflict])
        #expect(sent.verdicts == [.counted: 1, .tooOld: 1, .conflict: 1])
        #expect(sent.rowCount == 1 && sent.keyCount == 1)
        // So that it is the other business's to own.
        sent = Self.send(bench, 1, isBound: true, [Self.event(bench, reward: 7, business: 9)])
        #expect(sent.verdicts == [.counted: 1])
        sent = Self.send(bench, 2, isBound: true, [Self.event(bench, reward: 7)])
        #expect(sent.verdicts == [.wrongBusiness: 1])
        // Where the pair has a key a conflict is a row.
        let again = Self.event(bench, reward: 6, id: 6)
        var other = again
        other.revenueMicros = 9
        sent = Self.send(bench, 3, isBound: true, [again, other])
        #expect(sent.verdicts == [.counted: 1, .conflict: 1] && sent.rowCount == 2)
    }

    @Test("W9: the owners file says whose a reward is, whatever the log says")
    func file() throws {
        let owners = try RewardOwners(Array("reward-1 business-\nreward- business-1 # ours\n".utf8))
        let bench = CommitBench { $0.owners = owners }
        var sent = Self.send(bench, 0, isBound: true, [Self.event(bench)])
        #expect(sent.verdicts == [.wrongBusiness: 1])
        sent = Self.send(bench, 1, isBound: false, [Self.event(bench)])
        #expect(sent.verdicts == [.counted: 1])
        let others = [
            Self.event(bench, business: 9), Self.event(bench, reward: 7, business: 9),
            Self.event(bench, reward: 7), Self.event(bench),
        ]
        sent = Self.send(bench, 2, isBound: true, others)
        #expect(sent.verdicts == [.counted: 3, .wrongBusiness: 1])
    }

    @Test("rewards beyond the bound of a business are no other's, and (other) is everybody's")
    func others() {
        let bench = CommitBench { $0.rewardKeyCountMax = 1 }
        var sent = Self.send(
            bench, 0, isBound: true, [Self.event(bench), Self.event(bench, business: 9)])
        #expect(sent.verdicts == [.counted: 1, .wrongBusiness: 1])
        for business in [10, 9] as [UInt8] {
            let events = [5, 4, 3].map { Self.event(bench, reward: $0, business: business) }
            sent = Self.send(bench, UInt64(business), isBound: true, events)
            #expect(sent.verdicts == [.counted: 3], "business of \(business) bytes")
        }
        // The first of them has a key of the other business now: it cannot be taken from who has no room for keys.
        sent = Self.send(bench, 11, isBound: true, [Self.event(bench, reward: 5)])
        #expect(sent.verdicts == [.counted: 1] && sent.keyCount == 0)
    }

    @Test("an id of the owners file may have blanks, as %20, and be as long as any")
    func blanks() throws {
        let longest = [UInt8](repeating: 0x20, count: Limits.nameByteCountMax)
        let text = String(repeating: "%20", count: longest.count)
        let lines = "a%20b%25%23 %c3%9C\n\(text) \(text) #\(String(repeating: "x", count: 250))"
        let owners = try RewardOwners(Array(lines.utf8))
        #expect(owners.owner(of: Array("a b%#".utf8)) == Array("Ü".utf8))
        #expect(owners.owner(of: longest) == longest && owners.count == 2)
    }

    @Test(
        "a line that is none of a reward and a business is named",
        arguments: [
            ("a b\nc\n", 2, "two fields"), ("a b c", 1, "two fields"),
            ("\n# x\n\u{1}a \u{fffd}\na b\n\u{1}a c", 5, "a second time"),
            ("a " + String(repeating: "x", count: 129), 1, "no id"),
            ("a b\n%2 b", 2, "no id"), ("%zz b", 1, "no id"), ("a %", 1, "no id"),
            ("%ff b", 1, "no id"),
            ("a b #" + String(repeating: " x", count: 600), 1, "longer than 1024 bytes"),
        ])
    func faults(text: String, line: Int, part: String) {
        let error = #expect(throws: RewardOwners.Fault.self) {
            _ = try RewardOwners(Array(text.utf8))
        }
        #expect(error?.line == line && error?.description.contains(part) == true)
    }
}
