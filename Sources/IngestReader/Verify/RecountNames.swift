// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import CIngestLinux
import Glibc
import IngestFormat

/// The names and keys as the log itself introduced them, by ordinal.
///
/// **Cost** The bytes of the names, 12 a name, 8 a key; about 5 ns for each that is
/// entered.
struct RecountNames: Sendable {
    /// A block that introduced names or keys.
    private struct Block: Sendable {
        let file: String
        let offset: UInt64
        let names: Range<UInt32>
        let keys: Range<UInt32>
        /// What places lead to.
        let bytes: NameBytes
    }

    private var blocks: [Block] = []
    /// By ordinal: address of its bytes, which `blocks` hold, and in the lowest 8 bits how many; 0 = none.
    private var places: [UInt64] = []
    /// By ordinal, where there is a place.
    private var hashes: [UInt32] = []
    /// By key ordinal; without names for what no block introduced.
    private var keys: [RewardKey] = []
    /// Of this process, so that no names can be made to collide.
    let hash = KeyedHash(key: InlineArray { _ in UInt8.random(in: 0...255) })
    private let keySeed = UInt64.random(in: 0...UInt64.max)
    /// What names runs say, for ordinals that no block introduced because theirs cannot be read.
    private let copies: NameCopies
    /// Those of expired segments.
    private let attested: AttestedNames

    private static let noKey = RewardKey(reward: .none, business: .none)

    /// - Parameter copies: used for names of blocks that cannot be read, and no other.
    init(copies: NameCopies = NameCopies(), attested: AttestedNames = AttestedNames()) {
        self.copies = copies
        self.attested = attested
    }

    /// Makes room for the names and keys of a directory.
    mutating func reserve(nameCount: Int, keyCount: Int) {
        places.reserveCapacity(min(nameCount, Limits.nameCountMax + 1))
        hashes.reserveCapacity(min(nameCount, Limits.nameCountMax + 1))
        keys.reserveCapacity(min(keyCount, Limits.keyCountMax))
    }

    // MARK: Entering

    /// Enters the names and keys that a block introduced.
    /// - Returns: ordinals that had another name or key before.
    mutating func enter(
        _ new: NewNamesOfBlock, of file: String
    ) -> (names: [UInt32], keys: [UInt32]) {
        let (firstName, firstKey) = (new.firstName.rawValue, new.firstKey.rawValue)
        let block = Block(
            file: file, offset: new.offset,
            names: firstName..<firstName.saturatingSum(UInt32(new.bytes.count)),
            keys: firstKey..<firstKey.saturatingSum(UInt32(new.keys.count)), bytes: new.bytes)
        var changed: (names: [UInt32], keys: [UInt32]) = ([], [])
        blocks.append(block)
        for (index, ordinal) in block.names.enumerated() where ordinal <= Limits.nameCountMax {
            let name = unsafe new.bytes.pointer(index)
            if unsafe isName(ordinal, name) == false { changed.names.append(ordinal) }
            let place = UInt64(UInt(bitPattern: name.baseAddress)) << 8 | UInt64(name.count)
            places.set(place, at: Int(ordinal), filling: 0)
            hashes.set(new.hashes[index], at: Int(ordinal), filling: 0)
        }
        for (ordinal, pair) in zip(block.keys, new.keys) where ordinal < Limits.keyCountMax {
            if let known = key(ordinal), known != pair { changed.keys.append(ordinal) }
            keys.set(pair, at: Int(ordinal), filling: Self.noKey)
        }
        return changed
    }

    /// The last block that introduced a name, and where it lies; `nil` if none did.
    func introduction(ofName ordinal: UInt32) -> (file: String, offset: UInt64)? {
        blocks.last { $0.names.contains(ordinal) }.map { ($0.file, $0.offset) }
    }

    func introduction(ofKey ordinal: UInt32) -> (file: String, offset: UInt64)? {
        blocks.last { $0.keys.contains(ordinal) }.map { ($0.file, $0.offset) }
    }

    // MARK: What blocks introduced

