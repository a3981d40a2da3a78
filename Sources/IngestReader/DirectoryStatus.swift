// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

import IngestFormat

/// What a data directory holds, as of one cut.
public struct DirectoryStatus: Sendable, Equatable {
    /// What queries answer from.
    public let cut: Cut
    /// Of the manifest that was read.
    public let generation: UInt64
    /// What the runs cover; the rest of the cut is folded by the reader.
    public let compacted: Cut
    /// What the durable mark, or (where it lags) the log itself, says is durable.
    public let durable: Cut
    public let sealedSegmentCount: Int
    public let unsealedSegmentCount: Int
    /// What retention has removed the rows of; their counters stay. `nil` if nothing has expired.
    public let expired: ExpiredPart?
    /// Files of ours in the directory, and their bytes; what lies in `aside/` is not among them.
    public let fileCount: Int
    public let byteCount: UInt64
    public let nameCount: Int
    public let keyCount: Int
    /// Rows of the whole log, expired ones included.
    public let rowCount: UInt64
    /// Packets by what became of them, and events by verdict; those that there are.
    public let packets: [PacketResult: UInt64]
    public let events: [Verdict: UInt64]
    /// Starts that found the log without a clean end: what had been received and was not durable then
    /// is unknown.
    public let uncleanStops: [UncleanStopRecord]
    /// Pieces of the log that could not be read when their segment was sealed.
    public let lostRangeCount: Int
    /// Of event ids that were counted later than this, all repeats had been found when the generation was made. `nil` if
    /// the daemon had forgotten none. Microseconds since 1970 UTC.
    public let idsCompleteSinceMicroseconds: Int64?

    public struct UncleanStopRecord: Sendable, Equatable {
        /// When the next start found it. Microseconds since 1970 UTC.
        public let foundAtMicroseconds: Int64
        /// The end of what had survived.
        public let position: Cut
    }
}

/// The oldest part of the log, of which retention has left what the rows add up to.
public struct ExpiredPart: Sendable, Equatable {
    /// All segments up to this one have expired; rows begin in the next.
    public let lastSegment: UInt32
    /// Rows that it held.
    public let rowCount: UInt64
    /// The greatest event time among them. Microseconds since 1970 UTC; `nil` without rows.
    public let newestEventMicroseconds: Int64?
    /// Segments of it that were missing or damaged when they expired: nothing attests what they held.
    public let missingSegmentCount: Int
}
