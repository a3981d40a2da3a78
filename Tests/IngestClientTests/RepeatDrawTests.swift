import Testing

@testable import IngestBench

/// The repeats of a load that is sent round and round.
struct RepeatDrawTests {
    @Test(arguments: [0.5, 0.4, 0.35, 0.25, 0.125, 0.1, 0.01])
    func `The share that was asked for repeats an event that was there`(share: Double) {
        let round: UInt64 = 4_096
        let draw = RepeatDraw(share: share, round: round)
        #expect((0..<round).allSatisfy { draw.original(of: $0) == $0 })
        for start in stride(from: round, to: 9 * round, by: Int(round)) {
            let repeated = (start..<start + round).filter { draw.original(of: $0) != $0 }
            #expect(repeated.allSatisfy { draw.original(of: $0) == $0 % round })
            // Six times the deviation of so many draws.
            let deviation = (share * (1 - share) * Double(round)).squareRoot()
            #expect(abs(Double(repeated.count) - share * Double(round)) < 6 * deviation)
        }
    }

    @Test func `Without a share nothing repeats`() {
        let draw = RepeatDraw(share: 0, round: 10)
        #expect((0..<10_000).allSatisfy { draw.original(of: $0) == $0 })
    }
}
