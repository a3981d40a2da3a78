import IngestFormat
import IngestReader
import IngestStorage
import TestSupport
import Testing

/// What a manifest says that the log adds up to is held against the rows and ledgers.
@Suite struct VerifyTotalsTests {
    @Test("Sums of a manifest that ends with a segment are held against it too")
    func sumsOfSealed() throws {
        let fixture = try LogFixture.random(seed: 59, liveBlockCount: 0)
        #expect(try fixture.verify().findings.isEmpty)
        let good = fixture.bytes(.manifest(fixture.manifest.generation))
        for change: (inout ShardState) -> Void in [
            { $0.totals.add([Self.event(.tooOld)]) },
            { $0.totals.add([Self.packet(.shed)]) },
        ] {
            try fixture.alterManifest { change(&$0.shard) }
            #expect(try fixture.verify().exitCode == 1)
            fixture.replace(.manifest(fixture.manifest.generation), good)
        }
        try fixture.alterManifest { manifest in
            let key = manifest.sealed[0].number
            manifest.replaceLost(
                of: key,
                by: [
                    LostRange(
                        segment: key, firstBlock: 1, blockCount: 1, offset: 200, byteCount: 8,
                        rowCount: 3, names: 2..<2, keys: 1..<1)
                ])
        }
        let report = try fixture.verify()
        #expect(report.exitCode == 1 && report.differenceCount == 1)
    }

    private static func packet(_ result: PacketResult) -> LedgerEntry {
        var entry = LedgerEntry(key: .plain)
        entry.packets[Int(result.rawValue)] = 1
        return entry
    }

    private static func event(_ verdict: Verdict) -> LedgerEntry {
        var entry = LedgerEntry(key: .plain)
        entry.events[Int(verdict.rawValue)] = 1
        return entry
    }
}
