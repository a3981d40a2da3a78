// file → [lines] → send → spool → packet

import Glibc
import IngestClient
import IngestFormat

/// A file that another program writes, read line by line from any place as far as it reaches, and on when it has grown.
///
/// A line that does not fit the buffer is delivered cut, still longer than any event may be, so that it is refused; the rest
/// of it is skipped. A class, since several of these wait in a queue.
///
/// **Cost** 1 MiB and a descriptor; for each line a CRC-32C of 256 bytes.
final class FollowedFile {
    /// So much before a place tells whether a file is still the same.
    static let tailByteCount = 256
    private static let bufferByteCount = 1 << 20

    let device: UInt64
    let inode: UInt64
    private let path: String
    private let descriptor: Int32
    private(set) var bytes = [UInt8](repeating: 0, count: bufferByteCount)
    /// bytes[start ..< end] is read and not taken; no newline in bytes[start ..< searchedEnd]. Before `start` are the last bytes
    /// that were taken, at least `tailByteCount` if there were as many.
    private var (start, end, searchedEnd) = (0, 0, 0)
    /// Of bytes[end] in the file.
    private var readEnd: UInt64 = 0
    /// The rest of a line that was too long is being skipped.
    private var isSkipping = false
    private(set) var lineNumber = 0

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
        let tail = bytes[max(0, start - Self.tailByteCount)..<start]
        return SpoolNote(
            position: readEnd - UInt64(end - start), checksum: Checksum.crc32c(tail),
            device: device, inode: inode)
    }

    /// When it was written last; `byteCount` as it is now.
    var status: (byteCount: UInt64, modified: UInt64) {
        var status = stat()
        // SAFETY: the kernel writes one stat.
        guard unsafe fstat(descriptor, &status) == 0 else { return (readEnd, 0) }
        let time = status.st_mtim
        return (UInt64(status.st_size), UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    /// Bytes behind what has been read.
    var unreadByteCount: UInt64 { status.byteCount - min(status.byteCount, readEnd) }

    /// Goes to a place; `false`, and it stays at its beginning, where the bytes before that are not those of the note.
    func resume(at note: SpoolNote) -> Bool {
        let byteCount = min(UInt64(Self.tailByteCount), note.position)
        guard inode == note.inode, note.position <= status.byteCount,
            let count = try? read(&bytes, 0..<Int(byteCount), at: note.position - byteCount),
            count == byteCount, Checksum.crc32c(bytes[..<count]) == note.checksum
        else { return false }
        (start, end, searchedEnd, readEnd) = (count, count, count, note.position)
        return true
    }

    /// Whether what has been read is no longer there: it was cut, or cut and written anew.
    func isTruncated() throws(AgentFailure) -> Bool {
        if status.byteCount < readEnd { return true }
        let count = min(end, Self.tailByteCount)
        var tail = [UInt8](repeating: 0, count: count)
        guard try read(&tail, 0..<count, at: readEnd - UInt64(count)) == count else { return true }
        return tail[...] != bytes[(end - count)..<end]
    }

    /// Begins again at the first byte.
    func rewind() {
        (start, end, searchedEnd, readEnd) = (0, 0, 0, 0)
        (isSkipping, lineNumber) = (false, 0)
    }

    /// Reads on; `false` at the end of the file as it is now. Call it when there is no line left.
    func fill() throws(AgentFailure) -> Bool {
        moveRestToFront()
        let count = try read(&bytes, end..<bytes.count, at: readEnd)
        end += count
        readEnd += UInt64(count)
        return count > 0
    }

    /// The next line without its line end, as a place in `bytes`.
    ///
    /// - Parameter isFinal: nothing is written to the file any more: what has no newline is a line too.
    func takeLine(isFinal: Bool = false) -> Range<Int>? {
        while true {
            if let newline = newline() {
                let range = start..<newline
                (start, searchedEnd) = (newline + 1, newline + 1)
                if isSkipping {
                    isSkipping = false
                    continue
                }
                lineNumber += 1
                return range
            }
            searchedEnd = end
            if isSkipping { start = end }
            let isCut = end == bytes.count && start <= Self.tailByteCount
            guard start < end, isFinal || isCut else { return nil }
            isSkipping = isCut && !isFinal
            defer { start = end }
            lineNumber += 1
            return start..<end
        }
    }

    private func newline() -> Int? {
        // SAFETY: searchedEnd ≤ end ≤ the buffer's size.
        unsafe bytes.withUnsafeBytes { buffer in
            let base = buffer.baseAddress!
            guard let found = unsafe memchr(base + searchedEnd, 0x0A, end - searchedEnd) else {
                return nil
            }
            return unsafe base.distance(to: UnsafeRawPointer(found))
        }
    }

    private func moveRestToFront() {
        let first = max(0, start - Self.tailByteCount)
        guard first > 0 else { return }
        // SAFETY: first ≤ end ≤ the buffer's size; memmove allows the overlap.
        _ = unsafe bytes.withUnsafeMutableBytes { buffer in
            unsafe memmove(buffer.baseAddress!, buffer.baseAddress! + first, end - first)
        }
        (start, end, searchedEnd) = (start - first, end - first, searchedEnd - first)
    }

    private func read(
        _ bytes: inout [UInt8], _ range: Range<Int>, at offset: UInt64
    ) throws(AgentFailure) -> Int {
        // SAFETY: the slice traps outside the array; the kernel writes within it.
        let count = unsafe bytes.withUnsafeMutableBytes { buffer in
            let part = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[range])
            var count: Int
            repeat {
                count = unsafe pread(descriptor, part.baseAddress, part.count, off_t(offset))
            } while count < 0 && errno == EINTR
            return count
        }
        if count < 0 { throw .file(path, errno) }
        return count
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
