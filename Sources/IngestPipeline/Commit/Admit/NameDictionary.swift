// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat

/// The directory's one dictionary of names in memory: bytes → ordinal, and (reward, business) → key.
/// Owned by the commit queue; rebuilt at start from the `names` runs.
///
/// **Layout** A `PairTable` of the keys, which is all that an event of a known pair needs. For new pairs and for
/// attributions a `GrowingTable` of 8 bytes a name: the upper half of its keyed hash, and where its record is; and the
/// `NameRecords`, which hold ordinal and bytes. There names are compared byte by byte.
///
/// **Units** 11–21 bytes of table a name (16–32 while there are less than two million), just when it grows 32 (48), and 14 and
/// its own bytes of records; the pairs' table beside them. The number of names is bounded by `Limits.nameCountMax`.
///
/// **Cost** 5–40 ns a lookup by where the table is cached. Growing moves some entries with each new name; records never move.
@safe package struct NameDictionary: ~Copyable {
    /// The ordinal that the next new name will get.
    package private(set) var nextName: UInt32
    /// The key that the next new (reward, business) pair will get.
    package private(set) var nextKey: UInt32

    private var table: GrowingTable<NameEntry>
    private var records = NameRecords()
    private var pairs: PairTable

    /// - Parameters:
    ///   - nextName: first ordinal to give, ≥ 1.
    ///   - nextKey: first key to give.
    ///   - expectedNameCount, expectedKeyCount: room to take at once.
    ///   - sparseCountMax: places from which on the tables are filled to three quarters.
    package init(
        nextName: UInt32 = 1, nextKey: UInt32 = 0, expectedNameCount: Int = 0,
        expectedKeyCount: Int = 0, sparseCountMax: Int = 1 << 22
    ) {
        self.nextName = max(1, nextName)
        self.nextKey = nextKey
        table = GrowingTable(
            expectedCount: min(expectedNameCount, Limits.nameCountMax),
            sparseCountMax: sparseCountMax)
        pairs = PairTable(
            expectedCount: min(expectedKeyCount, Limits.keyCountMax),
            sparseCountMax: sparseCountMax)
    }

    /// Bytes of memory of the names' table once it is full.
    package var tableByteCount: Int { table.byteCount }
    /// Bytes of memory of the keys' table once it is full.
    package var pairTableByteCount: Int { pairs.byteCount }

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
        pairs.goOnGrowing()
    }

    // MARK: Names

    /// The slot of a known name, or `nil`.
    ///
    /// SAFETY (caller): the name is of at least a byte.
    package borrowing func slot(hash: UInt64, _ name: UnsafeRawBufferPointer) -> NameSlot? {
        let wanted = NameEntry(hash)
        let bytes = name.baseAddress!
        let byteCount = name.count
        // Not captured in `self`, all of which would be copied for each look-up.
        let chunks = records.chunks
        let found = unsafe table.find(wanted.spread) { entry in
            unsafe entry.pointee.tag == wanted.tag
                && chunks.holds(bytes, byteCount, at: entry.pointee.place)
        }
        return unsafe found.map { unsafe NameSlot(record: chunks.pointer(at: $0.pointee.place)) }
    }

    /// The slot of the name with this ordinal.
    borrowing func slot(of ordinal: NameOrdinal, hash: UInt64) -> NameSlot? {
        let wanted = NameEntry(hash)
        let chunks = records.chunks
        let found = unsafe table.find(wanted.spread) { entry in
            unsafe entry.pointee.tag == wanted.tag
                && chunks.pointer(at: entry.pointee.place).pointee.ordinal == ordinal.rawValue
        }
        return unsafe found.map { unsafe NameSlot(record: chunks.pointer(at: $0.pointee.place)) }
    }

    /// Whether an ordinal stands for this name; a name that was lost and came back has two.
    borrowing func holds(
        _ name: UnsafeRawBufferPointer, hash: UInt64, as ordinal: NameOrdinal
    ) -> Bool {
        guard let slot = slot(of: ordinal, hash: hash) else { return false }
        return unsafe bytes(of: slot).elementsEqual(name)
    }

    /// The ordinal of the name in `slot`.
    @inline(__always)
    package borrowing func ordinal(of slot: NameSlot) -> NameOrdinal {
        // SAFETY: a slot's record lives as long as this dictionary.
        NameOrdinal(rawValue: unsafe slot.record.pointee.ordinal)
    }

    /// The bytes of the name in `slot`; readable for as long as there is this dictionary.
    @unsafe borrowing func bytes(of slot: NameSlot) -> UnsafeRawBufferPointer {
        // SAFETY: a slot's record lives as long as this dictionary, and its bytes follow it.
        unsafe UnsafeRawBufferPointer(
            start: UnsafeRawPointer(slot.record) + NameRecord.nameOffset,
            count: Int(slot.record.pointee.byteCount))
    }

    /// Gives a new name the next ordinal. The caller has looked it up and puts it in the block.
    ///
    /// - Returns: its slot, or `nil` at `Limits.nameCountMax`: an expected answer, the event is refused.
    package mutating func insert(hash: UInt64, _ name: UnsafeRawBufferPointer) -> NameSlot? {
        // Ordinals that were lost are not given again, so they may run out before the entries do.
        guard nextName <= UInt32(Limits.nameCountMax),
            let slot = unsafe place(nextName, hash: hash, name)
        else {
            return nil
        }
        nextName += 1
        return slot
    }

    /// Puts back a name that was given its ordinal earlier; used while loading.
    /// - Returns: its slot, or `nil` if there was no room for it.
    package mutating func restore(
        _ ordinal: NameOrdinal, hash: UInt64, _ name: UnsafeRawBufferPointer
    ) -> NameSlot? {
        nextName = max(nextName, ordinal.rawValue &+ 1)
        return unsafe place(ordinal.rawValue, hash: hash, name)
    }

    private mutating func place(
        _ ordinal: UInt32, hash: UInt64, _ name: UnsafeRawBufferPointer
    ) -> NameSlot? {
        if table.count >= Limits.nameCountMax { return nil }
        let place = unsafe records.append(
            NameRecord(ordinal: ordinal, byteCount: UInt8(name.count)), name.baseAddress!,
            name.count)
        _ = unsafe table.insert(NameEntry(hash, place: place))
        return unsafe NameSlot(record: records.chunks.pointer(at: place))
    }

    /// How many keys there are of a business.
    borrowing func keyCount(of business: NameSlot) -> Int {
        // SAFETY: a slot's record lives as long as this dictionary.
        Int(unsafe business.record.pointee.keyCount)
    }

    /// Counts a key of a business.
    mutating func addKey(of business: NameSlot) {
        // SAFETY: as above, and nobody else writes to it.
        unsafe business.record.pointee.keyCount &+= 1
    }

    /// The business of the first key of a reward: its owner, decision 52. `nil` if it has no key.
    borrowing func owner(of reward: NameSlot) -> NameOrdinal? {
        // SAFETY: as above.
        let owner = unsafe reward.record.pointee.owner
        return owner == 0 ? nil : NameOrdinal(rawValue: owner)
    }

    /// Notes the business of a key of a reward, in the order of keys.
    mutating func noteOwner(of reward: NameSlot, _ business: NameSlot) {
        // SAFETY: as above, and nobody else writes to it.
        if unsafe reward.record.pointee.owner == 0 {
            unsafe reward.record.pointee.owner = business.record.pointee.ordinal
        }
    }

    // MARK: Keys

    /// Starts the load of the cache line on which a pair's key is or would be.
    @inline(__always)
    package borrowing func prefetch(_ pair: PairHash) { pairs.prefetch(pair) }

    /// That line, for a `LineBatch`.
    @inline(__always)
    borrowing func line(of pair: PairHash) -> CacheLine { pairs.line(of: pair) }

    /// The key of a pair, if it was given one.
    @inline(__always)
    package borrowing func key(of pair: PairHash) -> KeyOrdinal? { pairs.key(of: pair) }

    /// As `PairTable.findKeyEnds`.
    @unsafe mutating func findKeyEnds(
        of rows: UnsafePointer<PacketRow>, _ count: Int, into keyEnds: UnsafeMutablePointer<UInt32>
    ) -> Bool { unsafe pairs.findKeyEnds(of: rows, count, into: keyEnds) }

    /// The names behind a key; (none, none) for one whose names were lost.
    package borrowing func names(of key: KeyOrdinal) -> RewardKey { pairs.names(of: key) }

    /// Gives a new pair the next key, or `nil` at `Limits.keyCountMax`: the event is refused.
    package mutating func insertKey(_ pair: PairHash, of names: RewardKey) -> KeyOrdinal? {
        if nextKey >= UInt32(Limits.keyCountMax) { return nil }
        let key = KeyOrdinal(rawValue: nextKey)
        return restoreKey(key, pair, of: names) ? key : nil
    }

    /// Puts back a key that was given earlier, in the order in which they were; used while loading.
    /// - Returns: whether there was room for it.
    package mutating func restoreKey(
        _ key: KeyOrdinal, _ pair: PairHash, of names: RewardKey
    ) -> Bool {
        if pairs.count >= Limits.keyCountMax || key.rawValue == UInt32.max { return false }
        pairs.insert(pair, key, of: names)
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
    static var belongsToLine: Bool { false }
}

