import IngestFormat
import IngestStorage
import TestSupport
import Testing

@testable import IngestVerify

/// Every way in which the last write of a log can be cut off, and every flipped bit in one that was not.
@Suite struct TornTests {
    /// A log of small blocks of which none is known to be durable, and where each lies.
    struct SmallBlocks {
        let fixture: LogFixture
        let name: String
        let whole: [UInt8]
        var blocks: [Range<Int>] = []

        init(seed: UInt64, blockCount: Int) throws {
            var random = SeededRandom(seed: seed)
            fixture = try LogFixture(seed: seed)
            try fixture.beginSegment()
            name = FileName.segment(fixture.position.segment).text
            for _ in 0..<blockCount {
                let events = (0...random.below(4)).map { _ in FixtureEvent(&random) }
                try fixture.append(events, setsMark: false)
                blocks.append(fixture.lastBlock)
            }
            whole = fixture.files.disk.contents(name)!
        }

        /// The file as it was when the last of its blocks was `block`.
        func file(endingWith block: Range<Int>) -> [UInt8] {
            whole[..<block.upperBound] + Array(repeating: 0, count: whole.count - block.upperBound)
        }

        /// What `verify` says of a directory with these bytes.
        func exitCode(_ bytes: [UInt8]) throws -> Int32 {
            fixture.files.disk.damage(name) { $0 = bytes }
            return try Verifier.run(fixture.files, workerCount: 1).exitCode
        }

        func sectors(of block: Range<Int>) -> Range<Int> {
            block.lowerBound / 512..<(block.upperBound + 511) / 512
        }

        /// Leaves out what the write of `block` put into these sectors.
        func missing(_ sectors: Range<Int>, of block: Range<Int>) -> [UInt8] {
            var bytes = file(endingWith: block)
            let range = (sectors.lowerBound * 512..<sectors.upperBound * 512).clamped(to: block)
            for byte in range { bytes[byte] = 0 }
            return bytes
        }
    }

    /// Expects no fault in a copy of the directory with these bytes.
    @discardableResult
    static func expectTorn(
        _ log: SmallBlocks, _ bytes: [UInt8], _ comment: Comment
    ) throws -> SimulatedFileSystem {
        let files = log.fixture.files.disk.copy()
        files.disk.damage(log.name) { $0 = bytes }
        let report = try Verifier.run(files, workerCount: 1)
        #expect(report.exitCode == 0, comment)
        #expect(report.findings.allSatisfy { $0.kind == .note }, comment)
        return files
    }

    @Test("A write that misses sectors is torn: every block, every sector", arguments: 1...4)
    func sectors(seed: Int) throws {
        let log = try SmallBlocks(seed: UInt64(seed), blockCount: 16)
        for (number, block) in log.blocks.enumerated() {
            let sectors = log.sectors(of: block)
            for sector in sectors {
                for missing in [sector..<sectors.upperBound, sector..<sector + 1] {
                    let bytes = log.missing(missing, of: block)
                    try Self.expectTorn(log, bytes, "block \(number), missing \(missing)")
                }
            }
        }
    }

    @Test("A file that ends inside its last block is torn, at every length")
    func lengths() throws {
        let log = try SmallBlocks(seed: 7, blockCount: 2)
        for (number, block) in log.blocks.enumerated() {
            for end in block {
                try Self.expectTorn(
                    log, Array(log.whole[..<end]), "block \(number) up to byte \(end)")
            }
        }
    }

    @Test("Recovery calls torn what verify does, and loses nothing by it", arguments: 1...3)
    func recovery(seed: Int) throws {
        let log = try SmallBlocks(seed: UInt64(seed), blockCount: 10)
        for (number, block) in log.blocks.enumerated() {
            for sector in log.sectors(of: block) {
                let bytes = log.missing(sector..<sector + 1, of: block)
                let files = try Self.expectTorn(log, bytes, "block \(number), sector \(sector)")
                let report = try recoverSegments(in: files, after: log.fixture.manifest, now: 9)
                #expect(report.lost.isEmpty)
                // Where the sector had only the padding, nothing is missing.
                let isWhole = bytes == log.file(endingWith: block)
                let kept = report.segments.reduce(0) { $0 + $1.file.footer.blocks.count }
                #expect(kept == number + (isWhole ? 1 : 0))
            }
        }
    }