    /// The ordinals of names below which all are that a block introduced.
    var nameEnd: UInt32 { UInt32(places.count) }
    /// Those of keys, of expired ones too.
    var keyEnd: UInt32 { UInt32(max(keys.count, attested.keys.count)) }

    /// The bytes of a name; `nil` if no block introduced it.
    func name(_ ordinal: UInt32) -> [UInt8]? {
        unsafe pointer(ordinal).map { unsafe Array($0) }
    }

    /// Whether a name has these bytes; `nil` if no block introduced it.
    @inline(__always)
    func isName(_ ordinal: UInt32, _ bytes: UnsafeRawBufferPointer) -> Bool? {
        guard let known = unsafe pointer(ordinal) else { return nil }
        guard known.count == bytes.count, let other = bytes.baseAddress,
            let base = known.baseAddress
        else { return false }
        // SAFETY: both have so many bytes.
        return unsafe memcmp(base, other, bytes.count) == 0
    }

    /// Asks for where the bytes of a name are.
    @inline(__always)
    func prefetchPlace(_ ordinal: UInt32) {
        unsafe places.withUnsafeBufferPointer { places in
            guard Int(ordinal) < places.count, let base = places.baseAddress else { return }
            // SAFETY: a prefetch reads nothing.
            unsafe ingest_prefetch(base + Int(ordinal))
        }
    }

    /// Asks for the bytes of a name.
    @inline(__always)
    func prefetchBytes(_ ordinal: UInt32) {
        // SAFETY: a prefetch reads nothing.
        if let base = unsafe pointer(ordinal)?.baseAddress { unsafe ingest_prefetch(base) }
    }

    @inline(__always)
    private func pointer(_ ordinal: UInt32) -> UnsafeRawBufferPointer? {
        guard Int(ordinal) < places.count, places[Int(ordinal)] != 0 else { return nil }
        let place = places[Int(ordinal)]
        // SAFETY: the bytes are of a block that is held as long as this.
        return unsafe UnsafeRawBufferPointer(
            start: UnsafeRawPointer(bitPattern: UInt(place >> 8)), count: Int(place & 255))
    }

    /// The hash of a name, by `hash`; `nil` if no block introduced it.
    func hash(ofName ordinal: UInt32) -> UInt32? {
        Int(ordinal) < places.count && places[Int(ordinal)] != 0 ? hashes[Int(ordinal)] : nil
    }

    /// `nil` if no block introduced it.
    func key(_ ordinal: UInt32) -> RewardKey? {
        guard Int(ordinal) < keys.count, keys[Int(ordinal)] != Self.noKey else { return nil }
        return keys[Int(ordinal)]
    }

    /// A key of a block or of an expired one, with a hash.
    func hashedKey(_ ordinal: UInt32) -> (key: RewardKey, hash: UInt32)? {
        var found = key(ordinal)
        if found == nil && Int(ordinal) < attested.keys.count {
            found = attested.keys[Int(ordinal)]
        }
        guard let found, found != Self.noKey else { return nil }
        // Both ordinals are of the log's own giving, so a product spreads them well enough; the seed is of this process.
        let word = UInt64(found.reward.rawValue) << 32 | UInt64(found.business.rawValue)
        let product = (word ^ keySeed).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        return (found, UInt32(truncatingIfNeeded: product.high ^ product.low))
    }

    /// Whether the block that introduced a name has expired.
    func isAttested(name ordinal: UInt32) -> Bool { ordinal < attested.nextName }

    /// Whether the block that introduced a key has expired.
    func isAttested(key ordinal: UInt32) -> Bool { ordinal < attested.nextKey }

    // MARK: What is known

    /// The business of a key, from its block or else from a names run; 0 of one that is lost.
    func business(ofKey ordinal: UInt32) -> UInt32 {
        let business = pair(ofKey: ordinal)?.business.rawValue ?? 0
        return business <= Limits.nameCountMax ? business : 0
    }

    private func pair(ofKey ordinal: UInt32) -> RewardKey? {
        if let key = key(ordinal) { return key }
        if Int(ordinal) < attested.keys.count { return attested.keys[Int(ordinal)] }
        return copies.key(KeyOrdinal(rawValue: ordinal))
    }

