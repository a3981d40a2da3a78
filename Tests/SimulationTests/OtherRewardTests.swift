import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// The limit of rewards of a business, over restarts.
struct OtherRewardTests {
    private static let keyCountMax = 6

    /// Every counted event under its own reward, or under `(other)`: totals of a business and day are what they are
    /// without a limit.
    private static func sums(
        _ counts: [ReferenceModel.Key: ReferenceModel.Counts]
    ) -> [ReferenceModel.Key: ReferenceModel.Counts] {
        var sums: [ReferenceModel.Key: ReferenceModel.Counts] = [:]
        for (key, own) in counts {
            var place = key
            place.reward = ""
            sums[place, default: ReferenceModel.Counts()].add(own)
        }
        return sums
    }

    @Test(
        "a business never has more rewards than its limit and one for all others, whatever ends the daemon",
        arguments: 1...4)
    func limit(seed: UInt64) throws {
        let clock = SimulatedClock.afterEvents()
        var files = SimulatedFileSystem(seed: seed)
        var sequence: UInt64 = 0
        for life in 0..<4 as Range<UInt64> {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: seed + life) {
                $0.rewardKeyCountMax = Self.keyCountMax
            }
            for _ in 0..<12 {
                while !pipeline.offer(SimulatedPacket(sequence: sequence)) { try pipeline.turn() }
                try pipeline.turn()
                sequence += 1
            }
            try pipeline.settle()
            try pipeline.settle()
            let reader = try IngestReader.open(files)
            var rewards: [String: Set<String>] = [:]
            for row in try reader.rewardDays() {
                rewards[row.businessID, default: []].insert(row.id)
                let counters = row.counters
                let counted = counters.impressions + counters.clicks + counters.redemptions
                #expect(counters.overflowEvents == (row.id == "(other)" ? counted : 0))
            }
            for (business, names) in rewards {
                #expect(names.subtracting(["(other)"]).count <= Self.keyCountMax, "\(business)")
            }
            #expect(rewards.values.contains { $0.contains("(other)") })
            let model = ReferenceModel(packetCount: sequence)
            #expect(
                Self.sums(try DirectoryReading(reader).counts).mapValues(\.counted)
                    == Self.sums(model.counts).mapValues(\.counted))
            if life == 3 { try pipeline.stop() }
            files = seed % 2 == 0 ? files.disk.kill() : files.disk.powerCut(seed: seed + life)
        }
        #expect(try Verifier.run(files).findings.filter { $0.kind != .note }.isEmpty)
    }
}

extension ReferenceModel.Counts {
    /// Without what is refused.
    fileprivate var counted: [UInt64] {
        [impressions, clicks, redemptions, viewable, undetermined]
    }
}
