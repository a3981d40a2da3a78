// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → query
import IngestFormat

/// What a start asks of the files of a generation, before it relies on them or removes any.
extension ManifestStore {
    /// The runs that a manifest names and that are not there, not as long as it says, or without a header and index
    /// that can be believed, and what is wrong with the first. They can be made again (`LogRebuild`).
    ///
    /// **Errors** `newerFormat`, `io`.
    /// **Cost** Some kilobytes of each run.
    package func badRuns(of manifest: Manifest) throws(StorageError) -> BadRuns? {
        var bad = BadRuns()
        for entry in manifest.runs {
            let count = bad.names.count
            try bad.note(entry.fileName) { () throws(StorageError) in
                let run = try RunReader(entry, directory: manifest.directory, in: files)
                if entry.table == .rewardDays { _ = try run.readSegments() }
            }
            if entry.table == .rewardDays && bad.names.count > count { bad.areSegmentsBad = true }
        }
        let counters = bad.names.count
        bad.counterRuns = Set(bad.names)
        for entry in manifest.namesRuns {
            try bad.note(entry.fileName) { () throws(StorageError) in
                let found = try namesEntry(
                    entry.fileNumber, of: .names, manifest.directory)
                if found == entry { return }
                throw .corrupt(
                    path: "\(files.path)/\(entry.fileName.text)", offset: 0,
                    detail: "run does not match its manifest entry")
            }
        }
        // Whatever has an ordinal has its bytes in a names run, or was lost there: they leave none out.
        let end = manifest.namesRuns.last
        if end?.names.upperBound ?? 1 != manifest.shard.nextName
            || end?.keys.upperBound ?? 0 != manifest.shard.nextKey
        {
            bad.areNamesBad = true
            bad.first =
                bad.first
                ?? .corrupt(
                    path: "\(files.path)/\(FileName.manifest(manifest.generation).text)", offset: 0,
                    detail: "names or keys missing from its names runs")
        }
        bad.areNamesBad = bad.areNamesBad || bad.names.count > counters
        return bad.first == nil ? nil : bad
    }

    /// The names runs that are not there, or of which a page cannot be believed.
    ///
    /// **Errors** `newerFormat`, `io`.
    /// **Cost** Reads the files.
    package func damagedNames(
        of entries: some Sequence<NamesRunEntry>, _ directory: DirectoryID,
        _ kinds: [NamesPageKind] = NamesPageKind.allCases
    ) throws(StorageError) -> [FileName] {
        var damaged: [FileName] = []
        for entry in entries {
            let isSound: Void? = try StorageError.readable { () throws(StorageError) in
                try NamesRunReader(entry, directory: directory, in: files).checkPages(of: kinds)
            }
            if isSound == nil { damaged.append(entry.fileName) }
        }
        return damaged
    }

    /// As above, runs of counters.
    func damagedRuns(
        of entries: some Sequence<RunEntry>, _ directory: DirectoryID
    ) throws(StorageError) -> Set<FileName> {
        var damaged: Set<FileName> = []
        for entry in entries {
            let isSound: Void? = try StorageError.readable { () throws(StorageError) in
                try RunReader(entry, directory: directory, in: files).checkPages()
            }
            if isSound == nil { damaged.insert(entry.fileName) }
        }
        return damaged
    }

    /// What the names runs of a manifest have lost.
    ///
    /// **Cost** The pages that it fills, one at least of each run.
    func lost(of manifest: Manifest) throws(StorageError) -> (names: [UInt32], keys: [UInt32]) {
        var (names, keys): ([UInt32], [UInt32]) = ([], [])
        for entry in manifest.namesRuns {
            let run = try NamesRunReader(entry, directory: manifest.directory, in: files)
            names += try run.lostNames()
            keys += try run.lostKeys()
        }
        return (names, keys)
    }

    /// As above, for the log; `nil` if nothing is lost.
    package func lostText(of manifest: Manifest) throws(StorageError) -> String? {
        let lost = try lost(of: manifest)
        return lost.names.isEmpty && lost.keys.isEmpty
            ? nil
            : "\(lost.names.count) names and \(lost.keys.count) keys are lost, with the blocks that introduced "
                + "them: their counters stay, (lost:N) stands for them; run ingest-reader verify"
    }

    /// Keeps in `aside/` those files that are there, before a manifest is published that no longer names them: they may be
    /// all that has what is in them, and who removes them later needs to know nothing of that.
    package func keepAside(_ names: some Sequence<FileName>) throws(StorageError) {
        let present = Set(try files.names())
        let kept = Set(names.map(\.text)).intersection(present).sorted()
        if kept.isEmpty { return }
        let aside = try AsideDirectory(of: files)
        for name in kept { try aside.keep(name) }
    }

    /// Puts derived files aside that cannot be read and that a manifest does not name: nobody needs them, and whoever checks all
    /// files would find them.
    ///
    /// **Cost** Reads the derived files that are there.
    func putDamagedAside(behind manifest: Manifest) throws(StorageError) {
        let listed = Set(manifest.fileNames)
        for name in try files.names().compactMap({ FileName($0) })
        where !listed.contains(name) && name != .manifest(manifest.generation) {
            do throws(StorageError) {
                switch name {
                case .manifest(let generation): _ = try read(generation)
                case .run(let table, let number) where table.isNames && table.isDerived:
                    let entry = try namesEntry(number, of: table, manifest.directory)
                    try NamesRunReader(entry, directory: manifest.directory, in: files).checkPages()
                case .run(let table, let number) where table.isDerived:
                    let entry = try runHeader(number, of: table, manifest.directory).entry
                    let run = try RunReader(entry, directory: manifest.directory, in: files)
                    try run.checkPages()
                    if table == .rewardDays { _ = try run.readSegments() }
                default: break
                }
            } catch {
                // What a newer version wrote, and what a disk does not give, is for others to say.
                guard case .corrupt = error else { continue }
                try keepAside([name])
                try unlink(name)
            }
        }
    }

