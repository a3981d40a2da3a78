// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import Synchronization

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
