// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import Glibc
import IngestFormat

/// Names and reward keys in memory, from some ordinals on: those of a cut's tail, which no names run has.
///
/// **Cost** 8 bytes a name and its own, 8 bytes a key. Looking for one goes over all; who looks for many makes an index.
package struct NameTable: Sendable {
    /// The first ordinals that the table can hold.
    package let firstName: UInt32
    package let firstKey: UInt32
    private let hash: KeyedHash

    /// All names, one after another.
    private var bytes: [UInt8] = []
    /// By name ordinal − `firstName`: offset into `bytes` × 256 + byte count; 0 = lost (names are never
    /// empty).
    private var places: [UInt64] = []
    /// By key ordinal − `firstKey`.
    private var keys: [RewardKey] = []
    /// Halves of hashes, and rewards of keys, ascending, each above its place in 32 bits; empty without an index.
    private var placesByHash: [UInt64] = []
    private var placesByReward: [UInt64] = []

    private static let lostKey = RewardKey(reward: .none, business: .none)

    /// - Parameters:
    ///   - firstName: at least 1.
    ///   - hash: that of the directory.
    package init(firstName: UInt32 = 1, firstKey: UInt32 = 0, hash: KeyedHash) {
        self.firstName = max(1, firstName)
        self.firstKey = firstKey
        self.hash = hash
    }

    package var nextName: UInt32 { firstName + UInt32(places.count) }
    package var nextKey: UInt32 { firstKey + UInt32(keys.count) }

    /// Enters a name; the first entry of an ordinal stays. `false` if the limits forbid it.
    package mutating func enter(name ordinal: NameOrdinal, bytes name: some Collection<UInt8>)
        -> Bool
    {
        guard ordinal.rawValue >= firstName, ordinal.rawValue <= Limits.nameCountMax,
            !name.isEmpty, name.count <= Limits.nameByteCountMax
        else { return false }
        let place = Int(ordinal.rawValue - firstName)
        if place >= places.count {
            places.append(contentsOf: repeatElement(0, count: place + 1 - places.count))
        }
        guard places[place] == 0 else { return true }
        places[place] = UInt64(bytes.count) << 8 | UInt64(name.count)
        bytes.append(contentsOf: name)
        return true
    }

    /// Enters the names and keys that a block introduces, behind those that are there; what lies between was lost.
    ///
    /// **Cost** Some nanoseconds a name.
    mutating func enter(_ block: DecodedBlock) {
        let first = block.header.context
        let (firstName, firstKey) = (first.firstName.rawValue, first.firstKey.rawValue)
        if block.names.count > 0, firstName >= nextName {
            places.append(contentsOf: repeatElement(0, count: Int(firstName - nextName)))
            append(block.names)
        }
        if !block.keys.isEmpty, firstKey >= nextKey {
            keys.append(
                contentsOf: repeatElement(Self.lostKey, count: Int(firstKey - nextKey)))
            keys += block.keys
        }
    }

    private mutating func append(_ names: NewNames) {
        places.reserveCapacity(places.count + names.count)
        var start = bytes.count
        let first = start
        for end in names.ends {
            let end = first + Int(end)
            places.append(UInt64(start) << 8 | UInt64(end - start))
            start = end
        }
        bytes += names.bytes
    }

    /// Enters a reward key; the first entry of an ordinal stays. `false` if the limits forbid it.
    package mutating func enter(key ordinal: KeyOrdinal, _ key: RewardKey) -> Bool {
        guard ordinal.rawValue >= firstKey, ordinal.rawValue < Limits.keyCountMax,
            key != Self.lostKey
        else { return false }
        let place = Int(ordinal.rawValue - firstKey)
        if place >= keys.count {
            keys.append(
                contentsOf: repeatElement(Self.lostKey, count: place + 1 - keys.count))
        }
        guard keys[place] == Self.lostKey else { return true }
        keys[place] = key
        return true
    }

    /// Makes an index; to be called after the last name and key.
    ///
    /// **Cost** 8 bytes and 0.1 µs a name and a key; a search then takes a microsecond.
    package mutating func makeIndex() {
        placesByHash = Self.sorted(places.indices.map { half($0) })
        placesByReward = Self.sorted(keys.map(\.reward.rawValue))
    }

    /// Half of a name's hash; 0 where it was lost.
    private func half(_ place: Int) -> UInt32 {
        let count = Int(places[place] & 255)
        if count == 0 { return 0 }
        // SAFETY: a place is inside of the bytes.
        return unsafe bytes.withUnsafeBytes { bytes in
            unsafe Self.half(hash.name(bytes.baseAddress! + Int(places[place] >> 8), count))
        }
    }

    private static func half(_ hash: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: hash) }

    private static func sorted(_ values: [UInt32]) -> [UInt64] {
        values.enumerated().map { UInt64($0.element) << 32 | UInt64($0.offset) }.sorted()
    }

    private static func places(of value: UInt32, in index: [UInt64]) -> some Sequence<Int> {
        let first = index.indices.firstPlace { index[$0] >> 32 >= value }
        return index[first...].lazy.prefix { $0 >> 32 == value }.map { Int($0 & 0xFFFF_FFFF) }
    }

    private func slice(_ place: Int) -> ArraySlice<UInt8> {
        let start = Int(places[place] >> 8)
        return bytes[start..<start + Int(places[place] & 255)]
    }
}

