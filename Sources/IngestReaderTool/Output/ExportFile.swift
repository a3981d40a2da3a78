// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestStorage

/// A file that appears under its name whole and durable, or not at all: written under a temporary name
/// (`NAME.RANDOM.tmp`) in the same directory, synced, renamed. What had the name before stays until then.
package final class ExportFile<Files: FileSystem> {
    private let files: Files
    private let name: String
    private let temporary: String
    private let file: Files.File
    private var writtenByteCount: UInt64 = 0
    private var isFinished = false

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
        if !isFinished { try? files.unlink(temporary) }
    }

    package func write(_ bytes: [UInt8]) throws(StorageError) {
        try file.write(bytes, at: writtenByteCount)
        writtenByteCount += UInt64(bytes.count)
    }

    /// Makes the file durable, and gives it its name.
    /// - Returns: its byte count.
    package func finish() throws(StorageError) -> UInt64 {
        try file.sync()
        let byteCount = try file.byteCount()
        try files.rename(temporary, to: name)
        isFinished = true
        try files.syncDirectory()
        return byteCount
    }
}
