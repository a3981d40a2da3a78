// file → [lines] → send → packet → socket

import Glibc

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
