// packet → decode → ring → admit → block → segment → compaction → [snapshot] → query
import Glibc
import IngestFormat
import IngestStorage

/// Checks the files that are not part of the log or of the newest generation's tables: every manifest, the
/// mark, the lock, and runs that an older generation used and that are still there.
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
                    report.add(Finding(error, file: text, what: "file"))
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
        switch name {
        case .manifest(let generation):
            try checkManifest(generation, &unlisted)
        case .durableMark: try checkMark(&report)
        case .lock: try checkLock(&report)
        case .run(let table, let number) where !isListed && table.isNames:
            unlisted.namesRuns.append(
                try ManifestStore(files: files).namesEntry(
                    number, of: table, manifest.directory))
        case .run(let table, let number) where !isListed:
            unlisted.runs.append(
                try ManifestStore(files: files).runHeader(
                    number, of: table, manifest.directory))
        case .segment(let number) where number <= manifest.lastExpired:
            report.add(.note, "expired; the daemon removes it in a minute", in: name.text)
        case .segment(let number) where !isListed && !manifest.mayHoldTail(number):
            report.add(.note, "not part of the log; the next start puts it aside", in: name.text)
        case .temporary:
            report.add(
                .note, "being written, or left by a crash; the next start removes it", in: name.text
            )
        case .run, .segment: break
        case .aside, .reserve: report.fileCount -= 1
        }
    }

    private func checkManifest(
        _ generation: Generation, _ unlisted: inout Unlisted
    ) throws(StorageError) {
        let found = try ManifestStore(files: files).read(generation)
        guard found.directory == manifest.directory else {
            throw .corrupt(
                path: FileName.manifest(generation).text, offset: 0,
                detail: "a manifest of another directory")
        }
        if generation < manifest.generation {
            unlisted.claims.append(
                .init(file: FileName.manifest(generation).text, state: found.shard))
        }
    }

    /// A value caught half written is whole a moment later.
    private func checkMark(_ report: inout VerifyReport) throws(StorageError) {
        let file = try files.open(FileName.durableMark.text, .read)
        var last: FormatError?
        for _ in 0..<4 {
            let bytes = try file.readArray(at: 0, byteCount: DurableMark.byteCount + 1)
            do throws(FormatError) {
                if bytes.count > DurableMark.byteCount {
                    throw .corrupt(
                        "byte count", at: DurableMark.byteCount, got: bytes.count,
                        expected: .exactly(DurableMark.byteCount))
                }
                _ = try DurableMark.decode(bytes, directory: manifest.directory)
                return
            } catch { last = error }
        }
        if let last { report.add(Finding(last, file: FileName.durableMark.text, what: "mark")) }
    }

    private func checkLock(_ report: inout VerifyReport) throws(StorageError) {
        let file = try files.open(FileName.lock.text, .read)
        if !LockHolder.isWellFormed(try file.readArray(at: 0, byteCount: 256)) {
            report.add(.corruption, "neither empty nor what a daemon wrote", in: FileName.lock.text)
        }
    }
}
