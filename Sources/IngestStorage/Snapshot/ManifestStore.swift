// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import IngestFormat

/// The generations of a data directory: publishes the next one, finds the newest, reads and removes the
/// files that they name. A plain handle; publishing is the compact queue's alone.
///
/// Order (docs/durability.md): the files of a generation by `write`, then `publish`, which first makes their
/// names durable. After a crash anywhere in between, the directory holds the old generation or the new
/// one. Only files that the newest no longer names are unlinked, by the caller, ≥ 60 s later.
package struct ManifestStore<Files: FileSystem>: Sendable {
    package let files: Files
    /// How many generations before the newest keep their manifest.
    package static var olderManifestCount: UInt64 { 3 }

    package init(files: Files) { self.files = files }

    // MARK: Writing

    /// Writes a file of the next generation: `pieces` one after the other.
    ///
    /// Its bytes are durable at return; its name is after the next `publish`.
    package func write(_ name: FileName, _ pieces: [[UInt8]]) throws(StorageError) {
        try DurableFile.write(name, in: files) { (recorder) throws(StorageError) in
            for piece in pieces { try recorder.append(piece) }
        }
    }

    /// Makes `manifest` the newest generation. It is when this returns.
    ///
    /// **Errors** After `diskFull` the old generation stands and the same one can be published again.
    /// `durabilityLost` is final: which of the two stands shows at the next start.
    package func publish(_ manifest: Manifest) throws(StorageError) {
        let name = FileName.manifest(manifest.generation)
        let bytes = manifest.encode()
        // What no start could read must not become the newest. There is no file that is corrupt.
        do {
            _ = try Manifest.decode(
                bytes, directory: manifest.directory, generation: manifest.generation)
        } catch {
            throw .overLimit(
                path: "\(files.path)/\(name.text)",
                detail:
                    "internal error: the new manifest is not readable, \(error); it was not written, "
                    + "keep the directory as it is and report this")
        }
        try files.syncDirectory()
        try write(name, [bytes])
        try files.syncDirectory()
        let newest = manifest.generation.rawValue
        if newest > Self.olderManifestCount {
            // It is published already: what stays now is removed by the next start.
            let old = Generation(rawValue: newest - Self.olderManifestCount - 1)
            try? unlink(.manifest(old))
        }
    }

    /// Removes a file that nobody needs any more; none there is as good.
    package func unlink(_ name: FileName) throws(StorageError) {
        do { try files.unlink(name.text) } catch {
            guard case .notFound = error else { throw error }
        }
    }

    // MARK: Reading

    /// The newest generation.
    ///
    /// - Parameter isWhole: with the sealed segments that runs cover, which costs some bytes a segment.
    /// A directory that is being published to may drop manifests while it is listed: then it is listed
    /// again. A newest manifest that cannot be believed is an error and never skipped: the one
    /// before it may name files that are gone.
    /// **Errors** `missingManifest` if there is none, `corrupt`, `newerFormat`.
    package func readNewest(isWhole: Bool = true) throws(StorageError) -> Manifest {
        var last = StorageError.missingManifest(directory: files.path, fileCount: 0)
        for _ in 0..<Self.attemptCount {
            let names = try files.names().compactMap { FileName($0) }
            guard let newest = names.compactMap(\.generation).max() else {
                throw .missingManifest(
                    directory: files.path, fileCount: names.count { $0.belongsToLog })
            }
            do {
                let manifest = try read(newest)
                return isWhole ? try complete(manifest) : manifest
            } catch {
                guard case .notFound = error else { throw error }
                last = error
            }
        }
        throw last
    }

    private static var attemptCount: Int { 16 }

    /// A manifest with the sealed segments that its runs cover.
    /// **Errors** `corrupt`, `notFound` with the path of a run that cannot be read.
    package func complete(_ manifest: Manifest) throws(StorageError) -> Manifest {
        var runs: [RunReader<Files>] = []
        for entry in manifest.runs(of: .rewardDays) {
            runs.append(try RunReader(entry, directory: manifest.directory, in: files))
        }
        return try manifest.completed(by: runs)
    }

    /// One generation's manifest.
    package func read(_ generation: Generation) throws(StorageError) -> Manifest {
        let file = try files.open(FileName.manifest(generation).text, .read)
        let bytes = try file.readAll(byteCountMax: Limits.manifestByteCountMax)
        return try StorageError.decoding(file.path) { () throws(FormatError) in
            try Manifest.decode(bytes, generation: generation)
        }
    }

    /// The pair of names of each key; (none, none) for one that was lost.
    package func readKeys(of manifest: Manifest) throws(StorageError) -> [RewardKey] {
        var keys: [RewardKey] = []
        keys.reserveCapacity(Int(manifest.shard.nextKey))
        for entry in manifest.namesRuns {
            let names = try NamesRunReader(entry, directory: manifest.directory, in: files)
            let end = Int(names.keys.upperBound)
            for first in stride(from: keys.count, to: end, by: NamesPageKind.keys.capacity) {
                let last = min(first + NamesPageKind.keys.capacity, end)
                try names.readKeys(UInt32(first)..<UInt32(last), to: &keys)
            }
        }
        return keys
    }
}

extension Manifest {
    /// With the sealed segments that its runs cover.
    /// - Parameter runs: its reward-days runs; parts of level 0 among them are passed over.
    /// **Errors** `corrupt` for a run that does not go on from the one before.
    package func completed<Files: FileSystem>(
        by runs: [RunReader<Files>]
    ) throws(StorageError) -> Manifest {
        var whole = self
        var (sealed, lost): ([SealedSegment], [LostRange]) = ([], [])
        for run in runs where run.header.table == .rewardDays && run.isFile {
            let found = try run.readSegments()
            sealed += found.entries.filter { $0.number > lastExpired }
            lost += found.lost.filter { $0.segment > lastExpired }
            let first = sealed.last.map { Int($0.number.rawValue) + 1 - sealed.count }
            guard first ?? Int(lastExpired.rawValue) + 1 == Int(lastExpired.rawValue) + 1 else {
                throw .corrupt(
                    path: run.path, offset: run.header.metadataOffset,
                    detail: "sealed segments are missing from the metadata of its runs")
            }
        }
        whole.sealed = sealed + level0
        whole.lost = lost + self.lost
        guard whole.sealed.count == sealedCount else {
            throw .corrupt(
                path: runs.last?.path ?? "", offset: 0,
                detail:
                    "\(whole.sealed.count) sealed segments listed, the manifest has \(sealedCount)")
        }
        return whole
    }
}

extension StorageFile {
    /// Checks that the file is as long as the manifest says.
    func check(byteCount expected: UInt64, max: UInt64) throws(StorageError) {
        let found = try byteCount()
        if found == expected && found <= max { return }
        throw .corrupt(
            path: path, offset: found, detail: "\(found) bytes, the manifest says \(expected)")
    }
}

extension FileName {
    /// The generation, if it is a manifest.
    var generation: Generation? {
        if case .manifest(let generation) = self { generation } else { nil }
    }

    /// Whether it is a manifest, or of a log that has one.
    var isOfDirectory: Bool { generation != nil || belongsToLog }

    /// Whether the file can only be there because a manifest was durable before it.
    var belongsToLog: Bool {
        switch self {
        case .segment, .run, .durableMark: true
        case .lock, .aside, .reserve, .leases, .sessionKeys, .manifest, .temporary: false
        }
    }
}
