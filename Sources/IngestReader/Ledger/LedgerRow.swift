// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestFormat

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

    public typealias NamedCount = DirectoryStatus.NamedCount

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
    public let packetsRefused: [NamedCount]
    public let eventsDecoded: UInt64
    public let eventsCounted: UInt64
    /// By reason, those that there are.
    public let eventsRefused: [NamedCount]
    /// Duplicates, conflicts, session repeats.
    public let eventsRepeated: [NamedCount]
    /// Microseconds since 1970 UTC.
    public let firstSeenMicroseconds: Int64?
    public let lastSeenMicroseconds: Int64?
    /// When the daemon was found to have stopped without finishing, the first time since this sender was there:
    /// packets that it took then may have left no trace. `nil` if it never did.
    public let unknownSinceMicroseconds: Int64?
}

extension LedgerRow {
    /// - Parameters:
    ///   - window: of a framed sender, if it is open.
    ///   - uncleanStops: when they were found, ascending.
    init(_ entry: LedgerEntry, window: SenderWindow?, uncleanStops: [Int64]) {
        sender = Sender(entry.key)
        func packets(_ result: PacketResult) -> UInt64 { entry.packets[Int(result.rawValue)] }
        func events(_ verdict: Verdict) -> UInt64 { entry.events[Int(verdict.rawValue)] }
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
        packetsResent = packets(.resend)
        packetsRefused = PacketResult.allCases.filter { $0 != .accepted && $0 != .resend }
            .map { NamedCount(name: $0.name, count: packets($0)) }.filter { $0.count > 0 }
        eventsDecoded = entry.decodedCount
        eventsCounted = events(.counted)
        let repeats: [Verdict] = [.duplicate, .conflict, .sessionRepeat]
        eventsRepeated = repeats.map { NamedCount(name: $0.name, count: events($0)) }
        eventsRefused = Verdict.allCases.filter { $0 != .counted && !repeats.contains($0) }
            .map { NamedCount(name: $0.name, count: events($0)) }.filter { $0.count > 0 }
        firstSeenMicroseconds = entry.seen?.lowerBound
        lastSeenMicroseconds = entry.seen?.upperBound
        unknownSinceMicroseconds = entry.seen.flatMap { seen in
            uncleanStops.first { $0 >= seen.lowerBound }
        }
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
