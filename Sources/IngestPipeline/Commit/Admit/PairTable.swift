// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestStorage

/// (reward, business) → key, by a keyed hash over both names. Owned by the `NameDictionary`.
///
/// **Layout** A `GrowingTable` of 16 bytes a pair, four to a cache line: the 96 bits of its hash, which stand for the
/// names, and its key. A list by key of the names behind it, to hold a sample of what is found against its names.
/// **Units** 21–43 bytes of table a pair (32–64 while there are less than two million), just when it grows 64
/// (96); 8 of list.
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

    init(expectedCount: Int, sparseCountMax: Int) {
        table = GrowingTable(expectedCount: expectedCount, sparseCountMax: sparseCountMax)
    }

    /// Pairs in the table.
    var count: Int { table.count }
    /// Bytes of memory of the table once it is full.
    var byteCount: Int { table.byteCount }

    /// Starts the load of the cache line on which a pair is or would be.
    @inline(__always)
    func prefetch(_ pair: PairHash) { table.prefetch(pair.low) }

    /// That line, for a `LineBatch`.
    @inline(__always)
    func line(of pair: PairHash) -> CacheLine { table.line(of: pair.low) }

    func key(of pair: PairHash) -> KeyOrdinal? {
        if let keyEnd = keyEndOfOld(pair) { return KeyOrdinal(rawValue: keyEnd &- 1) }
        let keyEnd = Self.keyEnd(of: pair, in: table.current)
        return keyEnd == 0 ? nil : KeyOrdinal(rawValue: keyEnd &- 1)
    }

    /// Looks up the pairs of a packet's events: in one loop, so that the looks overlap.
    ///
    /// - Parameter keyEnds: gets one more than the key of each; 0 for one that is not in the table.
    /// - Returns: whether all are in the table.
    ///
    /// SAFETY (caller): there are `count` rows, and room for as many numbers.
    // Mutating, since a copy of all of the table is made for a call of what only reads it.
    @unsafe mutating func findKeyEnds(
        of rows: UnsafePointer<PacketRow>, _ count: Int, into keyEnds: UnsafeMutablePointer<UInt32>
    ) -> Bool {
        let current = table.current
        var least = UInt32.max
        for index in 0..<count {
            let pair = unsafe rows[index].pair
            let keyEnd = keyEndOfOld(pair) ?? Self.keyEnd(of: pair, in: current)
            unsafe keyEnds[index] = keyEnd
            least = min(least, keyEnd)
        }
        return least != 0
    }

    /// Of a pair that has not been moved to a larger table yet.
    @inline(__always)
    private func keyEndOfOld(_ pair: PairHash) -> UInt32? {
        guard table.isGrowing else { return nil }
        // SAFETY: found this moment; nothing was inserted since.
        return unsafe table.findOld(pair.low) {
            unsafe $0.pointee.low == pair.low && $0.pointee.tag == pair.tag
        }.map { unsafe $0.pointee.keyEnd }
    }

    @inline(__always)
    private static func keyEnd(of pair: PairHash, in table: ZeroedTable<Entry>) -> UInt32 {
        let found = unsafe table.findInLines(pair.low) {
            let bits = unsafe ingest_pairs_scan($0, pair.low, pair.tag)
            return (bits & 0x1111, bits >> 16)
        }
        // SAFETY: as above.
        return unsafe found.map { unsafe $0.pointee.keyEnd } ?? 0
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

/// The campaigns, sources and platforms that are known, and what they are combined with: what bounds them. Owned by the
/// commit queue; a start fills it from the lists that footers and runs carry.
///
/// Campaign and source of a row are counted by (key, campaign, source). With `Limits.attributionCountMax` of these known, or
/// `Limits.attributionNameCountMax` names of them, a new one is `(other)`, and no further name is given an ordinal for it.
/// As the row says so, all that is made of rows does.
///
/// **Layout** 16 bytes an attribution at half of the places at most; a bit for each name of the directory up to the last
/// that is a campaign or a source.
/// **Cost** 5 to 10 ns a row with attribution while the table is cached; nothing for one without.
package struct KnownAttributions: ~Copyable {
    private var table = GrowingTable<AttributionEntry>()
    private var names = NameSet()
    private var platforms = NameSet()
    private let bound: AttributionBound
    /// Rows that got `(other)`, and platforms left out, since they were taken last.
    private var overflowCount = 0

    package init(_ bound: AttributionBound = AttributionBound()) { self.bound = bound }

    /// Enters what is in the tables of a directory.
    mutating func load(_ list: AttributionList) {
        for attribution in list.entries where !attribution.isOverflow {
            let entry = AttributionEntry(attribution)
            if isKnown(entry) { continue }
            _ = unsafe table.insert(entry)
            for name in [attribution.campaign, attribution.source] where name != 0 {
                names.insert(name)
            }
        }
    }

    mutating func goOnGrowing() { table.goOnGrowing() }

    /// What was beyond the bound since the last call.
    mutating func takeOverflowCount() -> Int {
        defer { overflowCount = 0 }
        return overflowCount
    }

    /// Whether a campaign or a source that is not known may be given an ordinal.
    var hasRoomForName: Bool { names.count < bound.nameCountMax && table.count < bound.countMax }

    var hasRoomForPlatform: Bool { platforms.count < bound.platformCountMax }

    /// Takes the ordinal that was given for a campaign or a source, whether or not it becomes part of an attribution: else
    /// pairs of new names, of which one has room, would be given ordinals without end.
    mutating func enter(name: UInt32) { names.insert(name) }

    /// What a row gets for its platform: none beyond the bound.
    /// - Parameter platform: `nil` for one that was given no ordinal.
    mutating func admit(platform: UInt32?) -> UInt32 {
        if let platform, platforms.contains(platform) { return platform }
        guard let platform, hasRoomForPlatform else {
            overflowCount += 1
            return 0
        }
        platforms.insert(platform)
        return platform
    }

    /// What `admit` would give for one that has an ordinal.
    func platform(_ platform: UInt32) -> UInt32 {
        platforms.contains(platform) || hasRoomForPlatform ? platform : 0
    }

    /// Whether events of a combination have counted, within the bound.
    @inline(__always)
    func knows(_ attribution: Attribution) -> Bool { isKnown(AttributionEntry(attribution)) }

    /// What a row of the key gets for its campaign and source, which are not both none.
    mutating func admit(_ attribution: Attribution) -> (campaign: UInt32, source: UInt32) {
        knows(attribution) ? (attribution.campaign, attribution.source) : insert(attribution)
    }

    @inline(__always)
    private func isKnown(_ entry: AttributionEntry) -> Bool {
        // SAFETY: the table gives entries of its own, and nothing is inserted meanwhile.
        unsafe table.find(entry.spread) {
            unsafe $0.pointee.keyEnd == entry.keyEnd && $0.pointee.campaign == entry.campaign
                && $0.pointee.source == entry.source
        } != nil
    }

    private mutating func insert(_ attribution: Attribution) -> (campaign: UInt32, source: UInt32) {
        let (campaign, source) = (attribution.campaign, attribution.source)
        let isCampaignNew = campaign != 0 && !names.contains(campaign)
        // One name may be both.
        let isSourceNew = source != 0 && source != campaign && !names.contains(source)
        let newCount = (isCampaignNew ? 1 : 0) + (isSourceNew ? 1 : 0)
        guard !attribution.isOverflow, table.count < bound.countMax,
            names.count + newCount <= bound.nameCountMax
        else {
            overflowCount += 1
            return (Attribution.other, Attribution.other)
        }
        _ = unsafe table.insert(AttributionEntry(attribution))
        if isCampaignNew { names.insert(campaign) }
        if isSourceNew { names.insert(source) }
        return (campaign, source)
    }
}

/// A known attribution. (Not private: compiler 6.3.1 then emits the table's generic code without its metadata.)
struct AttributionEntry: TableEntry {
    /// One more than the key; 0 = this entry is free.
    let keyEnd: UInt32
    let campaign: UInt32
    let source: UInt32
    private let unused: UInt32 = 0

    init(_ attribution: Attribution) {
        keyEnd = attribution.key + 1
        (campaign, source) = (attribution.campaign, attribution.source)
    }

    /// Keyed, so that ordinals cannot be made to collide on purpose; nothing that is written depends on it.
    @inline(__always) var spread: UInt64 {
        let pair = UInt64(campaign) << 32 | UInt64(source)
        return SplitMix.finish(SplitMix.finish(pair ^ Self.seed) ^ UInt64(keyEnd))
    }
    @inline(__always) var isFree: Bool { keyEnd == 0 }
    static var belongsToLine: Bool { false }
    private static let seed = UInt64.random(in: 0...UInt64.max)
}

/// How many campaigns, sources and platforms a directory may have.
package struct AttributionBound: Sendable, Hashable {
    /// Of (key, campaign, source).
    package var countMax = Limits.attributionCountMax
    /// Of campaigns and sources together.
    package var nameCountMax = Limits.attributionNameCountMax
    package var platformCountMax = Limits.platformCountMax

    package init() {}
}

/// A set of name ordinals.
private struct NameSet {
    private var words: [UInt64] = []
    private(set) var count = 0

    func contains(_ name: UInt32) -> Bool {
        let place = Int(name / 64)
        return place < words.count && words[place] >> UInt64(name % 64) & 1 != 0
    }

    mutating func insert(_ name: UInt32) {
        if contains(name) { return }
        let place = Int(name / 64)
        while words.count <= place { words.append(0) }
        words[place] |= 1 << UInt64(name % 64)
        count += 1
    }
}

extension KnownAttributions {
    /// Those of a directory in which everything is sealed.
    ///
    /// **Errors** As `RunReader`.
    init<Files: FileSystem>(
        of manifest: Manifest, in files: Files, _ bound: AttributionBound
    ) throws(StorageError) {
        self.init(bound)
        for run in manifest.runs(of: .rewardDays) {
            load(
                try RunReader(run, directory: manifest.directory, in: files).readAttributions())
        }
        for segment in manifest.level0 {
            let tables = try RunReader.openFooter(
                of: segment, directory: manifest.directory, in: files)
            load(try tables.rewardDays.readAttributions())
        }
    }
}
