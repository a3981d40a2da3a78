// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
import IngestFormat

/// A consistent copy of a directory beside the daemon that writes to it: the newest generation with all of its files,
/// segments under a lease, the log behind it by bytes up to the last durable block, and a mark that says so. What
/// comes of it is a directory as a kill at that block would have left it, without what is derived and never read again:
/// no lock, reserve or leases, nothing of `aside/`.
///
/// **Cost** Reads each file once; the memory of one piece, and a descriptor for each run.
package struct DirectoryBackup<Files: FileSystem> {
    package let manifest: Manifest
    /// The last durable block that is in it.
    package private(set) var end: LogPosition
    private let files: Files
    private let leases: SegmentLeases<Files>
    /// Of files that may be dropped any time.
    private var held: [(name: FileName, file: Files.File)] = []
    /// Segments behind the cut, and where the last durable block of each ends, in files that are open: one that is sealed
    /// meanwhile may be rewritten under its name.
    private var tail: [(number: SegmentNumber, file: Files.File, byteCount: UInt64)] = []

    private static var pieceByteCount: Int { 1 << 20 }

    /// Chooses what is copied.
    ///
    /// **Errors** Those of `SegmentLeases.newest` and `LogTail`; `corrupt`, `notFound` for a file that is named and
    /// cannot be had: a damaged directory is not copied by this.
    package init(of files: Files) throws(StorageError) {
        self = try SegmentLeases.newest(of: files) { (manifest, leases, _) throws(StorageError) in
            try DirectoryBackup(of: files, manifest, leases)
        }
    }

    private init(
        of files: Files, _ manifest: Manifest, _ leases: SegmentLeases<Files>
    ) throws(StorageError) {
        (self.files, self.leases) = (files, leases)
        let store = ManifestStore(files: files)
        self.manifest = try store.complete(manifest)
        end = manifest.cut
        let mark = try DurableMarkFile.readSound(in: files, directory: manifest.directory)
        // The manifest first: of a copy that is not whole a start would think that rows are missing, and never that it is a
        // whole log.
        let first = FileName.manifest(manifest.generation)
        let others = manifest.fileNames.filter { $0 != first }.sorted { $0.text < $1.text }
        for name in [first] + others {
            if case .segment = name { continue }
            held.append((name, try files.open(name.text, .read)))
        }
        var blocks = LogTail(after: manifest, mark: mark, in: files)
        let buffer = ReadBuffer()
        while let block = try blocks.next(into: buffer) {
            let number = block.header.context.segment
            if tail.last?.number != number { tail.append((number, block.file, 0)) }
            tail[tail.count - 1].byteCount = block.offset + UInt64(block.header.byteCount)
            end = block.end
        }
    }

    /// Gives all files, one after the other.
    ///
    /// **Errors** `overLimit` for a segment that retention removed before its turn, which is behind its lease; `corrupt` for one
    /// that is missing; those of reading, and of `sink`.
    package func copy(to sink: inout some BackupSink) throws {
        for (name, file) in held { try give(name, file, byteCount: file.byteCount(), to: &sink) }
        for segment in manifest.sealed {
            try give(.segment(segment.number), nil, byteCount: segment.byteCount, to: &sink)
        }
        for segment in tail {
            try give(
                .segment(segment.number), segment.file, byteCount: segment.byteCount, to: &sink)
        }
        let mark = DurableMark(directory: manifest.directory, position: end).encode()
        try sink.begin(FileName.durableMark.text, byteCount: UInt64(mark.count))
        try sink.add(mark)
        try sink.finish()
    }

    private func give(
        _ name: FileName, _ opened: Files.File?, byteCount: UInt64, to sink: inout some BackupSink
    ) throws {
        let file: Files.File
        do throws(StorageError) {
            file = if let opened { opened } else { try files.open(name.text, .read) }
        } catch {
            guard case .notFound(let path) = error else { throw error }
            if case .segment(let number) = name,
                try ManifestStore(files: files).readNewest().lastExpired >= number
            {
                throw StorageError.overLimit(
                    path: path,
                    detail: "retention removed the segment before it was copied, run it again")
            }
            throw StorageError.corrupt(path: path, offset: 0, detail: "the segment is missing")
        }
        try sink.begin(name.text, byteCount: byteCount)
        var offset: UInt64 = 0
        while offset < byteCount {
            let count = Int(min(UInt64(Self.pieceByteCount), byteCount - offset))
            let piece = try file.readArray(at: offset, byteCount: count)
            guard piece.count == count else {
                throw StorageError.corrupt(
                    path: file.path, offset: offset, detail: "\(byteCount) bytes expected")
            }
            try sink.add(piece)
            offset += UInt64(count)
        }
    }
}

/// Where a backup goes.
package protocol BackupSink {
    /// Begins the next file, of so many bytes.
    mutating func begin(_ name: String, byteCount: UInt64) throws
    mutating func add(_ bytes: [UInt8]) throws
    /// All has been given.
    mutating func finish() throws
}

/// Files of a directory, durable once `finish` has returned.
package struct BackupDirectory<Files: FileSystem>: BackupSink {
    private let files: Files
    private var file: Files.File?
    private var offset: UInt64 = 0
    package private(set) var fileCount = 0
    package private(set) var byteCount: UInt64 = 0

    /// **Errors** `foreignDirectory` where there is anything in it.
    package init(in files: Files) throws(StorageError) {
        self.files = files
        guard let name = try files.names().first(where: { $0 != "lost+found" }) else { return }
        throw .foreignDirectory(path: files.path, name: name)
    }

    package mutating func begin(_ name: String, byteCount: UInt64) throws {
        try file?.sync()
        (file, offset) = (try files.create(name), 0)
        fileCount += 1
        self.byteCount += byteCount
    }

    package mutating func add(_ bytes: [UInt8]) throws {
        try file?.write(bytes, at: offset)
        offset += UInt64(bytes.count)
    }

    package mutating func finish() throws {
        try file?.sync()
        file = nil
        try files.syncDirectory()
    }
}
