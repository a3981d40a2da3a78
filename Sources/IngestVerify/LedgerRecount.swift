// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

// Part of `verify`: shares no code with what sums ledgers for footers and manifests, nor with the laws as the daemon
// checks them.
import IngestFormat

/// Ledger entries of blocks, summed by sender, and held against the footer's.
///
/// **Cost** A dictionary look-up an entry; memory for the sums of each sender and 16 bytes a sequence range.
struct LedgerRecount: Sendable {
    /// What some entries of a sender say of its window beside the sequences that arrived, their events and times.
    struct WindowSum {
        var delta = WindowDelta()
        var events = [UInt64](repeating: 0, count: Verdict.allCases.count)
        var seen: ClosedRange<Int64>?

        mutating func add(_ later: WindowSum) {
            let (a, b) = (delta, later.delta)
            func greater(_ a: UInt64?, _ b: UInt64?) -> UInt64? { a.map { max($0, b ?? 0) } ?? b }
            delta.start = a.start ?? b.start
            delta.keyID = a.start == nil ? b.keyID : a.keyID
            delta.floor = greater(a.floor, b.floor)
            delta.announced = greater(a.announced, b.announced)
            delta.missingCount = a.missingCount.saturatingSum(b.missingCount)
            delta.asksForAcks = a.asksForAcks ?? b.asksForAcks
            delta.isExpired = a.isExpired || b.isExpired
            LedgerRecount.add(later.events, to: &events)
            guard let new = later.seen else { return }
            let known = seen ?? new
            seen = min(known.lowerBound, new.lowerBound)...max(known.upperBound, new.upperBound)
        }
    }

    /// All entries of a sender.
    struct Sum {
        fileprivate(set) var packets: [UInt64]
        fileprivate(set) var sequences: RangeSet
        /// Where the window begins if it was not open: what the first entry says that says it.
        private(set) var begin: UInt64?
        /// Of the entries before that one: only a window that was open takes them.
        private(set) var lead = WindowSum()
        private(set) var rest = WindowSum()

        /// Of its newest packets, as far as blocks have the checks of their bytes.
        private(set) var checks: [(sequence: UInt64, check: UInt16)] = []

        fileprivate init(_ entry: LedgerEntry, seen: ClosedRange<Int64>?) {
            checks.reserveCapacity(entry.checks.count)
            // No further than there are checks: a range may have any number of sequences.
            for range in entry.sequences where checks.count < entry.checks.count {
                for sequence in range.prefix(entry.checks.count - checks.count) {
                    checks.append((sequence, entry.checks[checks.count]))
                }
            }
            packets = entry.packets
            sequences = RangeSet(entry.sequences)
            let first = entry.sequences.first?.lowerBound
            // A sequence of a window whose opening was lost: it begins a window below.
            begin =
                entry.window.start
                ?? first.map { $0 - min($0, UInt64(Limits.windowSequenceCountMax) - 1) }
            let window = WindowSum(delta: entry.window, events: entry.events, seen: seen)
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
            for range in later.sequences.ranges { sequences.insert(range) }
            checks += later.checks
            if checks.count > 2 * Limits.windowCheckCountMax {
                checks.removeFirst(checks.count - Limits.windowCheckCountMax)
            }
            if begin == nil {
                lead.add(later.lead)
                begin = later.begin
            } else {
                rest.add(later.lead)
            }
            rest.add(later.rest)
        }
    }

    private(set) var sums: [SenderKey: Sum] = [:]

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
        }
    }

    /// What a footer's ledger says, and what it must say.
    func held(_ footer: [LedgerEntry]) -> [VerifyReport.Held] {
        var held: [VerifyReport.Held] = [("senders in the ledger", footer.count, sums.count)]
        for entry in footer {
            let what = "ledger of \(entry.key)"
            guard let sum = sums[entry.key] else {
                held.append((what, "an entry", "none"))
                continue
            }
            let window = sum.window
            var expected = LedgerEntry(key: entry.key)
            (expected.packets, expected.events) = (sum.packets, window.events)
            (expected.sequences, expected.window) = (sum.sequences.ranges, window.delta)
            expected.seen = window.seen
            if entry == expected { continue }
            held += [
                ("\(what): packets", entry.packets, expected.packets),
                ("\(what): events", entry.events, expected.events),
                ("\(what): sequences", entry.sequences, expected.sequences),
                ("\(what): window", entry.window, expected.window),
                ("\(what): times", entry.timesText, expected.timesText),
            ]
        }
        return held
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
            LedgerRecount.add(sum.lead.events, to: &events)
            LedgerRecount.add(sum.rest.events, to: &events)
        }
    }

    mutating func add(_ other: TotalsRecount) {
        rowCount = rowCount.saturatingSum(other.rowCount)
        LedgerRecount.add(other.packets, to: &packets)
        LedgerRecount.add(other.events, to: &events)
    }

    /// What a manifest's totals are, and what they must be.
    func held(_ totals: LogTotals) -> [VerifyReport.Held] {
        let packetNames = PacketResult.allCases.map { "packets \($0.name)" }
        let eventNames = Verdict.allCases.map { "events \($0.name)" }
        let found = [totals.rowCount] + totals.packets + totals.events
        let expected = [rowCount] + packets + events
        return zip(["rows"] + packetNames + eventNames, zip(found, expected)).map {
            ($0, $1.0, $1.1)
        }
    }
}

