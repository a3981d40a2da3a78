// file → [lines] → send → packet → socket

import Glibc
import IngestClient
import IngestFormat

/// Cuts a file or pipe into lines, in a buffer of fixed size, whatever the input holds.
///
/// A line that does not fit the buffer is delivered cut, still longer than any event may be, so that the
/// parser refuses it, and the rest of it is skipped.
///
/// **Cost** 1 MiB, taken once; one read(2) a MiB; no copy but the move of a cut line to the front.
struct LineReader: ~Copyable {
    private static let bufferByteCount = 1 << 20

    struct Failure: Error, CustomStringConvertible {
        let path: String
        let errno: Int32

        var description: String {
            // SAFETY: strerror returns a string for every number; it is copied at once.
            let reason = unsafe String(cString: strerror(errno))
            return "\(path.debugDescription): \(reason), give a readable file or - for stdin"
        }

        /// 66 where the input is not there or is none, 74 where reading it failed.
        var exitCode: Int32 { [ENOENT, EACCES, ENOTDIR, EISDIR].contains(errno) ? 66 : 74 }
    }

    private let path: String
    private let descriptor: Int32
    private(set) var bytes = [UInt8](repeating: 0, count: Self.bufferByteCount)
    /// bytes[start ..< end] is read and not taken; no newline in bytes[start ..< searchedEnd].
    private var start = 0
    private var end = 0
    private var searchedEnd = 0
    /// Where the next line ends: at its newline, at the end of the input, or where it was cut.
    private var lineEnd: Int?
    private var lineNumber = 0
    private var isAtEnd = false
    /// The rest of a line that was too long is being skipped.
    private var isSkipping = false
    /// How far the input has been taken, with the checksum of all of it.
    private(set) var note = SpoolNote()

    /// - Parameter path: `-` is stdin.
    init(path: String) throws(Failure) {
        self.path = path
        // SAFETY: the path is copied by the kernel.
        descriptor = unsafe path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 { throw Failure(path: path, errno: errno) }
    }

    deinit { if descriptor != STDIN_FILENO { close(descriptor) } }

    /// Whether `takeLine` has one.
    var hasLine: Bool { lineEnd != nil }

    /// The next line without its line end, as a place in `bytes`, and its number from 1.
    mutating func takeLine() -> (range: Range<Int>, number: Int) {
        let range = start..<lineEnd!
        lineNumber += 1
        let next = min(end, range.upperBound + 1)
        take(upTo: next)
        searchedEnd = start
        lineEnd = nil
        if !isSkipping { findLineEnd() }
        return (range, lineNumber)
    }

    /// Whether the input is a file, which can be read again.
    var canRewind: Bool { lseek(descriptor, 0, SEEK_CUR) >= 0 }

    /// Goes back to the beginning.
    mutating func rewind() throws(Failure) {
        if lseek(descriptor, 0, SEEK_SET) < 0 { throw Failure(path: path, errno: errno) }
        (start, end, searchedEnd, lineNumber) = (0, 0, 0, 0)
        (isAtEnd, isSkipping, lineEnd, note) = (false, false, nil, SpoolNote())
    }

    /// Passes the lines that an earlier run has taken.
    ///
    /// - Returns: `false` if the input does not begin with just these bytes.
    mutating func skip(to wanted: SpoolNote) throws(Failure) -> Bool {
        while note.position < wanted.position {
            if !hasLine {
                guard try fill() else { return false }
            }
            _ = takeLine()
        }
        return note == wanted
    }

    private mutating func take(upTo newStart: Int) {
        note = SpoolNote(
            position: note.position + UInt64(newStart - start),
            checksum: Checksum.crc32c(bytes[start..<newStart], seed: note.checksum))
        start = newStart
    }

    /// Reads on until there is a line. Call it when there is none left.
    ///
    /// - Returns: `false` at the end of the input: every line has been taken.
    mutating func fill() throws(Failure) -> Bool {
        while lineEnd == nil {
            if isAtEnd { return false }
            moveRestToFront()
            let byteCount = try readMore()
            isAtEnd = byteCount == 0
            end += byteCount
            if isSkipping { skipRestOfLine() }
            findLineEnd()
            if lineEnd == nil, !isSkipping { endLineWithoutNewline() }
        }
        return true
    }

    private mutating func moveRestToFront() {
        guard start > 0 else { return }
        // SAFETY: start ≤ end ≤ the buffer's size; memmove allows the overlap.
        _ = unsafe bytes.withUnsafeMutableBytes { buffer in
            unsafe memmove(buffer.baseAddress!, buffer.baseAddress! + start, end - start)
        }
        end -= start
        searchedEnd -= start
        start = 0
    }

    private func newline(from offset: Int) -> Int? {
        // SAFETY: offset ≤ end ≤ the buffer's size.
        unsafe bytes.withUnsafeBytes { buffer in
            let base = buffer.baseAddress!
            guard let found = unsafe memchr(base + offset, 0x0A, end - offset) else { return nil }
            return unsafe base.distance(to: UnsafeRawPointer(found))
        }
    }

    private mutating func findLineEnd() {
        lineEnd = newline(from: searchedEnd)
        searchedEnd = end
    }

    /// The last line of an input may have no newline; a line that fills the buffer is cut there.
    private mutating func endLineWithoutNewline() {
        if isAtEnd {
            if end > start { lineEnd = end }
        } else if start == 0 && end == bytes.count {
            lineEnd = end
            isSkipping = true
        }
    }

    private mutating func skipRestOfLine() {
        if let newline = newline(from: start) {
            take(upTo: newline + 1)
            isSkipping = false
        } else {
            take(upTo: end)
        }
        searchedEnd = start
    }

    /// 0 at the end of the input.
    private mutating func readMore() throws(Failure) -> Int {
        // SAFETY: at most the free bytes behind `end` are written.
        let count = unsafe bytes.withUnsafeMutableBytes { buffer in
            var count: Int
            repeat {
                count = unsafe read(descriptor, buffer.baseAddress! + end, buffer.count - end)
            } while count < 0 && errno == EINTR
            return count
        }
        if count < 0 { throw Failure(path: path, errno: errno) }
        return count
    }
}
