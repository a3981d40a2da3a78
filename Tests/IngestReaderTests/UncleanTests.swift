import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify
import TestSupport
import Testing

/// Directories as crashes leave them.
@Suite struct UncleanTests {
    /// A live segment whose last block was written and not marked; and where that block lies.
    static func unmarked(seed: UInt64, eventCount: Int) throws -> (LogFixture, String, Range<Int>) {
        var random = SeededRandom(seed: seed)
        let fixture = try LogFixture.random(seed: seed)
        let name = FileName.segment(fixture.position.segment).text
        try fixture.append(
            (0..<eventCount).map { _ in FixtureEvent(&random, rewardCount: 900) }, setsMark: false,
            syncs: false)
        return (fixture, name, fixture.lastBlock)
    }

    @Test("A torn block behind the durable ones is noted and is no fault", arguments: 1...12)
    func torn(seed: Int) throws {
        var random = SeededRandom(seed: UInt64(seed))
        let (fixture, name, block) = try Self.unmarked(seed: UInt64(seed), eventCount: 600)
        #expect(block.count > 3 * 512)
        // Some sectors of the write did not reach the disk; at least one of them, and not all.
        fixture.files.disk.damage(name) { bytes in
            let sectors = (block.lowerBound / 512 + 1)..<(block.upperBound / 512)
            let missing = Int(random.below(UInt64(sectors.count)))
            for (index, sector) in sectors.enumerated()
            where index == missing || random.below(2) == 0 {
                for byte in sector * 512..<(sector + 1) * 512 { bytes[byte] = 0 }
            }
        }
        let report = try fixture.verify()
        #expect(report.exitCode == 0)
        #expect(report.findings.map(\.kind) == [.note])
        #expect(report.findings.first?.offset == UInt64(block.lowerBound))
        try SnapshotTests.expectAnswers(of: fixture.reader, are: fixture.modelBeforeLastBlock)
    }

    @Test("A flipped bit in a block that is wholly there is damage, durable or not")
    func flippedInLast() throws {
        let (fixture, name, block) = try Self.unmarked(seed: 4, eventCount: 600)
        #expect(try fixture.verify().exitCode == 0)
        for byte in stride(from: block.lowerBound, to: block.upperBound, by: 97) {
            fixture.flip(name, byte: byte, bit: byte % 8)
            #expect(try fixture.verify().exitCode == 65, "byte \(byte)")
            fixture.flip(name, byte: byte, bit: byte % 8)
        }
    }

    @Test("Bytes that no write can have left are damage")
    func strayBytes() throws {
        let fixture = try LogFixture.random(seed: 5)
        let name = FileName.segment(fixture.position.segment).text
        let end = fixture.lastBlock.upperBound + 600
        for (count, code) in [(1, Int32(65)), (15, 65)] {
            fixture.files.disk.damage(name) { bytes in
                for byte in end..<end + count { bytes[byte] = 0xA5 }
            }
            #expect(try fixture.verify().exitCode == code)
            fixture.files.disk.damage(name) { bytes in
                for byte in end..<end + count { bytes[byte] = 0 }
            }
        }
    }

    @Test("A footer that was not finished is noted, also when the log went on")
    func unfinishedFooter() throws {
        let fixture = try LogFixture.random(seed: 6)
        let name = FileName.segment(fixture.position.segment).text
        let end = fixture.lastBlock.upperBound
        try fixture.seal()
        let whole = fixture.files.disk.contents(name)!
        for goesOn in [false, true] {
            if goesOn {
                try fixture.beginSegment()
                try fixture.append([FixtureEvent()])
            }
            fixture.files.disk.damage(name) { bytes in
                bytes = whole + Array(repeating: 0, count: 4096)
                let sector = (end / 512 + 1) * 512
                for byte in sector..<bytes.count { bytes[byte] = 0 }
            }
            let report = try fixture.verify()
            #expect(report.exitCode == 0)
            #expect(report.findings.map(\.kind) == [.note])
            try SnapshotTests.expectAnswers(of: fixture.reader, are: fixture.model)
        }
    }

    @Test("A flipped bit in a footer that no manifest has yet is damage")
    func flippedFooter() throws {
        let fixture = try LogFixture.random(seed: 11, segmentCount: 1)
        let name = FileName.segment(fixture.position.segment).text
        let start = fixture.lastBlock.upperBound
        try fixture.seal()
        #expect(try fixture.verify().findings.isEmpty)
        for byte in stride(from: start, to: fixture.byteCount(name), by: 61) {
            fixture.flip(name, byte: byte, bit: byte % 8)
            #expect(try fixture.verify().exitCode == 65, "byte \(byte)")
            fixture.flip(name, byte: byte, bit: byte % 8)
        }
    }

