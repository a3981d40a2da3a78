// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
import Glibc
import IngestFormat

/// A data directory as its daemon has it: locked, its newest generation read, leftovers out of the way.
/// Readers need none of this: they use `ManifestStore.readNewest`.
///
/// The lock is held for as long as a copy of this value lives.
package struct DataDirectory<Files: FileSystem>: Sendable {
    package let files: Files
    package let store: ManifestStore<Files>
    /// The newest generation at the time of opening.
    package let manifest: Manifest
    /// Whether generation 0 was made just now.
    package let isNew: Bool
    /// Files that later ones have replaced, and segments that have expired: to be unlinked ≥ 60 s from now.
    package let retired: [FileName]
    /// Sealed segments that the manifest names and that are not there. Their counters stay.
    package let missingSegments: [SegmentNumber]
    /// What was moved to `aside/`, for the log.
    package let movedAside: [String]
    /// What was wrong with the manifest, names or counter tables, if they had to be made again.
    package let rebuiltAfter: StorageError?
    /// For the log: what is lost of what was made again.
    private let losses: [String]
    private let lock: Files.File

    /// Opens a directory for the daemon (docs/durability.md).
    ///
    /// 1. Locks it. 2. Reads the newest manifest; where there is none, and nothing that a manifest must
    /// have come before, makes generation 0 durable. 3. Removes what a crash left of the next generation
    /// (temporary files, runs whose content is elsewhere), moves all other files of ours that no generation names
    /// to `aside/` (`Leftovers`). Unsealed segments stay: `SegmentRecovery` is next. Before anything is
    /// changed, every expired run that the manifest names must be there with a header that can be believed;
    /// a manifest, names or tables that are not there, or cannot be read, are made again (`LogRebuild`).
    /// - Parameters:
    ///   - lock: its lock, where the caller has it already.
    ///   - makeManifest: generation 0 of a new directory: its identity and hash key.
    /// **Errors** `locked`, `missingManifest`, `corrupt`, `newerFormat`, `diskFull`, `durabilityLost`. A crash
    /// anywhere leaves a directory that can be opened.
    package static func open(
        _ files: Files, holding lock: Files.File? = nil, makeManifest: () -> Manifest
    ) throws(StorageError) -> DataDirectory {
        let lock = if let lock { lock } else { try files.lock(FileName.lock.text) }
        // What a killed daemon renamed last may be in memory alone. Nothing is removed on the strength of it before
        // it is durable.
        try files.syncDirectory()
        try checkVersions(files)
        let store = ManifestStore(files: files)
        let names = try files.names().compactMap { FileName($0) }
        if !names.contains(where: \.isOfDirectory) {
            let manifest = makeManifest()
            try store.publish(manifest)
            return DataDirectory(
                files: files, store: store, manifest: manifest, isNew: true, retired: [],
                missingSegments: [], movedAside: [], rebuiltAfter: nil, losses: [], lock: lock)
        }
        var losses: [String] = []
        let (manifest, rebuilt) = try readOrRebuild(store, &losses)
        try checkTail(of: manifest, in: files)
        var leftovers = Leftovers(store: store, newest: manifest)
        try leftovers.clear(try files.names().compactMap { FileName($0) })
        return DataDirectory(
            files: files, store: store, manifest: manifest, isNew: false,
            retired: leftovers.retired,
            missingSegments: manifest.sealedSegments(notIn: Set(names)),
            movedAside: leftovers.movedAside, rebuiltAfter: rebuilt,
            losses: losses, lock: lock)
    }

    /// Nothing is changed in a directory of a later release, also where only a file says so that is read late, or is no part
    /// of the log. What else may be wrong with these is for who reads them.
    ///
    /// **Errors** `newerFormat`.
    package static func checkVersions(_ files: Files) throws(StorageError) {
        // The version is looked at before the directory's id.
        let any = DirectoryID(rawValue: 0)
        try onlyNewer { () throws(StorageError) in
            _ = try DurableMarkFile.read(in: files, directory: any)
        }
        try onlyNewer { () throws(StorageError) in
            _ = try SessionKeyStore(files: files, directory: any).read()
        }
    }

    /// The same of segments that the manifest does not call sealed.
    ///
    /// **Errors** `newerFormat`. **Cost** Opens each of them; there are few.
    package static func checkTail(of manifest: Manifest, in files: Files) throws(StorageError) {
        for case .segment(let number)? in try files.names().map({ FileName($0) })
        where manifest.mayHoldTail(number) {
            try onlyNewer { () throws(StorageError) in
                _ = try SegmentReader(number, directory: manifest.directory, in: files)
            }
        }
    }

    private static func onlyNewer(
        _ body: () throws(StorageError) -> Void
    ) throws(StorageError) {
        do { try body() } catch { if case .newerFormat = error { throw error } }
    }

    /// Whether there is a log, or a manifest of one.
    package static func isThere(in files: Files) throws(StorageError) -> Bool {
        try files.names().contains { FileName($0)?.isOfDirectory ?? false }
    }

    /// Checks, before anything is put into a directory, that it is empty, or holds a log, or what a first start left.
    ///
    /// **Errors** `foreignDirectory` with the first name that is none of ours.
    package static func checkIsOurs(_ files: Files) throws(StorageError) {
        let names = try files.names()
        let ours = names.compactMap { FileName($0) }
        if ours.contains(where: \.isOfDirectory) { return }
        // The root of a file system has a folder of its own.
        guard let name = names.first(where: { FileName($0) == nil && $0 != "lost+found" }) else {
            return
        }
        throw .foreignDirectory(path: files.path, name: name)
    }

    /// The newest generation; what is derived from the log is made again where it is missing or cannot be read, and
    /// what is there of it put aside.
    /// - Returns: what was wrong, if anything was.
    /// **Errors** What was wrong, where the log cannot all be read either.
    /// - Parameter losses: lines for the log.
    private static func readOrRebuild(
        _ store: ManifestStore<Files>, _ losses: inout [String]
    ) throws(StorageError) -> (Manifest, rebuiltAfter: StorageError?) {
        let manifest: Manifest
        do { manifest = try store.readNewest(isWhole: false) } catch {
            switch error {
            case .missingManifest, .corrupt:
                return (try rebuildAll(store, wrong: error, &losses), error)
            default: throw error
            }
        }
        // An older manifest in the place of the newest may name what has been merged or has gone since.
        do throws(StorageError) {
            try store.checkExpired(of: manifest)
            try store.checkIsNewest(manifest)
        } catch {
            guard case .corrupt = error else { throw error }
            return (try rebuildAll(store, wrong: error, &losses), error)
        }
        guard let bad = try store.badRuns(of: manifest), let wrong = bad.first else {
            return (try store.complete(manifest), nil)
        }
        let whole = try LogRebuild.complete(manifest, bad, store)
        let made = try rebuild(
            store, after: whole, names: bad.areNamesBad ? .made : .kept, bad: bad.counterRuns,
            wrong: wrong, &losses)
        return (made, wrong)
    }

    private static func rebuildAll(
        _ store: ManifestStore<Files>, wrong: StorageError, _ losses: inout [String]
    ) throws(StorageError) -> Manifest {
        let found: Manifest
        do {
            found = try LogRebuild<Files>.manifest(of: store.files)
            // Nothing can make these again.
            try store.checkExpired(of: found)
        } catch {
            switch (error, wrong) {
            case (.corrupt, .corrupt):
                switch error.damagedFile {
                case .segment?, .run(.expired, _)?, .run(.expiredNames, _)?: throw error
                default: throw wrong
                }
            case (.missingManifest, _), (.notFound, _): throw wrong
            default: throw error
            }
        }
        return try rebuild(store, after: found, names: .made, bad: nil, wrong: wrong, &losses)
    }

    private static func rebuild(
        _ store: ManifestStore<Files>, after manifest: Manifest, names: LogRebuild<Files>.Names,
        bad: Set<FileName>?, wrong: StorageError, _ losses: inout [String]
    ) throws(StorageError) -> Manifest {
        let made = try StorageError.readable { () throws(StorageError) in
            try LogRebuild.run(store, after: manifest, names: names, bad: bad, mayLose: true)
        }
        guard let made else { throw wrong }
        losses += made.losses
        return made.manifest
    }

    /// As this, with names that were made again from the log: a page of a names run cannot be read, which is seen when all
    /// of it is.
    ///
    /// **Errors** What was wrong, where the log cannot be read either.
    package func remakingNames(after wrong: StorageError) throws(StorageError) -> DataDirectory {
        var lost: [String] = []
        let made = try Self.rebuild(
            store, after: manifest, names: .made, bad: [], wrong: wrong, &lost)
        // Who reads by the manifest before takes the newest where one is gone.
        for run in manifest.namesRuns where !made.namesRuns.contains(run) {
            try store.unlink(run.fileName)
        }
        return DataDirectory(
            files: files, store: store, manifest: made, isNew: false, retired: retired,
            missingSegments: missingSegments, movedAside: movedAside, rebuiltAfter: wrong,
            losses: losses + lost, lock: lock)
    }

    /// Lines for the log about what was found amiss.
    package var warnings: [String] {
        var lines: [String] = []
        let level0 = Set(manifest.level0.map(\.number))
        for isCounted in [true, false] {
            let missing = missingSegments.filter { level0.contains($0) != isCounted }
            guard let first = missing.first, let last = missing.last else { continue }
            lines.append(
                "\(missing.count) sealed segments are missing, the first is "
                    + "\(FileName.segment(first).text), the last \(FileName.segment(last).text): "
                    + (isCounted
                        ? "their events stay counted and cannot be checked, restore them from a copy"
                        : "their events were in no run yet and are no longer counted, stop, restore them "
                            + "from a copy and start again"))
        }
        if let rebuiltAfter {
            lines.append("derived files rebuilt from the log: \(rebuiltAfter.finding)")
        }
        return lines + losses
            + movedAside.map { "\($0): damaged, or listed in no manifest, moved to aside/" }
    }
}

