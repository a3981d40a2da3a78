// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestCounting
import IngestFormat
import IngestStorage

/// What became of everything that one sender epoch sent: its packets and their events.
///
/// For a framed sender the numbers of packets add up: announced = received + missing + open. For all senders
/// those of events do: decoded = counted + refused + repeated.
public struct LedgerRow: Sendable, Equatable {
    /// Who sent it.
    public enum Sender: Sendable, Hashable {
        case framed(id: UInt64, epoch: UInt64)
        /// Plain JSON datagrams, all of them: who sent them, and how many were lost, is not known.
        case plain
        case http
        /// Datagrams that failed their checks, or that were shed before their sender was looked at.
        case unidentified
        /// Framed senders whose rows expired long ago and were added up.
        case others
    }

    /// The verdicts on repeats of an event.
    public static let repeats: [Verdict] = [.duplicate, .conflict, .sessionRepeat]

    public let sender: Sender
    /// Sequences that the sender has used, as far as the log knows. `nil` where there are no sequences.
    public let packetsAnnounced: UInt64?
    /// Packets consumed, each once.
    public let packetsReceived: UInt64
    /// Sequences that were given up; `nil` where loss is not known.
    public let packetsMissing: UInt64?
    /// Sequences announced that may still come; `nil` as above.
    public let packetsOpen: UInt64?
    /// Packets that had been received before.
    public let packetsResent: UInt64
    /// By result, those that there are.
    public let packetsRefused: [PacketResult: UInt64]
    public let eventsDecoded: UInt64
    public let eventsCounted: UInt64
    /// By reason, those that there are.
    public let eventsRefused: [Verdict: UInt64]
    /// Duplicates, conflicts, session repeats, those that there are.
    public let eventsRepeated: [Verdict: UInt64]
    /// Microseconds since 1970 UTC.
    public let firstSeenMicroseconds: Int64?
    public let lastSeenMicroseconds: Int64?
    /// When the daemon was found to have stopped without finishing, the first time since this sender was there:
    /// packets that it took then may have left no trace. `nil` if it never did.
    public let unknownSinceMicroseconds: Int64?
    /// How far the sender's clock was ahead of the admission clock when the epoch began, less the time that its first
    /// packet took to come: so at least so far ahead where it is positive. Milliseconds, within a day; `nil` where there is
    /// no epoch, or it says no such time.
    public let clockSkewMilliseconds: Int64?
}

extension LedgerRow {
    /// The row of a sender that sent nothing.
    package init() { self.init(LedgerEntry(key: .plain), window: nil, uncleanStops: []) }

    /// - Parameters:
    ///   - window: of a framed sender, if it is open.
    ///   - uncleanStops: when they were found, ascending.
    init(_ entry: LedgerEntry, window: SenderWindow?, uncleanStops: [Int64]) {
        sender = Sender(entry.key)
        let packets = PacketResult.counts(entry.packets)
        let events = Verdict.counts(entry.events)
        packetsReceived = entry.consumedCount
        if entry.key.kind == .framed {
            let balance =
                window.map { PacketBalance(entry, before: nil, after: $0) }
                ?? PacketBalance(closed: entry)
            packetsMissing = balance.missing
            packetsOpen = balance.open
            packetsAnnounced = balance.announced
        } else {
            (packetsMissing, packetsOpen, packetsAnnounced) = (nil, nil, nil)
        }
        packetsResent = packets[.resend, default: 0]
        packetsRefused = packets.filter { $0.key != .accepted && $0.key != .resend }
        eventsDecoded = entry.decodedCount
        eventsCounted = events[.counted, default: 0]
        eventsRepeated = events.filter { Self.repeats.contains($0.key) }
        eventsRefused = events.filter {
            $0.key != .counted && !Self.repeats.contains($0.key)
        }
        firstSeenMicroseconds = entry.seen?.lowerBound
        lastSeenMicroseconds = entry.seen?.upperBound
        unknownSinceMicroseconds = entry.seen.flatMap { seen in
            uncleanStops.first { $0 >= seen.lowerBound }
        }
        clockSkewMilliseconds = entry.seen.flatMap { Self.skew(of: entry.key, from: $0.lowerBound) }
    }
}

extension LedgerRow {
    /// What is further away is no clock's skew: the sender chose its epoch, or kept it in a spool.
    private static var skewMillisecondsMax: Int64 { 86_400_000 }

    /// An epoch begins with the time at which its sender took it.
    /// - Parameter firstSeen: admission of its first packet, µs since 1970 UTC.
    static func skew(of key: SenderKey, from firstSeen: Int64) -> Int64? {
        guard key.kind == .framed, key != .others else { return nil }
        let skew = Int64(key.epoch.rawValue >> 20) &- firstSeen / 1_000
        return skew.magnitude > skewMillisecondsMax.magnitude ? nil : skew
    }
}

extension LedgerRow.Sender {
    init(_ key: SenderKey) {
        switch key.kind {
        case .framed:
            self =
                key == .others
                ? .others : .framed(id: key.sender.rawValue, epoch: key.epoch.rawValue)
        case .plain: self = .plain
        case .http: self = .http
        case .unidentified: self = .unidentified
        }
    }
}

extension Snapshot {
    package func ledger() throws(ReaderError) -> [LedgerRow] {
        let (sum, windows) = try sumOfLedger()
        let stops = manifest.uncleanStops.map(\.foundAt).sorted()
        return sum.entries.map { entry in
            LedgerRow(entry, window: windows.open[entry.key], uncleanStops: stops)
        }
    }

    /// Expired runs, footers, and the blocks behind them.
    private func sumOfLedger() throws(ReaderError) -> (LedgerSum, SenderWindows) {
        var sum = LedgerSum()
        var windows = SenderWindows()
        let expired = try ReaderError.reading { () throws(StorageError) in try readExpired() }
        for segments in expired {
            sum.add(segments.ledger)
            windows.apply(segments.ledger)
        }
        let blocks = try CutBlocks(of: self) {
            $0.ledgerEntryCount > 0
        }
        try blocks.forEachFooter { footer in
            sum.add(footer.ledger)
            windows = footer.windows
        }
        let decoder = BlockDecoder()
        let rows = BlockRows()
        try blocks.forEachBehindSealed { (header, buffer) throws(ReaderError) in
            let time = header.summary.ledgerTime
            let ledger: [LedgerEntry]
            do throws(FormatError) {
                ledger = try buffer.withBytes { (bytes) throws(FormatError) in
                    try decoder.decode(bytes, wanted: .ledger, into: rows).ledger
                }
            } catch {
                throw ReaderError(error, path: files.path)
            }
            sum.add(ledger, at: time)
            windows.apply(ledger, at: time)
            return true
        }
        return (sum, windows)
    }
}
