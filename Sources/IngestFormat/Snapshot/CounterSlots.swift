// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query

/// The memory of `SegmentCounters`: where the slot of a (key, day) is. A struct, so that the loop over rows
/// has one exclusive access to it a block and none a row.
///
/// **Layout** `heads`, dense by key, leads to the slot of the day that the key was last seen with. A *slot*
/// is one cache line: key, day, money and the eight counters that nearly all rows add to. The other eleven
/// have a *rare* line of their own, taken with the first row that needs it. The slots of a key with several
/// days form a ring, and `days` finds them by (key, day).
///
/// **Cost** 64 bytes a (key, day) pair, 4 bytes a key ordinal up to the largest seen. Memory is kept.
@safe struct CounterSlots: ~Copyable {
    /// One (key, day): 64 bytes, a cache line. Slot 0 is none.
    struct Slot: BitwiseCopyable {
        /// The key in the lower half, the day's bits in the upper: compared as one integer.
        var place: UInt64 = .max
        /// The next slot of the same key; itself if there is one day.
        var next: UInt32 = 0
        /// The rare line; 0 = none.
        var rare: UInt32 = 0
        var revenue: UInt64 = 0
        var spend: UInt64 = 0
        /// By `CountingTable.hotColumns`. 32 bits, as a segment has fewer rows.
        var hot: SIMD8<UInt32> = SIMD8(repeating: 0)

        @inline(__always)
        static func place(key: UInt32, day: Int32) -> UInt64 {
            UInt64(UInt32(bitPattern: day)) << 32 | UInt64(key)
        }
        var key: UInt32 { UInt32(truncatingIfNeeded: place) }
        var day: Int32 { Int32(truncatingIfNeeded: place >> 32) }
    }
    /// By `CountingTable.rareColumns`; the last lanes are unused.
    typealias RareLine = SIMD16<UInt32>

    private(set) var heads: UnsafeMutablePointer<UInt32>
    private var headCapacity = 0
    /// Heads beyond are 0 and have never been looked at.
    private(set) var headCount = 0
    private(set) var slots: UnsafeMutablePointer<Slot>
    private var slotCapacity = 1
    /// One more than the pairs: slot 0 is none.
    private(set) var slotCount = 1
    private(set) var rareLines: UnsafeMutablePointer<RareLine>
    private var rareCapacity = 1
    var rareCount = 1
    private var days = OrderTable()
    let offsets = CounterColumnOffsets()

    init() {
        unsafe heads = .allocate(capacity: 1)
        unsafe slots = .allocate(capacity: 1)
        unsafe rareLines = .allocate(capacity: 1)
        // SAFETY: room for one each. Slot 0 is read for keys that have none; its place is no row's.
        unsafe slots.initialize(to: Slot())
        unsafe rareLines.initialize(to: RareLine(repeating: 0))
    }

    deinit {
        unsafe heads.deallocate()
        unsafe slots.deallocate()
        unsafe rareLines.deallocate()
    }

    /// Forgets everything; the memory stays.
    mutating func removeAll() {
        // SAFETY: headCount ≤ headCapacity.
        unsafe heads.update(repeating: 0, count: headCount)
        headCount = 0
        slotCount = 1
        rareCount = 1
        days.removeAll()
    }

    /// Makes room for keys up to `keyMax`, and for `rowCount` further slots and rare lines, so that no
    /// pointer moves while as many rows are added. What is reserved and not used is address space.
    mutating func reserve(keyMax: Int, rowCount: Int) {
        if keyMax >= headCapacity {
            headCapacity = Self.capacity(atLeast: keyMax + 1)
            unsafe heads = Self.moved(heads, count: headCount, to: headCapacity)
            // SAFETY: from headCount to headCapacity.
            unsafe (heads + headCount).initialize(repeating: 0, count: headCapacity - headCount)
        }
        headCount = max(headCount, keyMax + 1)
        if slotCount + rowCount > slotCapacity {
            slotCapacity = Self.capacity(atLeast: slotCount + rowCount)
            unsafe slots = Self.moved(slots, count: slotCount, to: slotCapacity)
        }
        if rareCount + rowCount > rareCapacity {
            rareCapacity = Self.capacity(atLeast: rareCount + rowCount)
            unsafe rareLines = Self.moved(rareLines, count: rareCount, to: rareCapacity)
        }
    }

    /// The slot of a (key, day) that the key's head does not lead to, made if there is none; the head
    /// leads to it from now on. Within what `reserve` has made room for.
    @inline(never)
    mutating func enter(_ place: UInt64) -> UInt32 {
        let key = Int(UInt32(truncatingIfNeeded: place))
        precondition(key < headCount && slotCount < slotCapacity)
        // SAFETY: key < headCount ≤ headCapacity; heads lead to slots below slotCount.
        let head = unsafe heads[key]
        if head == 0 { return append(place, after: nil) }
        // Around midnight keys have two days, and the other one is next in the ring.
        let next = unsafe slots[Int(head)].next
        let found = unsafe slots[Int(next)].place == place ? next : days.slot(of: place)
        if found != 0 {
            unsafe heads[key] = found
            return found
        }
        if next == head {
            unsafe days.insert(slots[Int(head)].place, slot: head)
        }
        let slot = append(place, after: head)
        days.insert(place, slot: slot)
        return slot
    }

    private mutating func append(_ place: UInt64, after head: UInt32?) -> UInt32 {
        let slot = UInt32(truncatingIfNeeded: slotCount)
        // SAFETY: slotCount < slotCapacity and the key < headCount, checked by `enter`.
        unsafe slots[Int(slot)] = Slot(place: place, next: slot)
        if let head {
            unsafe slots[Int(slot)].next = slots[Int(head)].next
            unsafe slots[Int(head)].next = slot
        }
        unsafe heads[Int(UInt32(truncatingIfNeeded: place))] = slot
        slotCount += 1
        return slot
    }

    /// A power of two, 4096 at least.
    private static func capacity(atLeast count: Int) -> Int {
        1 << (Int.bitWidth - (max(count, 1 << 12) - 1).leadingZeroBitCount)
    }

    /// The same values in a larger allocation that begins on a cache line.
    private static func moved<Value: BitwiseCopyable>(
        _ old: UnsafeMutablePointer<Value>, count: Int, to capacity: Int
    ) -> UnsafeMutablePointer<Value> {
        let bytes = UnsafeMutableRawPointer.allocate(
            byteCount: capacity * MemoryLayout<Value>.stride, alignment: 64)
        // SAFETY: count is at most the old capacity, which is below the new one.
        let new = unsafe bytes.bindMemory(to: Value.self, capacity: capacity)
        unsafe new.initialize(from: old, count: count)
        unsafe old.deallocate()
        return unsafe new
    }
}
