// packet → decode → ring → [admit] → [block] → segment → compaction → [snapshot] → [query]

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

    /// Calls `body` with the ordinal and the place in `bytes` of each name, in order.
    package func forEach(
        from first: NameOrdinal, _ body: (NameOrdinal, Range<Int>) -> Void
    ) {
        for index in 0..<count {
            body(
                NameOrdinal(rawValue: first.rawValue &+ UInt32(truncatingIfNeeded: index)),
                range(index))
        }
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
