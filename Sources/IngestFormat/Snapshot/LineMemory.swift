// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import CIngestLinux

/// An array that grows by moving, begins on a cache line, and is asked for as huge pages once it is large:
/// with pages of 4 KiB the look-ups in millions of slots wait for page tables as long as for memory. Once it is,
/// growing moves pages and copies nothing.
///
/// **Cost** Address space up to the capacity; only what was touched is resident, in steps of a page.
@safe package struct LineMemory<Value: BitwiseCopyable>: ~Copyable {
    private static var hugeByteCountMin: Int { 2 << 20 }

    package private(set) var base: UnsafeMutablePointer<Value>
    package private(set) var capacity = 1
    private var isMapped = false

    /// Room for one value, which is not initialised.
    package init() { unsafe base = .allocate(capacity: 1) }

    /// Room for `capacity` values at least, none of which is initialised.
    package init(capacity: Int) {
        self.init()
        reserve(capacity, keeping: 0)
    }

    deinit { unsafe Self.free(base, capacity: capacity, isMapped: isMapped) }

    /// Makes room for `count` values at least, the first `kept` of which stay; the others are not
    /// initialised. Pointers into the memory are of no use afterwards.
    package mutating func reserve(_ count: Int, keeping kept: Int) {
        guard count > capacity else { return }
        precondition(kept <= capacity)
        let larger = Int.bitWidth - (max(count, 1 << 12) - 1).leadingZeroBitCount
        let (old, oldCapacity, wasMapped) = unsafe (base, capacity, isMapped)
        capacity = 1 << larger
        let byteCount = capacity * MemoryLayout<Value>.stride
        if wasMapped,
            let grown = unsafe ingest_pages_grow(
                old, oldCapacity * MemoryLayout<Value>.stride, byteCount)
        {
            unsafe base = grown.bindMemory(to: Value.self, capacity: capacity)
            return
        }
        let mapped =
            byteCount >= Self.hugeByteCountMin ? unsafe ingest_pages_map(byteCount) : nil
        isMapped = unsafe mapped != nil
        let bytes = unsafe mapped ?? .allocate(byteCount: byteCount, alignment: 64)
        unsafe base = bytes.bindMemory(to: Value.self, capacity: capacity)
        // SAFETY: kept ≤ the old capacity, which is below the new one.
        unsafe base.initialize(from: old, count: kept)
        unsafe Self.free(old, capacity: oldCapacity, isMapped: wasMapped)
    }

    /// As `reserve`, of memory that is 0 behind the values that stay, and in what is added.
    ///
    /// **Cost** Of large memory nothing: the kernel gives zeros when a page is first touched.
    package mutating func reserveZeros(_ count: Int, keeping kept: Int)
    where Value: FixedWidthInteger {
        guard count > capacity else { return }
        reserve(count, keeping: kept)
        // SAFETY: there is room for capacity values.
        if !isMapped { unsafe (base + kept).initialize(repeating: 0, count: capacity - kept) }
    }

    private static func free(
        _ base: UnsafeMutablePointer<Value>, capacity: Int, isMapped: Bool
    ) {
        if isMapped {
            unsafe ingest_pages_unmap(base, capacity * MemoryLayout<Value>.stride)
        } else {
            unsafe base.deallocate()
        }
    }
}