    @Test("What recovery recorded as lost is evidence lost, with the number of events")
    func lost() throws {
        let fixture = try LogFixture.random(seed: 7, liveBlockCount: 5)
        let name = FileName.segment(fixture.position.segment).text
        // The second block of the live segment.
        let bytes = fixture.files.disk.contents(name)!
        let decoder = BlockDecoder()
        let first = try decoder.header(bytes.span.bytes.extracting(droppingFirst: 4_096))
        let second = try decoder.header(
            bytes.span.bytes.extracting(droppingFirst: 4_096 + first.byteCount))
        fixture.flip(name, byte: 4_096 + first.byteCount + second.headerByteCount + 40)
        #expect(try fixture.verify().exitCode == 65)
        #expect(throws: ReaderError.self) { try fixture.reader.rewards() }
        let sealed = try recoverSegments(
            in: fixture.files, after: fixture.manifest, now: 9
        ).segments
        #expect(sealed.count == 1)
        for isPublished in [false, true] {
            if isPublished { try fixture.publish(sealed.map(\.file)) }
            let report = try fixture.verify()
            #expect(report.exitCode == 65)
            #expect(report.evidenceLostCount == 1 && report.corruptionCount == 0)
            #expect(report.differenceCount == 0)
            #expect(
                report.findings.first?.description.hasPrefix("evidence lost, 30 events in ") == true
            )
            #expect(report.findings.first?.what.hasPrefix("30 events in 1 blocks") == true)
            let rows = try fixture.reader.rewards()
            let gross = rows.reduce(UInt64(0)) { sum, row in
                sum + Counters.Kind.allCases.reduce(0) { $0 + row.counters.gross($1) }
            }
            #expect(gross == UInt64(fixture.model.facts.count - 30))
        }
    }

    @Test("Blocks lost at the end of a segment that others follow are one loss and no more")
    func lostAtEnd() throws {
        let fixture = try LogFixture.random(seed: 12, liveBlockCount: 4)
        let name = FileName.segment(fixture.position.segment).text
        let last = fixture.lastBlock
        try fixture.beginSegment()
        try fixture.append([FixtureEvent()])
        fixture.flip(name, byte: last.upperBound - 20)
        let sealed = try recoverSegments(
            in: fixture.files, after: fixture.manifest, now: 9
        ).segments
        #expect(sealed.count == 2)
        for isPublished in [false, true] {
            if isPublished { try fixture.publish(sealed.map(\.file)) }
            let report = try fixture.verify()
            #expect(report.evidenceLostCount == 1 && report.corruptionCount == 0)
            #expect(report.differenceCount == 0)
        }
    }

    @Test("A bad block in an unsealed segment costs itself, wherever it is bad, marked or not")
    func damageGoesOn() throws {
        for place in [2, 200] {
            for setsMark in [false, true] {
                var random = SeededRandom(seed: 13)
                let fixture = try LogFixture.random(seed: 13, liveBlockCount: 1)
                let name = FileName.segment(fixture.position.segment).text
                var bad = 0..<0
                for number in 1...6 {
                    let events = (0..<10).map { _ in FixtureEvent(&random) }
                    try fixture.append(events, setsMark: setsMark)
                    if number == 3 { bad = fixture.lastBlock }
                }
                fixture.flip(name, byte: bad.lowerBound + place)
                let report = try fixture.verify()
                #expect(report.exitCode == 65 && report.corruptionCount == 1)
                #expect(report.rowCount == UInt64(fixture.model.facts.count - 10))
                #expect(report.end == fixture.position)
            }
        }
    }

    @Test("After a power cut at any write, what the reader answers is a prefix of what was written")
    func powerCuts() throws {
        for seed in UInt64(1)...20 {
            let (fixture, _, _) = try Self.unmarked(seed: seed, eventCount: 600)
            let after = fixture.files.disk.powerCut(seed: seed)
            let reader = try IngestReader.open(after)
            let model = try #require(fixture.models[reader.cut])
            try SnapshotTests.expectAnswers(of: reader, are: model)
            // The last block that was synced may not be known as durable; none before it is missing.
            #expect(reader.cut >= Cut(segment: 4, block: 2))
            #expect(try Verifier.run(after).exitCode == 0, "seed \(seed)")
        }
    }
}
