// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what sums ledgers for footers and manifests, nor with the laws as the daemon
// checks them.
import IngestFormat

/// In what two numbers differ, as text.
typealias Difference = (what: String, got: String, expected: String)

/// Ledger entries of blocks, summed by sender, and held against the footer's.
///
/// **Cost** A dictionary look-up an entry; memory for the sums of each sender and 16 bytes a sequence range.
struct LedgerRecount: Sendable {
    /// What some entries of a sender say of its window beside the sequences that arrived, and their times.
    struct WindowSum {
        var delta = WindowDelta()
        var seen: ClosedRange<Int64>?

        mutating func add(_ later: WindowSum) {
            let (a, b) = (delta, later.delta)
            if a.start == nil { delta.start = b.start }
            if b.floor ?? 0 >= a.floor ?? 0 { delta.floor = b.floor ?? a.floor }
            if b.announced ?? 0 >= a.announced ?? 0 { delta.announced = b.announced ?? a.announced }
            delta.missingCount = a.missingCount.saturatingSum(b.missingCount)
            if a.asksForAcks == nil { delta.asksForAcks = b.asksForAcks }
            if b.isExpired { delta.isExpired = true }
            guard let times = later.seen else { return }
            guard let known = seen else {
                seen = times
                return
            }
            seen =
                min(known.lowerBound, times.lowerBound)...max(known.upperBound, times.upperBound)
        }
    }

    /// All entries of a sender.
    struct Sum {
        fileprivate(set) var packets: [UInt64]
        fileprivate var events: [UInt64]
        fileprivate(set) var sequences: RangeSet
        /// Where the window begins if it was not open: what the first entry says that says it.
        private(set) var begin: UInt64?
        /// Of the entries before that one: only a window that was open takes them.
        private(set) var lead = WindowSum()
        private(set) var rest = WindowSum()

        fileprivate init(_ entry: LedgerEntry, seen: ClosedRange<Int64>?) {
            packets = entry.packets
            events = entry.events
            sequences = RangeSet(entry.sequences)
            let first = entry.sequences.first?.lowerBound
            // A sequence of a window whose opening was lost: it begins a window below.
            begin =
                entry.window.start
                ?? first.map { $0 - min($0, UInt64(Limits.windowSequenceCountMax) - 1) }
            let window = WindowSum(delta: entry.window, seen: seen)
            if begin == nil { lead = window } else { rest = window }
        }

        /// All entries together.
        var window: WindowSum {
            var sum = lead
            sum.add(rest)
            return sum
        }

        /// Packets that were consumed: also those of which nothing could be read, whose sequence is acked all the same.
        var consumedCount: UInt64 {
            packets[Int(PacketResult.accepted.rawValue)].saturatingSum(
                packets[Int(PacketResult.malformed.rawValue)])
        }

        fileprivate mutating func add(_ later: Sum) {
            LedgerRecount.add(later.packets, to: &packets)
            LedgerRecount.add(later.events, to: &events)
            for range in later.sequences.ranges { sequences.insert(range) }
            if begin == nil {
                lead.add(later.lead)
                begin = later.begin
            } else {
                rest.add(later.lead)
            }
            rest.add(later.rest)
        }

        /// What is wrong in a footer's entry.
        fileprivate func difference(from entry: LedgerEntry) -> Difference? {
            if entry.packets != packets { return ("packets", "\(entry.packets)", "\(packets)") }
            if entry.events != events { return ("events", "\(entry.events)", "\(events)") }
            if RangeSet(entry.sequences) != sequences {
                return ("sequences", "\(entry.sequences)", "\(sequences.ranges)")
            }
            let window = window
            if entry.window != window.delta {
                return ("window", "\(entry.window)", "\(window.delta)")
            }
            return entry.seen == window.seen
                ? nil
                : ("times", timesText(entry.seen), timesText(window.seen))
        }

        private func timesText(_ times: ClosedRange<Int64>?) -> String {
            times.map { "\($0.lowerBound) to \($0.upperBound)" } ?? "none"
        }
    }

    private(set) var sums: [SenderKey: Sum] = [:]
    /// Senders whose windows were closed, in the order in which they were.
    private(set) var closed: [SenderKey] = []

    fileprivate static func add(_ counts: [UInt64], to sums: inout [UInt64]) {
        for index in sums.indices where index < counts.count {
            sums[index] = sums[index].saturatingSum(counts[index])
        }
    }

