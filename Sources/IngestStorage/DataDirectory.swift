// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
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
    /// (temporary files, runs with numbers still to be given), moves all other files of ours that no
    /// generation names to `aside/`. Unsealed segments stay: `SegmentRecovery` is next. Before anything is
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
        let store = ManifestStore(files: files)
        let names = try files.names().compactMap { FileName($0) }
        if !names.contains(where: { $0.generation != nil || $0.belongsToLog }) {
            let manifest = makeManifest()
            try store.publish(manifest)
            return DataDirectory(
                files: files, store: store, manifest: manifest, isNew: true, retired: [],
                missingSegments: [], movedAside: [], rebuiltAfter: nil, losses: [], lock: lock)
        }
        var losses: [String] = []
        let (manifest, rebuilt) = try readOrRebuild(store, &losses)
        var leftovers = Leftovers(store: store, newest: manifest)
        try leftovers.clear(try files.names().compactMap { FileName($0) })
        return DataDirectory(
            files: files, store: store, manifest: manifest, isNew: false,
            retired: leftovers.retired,
            missingSegments: manifest.sealedSegments(notIn: Set(names)),
            movedAside: leftovers.movedAside, rebuiltAfter: rebuilt,
            losses: losses, lock: lock)
    }

    /// Checks, before anything is put into a directory, that it is empty, or holds a log, or what a first start left.
    ///
    /// **Errors** `foreignDirectory` with the first name that is none of ours.
    package static func checkIsOurs(_ files: Files) throws(StorageError) {
        let names = try files.names()
        let ours = names.compactMap { FileName($0) }
        if ours.contains(where: { $0.generation != nil || $0.belongsToLog }) { return }
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
        do { found = try LogRebuild<Files>.manifest(of: store.files) } catch {
            switch (error, wrong) {
            case (.missingManifest, _), (.notFound, _), (.corrupt, .corrupt): throw wrong
            default: throw error
            }
        }
        return try rebuild(store, after: found, names: .made, bad: nil, wrong: wrong, &losses)
    }

    private static func rebuild(
        _ store: ManifestStore<Files>, after manifest: Manifest, names: LogRebuild<Files>.Names,
        bad: Set<FileName>?, wrong: StorageError, _ losses: inout [String]
    ) throws(StorageError) -> Manifest {
        try Leftovers(store: store, newest: manifest).clearUnfinished()
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
        if let first = missingSegments.first, let last = missingSegments.last {
            lines.append(
                "\(missingSegments.count) sealed segments are missing, the first is "
                    + "\(FileName.segment(first).text), the last \(FileName.segment(last).text): their "
                    + "events stay counted and cannot be checked, restore them from a copy")
        }
        if let rebuiltAfter {
            lines.append("derived files rebuilt from the log: \(rebuiltAfter)")
        }
        return lines + losses
            + movedAside.map { "\($0) is not listed in any manifest, moved to aside/" }
    }
}

/// Decides what becomes of the files that the newest generation does not name.
private struct Leftovers<Files: FileSystem> {
    let store: ManifestStore<Files>
    let newest: Manifest
    var retired: [FileName] = []
    var movedAside: [String] = []
    private var present: Set<FileName> = []

    init(store: ManifestStore<Files>, newest: Manifest) {
        self.store = store
        self.newest = newest
    }

    mutating func clear(_ names: [FileName]) throws(StorageError) {
        present = Set(names)
        let older = names.compactMap(\.generation).filter { $0 < newest.generation }
        var usedBefore: Set<FileName> = []
        for generation in older {
            guard let manifest = try readOlder(generation) else { continue }
            usedBefore.formUnion(manifest.fileNames)
        }
        let used = newest.fileNames
        for name in names where !used.contains(name) {
            switch name {
            case .temporary(.segment(let number)) where !present.contains(.segment(number)):
                try moveAside(name)
            // Copies of what the log still has: work that a crash cut off. Were they kept, every start on a
            // full disk would add to them.
            case .temporary: try store.unlink(name)
            // So has the log all of a run that was never published, or whose manifest is gone: if it is whole.
            case .run(_, let number) where number >= newest.nextFileNumber:
                if try isInLog(name) { try store.unlink(name) } else { try moveAside(name) }
            // Where no manifest that is left names it, a reader that goes by an older one reads the newest instead.
            case .run:
                if try !isReplaced(name) {
                    try moveAside(name)
                } else if usedBefore.contains(name) {
                    retired.append(name)
                } else {
                    try store.unlink(name)
                }
            // Its rows had expired, and the time to remove it had not come.
            case .segment(let number) where number <= newest.lastExpired: retired.append(name)
            // What is not sealed is the end of the log: sealed segments have no gaps.
            case .segment: break
            case .lock, .aside, .durableMark, .reserve, .leases, .manifest: break
            }
        }
    }

