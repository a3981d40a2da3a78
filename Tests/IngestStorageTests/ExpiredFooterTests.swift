import IngestCounting
import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// Expired footers in their file, and what a start makes of them and of the segments that they stand for.
@Suite struct ExpiredFooterTests {
    private typealias Rows = CounterMerge<CounterTable.Cursor>

    /// A directory of some sealed segments, published.
    private struct Fixture {
        let files: SimulatedFileSystem
        var manifest: Manifest
        let segments: [SealedSegmentFile]

        /// - Parameter isFollowed: whether there is a segment after them, which is not sealed.
        init(isFollowed: Bool = false) throws {
            let script = LogScript(blockCounts: isFollowed ? [2, 1, 1, 2] : [2, 1, 1])
            let written = SimulatedFileSystem(seed: 1)
            var synced = 0
            try script.write(to: written, synced: &synced)
            if !isFollowed { try script.seal(2, in: written) }
            files = written.disk.kill()
            segments = try (0..<3).map { try script.file($0) }
            manifest = try publish(segments, after: TestLog.manifest(), in: files)
        }

        func sums(_ count: Int, missing: UInt32 = 0) -> ExpiredSums {
            let footer = segments[count - 1].footer
            return ExpiredSums(
                footer, from: SegmentNumber(rawValue: 1), missingCount: missing, byteCount: 9,
                nextCommitEpoch: footer.commitEpoch + 1)
        }

        func writer(
            _ count: Int, in files: SimulatedFileSystem
        ) throws(StorageError) -> ExpiredFooterWriter<SimulatedFileSystem, Rows> {
            var ledger = LedgerSum()
            for segment in segments[..<count] { ledger.add(segment.footer.ledger) }
            return try ExpiredFooterWriter(
                manifest.nextFileNumber, of: sums(count), ledger: ExpiredLedger(ledger.entries()),
                rows: CounterMerge(segments[..<count].map { $0.footer.rewardDays.makeCursor() }),
                in: files)
        }

        /// The next generation, with the first segments expired.
        mutating func expire(_ count: Int) throws {
            var next = manifest
            next.generation = manifest.generation.next
            var writer = try writer(count, in: files)
            while try !writer.write(pageCountMax: 1) {}
            next.expire(try writer.finish(manifest.nextFileNumber, for: next))
            next.nextFileNumber = manifest.nextFileNumber.next
            try ManifestStore(files: files).publish(next)
            manifest = next
        }
    }

    private func open(
        _ files: SimulatedFileSystem
    ) throws(StorageError) -> DataDirectory<SimulatedFileSystem> {
        try DataDirectory.open(files) { TestLog.manifest() }
    }

    private func values<Source: CounterPageSource>(_ source: Source) throws -> [[UInt64]] {
        var source = source
        let page = CounterPage()
        var found: [[UInt64]] = []
        while try source.nextPage(into: page) {
            for row in 0..<page.rowCount {
                found.append(
                    [UInt64(page.key(row)), UInt64(bitPattern: Int64(page.day(row)))]
                        + CounterColumn.allCases.map { page.value($0, row) })
            }
        }
        return found
    }

