// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// A row of the log whose event has the id that was asked for.
public struct FoundEvent: Sendable, Equatable {
    /// What makes a conflict: the same id, and something else in it.
    public enum Difference: String, Sendable, CaseIterable {
        case rewardId, revenue, spend
    }

    /// The event, the verdict on it, and where it lies.
    public let row: EventRow
    /// When it was admitted; its block was durable some milliseconds later. Microseconds since 1970 UTC.
    public let committedMicroseconds: Int64
    /// Who sent it; `nil` where its block has events of this verdict from several senders, since rows do not name
    /// theirs.
    public let sender: LedgerRow.Sender?
    /// The lowest and the highest sequence of that sender's packets in the block, one of which brought it; `nil`
    /// where there are none.
    public let sequences: ClosedRange<UInt64>?
    /// Of a conflict: in what it is not the row counted before it. `nil` for other verdicts, and where that row is no
    /// longer in the log.
    public let differences: [Difference]?
}

/// Finds the rows of one event id: by the column of hashes, and only where that has it by all others. Owned by one
/// query.
///
/// **Cost** 2 ns a row with an id; the memory of the rows of two blocks, 8 MiB, and of `EventListing`.
struct EventSearch {
    /// As rows have it, by `EventType`; the first is none.
    private let hashes: InlineArray<4, UInt64>
    private let decoder = BlockDecoder()
    private let rows = BlockRows()
    private var listing: EventListing
    /// By type, the row that was counted last.
    private var counted: [EventType: EventRow] = [:]

    /// - Parameter hash: of the id and its business.
    init(_ hash: UInt64, _ names: any NameSource) {
        hashes = InlineArray { KeyedHash.event(hash, ofType: UInt8($0)) }
        listing = EventListing(names)
    }

    /// Gives the rows of one block that have the id; `false` where `body` ended the search.
    /// - Parameter path: of the directory, for messages.
    mutating func give(
        _ header: BlockHeader, _ buffer: ReadBuffer, path: String, _ body: (FoundEvent) -> Bool
    ) throws(ReaderError) -> Bool {
        var places: [Place] = []
        var ledger: [LedgerEntry] = []
        do throws(FormatError) {
            try buffer.withBytes { (bytes) throws(FormatError) in
                let block = try decoder.decode(
                    bytes, wanted: [.attributes, .eventHash, .commits], into: rows)
                places = findPlaces(block.commits, from: header.context.blockOrdinal)
                if places.isEmpty { return }
                ledger = try decoder.decode(bytes, wanted: .ledger, into: rows).ledger
            }
        } catch {
            let segment = FileName.segment(header.context.segment).text
            throw ReaderError(error, path: "\(path)/\(segment)")
        }
        guard !places.isEmpty else { return true }
        var (next, counted) = (0, counted)
        let goesOn = try listing.give(header, buffer, path: path) { event in
            guard next < places.count, places[next] == Place(event.block, event.row) else {
                return true
            }
            next += 1
            let found = FoundEvent(event, ledger, counted: counted[event.kind])
            if event.verdict == .counted { counted[event.kind] = event }
            return body(found)
        }
        self.counted = counted
        return goesOn
    }

    /// Where a row is: its commit, and its number in that.
    private struct Place: Equatable {
        let block: UInt32
        let row: Int

        init(_ block: UInt32, _ row: Int) { (self.block, self.row) = (block, row) }
    }

    /// The rows with the hash, ascending.
    private func findPlaces(_ commits: BlockCommits, from first: UInt32) -> [Place] {
        // SAFETY: both columns were decoded, with as many values as their counts say.
        let stored = unsafe UnsafeBufferPointer(start: rows.eventHash, count: rows.eventHashCount)
        guard
            EventType.allCases.contains(where: { unsafe stored.contains(hashes[Int($0.rawValue)]) })
        else { return [] }
        var places: [Place] = []
        var index = 0
        commits.forEach { (commit, ownRows) in
            for row in ownRows {
                // SAFETY: as above; there is a hash for each row whose attributes say so, by the decoder.
                let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
                guard attributes.hasEventID else { continue }
                let type = Int(attributes.rawValue & 3)
                if unsafe rows.eventHash[index] == hashes[type] {
                    places.append(Place(first &+ UInt32(commit), row - ownRows.lowerBound))
                }
                index += 1
            }
        }
        return places
    }
}

extension FoundEvent {
    /// A row of which nothing more is known.
    package init(_ row: EventRow) { self.init(row, [], counted: nil) }

    /// - Parameters:
    ///   - ledger: of the row's block.
    ///   - counted: the row with this id that was counted last before.
    fileprivate init(
        _ row: EventRow, _ ledger: [LedgerEntry], counted: EventRow?
    ) {
        self.row = row
        committedMicroseconds = row.admissionTime
        let code = Int(row.verdict.rawValue)
        let senders = ledger.filter { code < $0.events.count && $0.events[code] > 0 }
        let only = senders.count == 1 ? senders[0] : nil
        sender = only.map { LedgerRow.Sender($0.key) }
        if let only, let first = only.sequences.first, let last = only.sequences.last {
            sequences = first.lowerBound...last.upperBound
        } else {
            sequences = nil
        }
        differences =
            row.verdict == .conflict ? counted.map { Self.differences(row, $0) } : nil
    }

