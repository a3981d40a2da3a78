// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import IngestFormat

/// (key, day) as one integer → a slot number: an open table, for the pairs that a dense array does not
/// lead to. Its seed is random, so that days sent on purpose cannot be made to collide; nothing that is
/// written depends on it.
///
/// **Cost** 12 bytes a slot at a load of at most a half; about one miss a lookup.
@safe struct OrderTable: ~Copyable {
    private var orders: UnsafeMutablePointer<UInt64>
    /// 0 = free.
    private var slots: UnsafeMutablePointer<UInt32>
    private var capacity: Int
    private(set) var count = 0
    private let seed: UInt64

    init() { self.init(capacity: 64, seed: UInt64.random(in: 0...UInt64.max)) }

    private init(capacity: Int, seed: UInt64) {
        self.capacity = capacity
        self.seed = seed
        unsafe orders = .allocate(capacity: capacity)
        unsafe slots = .allocate(capacity: capacity)
        unsafe slots.initialize(repeating: 0, count: capacity)
    }

    deinit {
        unsafe orders.deallocate()
        unsafe slots.deallocate()
    }

    /// The slot of `order`, 0 if there is none.
    func slot(of order: UInt64) -> UInt32 {
        // SAFETY: place is below capacity.
        unsafe slots[place(of: order)]
    }

    /// Adds an order that is not there yet.
    mutating func insert(_ order: UInt64, slot: UInt32) {
        if 2 * (count + 1) > capacity { grow() }
        let place = place(of: order)
        // SAFETY: place is below capacity.
        unsafe orders[place] = order
        unsafe slots[place] = slot
        count += 1
    }

    /// Forgets everything; the memory stays.
    mutating func removeAll() {
        guard count > 0 else { return }
        unsafe slots.update(repeating: 0, count: capacity)
        count = 0
    }

    /// Where the order is, or would be put: at most half of the places are taken, so there is one.
    private func place(of order: UInt64) -> Int {
        let mask = capacity &- 1
        var place = Int(truncatingIfNeeded: hash(order)) & mask
        // SAFETY: place is below capacity, a power of two.
        while unsafe slots[place] != 0 && orders[place] != order {
            place = (place &+ 1) & mask
        }
        return place
    }

    private func hash(_ order: UInt64) -> UInt64 { SplitMix.finish(order ^ seed) }

    private mutating func grow() {
        var larger = OrderTable(capacity: capacity * 2, seed: seed)
        for place in 0..<capacity {
            // SAFETY: place is below capacity.
            let slot = unsafe slots[place]
            if slot != 0 { unsafe larger.insert(orders[place], slot: slot) }
        }
        swap(&self, &larger)
    }
}
