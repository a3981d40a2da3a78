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
        let first = UInt32(part) << 29
        for word in attestedNames where UInt32(word >> 32) & 7 << 29 == first {
            sorter.append(word)
        }
        for ordinal in 0..<names.nameEnd {
            guard let hash = names.hash(ofName: ordinal), hash & 7 << 29 == first else { continue }
            sorter.append(UInt64(hash) << 32 | UInt64(ordinal))
        }
        outcome.names = repeats(&sorter) { names.known(name: $0) == names.known(name: $1) }
        sorter.removeAll()
        for ordinal in 0..<names.keyEnd {
            guard let hash = names.hashedKey(ordinal)?.hash, hash & 7 << 29 == first else {
                continue
            }
            sorter.append(UInt64(hash) << 32 | UInt64(ordinal))
        }
        outcome.keys = repeats(&sorter) { names.hashedKey($0)?.key == names.hashedKey($1)?.key }
        return outcome
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
        for found in repeats.names {
            let place = names.introduction(ofName: found.ordinal)
            report.add(
                Finding(
                    .difference, file: place?.file ?? manifest, offset: place?.offset,
                    what: "name \(names.describe(name: found.ordinal)) given twice",
                    got: "ordinal \(found.ordinal)", expected: "ordinal \(found.other)"))
        }
        for found in repeats.keys {
            let place = names.introduction(ofKey: found.ordinal)
            report.add(
                Finding(
                    .difference, file: place?.file ?? manifest, offset: place?.offset,
                    what: "\(names.describe(key: found.ordinal)) given twice",
                    got: "ordinal \(found.ordinal)", expected: "ordinal \(found.other)"))
        }
    }
}