extension Manifest {
    /// The files that make up this generation, and its own.
    package var fileNames: Set<FileName> {
        var names = Set(sealed.map { FileName.segment($0.number) })
        names.formUnion(expired.flatMap(\.fileNames))
        names.formUnion(runs.map(\.fileName))
        names.formUnion(namesRuns.map(\.fileName))
        names.insert(.manifest(generation))
        return names
    }

    /// Sealed segments of which no file is in a listing.
    fileprivate func sealedSegments(notIn names: Set<FileName>) -> [SegmentNumber] {
        sealed.map(\.number).filter { !names.contains(.segment($0)) }
    }

    /// The first segment number that this generation does not call sealed.
    package var firstUnsealed: SegmentNumber { cut.segment.next }

    /// Whether a segment can be part of the log behind the sealed ones.
    package func mayHoldTail(_ number: SegmentNumber) -> Bool { number >= firstUnsealed }
}

/// The process id in the lock file, for the message of the one who finds it locked. A hint only: the lock
/// is the kernel's, never the file's content.
///
/// **Layout** The id in decimal, a space, the CRC-32C of the id's digits in eight hexadecimal digits, a
/// newline; or nothing, where it was never written.
package enum LockHolder {
    private static let byteCountMax = 32

    package static func write(_ pid: Int32, to file: some StorageFile) {
        // A hint that cannot be written is no reason not to start.
        try? file.truncate(to: 0)
        try? file.write(text(pid), at: 0)
    }

    package static func read(from file: some StorageFile) -> Int32? {
        guard let bytes = try? file.readArray(at: 0, byteCount: byteCountMax) else { return nil }
        return pid(in: bytes)
    }

    /// Whether the file's content is nothing, or what `write` writes.
    package static func isWellFormed(_ bytes: [UInt8]) -> Bool {
        bytes.isEmpty || pid(in: bytes) != nil
    }

    private static func pid(in bytes: [UInt8]) -> Int32? {
        let digits = String(decoding: bytes.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self)
        guard let pid = Int32(digits), pid > 0, bytes == text(pid) else { return nil }
        return pid
    }

    private static func text(_ pid: Int32) -> [UInt8] {
        let digits = Array("\(pid)".utf8)
        let checksum = String(Checksum.crc32c(digits), radix: 16)
        let zeros = String(repeating: "0", count: 8 - checksum.utf8.count)
        return digits + Array(" \(zeros)\(checksum)\n".utf8)
    }
}

