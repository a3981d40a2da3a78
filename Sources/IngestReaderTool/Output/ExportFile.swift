// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Dispatch
import Glibc
import IngestStorage
import Synchronization

/// A file that appears under its name whole and durable, or not at all: written under a temporary name
/// (`NAME.RANDOM.tmp`) in the same directory, synced, renamed. What had the name before stays until then.
///
/// Pieces are written on a queue of its own, so that rows are made while the pieces before are on their way. What was
/// written is synced every `windowByteCount` on another queue, and leaves the page cache: a large export takes little of it,
/// and does not wait for all of the file at its end.
/// **Cost** The memory of four pieces, and some windows of page cache.
package final class ExportFile<Files: FileSystem> {
    private static var windowByteCount: UInt64 { 32 << 20 }

    private let files: Files
    private let name: String
    private let temporary: String
    private let file: Files.File
    private var writtenByteCount: UInt64 = 0
    private var isFinished = false
    private let queue = DispatchQueue(label: "export")
    private let syncQueue = DispatchQueue(label: "export.sync")
    private let room = DispatchSemaphore(value: 4)
    private let failure = WriteFailure()

    /// Creates the temporary file.
    /// - Parameters:
    ///   - name: without directories.
    ///   - files: the directory that it is to be in.
    package init(_ name: String, in files: Files) throws(StorageError) {
        self.files = files
        self.name = name
        temporary = "\(name).\(String(UInt64.random(in: 0...UInt64.max), radix: 16)).tmp"
        file = try files.create(temporary)
    }

    /// Where the file is until it is finished, for who writes it by its path.
    package var temporaryPath: String { file.path }

    /// Removes the temporary file of an export that was not finished.
    deinit {
        waitForQueues()
        if !isFinished { try? files.unlink(temporary) }
    }

    /// Gives the file the permissions of the one that it will replace, else of files that are made for others: those that
    /// the process's umask leaves. Files of a data directory have fewer. Best effort: a file system without permissions
    /// takes none.
    package func takePermissions() {
        let mask = umask(0)
        umask(mask)
        var present = stat()
        // SAFETY: paths are temporary C strings that outlive the calls.
        let isPresent = unsafe stat("\(files.path)/\(name)", &present) == 0
        _ = unsafe chmod(file.path, isPresent ? present.st_mode & 0o777 : 0o666 & ~mask)
    }

    /// **Errors** Those of this piece or of one before it, also at a later call.
    package func write(_ bytes: [UInt8]) throws(StorageError) {
        room.wait()
        let (file, failure, room, offset) = (file, failure, room, writtenByteCount)
        writtenByteCount += UInt64(bytes.count)
        queue.async {
            defer { room.signal() }
            failure.hold { () throws(StorageError) in try file.write(bytes, at: offset) }
        }
        if offset / Self.windowByteCount != writtenByteCount / Self.windowByteCount {
            queue.async { [syncQueue] in
                syncQueue.async {
                    failure.hold { () throws(StorageError) in try file.syncData() }
                    file.forgetCached()
                }
            }
        }
        try failure.check()
    }

    /// Writes bytes over those of a piece, which has no others under way.
    package func replace(_ bytes: [UInt8], at offset: UInt64) throws(StorageError) {
        try settle()
        try file.write(bytes, at: offset)
    }

    /// Waits until all pieces are in the file.
    /// **Errors** Those of any of them.
    package func settle() throws(StorageError) {
        waitForQueues()
        try failure.check()
    }

    private func waitForQueues() {
        queue.sync {}
        syncQueue.sync {}
    }

    /// Makes the file durable, and gives it its name.
    /// - Returns: its byte count.
    package func finish() throws(StorageError) -> UInt64 {
        try settle()
        try file.sync()
        let byteCount = try file.byteCount()
        try files.rename(temporary, to: name)
        isFinished = true
        try files.syncDirectory()
        return byteCount
    }
}

/// The first error of the writes and syncs.
private final class WriteFailure: Sendable {
    private let error = Mutex<StorageError?>(nil)

    /// Does nothing any more once there was an error.
    func hold(_ body: () throws(StorageError) -> Void) {
        do throws(StorageError) {
            try check()
            try body()
        } catch { self.error.withLock { $0 = $0 ?? error } }
    }

    func check() throws(StorageError) {
        if let error = error.withLock({ $0 }) { throw error }
    }
}
