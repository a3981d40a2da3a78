// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import IngestFormat

/// A file that appears under its name whole and durable, or not at all (docs/durability.md).
///
/// Steps: create `name.tmp` → write → fsync → read back from the disk and compare → rename. The rename
/// is durable after the next `syncDirectory`, which the caller does once for all files of a generation.
package enum DurableFile {
    /// Writes a file under a temporary name and renames it.
    ///
    /// - Parameter write: writes everything through the recorder; called a second time, on a new file, if the
    ///   first could not be synced or read back. What the second failure says is final.
    /// - Returns: what `write` returned.
    /// **Errors** A `Shortage` leaves nothing behind that counts, and can be tried again later.
    @discardableResult
    package static func write<Files: FileSystem, Result>(
        _ name: FileName, in files: Files,
        _ write: (inout WriteRecorder<Files.File>) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        let temporary = FileName.temporary(name).text
        let result: Result
        do {
            result = try attempt(temporary, in: files, write)
        } catch {
            try? files.unlink(temporary)
            if error.shortage != nil { throw error }
            switch error {
            // The pages of this file cannot be trusted any more; those of a new one can.
            case .durabilityLost, .corrupt, .io: break
            default: throw error
            }
            do { result = try attempt(temporary, in: files, write) } catch {
                try? files.unlink(temporary)
                // It is gone: nobody relies on what a sync of it failed to write.
                throw error.ofUnneededBytes
            }
        }
        do { try files.rename(temporary, to: name.text) } catch {
            try? files.unlink(temporary)
            throw error
        }
        return result
    }

    private static func attempt<Files: FileSystem, Result>(
        _ temporary: String, in files: Files,
        _ write: (inout WriteRecorder<Files.File>) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        var recorder = WriteRecorder(file: try create(temporary, in: files))
        let result = try write(&recorder)
        try recorder.settle()
        return result
    }

    /// A temporary file belongs to nobody: one that is there was left by a crash.
    private static func create<Files: FileSystem>(
        _ temporary: String, in files: Files
    ) throws(StorageError) -> Files.File {
        do { return try files.create(temporary) } catch {
            guard case .alreadyExists = error else { throw error }
            try files.unlink(temporary)
            return try files.create(temporary)
        }
    }
}

/// Writes to a file and remembers what it wrote, to compare it with what the disk gives back. Pieces may
/// come in any order and must not overlap; gaps between them are not compared.
///
/// **Cost** Memory of 24 bytes a piece; a CRC on the way out and one on the way in.
package struct WriteRecorder<File: StorageFile> {
    package let file: File
    /// Those written since the last `settle`.
    private var pieces: [(offset: UInt64, byteCount: Int, checksum: UInt32)] = []
    /// End of the furthest piece.
    package private(set) var byteCount: UInt64 = 0

    init(file: File) { self.file = file }

    package mutating func write(_ bytes: [UInt8], at offset: UInt64) throws(StorageError) {
        try file.write(bytes, at: offset)
        add(offset, bytes.count, Checksum.crc32c(bytes))
    }

    package mutating func write(_ bytes: RawSpan, at offset: UInt64) throws(StorageError) {
        try file.write(bytes, at: offset)
        add(offset, bytes.byteCount, Checksum.crc32c(bytes))
    }

    private mutating func add(_ offset: UInt64, _ count: Int, _ checksum: UInt32) {
        pieces.append((offset, count, checksum))
        byteCount = max(byteCount, offset + UInt64(count))
    }

    /// Adds bytes at the end.
    package mutating func append(_ bytes: [UInt8]) throws(StorageError) {
        try write(bytes, at: byteCount)
    }

    /// Makes what was written durable, and compares what the disk gives back of it.
    ///
    /// **Cost** Of what was written since the last call: a long file is settled piece by piece.
    mutating func settle() throws(StorageError) {
        try file.sync()
        file.forgetCached()
        try verify()
        pieces.removeAll(keepingCapacity: true)
    }

    private func verify() throws(StorageError) {
        let buffer = ReadBuffer()
        let found = try file.byteCount()
        guard found == byteCount else {
            throw .corrupt(
                path: file.path, offset: found, detail: "read back \(found) of \(byteCount) bytes")
        }
        for piece in pieces {
            try buffer.read(file, at: piece.offset, byteCount: piece.byteCount)
            let checksum = buffer.withBytes { Checksum.crc32c($0) }
            guard buffer.byteCount == piece.byteCount && checksum == piece.checksum else {
                throw .corrupt(
                    path: file.path, offset: piece.offset, detail: "read-back mismatch")
            }
        }
    }
}