/// The file `leases`, as one reader or as the daemon has it open: a reader locks the bytes of the numbers of the segments
/// that it may still read, and the daemon removes no segment whose byte is locked (docs/format/directory.md).
///
/// A lease is a courtesy and no condition: where the file is missing (a copy of a directory) or cannot be locked there is
/// none, and who comes too late for a segment is told so.
///
/// **Cost** A system call or two; a descriptor for as long as this value lives.
package struct SegmentLeases<Files: FileSystem>: Sendable {
    private let file: Files.File?

    /// For a reader.
    package init(in files: Files) { file = try? files.open(FileName.leases.text, .read) }

    /// For the daemon, which makes the file if it is not there.
    package init(makingIn files: Files) {
        let name = FileName.leases.text
        file = (try? files.open(name, .readWrite)) ?? (try? files.create(name))
    }

    /// Leases a segment and all behind it, and lets go of those before.
    private func take(from first: SegmentNumber) { try? file?.lease(from: UInt64(first.rawValue)) }

    /// Leases what a generation has of the log.
    package func take(of manifest: Manifest) { take(from: manifest.lastExpired.next) }

    /// Opens the newest generation under a lease: that of every segment before the manifest is read, so that none goes between
    /// the two, then of those that it has. A file that is gone, or a log that does not fit, means that a newer generation has
    /// come, or that a start has just recovered the log: then all is read again. What fails twice with the same newest
    /// generation is damage.
    ///
    /// - Parameter open: opens what the caller needs; the lease is its to keep. `nil`, which it must not return where
    ///   `isLast`, for what may be due to a newer generation.
    /// **Errors** Those of `ManifestStore.readNewest` and of `open`; `io` (EAGAIN) where each attempt met a newer generation.
    package static func newest<Value>(
        of files: Files,
        _ open: (_ manifest: Manifest, _ leases: SegmentLeases, _ isLast: Bool)
            throws(StorageError) -> Value?
    ) throws(StorageError) -> Value {
        let leases = SegmentLeases(in: files)
        let store = ManifestStore(files: files)
        var failed: Generation?
        for _ in 0..<attemptCount {
            leases.take(from: LogPosition.start.segment)
            let manifest = try store.readNewest(isWhole: false)
            leases.take(of: manifest)
            let isLast = failed == manifest.generation
            do throws(StorageError) {
                if let value = try open(manifest, leases, isLast) { return value }
            } catch {
                switch error {
                case .notFound where !isLast, .corrupt where !isLast: break
                default: throw error
                }
            }
            failed = manifest.generation
        }
        throw .io(
            path: files.path, call: "reading a manifest that changed during every attempt",
            errno: EAGAIN)
    }

    /// Generations come by the second, and an attempt takes some milliseconds: as many mean something else.
    private static var attemptCount: Int { 1_000 }

    /// Whether a reader is on a segment.
    package func isHeld(_ number: SegmentNumber) -> Bool {
        (try? file?.isLeased(at: UInt64(number.rawValue))) ?? false
    }
}
