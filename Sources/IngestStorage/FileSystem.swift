// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
// The seam between the project and the disk. Everything that reads or writes a data directory is
// generic over `FileSystem`; `LinuxFileSystem` is the real one, `SimulatedFileSystem` the failing one.

/// One directory of files, addressed by plain names (no path separators).
///
/// A value stands for the directory itself, opened once: a rename of the directory's own path, or a
/// link put in its place, changes nothing for its holder. All calls may be made from any thread.
///
/// **Durability** No call but `sync`, `syncData` and `syncDirectory` makes anything durable: after a power
/// cut, any subset of the other calls may be undone, torn or reordered. What a caller wants to have
/// on disk in some order, it syncs in that order (docs/durability.md).
///
/// **Errors** Every call throws `StorageError` with the path, the system call and errno. A failed sync is
/// always `durabilityLost`: it must not be tried again on that file.
package protocol FileSystem: Sendable {
    associatedtype File: StorageFile

    /// The directory as it is named in messages.
    var path: String { get }

    /// Creates a file for reading and writing; `alreadyExists` if the name is taken.
    func create(_ name: String) throws(StorageError) -> File
    /// Opens an existing file; `notFound` if there is none. What is no regular file is `corrupt`: symbolic
    /// links are not followed, and a pipe is not waited for.
    func open(_ name: String, _ access: FileAccess) throws(StorageError) -> File
    /// The names in the directory in bytewise order, subdirectories included, `.` and `..` not.
    func names() throws(StorageError) -> [String]
    /// Renames within the directory, replacing what had the new name.
    func rename(_ name: String, to newName: String) throws(StorageError)
    /// Renames into another directory of the same file system; `alreadyExists` if the name is taken.
    func move(_ name: String, to newName: String, in directory: Self) throws(StorageError)
    /// Gives a file another name too, in another directory of the same file system; `alreadyExists` if that is taken. *The
    /// corresponding C function is linkat(2).*
    func link(_ name: String, to newName: String, in directory: Self) throws(StorageError)
    /// Lets two files change names, where the file system can; else `name` gets that of `other`, whose file goes. *The
    /// corresponding C function is renameat2(2) with RENAME_EXCHANGE.*
    func exchange(_ name: String, with other: String) throws(StorageError)
    /// Removes a name. The bytes live on for those who have the file open.
    func unlink(_ name: String) throws(StorageError)
    /// Makes every earlier create, rename, move, link and unlink in this directory durable (fsync).
    func syncDirectory() throws(StorageError)
    /// A directory inside this one; `notFound` if it is absent and `create` is false.
    func subdirectory(_ name: String, create: Bool) throws(StorageError) -> Self
    /// Takes the advisory lock of the directory, without waiting; `locked` if another process or handle has
    /// it. The file `name` says who; removing it does not free the lock. It is held for as long as the
    /// returned file is referenced.
    func lock(_ name: String) throws(StorageError) -> File
    /// How large the file system is and how much of it is free for this process.
    func space() throws(StorageError) -> FileSystemSpace
}

/// An open file. Closed when its last reference goes.
///
/// Calls may be made from any thread; two writes that overlap in time must not overlap in place.
package protocol StorageFile: AnyObject, Sendable {
    /// The full path at the time of opening, for messages.
    var path: String { get }
    /// What the disk could not read of it since it was opened.
    var unreadable: UnreadableRegions { get }

    /// Fills `bytes` from its byte `first` on with what is at `offset`: at least one byte if there is
    /// one, else returns 0. Callers use `read`.
    func readSome(
        into bytes: inout MutableRawSpan, from first: Int, at offset: UInt64
    ) throws(StorageError) -> Int
    /// Writes at least one byte of a span that is not empty. Callers use `write`.
    func writeSome(_ bytes: RawSpan, at offset: UInt64) throws(StorageError) -> Int
    /// Makes the bytes and the byte count durable. *The corresponding C function is fdatasync(2).*
    func syncData() throws(StorageError)
    /// Makes bytes and all metadata durable. *The corresponding C function is fsync(2).*
    func sync() throws(StorageError)
    /// Extends the file with zeros so that it is at least `byteCount` long and its blocks on disk are
    /// reserved: `diskFull` comes here and not at a later write. *The C function is fallocate(2).*
    func allocate(to byteCount: UInt64) throws(StorageError)
    /// Cuts or extends (with a hole) to `byteCount`. *The corresponding C function is ftruncate(2).*
    func truncate(to byteCount: UInt64) throws(StorageError)
    func byteCount() throws(StorageError) -> UInt64
    /// How much of the disk the file has: less than its byte count where it has holes.
    func allocatedByteCount() throws(StorageError) -> UInt64
    /// Where bytes may lie that are no zeros, from `offset` on; the end of the file where there are none. `offset` itself is
    /// always a true answer. From then on nothing is read ahead in the file.
    /// *The corresponding C function is lseek(2) with SEEK_DATA.*
    func nextData(from offset: UInt64) throws(StorageError) -> UInt64
    /// Asks that nothing be read ahead: what was only reserved is data once it was read, for every process. A hint; never fails.
    /// *The corresponding C function is posix_fadvise(2) with POSIX_FADV_RANDOM.*
    func stopReadingAhead()
    /// Holds a lease, a shared lock, on the bytes from `first` on, whether they are there or not, and lets go of those
    /// before it. A file that was opened for reading will do. Held until the file is closed, by whatever ends
    /// the process. *The corresponding C function is fcntl(2) with F_OFD_SETLK and F_RDLCK.*
    func lease(from first: UInt64) throws(StorageError)
    /// Whether anybody else has a lease on a byte.
    func isLeased(at byte: UInt64) throws(StorageError) -> Bool
    /// Asks that synced bytes leave memory, so that the next read comes from the disk. A hint; never fails.
    /// *The corresponding C function is posix_fadvise(2) with POSIX_FADV_DONTNEED.*
    func forgetCached()
}

