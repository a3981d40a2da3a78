// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// A reward-day on which a file and the log differ.
package struct ReconciledDay: Sendable, Equatable {
    package internal(set) var reward: [UInt8] = []
    package internal(set) var business: [UInt8] = []
    package let day: Int32
    package let missingCount: UInt64
    package let unexpectedCount: UInt64

    /// A day without names and counts.
    package init() { self.init(DifferenceGroup(day: 0)) }

    init(_ group: DifferenceGroup) {
        day = group.day
        (missingCount, unexpectedCount) = (group.missingCount, group.unexpectedCount)
    }
}

extension ReconciledDay: Comparable {
    package static func < (a: Self, b: Self) -> Bool {
        if a.reward != b.reward { return a.reward.lexicographicallyPrecedes(b.reward) }
        if a.business != b.business { return a.business.lexicographicallyPrecedes(b.business) }
        return a.day < b.day
    }
}

/// The same before it has names: a key or a line that has them.
struct DifferenceGroup {
    let day: Int32
    var missingCount: UInt64 = 0
    var unexpectedCount: UInt64 = 0
    var key: UInt32?
    var lineOffset: UInt64 = 0
}

/// What differs, by reward, business and day. Owned by one reconciliation.
final class DifferenceList<Scratch: FileSystem> {
    private struct Place: Hashable {
        let reward: UInt64
        let business: UInt64
        let day: Int32
    }

    private static var partCount: Int { 64 }
    /// Of a group with its names.
    private static var groupByteCount: Int { 512 }

    private let spill: Spill<Scratch>
    private let byteCountMax: Int

    init(byteCountMax: Int, in scratch: Scratch) {
        self.byteCountMax = byteCountMax
        spill = Spill(partCount: Self.partCount, byteCountMax: byteCountMax, in: scratch)
    }

    func addMissing(
        _ count: UInt64, business: UInt64, reward: UInt64, day: Int32, lineOffset: UInt64
    ) throws(ReaderError) {
        try add(reward, business, day, [count, 0, lineOffset])
    }

    func addUnexpected(
        business: UInt64, reward: UInt64, day: Int32, key: UInt32
    ) throws(ReaderError) {
        try add(reward, business, day, [0, 1, UInt64(key)])
    }

    private func add(
        _ reward: UInt64, _ business: UInt64, _ day: Int32, _ rest: InlineArray<3, UInt64>
    ) throws(ReaderError) {
        let dayBits = UInt64(bitPattern: Int64(day))
        let hash = SplitMix.finish(SplitMix.finish(business ^ dayBits) ^ reward)
        try spill.append(
            [reward, business, dayBits, rest[0], rest[1], rest[2], 0, 0], hash: hash)
    }

    /// Gives the groups, all at once if they fit the memory, else in parts.
    func forEachGroup(_ body: ([DifferenceGroup]) throws -> Void) throws {
        let areFew = spill.recordCount <= UInt64(byteCountMax / Self.groupByteCount)
        var groups: [Place: DifferenceGroup] = [:]
        for part in 0..<Self.partCount {
            try spill.forEach(in: part) { (record) throws(ReaderError) in
                let day = Int32(truncatingIfNeeded: record[2])
                let place = Place(reward: record[0], business: record[1], day: day)
                var group = groups[place] ?? DifferenceGroup(day: day)
                group.missingCount += record[3]
                group.unexpectedCount += record[4]
                if record[4] > 0 {
                    group.key = UInt32(truncatingIfNeeded: record[5])
                } else {
                    group.lineOffset = record[5]
                }
                groups[place] = group
            }
            if areFew { continue }
            try body(Array(groups.values))
            groups.removeAll(keepingCapacity: true)
        }
        if !groups.isEmpty { try body(Array(groups.values)) }
    }
}
