// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat

/// The directory's one dictionary of names in memory: bytes → ordinal, and (reward, business) → key.
/// Owned by the commit queue; rebuilt at start from the `names` runs.
///
/// **Layout** A `GrowingTable` of entries of one cache line (64 bytes): keyed hash u64, ordinal u32, byte count
/// u32, first business u32 and its key u32, then 40 bytes that hold the name itself or, where it is longer, its
/// offset in the arena. An event whose reward comes with its first business, which is nearly every event, costs
/// one miss for reward and key together; the keys of other businesses are in the `KeyTable`.
/// Names are compared byte by byte: equal hashes alone never make two names one.
///
/// **Units** 85–107 bytes of table a name, keys included; 128–256 while there are less than two million. The number
/// of names is bounded by `Limits.nameCountMax`.
///
/// **Cost** 5–40 ns a lookup by where the entry is cached; `prefetch` ahead hides most of it. Growing moves some
/// entries with each new name and never all at once.
@safe package struct NameDictionary: ~Copyable {
    /// The ordinal that the next new name will get.
    package private(set) var nextName: UInt32
    /// The key that the next new (reward, business) pair will get.
    package private(set) var nextKey: UInt32

    private var table: GrowingTable<NameEntry>
    private var arena = NameArena()
    private var keys = KeyTable()
    private var keyCount = 0

    /// - Parameters:
    ///   - nextName: first ordinal to give, ≥ 1.
    ///   - nextKey: first key to give.
    ///   - expectedNameCount: room to take at once.
    ///   - doublingCountMax: places from which on the table grows by a quarter.
    package init(
        nextName: UInt32 = 1, nextKey: UInt32 = 0, expectedNameCount: Int = 0,
        doublingCountMax: Int = 1 << 22
    ) {
        self.nextName = max(1, nextName)
        self.nextKey = nextKey
        table = GrowingTable(
            expectedCount: min(expectedNameCount, Limits.nameCountMax),
            doublingCountMax: doublingCountMax)
    }

    /// Bytes of memory of the names' table once it is full.
    package var tableByteCount: Int { table.byteCount }

    /// Starts the load of the cache line in which a name with this hash is or would be.
    @inline(__always)
    package borrowing func prefetch(hash: UInt64) { table.prefetch(hash) }

    /// Whether entries are still to be moved to a larger table.
    package var isGrowing: Bool { table.isGrowing }

    /// Does some of what growing is left to do; to be called now and then. Slots are of no use afterwards.
    package mutating func goOnGrowing() {
        table.goOnGrowing()
        keys.goOnGrowing()
    }

    // MARK: Names

    /// The slot of a known name, or `nil`. A slot is valid until the next `insert`.
    ///
    /// SAFETY (caller): `bytes` holds `byteCount` readable bytes.
    @inline(__always)
    package borrowing func slot(
        hash: UInt64, bytes: UnsafeRawPointer, byteCount: Int
    ) -> NameSlot? {
        let found = unsafe table.find(hash) { entry in
            unsafe entry.pointee.hash == hash && entry.pointee.byteCount == UInt32(byteCount)
                && holds(entry, bytes, byteCount)
        }
        return unsafe found.map { unsafe NameSlot(entry: $0) }
    }

    @inline(__always)
    private borrowing func holds(
        _ entry: UnsafeMutablePointer<NameEntry>, _ bytes: UnsafeRawPointer, _ byteCount: Int
    ) -> Bool {
        // SAFETY: the entry's byte count equals `byteCount`, and says which of the two places is used.
        let inline = unsafe UnsafeRawPointer(entry) + NameEntry.nameOffset
        if byteCount <= NameEntry.inlineByteCount {
            return unsafe ingest_equal(inline, bytes, byteCount)
        }
        let place = unsafe arena.pointer(at: entry.pointee.name.0)
        return unsafe ingest_equal(place, bytes, byteCount)
    }

    /// The slot of a name that was restored under this ordinal; used while loading.
    borrowing func slot(of ordinal: NameOrdinal, hash: UInt64) -> NameSlot? {
        let found = unsafe table.find(hash) { unsafe $0.pointee.ordinal == ordinal.rawValue }
        return unsafe found.map { unsafe NameSlot(entry: $0) }
    }

    /// The ordinal of the name in `slot`.
    @inline(__always)
    package borrowing func ordinal(of slot: NameSlot) -> NameOrdinal {
        // SAFETY: a slot's entry is in this table, and nothing was inserted since.
        NameOrdinal(rawValue: unsafe slot.entry.pointee.ordinal)
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
    /// - Returns: its slot, or `nil` if there was no room for it.
    package mutating func restore(
        _ ordinal: NameOrdinal, hash: UInt64, bytes: UnsafeRawPointer, byteCount: Int
    ) -> NameSlot? {
        nextName = max(nextName, ordinal.rawValue &+ 1)
        return unsafe place(ordinal.rawValue, hash: hash, bytes: bytes, byteCount: byteCount)
    }

    private mutating func place(
        _ ordinal: UInt32, hash: UInt64, bytes: UnsafeRawPointer, byteCount: Int
    ) -> NameSlot? {
        if table.count >= Limits.nameCountMax { return nil }
        var entry = NameEntry()
        entry.hash = hash
        entry.ordinal = ordinal
        entry.byteCount = UInt32(byteCount)
        if byteCount <= NameEntry.inlineByteCount {
            // SAFETY: at most 40 bytes into the 40 of `name`.
            unsafe withUnsafeMutableBytes(of: &entry.name) {
                unsafe $0.baseAddress!.copyMemory(from: bytes, byteCount: byteCount)
            }
        } else {
            entry.name.0 = unsafe arena.append(bytes, byteCount)
        }
        return unsafe NameSlot(entry: table.insert(entry))
    }

    // MARK: Keys

    /// The key of (name in `reward`, `business`), if it was given one. `business` is not `.none`.
    @inline(__always)
    package borrowing func key(reward: NameSlot, business: NameOrdinal) -> KeyOrdinal? {
        // SAFETY: a slot's entry is in this table, and nothing was inserted since.
        let entry = unsafe reward.entry
        if unsafe entry.pointee.firstBusiness == business.rawValue {
            return KeyOrdinal(rawValue: unsafe entry.pointee.firstKey)
        }
        if unsafe entry.pointee.firstBusiness == 0 { return nil }
        return keys.find(
            RewardKey(
                reward: NameOrdinal(rawValue: unsafe entry.pointee.ordinal), business: business))
    }

    /// Gives a new pair the next key, or `nil` at `Limits.keyCountMax` (the packet is shed).
    package mutating func insertKey(reward: NameSlot, business: NameOrdinal) -> KeyOrdinal? {
        if nextKey >= UInt32(Limits.keyCountMax) { return nil }
        let key = KeyOrdinal(rawValue: nextKey)
        return restoreKey(key, reward: reward, business: business) ? key : nil
    }

    /// Puts back a key that was given earlier; used while loading.
    /// - Returns: whether there was room for it.
    package mutating func restoreKey(
        _ key: KeyOrdinal, reward: NameSlot, business: NameOrdinal
    ) -> Bool {
        if keyCount >= Limits.keyCountMax || key.rawValue == UInt32.max { return false }
        // SAFETY: a slot's entry is in this table, and nothing was inserted since.
        let entry = unsafe reward.entry
        if unsafe entry.pointee.firstBusiness == 0 {
            unsafe entry.pointee.firstBusiness = business.rawValue
            unsafe entry.pointee.firstKey = key.rawValue
        } else {
            let name = NameOrdinal(rawValue: unsafe entry.pointee.ordinal)
            keys.insert(RewardKey(reward: name, business: business), key)
        }
        keyCount += 1
        nextKey = max(nextKey, key.rawValue + 1)
        return true
    }

    /// Ordinals below these are never given again, whether or not their names survived.
    package mutating func reserve(nextName: UInt32, nextKey: UInt32) {
        self.nextName = max(self.nextName, nextName)
        self.nextKey = max(self.nextKey, nextKey)
    }
}

/// A name's cache line. (Not private: compiler 6.3.1 then emits the table's generic code without its metadata.)
struct NameEntry: TableEntry {
    var hash: UInt64 = 0
    /// 0 = this entry is free.
    var ordinal: UInt32 = 0
    var byteCount: UInt32 = 0
    /// 0 = it is no reward yet.
    var firstBusiness: UInt32 = 0
    var firstKey: UInt32 = 0
    var name: (UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0)

    static let inlineByteCount = 40
    static let nameOffset = 24

    @inline(__always) var spread: UInt64 { hash }
    @inline(__always) var isFree: Bool { ordinal == 0 }
}

/// Where a name lies in the dictionary's table. Valid until the next name is inserted.
@safe package struct NameSlot: BitwiseCopyable {
    fileprivate let entry: UnsafeMutablePointer<NameEntry>

    fileprivate init(entry: UnsafeMutablePointer<NameEntry>) { unsafe self.entry = entry }
}
