import IngestCounting
import IngestFormat
import TestSupport
import Testing

@testable import IngestStorage

/// A segment of many small blocks, rewritten into several full ones.
@Suite struct SegmentRewriteTests {
    /// All rows of a segment's blocks, commit by commit, as text.
    private func commits(
        _ footer: SegmentFooter, in files: SimulatedFileSystem
    ) throws -> [String] {
        let reader = try SegmentReader(footer.segment, directory: footer.directory, in: files)
        let (buffer, decoder, rows) = (ReadBuffer(), BlockDecoder(), BlockRows())
        var found: [String] = []
        for entry in footer.blocks {
            _ = try reader.read(entry, into: buffer)
            let block = try buffer.withBytes { (bytes) throws(FormatError) in
                try decoder.decode(bytes, wanted: .all, into: rows)
            }
            var (hash, money) = (0, 0)
            block.commits.forEach { (place, ownRows) in
                var text = "\(block.commits.admissionTimes[place])"
                for row in ownRows {
                    let attributes = RowAttributes(rawValue: rows.attributes[row])
                    text += " \(rows.key[row]),\(rows.timestamp[row]),\(rows.day[row])"
                    if attributes.hasEventID {
                        text += ",\(rows.eventHash[hash])"
                        hash += 1
                    }
                    if attributes.hasMoney {
                        text += ",\(rows.revenue[money]),\(rows.spend[money])"
                        money += 1
                    }
                }
                found.append(text)
            }
        }
        return found
    }

    @Test func `windows that were open before are no matter, whatever their order of packets`()
        throws
    {
        func key(_ sender: UInt64) -> SenderKey {
            SenderKey(
                kind: .framed, sender: SenderID(rawValue: sender), epoch: SenderEpoch(rawValue: 1))
        }
        func entry(_ sender: UInt64, _ sequences: ClosedRange<UInt64>?, floor: UInt64? = nil)
            -> LedgerEntry
        {
            var entry = LedgerEntry(key: key(sender))
            entry.sequences = sequences.map { [$0] } ?? []
            entry.window.floor = floor
            return entry
        }
        var before = SenderWindows()
        var opened = [entry(1, 0...65_999), entry(1, 66_001...70_000), entry(2, 5...6)]
        for index in opened.indices where index != 1 { opened[index].window.start = 0 }
        for entry in opened { before.apply([entry], at: 1) }
        var log = TestLog(seed: 3)
        let header = log.startSegment()
        // A hole that is filled behind what came after it; a heartbeat alone that passes a missing packet.
        let told = [
            [entry(1, 70_003...70_003), entry(2, nil, floor: 9)], [entry(1, 66_000...66_000)],
            [entry(1, 70_001...70_002), entry(2, 10...11)],
        ]
        let files = SimulatedFileSystem(seed: 3)
        var writer = try SegmentWriter.create(header, byteCountMax: 4096, in: files)
        var segment = SegmentAccumulator(
            header: header, counters: SegmentCounters(), windows: before)
        let (rows, decoder) = (BlockRows(), BlockDecoder())
        for place in 0..<40 {
            let block = log.block(rowCount: 5, ledger: place < told.count ? told[place] : [])
            try writer.append(block.bytes.span.bytes)
            let decoded = try decoder.decode(block.bytes.span.bytes, into: rows)
            let outcome = segment.add(
                block.summary, ordinal: UInt32(place), offset: segment.endOffset, rows: rows,
                names: decoded.names, keys: decoded.keys, ledger: decoded.ledger)
            try #require(outcome == .folded)
        }
        try writer.sync()
        var keys: [RewardKey] = []
        keys.append(segment.names, upTo: segment.nextKey)
        let live = try segment.footer(sealedAt: TestLog.now, keys: keys)
        let (footer, _) = try SegmentRewrite.run(live, keys: keys, in: files)
        #expect(footer.blocks.count == 1 && footer.windows == live.windows)
        #expect(footer.windows.open[key(1)]?.sequences.floor == 70_004)
    }

    @Test func `rows of several rewritten blocks are those of the commits, in their order`() throws
    {
        let script = LogScript(blockCounts: [360], rowCount: 200)
        let files = SimulatedFileSystem(seed: 1)
        var synced = 0
        try script.write(to: files, synced: &synced, seals: false)
        let sealed = try script.file(0)
        let before = try commits(sealed.footer, in: files)
        #expect(before.count == 360)
        #expect(SegmentRewrite<SimulatedFileSystem>.pays(sealed.footer))
        var keys: [RewardKey] = []
        keys.append(sealed.names, upTo: sealed.footer.keys.upperBound)
        let (footer, _) = try SegmentRewrite.run(sealed.footer, keys: keys, in: files)
        #expect(footer.blocks.count == 2 && footer.rowCount == 72_000)
        #expect(footer.blocks.map(\.endOrdinal).last == 360)
        #expect(try commits(footer, in: files) == before)
        var expected = sealed.footer
        expected.blocks = footer.blocks
        #expect(footer == expected)
    }
}
