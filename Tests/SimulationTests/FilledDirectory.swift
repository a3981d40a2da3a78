import IngestFormat
import IngestPipeline
import IngestStorage
import PipelineTestSupport
import TestSupport
import Testing

/// A directory that is made once, whatever the number of tests that each damage a copy of it.
struct FilledOnce: Sendable {
    private let made: Result<(files: SimulatedFileSystem, nanoseconds: UInt64), any Error>

    init(_ fill: (SimulatedClock) throws -> SimulatedFileSystem) {
        made = Result {
            let clock = SimulatedClock.afterEvents()
            let begin = clock.monotonicNanoseconds()
            return (try fill(clock), clock.monotonicNanoseconds() - begin)
        }
    }

    /// A copy of it; the clock goes on by as much as making it took.
    func copy(for clock: SimulatedClock) throws -> SimulatedFileSystem {
        let (files, nanoseconds) = try made.get()
        clock.pause(nanoseconds: nanoseconds)
        return files.disk.copy()
    }
}

/// A directory with runs of each table and level 0, to be damaged.
protocol FilledDirectory {
    var clock: SimulatedClock { get }
}

private let filledDirectory = FilledOnce { clock in
    let files = SimulatedFileSystem(seed: 1)
    var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 4)
    try pipeline.take(0..<250)
    try pipeline.rest(turns: 70)
    try pipeline.stop()
    return files
}

extension FilledDirectory {
    func filled() throws -> SimulatedFileSystem { try filledDirectory.copy(for: clock) }

    /// With segments that expired without a footer: runs alone have their counters.
    func withExpiredFooter() throws -> SimulatedFileSystem {
        let files = try filled()
        let segment = FileName.segment(try newest(files).sealed[0].number).text
        files.disk.damage(segment) { $0[$0.count - 300] ^= 1 }
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 9) {
            $0.retention = RetentionPolicy(byteCountMax: 6_000)
        }
        try pipeline.rest(turns: 140)
        try pipeline.stop()
        return files.disk.kill()
    }

    /// The bytes of all runs of counters, or of other tables, that are there or in `aside/`.
    func runs(
        _ files: SimulatedFileSystem, of tables: [TableKind] = TableKind.counterTables
    ) throws -> Set<[UInt8]> {
        var names = try files.names()
        if names.contains("aside") {
            names += try files.subdirectory("aside", create: false).names().map { "aside/\($0)" }
        }
        let endings = tables.map { ".\($0.name).run" }
        return Set(
            names.filter { name in endings.contains { name.contains($0) } }
                .compactMap { files.disk.contents($0) })
    }

    /// Lives in which what is retired is removed.
    func live(_ files: SimulatedFileSystem) throws {
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 7)
        try pipeline.rest(turns: 70)
        try pipeline.stop()
    }

    /// Writes a names run that has all names, and that no manifest names.
    func mergeNames(_ files: SimulatedFileSystem) throws -> NamesRunEntry {
        let manifest = try newest(files)
        let (nextName, nextKey) = (manifest.shard.nextName, manifest.shard.nextKey)
        return try NamesRunWriter.write(
            manifest.nextFileNumber,
            merging: try manifest.namesRuns.map {
                try NamesRunReader($0, directory: manifest.directory, in: files)
            },
            and: FreshNames(of: [], names: nextName..<nextName, keys: nextKey..<nextKey),
            for: manifest, in: files)
    }

    /// Damages the blocks of the first sealed segment: names that it introduced are in names runs only.
    func damageFirstBlocks(_ files: SimulatedFileSystem) throws {
        let manifest = try newest(files)
        let first = manifest.sealed[0]
        let end = try SegmentReader(first.number, directory: manifest.directory, in: files)
            .readFooter(of: first).blocks.last!.end
        files.disk.damage(FileName.segment(first.number).text) { bytes in
            for place in stride(from: 214, to: Int(end), by: 64) { bytes[place] ^= 1 }
        }
    }

    /// Damages the first page of a kind in a names run.
    func damagePage(
        _ kind: NamesPageKind, of entry: NamesRunEntry, _ files: SimulatedFileSystem
    ) throws {
        let run = try NamesRunReader(entry, in: files)
        let place = Int(run.index.entries[run.index.pages(kind).lowerBound].offset)
        files.disk.damage(entry.fileName.text) { $0[place] ^= 1 }
    }
}
