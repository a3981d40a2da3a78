// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what sums ledgers and money for manifests.

import IngestFormat

/// What blocks add up to over all senders and keys: rows, packets by result, events by verdict. A sum that does
/// not fit stays at the largest value, as a manifest's does.
struct TotalsRecount: Sendable {
    private(set) var rowCount: UInt64 = 0
    private(set) var packets = [UInt64](repeating: 0, count: PacketResult.allCases.count)
    private(set) var events = [UInt64](repeating: 0, count: Verdict.allCases.count)

    /// Adds a block's.
    mutating func add(_ ledger: [LedgerEntry], rowCount: UInt64) {
        self.rowCount = self.rowCount.saturatingSum(rowCount)
        for entry in ledger {
            Self.add(entry.packets, to: &packets)
            Self.add(entry.events, to: &events)
        }
    }

    mutating func add(_ other: TotalsRecount) {
        rowCount = rowCount.saturatingSum(other.rowCount)
        Self.add(other.packets, to: &packets)
        Self.add(other.events, to: &events)
    }

    private static func add(_ counts: [UInt64], to sums: inout [UInt64]) {
        for (code, count) in counts.enumerated() where code < sums.count {
            sums[code] = sums[code].saturatingSum(count)
        }
    }

    /// In what a manifest's totals are others, as text; `nil` if in nothing.
    func difference(from totals: LogTotals) -> (what: String, got: String, expected: String)? {
        if totals.rowCount != rowCount { return ("rows", "\(totals.rowCount)", "\(rowCount)") }
        for result in PacketResult.allCases {
            let code = Int(result.rawValue)
            if totals.packets[code] != packets[code] {
                return ("packets \(result.name)", "\(totals.packets[code])", "\(packets[code])")
            }
        }
        for verdict in Verdict.allCases {
            let code = Int(verdict.rawValue)
            if totals.events[code] != events[code] {
                return ("events \(verdict.name)", "\(totals.events[code])", "\(events[code])")
            }
        }
        return nil
    }
}
