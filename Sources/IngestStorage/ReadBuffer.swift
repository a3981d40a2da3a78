// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

/// Memory for bytes read from a file, reused from read to read. Owned by one reader at a time.
///
/// **Cost** Grows to the largest read, by at least doubling; nothing is cleared.
@safe package final class ReadBuffer {
    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    /// How many bytes the last read gave.
    package private(set) var byteCount = 0

    package init(capacity: Int = 64 << 10) {
        self.capacity = capacity
        unsafe base = .allocate(byteCount: capacity, alignment: 4096)
    }

    deinit { unsafe base.deallocate() }

    /// Replaces the contents by the `count` bytes of `file` from `offset` on; fewer where it ends.
    /// - Parameter count: checked against a limit by the caller: so much memory is taken.
    package func read(
        _ file: some StorageFile, at offset: UInt64, byteCount count: Int
    ) throws(StorageError) {
        byteCount = 0
        reserve(count)
        try append(file, at: offset, byteCount: count)
    }

    /// Adds `count` bytes behind the present ones; `offset` is that of the added bytes.
    package func append(
        _ file: some StorageFile, at offset: UInt64, byteCount count: Int
    ) throws(StorageError) {
        reserve(byteCount + count)
        // SAFETY: byteCount + count ≤ capacity; what is read is what becomes visible.
        var span = unsafe MutableRawSpan(
            _unsafeStart: base + byteCount, byteCount: count)
        byteCount += try file.read(into: &span, at: offset)
    }

    package func removeAll() { byteCount = 0 }

    /// Keeps the first `count` bytes.
    func keep(_ count: Int) { byteCount = min(byteCount, max(0, count)) }

    /// The bytes of the last read, for the length of the call.
    package func withBytes<Result, Failure: Error>(
        _ body: (RawSpan) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: byteCount bytes were read, and nothing reads into the buffer during the call: it has
        // one owner.
        try body(unsafe RawSpan(_unsafeStart: base, byteCount: byteCount))
    }

    /// A part of the last read as an array; `range` is within `byteCount`.
    package func array(_ range: Range<Int>) -> [UInt8] {
        precondition(range.lowerBound >= 0 && range.upperBound <= byteCount)
        // SAFETY: the range is within what was read.
        return unsafe Array(UnsafeRawBufferPointer(start: base, count: byteCount)[range])
    }

    /// Whether all bytes of the last read are zero.
    package var isZero: Bool { lastNonzero == nil }

    /// The place of the last byte of the last read that is not zero.
    var lastNonzero: Int? {
        var end = byteCount
        // SAFETY: end - 8 … end lies within what was read; no alignment is asked for.
        while end >= 8, unsafe base.loadUnaligned(fromByteOffset: end - 8, as: UInt64.self) == 0 {
            end -= 8
        }
        // SAFETY: end - 1 lies within what was read.
        while end > 0, unsafe base.load(fromByteOffset: end - 1, as: UInt8.self) == 0 { end -= 1 }
        return end == 0 ? nil : end - 1
    }

    private func reserve(_ count: Int) {
        guard count > capacity else { return }
        let larger = max(count, 2 * capacity)
        let next = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 4096)
        // SAFETY: byteCount ≤ capacity < larger; the two do not overlap.
        unsafe next.copyMemory(from: base, byteCount: byteCount)
        unsafe base.deallocate()
        unsafe base = next
        capacity = larger
    }
}
