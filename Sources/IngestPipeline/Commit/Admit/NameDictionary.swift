// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat

/// The directory's one dictionary of names in memory: bytes → ordinal, and (reward, business) → key.
/// Owned by the commit queue; rebuilt at start from the `names` runs.
///
/// **Layout** A `GrowingTable` of 8 bytes a name: the upper half of its keyed hash, and where its record is; the
/// `NameRecords`, which hold ordinal, first business and its key, and the bytes. An event whose reward comes with its
/// first business, which is nearly every event, costs one miss in the table and one in the records, for reward and key
/// together; the keys of other businesses are in the `KeyTable`.
/// Names are compared byte by byte: equal hashes alone never make two names one.
///
/// **Units** 11–13 bytes of table a name (16–32 while there are less than two million) and 14 and its own bytes of
/// records, keys included. The number of names is bounded by `Limits.nameCountMax`.
///
/// **Cost** 5–40 ns a lookup by where table and record are cached; `prefetch` and `prefetchRecord` ahead hide most of it.
/// Growing moves some entries of the table with each new name and never all at once; records are never moved.
@safe package struct NameDictionary: ~Copyable {
    /// The ordinal that the next new name will get.
    package private(set) var nextName: UInt32
    /// The key that the next new (reward, business) pair will get.
    package private(set) var nextKey: UInt32

    private var table: GrowingTable<NameEntry>
    private var records = NameRecords()
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
    /// Bytes of memory of the names themselves, of which the last chunk is not full.
    package var recordByteCount: Int { records.byteCount }

    /// Starts the load of the cache line in which a name with this hash is or would be.
    @inline(__always)
    package borrowing func prefetch(hash: UInt64) {
        table.prefetch(NameEntry(hash).spread)
    }

    /// Starts the load of the record of the name with this hash; its place in the table was prefetched.
    @inline(__always)
    package borrowing func prefetchRecord(hash: UInt64) {
        let wanted = NameEntry(hash)
        let found = unsafe table.find(wanted.spread) { unsafe $0.pointee.tag == wanted.tag }
        guard let entry = unsafe found else { return }
        let record = unsafe UnsafeRawPointer(records.chunks.pointer(at: entry.pointee.place))
        // SAFETY: a prefetch reads nothing. Most names end before the second line.
        unsafe ingest_prefetch(record)
        unsafe ingest_prefetch(record + NameRecord.nameOffset + 24)
    }

    /// Whether entries are still to be moved to a larger table.
    package var isGrowing: Bool { table.isGrowing }

    /// Does some of what growing is left to do; to be called now and then.
    package mutating func goOnGrowing() {
        table.goOnGrowing()
        keys.goOnGrowing()
    }

    // MARK: Names

    /// The slot of a known name, or `nil`.
    ///
    /// SAFETY (caller): `bytes` holds `byteCount` readable bytes.
    @inline(__always)
    package borrowing func slot(
        hash: UInt64, bytes: UnsafeRawPointer, byteCount: Int
    ) -> NameSlot? {
        let wanted = NameEntry(hash)
        // Not captured in `self`, all of which would be copied for each look-up.
        let chunks = records.chunks
        let found = unsafe table.find(wanted.spread) { entry in
            unsafe entry.pointee.tag == wanted.tag
                && chunks.holds(bytes, byteCount, at: entry.pointee.place)
        }
        return unsafe found.map { unsafe NameSlot(record: chunks.pointer(at: $0.pointee.place)) }
    }

    /// The slot of a name that was restored under this ordinal; used while loading.
    borrowing func slot(of ordinal: NameOrdinal, hash: UInt64) -> NameSlot? {
        let wanted = NameEntry(hash)
        let chunks = records.chunks
        let found = unsafe table.find(wanted.spread) { entry in
            unsafe entry.pointee.tag == wanted.tag
                && chunks.pointer(at: entry.pointee.place).pointee.ordinal == ordinal.rawValue
        }
        return unsafe found.map { unsafe NameSlot(record: chunks.pointer(at: $0.pointee.place)) }
    }

    /// The ordinal of the name in `slot`.
    @inline(__always)
    package borrowing func ordinal(of slot: NameSlot) -> NameOrdinal {
        // SAFETY: a slot's record lives as long as this dictionary.
        NameOrdinal(rawValue: unsafe slot.record.pointee.ordinal)
    }

    /// Gives a new name the next ordinal. The caller has looked it up and puts it in the block.
    ///
    /// - Returns: its slot, or `nil` at `Limits.nameCountMax`: an expected answer, the event is refused.
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
        let place = unsafe records.append(
            NameRecord(ordinal: ordinal, byteCount: UInt8(byteCount)), bytes, byteCount)
        _ = unsafe table.insert(NameEntry(hash, place: place))
        return unsafe NameSlot(record: records.chunks.pointer(at: place))
    }

    // MARK: Keys

    /// The key of (name in `reward`, `business`), if it was given one. `business` is not `.none`.
    @inline(__always)
    package borrowing func key(reward: NameSlot, business: NameOrdinal) -> KeyOrdinal? {
        // SAFETY: a slot's record lives as long as this dictionary.
        let record = unsafe reward.record
        if unsafe record.pointee.firstBusiness == business.rawValue {
            return KeyOrdinal(rawValue: unsafe record.pointee.firstKey)
        }
        if unsafe record.pointee.firstBusiness == 0 { return nil }
        return keys.find(
            RewardKey(
                reward: NameOrdinal(rawValue: unsafe record.pointee.ordinal), business: business))
    }

    /// Gives a new pair the next key, or `nil` at `Limits.keyCountMax`: the event is refused.
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
        // SAFETY: a slot's record lives as long as this dictionary.
        let record = unsafe reward.record
        if unsafe record.pointee.firstBusiness == 0 {
            unsafe record.pointee.firstBusiness = business.rawValue
            unsafe record.pointee.firstKey = key.rawValue
        } else {
            let name = NameOrdinal(rawValue: unsafe record.pointee.ordinal)
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

/// Where a name's record is. (Not private: compiler 6.3.1 then emits the table's generic code without its metadata.)
struct NameEntry: TableEntry {
    /// The upper half of the hash. Names near each other in the table differ in its lower bits, so that nearly every
    /// record that is looked at is the right one.
    let tag: UInt32
    /// 0 = this entry is free.
    let place: UInt32

    @inline(__always) init(_ hash: UInt64, place: UInt32 = 0) {
        tag = UInt32(truncatingIfNeeded: hash >> 32)
        self.place = place
    }

    /// Without the bits of the hash that the entry does not have: an entry that is moved must be looked for where it
    /// was put.
    @inline(__always) var spread: UInt64 { UInt64(tag) << 32 }
    @inline(__always) var isFree: Bool { place == 0 }
}

/// Where the record of a name is, for as long as there is the dictionary.
@safe package struct NameSlot: BitwiseCopyable {
    fileprivate let record: UnsafeMutablePointer<NameRecord>

    fileprivate init(record: UnsafeMutablePointer<NameRecord>) { unsafe self.record = record }
}

/// (reward, business) → key ordinal, for the businesses of a reward but its first. Owned by the `NameDictionary`,
/// whose entry of the reward holds that one, and so nearly all keys.
///
/// **Layout** Entries of 12 bytes, reward, business, key. Names start at 1, so a reward of 0 marks a free entry.
/// **Cost** One or two misses a lookup; 16–20 bytes a key.
@safe struct KeyTable: ~Copyable {
    private var table = GrowingTable<Entry>()

    struct Entry: TableEntry {
        var reward: UInt32 = 0
        var business: UInt32 = 0
        var key: UInt32 = 0

        var isFree: Bool { reward == 0 }
        var spread: UInt64 { KeyTable.spread(reward, business) }
    }

    /// Random in each process; nothing that is written depends on it.
    private static let seed = UInt64.random(in: 0...UInt64.max)

    /// Senders choose which pairs come, and can work out the ordinals, so only a secret keeps them from choosing pairs
    /// that all belong to one place.
    static func spread(_ reward: UInt32, _ business: UInt32) -> UInt64 {
        SplitMix.finish((UInt64(reward) << 32 | UInt64(business)) ^ seed)
    }

    func find(_ pair: RewardKey) -> KeyOrdinal? {
        let (reward, business) = (pair.reward.rawValue, pair.business.rawValue)
        let found = unsafe table.find(Self.spread(reward, business)) {
            unsafe $0.pointee.reward == reward && $0.pointee.business == business
        }
        // SAFETY: found this moment; nothing was inserted since.
        return unsafe found.map { KeyOrdinal(rawValue: unsafe $0.pointee.key) }
    }

    mutating func goOnGrowing() { table.goOnGrowing() }

    /// Adds a pair that is not in the table.
    mutating func insert(_ pair: RewardKey, _ key: KeyOrdinal) {
        _ = unsafe table.insert(
            Entry(
                reward: pair.reward.rawValue, business: pair.business.rawValue, key: key.rawValue))
    }
}