    @Test("A flipped bit in a block that is wholly there is damage: every byte of every block")
    func flips() throws {
        let log = try SmallBlocks(seed: 9, blockCount: 2)
        var missed: [String] = []
        for (number, block) in log.blocks.enumerated() {
            let good = log.file(endingWith: block)
            for byte in block {
                var bad = good
                bad[byte] ^= 1 << UInt8((byte * 5 + byte / 8) % 8)
                if try log.exitCode(bad) != 65 { missed.append("\(number): \(byte)") }
            }
        }
        #expect(missed.isEmpty)
    }

    @Test("A bit flipped in the lengths of a header is damage, wherever the header lies")
    func flippedLengths() throws {
        let log = try SmallBlocks(seed: 10, blockCount: 8)
        typealias Field = BlockLayout.Header
        for block in log.blocks {
            for field in [Field.headerByteCount, Field.byteCount, Field.sectionCount] {
                for bit in 0..<8 * field.byteCount {
                    var bytes = log.file(endingWith: block)
                    bytes[block.lowerBound + field.offset + bit / 8] ^= 1 << UInt8(bit % 8)
                    #expect(try log.exitCode(bytes) == 65, "\(field.name) bit \(bit)")
                }
            }
        }
    }

    @Test("A header that was not wholly written is one that was not durable, at every length")
    func header() throws {
        let fixture = try LogFixture.random(seed: 8, liveBlockCount: 0)
        try fixture.beginSegment()
        let name = FileName.segment(fixture.position.segment).text
        let whole = fixture.files.disk.contents(name)!
        for end in 0..<SegmentHeader.byteCount {
            fixture.files.disk.damage(name) { $0 = Array(whole[..<end]) }
            #expect(try fixture.verify().exitCode == 0, "\(end) bytes")
        }
        fixture.files.disk.damage(name) { $0 = whole }
        for byte in 0..<SegmentHeader.byteCount {
            fixture.flip(name, byte: byte, bit: byte % 8)
            #expect(try fixture.verify().exitCode == 65, "byte \(byte)")
            fixture.flip(name, byte: byte, bit: byte % 8)
        }
    }

    @Test("A footer of which a sector is missing, or the end, is torn")
    func footer() throws {
        let fixture = try LogFixture.random(seed: 14, segmentCount: 1)
        let name = FileName.segment(fixture.position.segment).text
        let start = fixture.lastBlock.upperBound
        try fixture.seal()
        let whole = fixture.files.disk.contents(name)!
        var variants: [[UInt8]] = []
        for sector in start / 512..<(whole.count + 511) / 512 {
            var bytes = whole
            for byte in (sector * 512..<(sector + 1) * 512).clamped(to: start..<whole.count) {
                bytes[byte] = 0
            }
            variants.append(bytes)
        }
        for end in stride(from: start, to: whole.count, by: 5) {
            variants.append(Array(whole[..<end]))
        }
        for (number, bytes) in variants.enumerated() {
            fixture.files.disk.damage(name) { $0 = bytes }
            let report = try fixture.verify()
            #expect(report.exitCode == 0, "variant \(number): \(report.findings)")
        }
    }

    @Test("One flipped bit is told from any other difference by the checksums alone")
    func oneBit() {
        var random = SeededRandom(seed: 3)
        for byteCount in [1, 2, 7, 64, 300] {
            let bytes = (0..<byteCount).map { _ in UInt8(random.below(256)) }
            let checksum = Checksum.crc32c(bytes)
            for bit in 0..<8 * byteCount {
                var other = bytes
                other[bit / 8] ^= 1 << UInt8(bit % 8)
                let difference = checksum ^ Checksum.crc32c(other)
                #expect(TailJudge.isOneBit(difference, byteCount: byteCount))
                if byteCount == 1 { continue }
                other[(bit / 8 + 1) % byteCount] ^= 0x11
                let two = checksum ^ Checksum.crc32c(other)
                #expect(!TailJudge.isOneBit(two, byteCount: byteCount))
            }
        }
        #expect(!TailJudge.isOneBit(0, byteCount: 300))
    }
}
