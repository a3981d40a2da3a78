// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what gives ordinals.
import IngestFormat
import IngestStorage

/// What has ordinals: names, and keys, which are pairs of names.
enum NameKind: Int, Sendable, CaseIterable {
    case name, key
}

/// Names and keys that a block introduced, as words (`NameWords`).
struct IntroducedNames: Sendable {
    /// Of the block in the file.
    let offset: UInt64
    let names: (first: UInt32, words: [UInt64])
    let keys: (first: UInt32, words: [UInt64])
}

extension IntroducedNames {
    /// - Parameter hash: `LogNames.hash`.
    init(_ block: DecodedBlock, offset: UInt64, hash: KeyedHash) {
        let context = block.header.context
        let hashes = (0..<block.names.count).map { max(1, hash.name(block.names.name($0))) }
        self.init(
            offset: offset, names: (context.firstName.rawValue, hashes),
            keys: (context.firstKey.rawValue, block.keys.map(\.word)))
    }
}

extension RewardKey {
    /// The reward in the upper half; 0 of a key that was lost.
    var word: UInt64 { UInt64(reward.rawValue) << 32 | UInt64(business.rawValue) }
}

/// What was given to the ordinals of one kind, as words: of a name its hash, of a key `RewardKey.word`; 0 = none.
///
/// **Cost** 8 bytes an ordinal.
struct NameWords: Sendable {
    /// The first ordinal that was not given in an expired segment.
    var next: UInt32 = 0
    /// As blocks introduced them, or the names runs of expired segments have them.
    private var words: [UInt64] = []
    private let countMax: Int

    /// - Parameter count: room is made for so many.
    init(countMax: Int, count: Int) {
        self.countMax = countMax
        words.reserveCapacity(min(count, countMax))
    }

    /// What was given to an ordinal.
    subscript(_ ordinal: UInt32) -> UInt64 {
        Int(ordinal) < words.count ? words[Int(ordinal)] : 0
    }

    /// Enters what a block introduced; ordinals that nothing can have are left out.
    /// - Returns: ordinals that were given to another before.
    mutating func enter(_ new: (first: UInt32, words: [UInt64])) -> [UInt32] {
        var changed: [UInt32] = []
        for (ordinal, word) in zip(Int(new.first)..., new.words) where ordinal < countMax {
            let known = self[UInt32(ordinal)]
            if known != 0 && known != word { changed.append(UInt32(ordinal)) }
            set(word, at: UInt32(ordinal))
        }
        return changed
    }

    /// - Parameter ordinal: one that there can be.
    mutating func set(_ word: UInt64, at ordinal: UInt32) {
        let index = Int(ordinal)
        if index >= words.count {
            words.append(contentsOf: repeatElement(0, count: index + 1 - words.count))
        }
        words[index] = word
    }

    // MARK: Given twice

    /// How many parts of all words are searched by themselves.
    static let partCount = 8

    /// An ordinal, and a smaller one that stands for the same.
    struct Repeat: Sendable, Equatable {
        let ordinal: UInt32
        let other: UInt32
    }

    /// What was given more than once, in expired segments too, by words sorted a part at a time.
    ///
    /// **Cost** 8 bytes for each of a part, which is an eighth of them; about 50 ns each.
    func repeats(part: Int) -> [Repeat] {
        // Multiplied by an odd number, no two words are the same, and those of keys are spread as hashes are.
        func spread(_ ordinal: Int) -> UInt64 { words[ordinal] &* 0x9E37_79B9_7F4A_7C15 }
        var found: [UInt64] = []
        for ordinal in words.indices {
            let word = spread(ordinal)
            if word != 0 && Int(word >> 61) == part {
                found.append(word & ~0xFFFF_FFFF | UInt64(ordinal))
            }
        }
        // Sorted are only those that share a flag with another, of 8 for each: few.
        let shift = UInt64(max(35, (found.count | 1).leadingZeroBitCount - 3))
        func flag(_ word: UInt64) -> Int { Int((word &<< 3) &>> shift) }
        var once = [Bool](repeating: false, count: flag(.max) + 1)
        var twice = once
        for word in found {
            twice[flag(word)] = once[flag(word)]
            once[flag(word)] = true
        }
        found = found.filter { twice[flag($0)] }.sorted()
        var (repeats, first): ([Repeat], Int) = ([], 0)
        for index in found.indices {
            if found[index] >> 32 != found[first] >> 32 { first = index }
            let ordinal = Int(found[index] & 0xFFFF_FFFF)
            let other = found[first..<index].lazy.map { Int($0 & 0xFFFF_FFFF) }
                .first { spread($0) == spread(ordinal) }
            if let other {
                repeats.append(Repeat(ordinal: UInt32(ordinal), other: UInt32(other)))
            }
        }
        return repeats
    }
}