    /// Checks that every expired run that a manifest names, and its names, is there, as long as it says, with its
    /// header and index: the log has nothing else of those segments.
    ///
    /// **Errors** `corrupt` with the file's path, also where it is missing; `newerFormat`, `io`.
    package func checkExpired(of manifest: Manifest) throws(StorageError) {
        for entry in manifest.expired {
            try expecting { () throws(StorageError) in
                _ = try RunReader(entry.run, directory: manifest.directory, in: files)
                _ = try NamesRunReader(entry.names, directory: manifest.directory, in: files)
            }
        }
    }

    /// Checks that no expired run is there that must be of a later generation: where segments are gone that it has, and
    /// that the manifest has not let expire, the manifest that did is gone too.
    ///
    /// **Errors** `corrupt` with the manifest's path; `io`.
    package func checkIsNewest(_ manifest: Manifest) throws(StorageError) {
        let names = Set(try files.names().compactMap { FileName($0) })
        for case .run(.expired, let number) in names where number >= manifest.nextFileNumber {
            let header = try StorageError.readable { () throws(StorageError) in
                try runHeader(number, of: .expired, manifest.directory)
            }
            guard let span = header?.span, span.lastSegment > manifest.lastExpired else { continue }
            let left = max(span.firstSegment, manifest.lastExpired.next)...span.lastSegment
            let isGone = (left.lowerBound.rawValue...left.upperBound.rawValue).contains {
                !names.contains(.segment(SegmentNumber(rawValue: $0)))
            }
            guard isGone else { continue }
            throw .corrupt(
                path: "\(files.path)/\(FileName.manifest(manifest.generation).text)", offset: 0,
                detail:
                    "not the newest manifest: segments have expired since, "
                    + "\(FileName.run(.expired, number).text)")
        }
    }

    private func expecting(_ body: () throws(StorageError) -> Void) throws(StorageError) {
        do { try body() } catch {
            guard case .notFound(let path) = error else { throw error }
            throw .corrupt(path: path, offset: 0, detail: "missing file named by the manifest")
        }
    }

    /// Whether a file is a run of this directory with nothing that those of `newest` do not cover.
    ///
    /// **Errors** `corrupt` for a file that is neither, or of another directory; `notFound`, `newerFormat`, `io`.
    func isReplaced(_ name: FileName, by newest: Manifest) throws(StorageError) -> Bool {
        guard case .run(let table, let number) = name else { return false }
        if table.isNames {
            let found = try namesEntry(number, of: table, newest.directory)
            let covering = table.isDerived ? newest.namesRuns.last : newest.expired.last?.names
            return found.names.upperBound <= covering?.names.upperBound ?? 1
                && found.keys.upperBound <= covering?.keys.upperBound ?? 0
        }
        let header = try runHeader(number, of: table, newest.directory)
        return table.isDerived
            ? header.span.end <= newest.cut : header.span.lastSegment <= newest.lastExpired
    }

    /// The header of a run that no manifest need name.
    package func runHeader(
        _ number: FileNumber, of table: TableKind, _ directory: DirectoryID
    ) throws(StorageError) -> RunHeader {
        let file = try files.open(FileName.run(table, number).text, .read)
        let head = try file.readArray(at: 0, byteCount: RunHeader.byteCount)
        return try StorageError.decoding(file.path) { () throws(FormatError) in
            try RunHeader.decode(head, directory: directory, table: table, fileNumber: number)
        }
    }

    /// What a manifest would say of a names run, by its header.
    package func namesEntry(
        _ number: FileNumber, of table: TableKind, _ directory: DirectoryID
    ) throws(StorageError) -> NamesRunEntry {
        let file = try files.open(FileName.run(table, number).text, .read)
        let head = try file.readArray(at: 0, byteCount: NamesRun.Header.byteCount)
        let entry = try StorageError.decoding(file.path) { () throws(FormatError) in
            try NamesRun.Header.decode(
                head, directory: directory, table: table, fileNumber: number
            ).entry
        }
        try file.check(byteCount: entry.byteCount, max: UInt64(Limits.namesRunByteCountMax))
        return entry
    }
}

/// Derived files of a generation that are missing or damaged.
package struct BadRuns {
    package internal(set) var names: [FileName] = []
    /// What is wrong with the first.
    package internal(set) var first: StorageError?
    /// Whether a run is among them that lists sealed segments.
    package internal(set) var areSegmentsBad = false
    /// Those of them that are runs of counters.
    package internal(set) var counterRuns: Set<FileName> = []
    /// Whether names runs are among them, or some are not listed.
    package internal(set) var areNamesBad = false

    package init() {}

    fileprivate mutating func note(
        _ name: FileName, _ body: () throws(StorageError) -> Void
    ) throws(StorageError) {
        do { try body() } catch {
            switch error {
            case .corrupt: first = first ?? error
            case .notFound(let path):
                first =
                    first
                    ?? .corrupt(path: path, offset: 0, detail: "missing file named by the manifest")
            default: throw error
            }
            names.append(name)
        }
    }
}
