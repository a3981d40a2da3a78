import IngestFormat
import IngestStorage
import TestSupport
import Testing

@Suite struct RunReaderTests {
    /// Rows as a source, page by page.
    private struct Rows: CounterPageSource {
        var rows: [(key: UInt32, day: Int32, count: UInt64)]
        var next = 0
        var failAt: Int?

        mutating func nextPage(into page: CounterPage) throws(FormatError) -> Bool {
            page.removeAll()
            while next < rows.count {
                if next == failAt { throw .corrupt("rows", at: next, got: 0, expected: .min(1)) }
                var counters = CounterRow()
                counters[.impressions] = rows[next].count
                counters[.clicks] = rows[next].count / 3
                guard page.append(key: rows[next].key, day: rows[next].day, counters: counters)
                else { return true }
                next += 1
            }
            return page.rowCount > 0
        }
    }

    private func rows(_ count: Int, seed: UInt64 = 1) -> Rows {
        var random = SeededRandom(seed: seed)
        var key: UInt32 = 0
        return Rows(
            rows: (0..<count).map { _ in
                key += 1 + UInt32(random.below(5))
                return (key, Int32(random.below(400)) - 200, random.next() >> random.below(64))
            })
    }

    private let span = LogSpan(
        firstSegment: SegmentNumber(rawValue: 1),
        end: LogPosition(segment: SegmentNumber(rawValue: 3), blockCount: 5))

    private func write(
        _ source: Rows, to files: SimulatedFileSystem
    ) throws -> RunEntry {
        do {
            return try RunWriter.write(
                .rewardDays, number: FileNumber(rawValue: 12), of: span, for: TestLog.manifest(),
                in: files
            ) { source }
        } catch {
            guard case .storage(let error) = error else { throw error }
            throw error
        }
    }

    private func read<Source: CounterPageSource>(
        _ source: Source
    ) throws -> [[UInt64]] {
        var source = source
        let page = CounterPage()
        var found: [[UInt64]] = []
        while try source.nextPage(into: page) {
            for row in 0..<page.rowCount {
                let counters = page.counters(row)
                found.append([
                    UInt64(page.key(row)), UInt64(bitPattern: Int64(page.day(row))),
                    counters[.impressions], counters[.clicks],
                ])
            }
        }
        return found
    }

    @Test(arguments: [0, 1, 1024, 1025, 5000])
    func `a run gives the rows that were written, page by page`(
        _ count: Int
    ) throws {
        let files = SimulatedFileSystem(seed: 1)
        let source = rows(count)
        let entry = try write(source, to: files)
        #expect(entry.rowCount == UInt64(count))
        #expect(entry.fileName.text == "0000000012.reward-days.run")
        let run = try RunReader(entry, directory: TestLog.directory, in: files)
        let expected = try read(source)
        #expect(try read(run.makeCursor()) == expected)
        #expect(expected.count == count)
    }

    @Test func `every flipped byte of a run is found`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let entry = try write(rows(40), to: files)
        let name = entry.fileName.text
        for byte in 0..<Int(entry.byteCount) {
            let other = files.disk.kill()
            other.disk.damage(name) { $0[byte] ^= 0x20 }
            let failure = error(of: {
                try read(RunReader(entry, directory: TestLog.directory, in: other).makeCursor())
            })
            #expect(failure?.exitCode == 65, "byte \(byte)")
        }
    }

    @Test(arguments: [1, 1025, 40_000])
    func `a point and a range of keys are what the whole run has of them`(count: Int) throws {
        let files = SimulatedFileSystem(seed: 1)
        let entry = try write(rows(count), to: files)
        let run = try RunReader(entry, directory: TestLog.directory, in: files)
        let expected = try read(run.makeCursor())
        let buffer = ReadBuffer()
        for row in stride(from: 0, to: count, by: 61).map({ expected[$0] }) {
            let found = try run.rows(of: CounterPoint(key: UInt32(row[0])), buffer: buffer)
            #expect(found.map { UInt64(bitPattern: Int64($0.day)) } == [row[1]])
            #expect(found.first?.counters[.impressions] == row[2])
            let none = try run.rows(
                of: CounterPoint(key: UInt32(row[0]), columns: []), buffer: buffer)
            #expect(none.first?.counters == CounterRow())
        }
        #expect(try run.rows(of: CounterPoint(key: 0), buffer: buffer) == [])
        for keys in [0...0, 1...10, 500...600, 1_000...90_000, 0...UInt32.max] {
            let part = expected.filter { keys.contains(UInt32($0[0])) }
            #expect(try read(run.makeCursor(keys: keys)) == part, "\(keys)")
        }
        var copies = (run.makeCursor(), run.makeCursor(columns: CounterColumnSet([.clicks])))
        copies.1 = copies.0
        #expect(try read(copies.0) == expected)
        #expect(try read(copies.1) == expected)
    }

    @Test func `a damaged page is refused by a point and by a range that need it, and by no other`()
        throws
    {
        let files = SimulatedFileSystem(seed: 1)
        let entry = try write(rows(3_000), to: files)
        let run = try RunReader(entry, in: files)
        let second = run.index.entries[1]
        files.disk.damage(entry.fileName.text) { $0[128 + second.offset + 5] ^= 1 }
        let buffer = ReadBuffer()
        let damaged = error(of: {
            try run.rows(of: CounterPoint(key: second.firstKey), buffer: buffer)
        })
        #expect(damaged?.exitCode == 65)
        let first = run.index.entries[0].firstKey
        #expect(try run.rows(of: CounterPoint(key: first), buffer: buffer).count == 1)
        let range = error(of: {
            try read(run.makeCursor(keys: second.firstKey...second.firstKey + 1))
        })
        #expect(range?.exitCode == 65)
        #expect(try !read(run.makeCursor(keys: first...second.firstKey - 1)).isEmpty)
    }

    @Test func `another run than the manifest means is refused, and a missing one told`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let entry = try write(rows(40), to: files)
        let other = try write(rows(40, seed: 2), to: SimulatedFileSystem(seed: 2))
        #expect(other.checksum != entry.checksum)
        #expect(error(of: { try RunReader(other, in: files) })?.exitCode == 65)
        #expect(
            error(of: {
                try RunReader(entry, directory: DirectoryID(rawValue: 4), in: files)
            })?.exitCode == 65)
        files.disk.damage(entry.fileName.text) { $0.append(0) }
        #expect(error(of: { try RunReader(entry, in: files) })?.exitCode == 65)
        try files.unlink(entry.fileName.text)
        guard case .notFound? = error(of: { try RunReader(entry, in: files) }) else {
            Issue.record("opened nothing")
            return
        }
    }

    @Test func `rows that cannot be had leave no run`() throws {
        let files = SimulatedFileSystem(seed: 1)
        var source = rows(3000)
        source.failAt = 2500
        #expect(throws: RunWriteError<FormatError>.self) { try write(source, to: files) }
        #expect(try files.names() == [])
    }

    @Test func `a run stays readable after it was unlinked`() throws {
        let files = SimulatedFileSystem(seed: 1)
        let source = rows(3000)
        let entry = try write(source, to: files)
        let run = try RunReader(entry, in: files)
        try files.unlink(entry.fileName.text)
        #expect(try read(run.makeCursor()) == read(source))
    }
}
