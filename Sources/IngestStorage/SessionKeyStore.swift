// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

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
        let bytes = try file.readArray(at: 0, byteCount: SessionKeys.byteCount)
        return try StorageError.decoding(file.path) { () throws(FormatError) in
            try SessionKeys.decode(bytes, directory: directory)
        }
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
