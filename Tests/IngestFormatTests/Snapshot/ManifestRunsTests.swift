import IngestFormat
import TestSupport
import Testing

/// Which segments the runs of a manifest cover, and which are level 0.
struct ManifestRunsTests {
    private typealias Example = ManifestExample

    @Test func `the runs of all tables end where level 0 begins`() throws {
        var manifest = Example.manifest
        for table in TableKind.counterTables {
            #expect(
                manifest.runs(of: table).map(\.span) == [Example.span(1, 4), Example.span(5, 6)])
        }
        #expect(manifest.mergedEnd == Example.position(6, 5))
        #expect(Array(manifest.level0) == (7...8).map(Example.sealed))
        manifest.runs.removeAll { $0.span.firstSegment.rawValue == 5 }
        manifest.sealed = (5...8).map(Example.sealed)
        #expect(try Manifest.decode(manifest.encode()) == manifest)
        #expect(Array(manifest.level0) == manifest.sealed)
        // Without runs all of it is, where nothing has expired.
        manifest.runs = []
        manifest.expired = []
        manifest.droppedSegment = LogPosition.start.segment
        manifest.sealed = (1...8).map(Example.sealed)
        #expect(try Manifest.decode(manifest.encode()) == manifest)
        #expect(manifest.level0.count == 8 && manifest.mergedEnd == .start)
    }

    private static let covered: SealedSegments = {
        var manifest = Example.manifest
        manifest.sealed = (5...8).map(Example.sealed)
        return SealedSegments(of: manifest, in: Example.span(1, 7))
    }()

    @Test func `a run lists the segments that it covers`() throws {
        #expect(Self.covered.entries == (5...7).map(Example.sealed))
        #expect(Self.covered.lost == Example.manifest.lost)
        let bytes = Self.covered.encode()
        #expect(try SealedSegments.decode(bytes, of: Example.span(1, 7)) == Self.covered)
        #expect(
            Damage.unseenCuts(bytes) { _ = try SealedSegments.decode($0, of: Example.span(1, 7)) }
                == [])
        let empty = SealedSegments(of: Example.manifest, in: Example.span(1, 4))
        #expect(try SealedSegments.decode(empty.encode(), of: Example.span(1, 4)) == empty)
    }

    @Test(arguments: [
        ("sealedCount", 8, "corrupt sealed count"), ("sealedCount", 2, "corrupt segment"),
        ("lostRangeCount", UInt64(UInt32.max), "corrupt lost range count"),
        ("lostRangeCount", 1, "corrupt metadata"), ("lostRangeCount", 3, "torn byte count"),
    ])
    func `a list that cannot be is refused`(name: String, value: UInt64, expected: String) {
        let field = SealedSegments.layout[dynamicMember: name]
        let bytes = Self.covered.encode().with(field, value)
        let span = Example.span(1, 7)
        #expect(
            Damage.error { _ = try SealedSegments.decode(bytes, of: span) }?.summary == expected)
        let end = Example.entry(.rewardDays, 1, 1...7, 4).span
        #expect(
            Damage.error { _ = try SealedSegments.decode(Self.covered.encode(), of: end) }?.summary
                == "corrupt block count")
    }
}