/// What a file is opened for.
package enum FileAccess: Sendable {
    case read, readWrite
}

/// The size of a file system; what is free is without the share that is reserved for the superuser. **Units** bytes.
package typealias FileSystemSpace = (totalByteCount: UInt64, freeByteCount: UInt64)

extension StorageFile {
    package func nextData(from offset: UInt64) throws(StorageError) -> UInt64 { offset }
    package func stopReadingAhead() {}

    /// Fills `bytes` from `offset` on; returns how many bytes there were, fewer only at the end of the file.
    ///
    /// **Errors** `corrupt` where the disk cannot read, which is found twice: for who asks it is as if other bytes were there.
    package func read(
        into bytes: inout MutableRawSpan, at offset: UInt64
    ) throws(StorageError) -> Int {
        var done = 0
        var failedAt = -1
        while done < bytes.byteCount {
            let count: Int
            do {
                count = try readSome(into: &bytes, from: done, at: offset &+ UInt64(done))
            } catch {
                let told = error.ofBytes(at: offset &+ UInt64(done))
                // A cable or a controller may fail for a moment, and what is taken for lost is lost.
                guard told != error, failedAt != done else { throw told }
                failedAt = done
                continue
            }
            if count == 0 { break }
            done += count
        }
        return done
    }

    /// Writes all of `bytes` at `offset`, in one call unless the system writes short.
    ///
    /// **Errors** At `diskFull` a prefix may have been written; the same bytes can be written again
    /// at the same place.
    package func write(_ bytes: RawSpan, at offset: UInt64) throws(StorageError) {
        var done = 0
        while done < bytes.byteCount {
            done += try writeSome(bytes.extracting(droppingFirst: done), at: offset &+ UInt64(done))
        }
    }
}

extension StorageFile {
    /// Writes an array; as `write` of its bytes.
    package func write(_ bytes: [UInt8], at offset: UInt64) throws(StorageError) {
        // SAFETY: bytes of an array are initialised; the span ends with the call.
        try write(unsafe bytes.span.bytes, at: offset)
    }

    /// The `byteCount` bytes from `offset` on, fewer where the file ends earlier.
    /// - Parameter byteCount: checked against a limit by the caller: so much memory is taken.
    package func readArray(at offset: UInt64, byteCount: Int) throws(StorageError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: byteCount)
        var span = bytes.mutableSpan
        // SAFETY: any bytes are a valid array of u8.
        var raw = unsafe span.mutableBytes
        let count = try read(into: &raw, at: offset)
        if count < byteCount { bytes.removeLast(byteCount - count) }
        return bytes
    }

    /// The whole file.
    ///
    /// **Errors** `overLimit` if it is larger than `byteCountMax`, before memory is taken.
    package func readAll(byteCountMax: Int) throws(StorageError) -> [UInt8] {
        let byteCount = try self.byteCount()
        guard byteCount <= UInt64(byteCountMax) else {
            throw .overLimit(path: path, detail: "\(byteCount) of at most \(byteCountMax) bytes")
        }
        return try readArray(at: 0, byteCount: Int(byteCount))
    }
}
