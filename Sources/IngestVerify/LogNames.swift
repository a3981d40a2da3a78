// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what gives ordinals.
import IngestFormat
import IngestStorage

/// Names and keys that a block introduced: hashes of this process, and where the names' bytes are.
struct IntroducedNames: Sendable {
    /// Of the block in the file.
    let offset: UInt64
    let firstName: UInt32
    /// Of the names, in their order; never 0.
    let hashes: [UInt64]
    let firstKey: UInt32
    let keys: [RewardKey]

    init(offset: UInt64, firstName: UInt32, hashes: [UInt64], firstKey: UInt32, keys: [RewardKey]) {
        self.offset = offset
        self.firstName = firstName
        self.hashes = hashes
        self.firstKey = firstKey
        self.keys = keys
    }

    /// - Parameter hash: `LogNames.hash`.
    init(_ block: DecodedBlock, offset: UInt64, hash: KeyedHash) {
        self.init(
            offset: offset, firstName: block.header.context.firstName.rawValue,
            hashes: (0..<block.names.count).map { max(1, hash.name(block.names.name($0))) },
            firstKey: block.header.context.firstKey.rawValue, keys: block.keys)
    }
}

/// The names and keys as the log itself introduced them, by ordinal. Names are told apart by hashes of 64 bits under a
/// key of this process, so that nobody can make two collide; their bytes are read again where a finding shows them.
///
/// **Cost** 8 bytes a name and a key; about 5 ns for each that is entered.
struct LogNames: Sendable {
    /// A block that introduced names or keys.
    private struct Block: Sendable {
        let segment: SegmentNumber
        let offset: UInt64
        let names: Range<UInt32>
        let keys: Range<UInt32>
    }

    /// What is known of names and keys beside what blocks introduced.
    struct Elsewhere: Sendable {
        /// The first ordinals that are not of expired segments.
        var nextName: UInt32 = 0
        var nextKey: UInt32 = 0
        /// Names and keys as the names runs have them, looked up one by one; `nil` for what is not there or cannot be
        /// read, which is reported elsewhere.
        var name: @Sendable (NameOrdinal) -> [UInt8]? = { _ in nil }
        var key: @Sendable (KeyOrdinal) -> RewardKey? = { _ in nil }
        /// The name that the block at an offset of a segment introduced.
        var nameInBlock: @Sendable (SegmentNumber, UInt64, UInt32) -> [UInt8]? = { _, _, _ in nil }
    }

    private var blocks: [Block] = []
    /// By ordinal; 0 = none.
    private var hashes: [UInt64] = []
    /// By key ordinal; without names for what no block introduced.
    private var keys: [RewardKey] = []
    let hash = KeyedHash(key: InlineArray { _ in UInt8.random(in: 0...255) })
    private let elsewhere: Elsewhere

    private static var noKey: RewardKey { RewardKey(reward: .none, business: .none) }

    init(_ elsewhere: Elsewhere = Elsewhere(), nameCount: Int = 0, keyCount: Int = 0) {
        self.elsewhere = elsewhere
        hashes.reserveCapacity(min(nameCount, Limits.nameCountMax + 1))
        keys.reserveCapacity(min(keyCount, Limits.keyCountMax))
    }

    // MARK: Entering

    /// Enters the names and keys that a block introduced.
    /// - Returns: ordinals that had another name or key before.
    mutating func enter(
        _ new: IntroducedNames, of segment: SegmentNumber
    ) -> (names: [UInt32], keys: [UInt32]) {
        var changed: (names: [UInt32], keys: [UInt32]) = ([], [])
        let names =
            new.firstName..<UInt32(clamping: UInt64(new.firstName) + UInt64(new.hashes.count))
        let keys = new.firstKey..<UInt32(clamping: UInt64(new.firstKey) + UInt64(new.keys.count))
        blocks.append(Block(segment: segment, offset: new.offset, names: names, keys: keys))
        for (ordinal, hash) in zip(names, new.hashes) where ordinal <= Limits.nameCountMax {
            if let known = self.hash(ofName: ordinal), known != hash {
                changed.names.append(ordinal)
            }
            hashes.set(hash, at: Int(ordinal), filling: 0)
        }
        for (ordinal, pair) in zip(keys, new.keys) where ordinal < Limits.keyCountMax {
            if let known = key(ordinal), known != pair { changed.keys.append(ordinal) }
            self.keys.set(pair, at: Int(ordinal), filling: Self.noKey)
        }
        return changed
    }

    /// Enters the names and keys of expired segments. What cannot be read of the run is reported when all of it is.
    /// **Errors** Those that are not of its data.
    mutating func enter(expired run: NamesRunReader<some FileSystem>) throws(StorageError) {
        do throws(StorageError) {
            let batch = NameBatch()
            var cursor = run.makeNameCursor()
            while try cursor.nextNames(into: batch) {
                for place in 0..<batch.count where !batch.name(place).isEmpty {
                    let hash = max(1, hash.name(Array(batch.name(place))))
                    hashes.set(hash, at: Int(batch.ordinal(place).rawValue), filling: 0)
                }
            }
            while keys.count < Int(run.keys.lowerBound) { keys.append(Self.noKey) }
            try run.readKeys(run.keys, to: &keys)
        } catch {
            guard error.isOfData else { throw error }
        }
    }

    // MARK: What the log introduced

    /// The hash of a name; `nil` if no block introduced it.
    func hash(ofName ordinal: UInt32) -> UInt64? {
        Int(ordinal) < hashes.count && hashes[Int(ordinal)] != 0 ? hashes[Int(ordinal)] : nil
    }

    /// `nil` if no block introduced it.
    func key(_ ordinal: UInt32) -> RewardKey? {
        guard Int(ordinal) < keys.count, keys[Int(ordinal)] != Self.noKey else { return nil }
        return keys[Int(ordinal)]
    }

