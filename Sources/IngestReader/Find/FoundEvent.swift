// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// A row of the log whose event has the id that was asked for.
public struct FoundEvent: Sendable, Equatable {
    /// What makes a conflict: the same id, and something else in it.
    public enum Difference: String, Sendable, CaseIterable {
        case eventType, rewardId, revenue, spend
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

extension IngestReader {
    /// The rows of an event, in the order of the log; none if the log has none, or no longer has them.
    ///
    /// The log keeps no ids but a keyed hash of each with its business, of 64 bits, and that is what is compared. Events
    /// of users who opted out and malformed ones are no rows and are never found.
    ///
    /// **Errors** As `forEachEvent`.
    /// **Cost** As `forEachFound`, and memory for the rows.
    /// - Parameters:
    ///   - eventID: as its sender gave it; a UUID in text is the same id as its 16 bytes.
    ///   - business: whose event it is: equal ids of two businesses are two events.
    public func find(eventID: String, business: String) throws(ReaderError) -> [FoundEvent] {
        var found: [FoundEvent] = []
        try forEachFound(eventID: Array(eventID.utf8), business: business) { event in
            found.append(event)
            return .next
        }
        return found
    }

    /// Gives the rows of an event one by one, as `find`.
    ///
    /// **Cost** Reads the blocks that have event ids and are not older than the business's name; 2 ns a row of
    /// these, in constant memory.
    /// - Parameters:
    ///   - eventID: any bytes.
    ///   - business: whose event it is.
    ///   - body: takes each row, and says whether it wants another.
    public func forEachFound(
        eventID: [UInt8], business: String, _ body: (FoundEvent) -> Iteration
    ) throws(ReaderError) {
        try snapshot.forEachFound(eventID: eventID, business: Array(business.utf8)) {
            body($0) == .next
        }
    }

    /// As the one above, for a body that may throw: its error comes out as it is.
    public func forEachFound(
        eventID: [UInt8], business: String, _ body: (FoundEvent) throws -> Iteration
    ) throws {
        var taker = Taker()
        try forEachFound(eventID: eventID, business: business) { event in
            taker.hold { try body(event) }
        }
        try taker.release()
    }
}
