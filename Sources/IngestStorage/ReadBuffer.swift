// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import IngestFormat

/// Memory for bytes read from a file, reused from read to read. Owned by one reader at a time.
///
/// **Cost** Grows to the largest read, by at least doubling; nothing is cleared.
@safe package final class ReadBuffer {
    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    /// How many bytes the last read gave.
    package private(set) var byteCount = 0
    /// What was wrong with the first of them that could not be read, where the read went on behind it.
    package private(set) var hole: StorageError?

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
        removeAll()
        try append(file, at: offset, byteCount: count)
    }

    /// As `read`, and goes on behind pages that the disk cannot read: 255 stands for each of their bytes, which is no
    /// zero that was never written, and begins nothing. For bytes whose checksums are looked at.
    ///
    /// **Cost** As `read`; where a page cannot be read, a read of each page, and what `UnreadableRegions` says.
    package func readAround(
        _ file: some StorageFile, at offset: UInt64, byteCount count: Int
    ) throws(StorageError) {
        removeAll()
        try appendAround(file, at: offset, byteCount: count)
    }

    /// As `append`, and goes on as `readAround`.
    package func appendAround(
        _ file: some StorageFile, at offset: UInt64, byteCount count: Int
    ) throws(StorageError) {
        let (present, wanted) = (byteCount, offset..<offset + UInt64(count))
        if !file.unreadable.touch(wanted) {
            do { return try append(file, at: offset, byteCount: count) } catch {
                guard case .corrupt = error else { throw error }
                // A read of several pages may fail at its beginning for a page behind it: each is tried by itself.
                if wanted.upperBound <= UnreadableRegions.pageEnd(offset) {
                    try file.unreadable.add(offset, error, of: file)
                }
            }
        }
        byteCount = present
        let end = min(wanted.upperBound, try file.byteCount())
        var place = offset
        while place < end {
            var next = min(end, UnreadableRegions.pageEnd(place))
            if let region = file.unreadable.region(at: place) {
                next = min(end, region.bytes.upperBound)
                hole = hole ?? region.error
                fill(upTo: present + Int(next - offset))
            } else {
                do { try append(file, at: place, byteCount: Int(next - place)) } catch {
                    guard case .corrupt = error else { throw error }
                    try file.unreadable.add(place, error, of: file)
                    continue
                }
            }
            place = next
        }
    }

    private func fill(upTo count: Int) {
        reserve(count)
        // SAFETY: byteCount ≤ count ≤ capacity.
        unsafe (base + byteCount).initializeMemory(
            as: UInt8.self, repeating: .max, count: count - byteCount)
        byteCount = count
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

    package func removeAll() { (byteCount, hole) = (0, nil) }

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
    var lastNonzero: Int? { withBytes { unsafe $0.withUnsafeBytes { unsafe $0.lastNonzero } } }

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
