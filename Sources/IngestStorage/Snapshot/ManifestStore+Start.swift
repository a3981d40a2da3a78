// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → query
import IngestFormat

/// What a start asks of the files of a generation, before it relies on them or removes any.
extension ManifestStore {
    /// The runs of counters that a manifest names and that are not there, not as long as it says, or without a header
    /// and index that can be believed, and what is wrong with the first. They can be made again (`TableRebuild`).
    ///
    /// **Errors** `newerFormat`, `io`.
    /// **Cost** Some kilobytes of each run.
    package func badRuns(
        of manifest: Manifest
    ) throws(StorageError) -> (names: [FileName], first: StorageError)? {
        var names: [FileName] = []
        var first: StorageError?
        for entry in manifest.runs {
            do throws(StorageError) {
                try expecting { () throws(StorageError) in
                    _ = try RunReader(entry, directory: manifest.directory, in: files)
                }
            } catch {
                guard case .corrupt = error else { throw error }
                names.append(entry.fileName)
                first = first ?? error
            }
        }
        guard let first else { return nil }
        return (names, first)
    }

    /// Checks that every names run and every file of expired footers that a manifest names is there, as long as it
    /// says, with its header and index.
    ///
    /// **Errors** `corrupt` with the file's path, also where it is missing, and for a manifest whose names runs do not
    /// go up to its next name and key; `newerFormat`, `io`.
    /// **Cost** Some kilobytes of each run.
    package func checkNames(of manifest: Manifest) throws(StorageError) {
        for entry in manifest.expired {
            try expecting { () throws(StorageError) in
                _ = try ExpiredFooterReader(entry, directory: manifest.directory, in: files)
            }
        }
        // Whatever has an ordinal has its bytes in a names run, or was lost there: they leave none out.
        let end = manifest.namesRuns.last
        guard end?.names.upperBound ?? 1 == manifest.shard.nextName,
            end?.keys.upperBound ?? 0 == manifest.shard.nextKey
        else {
            throw .corrupt(
                path: "\(files.path)/\(FileName.manifest(manifest.generation).text)", offset: 0,
                detail: "names or keys missing from its names runs")
        }
        for entry in manifest.namesRuns {
            try expecting { () throws(StorageError) in
                let file = try files.open(entry.fileName.text, .read)
                try file.check(byteCount: entry.byteCount, max: UInt64(Limits.namesRunByteCountMax))
                let header = try namesHeader(of: file, entry.fileNumber, manifest.directory)
                guard header.entry == entry else {
                    throw .corrupt(
                        path: file.path, offset: 0, detail: "run does not match its manifest entry")
                }
            }
        }
    }

    private func expecting(_ body: () throws(StorageError) -> Void) throws(StorageError) {
        do { try body() } catch {
            guard case .notFound(let path) = error else { throw error }
            throw .corrupt(path: path, offset: 0, detail: "missing file named by the manifest")
        }
    }

    /// Whether a file is a run of this directory, or one of expired footers, with nothing that those of `newest`
    /// do not cover.
    ///
    /// **Errors** `corrupt` for a file that is neither, or of another directory; `notFound`, `newerFormat`, `io`.
    func isReplaced(_ name: FileName, by newest: Manifest) throws(StorageError) -> Bool {
        if case .expired(let number) = name {
            let header = try ExpiredFooterReader.readHeader(number, newest.directory, in: files)
            return header.sums.span.lastSegment <= newest.lastExpired
        }
        guard case .run(let table, let number) = name else { return false }
        let file = try files.open(name.text, .read)
        if table == .names {
            let header = try namesHeader(of: file, number, newest.directory)
            return header.names.upperBound <= newest.shard.nextName
                && header.keys.upperBound <= newest.shard.nextKey
        }
        let head = try file.readArray(at: 0, byteCount: RunHeader.byteCount)
        let header = try StorageError.decoding(file.path) { () throws(FormatError) in
            try RunHeader.decode(
                head, directory: newest.directory, table: table, fileNumber: number)
        }
        return header.span.end <= newest.cut
    }

    private func namesHeader(
        of file: Files.File, _ number: FileNumber, _ directory: DirectoryID
    ) throws(StorageError) -> NamesRun.Header {
        let head = try file.readArray(at: 0, byteCount: NamesRun.Header.byteCount)
        return try StorageError.decoding(file.path) { () throws(FormatError) in
            try NamesRun.Header.decode(head, directory: directory, fileNumber: number)
        }
    }
}
