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
