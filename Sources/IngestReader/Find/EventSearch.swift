// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// Finds the rows of one event id: by the column of hashes, and only where that has it by all others. Owned by one
/// query.
///
/// **Cost** 2 ns a row with an id; the memory of the rows of two blocks, 8 MiB, and of `EventListing`.
struct EventSearch {
    private let hash: UInt64
    private let decoder = BlockDecoder()
    private let rows = BlockRows()
    private var listing: EventListing
    /// The row that was counted last.
    private var counted: EventRow?

    /// - Parameter hash: of the id and its business.
    init(_ hash: UInt64, _ names: any NameSource) {
        self.hash = hash
        listing = EventListing(EventsQuery(), names)
    }

    /// Gives the rows of one block that have the id; `false` where `body` ended the search.
    /// - Parameter path: of the directory, for messages.
    mutating func give(
        _ header: BlockHeader, _ buffer: ReadBuffer, path: String, _ body: (FoundEvent) -> Bool
    ) throws(ReaderError) -> Bool {
        var places: [Int] = []
        var ledger: [LedgerEntry] = []
        do throws(FormatError) {
            try buffer.withBytes { (bytes) throws(FormatError) in
                _ = try decoder.decode(bytes, wanted: .eventHash, into: rows)
                places = findPlaces()
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
            guard next < places.count, places[next] == event.row else { return true }
            next += 1
            let row = EventRow(event)
            let found = FoundEvent(
                row, ledger, committed: header.context.admissionTime, counted: counted,
                verdict: event.attributes.verdict)
            if row.verdict == .counted { counted = row }
            return body(found)
        }
        self.counted = counted
        return goesOn
    }

    /// The rows with the hash, ascending.
    private func findPlaces() -> [Int] {
        // SAFETY: both columns were decoded, with as many values as their counts say.
        let hasIt = unsafe UnsafeBufferPointer(start: rows.eventHash, count: rows.eventHashCount)
            .contains(hash)
        guard hasIt else { return [] }
        var places: [Int] = []
        var index = 0
        for row in 0..<rows.rowCount {
            // SAFETY: as above; there is a hash for each row whose attributes say so, by the decoder.
            guard unsafe RowAttributes(rawValue: rows.attributes[row]).hasEventID else { continue }
            if unsafe rows.eventHash[index] == hash { places.append(row) }
            index += 1
        }
        return places
    }
}

extension FoundEvent {
    /// - Parameters:
    ///   - ledger: of the row's block.
    ///   - counted: the row with this id that was counted last before.
    fileprivate init(
        _ row: EventRow, _ ledger: [LedgerEntry], committed: Int64, counted: EventRow?,
        verdict: Verdict?
    ) {
        self.row = row
        committedMicroseconds = committed
        let code = Int(verdict?.rawValue ?? 0)
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
            case .eventType: a.kind != b.kind
            case .rewardId: a.rewardID != b.rewardID
            case .revenue: a.revenue?.micros ?? 0 != b.revenue?.micros ?? 0
            case .spend: a.spend?.micros ?? 0 != b.spend?.micros ?? 0
            }
        }
    }
}
