import IngestFormat
import TestSupport
import Testing

private let head = Manifest.layout

struct ManifestTests {
    private typealias Example = ManifestExample

    private static func read(_ bytes: [UInt8]) throws { _ = try Manifest.decode(bytes) }

    @Test func `a manifest comes back as it was written`() throws {
        let bytes = Example.manifest.encode()
        let found = try Manifest.decode(
            bytes, directory: Example.directory, generation: Example.generation)
        #expect(found == Example.manifest)
    }

    @Test func `generation 0 comes back, with the key of its hash`() throws {
        let manifest = Manifest(
            directory: Example.directory, createdAt: 5, hashAlgorithm: 1, hashKey: Array(0..<32))
        let found = try Manifest.decode(manifest.encode(), generation: Generation(rawValue: 0))
        #expect(found == manifest)
        #expect(found.hashKey == Array(0..<32))
        #expect(found.cut == .start)
    }

    @Test func `a manifest of as many segments as there can be comes back`() throws {
        let end = 6 + UInt32(Limits.manifestLevel0CountMax)
        var manifest = Example.manifest
        manifest.sealed = (7...end).map { Example.sealed($0) }
        manifest.shard.cut = Example.position(end, 5)
        manifest.uncleanStops = (1...4_096).map {
            UncleanStop(foundAt: Int64($0), position: Example.position($0, 1))
        }
        #expect(try Manifest.decode(manifest.encode()) == manifest)
    }

    @Test(arguments: [Example.manifest])
    func `every flipped bit and every cut is seen`(manifest: Manifest) {
        let bytes = manifest.encode()
        #expect(Damage.unseenFlips(bytes, Self.read) == [])
        #expect(Damage.unseenCuts(bytes, Self.read) == [])
        #expect(Damage.error { try Self.read(bytes + [0]) }?.summary == "corrupt file byte count")
    }

    @Test func `a manifest that ends early is torn, one that was changed is corrupt`() {
        let bytes = Example.manifest.encode()
        let cut = Damage.error { try Self.read(Array(bytes.dropLast())) }
        #expect(cut?.summary == "torn file byte count")
        var changed = bytes
        changed[200] ^= 1
        #expect(Damage.error { try Self.read(changed) }?.summary == "corrupt checksum")
    }