    /// Whether the block that introduced a name has expired.
    func isExpired(name ordinal: UInt32) -> Bool { ordinal < elsewhere.nextName }
    func isExpired(key ordinal: UInt32) -> Bool { ordinal < elsewhere.nextKey }

    // MARK: What is known

    private func pair(ofKey ordinal: UInt32) -> RewardKey? {
        key(ordinal) ?? elsewhere.key(KeyOrdinal(rawValue: ordinal))
    }

    /// The business of a key, from its block or else from a names run; 0 of one that is lost.
    func business(ofKey ordinal: UInt32) -> UInt32 {
        let known = Int(ordinal) < keys.count ? keys[Int(ordinal)].business.rawValue : 0
        let business = known != 0 ? known : pair(ofKey: ordinal)?.business.rawValue ?? 0
        return business <= Limits.nameCountMax ? business : 0
    }

    /// For messages: from its block, or else from a names run.
    func describe(name ordinal: UInt32) -> String {
        let block = blocks.last { $0.names.contains(ordinal) }
        let name =
            block.flatMap { elsewhere.nameInBlock($0.segment, $0.offset, ordinal) }
            ?? elsewhere.name(NameOrdinal(rawValue: ordinal))
        return name.map { String(decoding: $0, as: UTF8.self) } ?? "(lost:\(ordinal))"
    }

    /// For messages.
    func describe(key ordinal: UInt32) -> String {
        guard let pair = pair(ofKey: ordinal) else {
            return "reward (lost:\(ordinal)) business (lost:0)"
        }
        return "reward \(describe(name: pair.reward.rawValue)) "
            + "business \(describe(name: pair.business.rawValue))"
    }

    // MARK: Given twice

    /// How many parts of all hashes are searched by themselves.
    static let partCount = 8

    /// An ordinal, and a smaller one that stands for the same.
    struct Repeat: Sendable, Equatable {
        let ordinal: UInt32
        let other: UInt32
    }

    /// Names and keys that were given more than once, those of expired segments too, by hashes sorted a part at a time.
    ///
    /// **Cost** 8 bytes for each of a part, which is an eighth of them; about 50 ns each.
    func repeats(part: Int) -> (names: [Repeat], keys: [Repeat]) {
        let names = Self.repeats(part, count: hashes.count) { hashes[$0] }
        let pairs = Self.repeats(part, count: keys.count) { ordinal in
            let found = keys[ordinal]
            // Multiplied by an odd number, no two pairs are the same.
            let word = UInt64(found.reward.rawValue) << 32 | UInt64(found.business.rawValue)
            return word &* 0x9E37_79B9_7F4A_7C15
        }
        return (names, pairs)
    }

    /// - Parameter hash: by ordinal; 0 of what is not known.
    private static func repeats(
        _ part: Int, count: Int, hash: (Int) -> UInt64
    ) -> [Repeat] {
        var words: [UInt64] = []
        for ordinal in 0..<count {
            let hash = hash(ordinal)
            if hash != 0 && Int(hash >> 61) == part {
                words.append(hash & ~0xFFFF_FFFF | UInt64(ordinal))
            }
        }
        // Sorted are only those that share a flag with another, of 8 for each: few.
        let shift = UInt64(max(35, (words.count | 1).leadingZeroBitCount - 3))
        func flag(_ word: UInt64) -> Int { Int((word &<< 3) &>> shift) }
        var once = [Bool](repeating: false, count: flag(.max) + 1)
        var twice = once
        for word in words {
            twice[flag(word)] = once[flag(word)]
            once[flag(word)] = true
        }
        words = words.filter { twice[flag($0)] }
        words.sort()
        var (found, first): ([Repeat], Int) = ([], 0)
        for index in words.indices {
            if words[index] >> 32 != words[first] >> 32 { first = index }
            let ordinal = Int(words[index] & 0xFFFF_FFFF)
            let other = words[first..<index].lazy.map { Int($0 & 0xFFFF_FFFF) }
                .first { hash($0) == hash(ordinal) }
            if let other { found.append(Repeat(ordinal: UInt32(ordinal), other: UInt32(other))) }
        }
        return found
    }

    /// The last block that introduced a name or a key, and where it lies; `nil` if none did.
    func introduction(
        ofName name: UInt32? = nil, ofKey key: UInt32? = nil
    ) -> (file: String, offset: UInt64)? {
        let block = blocks.last { block in
            name.map { block.names.contains($0) } ?? key.map { block.keys.contains($0) } ?? false
        }
        return block.map { (FileName.segment($0.segment).text, $0.offset) }
    }
}

extension VerifyReport {
    /// Reports names and keys that were given more than once.
    /// - Parameter manifest: named where no block is that introduced it.
    mutating func add(
        _ repeats: (names: [LogNames.Repeat], keys: [LogNames.Repeat]), _ names: LogNames,
        manifest: String
    ) {
        func report(
            _ found: [LogNames.Repeat], _ what: (UInt32) -> String,
            _ place: (UInt32) -> (file: String, offset: UInt64)?
        ) {
            for found in found.sorted(by: { ($0.ordinal, $0.other) < ($1.ordinal, $1.other) }) {
                let place = place(found.ordinal)
                add(
                    .difference, "\(what(found.ordinal)) given twice", in: place?.file ?? manifest,
                    at: place?.offset, got: "ordinal \(found.ordinal)",
                    expected: "ordinal \(found.other)")
            }
        }
        report(repeats.names, { "name \(names.describe(name: $0))" }) {
            names.introduction(ofName: $0)
        }
        report(repeats.keys, { names.describe(key: $0) }) { names.introduction(ofKey: $0) }
    }
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
