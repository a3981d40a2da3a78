// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → query
import CIngestLinux

/// Names and keys that are in no run yet, taken by ordinal and given back in the orders of a names run. Owned by one
/// stage.
///
/// **Cost** The names' bytes and 24 bytes a name, 24 bytes a key. Sorting: about 110 ns a name with its key; names
/// come into a run by sorting once, and are only merged after that.
package struct FreshNames {
    package let firstName: UInt32
    package let firstKey: UInt32
    private var bytes: [UInt8] = []
    /// End of each name in `bytes`.
    private var ends: [UInt32] = []
    private var keys: [UInt64] = []

    private var order: [UInt32] = []
    private var rewards: [UInt64] = []

    package init(firstName: NameOrdinal, firstKey: KeyOrdinal) {
        self.firstName = firstName.rawValue
        self.firstKey = firstKey.rawValue
    }

    /// The names and keys of some ordinals, as blocks introduced them, by ordinal. Sorted.
    ///
    /// - Parameters:
    ///   - name: one that no block has; no bytes of one that was lost.
    ///   - key: the same; `nil` of one that was lost.
    package init(
        of blocks: [NamesOfBlock], names: Range<UInt32>, keys: Range<UInt32>,
        name: (UInt32) -> ArraySlice<UInt8> = { _ in [] },
        key known: (UInt32) -> RewardKey? = { _ in nil }
    ) {
        self.init(
            firstName: NameOrdinal(rawValue: names.lowerBound),
            firstKey: KeyOrdinal(rawValue: keys.lowerBound))
        reserve(
            nameCount: names.count, nameByteCount: blocks.reduce(0) { $0 + $1.names.bytes.count },
            keyCount: keys.count)
        for block in blocks {
            let first = block.firstName.rawValue
            if block.names.count > 0 && first < names.upperBound {
                while self.names.upperBound < first { append(name: name(self.names.upperBound)) }
                let end = min(block.names.count, Int(names.upperBound - first))
                append(block.names, from: Int(self.names.upperBound - first), to: end)
            }
            for (index, key) in block.keys.enumerated() {
                let ordinal = block.firstKey.rawValue + UInt32(index)
                guard keys.contains(ordinal), ordinal >= keyRange.upperBound else { continue }
                while keyRange.upperBound < ordinal { append(key: known(keyRange.upperBound)) }
                append(key: key)
            }
        }
        while self.names.upperBound < names.upperBound { append(name: name(self.names.upperBound)) }
        while keyRange.upperBound < keys.upperBound { append(key: known(keyRange.upperBound)) }
        sort()
    }

    /// Makes room for what will be taken, so that nothing is moved while it is.
    package mutating func reserve(nameCount: Int, nameByteCount: Int, keyCount: Int) {
        bytes.reserveCapacity(nameByteCount)
        ends.reserveCapacity(nameCount)
        keys.reserveCapacity(keyCount)
        rewards.reserveCapacity(keyCount)
    }

    /// The ordinals taken so far.
    package var names: Range<UInt32> { firstName..<firstName + UInt32(ends.count) }
    package var keyRange: Range<UInt32> { firstKey..<firstKey + UInt32(keys.count) }

    /// The next name, or (empty) the gap of one that was lost.
    /// - Parameter name: at most `Limits.nameByteCountMax` bytes.
    package mutating func append(name: ArraySlice<UInt8>) {
        precondition(name.count <= Limits.nameByteCountMax)
        bytes.append(contentsOf: name)
        ends.append(UInt32(bytes.count))
    }

    /// The next names: those of a block, which its decoder has checked, from one place up to another one; none if that is not
    /// behind it.
    private mutating func append(_ names: NewNames, from first: Int, to end: Int) {
        guard first < end else { return }
        let start = first == 0 ? 0 : Int(names.ends[first - 1])
        let shift = bytes.count - start
        bytes.append(contentsOf: names.bytes[start..<Int(names.ends[end - 1])])
        for place in first..<end { ends.append(UInt32(Int(names.ends[place]) + shift)) }
    }

    /// The next key, or (`nil`) the gap of one that was lost.
    package mutating func append(key: RewardKey?) {
        let ordinal = keyRange.upperBound
        let (reward, business) = (key?.reward.rawValue ?? 0, key?.business.rawValue ?? 0)
        keys.append(PairBatch.word(reward, business))
        rewards.append(PairBatch.word(reward, ordinal))
    }

    /// Sorts what was taken; nothing is appended afterwards.
    package mutating func sort() {
        order = NameSort.order(bytes: bytes, ends: ends)
        let scratch = UnsafeMutableBufferPointer<UInt64>.allocate(capacity: rewards.count)
        defer { unsafe scratch.deallocate() }
        // By reward; keys were taken in the order of their ordinals, and those of one reward stay in it.
        unsafe rewards.withUnsafeMutableBufferPointer { words in
            unsafe RadixSort.sort(words, scratch) { $0 >> 32 }
        }
    }

    /// The names in order from `place` on, as many as fit. `false` at the end.
    package func readNames(from place: inout Int, into batch: NameBatch) -> Bool {
        let range = place..<min(order.count, place + NameBatch.capacity)
        place = range.upperBound
        batch.removeAll()
        // SAFETY: the buffer is used inside the closure only; ends are within the bytes.
        unsafe bytes.withUnsafeBytes { bytes in
            for place in range {
                unsafe prefetch(place, bytes)
                let name = Int(order[place])
                let start = name == 0 ? 0 : Int(ends[name - 1])
                unsafe batch.append(
                    UnsafeRawBufferPointer(rebasing: bytes[start..<Int(ends[name])]),
                    ordinal: firstName + order[place])
            }
        }
        return batch.count > 0
    }

    /// Starts the loads of names that come soon: they lie in another order.
    @inline(__always)
    private func prefetch(_ place: Int, _ bytes: UnsafeRawBufferPointer) {
        unsafe ends.withUnsafeBufferPointer { ends in
            // SAFETY: places and names are inside; a name ends within the bytes, or where they do. A prefetch reads
            // nothing.
            unsafe ingest_prefetch(ends.baseAddress! + Int(order[min(place + 32, order.count - 1)]))
            let soon = Int(order[min(place + 16, order.count - 1)])
            let start = unsafe soon == 0 ? 0 : Int(ends[soon - 1])
            unsafe ingest_prefetch(bytes.baseAddress! + start)
            unsafe ingest_prefetch(bytes.baseAddress! + Int(ends[soon]))
        }
    }

    /// The keys or rewards in order from `place` on, as many as fit. `false` at the end.
    package func readPairs(
        _ kind: NamesPageKind, from place: inout Int, into batch: PairBatch
    ) -> Bool {
        let words = kind == .keys ? keys : rewards
        batch.removeAll()
        let range = place..<min(words.count, place + batch.capacity)
        for place in range { batch.append(words[place]) }
        place = range.upperBound
        return batch.count > 0
    }
}