    @Test func `they hold the sums of counters and ledgers`() throws {
        var fixture = try Fixture()
        try fixture.expire(2)
        let entry = fixture.manifest.expired[0]
        let reader = try ExpiredFooterReader(
            entry, directory: fixture.manifest.directory, in: fixture.files)
        #expect(reader.header.sums == fixture.sums(2) && reader.header.entry == entry)
        let footers = fixture.segments[..<2].map(\.footer)
        #expect(
            try values(reader.counters.makeCursor())
                == values(CounterMerge(footers.map { $0.rewardDays.makeCursor() })))
        var ledger = LedgerSum()
        for footer in footers { ledger.add(footer.ledger) }
        #expect(try reader.readLedger() == ledger.entries)
        // Readers of runs need no more than they did.
        #expect(fixture.manifest.sealed.map(\.number.rawValue) == [3])
        #expect(try ManifestStore(files: fixture.files).readNewest() == fixture.manifest)
    }

    @Test func `every flipped byte is seen by who opens and reads all of it`() throws {
        var fixture = try Fixture()
        try fixture.expire(3)
        let entry = fixture.manifest.expired[0]
        for byte in 0..<Int(entry.byteCount) {
            fixture.files.disk.damage(entry.fileName.text) { $0[byte] ^= 0x10 }
            let damage = error(of: {
                let reader = try ExpiredFooterReader(entry, in: fixture.files)
                _ = try reader.readLedger()
                _ = try values(reader.counters.makeCursor())
            })
            #expect(damage?.exitCode == 65, "byte \(byte)")
            fixture.files.disk.damage(entry.fileName.text) { $0[byte] ^= 0x10 }
        }
    }

    @Test func `what is written over many turns has no name until it is finished`() throws {
        let fixture = try Fixture()
        var writer = try fixture.writer(3, in: fixture.files)
        let temporary = FileName.temporary(.expired(fixture.manifest.nextFileNumber)).text
        _ = try writer.write(pageCountMax: 1)
        #expect(try fixture.files.names().contains(temporary))
        writer.abandon()
        #expect(try !fixture.files.names().contains { $0.contains("expired") })
        // One that a killed process left is in nobody's way.
        var left = try fixture.writer(3, in: fixture.files)
        _ = try left.write(pageCountMax: 1)
        let next = fixture.files.disk.kill()
        _ = try open(next)
        #expect(try !next.names().contains(temporary))
        _ = try fixture.writer(3, in: next)
        let again = next.disk.kill()
        var second = try fixture.writer(3, in: again)
        while try !second.write(pageCountMax: 1) {}
        let number = FileNumber(rawValue: 77)
        _ = try second.finish(number, for: fixture.manifest)
        #expect(
            try again.names().filter { $0.contains("expired") } == [FileName.expired(number).text])
    }

    @Test func `a start removes expired segments, a minute later, and files that others replaced`()
        throws
    {
        var fixture = try Fixture()
        try fixture.expire(1)
        let first = fixture.manifest.expired[0].fileName
        try fixture.expire(2)
        let newest = fixture.manifest.expired[0].fileName
        let opened = try open(fixture.files.disk.kill())
        let segments = (1...2).map { FileName.segment(SegmentNumber(rawValue: $0)) }
        #expect(Set(opened.retired).isSuperset(of: segments + [first]))
        #expect(!opened.retired.contains(newest) && opened.movedAside == [])
        #expect(opened.missingSegments == [])
        // At once where no manifest names it any more.
        let left = fixture.files.disk.kill()
        for generation in 1...2 {
            try left.unlink(FileName.manifest(Generation(rawValue: UInt64(generation))).text)
        }
        #expect(try !open(left).retired.contains(first))
        #expect(try !left.names().contains(first.text))
        // One of a generation that never was, and one of another directory.
        let foreign = fixture.files.disk.kill()
        let next = FileName.expired(fixture.manifest.nextFileNumber).text
        try foreign.create(next).write(foreign.disk.contents(newest.text)!, at: 0)
        foreign.disk.damage(first.text) { $0[16] ^= 1 }
        try foreign.unlink(FileName.manifest(Generation(rawValue: 2)).text)
        #expect(try open(foreign).movedAside == ["aside/\(first.text)"])
        #expect(try !foreign.names().contains(next))
    }

    @Test func `a start needs the file that the manifest names, with its header`() throws {
        var fixture = try Fixture()
        try fixture.expire(2)
        let name = fixture.manifest.expired[0].fileName.text
        let missing = fixture.files.disk.kill()
        try missing.unlink(name)
        #expect(
            error(of: { try open(missing) })
                == .corrupt(
                    path: "/sim/\(name)", offset: 0, detail: "missing file named by the manifest"))
        for byte in [0, 100, 191] {
            let flipped = fixture.files.disk.kill()
            flipped.disk.damage(name) { $0[byte] ^= 1 }
            #expect(error(of: { try open(flipped) })?.exitCode == 65, "byte \(byte)")
        }
    }

    @Test(arguments: [2, 3])
    func `the log goes on behind what has expired, whatever is left of the live segment`(
        expired: Int
    ) throws {
        var fixture = try Fixture(isFollowed: true)
        let whole = try recoverSegments(
            in: fixture.files.disk.kill(), after: fixture.manifest, now: TestLog.now)
        fixture = try Fixture(isFollowed: true)
        try fixture.expire(expired)
        #expect(fixture.manifest.lastSealed.rawValue == 3)
        #expect(!fixture.manifest.mayHoldTail(SegmentNumber(rawValue: 3)))
        let live = FileName.segment(SegmentNumber(rawValue: 4)).text
        for isDamaged in [false, true] {
            let left = fixture.files.disk.kill()
            // Without a header, what comes first in the segment is what came behind the last one.
            if isDamaged { left.disk.damage(live) { $0[20] ^= 1 } }
            let report = try recoverSegments(
                in: left, after: fixture.manifest, now: TestLog.now)
            #expect(report.next == whole.next && report.lastSegment.rawValue == 4)
            #expect(
                report.segments.map(\.file.footer.names) == whole.segments.map(\.file.footer.names)
            )
        }
    }
}