    @Test(arguments: [
        (head.magic, 1, "notThisFile magic"),
        (head.version, 2, "newerFormat version"),
        (head.version, 0, "corrupt version"),
        (head.directory, 1, "notThisFile directory"),
        (head.generation, 1, "notThisFile generation"),
        (head.hashAlgorithm, 2, "newerFormat hash algorithm"),
        (head.hashAlgorithm, 0, "corrupt hash algorithm"),
        (head.nextFileNumber, 0, "corrupt next file number"),
        (head.nextFileNumber, 32, "corrupt file number"),
        (head.shardCount, 0, "corrupt shard count"),
        (head.shardCount, 2, "corrupt shard count"),
        (head.sealedCount, 1, "corrupt file byte count"),
        (head.sealedCount, UInt64(UInt32.max), "corrupt sealed count"),
        (head.runCount, UInt64(UInt32.max), "corrupt run count"),
        (head.namesRunCount, UInt64(UInt32.max), "corrupt names run count"),
        (head.lostRangeCount, UInt64(UInt32.max), "corrupt lost range count"),
        (head.uncleanStopCount, UInt64(UInt32.max), "corrupt unclean stop count"),
        (head.expiredCount, 9, "corrupt expired count"),
        (head.expiredCount, 1, "corrupt file byte count"),
        (head.fileByteCount, UInt64.max, "corrupt file byte count"),
        (head.fileByteCount, 0, "corrupt file byte count"),
        (head.reserved, 1, "corrupt reserved"),
        (head.droppedSegment, 5, "corrupt dropped segment"),
    ])
    func `a head field that cannot be is refused although the checksum fits`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let bytes = Example.manifest.encode()
        let damaged = bytes.with(field, value).sealed(bytes.count)
        let error = Damage.error {
            _ = try Manifest.decode(
                damaged, directory: Example.directory, generation: Example.generation)
        }
        #expect(error?.summary == expected)
    }

    /// Manifests whose checksum is right and whose contents cannot be.
    private static let wrong: [(String, String, @Sendable (inout Manifest) -> Void)] = [
        ("a cut too far in its segment", "corrupt cut block count", { $0.shard.cut = far }),
        ("another shard", "corrupt shard", { $0.shard.shard = 1 }),
        ("blocks before the first segment", "corrupt cut block count", { $0.shard.cut = none }),
        ("no next name", "corrupt next name", { $0.shard.nextName = 0 }),
        ("a next name beyond the limit", "corrupt next name", { $0.shard.nextName = .max }),
        ("a next key beyond the limit", "corrupt next key", { $0.shard.nextKey = .max }),
        ("expired runs out of order", "corrupt first segment", { $0.expired.swapAt(0, 1) }),
        ("expired runs that begin late", "corrupt first segment", { $0.expired.removeFirst() }),
        (
            "a gap between expired runs", "corrupt first segment",
            { $0.expired[1] = ManifestExample.expired(13, 4...5) }
        ),
        (
            "an expired run of too many bytes", "corrupt file byte count",
            { $0.expired[0].run.byteCount = .max }
        ),
        ("an expired run twice", "corrupt file number", { $0.expired[0].run.fileNumber = run }),
        ("another run for an expired one", "corrupt table", { $0.expired[0].run.table = .days }),
        ("other names for expired ones", "corrupt table", { $0.expired[0].names.table = .names }),
        (
            "a gap between expired names", "corrupt first name",
            { $0.expired[1].names.names = 2..<2 }
        ),
        (
            "a segment sealed and expired", "corrupt segment",
            { $0.sealed[0] = ManifestExample.sealed(4) }
        ),
        (
            "segments expired behind the cut", "corrupt cut segment",
            {
                $0.expired[1] = ManifestExample.expired(13, 3...8)
                $0.sealed = []
            }
        ),
        (
            "more expired than runs cover", "corrupt last segment",
            { $0.expired[1] = ManifestExample.expired(13, 3...UInt32.max) }
        ),
        ("segments out of order", "corrupt segment", { $0.sealed.swapAt(0, 1) }),
        ("a segment twice", "corrupt segment", { $0.sealed[1] = $0.sealed[0] }),
        ("segment 0", "corrupt segment", { $0.sealed[0] = ManifestExample.sealed(0) }),
        (
            "a segment after the last one that can be", "corrupt segment",
            { $0.sealed[0] = ManifestExample.sealed(.max) }
        ),
        (
            "segments sealed behind the cut", "corrupt cut segment",
            { $0.sealed.append(ManifestExample.sealed(9)) }
        ),
        ("the last segment not named", "corrupt cut segment", { $0.sealed.remove(at: 1) }),
        ("the first segment not named", "corrupt segment", { $0.sealed.remove(at: 0) }),
        ("a cut behind the last segment", "corrupt cut segment", { $0.moveCut(to: beyond) }),
        (
            "a cut at another block of it", "corrupt cut block count",
            { $0.moveCut(to: ManifestExample.position(8, 4)) }
        ),
        (
            "the last segment that can be, and none to go on with", "corrupt cut segment",
            {
                $0.sealed = []
                $0.setLastSpan(ManifestExample.span(5, .max))
                $0.moveCut(to: ManifestExample.position(.max, 5))
            }
        ),
        ("too many blocks", "corrupt block count", { $0.sealed[0].blockCount = 1 << 20 }),
        ("too many rows", "corrupt row count", { $0.sealed[0].rowCount = 1 << 40 }),
        ("runs out of order", "corrupt first segment", { $0.runs.swapAt(0, 1) }),
        ("tables out of order", "corrupt table", { $0.runs.swapAt(1, 2) }),
        ("tables that begin late", "corrupt first segment", { $0.runs.keep([1, 3, 5]) }),
        ("a table with a run less", "corrupt run count", { $0.runs.removeLast() }),
        ("a table that is not there", "corrupt table", { $0.runs.keep([0, 1, 4]) }),
        (
            "days that end early", "corrupt last segment",
            { $0.runs[3].span = ManifestExample.span(5, 5) }
        ),
        (
            "days that end inside a segment", "corrupt last block count",
            { $0.runs[3].span = ManifestExample.entry(.days, 1, 5...6, 4).span }
        ),
        (
            "runs of segments that are not sealed", "corrupt cut segment",
            { $0.setLastSpan(ManifestExample.span(5, 9)) }
        ),
        (
            "rows that expired and are in no run", "corrupt last segment",
            {
                $0.runs = []
                $0.sealed = (1...8).map(ManifestExample.sealed)
            }
        ),
        (
            "a gap between runs", "corrupt first segment",
            { $0.runs[1].span = ManifestExample.span(6, 7) }
        ),
        (
            "runs that overlap", "corrupt first segment",
            { $0.runs[1].span = ManifestExample.span(4, 7) }
        ),
        ("a run of names", "corrupt table", { $0.runs[4].table = .names }),
        (
            "a run the wrong way round", "corrupt first segment",
            { $0.runs[2].span = ManifestExample.span(8, 7) }
        ),
        ("too many rows in a run", "corrupt row count", { $0.runs[0].rowCount = .max }),
        ("a run of too many bytes", "corrupt file byte count", { $0.runs[0].byteCount = .max }),
        (
            "more runs than there can be", "corrupt run count",
            { $0.runs = Array(repeating: $0.runs[0], count: 27) }
        ),
        (
            "a file twice", "corrupt file number",
            { $0.runs[2].fileNumber = $0.runs[0].fileNumber }
        ),
        (
            "a file twice, as names too", "corrupt file number",
            { $0.namesRuns[0].fileNumber = $0.runs[0].fileNumber }
        ),
        (
            "file 0", "corrupt file number",
            { $0.namesRuns[0].fileNumber = FileNumber(rawValue: 0) }
        ),
        ("names that begin late", "corrupt first name", { $0.namesRuns[0].names = 2..<11 }),
        ("keys that begin late", "corrupt first key", { $0.namesRuns[0].keys = 1..<4 }),
        ("a gap between names", "corrupt first name", { $0.namesRuns[1].names = 12..<15 }),
        ("names not given yet", "corrupt next name", { $0.namesRuns[1].names = 11..<19 }),
        ("keys not given yet", "corrupt next key", { $0.namesRuns[1].keys = 4..<9 }),
        ("lost ranges out of order", "corrupt first block", { $0.lost.swapAt(0, 1) }),
        ("a lost range twice", "corrupt first block", { $0.lost[1] = $0.lost[0] }),
        ("stops out of order", "corrupt segment", { $0.uncleanStops.swapAt(0, 1) }),
        (
            "a stop that cannot be", "corrupt block count",
            {
                $0.uncleanStops[1] = UncleanStop(
                    foundAt: 0, position: ManifestExample.position(7, 1 << 20))
            }
        ),
    ]
    private static let run = ManifestExample.manifest.runs[0].fileNumber
    private static let beyond = ManifestExample.position(9, 5)
    private static let far = ManifestExample.position(7, 1 << 20)
    private static let none = ManifestExample.position(0, 1)

    @Test(arguments: Self.wrong.indices)
    func `a manifest that contradicts itself is refused`(index: Int) {
        let (name, expected, damage) = Self.wrong[index]
        var manifest = Example.manifest
        damage(&manifest)
        let error = Damage.error { try Self.read(manifest.encode()) }
        #expect(error?.summary == expected, "\(name)")
    }

    @Test(arguments: ["packets", "events"])
    func `a count of a code that is not defined is refused`(name: String) throws {
        let bytes = Example.manifest.encode()
        let field = try #require(LogTotals.layout.fields.first { $0.name == name })
        let start = head.byteCount + ShardState.layout.byteCount
        let last = FormatField(name, field.end - 8, 8)
        let damaged = bytes.with(last, 1, at: start).sealed(bytes.count)
        #expect(Damage.error { try Self.read(damaged) }?.summary == "corrupt \(name)")
    }

    @Test func `reserved bytes of every entry are checked`() {
        let bytes = Example.manifest.encode()
        let counts = [1, 1, 2, 2, 6, 2, 2, 2, 2]
        let tables: [([FormatField], Int)] = [
            (ShardState.layout.fields, ShardState.layout.byteCount),
            (LogTotals.layout.fields, LogTotals.layout.byteCount),
            (RunEntry.layout.fields, RunEntry.layout.byteCount),
            (NamesRunEntry.layout.fields, NamesRunEntry.layout.byteCount),
            (RunEntry.layout.fields, RunEntry.layout.byteCount),
            (SealedSegment.layout.fields, SealedSegment.layout.byteCount),
            (NamesRunEntry.layout.fields, NamesRunEntry.layout.byteCount),
            (LostRange.layout.fields, LostRange.layout.byteCount),
            (UncleanStop.layout.fields, UncleanStop.layout.byteCount),
        ]
        var start = head.byteCount
        for (table, count) in zip(tables, counts) {
            for _ in 0..<count {
                for field in table.0 where field.name.hasPrefix("reserved") {
                    for byte in 0..<field.byteCount {
                        let one = FormatField(field.name, field.offset + byte, 1)
                        let damaged = bytes.with(one, 1, at: start).sealed(bytes.count)
                        let error = Damage.error { try Self.read(damaged) }
                        #expect(error?.summary == "corrupt \(field.name)")
                    }
                }
                start += table.1
            }
        }
        #expect(start == bytes.count - 4)
    }

    @Test func `random damage under a right checksum never traps`() {
        var random = SeededRandom(seed: 2)
        let bytes = Example.manifest.encode()
        var refused = 0
        for _ in 0..<10_000 {
            var damaged = bytes
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: 0..<damaged.count, using: &random)
                damaged[place] = UInt8.random(in: 0...255, using: &random)
            }
            let sealed = damaged.sealed(damaged.count)
            if Damage.error({ try Self.read(sealed) }) != nil { refused += 1 }
        }
        #expect(refused > 3_000)
    }
}

extension Manifest {
    fileprivate mutating func moveCut(to position: LogPosition) {
        for (index, run) in runs.enumerated() where run.span.end == cut {
            runs[index].span = LogSpan(firstSegment: run.span.firstSegment, end: position)
        }
        shard.cut = position
    }

    /// Gives the last run of each table another span.
    fileprivate mutating func setLastSpan(_ span: LogSpan) {
        for place in [1, 3, 5] { runs[place].span = span }
    }
}

extension [RunEntry] {
    fileprivate mutating func keep(_ places: [Int]) { self = places.map { self[$0] } }
}

extension TableKind {
    fileprivate var number: UInt64 { UInt64(rawValue) }
}
