// file → [lines] → send → packet → socket

import Glibc
import IngestClient
import IngestFormat

/// The lines of a file or a pipe, and how far they have been taken.
///
/// **Cost** That of its buffer; one read(2) a MiB.
struct LineReader: ~Copyable {
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
    private(set) var buffer = LineBuffer()
    /// The next one, as a place in the buffer.
    private var line: Range<Int>?
    /// Of the last line that was taken.
    private(set) var lineNumber = 0
    private var isAtEnd = false
    /// How far the input has been taken, with the checksum of all of it.
    private(set) var note = SpoolNote()
    /// The same as a place in the buffer.
    private var noteEnd = 0
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
    var hasLine: Bool { line != nil }

    /// The next line, as a place in the buffer, which stays until `fill`.
    mutating func takeLine() -> InputLine {
        let range = line!
        lineNumber += 1
        note(upTo: range.lowerBound)
        lineNote = note
        note(upTo: min(buffer.end, range.upperBound + 1))
        line = buffer.takeLine(isFinal: isAtEnd)
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
        (buffer, line, lineNumber, isAtEnd) = (LineBuffer(), nil, 0, false)
        (note, lineNote, noteEnd, endsInLine) = (SpoolNote(), SpoolNote(), 0, false)
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
            if buffer.start == buffer.end {
                try readMore()
                if isAtEnd { return .other }
            }
            let byteCount = min(
                UInt64(buffer.end - buffer.start), wanted.position - note.position)
            lineNumber += buffer.take(byteCount: Int(byteCount))
            note(upTo: buffer.start)
        }
        line = buffer.takeLine(isFinal: false)
        guard note == wanted else { return .other }
        return endsInLine ? try endLine() : .same
    }

    /// Passes the newline of a last line that had none, if it has come. White space before it changes no event.
    private mutating func endLine() throws(Failure) -> Beginning {
        if !hasLine {
            guard try fill() else { return .same }
        }
        let rest = takeLine()
        return buffer.isSkipping || !isBlank(buffer.bytes.span.extracting(rest.range))
            ? .longerLine(number: rest.number) : .same
    }

    private mutating func note(upTo end: Int) {
        guard end > noteEnd else { return }
        endsInLine = buffer.bytes[end - 1] != 0x0A
        note = SpoolNote(
            position: note.position + UInt64(end - noteEnd),
            checksum: Checksum.crc32c(buffer.bytes[noteEnd..<end], seed: note.checksum))
        noteEnd = end
    }

    /// Reads on until there is a line. Call it when there is none left.
    ///
    /// - Parameter isWanted: asked each second while a pipe has nothing to give.
    /// - Returns: `false` at the end of the input: every line has been taken; and where no line is wanted any more.
    mutating func fill(while isWanted: () -> Bool = { true }) throws(Failure) -> Bool {
        while line == nil {
            if isAtEnd || !waitForInput(while: isWanted) { return false }
            try readMore()
            line = buffer.takeLine(isFinal: isAtEnd)
        }
        return true
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
        // The rest of a line that was too long is no line, and yet of the input.
        note(upTo: buffer.start)
        let descriptor = descriptor
        // SAFETY: the kernel writes within the place.
        let count = unsafe buffer.fill { unsafe read(descriptor, $0.baseAddress, $0.count) }
        if count < 0 { throw Failure(path: path, errno: errno) }
        isAtEnd = count == 0
        noteEnd = buffer.start
    }
}

/// What is read of an input, cut into lines in a buffer of fixed size, whatever the input holds.
///
/// A line that does not fit is delivered cut, still longer than any event may be, so that it is refused; the rest of it is
/// skipped.
///
/// **Cost** 1 MiB, taken with the first read; no copy but the move of a cut line to the front.
struct LineBuffer {
    private static let byteCount = 1 << 20

    /// So many bytes before the next line stay where they are, if as many were taken.
    private let keptByteCount: Int
    private(set) var bytes: [UInt8]
    /// bytes[start ..< end] is read and not taken; no newline in bytes[start ..< searchedEnd].
    private(set) var start: Int
    private(set) var end: Int
    private var searchedEnd: Int
    /// The rest of a line that was too long is being skipped.
    private(set) var isSkipping = false

    /// - Parameter taken: what the input has before its next line, as far as it shall be kept.
    init(keptByteCount: Int = 0, taken: [UInt8] = []) {
        self.keptByteCount = keptByteCount
        bytes = taken
        (start, end, searchedEnd) = (taken.count, taken.count, taken.count)
    }

    /// Reads on. Call it when there is no line left.
    ///
    /// - Parameter read: as read(2), into a place.
    /// - Returns: what it has returned last.
    mutating func fill(_ read: (UnsafeMutableRawBufferPointer) -> Int) -> Int {
        if bytes.count < Self.byteCount {
            bytes += repeatElement(0, count: Self.byteCount - bytes.count)
        }
        let first = max(0, start - keptByteCount)
        // SAFETY: first ≤ end ≤ the buffer's size; memmove allows the overlap; the slice traps outside the buffer.
        let count = unsafe bytes.withUnsafeMutableBytes { buffer in
            let base = buffer.baseAddress!
            if first > 0 { _ = unsafe memmove(base, base + first, end - first) }
            let room = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[(end - first)...])
            var count: Int
            repeat { count = unsafe read(room) } while count < 0 && errno == EINTR
            return count
        }
        (start, searchedEnd) = (start - first, searchedEnd - first)
        end += max(0, count) - first
        return count
    }

    /// The next line without its line end, as a place in `bytes`, which stays until `fill`; `nil` where there is none.
    ///
    /// - Parameter isFinal: nothing comes behind what is there: what has no newline is a line too.
    mutating func takeLine(isFinal: Bool) -> Range<Int>? {
        if isSkipping {
            isSkipping = findNewline() == nil
            start = searchedEnd
            if isSkipping { return nil }
        }
        if let newline = findNewline() {
            defer { start = newline + 1 }
            return start..<newline
        }
        let isCut = end == bytes.count && start <= keptByteCount
        guard start < end, isFinal || isCut else { return nil }
        isSkipping = isCut && !isFinal
        defer { start = end }
        return start..<end
    }

    /// Takes bytes, whatever lines they are; how many of these end in them.
    mutating func take(byteCount: Int) -> Int {
        let range = start..<start + byteCount
        (start, searchedEnd) = (range.upperBound, range.upperBound)
        var count = 0
        for byte in bytes[range] where byte == 0x0A { count += 1 }
        return count
    }

    private mutating func findNewline() -> Int? {
        guard searchedEnd < end else { return nil }
        // SAFETY: searchedEnd < end ≤ the buffer's size.
        let newline = unsafe bytes.withUnsafeBytes { buffer -> Int? in
            let base = buffer.baseAddress!
            guard let found = unsafe memchr(base + searchedEnd, 0x0A, end - searchedEnd) else {
                return nil
            }
            return unsafe base.distance(to: UnsafeRawPointer(found))
        }
        searchedEnd = newline.map { $0 + 1 } ?? end
        return newline
    }
}
