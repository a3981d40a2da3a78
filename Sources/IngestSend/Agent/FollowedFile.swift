// file → [lines] → send → spool → packet

import CIngestLinux
import Glibc
import IngestClient
import IngestFormat

/// A file that another program writes, read line by line from any place as far as it reaches, and on when it has grown.
///
/// A class, since several of these wait in a queue.
///
/// **Cost** A descriptor, and the buffer once it is read; at each look two system calls; for each line a CRC-32C of 256 bytes.
final class FollowedFile {
    /// So much before a place tells whether a file is still the same.
    private static let tailByteCount = 256

    let device: UInt64
    let inode: UInt64
    let path: String
    private let descriptor: Int32
    /// Has what was taken last before its next line.
    private(set) var buffer = LineBuffer(keptByteCount: tailByteCount)
    /// How far it has been read.
    private var readEnd: UInt64 = 0
    private(set) var lineNumber = 0
    /// What was found at the last look, and what stood before its end.
    private var seen: (byteCount: UInt64, modified: UInt64, tail: [UInt8]) = (0, 0, [])
    /// When it was first seen as it is, or lost its name.
    var changedAt: UInt64 = 0

    /// **Errors** It is not there, cannot be read, or is no regular file.
    init(path: String) throws(AgentFailure) {
        self.path = path
        // SAFETY: the path is copied by the kernel. A FIFO must not wait for its writer here.
        descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        if descriptor < 0 { throw .file(path, errno) }
        var status = stat()
        // SAFETY: the kernel writes one stat.
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            _ = close(descriptor)
            throw AgentFailure(
                "\(path.debugDescription) is no regular file, give one, or a pipe without --follow",
                exitCode: 66)
        }
        (device, inode) = (UInt64(status.st_dev), UInt64(status.st_ino))
    }

    deinit { _ = close(descriptor) }

    /// How far it has been taken.
    var note: SpoolNote {
        let tail = buffer.bytes[max(0, buffer.start - Self.tailByteCount)..<buffer.start]
        return SpoolNote(
            position: position, checksum: Checksum.crc32c(tail), device: device, inode: inode)
    }

    private var position: UInt64 { readEnd - UInt64(buffer.end - buffer.start) }

    private var status: (byteCount: UInt64, modified: UInt64) {
        var status = stat()
        // SAFETY: the kernel writes one stat.
        guard unsafe fstat(descriptor, &status) == 0 else { return (readEnd, 0) }
        return (UInt64(status.st_size), Self.modified(status))
    }

    static func modified(_ status: stat) -> UInt64 {
        UInt64(status.st_mtim.tv_sec) * 1_000_000_000 + UInt64(status.st_mtim.tv_nsec)
    }

    /// When it was made and when it was written last; the latter for both where the file system does not keep the former.
    var times: (made: UInt64, modified: UInt64) {
        let (made, modified) = (ingest_birth_nanoseconds(descriptor), status.modified)
        return (made == 0 ? modified : made, modified)
    }

    /// Bytes behind what has been read.
    var unreadByteCount: UInt64 { status.byteCount - min(status.byteCount, readEnd) }

    /// Goes to a place; `false`, and it stays at its beginning, where the bytes before that are not those of the note.
    func resume(at note: SpoolNote) -> Bool {
        guard inode == note.inode, note.position <= status.byteCount,
            let tail = try? tail(before: note.position), Checksum.crc32c(tail) == note.checksum
        else { return false }
        buffer = LineBuffer(keptByteCount: Self.tailByteCount, taken: tail)
        readEnd = note.position
        return true
    }

    /// Sees how far it reaches, and whether what was seen before is still there. Where it was truncated it begins anew.
    ///
    /// - Returns: which bytes had been seen, and were not taken before they were cut off.
    func look(now: UInt64) throws(AgentFailure) -> Range<UInt64>? {
        var cutOff: Range<UInt64>?
        if try tail(before: seen.byteCount) != seen.tail {
            cutOff = position..<max(seen.byteCount, readEnd)
            buffer = LineBuffer(keptByteCount: Self.tailByteCount)
            (readEnd, lineNumber, seen) = (0, 0, (0, 0, []))
        }
        let (byteCount, modified) = status
        if (byteCount, modified) != (seen.byteCount, seen.modified),
            let tail = try tail(before: byteCount)
        {
            (seen, changedAt) = ((byteCount, modified, tail), now)
        }
        return cutOff
    }

    /// Reads on; `false` at the end of the file as it is now. Call it when there is no line left.
    func fill() throws(AgentFailure) -> Bool {
        // SAFETY: the kernel writes within the place.
        let count = unsafe buffer.fill {
            unsafe pread(descriptor, $0.baseAddress, $0.count, off_t(readEnd))
        }
        if count < 0 { throw .file(path, errno) }
        readEnd += UInt64(count)
        return count > 0
    }

    /// The next line without its line end, as a place in the buffer.
    ///
    /// - Parameter isFinal: nothing is written to the file any more: what has no newline is a line too.
    func takeLine(isFinal: Bool) -> Range<Int>? {
        guard let line = buffer.takeLine(isFinal: isFinal) else { return nil }
        lineNumber += 1
        return line
    }

    /// The bytes before a place that tell the file; `nil` where it does not reach so far.
    private func tail(before end: UInt64) throws(AgentFailure) -> [UInt8]? {
        let byteCount = min(end, UInt64(Self.tailByteCount))
        var bytes = [UInt8](repeating: 0, count: Int(byteCount))
        // SAFETY: at most the array's own bytes are written.
        let count = unsafe bytes.withUnsafeMutableBytes { buffer in
            unsafe pread(descriptor, buffer.baseAddress, buffer.count, off_t(end - byteCount))
        }
        if count < 0 { throw .file(path, errno) }
        return count == bytes.count ? bytes : nil
    }
}

/// What ends an agent, or keeps it from starting.
struct AgentFailure: Error {
    let message: String
    let exitCode: Int32

    init(_ message: String, exitCode: Int32) {
        self.message = message
        self.exitCode = exitCode
    }

    init(_ error: ClientError) { self.init(error.description, exitCode: error.exitCode) }

    static func file(_ path: String, _ errno: Int32) -> AgentFailure {
        let failure = LineReader.Failure(path: path, errno: errno)
        return AgentFailure(failure.description, exitCode: failure.exitCode)
    }
}
