// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
// Part of `verify`: shares no code with what sums ledgers for footers.

import IngestFormat

/// Ledger entries of blocks, summed by sender, and held against the footer's.
///
/// **Cost** A dictionary look-up an entry; memory for the sums of each sender and 16 bytes a sequence range.
struct LedgerRecount: Sendable {
    /// What some entries of a sender say of its window beside the sequences that arrived, and their times.
    fileprivate struct WindowSum {
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
            guard let known = seen else { return seen = times }
            seen =
                min(known.lowerBound, times.lowerBound)...max(known.upperBound, times.upperBound)
        }
    }

    fileprivate struct Sum {
        var packets: [UInt64]
        var events: [UInt64]
        /// Joined where they touch in the order in which they come.
        var sequences: [ClosedRange<UInt64>]
        /// Where the window begins if it was not open: what the first entry says that says it.
        var begin: UInt64?
        /// Of the entries before that one: only a window that was open takes them.
        var lead = WindowSum()
        var rest = WindowSum()

        init(_ entry: LedgerEntry, seen: ClosedRange<Int64>?) {
            packets = entry.packets
            events = entry.events
            sequences = entry.sequences
            begin = entry.windowStart
            let window = WindowSum(delta: entry.window, seen: seen)
            if begin == nil { lead = window } else { rest = window }
        }

        var window: WindowSum {
            var sum = lead
            sum.add(rest)
            return sum
        }

        mutating func add(_ later: Sum) {
            LedgerRecount.add(later.packets, to: &packets)
            LedgerRecount.add(later.events, to: &events)
            for range in later.sequences { add(range) }
            if begin == nil {
                lead.add(later.lead)
                begin = later.begin
            } else {
                rest.add(later.lead)
            }
            rest.add(later.rest)
        }

        private mutating func add(_ range: ClosedRange<UInt64>) {
            if let last = sequences.last, last.upperBound < range.lowerBound,
                last.upperBound + 1 == range.lowerBound
            {
                sequences[sequences.count - 1] = last.lowerBound...range.upperBound
            } else {
                sequences.append(range)
            }
        }
    }

    private var sums: [SenderKey: Sum] = [:]
    /// Senders whose windows were closed, in the order in which they were.
    private var closed: [SenderKey] = []

    private static func add(_ counts: [UInt64], to sums: inout [UInt64]) {
        for index in sums.indices where index < counts.count {
            sums[index] = sums[index].saturatingSum(counts[index])
        }
    }

    /// Adds the sums of blocks behind those so far.
    mutating func add(_ other: LedgerRecount) {
        for (key, sum) in other.sums { add(sum, of: key) }
        closed += other.closed
    }

    /// Adds what a block says.
    /// - Parameter time: of its admission; `nil` for sums, which have times of their own.
    mutating func add(_ entries: [LedgerEntry], at time: Int64?) {
        for entry in entries {
            add(Sum(entry, seen: time.map { $0...$0 } ?? entry.seen), of: entry.key)
            if entry.window.isExpired { closed.append(entry.key) }
        }
    }

    private mutating func add(_ later: Sum, of key: SenderKey) {
        if sums[key]?.add(later) == nil { sums[key] = later }
    }

    // MARK: The footer's ledger

    /// What is wrong in a footer's ledger, as text; `nil` if nothing is.
    func difference(from footer: [LedgerEntry]) -> (what: String, got: String, expected: String)? {
        guard footer.count == sums.count else {
            return ("senders in the ledger", "\(footer.count)", "\(sums.count)")
        }
        for entry in footer {
            let ledger = "ledger of \(entry.key)"
            guard let sum = sums[entry.key] else { return (ledger, "an entry", "none") }
            if let found = sum.difference(from: entry) {
                return ("\(ledger): \(found.what)", found.got, found.expected)
            }
        }
        return nil
    }

    /// The same numbers as ascending ranges that do not touch.
    fileprivate static func union(_ ranges: [ClosedRange<UInt64>]) -> [ClosedRange<UInt64>] {
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

    // MARK: Windows

    /// What one framed sender's entries do to its window.
    struct WindowStep {
        /// All of them, without sequences.
        let sums: LedgerEntry
        /// The same in one or two parts, which make the window that the entries make one by one: what only an open
        /// window takes, then what also opens one.
        let parts: [LedgerEntry]
        /// Whether it is said where the window begins, and not only that a sequence came.
        let hasStart: Bool
    }

    /// Whether it has what was folded of several senders.
    var hasOthers: Bool { sums[.others] != nil }

    /// Those that close no window by sender, then the others in the order in which they did.
    ///
    /// **Cost** Makes the entries of a sender when they are asked for.
    var windowSteps: some Sequence<WindowStep> {
        let isClosed = Set(closed)
        let others = sums.keys.filter { !isClosed.contains($0) }.sorted()
        var seen: Set<SenderKey> = []
        // A window that is closed twice was so the first time.
        let closing = closed.filter { seen.insert($0).inserted }
        return (others + closing).lazy
            .filter { $0.kind == .framed && $0 != .others }
            .compactMap { key in sums[key].map { Self.step($0, of: key) } }
    }

    private static func step(_ sum: Sum, of key: SenderKey) -> WindowStep {
        func entry(_ window: WindowSum) -> LedgerEntry {
            var entry = LedgerEntry(key: key)
            entry.window = window.delta
            entry.seen = window.seen
            return entry
        }
        var (sums, rest) = (entry(sum.window), entry(sum.rest))
        let lead = entry(sum.lead)
        sums.packets = sum.packets
        sums.events = sum.events
        rest.sequences = union(sum.sequences)
        rest.window.start = sum.begin
        var parts = sum.lead.seen == nil ? [] : [lead]
        if sum.begin != nil { parts.append(rest) }
        return WindowStep(
            sums: sums, parts: parts,
            hasStart: sum.begin != nil && sum.rest.delta.start == sum.begin)
    }
}

extension LedgerRecount.Sum {
    /// What is wrong in a footer's entry.
    fileprivate func difference(
        from entry: LedgerEntry
    ) -> (what: String, got: String, expected: String)? {
        if entry.packets != packets { return ("packets", "\(entry.packets)", "\(packets)") }
        if entry.events != events { return ("events", "\(entry.events)", "\(events)") }
        let (got, expected) = (LedgerRecount.union(entry.sequences), LedgerRecount.union(sequences))
        if got != expected { return ("sequences", "\(entry.sequences)", "\(expected)") }
        let window = window
        if entry.window != window.delta {
            return ("window", entry.window.text, window.delta.text)
        }
        return entry.seen == window.seen ? nil : ("times", entry.seen.text, window.seen.text)
    }
}

extension WindowDelta {
    fileprivate var text: String {
        var parts: [String] = []
        for (name, value) in [("start", start), ("floor", floor), ("announced", announced)] {
            if let value { parts.append("\(name) \(value)") }
        }
        if missingCount > 0 { parts.append("missing \(missingCount)") }
        if let asksForAcks { parts.append(asksForAcks ? "asks for acks" : "asks for no acks") }
        if isExpired { parts.append("closed") }
        return parts.isEmpty ? "nothing" : parts.joined(separator: ", ")
    }
}

extension Optional<ClosedRange<Int64>> {
    fileprivate var text: String { map { "\($0.lowerBound) to \($0.upperBound)" } ?? "none" }
}