    /// For messages.
    func describe(key ordinal: UInt32) -> String {
        guard let pair = pair(ofKey: ordinal) else {
            return "reward \(NamesRun.lostText(ordinal)) business \(NamesRun.lostText(0))"
        }
        return "reward \(describe(name: pair.reward.rawValue)) "
            + "business \(describe(name: pair.business.rawValue))"
    }

    /// A name from its block or else from a names run; `nil` of one that is lost.
    func known(name ordinal: UInt32) -> [UInt8]? {
        name(ordinal) ?? copies.name(NameOrdinal(rawValue: ordinal))
    }

    /// For messages.
    func describe(name ordinal: UInt32) -> String {
        known(name: ordinal).map { String(decoding: $0, as: UTF8.self) }
            ?? NamesRun.lostText(ordinal)
    }
}

/// Names and keys that a block introduced.
struct NewNamesOfBlock: Sendable {
    /// Of the block in the file.
    let offset: UInt64
    let firstName: NameOrdinal
    let bytes: NameBytes
    /// Of the names, in their order.
    let hashes: [UInt32]
    let firstKey: KeyOrdinal
    let keys: [RewardKey]

    /// - Parameter hash: `RecountNames.hash`.
    init(
        offset: UInt64, firstName: NameOrdinal, names: NewNames, firstKey: KeyOrdinal,
        keys: [RewardKey], hash: KeyedHash
    ) {
        self.offset = offset
        self.firstName = firstName
        self.firstKey = firstKey
        self.keys = keys
        let bytes = NameBytes(names)
        self.bytes = bytes
        hashes = (0..<bytes.count).map { index in
            // SAFETY: a name has at most 128 bytes, which stay where they are.
            let name = unsafe bytes.pointer(index)
            guard let base = name.baseAddress else { return 0 }
            return unsafe UInt32(truncatingIfNeeded: hash.name(base, name.count))
        }
    }
}

/// The bytes of some names where they stay.
///
/// `@unchecked`: nothing is written once they are copied.
@safe final class NameBytes: @unchecked Sendable {
    private let base: UnsafeMutableRawPointer
    private let ends: [UInt32]
    var count: Int { ends.count }

    init(_ names: NewNames) {
        ends = names.ends
        unsafe base = .allocate(byteCount: max(1, names.bytes.count), alignment: 1)
        unsafe names.bytes.withUnsafeBytes { bytes in
            guard let source = bytes.baseAddress else { return }
            // SAFETY: as many bytes were allocated.
            unsafe base.copyMemory(from: source, byteCount: bytes.count)
        }
    }

    deinit { unsafe base.deallocate() }

    /// A name's bytes, valid as long as this is held. - Parameter index: 0 ..< count.
    @unsafe func pointer(_ index: Int) -> UnsafeRawBufferPointer {
        let start = index == 0 ? 0 : Int(ends[index - 1])
        // SAFETY: ends ascend, the last one is how many bytes there are.
        return unsafe UnsafeRawBufferPointer(start: base + start, count: Int(ends[index]) - start)
    }
}

/// The names and keys of expired segments: names runs are the only ones to say what they are.
struct AttestedNames: Sendable {
    /// The first that are not among them.
    var nextName: UInt32 = 0
    var nextKey: UInt32 = 0
    /// By key ordinal; none for those that were lost.
    var keys: [RewardKey] = []
}

/// Names and keys as the names runs have them, looked up one by one; `nil` for what is not there or cannot
/// be read, which is reported elsewhere.
struct NameCopies: Sendable {
    var name: @Sendable (NameOrdinal) -> [UInt8]? = { _ in nil }
    var key: @Sendable (KeyOrdinal) -> RewardKey? = { _ in nil }
}

extension Array {
    /// Sets an element that may lie behind the end, and what lies before it too.
    fileprivate mutating func set(_ value: Element, at index: Int, filling filler: Element) {
        if index >= count {
            append(contentsOf: repeatElement(filler, count: index + 1 - count))
        }
        self[index] = value
    }
}

extension UInt32 {
    fileprivate func saturatingSum(_ other: UInt32) -> UInt32 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}