/// Where the record of a name is, for as long as there is the dictionary.
@safe package struct NameSlot: BitwiseCopyable {
    fileprivate let record: UnsafeMutablePointer<NameRecord>

    fileprivate init(record: UnsafeMutablePointer<NameRecord>) { unsafe self.record = record }
}

/// The reward that stands for those of a business beyond its limit of keys. A reward that a sender calls so is no other.
enum OtherRewards {
    private static var text: StaticString { "(other)" }

    /// Its bytes, which are there for good.
    @unsafe static var name: UnsafeRawBufferPointer {
        // SAFETY: a literal lives as long as the process.
        unsafe UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }

    /// What such rewards are told apart by where events are compared, in the place of the key that they share: no key is
    /// so great. Two of them are taken for one with a chance of 5e-10.
    ///
    /// - Parameter key: of `(other)`, and so of the business.
    static func judgedKey(_ rewardHash: UInt64, of key: KeyOrdinal) -> KeyOrdinal {
        let bits = SplitMix.finish(rewardHash ^ UInt64(key.rawValue))
        let greatest = UInt32.max - 1
        return KeyOrdinal(rawValue: min(UInt32(truncatingIfNeeded: bits) | 1 << 31, greatest))
    }

    static func isName(_ bytes: UnsafeRawBufferPointer) -> Bool {
        unsafe bytes.count == name.count && bytes.elementsEqual(name)
    }
}

