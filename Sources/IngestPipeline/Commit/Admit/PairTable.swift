// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// (reward, business) → key, by a keyed hash over both names. Owned by the `NameDictionary`.
///
/// **Layout** A `GrowingTable` of 16 bytes a pair, four to a cache line: the 96 bits of its hash, which stand for the
/// names, and its key. A list by key of the names behind it, to hold a sample of what is found against its names.
/// **Units** 21–27 bytes of table a pair (32–64 while there are less than two million), 8 of list.
/// **Cost** One miss in the table a look-up.
@safe struct PairTable: ~Copyable {
    private var table: GrowingTable<Entry>
    private var pairs = LineMemory<RewardKey>()
    /// Of the list.
    private var keyEnd = 0

    /// (Not private: compiler 6.3.1 then emits the table's generic code without its metadata.)
    struct Entry: TableEntry {
        let low: UInt64
        let tag: UInt32
        /// The key and one more; 0 = this entry is free.
        let keyEnd: UInt32

        @inline(__always) var isFree: Bool { keyEnd == 0 }
        @inline(__always) var spread: UInt64 { low }
        static var belongsToLine: Bool { true }
    }

    init(expectedCount: Int, doublingCountMax: Int) {
        table = GrowingTable(expectedCount: expectedCount, doublingCountMax: doublingCountMax)
    }

    /// Pairs in the table.
    var count: Int { table.count }
    /// Bytes of memory of the table once it is full.
    var byteCount: Int { table.byteCount }

    /// Starts the load of the cache line on which a pair is or would be.
    @inline(__always)
    func prefetch(_ pair: PairHash) { table.prefetch(pair.low) }

    @inline(__always)
    func key(of pair: PairHash) -> KeyOrdinal? {
        let found = unsafe table.find(pair.low) {
            unsafe $0.pointee.low == pair.low && $0.pointee.tag == pair.tag
        }
        // SAFETY: found this moment; nothing was inserted since.
        return unsafe found.map { KeyOrdinal(rawValue: unsafe $0.pointee.keyEnd &- 1) }
    }

    /// The names behind a key; (none, none) for one that is not in the table.
    func names(of key: KeyOrdinal) -> RewardKey {
        guard Int(key.rawValue) < keyEnd else { return Self.unknown }
        // SAFETY: all before `keyEnd` is initialised.
        return unsafe pairs.base[Int(key.rawValue)]
    }

    mutating func goOnGrowing() { table.goOnGrowing() }

    /// Adds a pair that is not in the table, whose key comes after all that are.
    mutating func insert(_ pair: PairHash, _ key: KeyOrdinal, of names: RewardKey) {
        _ = unsafe table.insert(Entry(low: pair.low, tag: pair.tag, keyEnd: key.rawValue + 1))
        let place = Int(key.rawValue)
        precondition(place >= keyEnd)
        pairs.reserve(place + 1, keeping: keyEnd)
        // SAFETY: there is room up to and with the key.
        unsafe (pairs.base + keyEnd).initialize(repeating: Self.unknown, count: place - keyEnd)
        unsafe (pairs.base + place).initialize(to: names)
        keyEnd = place + 1
    }

    private static var unknown: RewardKey { RewardKey(reward: .none, business: .none) }
}

/// Hash → ordinal of the names that nearly every event repeats: platforms, campaigns and sources. What was found last
/// for a place stays there. Owned by the commit queue.
///
/// A name is known by the 64 bits of its hash alone: that any two of n names have the same is n² / 2^65, 2.7e-12 for
/// 10,000 of them.
/// **Layout** 512 entries of 16 bytes, which stay in the first-level cache.
/// **Cost** 1 ns.
@safe struct AttributionCache: ~Copyable {
    private struct Entry: BitwiseCopyable {
        var hash: UInt64 = 0
        var ordinal: UInt32 = 0
    }

    private static var capacity: Int { 512 }
    private let entries: UnsafeMutablePointer<Entry>

    init() {
        unsafe entries = .allocate(capacity: Self.capacity)
        unsafe entries.initialize(repeating: Entry(), count: Self.capacity)
    }

    deinit { unsafe entries.deallocate() }

    @inline(__always)
    func ordinal(_ hash: UInt64) -> NameOrdinal? {
        // SAFETY: the place is inside.
        let entry = unsafe entries[Self.place(hash)]
        return entry.hash == hash && entry.ordinal != 0
            ? NameOrdinal(rawValue: entry.ordinal) : nil
    }

    mutating func set(_ hash: UInt64, _ ordinal: NameOrdinal) {
        // SAFETY: the place is inside.
        unsafe entries[Self.place(hash)] = Entry(hash: hash, ordinal: ordinal.rawValue)
    }

    @inline(__always)
    private static func place(_ hash: UInt64) -> Int {
        Int(truncatingIfNeeded: hash) & (capacity - 1)
    }
}
