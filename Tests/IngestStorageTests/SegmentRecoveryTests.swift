import IngestFormat
import IngestStorage
import TestSupport
import Testing

@Suite struct SegmentRecoveryTests {
    /// A log that was written whole and never sealed in a manifest.
    private func written(
        _ script: LogScript, markAt position: LogPosition? = nil
    ) throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced)
        if let position {
            try files.unlink("durable-mark")
            _ = try DurableMarkFile(
                in: files, directory: TestLog.directory, startingAt: position)
        }
        return files.disk.kill()
    }

    @Test func `R2: an unsealed log is sealed with its bytes at the same places`() throws {
        let script = LogScript(blockCounts: [3, 4])
        let files = try written(script)
        let report = try recover(files)
        #expect(report.blocks == script.blocks.map(\.summary))
        #expect(!report.isClean)
        #expect(report.lastSegment.rawValue == 2)
        #expect(report.lost == [])
        for index in script.headers.indices {
            let expected = try script.footer(index)
            #expect(report.segments[index].file.footer == expected.footer)
            let bytes =
                script.headers[index].padded + script.segments[index].flatMap(\.bytes)
                + expected.footer.encode(at: expected.offset).bytes
            #expect(files.disk.contents(script.name(index)) == bytes)
            let reader = try SegmentReader(
                script.headers[index].segment, directory: TestLog.directory, in: files)
            #expect(
                try reader.readFooter(of: report.segments[index].file.entry) == expected.footer)
        }
        let last = try #require(script.blocks.last)
        #expect(report.next.previousChecksum == last.summary.headerChecksum)
        #expect(report.next.commitEpoch == last.header.commitEpoch + 1)
        #expect(report.lastAdmissionTime == last.header.admissionTime)
    }

    @Test func `a crash anywhere in the life of a log leaves a prefix with all that was synced`()
        throws
    {
        let script = LogScript(blockCounts: [2, 3])
        let whole = SimulatedFileSystem(seed: 1)
        var all = 0
        try script.write(to: whole, synced: &all)
        for operation in 0..<whole.disk.operationCount {
            let files = SimulatedFileSystem(seed: 1)
            files.disk.crash(beforeOperation: operation)
            var synced = 0
            try? script.write(to: files, synced: &synced)
            for seed in 0..<4 as Range<UInt64> {
                let left = files.disk.powerCut(seed: seed)
                let report = try recover(left)
                let found = report.blocks
                #expect(found == script.blocks.prefix(found.count).map(\.summary))
                #expect(found.count >= synced, "operation \(operation), seed \(seed)")
                #expect(report.lost == [])
                // What was recovered is durable, and recovering again changes nothing.
                let again = left.disk.powerCut(seed: seed + 100)
                let repeated = try recover(again)
                #expect(repeated.blocks == found)
                #expect(repeated.next == report.next)
            }
        }
    }

    @Test func `a full disk needs room for the largest unsealed segment, however many there are`()
        throws
    {
        let script = LogScript(blockCounts: [4, 4, 4, 4, 4])
        let files = try written(script)
        let sealed = files.disk.copy()
        _ = try recover(sealed)
        let byteCounts = try script.headers.indices.map {
            try #require(sealed.disk.contents(script.name($0))).count
        }
        let space = try files.space()
        let used = Int(space.totalByteCount - space.freeByteCount)
        // A manifest and its like besides.
        let room = try #require(byteCounts.max()) + 1_024
        #expect(byteCounts.reduce(0, +) > 3 * room)
        files.disk.limit(byteCount: used + room)
        #expect(try recover(files).blocks == script.blocks.map(\.summary))
    }

    @Test func `the time of the last block is known behind a segment that has lost all of them`()
        throws
    {
        let script = LogScript(blockCounts: [3, 3])
        let files = try written(script)
        // Nothing is left of the second segment but its header.
        files.disk.damage(script.name(1)) { bytes in
            for index in Int(SegmentLayout.blocksOffset)..<bytes.count { bytes[index] = 0xA5 }
        }
        let report = try recover(files)
        var manifest = TestLog.manifest()
        manifest.sealed = report.segments.map(\.file.entry)
        manifest.shard.cut = LogPosition(segment: report.lastSegment, blockCount: 3)
        let next = try recoverSegments(in: files, after: manifest, now: TestLog.now)
        #expect(manifest.sealed.count == 2, "\(next.segments.count)")
        #expect(next.segments.isEmpty)
        #expect(next.lastAdmissionTime == script.blocks[2].header.admissionTime)
    }

    @Test(arguments: [UInt8?.none, 0, 0xA5])
    func `R3: a tail torn at any byte gives the longest whole prefix`(_ fill: UInt8?) throws {
        let script = LogScript(blockCounts: [2], rowCount: 2)
        let whole = try #require(try written(script).disk.contents(script.name(0)))
        let content = script.offset(segment: 0, block: 2)
        let sizes = script.segments[0].map(\.bytes.count)
        let base = try written(script, markAt: .start)
        let start = Int(SegmentLayout.blocksOffset)
        // Each byte of the blocks, and some of their padding.
        for cut in (start..<content).filter({ whole[$0] != 0 || $0 % 64 == 0 }) {
            let files = base.disk.kill()
            files.disk.damage(script.name(0)) { bytes in
                bytes.removeLast(bytes.count - cut)
                if let fill { bytes += [UInt8](repeating: fill, count: whole.count - cut) }
            }
            let left = try #require(files.disk.contents(script.name(0)))
            var blocks = 0
            var end = start
            while blocks < 2, end + sizes[blocks] <= left.count,
                left[end..<end + sizes[blocks]] == whole[end..<end + sizes[blocks]]
            {
                end += sizes[blocks]
                blocks += 1
            }
            let report = try recover(files)
            #expect(report.blocks == script.segments[0].prefix(blocks).map(\.summary))
            #expect(report.lost == [])
            // All of the torn bytes are aside, and nothing else.
            let aside = report.segments.first?.aside ?? report.asideOfDropped
            let kept = aside.flatMap { files.disk.contents($0) ?? [] }
            #expect(withoutZeros(kept[...]) == withoutZeros(left[end...]), "cut at \(cut)")
            let isHeaderWhole = cut >= end + 312 && end < content
            if let segment = report.segments.first, isHeaderWhole {
                #expect(segment.torn?.isHeaderReadable == true, "cut at \(cut)")
            }
        }
    }

    /// Without the zeros at the end, which nobody puts aside for their own sake.
    private func withoutZeros(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        bytes.prefix(through: bytes.lastIndex { $0 != 0 } ?? bytes.startIndex - 1)
    }

    @Test func `a tail that the mark calls durable is lost, not torn`() throws {
        let script = LogScript(blockCounts: [3], rowCount: 2)
        let base = try written(script)
        for cut in stride(
            from: Int(SegmentLayout.blocksOffset), to: script.offset(segment: 0, block: 3), by: 37)
        {
            let files = base.disk.kill()
            files.disk.damage(script.name(0)) { $0.removeLast($0.count - cut) }
            let report = try recover(files)
            let blocks = report.blocks.count
            #expect(report.blocks == script.segments[0].prefix(blocks).map(\.summary))
            #expect(report.lost.map(\.firstBlock) == [UInt32(blocks)])
            #expect(report.lost.map(\.blockCount) == [UInt32(3 - blocks)])
            #expect(report.segments.first?.torn == nil)
            // The numbers of the lost blocks are not given again.
            #expect(report.next.commitEpoch == script.blocks[2].header.commitEpoch + 1)
            #expect(try recover(files).lost == report.lost)
        }
    }

    @Test func `R3: a bad byte anywhere in a block costs that block, is put aside and reported`()
        throws
    {
        let script = LogScript(blockCounts: [3, 1], rowCount: 2)
        let start = script.offset(segment: 0, block: 1)
        let byteCount = script.segments[0][1].bytes.count
        let expected = [script.blocks[0], script.blocks[2], script.blocks[3]].map(\.summary)
        let base = try written(script)
        for byte in start..<start + byteCount {
            let files = base.disk.kill()
            files.disk.damage(script.name(0)) { $0[byte] ^= 0x10 }
            let bad = Array(
                try #require(files.disk.contents(script.name(0)))[start..<start + byteCount])
            let report = try recover(files)
            #expect(report.blocks == expected, "byte \(byte - start)")
            let lost = try #require(report.lost.first)
            #expect(report.lost.count == 1)
            #expect(lost.firstBlock == 1 && lost.blockCount == 1)
            #expect(lost.offset == UInt64(start) && lost.byteCount == UInt64(byteCount))
            #expect(lost.names == 4..<7 && lost.keys == 2..<4)
            #expect(lost.rowCount == 2, "the footer that was there still tells the rows")
            let aside = try #require(report.segments[0].aside.first)
            #expect(files.disk.contents(aside) == bad)
            // The gap holds zeros, so that every byte of the file is still accounted for.
            let after = try #require(files.disk.contents(script.name(0)))
            #expect(after[start..<start + byteCount].allSatisfy { $0 == 0 })
            guard byte % 16 == 0 else { continue }
            let before = try image(files)
            #expect(try recover(files).lost == report.lost)
            #expect(try image(files) == before)
        }
    }

    @Test func `R2: recovery that crashes at any operation and is repeated gives the same bytes`()
        throws
    {
        let script = LogScript(blockCounts: [3, 2])
        let base = try written(script, markAt: .start)
        func damaged() -> SimulatedFileSystem {
            let files = base.disk.kill()
            files.disk.damage(script.name(0)) {
                $0[script.offset(segment: 0, block: 1) + 200] ^= 1
            }
            files.disk.damage(script.name(1)) {
                $0.removeLast($0.count - script.offset(segment: 1, block: 2) + 9)
            }
            return files
        }
        let straight = damaged()
        let report = try recover(straight)
        #expect(report.lost.count == 1)
        #expect(report.segments[1].torn != nil)
        let expected = try image(straight)
        for operation in 0..<straight.disk.operationCount {
            let files = damaged()
            files.disk.crash(beforeOperation: operation)
            #expect(throws: StorageError.self) { try recover(files) }
            for seed in 0..<4 as Range<UInt64> {
                let left = files.disk.powerCut(seed: seed)
                let again = try recover(left)
                #expect(again.lost == report.lost)
                #expect(try image(left) == expected, "operation \(operation), seed \(seed)")
            }
        }
    }
}