/// The names of the dictionary, each once, with what is known of it. Owned by the `NameDictionary`; append-only:
/// nothing is moved or freed before it.
///
/// **Layout** Chunks of 4 MiB, in huge pages where they can be had. A record is a `NameRecord` of 13 bytes, the name
/// behind it, and up to 3 bytes to a multiple of 4; a record never spans two chunks. Its *place* is
/// `chunk << 20 | offset / 4`, never 0.
/// **Units** 32 bytes for a name of 16 to 19 bytes, 56 for one of 40.
@safe struct NameRecords: ~Copyable {
    static let unitByteCount = 4
    private static let chunkShift: UInt32 = 20
    private static let chunkCountMax = 1 << (32 - Int(chunkShift))
    private static let chunkByteCount = unitByteCount << 20
    /// A chunk's first line is left alone, so that no place is 0.
    private static let firstOffset = 64

    let chunks = unsafe Chunks(first: .allocate(capacity: chunkCountMax))
    private var memory: [ZeroedTable<UInt8>] = []
    private var used = NameRecords.chunkByteCount

    /// Where the chunks are: plain data, for a look-up that must not copy the rest.
    @safe struct Chunks: BitwiseCopyable {
        fileprivate let first: UnsafeMutablePointer<UnsafeMutableRawPointer>

