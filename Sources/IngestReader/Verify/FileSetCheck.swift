// packet → decode → ring → admit → block → segment → compaction → [snapshot] → query

import IngestFormat
import IngestStorage

/// Checks the files that are not part of the log or of the newest generation's tables: every manifest, the
/// mark, the lock, and runs that an older generation used and that are still there.
struct FileSetCheck<Files: FileSystem> {
    let files: Files
    let manifest: Manifest

    func run(_ report: inout VerifyReport) throws(StorageError) {
        let listed = manifest.fileNames
        for text in try files.names() {
            guard let name = FileName(text) else {
                report.add(Finding(.note, file: text, what: "not a file of ingestd"))
                continue
            }
            report.fileCount += 1
            do throws(StorageError) {
                try check(name, isListed: listed.contains(name), &report)
            } catch {
                switch error {
                // Dropped meanwhile by a daemon; what must be there is missed elsewhere.
                case .notFound: report.fileCount -= 1
                case .corrupt, .newerFormat, .overLimit:
                    report.add(Finding(error, file: text, what: "file"))
                default: throw error
                }
            }
        }
    }

    private func check(
        _ name: FileName, isListed: Bool, _ report: inout VerifyReport
    ) throws(StorageError) {
        switch name {
        case .manifest(let generation):
            try checkManifest(generation)
        case .durableMark: try checkMark(&report)
        case .lock: try checkLock(&report)
        case .run(.names, let number) where !isListed: try checkNames(number)
        case .run(let table, let number) where !isListed && table != .names:
            try checkRun(table, number)
        case .segment(let number) where !isListed && !manifest.mayHoldTail(number):
            report.add(
                Finding(
                    .note, file: name.text,
                    what: "not part of the log; the next start puts it aside"))
        case .temporary:
            report.add(
                Finding(
                    .note, file: name.text,
                    what: "an unfinished write; the next start removes it"))
        case .run, .segment: break
        case .aside: report.fileCount -= 1
        }
    }

    private func checkManifest(_ generation: Generation) throws(StorageError) {
        let found = try ManifestStore(files: files).read(generation)
        guard found.directory == manifest.directory else {
            throw .corrupt(
                path: FileName.manifest(generation).text, offset: 0,
                detail: "a manifest of another directory")
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
            report.add(
                Finding(
                    .corruption, file: FileName.lock.text,
                    what: "neither empty nor what a daemon wrote"))
        }
    }

    /// A run that the newest generation does not name: by its own header.
    private func checkRun(_ table: TableKind, _ number: FileNumber) throws(StorageError) {
        let name = FileName.run(table, number).text
        let file = try files.open(name, .read)
        let head = try file.readArray(at: 0, byteCount: RunHeader.byteCount)
        let entry = try StorageError.decoding(file.path) { () throws(FormatError) in
            try RunHeader.decode(
                head, directory: manifest.directory, table: table, fileNumber: number
            ).entry
        }
        var cursor = try RunReader(entry, directory: manifest.directory, in: files).makeCursor()
        let page = CounterPage()
        while try cursor.nextPage(into: page) {}
    }

    private func checkNames(_ number: FileNumber) throws(StorageError) {
        let file = try files.open(FileName.run(.names, number).text, .read)
        let bytes = try file.readAll(byteCountMax: Limits.runByteCountMax)
        _ = try StorageError.decoding(file.path) { () throws(FormatError) in
            try NamesRun.decode(bytes, directory: manifest.directory, fileNumber: number)
        }
    }
}