/// The names and keys as the log itself introduced them, by ordinal. Names are told apart by hashes of 64 bits under a
/// key of this process, so that nobody can make two collide; their bytes are read again where a finding shows them.
struct LogNames: Sendable {
    /// A block that introduced names or keys.
    private struct Block: Sendable {
        let segment: SegmentNumber
        let offset: UInt64
        let names: Range<UInt32>
        let keys: Range<UInt32>
    }

    /// Where names and keys are looked up one by one; `nil` for what is not there or cannot be read, which is reported
    /// elsewhere.
    struct Lookup: Sendable {
        /// In the names runs.
        var name: @Sendable (NameOrdinal) -> [UInt8]? = { _ in nil }
        var key: @Sendable (KeyOrdinal) -> RewardKey? = { _ in nil }
        /// Of those that the block at an offset of a segment introduced.
        var nameInBlock: @Sendable (SegmentNumber, UInt64, UInt32) -> [UInt8]? = { _, _, _ in nil }
    }

    let hash = KeyedHash(key: InlineArray { _ in UInt8.random(in: 0...255) })
    private let lookup: Lookup
    private var blocks: [Block] = []
    var names: NameWords
    var keys: NameWords

    init(_ lookup: Lookup = Lookup(), nameCount: Int = 0, keyCount: Int = 0) {
        self.lookup = lookup
        names = NameWords(countMax: Limits.nameCountMax + 1, count: nameCount)
        keys = NameWords(countMax: Limits.keyCountMax, count: keyCount)
    }

    subscript(_ kind: NameKind) -> NameWords { kind == .name ? names : keys }

    /// Enters what a block introduced.
    /// - Returns: ordinals that were given to another before.
    mutating func enter(
        _ new: IntroducedNames, of segment: SegmentNumber
    ) -> (names: [UInt32], keys: [UInt32]) {
        func range(_ part: (first: UInt32, words: [UInt64])) -> Range<UInt32> {
            part.first..<UInt32(clamping: Int(part.first) + part.words.count)
        }
        blocks.append(
            Block(
                segment: segment, offset: new.offset, names: range(new.names),
                keys: range(new.keys)))
        return (names.enter(new.names), keys.enter(new.keys))
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
                    names.set(hash, at: batch.ordinal(place).rawValue)
                }
            }
            var pairs: [RewardKey] = []
            try run.readKeys(run.keys, to: &pairs)
            for (ordinal, pair) in zip(run.keys, pairs) { keys.set(pair.word, at: ordinal) }
        } catch {
            guard error.isOfData else { throw error }
        }
    }

    // MARK: What is known

    private func word(ofKey ordinal: UInt32) -> UInt64 {
        let word = keys[ordinal]
        return word != 0 ? word : lookup.key(KeyOrdinal(rawValue: ordinal))?.word ?? 0
    }

    /// The business of a key, from its block or else from a names run; 0 of one that is lost.
    func business(ofKey ordinal: UInt32) -> UInt32 {
        let business = UInt32(truncatingIfNeeded: word(ofKey: ordinal))
        return business <= Limits.nameCountMax ? business : 0
    }

    /// For messages: from its block, or else from a names run.
    func describe(_ kind: NameKind, _ ordinal: UInt32) -> String {
        if kind == .key {
            let word = word(ofKey: ordinal)
            let reward = word == 0 ? "(lost:\(ordinal))" : describe(.name, UInt32(word >> 32))
            let business = UInt32(truncatingIfNeeded: word)
            return "reward \(reward) business "
                + (business == 0 ? "(lost:0)" : describe(.name, business))
        }
        if ordinal == Attribution.other { return "(other)" }
        let block = blocks.last { $0.names.contains(ordinal) }
        let name =
            block.flatMap { lookup.nameInBlock($0.segment, $0.offset, ordinal) }
            ?? lookup.name(NameOrdinal(rawValue: ordinal))
        return name.map { String(decoding: $0, as: UTF8.self) } ?? "(lost:\(ordinal))"
    }

    /// The last block that introduced a name or a key, and where it lies; `nil` if none did.
    func introduction(of kind: NameKind, _ ordinal: UInt32) -> (file: String, offset: UInt64)? {
        blocks.last { (kind == .name ? $0.names : $0.keys).contains(ordinal) }
            .map { (FileName.segment($0.segment).text, $0.offset) }
    }
}
