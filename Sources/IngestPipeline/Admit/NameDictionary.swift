// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat

/// The directory's one dictionary of names in memory: bytes → ordinal, and (reward, business) → key.
/// Owned by the commit queue; rebuilt at start from the `names` runs.
///
/// **Layout** Open addressing with linear probing over entries of one cache line (64 bytes): keyed hash
/// u64, ordinal u32, byte count u32, last business u32 and its key u32, then 40 bytes that hold the
/// name itself or, where it is longer, its offset in the arena. An event whose reward was last seen with
/// the same business, which is nearly every event, costs one miss for reward and key together.
/// Names are compared byte by byte: equal hashes alone never make two names one.
///
/// **Units** At most half of the entries are used, so at most 256 bytes of table a name just after a
/// doubling; the number of names is bounded by `Limits.nameCountMax`.
///
/// **Cost** 5–40 ns a lookup by where the entry is cached; `prefetch` ahead hides most of it. Doubling
/// the table moves every entry once.
@safe package struct NameDictionary: ~Copyable {
    /// The ordinal that the next new name will get.
    package private(set) var nextName: UInt32
    /// The key that the next new (reward, business) pair will get.
    package var nextKey: UInt32 { keys.nextKey }

    private var table: UnsafeMutablePointer<Entry>
    private var mask: Int
    /// Whether the table is pages of its own and no allocation.
    private var isMapped: Bool
    private var entryCount = 0
    private var arena = NameArena()
    private var keys: KeyTable

    private struct Entry: BitwiseCopyable {
        var hash: UInt64 = 0
        /// 0 = this entry is free.
        var ordinal: UInt32 = 0
        var byteCount: UInt32 = 0
        var lastBusiness: UInt32 = 0
        var lastKey: UInt32 = 0
        var name: (UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0)

        static let inlineByteCount = 40
        static let nameOffset = 24
    }

    /// - Parameters:
    ///   - nextName: first ordinal to give, ≥ 1.
    ///   - nextKey: first key to give.
    ///   - expectedNameCount: room to take at once.
    package init(nextName: UInt32 = 1, nextKey: UInt32 = 0, expectedNameCount: Int = 0) {
        self.nextName = max(1, nextName)
        var capacity = 1 << 12
        while capacity < expectedNameCount * 2 { capacity *= 2 }
        unsafe (table, isMapped) = Self.makeTable(capacity: capacity)
        mask = capacity - 1
        keys = KeyTable(nextKey: nextKey)
    }

    deinit { unsafe Self.freeTable(table, capacity: mask + 1, isMapped: isMapped) }

    /// All entries free. In huge pages where they can be had, since nearly every lookup is of another page.
    private static func makeTable(
        capacity: Int
    ) -> (table: UnsafeMutablePointer<Entry>, isMapped: Bool) {
        let byteCount = capacity * MemoryLayout<Entry>.stride
        let pages = unsafe ingest_pages_map(byteCount)
        let raw = unsafe pages ?? .allocate(byteCount: byteCount, alignment: 64)
        let entries = unsafe raw.bindMemory(to: Entry.self, capacity: capacity)
        // Pages come zeroed, which is what a free entry is.
        if unsafe pages == nil { unsafe entries.initialize(repeating: Entry(), count: capacity) }
        return unsafe (entries, pages != nil)
    }

    private static func freeTable(
        _ table: UnsafeMutablePointer<Entry>, capacity: Int, isMapped: Bool
    ) {
        if isMapped {
            unsafe ingest_pages_unmap(table, capacity * MemoryLayout<Entry>.stride)
        } else {
            unsafe table.deallocate()
        }
    }

    /// Starts the load of the cache line in which a name with this hash is or would be.
    @inline(__always)
    package borrowing func prefetch(hash: UInt64) {
        // SAFETY: masked index, always inside the table; a prefetch reads nothing.
        unsafe ingest_prefetch(table + (Int(truncatingIfNeeded: hash) & mask))
    }

    // MARK: Names

    /// The slot of a known name, or `nil`. A slot is valid until the next `insert`.
    ///
    /// SAFETY (caller): `bytes` holds `byteCount` readable bytes.
    @inline(__always)
    package borrowing func slot(
        hash: UInt64, bytes: UnsafeRawPointer, byteCount: Int
    ) -> NameSlot? {
        var index = Int(truncatingIfNeeded: hash) & mask
        while true {
            // SAFETY: `index` is masked; half of the entries are free, so the walk ends.
            let entry = unsafe table + index
            if unsafe entry.pointee.ordinal == 0 { return nil }
            if unsafe entry.pointee.hash == hash,
                unsafe entry.pointee.byteCount == UInt32(byteCount),
                unsafe holds(entry, bytes, byteCount)
            {
                return NameSlot(index: index)
            }
            index = (index + 1) & mask
        }
    }

    @inline(__always)
    private borrowing func holds(
        _ entry: UnsafeMutablePointer<Entry>, _ bytes: UnsafeRawPointer, _ byteCount: Int
    ) -> Bool {
        // SAFETY: the entry's byte count equals `byteCount`, and says which of the two places is used.
        let inline = unsafe UnsafeRawPointer(entry) + Entry.nameOffset
        if byteCount <= Entry.inlineByteCount {
            return unsafe ingest_equal(inline, bytes, byteCount)
        }
        let place = unsafe arena.pointer(at: entry.pointee.name.0)
        return unsafe ingest_equal(place, bytes, byteCount)
    }

    /// The ordinal of the name in `slot`.
    @inline(__always)
    package borrowing func ordinal(of slot: NameSlot) -> NameOrdinal {
        // SAFETY: a slot's index came out of this table.
        NameOrdinal(rawValue: unsafe table[slot.index].ordinal)
    }

    /// Gives a new name the next ordinal. The caller has looked it up and puts it in the block.
    ///
    /// - Returns: its slot, or `nil` at `Limits.nameCountMax`: an expected answer, the packet is shed.
    package mutating func insert(
        hash: UInt64, bytes: UnsafeRawPointer, byteCount: Int
    ) -> NameSlot? {
        // Ordinals that were lost are not given again, so they may run out before the entries do.
        guard nextName <= UInt32(Limits.nameCountMax),
            let slot = unsafe place(nextName, hash: hash, bytes: bytes, byteCount: byteCount)
        else {
            return nil
        }
        nextName += 1
        return slot
    }

    /// Puts back a name that was given its ordinal earlier; used while loading.
    /// - Returns: whether there was room for it.
    package mutating func restore(
        _ ordinal: NameOrdinal, hash: UInt64, bytes: UnsafeRawPointer, byteCount: Int
    ) -> Bool {
        nextName = max(nextName, ordinal.rawValue &+ 1)
        return unsafe place(ordinal.rawValue, hash: hash, bytes: bytes, byteCount: byteCount) != nil
    }

    private mutating func place(
        _ ordinal: UInt32, hash: UInt64, bytes: UnsafeRawPointer, byteCount: Int
    ) -> NameSlot? {
        if entryCount >= Limits.nameCountMax { return nil }
        if (entryCount + 1) * 2 > mask + 1 { grow() }
        var entry = Entry()
        entry.hash = hash
        entry.ordinal = ordinal
        entry.byteCount = UInt32(byteCount)
        if byteCount <= Entry.inlineByteCount {
            // SAFETY: at most 40 bytes into the 40 of `name`.
            unsafe withUnsafeMutableBytes(of: &entry.name) {
                unsafe $0.baseAddress!.copyMemory(from: bytes, byteCount: byteCount)
            }
        } else {
            entry.name.0 = unsafe arena.append(bytes, byteCount)
        }
        entryCount += 1
        return NameSlot(index: unsafe Self.put(entry, into: table, mask: mask))
    }

    private static func put(
        _ entry: Entry, into table: UnsafeMutablePointer<Entry>, mask: Int
    ) -> Int {
        var index = Int(truncatingIfNeeded: entry.hash) & mask
        while unsafe table[index].ordinal != 0 { index = (index + 1) & mask }
        unsafe table[index] = entry
        return index
    }

    private mutating func grow() {
        let oldCapacity = mask + 1
        let newMask = oldCapacity * 2 - 1
        let bigger = unsafe Self.makeTable(capacity: oldCapacity * 2)
        for index in 0..<oldCapacity where unsafe table[index].ordinal != 0 {
            _ = unsafe Self.put(table[index], into: bigger.table, mask: newMask)
        }
        unsafe Self.freeTable(table, capacity: oldCapacity, isMapped: isMapped)
        unsafe (table, isMapped) = bigger
        mask = newMask
    }

    // MARK: Keys

    /// The key of (name in `reward`, `business`), if it was given one. `business` is not `.none`.
    @inline(__always)
    package mutating func key(reward: NameSlot, business: NameOrdinal) -> KeyOrdinal? {
        // SAFETY: a slot's index came out of this table.
        let entry = unsafe table + reward.index
        if unsafe entry.pointee.lastBusiness == business.rawValue {
            return KeyOrdinal(rawValue: unsafe entry.pointee.lastKey)
        }
        let name = NameOrdinal(rawValue: unsafe entry.pointee.ordinal)
        guard let key = keys.find(RewardKey(reward: name, business: business)) else { return nil }
        unsafe entry.pointee.lastBusiness = business.rawValue
        unsafe entry.pointee.lastKey = key.rawValue
        return key
    }

    /// Gives a new pair the next key, or `nil` at `Limits.keyCountMax` (the packet is shed).
    package mutating func insertKey(reward: NameSlot, business: NameOrdinal) -> KeyOrdinal? {
        keys.insert(RewardKey(reward: ordinal(of: reward), business: business))
    }

    /// Puts back a key that was given earlier; used while loading.
    /// - Returns: whether there was room for it.
    package mutating func restoreKey(_ key: KeyOrdinal, _ pair: RewardKey) -> Bool {
        keys.restore(key, pair)
    }

    /// Ordinals below these are never given again, whether or not their names survived.
    package mutating func reserve(nextName: UInt32, nextKey: UInt32) {
        self.nextName = max(self.nextName, nextName)
        keys.reserve(nextKey)
    }
}

/// Where a name stands in the dictionary's table. Valid until the next name is inserted.
package struct NameSlot: BitwiseCopyable {
    fileprivate let index: Int
}
