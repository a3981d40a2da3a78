// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what gives ordinals.

import IngestFormat

/// Finds names and keys that were given more than once, by hashes sorted a part at a time; those of expired segments too.
///
/// **Cost** 16 bytes for each of a part, which is an eighth of them; about 20 ns each.
struct RepeatSearch: Sendable {
    static let partCount = 8

    let names: RecountNames
    /// Of names of expired segments: hash in the upper half, ordinal in the lower.
    let attestedNames: [UInt64]

    /// An ordinal, and a smaller one that stands for the same.
    struct Repeat: Sendable, Equatable {
        let ordinal: UInt32
        let other: UInt32
    }

    /// What comes of a part of all hashes.
    struct Outcome: Sendable {
        var names: [Repeat] = []
        var keys: [Repeat] = []
    }

    /// - Parameter part: below `partCount`; on any thread.
    func run(part: Int) -> Outcome {
        var outcome = Outcome()
        var sorter = WordSorter()
        for word in attestedNames where Self.part(of: UInt32(word >> 32)) == part {
            sorter.append(word)
        }
        append(to: &sorter, part, below: names.nameEnd) { names.hash(ofName: $0) }
        outcome.names = repeats(&sorter) { names.known(name: $0) == names.known(name: $1) }
        sorter.removeAll()
        append(to: &sorter, part, below: names.keyEnd) { names.hashedKey($0)?.hash }
        outcome.keys = repeats(&sorter) { names.hashedKey($0)?.key == names.hashedKey($1)?.key }
        return outcome
    }

    /// By the highest bits: the others are sorted by.
    private static func part(of hash: UInt32) -> Int { Int(hash >> 29) }

    /// Appends the ordinals whose hash is of a part: the hash in the upper half, the ordinal in the lower.
    private func append(
        to sorter: inout WordSorter, _ part: Int, below end: UInt32, hash: (UInt32) -> UInt32?
    ) {
        for ordinal in 0..<end {
            guard let hash = hash(ordinal), Self.part(of: hash) == part else { continue }
            sorter.append(UInt64(hash) << 32 | UInt64(ordinal))
        }
    }

    /// Ordinals of one hash that stand for the same, by ordinal.
    private func repeats(
        _ sorter: inout WordSorter, isSame: (UInt32, UInt32) -> Bool
    ) -> [Repeat] {
        sorter.sort(bitsFrom: 32, width: 29)
        var found: [Repeat] = []
        /// Those of the hash at hand, one for each that they stand for.
        var others: [UInt32] = []
        var last: UInt32?
        sorter.forEach { word in
            let (hash, ordinal) = (UInt32(word >> 32), UInt32(truncatingIfNeeded: word))
            if hash != last { others.removeAll(keepingCapacity: true) }
            last = hash
            if let other = others.first(where: { $0 != ordinal && isSame($0, ordinal) }) {
                let (least, most) = (min(other, ordinal), max(other, ordinal))
                found.append(Repeat(ordinal: most, other: least))
            } else if !others.contains(ordinal) {
                others.append(ordinal)
            }
        }
        return found.sorted { ($0.ordinal, $0.other) < ($1.ordinal, $1.other) }
    }
}

extension LogRecount {
    /// Reports names and keys that were given more than once.
    /// - Parameter manifest: named where no block is that introduced it.
    mutating func take(_ repeats: RepeatSearch.Outcome, _ manifest: String) {
        let names = names
        take(repeats.names, manifest, names.introduction(ofName:)) {
            "name \(names.describe(name: $0))"
        }
        take(repeats.keys, manifest, names.introduction(ofKey:)) { names.describe(key: $0) }
    }

    private mutating func take(
        _ repeats: [RepeatSearch.Repeat], _ manifest: String,
        _ introduction: (UInt32) -> (file: String, offset: UInt64)?,
        describe: (UInt32) -> String
    ) {
        for found in repeats {
            let place = introduction(found.ordinal)
            report.add(
                Finding(
                    .difference, file: place?.file ?? manifest, offset: place?.offset,
                    what: "\(describe(found.ordinal)) given twice",
                    got: "ordinal \(found.ordinal)", expected: "ordinal \(found.other)"))
        }
    }
}
