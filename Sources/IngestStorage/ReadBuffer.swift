// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import IngestFormat
import Synchronization

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
                fill(upTo: present + Int(next - offset), with: .max)
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

    private func fill(upTo count: Int, with byte: UInt8) {
        reserve(count)
        // SAFETY: byteCount ≤ count ≤ capacity.
        unsafe (base + byteCount).initializeMemory(
            as: UInt8.self, repeating: byte, count: count - byteCount)
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

    /// Adds zeros in place of `count` bytes that are not read.
    package func pass(_ count: Int) { fill(upTo: byteCount + count, with: 0) }

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

/// What the disk could not read of an open file: a page is tried once, however many look at it, since each attempt can take
/// seconds. Who reads around it (`ReadBuffer.readAround`) asks here first; all others read again.
///
/// Sixteen pages in a row are tried one by one. If none of them can be read, it is a region, whose end is looked for at
/// distances that double, and then halved; pages between that were not tried are taken to be unreadable, too.
///
/// **Cost** At most 2 × (17 + 2 log2 n) failing reads for a region of n pages that is read from its beginning on, two for
/// each attempt: 98 for 256 MiB.
package final class UnreadableRegions: Sendable {
    package struct Region: Sendable {
        package fileprivate(set) var bytes: Range<UInt64>
        /// What was wrong with its first page.
        package let error: StorageError
    }

    /// What the kernel reads of a file at once.
    private static let pageByteCount: UInt64 = 4096
    /// Pages in a row that are tried one by one.
    private static let pageCountMax: UInt64 = 16

    /// By place; none overlaps another.
    private let regions = Mutex<[Region]>([])

    package init() {}

    /// Where the page ends that holds a byte.
    static func pageEnd(_ offset: UInt64) -> UInt64 {
        (offset / pageByteCount + 1) * pageByteCount
    }

    /// Whether some of these bytes are in a region.
    func touch(_ bytes: Range<UInt64>) -> Bool {
        regions.withLock { $0.contains { $0.bytes.overlaps(bytes) } }
    }

    /// The region that a byte is in.
    func region(at offset: UInt64) -> Region? {
        regions.withLock { $0.first { $0.bytes.contains(offset) } }
    }

    /// Adds the page of a byte, and what belongs to the same region.
    /// - Parameter error: of an attempt to read the page.
    /// **Errors** Those of reading that are not of what is on the disk there.
    func add(_ offset: UInt64, _ error: StorageError, of file: some StorageFile)
        throws(StorageError)
    {
        let start = Self.pageEnd(offset) - Self.pageByteCount
        let before = region(at: start &- 1)
        let first = before?.bytes.lowerBound ?? start
        var end = start + Self.pageByteCount
        if end - first >= Self.pageCountMax * Self.pageByteCount {
            end = try Self.end(behind: end, of: file)
        }
        let region = Region(bytes: first..<end, error: before?.error ?? error)
        regions.withLock { regions in
            regions.removeAll { $0.bytes.overlaps(region.bytes) }
            let place = regions.firstIndex { $0.bytes.lowerBound > first } ?? regions.count
            regions.insert(region, at: place)
        }
    }

    /// Where the first page begins behind `start` that can be read; the end of the file's last page where none is found.
    private static func end(
        behind start: UInt64, of file: some StorageFile
    ) throws(StorageError) -> UInt64 {
        let last = pageEnd(max(1, try file.byteCount()) - 1)
        // Pages: all up to `bad` cannot be read, the one at `good` can, or is none.
        var (bad, good, step) = (start, last, pageByteCount)
        while bad < last {
            let place = bad + step - pageByteCount
            if place >= last { break }
            if try isReadable(place, of: file) {
                good = place
                break
            }
            bad = place + pageByteCount
            step *= 2
        }
        while bad < good {
            let place = bad + (good - bad) / 2 / pageByteCount * pageByteCount
            if try isReadable(place, of: file) { good = place } else { bad = place + pageByteCount }
        }
        return max(start, good)
    }

    private static func isReadable(
        _ offset: UInt64, of file: some StorageFile
    ) throws(StorageError) -> Bool {
        do {
            _ = try file.readArray(at: offset, byteCount: 1)
            return true
        } catch {
            guard case .corrupt = error else { throw error }
            return false
        }
    }
}
