// packet → [decode] → [ring] → [admit] → [block] → segment → compaction → snapshot → [query]

/// Where an entry's packets came from. The raw value is on disk.
package enum SenderKind: UInt8, Sendable, CaseIterable {
    /// A framed packet that passed its checks: sender id and epoch are known.
    case framed = 0
    /// Plain JSON datagrams; sender and epoch are 0.
    case plain = 1
    /// HTTP requests; sender and epoch are 0.
    case http = 2
    /// Datagrams that failed identity: nothing that they say of themselves is believed.
    case unidentified = 3
}

/// Whose packets: the key of ledger entries and of sequence ranges.
package struct SenderKey: Hashable, Sendable, Comparable {
    package let kind: SenderKind
    package let sender: SenderID
    package let epoch: SenderEpoch
    package init(kind: SenderKind, sender: SenderID, epoch: SenderEpoch) {
        self.kind = kind
        self.sender = sender
        self.epoch = epoch
    }
    package static let plain = SenderKey(
        kind: .plain, sender: SenderID(rawValue: 0), epoch: SenderEpoch(rawValue: 0))
    package static let unidentified = SenderKey(
        kind: .unidentified, sender: SenderID(rawValue: 0), epoch: SenderEpoch(rawValue: 0))
    /// In expired footers: framed senders for which there was no room. No packet of sender 0 is taken.
    package static let others = SenderKey(
        kind: .framed, sender: SenderID(rawValue: 0), epoch: SenderEpoch(rawValue: 0))
    package static func < (a: Self, b: Self) -> Bool {
        (a.kind.rawValue, a.sender.rawValue, a.epoch.rawValue)
            < (b.kind.rawValue, b.sender.rawValue, b.epoch.rawValue)
    }
}

/// What one sender epoch added to the ledger since the previous block (in a block), or over a whole
/// segment (in its footer). A packet's rows, its entry here and its sequence are always in one block.
///
/// Conservation: the sum of `events` is the events decoded.
package struct LedgerEntry: Hashable, Sendable {
    package var key: SenderKey
    /// Packets by `PacketResult`, indexed by its raw value.
    package var packets: [UInt64]
    /// Events by `Verdict`, indexed by its raw value.
    package var events: [UInt64]
    /// Sequences newly admitted: ascending, disjoint, not adjacent, each not empty. Framed senders only.
    package var sequences: [ClosedRange<UInt64>]

    package init(key: SenderKey) {
        self.key = key
        packets = Array(repeating: 0, count: PacketResult.allCases.count)
        events = Array(repeating: 0, count: Verdict.allCases.count)
        sequences = []
    }
}
