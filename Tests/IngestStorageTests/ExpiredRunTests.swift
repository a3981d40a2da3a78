import IngestCounting
import IngestFormat
import IngestStorage
import TestSupport
import Testing

/// Expired runs, and what a start makes of them and of the segments that they stand for.
@Suite struct ExpiredRunTests {
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

        /// The next generation, with the segments up to a number expired, in one run.
        mutating func expire(_ last: Int) throws {
            var next = manifest
            next.generation = manifest.generation.next
            next.nextFileNumber = manifest.nextFileNumber.advanced(by: 2)
            var merge = ExpiredMerge(for: next, in: files)
            let output = try merge.run(
                manifest.sealed.filter { $0.number.rawValue <= last },
                older: manifest.expired[...], firstNumber: manifest.nextFileNumber)
            next.expire(try #require(output).entry)
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

    @Test func `they hold the sums of counters and ledgers, and the names`() throws {
        var fixture = try Fixture()
        let before = try ManifestStore(files: fixture.files).readKeys(of: fixture.manifest)
        // In one merge or in two, the same.
        for last in [[2], [1, 2]] {
            fixture = try Fixture()
            for last in last { try fixture.expire(last) }
            let entry = fixture.manifest.expired[0]
            let directory = fixture.manifest.directory
            let run = try RunReader(entry.run, directory: directory, in: fixture.files)
            let footers = fixture.segments[..<2].map(\.footer)
            #expect(
                try values(run.makeCursor())
                    == values(CounterMerge(footers.map { $0.rewardDays.makeCursor() })))
            var ledger = LedgerSum()
            for footer in footers { ledger.add(footer.ledger) }
            let segments = try run.readExpired()
            #expect(segments.ledger == ledger.entries && segments.missingCount == 0)
            #expect(segments.rowCount == footers.reduce(0) { $0 + $1.rowCount })
            #expect(segments.span.end == footers[1].end)
            let names = try NamesRunReader(entry.names, directory: directory, in: fixture.files)
            #expect(names.names == 1..<footers[1].names.upperBound)
            #expect(names.keys == 0..<footers[1].keys.upperBound)
            var keys: [RewardKey] = []
            try names.readKeys(names.keys, to: &keys)
            #expect(keys == Array(before.prefix(names.keys.count)) && !keys.isEmpty)
            // Readers of runs need no more than they did.
            #expect(fixture.manifest.sealed.map(\.number.rawValue) == [3])
            #expect(try ManifestStore(files: fixture.files).readNewest() == fixture.manifest)
        }
    }

    @Test func `segments without a footer go along with the next that has one`() throws {
        let fixture = try Fixture()
        let names = fixture.manifest.sealed.map { FileName.segment($0.number).text }
        try fixture.files.unlink(names[0])
        fixture.files.disk.damage(names[1]) { $0[$0.count - 20] ^= 1 }
        func merged(_ count: Int) throws -> ExpiredOutput? {
            var merge = ExpiredMerge(for: fixture.manifest, in: fixture.files)
            return try merge.run(
                Array(fixture.manifest.sealed.prefix(count)), older: [],
                firstNumber: fixture.manifest.nextFileNumber)
        }
        #expect(try merged(2) == nil)
        let output = try #require(try merged(3))
        #expect(output.segments.missingCount == 2 && output.damaged.map(\.rawValue) == [2])
        #expect(output.entry.span.segmentCount == 3)
        #expect(output.segments.rowCount == fixture.segments[2].footer.rowCount)
    }

    @Test func `every flipped byte is seen by who opens and reads all of it`() throws {
        var fixture = try Fixture()
        try fixture.expire(3)
        let entry = fixture.manifest.expired[0]
        for byte in 0..<Int(entry.run.byteCount) {
            fixture.files.disk.damage(entry.run.fileName.text) { $0[byte] ^= 0x10 }
            let damage = error(of: {
                let run = try RunReader(entry.run, in: fixture.files)
                _ = try run.readExpired()
                _ = try values(run.makeCursor())
            })
            #expect(damage?.exitCode == 65, "byte \(byte)")
            fixture.files.disk.damage(entry.run.fileName.text) { $0[byte] ^= 0x10 }
        }
    }

    @Test func `a start removes expired segments, a minute later, and files that others replaced`()
        throws
    {
        var fixture = try Fixture()
        try fixture.expire(1)
        let first = fixture.manifest.expired[0].fileNames
        try fixture.expire(2)
        let newest = fixture.manifest.expired[0].fileNames
        let opened = try open(fixture.files.disk.kill())
        let segments = (1...2).map { FileName.segment(SegmentNumber(rawValue: $0)) }
        #expect(Set(opened.retired).isSuperset(of: segments + first))
        #expect(Set(newest).isDisjoint(with: opened.retired) && opened.movedAside == [])
        #expect(opened.missingSegments == [])
        // At once where no manifest names it any more.
        let left = fixture.files.disk.kill()
        for generation in 1...2 {
            try left.unlink(FileName.manifest(Generation(rawValue: UInt64(generation))).text)
        }
        #expect(try Set(first).isDisjoint(with: open(left).retired))
        #expect(try Set(left.names()).isDisjoint(with: first.map(\.text)))
        // One of a generation that never was, and one of another directory.
        let foreign = fixture.files.disk.kill()
        let next = FileName.run(.expired, fixture.manifest.nextFileNumber).text
        try foreign.create(next).write(foreign.disk.contents(newest[0].text)!, at: 0)
        foreign.disk.damage(first[0].text) { $0[16] ^= 1 }
        try foreign.unlink(FileName.manifest(Generation(rawValue: 2)).text)
        #expect(
            try Set(open(foreign).movedAside) == ["aside/\(first[0].text)", "aside/\(next)"])
        #expect(try !foreign.names().contains(next))
    }

    @Test func `a start needs the file that the manifest names, with its header`() throws {
        var fixture = try Fixture()
        try fixture.expire(2)
        for (place, name) in fixture.manifest.expired[0].fileNames.map(\.text).enumerated() {
            let missing = fixture.files.disk.kill()
            try missing.unlink(name)
            // As long as the segments are there, the counters can be made of them again.
            if place == 0 { #expect(try open(missing.disk.copy()).manifest.sealed.count == 3) }
            for number in 1...2 as ClosedRange<UInt32> {
                try missing.unlink(FileName.segment(SegmentNumber(rawValue: number)).text)
            }
            #expect(
                error(of: { try open(missing) })
                    == .corrupt(
                        path: "/sim/\(name)", offset: 0,
                        detail: "missing file named by the manifest"))
            for byte in [0, 100, 127] {
                let flipped = fixture.files.disk.kill()
                flipped.disk.damage(name) { $0[byte] ^= 1 }
                #expect(error(of: { try open(flipped) })?.exitCode == 65, "byte \(byte)")
            }
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
