// packet → decode → ring → admit → block → segment → compaction → [snapshot] → query
import Glibc
import IngestFormat
import IngestStorage

/// Checks the files that are not part of the log or of the newest generation's tables: every manifest, the
/// mark, the lock, the keys of sessions, and runs that an older generation used and that are still there.
struct FileSetCheck<Files: FileSystem> {
    let files: Files
    let manifest: Manifest
    /// A file of which everything has been said.
    let reported: FileName?

    /// Files that the newest manifest does not name and that begin soundly, to be held against the log. They are
    /// opened again one by one then: there may be more of them than files that a process can have open.
    struct Unlisted {
        var runs: [RunHeader] = []
        var namesRuns: [NamesRunEntry] = []
        /// What manifests before the newest say of the log at their cuts.
        var claims: [LogRecount.ShardClaim] = []
    }

    func run(_ report: inout VerifyReport) throws(StorageError) -> Unlisted {
        let listed = manifest.fileNames
        var unlisted = Unlisted()
        for text in try files.names() {
            guard let name = FileName(text) else {
                report.add(.note, "not a file of ingestd", in: text)
                continue
            }
            report.fileCount += 1
            if name == reported { continue }
            do throws(StorageError) {
                try check(name, isListed: listed.contains(name), &unlisted, &report)
            } catch {
                switch error {
                // Dropped meanwhile by a daemon; what must be there is missed elsewhere.
                case .notFound: report.fileCount -= 1
                case _ where error.isOfData:
                    report.add(error, "file")
                default: throw error
                }
            }
        }
        return unlisted
    }

    /// Notes what lies in `aside/`. Its bytes are under no checksum: they were bad when they came there.
    func noteAside(_ report: inout VerifyReport) throws(StorageError) {
        let folder = FileName.aside.text
        let names: [String]
        do throws(StorageError) {
            names = try files.subdirectory(folder, create: false).names()
        } catch {
            if case .notFound = error { return }
            guard case .io(_, _, errno: ENOTDIR) = error else { throw error }
            report.add(.corruption, "no folder, and must be one", in: folder)
            return
        }
        let shown = names.prefix(Self.asideNoteCountMax)
        for name in shown {
            report.add(
                .note, "put aside at a start: not read, and under no checksum",
                in: "\(folder)/\(name)")
        }
        if names.count > shown.count {
            report.add(.note, "\(names.count - shown.count) more files", in: folder)
        }
    }

    /// So that they do not hide what matters.
    private static var asideNoteCountMax: Int { 20 }

    private func check(
        _ name: FileName, isListed: Bool, _ unlisted: inout Unlisted,
        _ report: inout VerifyReport
    ) throws(StorageError) {
        let directory = manifest.directory
        switch name {
        case .manifest(let generation):
            let found = try ManifestStore(files: files).read(generation)
            if found.directory != directory {
                report.add(.corruption, "a manifest of another directory", in: name.text)
            } else if generation < manifest.generation {
                unlisted.claims.append(.init(file: name.text, state: found.shard))
            }
        case .durableMark:
            _ = try DurableMarkFile.readSound(in: files, directory: directory)
            let byteCount = try files.open(name.text, .read).byteCount()
            report.hold([("byte count", byteCount, DurableMark.byteCount)], in: name.text)
        case .lock:
            let bytes = try files.open(name.text, .read).readArray(at: 0, byteCount: 256)
            if !LockHolder.isWellFormed(bytes) {
                report.add(.corruption, "neither empty nor what a daemon wrote", in: name.text)
            }
        // Index and pages of a run are checked when it is held against the log.
        case .run(let table, let number) where !isListed && table.isNames:
            unlisted.namesRuns.append(
                try ManifestStore(files: files).namesEntry(number, of: table, directory))
        case .run(let table, let number) where !isListed:
            unlisted.runs.append(
                try ManifestStore(files: files).runHeader(number, of: table, directory))
        case .segment(let number) where number <= manifest.lastExpired:
            report.add(.note, "expired; the daemon removes it in a minute", in: name.text)
        case .segment(let number) where !isListed && !manifest.mayHoldTail(number):
            report.add(.note, "not part of the log; the next start puts it aside", in: name.text)
        case .temporary:
            report.add(
                .note, "being written, or left by a crash; the next start removes it", in: name.text
            )
        case .sessionKeys:
            do throws(StorageError) {
                _ = try SessionKeyStore(files: files, directory: directory).read()
            } catch {
                // For the daemon's eyes alone: a reader of its group may not open it.
                guard case .io(_, _, errno: EACCES) = error else { throw error }
                report.add(.note, "this user may not read it", in: name.text)
            }
        case .run, .segment: break
        case .aside, .reserve, .leases: report.fileCount -= 1
        }
    }
}
