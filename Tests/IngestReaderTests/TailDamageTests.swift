import IngestFormat
import IngestReader
import IngestStorage
import TestSupport
import Testing

/// Queries over directories of which the disk lost a part: the whole answer, or an error.
@Suite struct TailDamageTests {
    @Test("Damage in the live segment that whole blocks follow is 65, with a mark and without")
    func followed() throws {
        let fixture = try LogFixture.random(seed: 21, liveBlockCount: 6)
        let name = FileName.segment(fixture.position.segment).text
        let whole = fixture.files.disk.contents(name)!
        for hasMark in [true, false] {
            if !hasMark { try fixture.files.unlink(FileName.durableMark.text) }
            for byte in stride(
                from: Int(SegmentLayout.blocksOffset) + 8, to: fixture.lastBlock.lowerBound, by: 83)
            {
                fixture.flip(name, byte: byte, bit: byte % 8)
                // Heads are read at once, all else when it is asked for.
                let error = #expect(throws: ReaderError.self, "byte \(byte)") {
                    try fixture.reader.rewards()
                }
                #expect(error?.kind == .corrupt && error?.path.hasSuffix(name) == true)
                fixture.files.disk.damage(name) { $0 = whole }
            }
        }
    }

    @Test("A mark that cannot be believed is an error, a missing one is not, a newer one is newer")
    func mark() throws {
        let fixture = try LogFixture.random(seed: 22)
        for byte in 0..<64 {
            fixture.flip("durable-mark", byte: byte, bit: byte % 8)
            let error = #expect(throws: ReaderError.self, "byte \(byte)") { try fixture.reader }
            #expect(error?.kind == .corrupt && error?.path.hasSuffix("durable-mark") == true)
            fixture.flip("durable-mark", byte: byte, bit: byte % 8)
        }
        try SnapshotTests.expectAnswers(of: fixture.reader, are: fixture.model)
        try fixture.files.unlink("durable-mark")
        try SnapshotTests.expectAnswers(of: fixture.reader, are: fixture.modelBeforeLastBlock)
    }

    @Test("A point reads only its parts of a block: damage in these is 65, in others nothing")
    func parts() throws {
        let fixture = try LogFixture(seed: 24)
        try fixture.beginSegment()
        var random = SeededRandom(seed: 24)
        // Their ids are more than is read beside what is asked for.
        try fixture.append((0..<3_000).map { _ in FixtureEvent(&random) })
        try fixture.append([FixtureEvent(&random)])
        let rows = try fixture.reader.rewards()
        #expect(rows.count > 10)
        for row in rows { #expect(try fixture.reader.reward(row.id) == row) }
        let wanted: BlockSections = [.dictionary, .counters]
        let name = FileName.segment(fixture.position.segment).text
        let start = Int(SegmentLayout.blocksOffset)
        let block = Array(fixture.files.disk.contents(name)![start...])
        var kinds: Set<BlockSectionKind> = []
        for section in try BlockDecoder().sections(block.span.bytes) {
            kinds.insert(section.kind)
            let byte = start + section.offset + section.byteCount / 2
            fixture.flip(name, byte: byte)
            let found = Result { try fixture.reader.reward(rows[3].id) }
            if wanted.isDisjoint(with: section.kind.part) {
                #expect(try found.get() == rows[3], "\(section.kind)")
            } else {
                let error = #expect(throws: ReaderError.self, "\(section.kind)") { try found.get() }
                #expect(error?.kind == .corrupt && error?.path.hasSuffix(name) == true)
            }
            fixture.flip(name, byte: byte)
        }
        #expect(kinds.isSuperset(of: [.names, .keyRewards, .key, .eventHash, .revenue, .visible]))
    }

    @Test("However many blocks of a segment are damaged, it is read a bounded number of times")
    func manyDamaged() throws {
        let fixture = try LogFixture(seed: 23)
        try fixture.beginSegment()
        var starts: [Int] = []
        for _ in 0..<16 {
            try fixture.append([FixtureEvent()])
            starts.append(fixture.lastBlock.lowerBound)
        }
        try fixture.files.unlink(FileName.durableMark.text)
        let name = FileName.segment(fixture.position.segment).text
        var random = SeededRandom(seed: 23)
        fixture.files.disk.damage(name) { bytes in
            bytes += (0..<1 << 17).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        }
        for index in stride(from: 1, to: 15, by: 2) {
            fixture.flip(name, byte: starts[index] + 20)
        }
        let before = fixture.files.disk.readByteCount
        let report = try fixture.verify()
        #expect(report.exitCode == 65 && report.rowCount == 9)
        let readByteCount = fixture.files.disk.readByteCount - before
        #expect(readByteCount < 16 * fixture.byteCount(name), "\(readByteCount)")
    }
}
