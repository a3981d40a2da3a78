import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// A sector of each file that cannot be read, in this life and in all that follow: no start fails for ever, `verify` says
/// what is wrong, and a reader answers in full or says why not.
@Suite("Sectors that cannot be read")
struct UnreadableTests {
    private let clock = SimulatedClock.afterEvents()
    private static let packetCount: UInt64 = 800
    private static let pageByteCount = 4096

    /// A directory with all kinds of files and an unsealed tail, as a kill leaves it.
    private func filled() throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        do {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
                $0.segmentByteCountMax = 20_000
                $0.retention = RetentionPolicy(byteCountMax: 100_000)
            }
            try pipeline.take(0..<Self.packetCount)
        }
        return files.disk.kill()
    }

    /// What `verify` finds; it never ends with an error of the disk.
    private func findings(_ files: SimulatedFileSystem) throws -> [Finding] {
        try Verifier.run(files, workerCount: 1).findings.filter { $0.kind != .note }
    }

    private func isUsed(_ file: FileName, by manifest: Manifest) -> Bool {
        switch file {
        case .segment(let number): number > manifest.lastExpired
        case .durableMark: true
        default: manifest.fileNames.contains(file)
        }
    }

    @Test("a start goes on without it, again and again, and says what was lost")
    func start() throws {
        let base = try filled()
        let manifest = try newest(base)
        #expect(!manifest.expired.isEmpty && !manifest.runs.isEmpty && !manifest.level0.isEmpty)
        let whole = ReferenceModel(packetCount: Self.packetCount)
        #expect(try DirectoryReading(base).counts == whole.counts)
        var kinds: Set<String> = []
        for name in try base.names() {
            guard let bytes = base.disk.contents(name), !bytes.isEmpty,
                let file = FileName(name), isUsed(file, by: manifest)
            else { continue }
            kinds.insert(String(name.drop { $0 != "." }))
            // A part of the log that nothing can make again: refused, by its name.
            let isExpired = manifest.expired.contains { $0.fileNames.contains(file) }
            for page in 0...(bytes.count - 1) / Self.pageByteCount {
                let files = base.disk.kill()
                files.disk.makeUnreadable(
                    name, page * Self.pageByteCount..<(page + 1) * Self.pageByteCount)
                let place = "\(name) page \(page)"
                try expectTold(files, whole, mayBeSilent: file == .durableMark, place)
                try expectStarts(files, mayRefuse: isExpired ? name : nil, place)
            }
        }
        #expect(
            kinds == [
                "", ".segment", ".manifest", ".names.run", ".rewards.run", ".days.run",
                ".reward-days.run", ".expired.run", ".expired-names.run",
            ], "\(kinds)")
    }

    @Test("blocks of the window that cannot be read are told at each start, and stay counted")
    func window() throws {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
            $0.segmentByteCountMax = 1 << 20
        }
        for sequence in 0..<60 as Range<UInt64> {
            while !pipeline.offer(SimulatedPacket(sequence: sequence, hasIDs: true)) {
                try pipeline.turn()
            }
            try pipeline.settle()
        }
        try pipeline.stop()
        let left = files.disk.kill()
        let counts = try DirectoryReading(left).counts
        left.disk.makeUnreadable("0000000001.segment", 4096..<4097)
        for _ in 0..<2 {
            var random = SeededRandom(seed: 1)
            let start = try PipelineStart.open(
                left, clock: clock, counters: PipelineCounters(), random: &random)
            let warning = try #require(start.warnings.first)
            #expect(warning.contains("blocks of sealed segments cannot be read"))
            #expect(warning.contains("Input/output error (5)"), "\(warning)")
            #expect(warning.contains("0000000001.segment at byte"), "\(warning)")
        }
        #expect(try DirectoryReading(left).counts == counts)
    }

    @Test("a sealed segment of which only a part is left is told at a start")
    func partOfWindow() throws {
        let base = try filled()
        let manifest = try newest(base)
        // Merged: without its footer nothing has to be made again.
        let (segment, blockCount) = (manifest.sealed[0].number, manifest.sealed[0].blockCount)
        try #require(blockCount > 1)
        let name = FileName.segment(segment).text
        /// What a start says of the segment.
        func warning(_ damage: (inout [UInt8]) -> Void) throws -> String? {
            let left = base.disk.kill()
            left.disk.damage(name, damage)
            var random = SeededRandom(seed: 1)
            return try PipelineStart.open(
                left, clock: clock, counters: PipelineCounters(), random: &random
            ).warnings.first
        }
        #expect(try warning { _ in } == nil)
        // Without its header and its footer, its blocks are there.
        #expect(try warning { $0[20] ^= 1 } == nil && warning { $0.removeLast(8) } == nil)
        let whole = "\(blockCount) blocks of sealed segments cannot be read"
        let changes: [(inout [UInt8]) -> Void] = [
            { $0.removeLast($0.count - 40) }, { $0.removeAll() },
        ]
        for change in changes {
            let line = try #require(try warning(change))
            #expect(line.hasPrefix(whole) && line.hasSuffix("\(blockCount) blocks of \(name)"))
        }
    }

    @Test(
        "the place that is told is that of the block, not of another bad one that was read with it")
    func firstOfWindow() throws {
        let files = SimulatedFileSystem(seed: 1)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
            $0.segmentByteCountMax = 1 << 20
        }
        for sequence in 0..<400 as Range<UInt64> {
            while !pipeline.offer(SimulatedPacket(sequence: sequence, hasIDs: true)) {
                try pipeline.turn()
            }
            if sequence % 100 == 99 { try pipeline.settle() }
        }
        try pipeline.stop()
        let left = files.disk.kill()
        let manifest = try newest(left)
        let blocks = try SegmentReader(
            manifest.sealed[0].number, directory: manifest.directory, in: left
        ).readFooter(of: manifest.sealed[0]).blocks
        try #require(blocks.count > 2)
        let (first, last) = (blocks[0], blocks[blocks.count - 1])
        let name = FileName.segment(manifest.sealed[0].number).text
        left.disk.damage(name) { $0[Int(first.offset) + 200] ^= 1 }
        left.disk.makeUnreadable(name, Int(last.end) - 8..<Int(last.end))
        try #require(Int(last.end) / 4096 > Int(first.end) / 4096)
        var random = SeededRandom(seed: 1)
        let start = try PipelineStart.open(
            left, clock: clock, counters: PipelineCounters(), random: &random)
        let warning = try #require(start.warnings.first)
        #expect(warning.contains("2 blocks of sealed segments cannot be read"), "\(warning)")
        #expect(warning.contains("\(name) at byte \(first.offset)"), "\(warning)")
    }

    @Test("a segment of which nothing can be read costs a start and verify some dozens of attempts")
    func wholeSegment() throws {
        let files = SimulatedFileSystem(seed: 1)
        do {
            var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4) {
                $0.segmentByteCountMax = 8 << 20
            }
            for sequence in 0..<600 as Range<UInt64> {
                while !pipeline.offer(SimulatedPacket(sequence: sequence, hasIDs: true)) {
                    try pipeline.turn()
                }
                try pipeline.settle()
            }
        }
        for isVerify in [false, true] {
            let left = files.disk.kill()
            let byteCount = try #require(left.disk.contents("0000000001.segment")?.count)
            let pageCount = byteCount / Self.pageByteCount
            try #require(pageCount > 400)
            left.disk.makeUnreadable("0000000001.segment", 0..<byteCount)
            if isVerify {
                #expect(try Verifier.run(left, workerCount: 1).exitCode == 65)
            } else {
                _ = try SteppedPipeline.open(left, clock: clock, seed: 5)
            }
            #expect(left.disk.failedReadCount < 300, "\(isVerify): \(left.disk.failedReadCount)")
        }
    }

    /// `verify` names it, and a reader answers in full or says why not.
    private func expectTold(
        _ files: SimulatedFileSystem, _ whole: ReferenceModel, mayBeSilent: Bool, _ place: String
    ) throws {
        let found = try findings(files)
        #expect(
            mayBeSilent || found.contains { "\($0)".contains("Input/output error (5)") },
            "\(place): \(found.prefix(2))")
        do {
            #expect(try DirectoryReading(files).counts == whole.counts, "\(place)")
        } catch let error as ReaderError {
            #expect(error.kind == .corrupt, "\(place): \(error)")
        }
    }

    /// Two lives begin, and what is not recorded as lost is counted.
    /// - Parameter name: of a file without which none need begin.
    private func expectStarts(
        _ files: SimulatedFileSystem, mayRefuse name: String?, _ place: String
    ) throws {
        for life in 0..<2 {
            let left = files.disk.kill()
            do throws(PipelineError) {
                var pipeline = try SteppedPipeline.open(left, clock: clock, seed: 5)
                try pipeline.take(Self.packetCount..<Self.packetCount + 5)
            } catch {
                #expect(error.exitCode == 65, "\(place): \(error)")
                #expect(name.map { "\(error)".contains($0) } == true, "\(place): \(error)")
                continue
            }
            if life > 0 { continue }
            let whole = ReferenceModel(packetCount: Self.packetCount + 5)
            if try newest(left).lost.isEmpty {
                #expect(try DirectoryReading(left).counts == whole.counts, "\(place)")
            } else {
                #expect(try !findings(left).isEmpty, "\(place)")
            }
        }
    }
}
