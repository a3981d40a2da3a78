import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify
import TestSupport
import Testing

/// What a reader finds in a simulated directory, put in the model's shape.
struct DirectoryReading {
    let counts: [ReferenceModel.Key: ReferenceModel.Counts]
    let eventCount: UInt64

    init(_ files: SimulatedFileSystem) throws {
        try self.init(try IngestReader.open(files))
    }

    init(_ reader: IngestReader) throws {
        var counts: [ReferenceModel.Key: ReferenceModel.Counts] = [:]
        for row in try reader.rewardDays() {
            let counters = row.counters
            var one = ReferenceModel.Counts()
            one.impressions = counters.impressions
            one.clicks = counters.clicks
            one.redemptions = counters.redemptions
            one.viewable = counters.viewableImpressions
            one.notViewable = counters.notViewableImpressions
            one.undetermined = counters.undeterminedImpressions
            one.revenueMicros = counters.revenue.micros
            let key = ReferenceModel.Key(
                reward: row.id, business: row.businessID, day: row.date.dayNumber)
            // A name and a key that are lost may be shown alike; nothing else has two rows.
            #expect(counts[key] == nil || row.id.hasPrefix("(lost:"), "\(key) twice")
            counts[key, default: ReferenceModel.Counts()].add(one)
        }
        self.counts = counts
        eventCount = counts.values.reduce(0) {
            $0 + $1.impressions + $1.clicks + $1.redemptions + $1.notViewable
        }
    }
}

/// The newest generation.
func newest(_ files: SimulatedFileSystem) throws -> Manifest {
    try ManifestStore(files: files).readNewest()
}

/// Expects the counters of the first packets, and that `verify` finds nothing but notes.
func expectWhole(
    _ files: SimulatedFileSystem, packetCount: UInt64, _ place: String = "",
    _ location: SourceLocation = #_sourceLocation
) throws {
    let counts = try DirectoryReading(files).counts
    #expect(
        counts == ReferenceModel(packetCount: packetCount).counts, "\(place)",
        sourceLocation: location)
    let findings = try Verifier.run(files).findings.filter { $0.kind != .note }
    #expect(findings.isEmpty, "\(place): \(findings.prefix(3))", sourceLocation: location)
}
