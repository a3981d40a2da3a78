import IngestFormat
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
        #expect(Array(manifest.level0) == [Example.sealed(7)])
        manifest.runs.removeAll { $0.span.firstSegment.rawValue == 5 }
        #expect(try Manifest.decode(manifest.encode()) == manifest)
        #expect(Array(manifest.level0) == (5...7).map(Example.sealed))
        // Without runs all of it is, where nothing has expired.
        manifest.runs = []
        manifest.expired = []
        manifest.sealed = (1...7).map(Example.sealed)
        #expect(try Manifest.decode(manifest.encode()) == manifest)
        #expect(manifest.level0.count == 7 && manifest.mergedEnd == .start)
    }
}
