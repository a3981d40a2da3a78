import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Counters by campaign and source through lives of a directory: merges, restarts, crashes, retention, and runs that are
/// made again.
@Suite("Campaigns through lives of a directory")
struct CampaignLifeTests {
    private let clock = SimulatedClock.afterEvents()

    private struct Key: Hashable {
        let reward, business: String
        let campaign, source: String?
    }

    /// Events by key, counted from the packets.
    private static func model(_ packetCount: UInt64) -> [Key: UInt64] {
        var counts: [Key: UInt64] = [:]
        for sequence in 0..<packetCount {
            var packet = SimulatedPacket(sequence: sequence)
            packet.isAttributed = true
            for event in packet.events {
                let key = Key(
                    reward: event.reward, business: event.business, campaign: event.campaign,
                    source: event.source)
                counts[key, default: 0] += 1
            }
        }
        return counts
    }

    private func expectRight(
        _ files: SimulatedFileSystem, _ packetCount: UInt64, _ place: String
    ) throws {
        var found: [Key: UInt64] = [:]
        for row in try IngestReader.open(files).campaigns() {
            let key = Key(
                reward: row.id, business: row.businessID, campaign: row.campaign,
                source: row.source)
            let counters = row.counters.row
            #expect(found[key] == nil, "\(place): \(key) twice")
            found[key] = (0..<3).reduce(0) { $0 + counters.gross(ofType: $1) }
        }
        #expect(found == Self.model(packetCount), "\(place)")
        let findings = try Verifier.run(files).findings.filter { $0.kind != .note }
        #expect(findings.isEmpty, "\(place): \(findings.prefix(2))")
        #expect(
            try DirectoryReading(files).counts == ReferenceModel(packetCount: packetCount).counts)
    }

    private func filled(byteCountMax: UInt64 = 0) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        for life in 0..<2 as Range<UInt64> {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
                $0.retention = RetentionPolicy(byteCountMax: byteCountMax)
            }
            try pipeline.take(life * 150..<life * 150 + 150, attributed: true)
            try pipeline.rest(turns: 70)
            try expectRight(files, life * 150 + 150, "life \(life)")
            try pipeline.stop()
        }
        return files.disk.kill()
    }

    @Test("merges, restarts and retention change no counter", arguments: [0, 9_000])
    func lives(byteCountMax: UInt64) throws {
        let files = try filled(byteCountMax: byteCountMax)
        let manifest = try newest(files)
        #expect(manifest.expired.isEmpty == (byteCountMax == 0) && !manifest.runs.isEmpty)
        try expectRight(files, 300, "killed")
    }

    @Test("runs that are made again have them, byte for byte the same each time")
    func rebuilt() throws {
        let files = try filled(byteCountMax: 9_000)
        let manifest = try newest(files)
        var images: [[[UInt8]?]] = []
        for dropsAll in [false, true] {
            let left = files.disk.kill()
            if dropsAll { for run in manifest.runs { try left.unlink(run.fileName.text) } }
            let made = try LogRebuild.run(ManifestStore(files: left), after: manifest).manifest
            images.append(made.runs.map { left.disk.contents($0.fileName.text) })
            try expectRight(left, 300, "all dropped: \(dropsAll)")
        }
        #expect(images[0].count == 3 && images[0] == images[1])
        // A start that cannot read one.
        for run in manifest.runs {
            let left = files.disk.kill()
            left.disk.damage(run.fileName.text) { $0[$0.count - 1] ^= 1 }
            var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
            // What was damaged stays for a minute.
            try pipeline.rest(turns: 70)
            try pipeline.stop()
            try expectRight(left, 300, run.fileName.text)
        }
    }

    @Test("beyond the bound events are counted under (other), and a restart knows what is known")
    func bound() throws {
        var bound = AttributionBound()
        (bound.countMax, bound.nameCountMax) = (60, 9)
        let files = SimulatedFileSystem(seed: 6)
        var known: Set<Key> = []
        for life in 0..<3 as Range<UInt64> {
            var pipeline = try SteppedPipeline.open(
                files, clock: clock, seed: life, attributions: bound)
            try pipeline.take(life * 60..<life * 60 + 60, attributed: true)
            try pipeline.rest(turns: 20)
            #expect(pipeline.counters.commit[.attributionOverflows] > 10)
            try pipeline.stop()
            var (own, sums): (Set<Key>, [String: UInt64]) = ([], [:])
            for row in try IngestReader.open(files).campaigns() {
                let counters = row.counters.row
                let gross = (0..<3).reduce(0) { $0 + counters.gross(ofType: $1) }
                sums["\(row.id) \(row.businessID)", default: 0] += gross
                let names = [row.campaign, row.source]
                #expect(row.isOverflow == (names == ["(other)", "(other)"]))
                if row.isOverflow || names == [nil, nil] { continue }
                own.insert(
                    Key(
                        reward: row.id, business: row.businessID, campaign: row.campaign,
                        source: row.source))
            }
            #expect(own.count == 60 && (life == 0 || own == known))
            known = own
            #expect(Set(own.flatMap { [$0.campaign, $0.source] }.compactMap { $0 }).count <= 9)
            var model: [String: UInt64] = [:]
            for (key, count) in Self.model(life * 60 + 60) {
                model["\(key.reward) \(key.business)", default: 0] += count
            }
            #expect(sums == model)
            let findings = try Verifier.run(files).findings.filter { $0.kind != .note }
            #expect(findings.isEmpty, "\(findings.prefix(2))")
        }
    }

    @Test("a kill at any time leaves those of durable blocks", arguments: 0..<12)
    func kills(seed: UInt64) throws {
        let files = SimulatedFileSystem(seed: seed)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: seed)
        try pipeline.take(0..<20 + 17 * seed, attributed: true)
        let left = files.disk.kill()
        try expectRight(left, 20 + 17 * seed, "killed")
        var next = try SteppedPipeline.open(left, clock: clock, seed: seed + 1)
        try next.take(20 + 17 * seed..<320, attributed: true)
        try next.rest(turns: 20)
        try expectRight(left, 320, "next life")
        try next.stop()
    }
}