/// Sorts names bytewise, eight bytes at a time: names that begin alike are told apart by the eight that follow.
package enum NameSort {
    private struct Item: BitwiseCopyable {
        var word: UInt64
        var name: UInt32
    }

    /// The places of the names in the order of their bytes, then of their places.
    /// - Parameter ends: of each name in `bytes`; it starts where the one before ends.
    package static func order(bytes: [UInt8], ends: [UInt32]) -> [UInt32] {
        let items = UnsafeMutableBufferPointer<Item>.allocate(capacity: ends.count)
        let scratch = UnsafeMutableBufferPointer<Item>.allocate(capacity: ends.count)
        defer {
            unsafe items.deallocate()
            unsafe scratch.deallocate()
        }
        for place in 0..<ends.count {
            unsafe items[place] = Item(word: 0, name: UInt32(truncatingIfNeeded: place))
        }
        // SAFETY: the buffers are used inside the closures only.
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe ends.withUnsafeBufferPointer { ends in
                unsafe sort(items, scratch, bytes, ends)
            }
        }
        return unsafe items.map(\.name)
    }

    private static func sort(
        _ items: UnsafeMutableBufferPointer<Item>, _ scratch: UnsafeMutableBufferPointer<Item>,
        _ bytes: UnsafeRawBufferPointer, _ ends: UnsafeBufferPointer<UInt32>
    ) {
        // Ranges of names that are alike up to a depth; their items are in the order of their places.
        var waiting = [(first: 0, count: items.count, depth: 0)]
        while let (first, count, depth) = waiting.popLast() {
            guard count > 1 else { continue }
            // SAFETY: ranges are inside the items.
            let part = unsafe UnsafeMutableBufferPointer(rebasing: items[first..<first + count])
            for place in 0..<count {
                unsafe part[place].word = unsafe word(Int(part[place].name), depth, bytes, ends)
            }
            unsafe RadixSort.sort(part, scratch) { $0.word }
            var start = 0
            for place in 0..<count
            where unsafe place + 1 == count || part[place + 1].word != part[place].word {
                let alike = unsafe UnsafeMutableBufferPointer(rebasing: part[start..<place + 1])
                let next = first + start
                start = place + 1
                guard alike.count > 1 else { continue }
                if unsafe goesOn(alike, depth, ends) {
                    waiting.append((next, alike.count, depth + 8))
                } else {
                    unsafe sortByLength(alike, ends)
                }
            }
        }
    }

    /// Whether one of the names has bytes behind those that are alike.
    private static func goesOn(
        _ alike: UnsafeMutableBufferPointer<Item>, _ depth: Int,
        _ ends: UnsafeBufferPointer<UInt32>
    ) -> Bool {
        unsafe alike.contains { unsafe byteCount(Int($0.name), ends) > depth + 8 }
    }

    /// Names that are alike but for zero bytes at the end, where the shorter comes first.
    private static func sortByLength(
        _ alike: UnsafeMutableBufferPointer<Item>, _ ends: UnsafeBufferPointer<UInt32>
    ) {
        var alike = unsafe alike
        unsafe alike.sort { a, b in
            let left = unsafe byteCount(Int(a.name), ends)
            let right = unsafe byteCount(Int(b.name), ends)
            return left == right ? a.name < b.name : left < right
        }
    }

    @inline(__always)
    private static func byteCount(_ name: Int, _ ends: UnsafeBufferPointer<UInt32>) -> Int {
        // SAFETY: the name is inside the ends.
        unsafe Int(ends[name]) - (name == 0 ? 0 : Int(ends[name - 1]))
    }

    /// Eight bytes of a name from `depth` on, the first of them uppermost, zeros behind its end.
    @inline(__always)
    private static func word(
        _ name: Int, _ depth: Int, _ bytes: UnsafeRawBufferPointer,
        _ ends: UnsafeBufferPointer<UInt32>
    ) -> UInt64 {
        // SAFETY: the name is inside the ends, and those within the bytes.
        let start = (name == 0 ? 0 : unsafe Int(ends[name - 1])) + depth
        let end = unsafe Int(ends[name])
        if start + 8 <= bytes.count {
            let word = unsafe UInt64(
                bigEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self))
            if start + 8 <= end { return word }
            return start >= end ? 0 : word & ~(UInt64.max >> UInt64(8 * (end - start)))
        }
        var word: UInt64 = 0
        for place in start..<max(start, end) { word = unsafe word << 8 | UInt64(bytes[place]) }
        return end > start ? word << UInt64(8 * (8 - (end - start))) : 0
    }
}
