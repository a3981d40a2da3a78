// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// What a stretch of the log adds up to, over all senders and keys: rows, packets by result, events by
/// verdict. A manifest holds them, so that nobody reads every footer for four numbers.
///
/// A sum that would not fit 64 bits stays at the largest value, as in `LedgerSum`.
package struct LogTotals: Hashable, Sendable {
    package var rowCount: UInt64 = 0
    /// Packets by `PacketResult`, indexed by its raw value.
    package private(set) var packets = [UInt64](repeating: 0, count: Self.packetCodeCount)
    /// Events by `Verdict`, indexed by its raw value.
    package private(set) var events = [UInt64](repeating: 0, count: Self.eventCodeCount)

    package static let packetCodeCount = PacketResult.allCases.count
    package static let eventCodeCount = Verdict.allCases.count

    package init() {}

    init(rowCount: UInt64, packets: [UInt64], events: [UInt64]) {
        self.rowCount = rowCount
        self.packets = packets
        self.events = events
    }

    /// Of a sealed segment, as its footer says.
    package init(_ footer: SegmentFooter) {
        rowCount = footer.rowCount
        add(footer.ledger)
    }

    package mutating func add(_ entries: [LedgerEntry]) {
        for entry in entries {
            Self.add(entry.packets, to: &packets)
            Self.add(entry.events, to: &events)
        }
    }

    package mutating func add(_ other: LogTotals) {
        Self.add(other.rowCount, to: &rowCount)
        Self.add(other.packets, to: &packets)
        Self.add(other.events, to: &events)
    }

    private static func add(_ counts: [UInt64], to sums: inout [UInt64]) {
        for (code, count) in counts.enumerated() where code < sums.count {
            add(count, to: &sums[code])
        }
    }

    private static func add(_ count: UInt64, to sum: inout UInt64) {
        let (whole, overflow) = sum.addingReportingOverflow(count)
        sum = overflow ? .max : whole
    }
}
