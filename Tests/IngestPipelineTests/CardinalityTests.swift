import IngestFormat
import Testing

@testable import IngestPipeline

/// What gives names and keys, and how many.
struct CardinalityTests {
    @Test("a refused event gives no name and no key, and is a row only where its key is known")
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
        let rows = (0..<second.rows.rowCount).map { row in
            #expect(second.rows.platform[row] == 0)
            return RowAttributes(rawValue: second.rows.attributes[row]).verdict
        }
        #expect(rows == [.counted, .tooOld, .tooEarly, .invalidTraffic, .notViewable])
    }
}
