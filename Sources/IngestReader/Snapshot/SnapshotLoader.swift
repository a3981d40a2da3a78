// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// Reads one consistent durable cut of a directory, beside a daemon that may be writing to it.
///
/// A generation is immutable: its manifest names runs that are never changed, and the log after its cut
/// only grows. So a cut is consistent if all of it is of one manifest. A file that is gone means that the
/// manifest was no longer the newest; then all is read again. So is a tail that does not fit the manifest:
/// between the two a daemon may have recovered the log.
package struct SnapshotLoader<Files: FileSystem> {
    private let files: Files
    /// The daemon keeps dropped files for a minute; more than a few attempts mean something else.
    private static var attemptCount: Int { 8 }
    /// A bad tail that is still bad, once the manifest was read again, is damage.
    private static var badTailCountMax: Int { 2 }

    package init(_ files: Files) { self.files = files }

    /// **Errors** those of `IngestReader.open`.
    package func load() throws(ReaderError) -> Snapshot<Files> {
        let store = ManifestStore(files: files)
        var missing = files.path
        var badTailCount = 0
        for _ in 0..<Self.attemptCount {
            do throws(StorageError) {
                let base = try loadBase(try store.readNewest(), store)
                do throws(StorageError) { return try base.withTail(in: files) } catch {
                    badTailCount += 1
                    guard case .corrupt = error, badTailCount < Self.badTailCountMax else {
                        throw error
                    }
                }
            } catch {
                guard case .notFound(let path) = error else { throw ReaderError(error) }
                missing = path
            }
        }
        throw .missing(missing)
    }

    private func loadBase(
        _ manifest: Manifest, _ store: ManifestStore<Files>
    ) throws(StorageError) -> SnapshotBase<Files> {
        // The mark comes before the tail: what it promises is there when the tail is read.
        let mark = try DurableMarkFile.readSound(in: files, directory: manifest.directory)
        var runs: [RunReader<Files>] = []
        for entry in manifest.runs {
            runs.append(try RunReader(entry, directory: manifest.directory, in: files))
        }
        guard let hash = KeyedHash(key: manifest.hashKey) else {
            throw .corrupt(path: files.path, offset: 0, detail: "a hash key of another length")
        }
        var names = NameTable(hash: hash)
        for entry in manifest.namesRuns {
            names.enter(try store.readNames(entry, directory: manifest.directory))
        }
        return SnapshotBase(manifest: manifest, mark: mark, runs: runs, names: names)
    }
}

/// What a generation covers, opened; the tail is still to come.
private struct SnapshotBase<Files: FileSystem> {
    let manifest: Manifest
    let mark: LogPosition?
    let runs: [RunReader<Files>]
    let names: NameTable

    func withTail(in files: Files) throws(StorageError) -> Snapshot<Files> {
        var names = names
        var tail = TailFold()
        try tail.fold(after: manifest, mark: mark, in: files, names: &names)
        return Snapshot(
            files: files, manifest: manifest, runs: runs, names: names, tail: tail.finish())
    }
}

extension ReaderError {
    /// The newest manifest names a file that stays away.
    static func missing(_ path: String) -> ReaderError {
        ReaderError(
            kind: .corrupt, what: "missing, and the manifest names it", path: path,
            advice: "restore the file from a copy")
    }
}

extension NameTable {
    mutating func enter(_ run: NamesRun) {
        for ordinal in run.names {
            let name = NameOrdinal(rawValue: ordinal)
            _ = enter(name: name, bytes: run.name(name))
        }
        for ordinal in run.keys {
            let key = KeyOrdinal(rawValue: ordinal)
            if let pair = run.key(key) { _ = enter(key: key, pair) }
        }
    }

    mutating func enter(_ block: DecodedBlock) {
        let first = block.header.context
        block.names.forEach(from: first.firstName) { ordinal, range in
            _ = enter(name: ordinal, bytes: block.names.bytes[range])
        }
        for (index, pair) in block.keys.enumerated() {
            _ = enter(key: KeyOrdinal(rawValue: first.firstKey.rawValue &+ UInt32(index)), pair)
        }
    }
}