    private static func differences(_ a: EventRow, _ b: EventRow) -> [Difference] {
        Difference.allCases.filter { difference in
            switch difference {
            case .rewardId: a.rewardText != b.rewardText || a.rewardHash != b.rewardHash
            case .revenue: a.revenueMicros != b.revenueMicros
            case .spend: a.spendMicros != b.spendMicros
            }
        }
    }
}

extension Snapshot {
    package func forEachFound(
        eventID: [UInt8], business: [UInt8], _ body: (FoundEvent) -> Bool
    ) throws(ReaderError) {
        guard (1...Limits.eventIDByteCountMax).contains(eventID.count),
            (1...Limits.nameByteCountMax).contains(business.count)
        else { return }
        let names = makeNames()
        let ordinal = try names.storedOrdinal(of: business)
        // Rows of a business whose name was lost are found by the hash all the same.
        let hasLostNames = try !names.lostNames().isEmpty
        if ordinal == nil && !hasLostNames { return }
        let first = hasLostNames ? 0 : ordinal?.rawValue ?? 0
        let blocks = try CutBlocks(of: self) { block in
            // A block that is before the name was given has none of its rows.
            block.eventHashCount > 0
                && UInt64(block.firstName.rawValue) + UInt64(block.nameCount) > UInt64(first)
        }
        var search = EventSearch(hash.event(business: business, id: eventID), names)
        try blocks.forEach(whereSealed: { $0.rowCount > 0 }) {
            (header, buffer) throws(ReaderError) in
            try search.give(header, buffer, path: files.path, body)
        }
    }
}

/// A set of ordinals of names or keys.
///
/// **Cost** A bit for each ordinal of the directory.
struct OrdinalSet {
    private var words: [UInt64]
    /// The least of them; `UInt32.max` where there is none.
    private(set) var first = UInt32.max

    /// - Parameter end: above all that will be inserted.
    init(upTo end: UInt32) { words = Array(repeating: 0, count: Int(end / 64) + 1) }

    mutating func insert(_ ordinal: UInt32) {
        words[Int(ordinal / 64)] |= 1 << UInt64(ordinal % 64)
        first = min(first, ordinal)
    }

    /// - Parameter ordinal: any.
    @inline(__always)
    func contains(_ ordinal: UInt32) -> Bool {
        let word = Int(ordinal / 64)
        return word < words.count && words[word] &>> UInt64(ordinal % 64) & 1 != 0
    }
}

/// The keys whose events are asked for, where not all are. Made once a query.
///
/// **Cost** A bit for each key of the directory; of businesses one pass over all keys, of a reward its own.
package struct WantedKeys {
    /// Rows of the tables of a footer, of which a segment has one that has such events; `nil` where they would be too many
    /// to be asked for, or have no row of their own.
    private(set) var points: [(table: TableKind, point: CounterPoint)]?
    private var keys: OrdinalSet

    var isEmpty: Bool { keys.first == .max }

    private static let pointCountMax = 64

    /// - Returns: `nil` where all keys are asked for.
    init?(_ query: EventsQuery, in source: some CounterSource) throws(ReaderError) {
        guard query.reward != nil || query.business != nil else { return nil }
        let counters = CounterQuery(source)
        let names = counters.names
        keys = OrdinalSet(upTo: names.nextKey)
        guard let days = query.days.dayNumbers,
            case .some(let business) = try counters.ordinal(ofBusiness: query.business)
        else { return }
        guard let reward = query.reward else {
            guard let business else { return }
            try insert(names) { $0 == business.rawValue }
            // Which business a lost key is of may have been known when its segment was sealed.
            if business == .none { return }
            points = [(.days, CounterPoint(key: business.rawValue, days: days))]
            return
        }
        var found: [UInt32] = []
        for key in try counters.keys(ofReward: reward) {
            if let business, try names.names(of: key).business != business { continue }
            keys.insert(key.rawValue)
            found.append(key.rawValue)
        }
        if found.count > Self.pointCountMax { return }
        points = found.map { (.rewardDays, CounterPoint(key: $0, days: days)) }
    }

    /// The keys of some businesses.
    init(of businesses: OrdinalSet, _ names: any NameSource) throws(ReaderError) {
        keys = OrdinalSet(upTo: names.nextKey)
        try insert(names) { businesses.contains($0) }
    }

    private mutating func insert(
        _ names: any NameSource, ofBusiness isWanted: (UInt32) -> Bool
    ) throws(ReaderError) {
        var found = keys
        try names.forEachKeys(in: 0..<names.nextKey) { (first, pairs) throws(ReaderError) in
            for place in 0..<pairs.count where isWanted(UInt32(truncatingIfNeeded: pairs[place])) {
                found.insert(first + UInt32(place))
            }
        }
        keys = found
    }

    @inline(__always)
    func contains(_ key: UInt32) -> Bool { keys.contains(key) }

    /// Whether a block may have rows of these keys: no row is of a key that is given later.
    func mayBeIn(_ block: BlockSummary) -> Bool {
        UInt64(keys.first) < UInt64(block.firstKey.rawValue) + UInt64(block.keyCount)
    }
}

/// Which rows of the log to list.
package struct EventSelection {
    package var days: DayRange = .all
    /// Rows of these event times are asked for too, whatever their day; the days of these times are in `days`.
    var timestamps: ClosedRange<Int64>?
    /// `nil` is all.
    var keys: WantedKeys?
}
