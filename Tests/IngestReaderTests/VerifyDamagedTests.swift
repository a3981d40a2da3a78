import IngestFormat
import IngestStorage
import IngestVerify
import TestSupport
import Testing

@testable import IngestReader

/// What `verify` finds and says of a directory of which much cannot be believed.
@Suite struct VerifyDamagedTests {
    // MARK: What is left of a damaged directory

    @Test("Where the newest manifest is damaged, all that the one before names is checked")
    func damagedManifest() throws {
        let fixture = try LogFixture.random(seed: 43, segmentCount: 5)
        let newest = FileName.manifest(fixture.manifest.generation).text
        for byte in [9, 40, fixture.byteCount(newest) - 1] {
            fixture.flip(newest, byte: byte)
            let report = try fixture.verify()
            #expect(report.exitCode == 65 && report.corruptionCount == 1, "\(report.findings)")
            #expect(report.findings.first?.file == newest && report.differenceCount == 0)
            #expect(report.rowCount == UInt64(fixture.model.facts.count))
            #expect(report.generation == fixture.manifest.generation.rawValue - 1)
            fixture.flip("0000000001.segment", byte: 4_096 + 300)
            #expect(
                try fixture.verify().findings.contains {
                    $0.kind == .corruption && $0.file == "0000000001.segment"
                })
            fixture.flip("0000000001.segment", byte: 4_096 + 300)
            fixture.flip(newest, byte: byte)
        }
        // What the older one names may have been dropped since.
        fixture.flip(newest, byte: 40)
        let older = try ManifestStore(files: fixture.files).read(
            Generation(rawValue: fixture.manifest.generation.rawValue - 1))
        try fixture.files.unlink(older.runs[0].fileName.text)
        try fixture.files.unlink(FileName.segment(fixture.manifest.sealed[0].number).text)
        let report = try fixture.verify()
        #expect(report.corruptionCount == 1 && report.differenceCount == 0)
        #expect(report.noteCount >= 3)
        for name in try fixture.files.names() where name.hasSuffix(".manifest") && name != newest {
            fixture.flip(name, byte: 40)
        }
        let none = try fixture.verify()
        #expect(none.exitCode == 65 && none.findings.map(\.file) == [newest])
    }

    @Test("An index that cannot be so long, or is not what its checksum says, takes no memory")
    func hugeIndex() throws {
        let fixture = try LogFixture.random(seed: 44)
        let entry = fixture.manifest.runs[0]
        var bytes = fixture.bytes(entry.fileName)
        let name = FileName.run(entry.table, FileNumber(rawValue: 88))
        let pagesEnd = UInt64(bytes.count)
        for (pageCount, what) in [(pagesEnd, "page count"), (3, "page index checksum")] {
            bytes.put(UInt64(88), at: 8 + 16)
            bytes.put(UInt64(1 << 30), at: 48)
            bytes.put(pagesEnd, at: 64)
            bytes.put(UInt32(pageCount), at: 72)
            bytes.put(pagesEnd + 20 * pageCount, at: 56)
            bytes = bytes.sealed(128)
            _ = try fixture.files.create(name.text)
            fixture.replace(name, bytes + [UInt8](repeating: 0, count: 20 * Int(pageCount)))
            let report = try fixture.verify()
            #expect(report.exitCode == 65 && report.findings.count == 1, "\(report.findings)")
            #expect(report.findings.first?.file == name.text)
            #expect(report.findings.first?.what.contains(what) == true, "\(report.findings)")
            try fixture.files.unlink(name.text)
        }
    }

    @Test("A header that is not the one that the footer was written for is found by both")
    func header() throws {
        let fixture = try LogFixture.random(seed: 46)
        let name = FileName.segment(SegmentNumber(rawValue: 1))
        var header = try SegmentHeader.decode(
            Array(fixture.bytes(name)[..<SegmentHeader.byteCount]))
        header.createdAt += 1
        var bytes = fixture.bytes(name)
        bytes.replaceSubrange(..<SegmentHeader.byteCount, with: header.encode())
        fixture.replace(name, bytes)
        let report = try fixture.verify()
        #expect(report.exitCode == 65, "\(report.findings)")
        #expect(report.findings.map(\.what) == ["header's checksum in the footer"])
        #expect(try !InspectorTests.inspect(fixture, name.text).0)
    }

    @Test("Runs that there is nothing to hold against have no rows of days that cannot be")
    func impossibleDays() throws {
        let fixture = try LogFixture.random(seed: 45)
        try fixture.alterRun(.days) { $0[$0.count - 1].day = Limits.businessDays.upperBound + 1 }
        // Without a segment, the rest is only checked.
        try fixture.files.unlink("0000000002.segment")
        let report = try fixture.verify()
        #expect(report.differenceCount == 1)
        #expect(report.findings.contains { $0.got.contains("106653") })
    }
}
