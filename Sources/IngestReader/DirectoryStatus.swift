// packet → decode → ring → admit → block → segment → compaction → [snapshot] → [query]

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
    /// Files of ours in the directory, and their bytes; what lies in `aside/` is not among them.
    public let fileCount: Int
    public let byteCount: UInt64
    public let nameCount: Int
    public let keyCount: Int
    /// Rows stored.
    public let rowCount: UInt64
    /// Packets by what became of them, and events by verdict, in the order of their codes; all names.
    public let packets: [NamedCount]
    public let events: [NamedCount]
    /// Starts that found the log without a clean end: what had been received and was not durable then
    /// is unknown.
    public let uncleanStops: [UncleanStopRecord]
    /// Pieces of the log that could not be read when their segment was sealed.
    public let lostRangeCount: Int

    public struct NamedCount: Sendable, Equatable {
        public let name: String
        public let count: UInt64
    }

    public struct UncleanStopRecord: Sendable, Equatable {
        /// When the next start found it. Microseconds since 1970 UTC.
        public let foundAtMicroseconds: Int64
        /// The end of what had survived.
        public let position: Cut
    }
}
