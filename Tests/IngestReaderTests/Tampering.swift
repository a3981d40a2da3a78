import IngestCounting
import IngestFormat
import IngestReader
import IngestStorage
import IngestVerify
import TestSupport

/// Changes what files say and makes every checksum over it right again, the manifest's too: what only a
/// recount can find.
extension LogFixture {
    func bytes(_ name: FileName) -> [UInt8] { files.disk.contents(name.text) ?? [] }

    func replace(_ name: FileName, _ bytes: [UInt8]) {
        files.disk.damage(name.text) { $0 = bytes }
    }

    /// What `verify` says of an altered directory; its files are then what they were.
    func verify(altering alter: () throws -> Void) throws -> VerifyReport {
        let good = try fileNames.map { ($0, files.disk.contents($0)!) }
        try alter()
        let report = try verify()
        for (name, bytes) in good { files.disk.damage(name) { $0 = bytes } }
        return report
    }

    /// Changes the newest manifest in place, and the segments that its runs list.
    func alterManifest(_ change: (inout Manifest) -> Void) throws {
        let name = FileName.manifest(manifest.generation)
        let before = try Manifest.decode(bytes(name))
        let whole = (try? ManifestStore(files: files).complete(before)) ?? before
        var changed = whole
        change(&changed)
        for (place, run) in changed.runs.enumerated() where run.table == .rewardDays {
            let segments = SealedSegments(of: changed, in: run.span)
            if segments == SealedSegments(of: whole, in: run.span) { continue }
            let file = try Run.decode(bytes(run.fileName))
            changed.runs[place] = replaceRun(
                file, file.counters, RunMetadata(segments.encode()))
        }
        replace(name, changed.encode())
    }

    /// Puts other rows and metadata in the file of a run.
    private func replaceRun(
        _ run: Run, _ counters: CounterTable, _ metadata: RunMetadata
    ) -> RunEntry {
        let header = RunHeader(
            table: run.header.table, fileNumber: run.header.fileNumber,
            directory: run.header.directory, span: run.header.span,
            generation: run.header.generation, createdAt: run.header.createdAt,
            index: counters.index, metadata: metadata)
        replace(
            header.entry.fileName,
            Run(header: header, counters: counters, metadata: metadata.bytes).encode())
        return header.entry
    }

    /// Changes the footer of a sealed segment.
    func alterFooter(_ index: Int, _ change: (inout SegmentFooter) -> Void) throws {
        let entry = manifest.sealed[index]
        let name = FileName.segment(entry.number)
        let file = bytes(name)
        let trailer = try SegmentTrailer.decode(
            Array(file.suffix(SegmentTrailer.byteCount)), fileByteCount: UInt64(file.count))
        let start = Int(trailer.footerOffset)
        var footer = try SegmentFooter.decode(
            Array(file[start..<start + Int(trailer.footerByteCount)]), trailer: trailer)
        change(&footer)
        let (image, newTrailer) = footer.encode(at: trailer.footerOffset)
        replace(name, Array(file[..<start]) + image)
        try alterManifest { manifest in
            let index = manifest.sealed.firstIndex { $0.number == entry.number }!
            manifest.sealed[index] = footer.entry(trailer: newTrailer)
        }
    }

    /// Changes the rows of a run of a table: the first, or as many further on.
    func alterRun(
        _ table: TableKind, at place: Int = 0, _ change: (inout [TableRow]) -> Void
    ) throws {
        let entry = manifest.runs.filter { $0.table == table }[place]
        let altered = try alterRun(entry.fileName, change)
        try alterManifest { manifest in
            let index = manifest.runs.firstIndex { $0.fileNumber == entry.fileNumber }!
            manifest.runs[index] = altered
        }
    }

    /// Changes the rows of one file, whatever names it.
    @discardableResult
    func alterRun(
        _ name: FileName, _ change: (inout [TableRow]) -> Void
    ) throws -> RunEntry {
        let run = try Run.decode(bytes(name))
        return replaceRun(
            run, try run.counters.altered(change),
            RunMetadata(try run.header.decodeMetadata(run.metadata)))
    }

    /// Changes the counters of an expired run, or what it says of its segments.
    func alterExpired(
        at place: Int = 0, segments change: (inout ExpiredSegments) -> Void = { _ in },
        counters: (inout [TableRow]) -> Void = { _ in }
    ) throws {
        let name = manifest.expired[place].run.fileName
        let run = try Run.decode(bytes(name))
        let table = try run.counters.altered(counters)
        var segments = try ExpiredSegments.decode(
            run.header.decodeMetadata(run.metadata), of: run.header.span)
        change(&segments)
        let entry = replaceRun(run, table, RunMetadata(segments.encode()))
        try alterManifest { $0.expired[place].run = entry }
    }

    /// Changes names and keys of the first names run, or the first of expired names.
    func alterNames(
        ofExpired: Bool = false, name: (UInt32, ArraySlice<UInt8>) -> ArraySlice<UInt8> = { $1 },
        key: (UInt32, RewardKey?) -> RewardKey? = { $1 }
    ) throws {
        let entry = ofExpired ? manifest.expired[0].names : manifest.namesRuns[0]
        let run = try DecodedNames(bytes(entry.fileName))
        var encoder = NamesRunEncoder(
            table: entry.table, fileNumber: entry.fileNumber, directory: run.header.directory,
            firstName: NameOrdinal(rawValue: entry.names.lowerBound),
            firstKey: KeyOrdinal(rawValue: entry.keys.lowerBound),
            generation: run.header.generation, createdAt: run.header.createdAt)
        for (ordinal, found) in zip(entry.names, run.names) {
            encoder.append(name: name(ordinal, found[...]))
        }
        for (ordinal, found) in zip(entry.keys, run.keys) {
            encoder.append(key: key(ordinal, found))
        }
        let (image, newEntry) = encoder.finish()
        replace(entry.fileName, image)
        try alterManifest { manifest in
            if ofExpired {
                manifest.expired[0].names = newEntry
            } else {
                manifest.namesRuns[0] = newEntry
            }
        }
    }
}

struct TableRow {
    var key: UInt32
    var day: Int32
    var counters: CounterRow
}

extension CounterTable {
    /// The table with other rows.
    func altered(_ change: (inout [TableRow]) -> Void) throws -> CounterTable {
        var rows: [TableRow] = []
        let page = CounterPage()
        var cursor = makeCursor()
        while try cursor.nextPage(into: page) {
            for row in 0..<page.rowCount {
                rows.append(
                    TableRow(key: page.key(row), day: page.day(row), counters: page.counters(row)))
            }
        }
        change(&rows)
        var encoder = CounterTableEncoder(hasDay: hasDay)
        for row in rows { encoder.append(key: row.key, day: row.day, counters: row.counters) }
        return encoder.finish()
    }
}