    /// An older manifest, for the files that it names; one that is out of date is removed, a bad one
    /// is put aside.
    private mutating func readOlder(_ generation: Generation) throws(StorageError) -> Manifest? {
        let name = FileName.manifest(generation)
        do {
            let manifest = try store.read(generation)
            let age = newest.generation.rawValue - generation.rawValue
            if age > ManifestStore<Files>.olderManifestCount { try store.unlink(name) }
            return manifest
        } catch {
            guard case .corrupt = error else { throw error }
            try moveAside(name)
            return nil
        }
    }

    /// Removes what a start that was killed while it made counter runs of footers has left of them: else each of many would
    /// add its own. To be called before the next attempt. (Where all of the manifests are gone, and of names, they stay until
    /// one is through.)
    func clearUnfinished() throws(StorageError) {
        let used = newest.fileNames
        for name in try store.files.names().compactMap({ FileName($0) }) {
            switch name {
            case .temporary(.run): try store.unlink(name)
            case .run(let table, let number)
            where number >= newest.nextFileNumber && !used.contains(name) && !table.isNames:
                if try isInLog(name, withoutRuns: true) { try store.unlink(name) }
            default: break
            }
        }
    }

    /// Whether all that is in a run with a number still to be given can be made again: of runs that the newest generation
    /// names, and of segments that can be read.
    ///
    /// - Parameter withoutRuns: of segments alone.
    private func isInLog(
        _ name: FileName, withoutRuns: Bool = false
    ) throws(StorageError) -> Bool {
        guard case .run(let table, let number) = name else { return false }
        let found = try StorageError.readable { () throws(StorageError) in
            if table.isNames {
                return try areInLog(store.namesEntry(number, of: table, newest.directory))
            }
            let span = try store.runHeader(number, of: table, newest.directory).span
            if withoutRuns {
                if span.firstSegment <= newest.lastExpired || !newest.lost.isEmpty { return false }
            }
            for segment in table.isDerived && !withoutRuns ? newest.level0 : newest.sealed[...]
            where withoutRuns ? span.contains(segment.number) : segment.number <= span.lastSegment {
                _ = try SegmentReader(
                    segment.number, directory: newest.directory, in: store.files
                ).readFooter(of: segment)
            }
            return span.end <= newest.cut
        }
        return found ?? false
    }

    /// As above, of names: those that the newest generation has not are in blocks behind the cut.
    private func areInLog(_ run: NamesRunEntry) throws(StorageError) -> Bool {
        // It may have what a page that cannot be read has.
        guard try store.damagedNames(of: newest.namesRuns, newest.directory).isEmpty else {
            return false
        }
        var number = newest.firstUnsealed
        var (nextName, nextKey) = (newest.shard.nextName, newest.shard.nextKey)
        while nextName < run.names.upperBound || nextKey < run.keys.upperBound {
            let reader = try SegmentReader(number, directory: newest.directory, in: store.files)
            let footer = try SegmentFooterFile.read(
                reader.file, number: number, directory: newest.directory
            ).footer
            _ = try reader.readNames(by: footer)
            (nextName, nextKey) = (footer.names.upperBound, footer.keys.upperBound)
            number = number.next
        }
        return run.table == .names
            || newest.sealed.allSatisfy { present.contains(.segment($0.number)) }
    }

    /// Whether this is a file of this directory whose counters or names are all in the newest generation: it
    /// was merged into another one, or a generation that has no manifest any more named it.
    private func isReplaced(_ name: FileName) throws(StorageError) -> Bool {
        do {
            return try store.isReplaced(name, by: newest)
        } catch {
            switch error {
            case .corrupt, .notFound: return false
            default: throw error
            }
        }
    }

    private mutating func moveAside(_ name: FileName) throws(StorageError) {
        let aside = try AsideDirectory(of: store.files)
        movedAside.append(try aside.take(name.text))
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
