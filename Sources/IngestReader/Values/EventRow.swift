// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import IngestCounting
import IngestFormat
import IngestStorage

/// One event as the log keeps it. Ids of events and sessions are never stored, and so never here; events of
/// users who opted out and malformed ones are no rows.
public struct EventRow: Sendable, Equatable {
    public typealias Kind = EventType
    /// What admission decided. Only `counted` rows are in the counters of events counted; none is `malformed`.
    public typealias Verdict = IngestFormat.Verdict
    public typealias Consent = IngestFormat.Consent
    public typealias Format = AdFormat

    /// What was measured of an impression.
    public struct Viewability: Sendable, Equatable {
        /// The visible share of the ad's pixels, parts per million: 0 … 1,000,000.
        public let visiblePartsPerMillion: UInt32
        /// The longest continuous time at or above the threshold.
        public let durationMilliseconds: UInt32
    }

    /// Where the row lies: the segment, the ordinal of its commit in it, and the row's number in the commit. It stays so
    /// when the segment is sealed.
    public package(set) var segment: UInt32 = 0
    public package(set) var block: UInt32 = 0
    public package(set) var row = 0
    /// When it happened, by the sender. Microseconds since 1970 UTC.
    public package(set) var timestampMicroseconds: Int64 = 0

    /// Microseconds since 1970 UTC.
    package var admissionTime: Int64 = 0
    package var day: Int32 = 0
    package var key: UInt32 = 0
    /// Of its id, business and type, as the log has it; 0 without an id.
    package var eventHash: UInt64 = 0
    /// Of the name of its reward, where that is beyond the limit of its business; else 0.
    package var rewardHash: UInt64 = 0
    /// Valid: the decoder refuses a block with others.
    package var attributes = RowAttributes(rawValue: 1)
    // Names as they are shown; those of the last three are empty where there is none.
    package var rewardText: [UInt8] = []
    package var businessText: [UInt8] = []
    package var platformText: [UInt8] = []
    package var campaignText: [UInt8] = []
    package var sourceText: [UInt8] = []
    /// Whether its campaign and source are beyond the bound, and shown as `(other)`.
    public package(set) var isCampaignOverflow = false
    /// Parts per million and milliseconds; 0 where it was not measured.
    package var visible: UInt32 = 0
    package var duration: UInt32 = 0
    /// 0 where the event had no amounts.
    package var revenueMicros: UInt64 = 0
    package var spendMicros: UInt64 = 0

    package init() {}

    /// Takes each event; `false` ends the listing.
    package typealias Body = (EventRow) -> Bool
}

extension EventRow {
    /// The business-day that it counts for; fixed when it was written.
    public var date: CivilDay { CivilDay(dayNumber: day) }

    public var kind: Kind { attributes.type ?? .impression }
    public var verdict: Verdict { attributes.verdict ?? .counted }
    public var consent: Consent { attributes.consent }
    public var format: Format { attributes.format ?? .display }

    /// `(lost:N)` where the block that held the name was lost; of the other names too.
    public var rewardID: String { String(decoding: rewardText, as: UTF8.self) }
    public var businessID: String { String(decoding: businessText, as: UTF8.self) }
    public var platform: String? { Self.name(platformText) }
    public var campaign: String? { Self.name(campaignText) }
    public var source: String? { Self.name(sourceText) }

    /// `nil` where it was not measured.
    public var viewability: Viewability? {
        guard attributes.isMeasured else { return nil }
        return Viewability(visiblePartsPerMillion: visible, durationMilliseconds: duration)
    }

    /// `nil` where the event had no amounts.
    public var revenue: Money? { attributes.hasMoney ? Money(micros: UInt128(revenueMicros)) : nil }
    public var spend: Money? { attributes.hasMoney ? Money(micros: UInt128(spendMicros)) : nil }

    /// Whether it had an id or a session, by which repeats can be told.
    public var hasEventID: Bool { attributes.hasEventID }
    public var hasSession: Bool { attributes.hasSession }
    /// Which rule found it to be invalid traffic; `nil` if none did.
    public var invalidTrafficRule: InvalidTrafficRule? { attributes.invalidTrafficRule }
    /// Whether repeats of it could not be told: without id and session, older than the window of ids, or of a session that
    /// the table of sessions had no room for.
    public var isUnchecked: Bool { attributes.isUnchecked }
    /// Counted, but no impression of the reward had been counted in the session.
    public var isOrphan: Bool { attributes.isOrphan }
    /// Whether its reward is beyond the limit of its business, and counted under `(other)`: that is its `rewardID` then.
    public var isOverflow: Bool { attributes.isOverflow }

    private static func name(_ text: [UInt8]) -> String? {
        text.isEmpty ? nil : String(decoding: text, as: UTF8.self)
    }
}

extension NamedCode {
    /// Those that there are.
    /// - Parameter byCode: a count for each case, in their order.
    static func counts(_ byCode: [UInt64]) -> [Self: UInt64] {
        Dictionary(uniqueKeysWithValues: zip(allCases, byCode).filter { $1 > 0 })
    }
}

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