        /// The record at a place that `append` returned.
        @inline(__always)
        func pointer(at place: UInt32) -> UnsafeMutablePointer<NameRecord> {
            let offset = Int(place & (1 << chunkShift - 1)) * unitByteCount
            // SAFETY: places come from `append` only, and chunks are never freed while the records live.
            return unsafe (first[Int(place >> chunkShift)] + offset)
                .assumingMemoryBound(to: NameRecord.self)
        }

        /// Whether the name at a place is this one.
        @inline(__always)
        func holds(_ bytes: UnsafeRawPointer, _ byteCount: Int, at place: UInt32) -> Bool {
            let record = unsafe pointer(at: place)
            guard unsafe Int(record.pointee.byteCount) == byteCount else { return false }
            // SAFETY: a record's bytes follow it, as many as it says.
            return unsafe ingest_equal(
                UnsafeRawPointer(record) + NameRecord.nameOffset, bytes, byteCount)
        }
    }

    deinit {
        for chunk in memory { chunk.free() }
        unsafe chunks.first.deallocate()
    }

    /// Bytes of address space.
    var byteCount: Int { memory.count * Self.chunkByteCount }

    /// Adds a name of 1 to 128 bytes and returns its place.
    mutating func append(
        _ record: NameRecord, _ bytes: UnsafeRawPointer, _ byteCount: Int
    ) -> UInt32 {
        let recordByteCount = NameRecord.nameOffset + byteCount
        if used + recordByteCount > Self.chunkByteCount { addChunk() }
        let offset = used
        let place =
            UInt32(truncatingIfNeeded: memory.count - 1) << Self.chunkShift
            | UInt32(truncatingIfNeeded: offset / Self.unitByteCount)
        // SAFETY: the record is inside the last chunk, by the check above, and its place is a multiple of 4.
        let new = unsafe chunks.pointer(at: place)
        unsafe new.initialize(to: record)
        unsafe (UnsafeMutableRawPointer(new) + NameRecord.nameOffset)
            .copyMemory(from: bytes, byteCount: byteCount)
        used = (offset + recordByteCount + Self.unitByteCount - 1) & ~(Self.unitByteCount - 1)
        return place
    }

    private mutating func addChunk() {
        precondition(memory.count < Self.chunkCountMax)
        let chunk = ZeroedTable<UInt8>(capacity: Self.chunkByteCount)
        unsafe (chunks.first + memory.count).initialize(to: UnsafeMutableRawPointer(chunk.base))
        memory.append(chunk)
        used = Self.firstOffset
    }
}

/// What is known of a name, in front of its bytes.
struct NameRecord: BitwiseCopyable {
    let ordinal: UInt32
    /// Keys of it as a business, without the one for all others.
    var keyCount: UInt32 = 0
    /// As a reward: the ordinal of the business of its first key; 0 = it has none.
    var owner: UInt32 = 0
    let byteCount: UInt8

    static let nameOffset = 13
}

/// Events that are malformed, or lack something, because of their names or amounts.
struct NameRefusals {
    /// A name or a key would be over its limit.
    var fullCount = 0
    /// The names were not those of the key that the hash of their pair led to.
    var mismatchCount = 0
    /// Not refused, but with `(other)` for campaign and source, or without their platform.
    var overflowCount = 0
    /// An amount is above the greatest that one event may have.
    var moneyCount = 0

    func add(to counters: CounterGroup<CommitCounter>) {
        counters.add(.nameRefusals, UInt64(fullCount))
        counters.add(.pairMismatches, UInt64(mismatchCount))
        counters.add(.attributionOverflows, UInt64(overflowCount))
        counters.add(.moneyRefusals, UInt64(moneyCount))
    }
}
