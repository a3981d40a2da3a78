// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

/// An array that grows by moving, of which nothing is initialised: for what is written from front to back.
///
/// Its pages are the kernel's small ones: a page is cleared right before it is written, while it is in the cache; of a
/// huge page most has left it by then, and clearing took twice the time.
///
/// **Cost** Address space up to the capacity; only what was touched is resident.
@safe struct SequentialMemory<Value: BitwiseCopyable>: ~Copyable {
    private(set) var base: UnsafeMutablePointer<Value>
    private(set) var capacity: Int

    /// Room for `capacity` values, and for one at least.
    init(capacity: Int = 1) {
        self.capacity = max(1, capacity)
        unsafe base = .allocate(capacity: self.capacity)
    }

    deinit { unsafe base.deallocate() }

    /// Makes room for `count` values, the first `kept` of which stay. Pointers into the memory are of no use afterwards.
    mutating func reserve(_ count: Int, keeping kept: Int) {
        guard count > capacity else { return }
        precondition(kept <= capacity)
        let larger = UnsafeMutablePointer<Value>.allocate(capacity: count)
        // SAFETY: kept ≤ the old capacity, which is below the new one.
        unsafe larger.update(from: base, count: kept)
        unsafe base.deallocate()
        unsafe base = larger
        capacity = count
    }
}
