// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux

/// Memory for a table that is all zeros at first and begins on a cache line. In huge pages where they can be had,
/// since nearly every look-up is of another page. Plain data: its owner frees it.
///
/// **Cost** Address space at once; only what was touched is resident.
@safe struct ZeroedTable<Element: BitwiseCopyable> {
    private(set) var base: UnsafeMutablePointer<Element>
    private(set) var capacity = 0
    private var isMapped = false

    /// None.
    init() { unsafe base = UnsafeMutablePointer(bitPattern: MemoryLayout<Element>.alignment)! }

    init(capacity: Int) {
        self.capacity = capacity
        let byteCount = capacity * MemoryLayout<Element>.stride
        let pages = unsafe ingest_pages_map(byteCount)
        isMapped = unsafe pages != nil
        let raw = unsafe pages ?? .allocate(byteCount: byteCount, alignment: 64)
        // Pages come zeroed.
        if !isMapped {
            unsafe raw.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount)
        }
        unsafe base = raw.bindMemory(to: Element.self, capacity: capacity)
    }

    var byteCount: Int { capacity * MemoryLayout<Element>.stride }

    func free() {
        if capacity == 0 { return }
        if isMapped {
            unsafe ingest_pages_unmap(base, byteCount)
        } else {
            unsafe base.deallocate()
        }
    }

    /// Has the kernel clear pages before they are needed; to be called from anywhere.
    func populate(_ elements: Range<Int>) {
        let stride = MemoryLayout<Element>.stride
        let end = min(elements.upperBound, capacity)
        guard isMapped, elements.lowerBound < end else { return }
        // SAFETY: the bytes are inside the mapping, and populating changes none.
        unsafe ingest_pages_populate(base, elements.lowerBound * stride, end * stride)
    }

    /// Gives back the memory of elements before `end`, each time that a step is complete. Nothing reads them again.
    func forget(from first: Int, to end: Int, inSteps step: Int) {
        let stride = MemoryLayout<Element>.stride
        guard isMapped, first * stride / step != end * stride / step else { return }
        // SAFETY: the bytes are inside the mapping, and nothing reads elements before `end` again.
        unsafe ingest_pages_forget(base, first * stride / step * step, end * stride / step * step)
    }
}