/// What became of the events of a block, by the ledger and by the rows.
///
/// The law: each event that was decoded is of one verdict, and is a row with that verdict, but that malformed ones and
/// those of another business have none, and of the other refusals and conflicts only those whose names were known. Events
/// come with packets that were accepted.
enum EventBalance {
    /// What the ledger of a block says, and what it must say.
    /// - Parameter rows: of the block, by `Verdict`.
    static func held(_ entries: [LedgerEntry], _ rows: [UInt64]) -> [VerifyReport.Held] {
        var sums = [UInt64](repeating: 0, count: Verdict.allCases.count)
        var held: [VerifyReport.Held] = []
        for entry in entries {
            LedgerRecount.add(entry.events, to: &sums)
            if entry.packets[Int(PacketResult.accepted.rawValue)] > 0 { continue }
            let count = entry.events.reduce(UInt64(0)) { $0.saturatingSum($1) }
            if count > 0 { held.append(("events without a packet of \(entry.key)", count, 0)) }
        }
        for verdict in Verdict.allCases {
            let (events, rowCount) = (sums[Int(verdict.rawValue)], rows[Int(verdict.rawValue)])
            let isKept =
                switch verdict {
                case .counted, .duplicate, .sessionRepeat: events == rowCount
                case .malformed, .wrongBusiness: rowCount == 0
                case .notViewable, .undetermined, .invalidTraffic, .tooOld, .tooEarly, .noConsent,
                    .outsideWindow, .conflict:
                    events >= rowCount
                }
            if !isKept { held.append(("events \(verdict.name)", events, rowCount)) }
        }
        return held
    }
}

extension LedgerEntry {
    fileprivate var timesText: String {
        seen.map { "\($0.lowerBound) to \($0.upperBound)" } ?? "none"
    }
}

// Part of `verify`: shares no code with the windows of the daemon.

/// A set of sequences, as ranges: ascending, disjoint, not adjacent.
///
/// **Cost** 16 bytes a range; an insertion is a binary search, and a move of the ranges behind it.
struct RangeSet: Sendable, Equatable {
    private(set) var ranges: [ClosedRange<UInt64>] = []
    /// Of sequences, modulo 2^64: a file may say that all are there.
    private(set) var count: UInt64 = 0

    init() {}

    init(_ ranges: [ClosedRange<UInt64>]) {
        for range in ranges { insert(range) }
    }

    mutating func insert(_ range: ClosedRange<UInt64>) {
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            let upper = ranges[middle].upperBound
            if upper < range.lowerBound && range.lowerBound - upper > 1 {
                low = middle + 1
            } else {
                high = middle
            }
        }
        var (end, joined) = (low, range)
        while end < ranges.count {
            let next = ranges[end]
            if next.lowerBound > joined.upperBound && next.lowerBound - joined.upperBound > 1 {
                break
            }
            joined =
                min(joined.lowerBound, next.lowerBound)...max(joined.upperBound, next.upperBound)
            count &-= next.upperBound &- next.lowerBound &+ 1
            end += 1
        }
        count &+= joined.upperBound &- joined.lowerBound &+ 1
        ranges.replaceSubrange(low..<end, with: CollectionOfOne(joined))
    }

    /// Removes the lowest ranges.
    mutating func removeFirst(_ rangeCount: Int) {
        for range in ranges.prefix(rangeCount) {
            count &-= range.upperBound &- range.lowerBound &+ 1
        }
        ranges.removeFirst(rangeCount)
    }
}
