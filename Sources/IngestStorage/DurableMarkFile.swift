// packet → decode → ring → [admit] → [block] → [segment] → compaction → snapshot → [query]
import IngestFormat

/// The durable mark in its file: set by the sync queue after each `fdatasync`, read by anybody.
///
/// It is written with `pwrite` of its one aligned u64, not through a mapped page: a store into a mapped
/// page that cannot be backed (disk full, file cut by somebody, I/O error) is a signal that kills the
/// process, a failed `pwrite` is a value; and the seam stays one of files. The price is a system call of
/// a few µs after each `fdatasync` of hundreds (docs/decisions/0016). Reader and writer meet in the page
/// cache; a value caught half written fails its check bits and is read again.
///
/// The mark is never synced: after a power cut it may be any older one, which is a lower bound as well.
package struct DurableMarkFile<Files: FileSystem>: ~Copyable {
    private let file: Files.File
    package private(set) var position: LogPosition

    /// Opens the mark for writing; makes one, or replaces one that cannot be believed.
    /// - Parameter position: a durable position; the mark starts there, or where it stood if that is further.
    /// **Errors** `newerFormat`: a mark of a later release is left as it is.
    package init(
        in files: Files, directory: DirectoryID, startingAt position: LogPosition
    ) throws(StorageError) {
        let name = FileName.durableMark
        let present = try Self.read(in: files, directory: directory)
        let start = max(present ?? .start, position)
        var isWhole = present != nil
        if isWhole {
            let byteCount = try files.open(name.text, .read).byteCount()
            isWhole = byteCount == UInt64(DurableMark.byteCount)
        }
        if !isWhole {
            let image = DurableMark(directory: directory, position: start).encode()
            try DurableFile.write(name, in: files) { (recorder) throws(StorageError) in
                try recorder.append(image)
            }
            try files.syncDirectory()
        }
        let file = try files.open(name.text, .readWrite)
        try Self.write(start, to: file)
        self.file = file
        self.position = start
    }

    /// Says that everything up to `position` is durable. Positions never go back; an older one is ignored.
    ///
    /// **Errors** The mark stays a valid lower bound; the caller may go on without it.
    package mutating func set(_ position: LogPosition) throws(StorageError) {
        guard position > self.position else { return }
        try Self.write(position, to: file)
        self.position = position
    }

    private static func write(
        _ position: LogPosition, to file: Files.File
    ) throws(StorageError) {
        let value = DurableMark.value(of: position)
        let bytes = (0..<8).map { UInt8(truncatingIfNeeded: value >> (8 * UInt64($0))) }
        try file.write(bytes, at: UInt64(DurableMark.valueOffset))
    }

    /// The mark as a lower bound for a start and for `verify`; `nil` if there is none that can be believed:
    /// the manifest and the log itself give a bound too.
    ///
    /// **Errors** `newerFormat`, `io`.
    package static func read(
        in files: Files, directory: DirectoryID
    ) throws(StorageError) -> LogPosition? {
        do { return try readSound(in: files, directory: directory) } catch {
            guard case .corrupt = error else { throw error }
            return nil
        }
    }

    /// The mark as a lower bound for a reader; `nil` if there is none. One that cannot be believed is an
    /// error: the cut that it stood for was shown before, and must not go back in silence.
    ///
    /// **Errors** `corrupt`, `newerFormat`, `io`.
    package static func readSound(
        in files: Files, directory: DirectoryID
    ) throws(StorageError) -> LogPosition? {
        let file: Files.File
        do { file = try files.open(FileName.durableMark.text, .read) } catch {
            guard case .notFound = error else { throw error }
            return nil
        }
        var attempt = 1
        while true {
            let bytes = try file.readArray(at: 0, byteCount: DurableMark.byteCount)
            do {
                return try StorageError.decoding(file.path) { () throws(FormatError) in
                    try DurableMark.decode(bytes, directory: directory).position
                }
            } catch {
                if attempt >= attemptCount { throw error }
                attempt += 1
            }
        }
    }

    /// A value half written is whole a moment later.
    private static var attemptCount: Int { 8 }
}

/// Where the keys of the pseudonyms of sessions are read and replaced.
package struct SessionKeyStore<Files: FileSystem>: Sendable {
    private let files: Files
    private let directory: DirectoryID

    package init(files: Files, directory: DirectoryID) {
        (self.files, self.directory) = (files, directory)
    }

    /// The keys; `nil` if there is no file.
    ///
    /// One half written is whole a moment later: it is read once more.
    ///
    /// **Errors** `corrupt`, `newerFormat`, `io`.
    package func read() throws(StorageError) -> SessionKeys? {
        do { return try readOnce() } catch {
            guard error.isOfData else { throw error }
            return try readOnce()
        }
    }

    private func readOnce() throws(StorageError) -> SessionKeys? {
        let file: Files.File
        do { file = try files.open(FileName.sessionKeys.text, .read) } catch {
            guard case .notFound = error else { throw error }
            return nil
        }
        let bytes = try file.readArray(at: 0, byteCount: SessionKeys.byteCount + 1)
        let keys = try StorageError.decoding(file.path) { () throws(FormatError) in
            try SessionKeys.decode(bytes, directory: directory)
        }
        guard bytes.count <= SessionKeys.byteCount else {
            throw .corrupt(
                path: file.path, offset: UInt64(SessionKeys.byteCount),
                detail: "bytes behind the end of this file")
        }
        return keys
    }

    /// Writes the keys over those of the file: what was destroyed is not left in blocks that nobody uses.
    ///
    /// **Errors** `io`, `full`. The file has then the old keys, the new ones, or neither.
    package func write(_ keys: SessionKeys) throws(StorageError) {
        let (name, image) = (FileName.sessionKeys, keys.encode())
        let isThere = try files.names().contains(name.text)
        try DurableFile.write(name, over: isThere ? name : nil, in: files) {
            (recorder) throws(StorageError) in
            try recorder.append(image)
        }
        if !isThere { try files.syncDirectory() }
    }

    /// Destroys all keys, and removes the file if there is one.
    ///
    /// **Errors** `io`.
    package func remove() throws(StorageError) {
        let file: Files.File
        do { file = try files.open(FileName.sessionKeys.text, .readWrite) } catch {
            guard case .notFound = error else { throw error }
            return
        }
        try file.write([UInt8](repeating: 0, count: SessionKeys.byteCount), at: 0)
        try file.syncData()
        try files.unlink(FileName.sessionKeys.text)
        try files.syncDirectory()
    }
}
