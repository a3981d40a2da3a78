// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import IngestFormat

/// A file that appears under its name whole and durable, or not at all (docs/durability.md).
///
/// Steps: create `name.tmp` → write → fsync → read back from the disk and compare → rename. The rename
/// is durable after the next `syncDirectory`, which the caller does once for all files of a generation.
package enum DurableFile {
    /// Writes a file under a temporary name and renames it.
    ///
    /// - Parameters:
    ///   - spare: a file whose room it is to have, for one that replaces another on a full disk: the two change names. What
    ///     fails then leaves `spare` with the room, and any bytes. The file itself, where it has just the bytes that it is to
    ///     have: each is written over itself, so that what only a page cache has comes to the disk too.
    ///   - write: writes everything through the recorder; called a second time, on a new file, if the
    ///   first could not be synced or read back. What the second failure says is final.
    /// - Returns: what `write` returned.
    /// **Errors** A `Shortage` leaves nothing behind that counts, and can be tried again later.
    @discardableResult
    package static func write<Files: FileSystem, Result>(
        _ name: FileName, over spare: FileName? = nil, in files: Files,
        _ write: (inout WriteRecorder<Files.File>) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        if let spare { return try self.write(name, overBlocksOf: spare, in: files, write) }
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

    /// Writes over the blocks of `spare` and lets the two files change names: so it takes no room of the disk but what the
    /// file is larger, and what somebody else takes meanwhile does not matter.
    private static func write<Files: FileSystem, Result>(
        _ name: FileName, overBlocksOf spare: FileName, in files: Files,
        _ write: (inout WriteRecorder<Files.File>) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        var recorder = WriteRecorder(file: try files.open(spare.text, .readWrite))
        let result = try write(&recorder)
        // What the file itself has there are zeros already, and may be holes: they would take room.
        if spare != name { try recorder.clearGaps() }
        try recorder.trim()
        // The bytes of `spare` are needed by nobody, those of the file itself by all.
        do { try recorder.settle() } catch { throw spare == name ? error : error.ofUnneededBytes }
        if spare != name { try files.exchange(spare.text, with: name.text) }
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

    /// Writes zeros between the pieces, where the file had other bytes before.
    mutating func clearGaps() throws(StorageError) {
        let zeros = [UInt8](repeating: 0, count: 1 << 20)
        var end: UInt64 = 0
        for piece in pieces.sorted(by: { $0.offset < $1.offset }) {
            while end < piece.offset {
                let count = min(piece.offset - end, UInt64(zeros.count))
                try write(Array(zeros[..<Int(count)]), at: end)
                end += count
            }
            end = piece.offset + UInt64(piece.byteCount)
        }
    }

    /// Cuts off what the file had before behind the last piece.
    func trim() throws(StorageError) {
        if try file.byteCount() != byteCount { try file.truncate(to: byteCount) }
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
