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
    /// Between two questions whether a pipe's next line is still wanted.
    private static let waitMilliseconds: Int32 = 1_000

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
    /// Of the last line that was taken.
    private(set) var lineNumber = 0
    private var isAtEnd = false
    /// The rest of a line that was too long is being skipped.
    private var isSkipping = false
    /// How far the input has been taken, with the checksum of all of it.
    private(set) var note = SpoolNote()
    /// The same before the last line that was taken.
    private(set) var lineNote = SpoolNote()
    /// What has been taken does not end with a newline: the last line may go on when the input is read again.
    private(set) var endsInLine = false

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

    /// The next line, as a place in `bytes`, which stays until `fill`.
    mutating func takeLine() -> InputLine {
        let range = start..<lineEnd!
        lineNumber += 1
        lineNote = note
        let next = min(end, range.upperBound + 1)
        take(upTo: next)
        searchedEnd = start
        lineEnd = nil
        if !isSkipping { findLineEnd() }
        return InputLine(range: range, number: lineNumber, note: note)
    }

    /// Whether the input is a file, which can be read again.
    var canRewind: Bool { lseek(descriptor, 0, SEEK_CUR) >= 0 }

    /// Of a file, as long as it is now; `nil` of a pipe.
    var byteCount: UInt64? {
        var status = stat()
        // SAFETY: the kernel writes one stat.
        let isFile = unsafe fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        return isFile ? UInt64(status.st_size) : nil
    }

    /// Goes back to the beginning.
    mutating func rewind() throws(Failure) {
        if lseek(descriptor, 0, SEEK_SET) < 0 { throw Failure(path: path, errno: errno) }
        (start, end, searchedEnd, lineNumber) = (0, 0, 0, 0)
        (isAtEnd, isSkipping, lineEnd, endsInLine) = (false, false, nil, false)
        (note, lineNote) = (SpoolNote(), SpoolNote())
    }

    /// How an input begins.
    enum Beginning: Equatable {
        /// With just the bytes that an earlier run has taken; the next line is behind them.
        case same
        case other
        /// With these bytes, but what was a last line without newline is the beginning of a longer one now.
        case longerLine(number: Int)
    }

    /// Passes what an earlier run has taken; to be called before anything else.
    mutating func skip(to wanted: SpoolNote) throws(Failure) -> Beginning {
        while note.position < wanted.position {
            if start == end {
                moveRestToFront()
                try readMore()
                if isAtEnd { return .other }
            }
            let byteCount = min(UInt64(end - start), wanted.position - note.position)
            pass(byteCount: Int(byteCount))
        }
        searchedEnd = start
        findLineEnd()
        guard note == wanted else { return .other }
        return endsInLine ? try endLine() : .same
    }

    private mutating func pass(byteCount: Int) {
        let next = start + byteCount
        var found = newline(from: start)
        while let newline = found, newline < next {
            lineNumber += 1
            found = self.newline(from: newline + 1)
        }
        take(upTo: next)
    }

    /// Passes the newline of a last line that had none, if it has come. White space before it changes no event.
    private mutating func endLine() throws(Failure) -> Beginning {
        if !hasLine {
            guard try fill() else { return .same }
        }
        let rest = takeLine()
        return isSkipping || !isBlank(bytes.span.extracting(rest.range))
            ? .longerLine(number: rest.number) : .same
    }

    private mutating func take(upTo newStart: Int) {
        if newStart > start { endsInLine = bytes[newStart - 1] != 0x0A }
        note = SpoolNote(
            position: note.position + UInt64(newStart - start),
            checksum: Checksum.crc32c(bytes[start..<newStart], seed: note.checksum))
        start = newStart
    }

    /// Reads on until there is a line. Call it when there is none left.
    ///
    /// - Parameter isWanted: asked each second while a pipe has nothing to give.
    /// - Returns: `false` at the end of the input: every line has been taken; and where no line is wanted any more.
    mutating func fill(while isWanted: () -> Bool = { true }) throws(Failure) -> Bool {
        while lineEnd == nil {
            if isAtEnd || !waitForInput(while: isWanted) { return false }
            moveRestToFront()
            try readMore()
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

    private func waitForInput(while isWanted: () -> Bool) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while true {
            // SAFETY: the kernel writes within the one entry.
            let count = unsafe poll(&entry, 1, Self.waitMilliseconds)
            // Any other error is one of the read that follows.
            if count > 0 || count < 0 && errno != EINTR { return true }
            if !isWanted() { return false }
        }
    }

    private mutating func readMore() throws(Failure) {
        // SAFETY: at most the free bytes behind `end` are written.
        let count = unsafe bytes.withUnsafeMutableBytes { buffer in
            var count: Int
            repeat {
                count = unsafe read(descriptor, buffer.baseAddress! + end, buffer.count - end)
            } while count < 0 && errno == EINTR
            return count
        }
        if count < 0 { throw Failure(path: path, errno: errno) }
        isAtEnd = count == 0
        end += count
    }
}
