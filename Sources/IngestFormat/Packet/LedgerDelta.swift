// packet → [decode] → [ring] → [admit] → [block] → segment → compaction → snapshot → [query]

/// Where an entry's packets came from. The raw value is on disk.
package enum SenderKind: UInt8, Sendable, CaseIterable {
    /// A framed packet that passed its checks: sender id and epoch are known.
    case framed = 0
    /// Plain JSON datagrams; sender and epoch are 0.
    case plain = 1
    /// HTTP requests; sender and epoch are 0.
    case http = 2
    /// Datagrams that failed identity: their sender is unknown.
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
    /// In expired runs: framed senders for which there was no room. No packet of sender 0 is taken.
    package static let others = SenderKey(
        kind: .framed, sender: SenderID(rawValue: 0), epoch: SenderEpoch(rawValue: 0))
    // Not the one that is made for it, which compares each part by a call through its protocol.
    @inlinable package static func == (a: Self, b: Self) -> Bool {
        a.sender.rawValue == b.sender.rawValue && a.epoch.rawValue == b.epoch.rawValue
            && a.kind.rawValue == b.kind.rawValue
    }
    package static func < (a: Self, b: Self) -> Bool {
        (a.kind.rawValue, a.sender.rawValue, a.epoch.rawValue)
            < (b.kind.rawValue, b.sender.rawValue, b.epoch.rawValue)
    }
}

extension SenderKey: CustomStringConvertible {
    package var description: String {
        switch kind {
        case .framed where self == .others: "other senders"
        case .framed: "sender \(sender.rawValue) epoch \(epoch.rawValue)"
        default: "\(kind) senders"
        }
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
    /// 16 bits of the bytes of each packet in `sequences`, in their order; none in sums, and in rewritten blocks.
    package var checks: [UInt16] = []
    /// What else happened to the sender's window. Framed senders only.
    package var window = WindowDelta()
    /// Admission times of the first and the last block with an entry of this sender, µs since 1970. Only in
    /// sums: a block's own entries are as old as the block.
    package var seen: ClosedRange<Int64>?

    package init(key: SenderKey) {
        self.key = key
        packets = Array(repeating: 0, count: PacketResult.allCases.count)
        events = Array(repeating: 0, count: Verdict.allCases.count)
        sequences = []
    }

    /// Widens `seen`.
    package mutating func see(_ time: ClosedRange<Int64>?) {
        guard let time else { return }
        let first = min(time.lowerBound, seen?.lowerBound ?? time.lowerBound)
        seen = first...max(time.upperBound, seen?.upperBound ?? time.upperBound)
    }
}

/// What a block, or the blocks of a segment, did to the window of a sender epoch beside the sequences that
/// arrived. Together they make the window again: `SenderWindow.apply`.
package struct WindowDelta: Hashable, Sendable {
    /// Where a window that was opened begins: sequences below it are not counted.
    package var start: UInt64?
    /// Of the tag under which a window was opened; 0 = none. Only with `start`.
    package var keyID: UInt16 = 0
    /// How far the floor was taken up over sequences that had not arrived.
    package var floor: UInt64?
    /// One more than the highest sequence that a heartbeat told of, where none that arrived was as high.
    package var announced: UInt64?
    /// Sequences that the floor passed before they came.
    package var missingCount: UInt64 = 0
    /// Whether the sender's packets ask for acks, where its first batch came and decided that.
    package var asksForAcks: Bool?
    /// Whether the window was closed for good: none of its packets is taken any more.
    package var isExpired = false

    package init() {}

    /// Whether it says anything that must be durable before an ack says it.
    package var movesFloor: Bool { start != nil || floor != nil || isExpired }

    /// Adds what happened later.
    package mutating func add(_ later: WindowDelta) {
        if start == nil { (start, keyID) = (later.start, later.keyID) }
        floor = Self.greater(floor, later.floor)
        announced = Self.greater(announced, later.announced)
        let (sum, overflow) = missingCount.addingReportingOverflow(later.missingCount)
        missingCount = overflow ? .max : sum
        asksForAcks = asksForAcks ?? later.asksForAcks
        isExpired = isExpired || later.isExpired
    }

    private static func greater(_ a: UInt64?, _ b: UInt64?) -> UInt64? {
        guard let a, let b else { return a ?? b }
        return max(a, b)
    }
}

/// The sequences of one sender as ranges, whatever order they come in.
///
/// A sender may be hostile, or its packets only reordered, so a single range never searches or shifts the list: what does
/// not go on at its end is put behind it, and all are merged once there are twice as many as the last time.
///
/// **Cost** A compare for a range that goes on at the end; O(log n) for any other, spread over the merges.
/// At most twice the memory of the ranges.
package struct SequenceSet: Sendable {
    private static let mergeCountMin = 64

    private var unmerged: [ClosedRange<UInt64>] = []
    private var mergeCount = mergeCountMin

    package init() {}

    /// All sequences: ascending, disjoint, not adjacent.
    package var ranges: [ClosedRange<UInt64>] { Self.merged(unmerged) }

    package mutating func insert(_ range: ClosedRange<UInt64>) {
        Self.append(range, to: &unmerged)
        guard unmerged.count >= mergeCount else { return }
        unmerged = ranges
        mergeCount = max(Self.mergeCountMin, 2 * unmerged.count)
    }

    /// The same sequences: ascending, disjoint, not adjacent.
    package static func merged(_ ranges: [ClosedRange<UInt64>]) -> [ClosedRange<UInt64>] {
        var result: [ClosedRange<UInt64>] = []
        result.reserveCapacity(ranges.count)
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            append(range, to: &result)
        }
        return result
    }

    /// Puts a range behind the last one, or joins the two where it begins no earlier and they meet.
    package static func append(
        _ range: ClosedRange<UInt64>, to ranges: inout [ClosedRange<UInt64>]
    ) {
        guard let last = ranges.last, range.lowerBound >= last.lowerBound,
            last.upperBound >= range.lowerBound || range.lowerBound - last.upperBound == 1
        else {
            ranges.append(range)
            return
        }
        ranges[ranges.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
    }
}
