// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

extension NameSource {
    /// Up to so many names are read one by one; for more, all of the directory are gone through.
    private static var pointCountMax: Int { 1 << 14 }

    /// Names as they are shown, in bytewise order.
    ///
    /// **Cost** A small read for each of a few names; for many, a pass over all names of the directory. The
    /// memory of the texts.
    /// - Parameter ordinals: ascending; 0 is the business of lost keys.
    func texts(
        of ordinals: [UInt32]
    ) throws(ReaderError) -> [(ordinal: UInt32, text: [UInt8])] {
        if ordinals.count > Self.pointCountMax { return try textsByWalk(ordinals) }
        var texts: [[UInt8]] = []
        for ordinal in ordinals {
            texts.append(try shownBytes(of: NameOrdinal(rawValue: ordinal)))
        }
        var sorted = ordinals.map { (ordinal: $0, text: [UInt8]()) }
        for (index, rank) in NameOrder.ranks(of: texts).enumerated() {
            sorted[Int(rank)] = (ordinals[index], texts[index])
        }
        return sorted
    }

    private func textsByWalk(
        _ ordinals: [UInt32]
    ) throws(ReaderError) -> [(ordinal: UInt32, text: [UInt8])] {
        var isWanted = [Bool](repeating: false, count: Int(nextName))
        for ordinal in ordinals where ordinal < nextName { isWanted[Int(ordinal)] = true }
        var lost = try lostNames().filter { isWanted[Int($0)] }
        if ordinals.first == 0 { lost.append(0) }
        var walk = NameWalk(try makeCursors() + [LostText.cursor(names: lost)])
        var found: [(ordinal: UInt32, text: [UInt8])] = []
        while try walk.next() {
            guard isWanted[Int(walk.number)] else { continue }
            var text: [UInt8] = []
            walk.appendName(to: &text)
            found.append((walk.number, text))
        }
        return found
    }
}

/// The places of a listing's businesses in bytewise order, as they are shown; found when they are first
/// asked for, since most rewards have one. Owned by one query.
///
/// **Cost** That of `NameSource.texts` once; then 4 bytes a name of the directory.
final class BusinessOrder {
    private let names: any NameSource
    private var ranks: [UInt32] = []

    init(_ names: any NameSource) { self.names = names }

    /// The place of one of a listing's businesses among them.
    /// - Parameter all: the businesses of the listing, with repetitions; the same at each call.
    func rank(_ business: UInt32, among all: [UInt32]) throws(ReaderError) -> UInt32 {
        if ranks.isEmpty { try rankAll(all) }
        return ranks[Int(business)]
    }

    private func rankAll(_ all: [UInt32]) throws(ReaderError) {
        ranks = Array(repeating: 0, count: max(1, Int(names.nextName)))
        for business in all { ranks[Int(business)] = 1 }
        let distinct = ranks.indices.filter { ranks[$0] != 0 }.map { UInt32($0) }
        for (rank, entry) in try names.texts(of: distinct).enumerated() {
            ranks[Int(entry.ordinal)] = UInt32(rank)
        }
    }
}

/// The names of businesses that were shown last: most rows have one of few.
struct ShownNames {
    static let slotCount = 4096

    private let names: any NameSource
    private var slots: [(ordinal: UInt32, bytes: [UInt8])]

    init(_ names: any NameSource) {
        self.names = names
        slots = Array(repeating: (UInt32.max, []), count: Self.slotCount)
    }

    mutating func bytes(of ordinal: UInt32) throws(ReaderError) -> [UInt8] {
        let slot = Int(ordinal) % Self.slotCount
        if slots[slot].ordinal != ordinal {
            slots[slot] = (
                ordinal, try names.shownBytes(of: NameOrdinal(rawValue: ordinal))
            )
        }
        return slots[slot].bytes
    }
}

/// All names of a cut in bytewise order: the stored orders of its parts, merged, lost ones left out. Owned by
/// one query.
///
/// **Cost** A batch of names a part, and one more; that of `PageMerge`.
struct NameWalk {
    private var merge: PageMerge<NameBatch, ReaderError>
    private let batch = NameBatch()
    private var place = -1

    /// - Parameter cursors: each in bytewise order; of equal names that of the earlier cursor comes first.
    init(_ cursors: [NameCursor]) { merge = PageMerge(cursors) }

    /// The ordinal or number of the present name.
    /// - Precondition: the last `next` was `true`; of `appendName` too.
    var number: UInt32 { batch.ordinal(place).rawValue }

    /// Adds the bytes of the present name to `bytes`.
    func appendName(to bytes: inout [UInt8]) { batch.appendName(place, to: &bytes) }

    /// Goes to the next name, at first to the first; `false` at the end.
    mutating func next() throws(ReaderError) -> Bool {
        repeat {
            place += 1
            if place >= batch.count {
                guard try merge.next(into: batch) else { return false }
                place = 0
            }
        } while batch.isLost(place)
        return true
    }
}
