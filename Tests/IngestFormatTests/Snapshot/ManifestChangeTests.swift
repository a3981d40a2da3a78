import IngestFormat
import Testing

/// What a generation changes in a manifest.
struct ManifestChangeTests {
    private typealias Example = ManifestExample

    @Test func `totals are sums, and stay at the largest value`() {
        var entry = LedgerEntry(key: .plain)
        entry.packets[2] = 5
        entry.events[12] = .max
        var totals = LogTotals()
        totals.add([entry, entry])
        totals.rowCount = .max
        totals.add(totals)
        #expect(totals.packets[2] == 20 && totals.packets[1] == 0)
        #expect(totals.events[12] == .max && totals.rowCount == .max)
    }

    @Test func `what expires takes the place of segments, and of what was merged before`() throws {
        var manifest = Example.manifest
        manifest.sealed = (5...8).map(Example.sealed)
        #expect(manifest.lastExpired.rawValue == 4 && manifest.lastSealed.rawValue == 8)
        #expect(manifest.sealedCount == 4)
        manifest.expire(Example.expired(38, 3...5))
        #expect(manifest.expired == [Example.expired(12, 1...2), Example.expired(38, 3...5)])
        #expect(manifest.sealed == (6...8).map(Example.sealed))
        // The file lists level 0 alone.
        #expect(try Manifest.decode(manifest.encode()).sealed == (7...8).map(Example.sealed))
        for place in manifest.runs.indices where place % 2 == 1 {
            manifest.runs[place].span = Example.span(5, 8)
        }
        manifest.expire(Example.expired(39, 1...8))
        #expect(manifest.expired == [Example.expired(39, 1...8)] && manifest.sealed.isEmpty)
        #expect(manifest.lastExpired == manifest.lastSealed && manifest.lost.isEmpty)
        #expect(try Manifest.decode(manifest.encode()) == manifest)
    }

    @Test
    func `the lost ranges of a segment are replaced, unclean stops keep the first and the newest`()
        throws
    {
        var manifest = Example.manifest
        var range = SegmentExample.lost(1, at: 640, names: 12..<13, keys: 4..<4, rows: nil)
        manifest.replaceLost(of: range.segment, by: [range])
        #expect(manifest.lost == [range])
        range.segment = SegmentNumber(rawValue: 6)
        manifest.replaceLost(of: range.segment, by: [range])
        #expect(manifest.lost.map(\.segment.rawValue) == [6, 7])
        manifest.replaceLost(of: range.segment, by: [])
        for i in 0..<Int64(Limits.manifestUncleanStopCountMax) {
            manifest.note(UncleanStop(foundAt: i, position: Example.position(8, 0)))
        }
        #expect(manifest.uncleanStops.count == Limits.manifestUncleanStopCountMax)
        #expect(manifest.uncleanStops.first == Example.manifest.uncleanStops.first)
        #expect(
            manifest.uncleanStops.last?.foundAt == Int64(Limits.manifestUncleanStopCountMax) - 1)
        #expect(try Manifest.decode(manifest.encode()) == manifest)
    }

    @Test func `spans join where one ends and the next begins`() {
        let first = Example.span(1, 4)
        #expect(first.joined(with: Example.span(5, 9)) == Example.span(1, 9))
        #expect(first.joined(with: Example.span(6, 9)) == nil)
        #expect(first.joined(with: Example.span(4, 9)) == nil)
    }
}
