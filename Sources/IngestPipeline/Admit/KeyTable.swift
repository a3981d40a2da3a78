// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat

/// (reward, business) → key ordinal. Owned by the `NameDictionary`, which asks it only when a reward is
/// seen with another business than the last time.
///
/// **Layout** Open addressing over (u64 pair, u32 key), at most half used. The pair of ordinals (0, 0)
/// cannot occur, since names start at 1, and marks a free entry.
/// **Cost** One or two misses a lookup; 24–48 bytes a key.
@safe struct KeyTable: ~Copyable {
    private(set) var nextKey: UInt32
    private var pairs: UnsafeMutablePointer<UInt64>
    private var ordinals: UnsafeMutablePointer<UInt32>
    private var mask: Int
    private var count = 0

    init(nextKey: UInt32) {
        self.nextKey = nextKey
        mask = (1 << 12) - 1
        unsafe pairs = Self.makeArray(mask + 1)
        unsafe ordinals = Self.makeArray(mask + 1)
    }

    deinit {
        unsafe pairs.deallocate()
        unsafe ordinals.deallocate()
    }

    private static func makeArray<T: FixedWidthInteger>(_ count: Int) -> UnsafeMutablePointer<T> {
        let array = UnsafeMutablePointer<T>.allocate(capacity: count)
        unsafe array.initialize(repeating: 0, count: count)
        return unsafe array
    }

    private static func packed(_ pair: RewardKey) -> UInt64 {
        UInt64(pair.reward.rawValue) << 32 | UInt64(pair.business.rawValue)
    }

    /// Ordinals are given by us, in order, so a multiplicative mix is enough: no sender chooses them.
    private static func home(_ pair: UInt64, _ mask: Int) -> Int {
        Int(truncatingIfNeeded: (pair &* 0x9E37_79B9_7F4A_7C15) >> 24) & mask
    }

    func find(_ pair: RewardKey) -> KeyOrdinal? {
        let wanted = Self.packed(pair)
        var index = Self.home(wanted, mask)
        // SAFETY: masked index; half of the entries are free, so the walk ends.
        while unsafe pairs[index] != 0 {
            if unsafe pairs[index] == wanted { return KeyOrdinal(rawValue: unsafe ordinals[index]) }
            index = (index + 1) & mask
        }
        return nil
    }

    /// Gives a pair that is not in the table the next key; `nil` at `Limits.keyCountMax`.
    mutating func insert(_ pair: RewardKey) -> KeyOrdinal? {
        if nextKey >= UInt32(Limits.keyCountMax) { return nil }
        let key = KeyOrdinal(rawValue: nextKey)
        return restore(key, pair) ? key : nil
    }

    mutating func restore(_ key: KeyOrdinal, _ pair: RewardKey) -> Bool {
        if count >= Limits.keyCountMax || key.rawValue == UInt32.max { return false }
        if (count + 1) * 2 > mask + 1 { grow() }
        put(Self.packed(pair), key.rawValue)
        count += 1
        nextKey = max(nextKey, key.rawValue + 1)
        return true
    }

    mutating func reserve(_ nextKey: UInt32) { self.nextKey = max(self.nextKey, nextKey) }

    private mutating func put(_ pair: UInt64, _ key: UInt32) {
        var index = Self.home(pair, mask)
        // SAFETY: masked index; at least one entry is free.
        while unsafe pairs[index] != 0 { index = (index + 1) & mask }
        unsafe pairs[index] = pair
        unsafe ordinals[index] = key
    }

    private mutating func grow() {
        let oldCapacity = mask + 1
        let oldPairs = unsafe pairs
        let oldOrdinals = unsafe ordinals
        mask = oldCapacity * 2 - 1
        unsafe pairs = Self.makeArray(mask + 1)
        unsafe ordinals = Self.makeArray(mask + 1)
        for index in 0..<oldCapacity where unsafe oldPairs[index] != 0 {
            unsafe put(oldPairs[index], oldOrdinals[index])
        }
        unsafe oldPairs.deallocate()
        unsafe oldOrdinals.deallocate()
    }
}
