// packet → decode → ring → [admit] → [block] → segment → compaction → [snapshot] → [query]
import CIngestLinux

/// The names that one block introduces, in the order of their ordinals: bytes back to back and where
/// each ends. Append-only; emptied for the next block, its memory stays.
package struct NewNames: Sendable, Equatable {
    package private(set) var bytes: [UInt8] = []
    /// End of name `i` in `bytes`; it starts where the one before ends.
    package private(set) var ends: [UInt32] = []

    package init() {}

    /// One name. - Parameter name: 1 … `Limits.nameByteCountMax` bytes.
    package init(_ name: [UInt8]) {
        precondition(!name.isEmpty && name.count <= Limits.nameByteCountMax)
        (bytes, ends) = (name, [UInt32(name.count)])
    }

    /// Names whose lengths, one byte each, add up to the bytes.
    init(lengths: Slice<UnsafeRawBufferPointer>, bytes: Slice<UnsafeRawBufferPointer>) {
        // SAFETY: the slices are valid for the length of this call; they are only copied.
        unsafe self.bytes = Array(bytes)
        var end: UInt32 = 0
        unsafe ends = lengths.map { length in
            end += UInt32(length)
            return end
        }
    }

    package var count: Int { ends.count }

    /// Of memory, but for room that is not used.
    package var byteCount: Int { bytes.count + ends.count * MemoryLayout<UInt32>.stride }

    /// The same in memory of its own, with no room for more: what is kept for long.
    package func copy() -> NewNames {
        var copy = NewNames()
        copy.bytes = unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) }
        copy.ends = unsafe ends.withUnsafeBufferPointer { unsafe Array($0) }
        return copy
    }

    /// Adds one name.
    /// - Parameter name: 1 … `Limits.nameByteCountMax` bytes; the caller has checked.
    package mutating func append(_ name: RawSpan) {
        precondition(name.byteCount >= 1 && name.byteCount <= Limits.nameByteCountMax)
        unsafe name.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
        ends.append(UInt32(truncatingIfNeeded: bytes.count))
    }

    package mutating func append(_ more: NewNames) {
        let start = UInt32(truncatingIfNeeded: bytes.count)
        bytes += more.bytes
        ends += more.ends.map { start + $0 }
    }

    /// The bytes of name `index` (0 ..< count), as a copy.
    package func name(_ index: Int) -> [UInt8] {
        Array(bytes[range(index)])
    }

    /// Empties the list; the memory stays.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
    }

    private func range(_ index: Int) -> Range<Int> {
        (index == 0 ? 0 : Int(ends[index - 1]))..<Int(ends[index])
    }
}

/// The names and keys that one block introduced, with their first ordinals.
package struct NamesOfBlock: Sendable {
    package let firstName: NameOrdinal
    package let names: NewNames
    package let firstKey: KeyOrdinal
    package let keys: [RewardKey]

    package init(_ block: DecodedBlock) {
        let first = block.header.context
        self.init(
            firstName: first.firstName, names: block.names, firstKey: first.firstKey,
            keys: block.keys)
    }

    package init(firstName: NameOrdinal, names: NewNames, firstKey: KeyOrdinal, keys: [RewardKey]) {
        self.firstName = firstName
        self.names = names
        self.firstKey = firstKey
        self.keys = keys
    }

    package var nameRange: Range<UInt32> {
        firstName.rawValue..<firstName.rawValue &+ UInt32(names.count)
    }
    package var keyRange: Range<UInt32> {
        firstKey.rawValue..<firstKey.rawValue &+ UInt32(keys.count)
    }
}

extension [RewardKey] {
    /// Adds the keys of blocks, by ordinal: what is there already stays, and one that was lost is (none, none).
    package mutating func append(_ blocks: [NamesOfBlock], upTo nextKey: UInt32) {
        let lost = RewardKey(reward: .none, business: .none)
        for block in blocks {
            for (index, key) in block.keys.enumerated() {
                let ordinal = Int(block.firstKey.rawValue) + index
                while count < ordinal { append(lost) }
                if count == ordinal { append(key) }
            }
        }
        while count < Int(nextKey) { append(lost) }
    }
}

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

extension BlockDecoder {
    /// The place of a name among those that a block introduces, from the section of names alone.
    ///
    /// - Parameters: as those of `decodeKeys`.
    /// **Cost** Some nanoseconds a name.
    package func place(
        ofName wanted: [UInt8], in stored: RawSpan, _ entry: BlockSectionEntry,
        of header: BlockHeader
    ) throws(FormatError) -> Int? {
        try unsafe stored.withUnsafeBytes { (stored) throws(FormatError) in
            let (lengths, names) = try unsafe names(
                content(entry, stored: stored), entry, header.nameCount)
            return unsafe wanted.withUnsafeBytes { wanted in
                guard let wantedBytes = wanted.baseAddress else { return nil }
                var name = unsafe names.base.baseAddress! + names.startIndex
                for place in 0..<header.nameCount {
                    // SAFETY: the lengths were checked to end where the bytes end.
                    let count = unsafe Int(lengths[place])
                    if count == wanted.count, unsafe ingest_equal(name, wantedBytes, count) {
                        return place
                    }
                    unsafe name += count
                }
                return nil
            }
        }
    }

    /// The places of a reward's keys among those that a block introduces, from the section of their rewards alone.
    ///
    /// - Parameters: as those of `decodeKeys`.
    /// **Cost** A nanosecond a key.
    package func places(
        ofReward reward: NameOrdinal, in stored: RawSpan, _ entry: BlockSectionEntry,
        of header: BlockHeader
    ) throws(FormatError) -> [Int] {
        let rewards = UnsafeMutablePointer<UInt32>.allocate(capacity: header.keyCount)
        defer { unsafe rewards.deallocate() }
        _ = try unsafe stored.withUnsafeBytes { (stored) throws(FormatError) in
            try unsafe column(
                entry, content(entry, stored: stored), header.keyCount, min: 1,
                max: Int64(header.nextName.rawValue) - 1, into: rewards)
        }
        // SAFETY: so many were decoded.
        return (0..<header.keyCount).filter { unsafe rewards[$0] == reward.rawValue }
    }

    /// A column of names: left out if and only if no row has one. Campaigns and sources may be `Attribution.other`.
    /// - Returns: whether it is there.
    @discardableResult
    func names(
        _ kind: BlockSectionKind, _ block: BlockView, into target: UnsafeMutablePointer<UInt32>
    ) throws(FormatError) -> Bool {
        let header = unsafe block.header
        guard let entry = unsafe block.table.entry(kind) else {
            // SAFETY: rows have room for rowCount values.
            unsafe target.update(repeating: 0, count: header.rowCount)
            return false
        }
        let last = Int64(header.nextName.rawValue) - 1
        let max = kind == .platform ? last : Int64(Attribution.other)
        let range = try unsafe column(kind, block, header.rowCount, max: max, into: target)
        if range.upperBound == 0 {
            throw .corrupt("\(kind.name): value", at: entry.offset, got: 0, expected: .atLeast(1))
        }
        if range.upperBound <= last { return true }
        for row in 0..<header.rowCount {
            // SAFETY: rowCount values were decoded.
            let value = unsafe target[row]
            if Int64(value) <= last || value == Attribution.other { continue }
            throw .corrupt(
                "\(kind.name): value", at: entry.offset, got: value, expected: .atMost(last))
        }
        return true
    }
}
