// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query

/// Finds the distinct values of a column, in the order of their first appearance, as long as a
/// dictionary of them is smaller than the column packed.
///
/// **Layout** An open table of 2^13 slots of u64: value (32 bits), code (16), generation (16). A slot of
/// another generation is empty, so the table is cleared once in 65,535 columns.
/// **Cost** 1.5 ns a value for a column with few distinct values.
@safe final class DictionaryBuilder {
    /// Per entry its quotient; per value its code.
    let entries: UnsafeMutablePointer<UInt32>
    let codes: UnsafeMutablePointer<UInt16>

    private static let slotBits: UInt32 = 13
    private static let slotCount = 1 << 13
    /// Columns whose first values are nearly all different are not worth the rest.
    private static let probeEntryCount = 256
    private static let probeValueCount = 384

    private let slots: UnsafeMutablePointer<UInt64>
    private var generation: UInt64 = 0

    init() {
        unsafe entries = .allocate(capacity: ColumnLayout.dictionaryEntryCountMax)
        unsafe codes = .allocate(capacity: Limits.blockEventCountMax)
        unsafe slots = .allocate(capacity: Self.slotCount)
        unsafe slots.initialize(repeating: 0, count: Self.slotCount)
    }

    deinit {
        unsafe entries.deallocate()
        unsafe codes.deallocate()
        unsafe slots.deallocate()
    }

    /// - Returns: the number of entries, or 0 where a dictionary is not below `bitCountMax`.
    @inline(__always)
    func build<Value>(
        _ column: Quotients<Value>, count: Int, width: Int, bitCountMax: Int
    ) -> Int {
        let limit = Self.entryCountMax(count: count, width: width, bitCountMax: bitCountMax)
        guard limit >= 2 else { return 0 }
        nextGeneration()
        let generation = generation
        let slots = unsafe slots
        let entries = unsafe entries
        let codes = unsafe codes
        var entryCount = 0
        for i in 0..<count {
            let value = unsafe UInt32(truncatingIfNeeded: column[i])
            var place = Int((value &* 0x9E37_79B1) &>> (32 &- Self.slotBits))
            while true {
                // SAFETY: place < slotCount; entryCount < limit ≤ dictionaryEntryCountMax, half of
                // the slots, so an empty one is always found; i < count ≤ blockEventCountMax.
                let slot = unsafe slots[place]
                if slot & 0xffff != generation {
                    if entryCount == limit { return 0 }
                    if entryCount == Self.probeEntryCount && i < Self.probeValueCount { return 0 }
                    let code = UInt64(truncatingIfNeeded: entryCount)
                    unsafe slots[place] = UInt64(value) &<< 32 | code &<< 16 | generation
                    unsafe entries[entryCount] = value
                    unsafe codes[i] = UInt16(truncatingIfNeeded: entryCount)
                    entryCount &+= 1
                    break
                }
                if UInt32(truncatingIfNeeded: slot &>> 32) == value {
                    unsafe codes[i] = UInt16(truncatingIfNeeded: slot &>> 16)
                    break
                }
                place = (place &+ 1) & (Self.slotCount &- 1)
            }
        }
        return entryCount
    }

    /// The most entries with which entries and codes together stay below `bitCountMax`; 0 for quotients
    /// that the table cannot hold.
    static func entryCountMax(count: Int, width: Int, bitCountMax: Int) -> Int {
        guard width > 1, width <= 32 else { return 0 }
        var best = 0
        let fixed = 8 * (ColumnLayout.dictionaryByteCount - ColumnLayout.baseByteCount) + 16
        for codeWidth in 1...ColumnLayout.dictionaryCodeWidthMax {
            let room = bitCountMax - fixed - count * codeWidth
            guard room > 0 else { break }
            best = max(best, min(1 << codeWidth, room / width))
        }
        return best
    }

    private func nextGeneration() {
        generation &+= 1
        if generation > 0xffff {
            unsafe slots.update(repeating: 0, count: Self.slotCount)
            generation = 1
        }
    }
}
