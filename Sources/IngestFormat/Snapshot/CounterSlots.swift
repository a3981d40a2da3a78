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

    private var headMemory = LineMemory<UInt32>()
    /// Heads beyond are not initialised.
    private(set) var headCount = 0
    private var slotMemory = LineMemory<Slot>()
    /// One more than the pairs: slot 0 is none.
    private(set) var slotCount = 1
    private var rareMemory = LineMemory<RareLine>()
    var rareCount = 1
    private var days = OrderTable()
    let offsets = CounterColumnOffsets()

    var heads: UnsafeMutablePointer<UInt32> { unsafe headMemory.base }
    var slots: UnsafeMutablePointer<Slot> { unsafe slotMemory.base }
    var rareLines: UnsafeMutablePointer<RareLine> { unsafe rareMemory.base }

    init() {
        // SAFETY: room for one each. Slot 0 is read for keys that have none; its place is no row's.
        unsafe slotMemory.base.initialize(to: Slot())
        unsafe rareMemory.base.initialize(to: RareLine(repeating: 0))
    }

    /// Forgets everything; the memory stays.
    mutating func removeAll() {
        headCount = 0
        slotCount = 1
        rareCount = 1
        days.removeAll()
    }

    /// Makes room for keys up to `keyMax`, and for `rowCount` further slots and rare lines, so that no
    /// pointer moves while as many rows are added. What is reserved and not used is address space.
    mutating func reserve(keyMax: Int, rowCount: Int) {
        if keyMax >= headCount {
            headMemory.reserve(keyMax + 1, keeping: headCount)
            // SAFETY: there is room for keyMax + 1 heads.
            unsafe (heads + headCount).initialize(repeating: 0, count: keyMax + 1 - headCount)
            headCount = keyMax + 1
        }
        slotMemory.reserve(slotCount + rowCount, keeping: slotCount)
        rareMemory.reserve(rareCount + rowCount, keeping: rareCount)
    }

    /// The slot of a (key, day) that the key's head does not lead to, made if there is none; the head
    /// leads to it from now on. Within what `reserve` has made room for.
    @inline(never)
    mutating func enter(_ place: UInt64) -> UInt32 {
        let key = Int(UInt32(truncatingIfNeeded: place))
        precondition(key < headCount && slotCount < slotMemory.capacity)
        // SAFETY: key < headCount; heads lead to slots below slotCount.
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
        // SAFETY: there is room for a slot, and the key is below headCount, both checked by `enter`.
        unsafe slots[Int(slot)] = Slot(place: place, next: slot)
        if let head {
            unsafe slots[Int(slot)].next = slots[Int(head)].next
            unsafe slots[Int(head)].next = slot
        }
        unsafe heads[Int(UInt32(truncatingIfNeeded: place))] = slot
        slotCount += 1
        return slot
    }
}
