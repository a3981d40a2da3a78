// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what sums ledgers for footers.

import IngestFormat

/// Ledger entries of a segment's blocks, summed by sender, and held against rows and footer.
struct LedgerRecount {
    private struct Sum {
        var packets: [UInt64]
        var events: [UInt64]
        /// Joined where they touch in the order in which they come.
        var sequences: [ClosedRange<UInt64>]

        init(_ entry: LedgerEntry) {
            packets = entry.packets
            events = entry.events
            sequences = entry.sequences
        }

        mutating func add(_ entry: LedgerEntry) {
            for index in packets.indices where index < entry.packets.count {
                packets[index] = packets[index].saturatingSum(entry.packets[index])
            }
            for index in events.indices where index < entry.events.count {
                events[index] = events[index].saturatingSum(entry.events[index])
            }
            for range in entry.sequences {
                if let last = sequences.last, last.upperBound < range.lowerBound,
                    last.upperBound + 1 == range.lowerBound
                {
                    sequences[sequences.count - 1] = last.lowerBound...range.upperBound
                } else {
                    sequences.append(range)
                }
            }
        }
    }

    private var sums: [SenderKey: Sum] = [:]

    /// Adds the sums of blocks behind those so far.
    mutating func add(_ other: LedgerRecount) {
        add(
            other.sums.map { key, sum in
                var entry = LedgerEntry(key: key)
                entry.packets = sum.packets
                entry.events = sum.events
                entry.sequences = sum.sequences
                return entry
            })
    }

    mutating func add(_ entries: [LedgerEntry]) {
        for entry in entries {
            if sums[entry.key] == nil {
                sums[entry.key] = Sum(entry)
            } else {
                sums[entry.key]?.add(entry)
            }
        }
    }

    /// What is wrong between the events of one block's ledger and its rows: the events of each verdict are
    /// its rows, but that opted-out and malformed events have none.
    static func differences(
        between entries: [LedgerEntry], and rows: [UInt64]
    ) -> [(what: String, got: UInt64, expected: UInt64)] {
        var found: [(what: String, got: UInt64, expected: UInt64)] = []
        for verdict in Verdict.allCases {
            let index = Int(verdict.rawValue)
            let counted = entries.reduce(UInt64(0)) {
                $0.saturatingSum(index < $1.events.count ? $1.events[index] : 0)
            }
            let isWrong =
                switch verdict {
                case .malformed: rows[index] != 0
                case .noConsent: counted < rows[index]
                default: counted != rows[index]
                }
            if isWrong { found.append((verdict.name, counted, rows[index])) }
        }
        return found
    }

    /// What is wrong in a footer's ledger, as text; `nil` if nothing is.
    func difference(from footer: [LedgerEntry]) -> (what: String, got: String, expected: String)? {
        guard footer.count == sums.count else {
            return ("senders in the ledger", "\(footer.count)", "\(sums.count)")
        }
        for entry in footer {
            let sender = "ledger of \(entry.key.kind) sender \(entry.key.sender.rawValue)"
            guard let sum = sums[entry.key] else { return (sender, "an entry", "none") }
            if entry.packets != sum.packets {
                return ("\(sender): packets", "\(entry.packets)", "\(sum.packets)")
            }
            if entry.events != sum.events {
                return ("\(sender): events", "\(entry.events)", "\(sum.events)")
            }
            let sequences = Self.union(sum.sequences)
            if Self.union(entry.sequences) != sequences {
                return ("\(sender): sequences", "\(entry.sequences)", "\(sequences)")
            }
        }
        return nil
    }

    /// The same numbers as ascending ranges that do not touch.
    private static func union(_ ranges: [ClosedRange<UInt64>]) -> [ClosedRange<UInt64>] {
        var united: [ClosedRange<UInt64>] = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = united.last,
                last.upperBound == .max || range.lowerBound <= last.upperBound + 1
            {
                united[united.count - 1] =
                    last.lowerBound...Swift.max(last.upperBound, range.upperBound)
            } else {
                united.append(range)
            }
        }
        return united
    }
}
