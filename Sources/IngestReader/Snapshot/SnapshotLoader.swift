// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// Reads one consistent durable cut of a directory, beside a daemon that may be writing to it.
///
/// A generation is immutable: its manifest names runs that are never changed, and the log after its cut
/// only grows. So a cut is consistent if all of it is of one manifest: `SegmentLeases.newest` reads again what is not.
package struct SnapshotLoader<Files: FileSystem> {
    private let files: Files

    package init(_ files: Files) { self.files = files }

    /// **Errors** those of `IngestReader.open`.
    package func load() throws(ReaderError) -> Snapshot<Files> {
        do throws(StorageError) {
            let store = ManifestStore(files: files)
            return try SegmentLeases.newest(of: files) {
                (manifest, leases, _) throws(StorageError) in
                try loadBase(manifest, store).withTail(in: files, leases)
            }
        } catch {
            // The newest manifest names a file that stays away.
            if case .notFound(let path) = error { throw .missing(path) }
            throw ReaderError(error)
        }
    }

    private func loadBase(
        _ manifest: Manifest, _ store: ManifestStore<Files>
    ) throws(StorageError) -> SnapshotBase<Files> {
        // The mark comes before the tail: what it promises is there when the tail is read.
        let mark = try DurableMarkFile.readSound(in: files, directory: manifest.directory)
        var parts: [TableKind: [RunReader<Files>]] = [:]
        for entry in manifest.runs {
            parts[entry.table, default: []].append(
                try RunReader(entry, directory: manifest.directory, in: files))
        }
        for segment in manifest.level0 {
            let tables = try RunReader.openFooter(
                of: segment, directory: manifest.directory, in: files)
            // Rewards are reward-days with their days summed, which queries do.
            for table in [TableKind.rewards, .rewardDays] {
                parts[table, default: []].append(tables.rewardDays)
            }
            parts[.days, default: []].append(tables.days)
        }
        guard let hash = KeyedHash(key: manifest.hashKey) else {
            throw .corrupt(path: files.path, offset: 0, detail: "unexpected hash key length")
        }
        var names: [NamesRunReader<Files>] = []
        for entry in manifest.namesRuns {
            names.append(try NamesRunReader(entry, directory: manifest.directory, in: files))
        }
        // Read by few queries: held, so that they can be when they have been merged.
        var expired: [Files.File] = []
        for entry in manifest.expired {
            expired.append(try files.open(entry.run.fileName.text, .read))
        }
        return SnapshotBase(
            manifest: manifest, mark: mark, parts: parts, expired: expired,
            names: NameRuns(runs: names, hash: hash, shard: manifest.shard))
    }
}

/// What a generation covers, opened; the tail is still to come.
private struct SnapshotBase<Files: FileSystem> {
    let manifest: Manifest
    let mark: LogPosition?
    let parts: [TableKind: [RunReader<Files>]]
    let expired: [Files.File]
    let names: NameRuns<Files>

    func withTail(
        in files: Files, _ leases: SegmentLeases<Files>
    ) throws(StorageError) -> Snapshot<Files> {
        let tail = try Tail(after: manifest, mark: mark, in: files, names: names.empty)
        return Snapshot(
            files: files, manifest: manifest, parts: parts, expired: expired,
            names: NameParts(names, tail), tail: tail, leases: leases)
    }
}

extension ReaderError {
    /// The newest manifest names a file that stays away.
    static func missing(_ path: String) -> ReaderError {
        ReaderError(
            kind: .corrupt, what: "missing file named by the manifest", path: path,
            advice: "restore the file from a copy")
    }
}

extension NameTable {
    /// - Returns: `true`.
    mutating func enter(_ block: DecodedBlock) -> Bool {
        let first = block.header.context
        block.names.forEach(from: first.firstName) { ordinal, range in
            _ = enter(name: ordinal, bytes: block.names.bytes[range])
        }
        for (index, pair) in block.keys.enumerated() {
            _ = enter(key: KeyOrdinal(rawValue: first.firstKey.rawValue &+ UInt32(index)), pair)
        }
        return true
    }
}
