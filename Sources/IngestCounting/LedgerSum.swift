// packet → decode → ring → [admit] → block → [segment] → [compaction] → snapshot → [query]
import IngestFormat

/// Ledger entries of a segment's blocks, added up by sender for its footer.
///
/// **Cost** A dictionary look-up an entry, and that of `SequenceSet` a range.
package struct LedgerSum: Sendable {
    private var places: [SenderKey: Int] = [:]
    private var sums: [LedgerEntry] = []
    /// Of each sum; its own list stays empty until `entries`.
    private var sequences: [SequenceSet] = []
    /// At least as many as there are ranges in `sequences`.
    private var rangeCountBound = 0

    package init() {}

    /// Adds entries; a sum that would not fit 64 bits stays at the largest value.
    ///
    /// - Parameter time: of the block whose entries they are; `nil` for sums, which say it themselves.
    package mutating func add(_ entries: [LedgerEntry], at time: Int64? = nil) {
        for entry in entries {
            let place = place(of: entry.key)
            Self.add(entry.packets, to: &sums[place].packets)
            Self.add(entry.events, to: &sums[place].events)
            sums[place].window.add(entry.window)
            sums[place].see(time.map { $0...$0 } ?? entry.seen)
            for range in entry.sequences { sequences[place].insert(range) }
            rangeCountBound += entry.sequences.count
        }
    }

    /// Adds entries, and folds some as `entries(countMax:rangeCountMax:)` where there are too many then: the memory
    /// of any number of ledgers is that of two.
    package mutating func add(_ entries: [LedgerEntry], countMax: Int, rangeCountMax: Int) {
        add(entries)
        if sums.count <= countMax && rangeCountBound <= rangeCountMax { return }
        let fitting = self.entries(countMax: countMax, rangeCountMax: rangeCountMax)
        self = LedgerSum()
        add(fitting)
    }

    /// The sums, by sender key.
    package var entries: [LedgerEntry] {
        var entries = sums
        for place in entries.indices { entries[place].sequences = sequences[place].ranges }
        return entries.sorted { $0.key < $1.key }
    }

    /// The sums, by sender key, at most `countMax` of them with at most `rangeCountMax` sequence ranges.
    ///
    /// Where there are more, framed senders of the oldest epochs are folded into one entry, `others`, without
    /// their sequences: what all of them sent stays exact, who of them sent it is gone.
    /// - Parameter countMax: more than there are kinds of senders.
    package func entries(
        countMax: Int = Limits.segmentSenderCountMax,
        rangeCountMax: Int = Limits.segmentSequenceRangeCountMax
    ) -> [LedgerEntry] {
        let all = entries
        let rangeCount = all.reduce(0) { $0 + $1.sequences.count }
        if all.count <= countMax && rangeCount <= rangeCountMax { return all }
        let framed = all.filter { $0.key.kind == .framed && $0.key != .others }
            .sorted { ($0.key.epoch.rawValue, $0.key) > ($1.key.epoch.rawValue, $1.key) }
        var rangesLeft = rangeCountMax
        var kept = 0
        let room = countMax - 1 - all.count { $0.key.kind != .framed }
        while kept < min(framed.count, room), framed[kept].sequences.count <= rangesLeft {
            rangesLeft -= framed[kept].sequences.count
            kept += 1
        }
        var sum = LedgerSum()
        sum.add(all.filter { $0.key.kind != .framed || $0.key == .others })
        sum.add(Array(framed[..<kept]))
        sum.add(
            framed[kept...].map { entry in
                var other = LedgerEntry(key: .others)
                other.packets = entry.packets
                other.events = entry.events
                other.window.missingCount = entry.window.missingCount
                other.seen = entry.seen
                return other
            })
        return sum.entries
    }

    private mutating func place(of key: SenderKey) -> Int {
        if let place = places[key] { return place }
        places[key] = sums.count
        sums.append(LedgerEntry(key: key))
        sequences.append(SequenceSet())
        return sums.count - 1
    }

    private static func add(_ counts: [UInt64], to sums: inout [UInt64]) {
        for (i, count) in counts.enumerated() where i < sums.count {
            let (sum, overflow) = sums[i].addingReportingOverflow(count)
            sums[i] = overflow ? UInt64.max : sum
        }
    }
}

// MARK: The law of packets
//
// It holds at every durable cut, for every framed sender epoch, and so for every stretch of the log.

/// What became of the packets of one framed sender epoch, over the whole log or a stretch of it.
///
/// The law: announced = received + missing + open; over a stretch, what was open before it comes to the
/// announced. Of a window that is open the sides have different sources: what was announced and what is open say the
/// windows, what was received and what is missing say the ledger's counts. Of one that was closed it is a definition: all
/// that was announced and did not come is missing.
package struct PacketBalance: Hashable, Sendable {
    /// Sequences announced before the stretch that could still come; 0 over the whole log.
    package let openBefore: UInt64
    /// Sequences that became known in it.
    package let announced: UInt64
    /// Packets consumed, each once.
    package let received: UInt64
    /// Sequences that were given up.
    package let missing: UInt64
    /// Sequences announced that may still come.
    package let open: UInt64

    /// - Parameters:
    ///   - entry: the sums of the sender's ledger entries.
    ///   - before: its window before them; `nil` if it was not open.
    ///   - after: its window behind them, also where they close it.
    package init(_ entry: LedgerEntry, before: SenderWindow?, after: SenderWindow) {
        openBefore = before?.openCount ?? 0
        announced = after.announcedCount &- (before?.announcedCount ?? 0)
        received = entry.consumedCount
        missing = entry.window.missingCount
        open = after.openCount
    }

    /// Of all entries of a sender whose window was closed at some time: nothing of it can come any more.
    package init(closed entry: LedgerEntry) {
        received = entry.consumedCount
        missing = entry.window.missingCount
        announced = received.saturatingSum(missing)
        (openBefore, open) = (0, 0)
    }

    /// By the window's own marks alone.
    package init(_ window: SenderWindow) {
        (openBefore, announced, open) = (0, window.announcedCount, window.openCount)
        received = window.sequences.arrivedCount
        missing = window.sequences.missingCount
    }

    /// Whether the law holds.
    package var isKept: Bool {
        openBefore.saturatingSum(announced) == received.saturatingSum(missing).saturatingSum(open)
    }
}

extension LedgerEntry {
    /// Packets that were consumed: of a framed sender also those of which nothing could be read, whose sequence is
    /// acked all the same.
    package var consumedCount: UInt64 {
        let accepted = packets[Int(PacketResult.accepted.rawValue)]
        guard key.kind == .framed else { return accepted }
        return accepted.saturatingSum(packets[Int(PacketResult.malformed.rawValue)])
    }

    /// Events of the packets that were consumed.
    package var decodedCount: UInt64 { events.reduce(0) { $0.saturatingSum($1) } }
}