    /// Adds what a block says.
    /// - Parameter time: of its admission; `nil` for sums, which have times of their own.
    mutating func add(_ entries: [LedgerEntry], at time: Int64?) {
        for entry in entries {
            let later = Sum(entry, seen: time.map { $0...$0 } ?? entry.seen)
            if sums[entry.key]?.add(later) == nil { sums[entry.key] = later }
            if entry.window.isExpired { closed.append(entry.key) }
        }
    }

    /// What is wrong in a footer's ledger; `nil` if nothing is.
    func difference(from footer: [LedgerEntry]) -> Difference? {
        guard footer.count == sums.count else {
            return ("senders in the ledger", "\(footer.count)", "\(sums.count)")
        }
        for entry in footer {
            let ledger = "ledger of \(entry.key.text)"
            guard let sum = sums[entry.key] else { return (ledger, "an entry", "none") }
            if let found = sum.difference(from: entry) {
                return ("\(ledger): \(found.what)", found.got, found.expected)
            }
        }
        return nil
    }
}

/// What blocks add up to over all senders and keys: rows, packets by result, events by verdict. A sum that does
/// not fit stays at the largest value, as a manifest's does.
struct TotalsRecount: Sendable {
    private(set) var rowCount: UInt64 = 0
    private(set) var packets = [UInt64](repeating: 0, count: PacketResult.allCases.count)
    private(set) var events = [UInt64](repeating: 0, count: Verdict.allCases.count)

    init() {}

    /// Of a segment, or of a stretch of the log.
    init(_ ledger: LedgerRecount, rowCount: UInt64) {
        self.rowCount = rowCount
        for sum in ledger.sums.values {
            LedgerRecount.add(sum.packets, to: &packets)
            LedgerRecount.add(sum.events, to: &events)
        }
    }

    mutating func add(_ other: TotalsRecount) {
        rowCount = rowCount.saturatingSum(other.rowCount)
        LedgerRecount.add(other.packets, to: &packets)
        LedgerRecount.add(other.events, to: &events)
    }

    /// In what a manifest's totals are others; `nil` if in nothing.
    func difference(from totals: LogTotals) -> Difference? {
        if totals.rowCount != rowCount { return ("rows", "\(totals.rowCount)", "\(rowCount)") }
        let lists = [
            ("packets", PacketResult.allCases.map(\.name), totals.packets, packets),
            ("events", Verdict.allCases.map(\.name), totals.events, events),
        ]
        for (kind, names, found, wanted) in lists {
            for (name, (got, expected)) in zip(names, zip(found, wanted)) where got != expected {
                return ("\(kind) \(name)", "\(got)", "\(expected)")
            }
        }
        return nil
    }
}

/// What became of the events of a block, by the ledger and by the rows.
///
/// The law: each event that was decoded is of one verdict, and is a row with that verdict, but that malformed ones have
/// none and of those without consent only some do. Events come with packets that were accepted.
enum EventBalance {
    /// In what the law does not hold; empty if it does.
    /// - Parameters:
    ///   - entries: the ledger of the block.
    ///   - rows: of it, by `Verdict`.
    static func differences(
        between entries: [LedgerEntry], and rows: [UInt64]
    ) -> [(what: String, got: UInt64, expected: UInt64)] {
        var sums = [UInt64](repeating: 0, count: Verdict.allCases.count)
        for entry in entries { LedgerRecount.add(entry.events, to: &sums) }
        var found: [(what: String, got: UInt64, expected: UInt64)] = []
        for verdict in Verdict.allCases {
            let (events, rowCount) = (sums[Int(verdict.rawValue)], rows[Int(verdict.rawValue)])
            let isKept =
                switch verdict {
                case .malformed: rowCount == 0
                case .noConsent: events >= rowCount
                default: events == rowCount
                }
            if !isKept { found.append(("events \(verdict.name)", events, rowCount)) }
        }
        for entry in entries where entry.packets[Int(PacketResult.accepted.rawValue)] == 0 {
            let count = entry.events.reduce(UInt64(0)) { $0.saturatingSum($1) }
            if count > 0 {
                found.append(("events without a packet of \(entry.key.text)", count, 0))
            }
        }
        return found
    }
}

extension SenderKey {
    var text: String {
        switch kind {
        case .framed where self == .others: "other senders"
        case .framed: "sender \(sender.rawValue) epoch \(epoch.rawValue)"
        default: "\(kind) senders"
        }
    }
}