extension NameTable: NameSource {
    package func storedOrdinal(of name: [UInt8]) throws(ReaderError) -> NameOrdinal? {
        let place =
            placesByHash.isEmpty
            ? places.indices.first { isName($0, name) }
            : Self.places(of: Self.half(hash.name(name)), in: placesByHash)
                .first { isName($0, name) }
        return place.map { NameOrdinal(rawValue: firstName + UInt32($0)) }
    }

    private func isName(_ place: Int, _ name: [UInt8]) -> Bool {
        places[place] != 0 && slice(place) == name[...]
    }

    package func bytes(of name: NameOrdinal) throws(ReaderError) -> [UInt8] {
        guard name.rawValue >= firstName, name.rawValue < nextName else { return [] }
        return Array(slice(Int(name.rawValue - firstName)))
    }

    package func names(of key: KeyOrdinal) throws(ReaderError) -> RewardKey {
        guard key.rawValue >= firstKey, key.rawValue < nextKey else { return Self.lostKey }
        return keys[Int(key.rawValue - firstKey)]
    }

    package func keys(ofReward reward: NameOrdinal) throws(ReaderError) -> [KeyOrdinal] {
        if reward == .none { return [] }
        let found =
            placesByReward.isEmpty
            ? keys.indices.filter { keys[$0].reward == reward }
            : Array(Self.places(of: reward.rawValue, in: placesByReward))
        return found.map { KeyOrdinal(rawValue: firstKey + UInt32($0)) }
    }

    package func forEachKeys(
        in range: Range<UInt32>, _ body: (UInt32, Span<UInt64>) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let range = range.clamped(to: firstKey..<nextKey)
        if range.isEmpty { return }
        let pairs = keys[Int(range.lowerBound - firstKey)..<Int(range.upperBound - firstKey)]
            .map { UInt64($0.reward.rawValue) << 32 | UInt64($0.business.rawValue) }
        try body(range.lowerBound, pairs.span)
    }

    package func lostKeyCount() throws(ReaderError) -> Int {
        keys.count { $0 == Self.lostKey }
    }

    package func lostNames() throws(ReaderError) -> [UInt32] {
        places.indices.filter { places[$0] == 0 }.map { firstName + UInt32($0) }
    }

    package func makeCursors() throws(ReaderError) -> [NameCursor] {
        let known = places.indices.filter { places[$0] != 0 }
        let ranks = NameOrder.ranks(of: known.map { Array(slice($0)) })
        var order = [UInt32](repeating: 0, count: known.count)
        for (index, rank) in ranks.enumerated() { order[Int(rank)] = UInt32(known[index]) }
        var rest = order[...]
        return [
            { batch in
                batch.removeAll()
                for place in rest.prefix(NameBatch.capacity) {
                    batch.append(slice(Int(place)), ordinal: firstName + place)
                }
                rest = rest.dropFirst(batch.count)
                return batch.count > 0
            }
        ]
    }
}

/// The bytewise order of texts. Swift's own order of strings is another one: it follows canonical
/// equivalence, and so the version of Unicode.
package enum NameOrder {
    /// The place of each text among all of them; equal texts keep their order.
    ///
    /// **Cost** That of `NameSort`, and a copy of the texts.
    package static func ranks(of texts: [[UInt8]]) -> [UInt32] {
        var bytes: [UInt8] = []
        var ends: [UInt32] = []
        for text in texts {
            bytes += text
            ends.append(UInt32(bytes.count))
        }
        var ranks = [UInt32](repeating: 0, count: texts.count)
        for (rank, place) in NameSort.order(bytes: bytes, ends: ends).enumerated() {
            ranks[Int(place)] = UInt32(rank)
        }
        return ranks
    }

    /// `nil` where both are equal.
    package static func precedes(_ a: [UInt8], _ b: [UInt8]) -> Bool? {
        precedes(a, a.indices, b, b.indices)
    }

    /// Compares a part of `a` with one of `b`; `nil` where they are equal.
    /// - Parameters: ranges inside their arrays.
    static func precedes(
        _ a: [UInt8], _ aRange: Range<Int>, _ b: [UInt8], _ bRange: Range<Int>
    ) -> Bool? {
        precondition(aRange.lowerBound >= 0 && aRange.upperBound <= a.count)
        precondition(bRange.lowerBound >= 0 && bRange.upperBound <= b.count)
        let count = min(aRange.count, bRange.count)
        let order =
            count == 0
            ? 0
            : unsafe a.withUnsafeBufferPointer { a in
                // SAFETY: both ranges were found to be inside, and count is that of the shorter.
                unsafe b.withUnsafeBufferPointer { b in
                    unsafe memcmp(
                        a.baseAddress! + aRange.lowerBound, b.baseAddress! + bRange.lowerBound,
                        count)
                }
            }
        if order != 0 { return order < 0 }
        return aRange.count == bRange.count ? nil : aRange.count < bRange.count
    }
}
