// packet → decode → ring → admit → block → segment → compaction → snapshot → query
// Every bound of the project, in one place, with the relations between them held by a test. A bound is
// checked before memory is taken for what it bounds; what is over it is refused and counted.

package enum Limits {
    // MARK: Packets
    /// The largest UDP payload over IPv4.
    package static let packetByteCountMax = 65_507
    package static let packetHeaderByteCount = 40
    package static let packetTagByteCount = 16
    package static let payloadByteCountMax = packetByteCountMax - packetHeaderByteCount
    /// The smallest event on the wire is a tag and a length of zero.
    package static let packetEventCountMax = payloadByteCountMax / 2
    /// Whether so many bytes at this place lie inside the largest packet.
    static func holdsPayload(at offset: Int, byteCount: Int) -> Bool {
        offset >= 0 && byteCount >= 0 && offset <= packetByteCountMax
            && byteCount <= packetByteCountMax - offset
    }
    /// Of an event with all that it must have: its tag and size, its type, a reward and a business of a byte each.
    package static let eventByteCountMin = 10
    /// Words of an ack behind its first 64 sequences.
    package static let ackFurtherWordCountMax = 1_023

    // MARK: Events
    package static let nameByteCountMax = 128
    package static let attributionByteCountMax = 64
    package static let eventIDByteCountMax = 64
    package static let sessionIDByteCountMax = 64
    package static let visiblePartsPerMillionMax: UInt32 = 1_000_000
    /// The largest amount of money in one event, micros of a currency unit: a thousand million units.
    package static let moneyMicrosMax: Int64 = 1_000_000_000_000_000
    /// An amount takes at least as many bytes of a packet: a tag, and 50 bits as a varint.
    package static let moneyByteCountMin = 9
    /// Event times are 1970-01-01 … 2262-01-01, microseconds; a decoder takes any other to the nearer end.
    package static let timestampMicrosecondsMax: Int64 = 9_214_646_400_000_000
    /// Groups and messages nested deeper than this are malformed, as in the official decoders.
    package static let protobufDepthMax = 100
    /// JSON objects and arrays nested deeper than this are malformed.
    package static let jsonDepthMax = 32

    // MARK: Sessions
    /// Rows of the log that a start looks through for sessions that are going on.
    package static let sessionRowCountMax = 1 << 24

    // MARK: Keys
    package static let keyByteCountMin = 16
    package static let keyByteCountMax = 64
    /// Two, so that one can be replaced by the other while packets of both are on their way.
    package static let senderKeyCountMax = 2
    /// 65,535 of the longest lines.
    package static let keysFileByteCountMax = 32 << 20

    // MARK: Time zones
    /// The largest of the package tzdata has 4 KB.
    package static let zoneFileByteCountMax = 256 << 10
    /// 400,000 lines of 80 bytes.
    package static let zonesFileByteCountMax = 32 << 20
    package static let ownersFileByteCountMax = 256 << 20
    /// Two ids, each byte of them as `%XX`, and room for blanks and a comment.
    package static let ownersLineByteCountMax = 1 << 10
    /// Different sequences of zones that businesses have: a place among them is 16 bits, of which one says that it is
    /// not known.
    package static let businessCalendarCountMax = (1 << 16) - 1

    // MARK: Spool of a sender
    /// What a sender without a spool may hold that is not acked.
    package static let unackedByteCountMax = 1 << 30
    /// A file is left for the next at 8 MiB; a burst of packets may go beyond.
    package static let spoolFileByteCountMax = 16 << 20
    /// All files of a spool.
    package static let spoolByteCountMax = 1 << 40

    // MARK: Ring
    package static let ringByteCount = 64 << 20

    // MARK: Dictionary
    package static let nameCountMax = 1 << 24
    package static let keyCountMax = 1 << 24
    /// Known (key, campaign, source), campaigns and sources, and platforms; beyond it `(other)`, and no platform.
    package static let attributionCountMax = 1 << 20
    package static let attributionNameCountMax = 1 << 16
    package static let platformCountMax = 1 << 10

    // MARK: Blocks
    package static let blockEventCountMax = 1 << 16
    /// All sections of a block before compression, and so the bound of what a decoder allocates. Large
    /// enough for every count below at its limit, so that an encoder never has to refuse.
    package static let blockByteCountMax = 16 << 20
    package static let blockNameCountMax = 1 << 15
    package static let blockKeyCountMax = 1 << 16
    package static let blockSectionCountMax = 64
    /// Commits that a rewritten block stands for.
    package static let blockCommitCountMax = (1 << 16) - 1
    /// Sequences of a sender's window, from its floor on.
    package static let windowSequenceCountMax = 1 << 16
    /// Missing ranges of a window that are known one by one.
    package static let windowMissingRangeCountMax = 1 << 10
    /// Newest packets of a window of which 16 bits are kept, and places for them of all windows.
    package static let windowCheckCountMax = 1 << 12
    package static let checkPlaceCountMax = 1 << 22
    /// How far ahead of the receiver's clock an epoch may begin.
    package static let epochLeadMillisecondsMax: UInt64 = 600_000
    /// The highest sequence of a packet.
    package static let sequenceMax: UInt64 = 1 << 62
    /// Open windows, and their memory, together.
    package static let windowCountMax = 1 << 16
    package static let windowByteCountMax = 256 << 20
    /// Senders of which only heartbeats came.
    package static let unopenedSenderCountMax = windowCountMax / 8
    /// Senders without a key, and those of one key, of which the newest expired epoch is known one by one.
    package static let expiredEpochCountMax = 1 << 16
    package static let expiredEpochOfKeyCountMax = 1 << 12
    /// Of more keys than have room for as many in the second, each has its part of that, and the first at least. Keys that had
    /// more before others came keep it, so that all together have some four times as many, of 130 bytes.
    package static let expiredEpochOfKeyCountMin = 1 << 4
    package static let expiredEpochOfKeysCountMax = 1 << 19
    /// The windows of one key have at most so large a part of what windows have together: memory, and places for checks.
    package static let windowPartOfKey = 8
    /// Ledger entries of a block, and sequence ranges of all of them together.
    package static let blockSenderCountMax = 1 << 14
    package static let blockSequenceRangeCountMax = 1 << 16
    /// Packets of a block with a sequence: each has a check.
    package static let blockCheckCountMax = 1 << 16
    /// All revenue and spend in the rows of a block, micros.
    package static let blockMoneyMicrosMax: UInt64 = 1 << 63
    /// Blocks between commit and compaction: those that a count taken behind them does not hold yet.
    package static let blockSlotCount = 16

    // MARK: Segments
    package static let segmentByteCountMin = 64 << 10
    package static let segmentByteCountDefault = 256 << 20
    package static let segmentByteCountMax = 1 << 30
    /// Places in a segment's file. It is full with `segmentByteCountMax`, one block may go beyond that, and the footer is
    /// behind it.
    package static let segmentFileByteCountMax = 1 << 32
    package static let segmentBlockCountMax = (1 << 20) - 1
    /// Rows in one segment; its counters are 32-bit.
    package static let segmentRowCountMax = 1 << 31
    package static let segmentKeyDayCountMax = 1 << 24
    package static let segmentSenderCountMax = 1 << 16
    /// Sequence ranges of all its ledger entries together.
    package static let segmentSequenceRangeCountMax = 1 << 22
    package static let segmentLostRangeCountMax = 1 << 16
    package static let preallocationByteCountMax = 16 << 20
    /// What the two parts of the reserve on disk have at least.
    package static let reserveFloorByteCount = 128 << 10
    package static let footerByteCountMax = 1 << 30

    // MARK: When a segment is full
    // With as many as this, the next block starts a new segment. Each is short of what a footer may hold
    // by what the block being filled may still add.
    /// A reader folds as many rows at most.
    package static let rollRowCount = 1 << 22
    package static let rollBlockCount = 1 << 14
    /// Bytes of new names and keys: they are kept in memory until the segment is published.
    package static let rollNameByteCount = 32 << 20
    package static let rollSenderCount = segmentSenderCountMax - blockSenderCountMax
    /// Far below the limit, since ranges are memory; before those of different blocks are merged.
    package static let rollSequenceRangeCount = 1 << 20
    /// Revenue and spend together: no sum of a segment passes 64 bits.
    package static let rollMoneyMicros: UInt64 = 1 << 62

    /// A segment with fewer rows a block than this is rewritten into full blocks when it is sealed.
    package static let rewriteRowCountMax = 1 << 8

    // MARK: Snapshots
    package static let runCountMax = 8
    /// As many footers gather in level 0 before they are merged; with as many as the second, ingestion sheds.
    package static let level0MergeCount = 8
    package static let level0CountMax = 16
    /// Footers that one merge takes in.
    package static let level0MergeCountMax = 64
    /// As many small names runs gather before they are merged.
    package static let mergeRunCountMin = 4
    @inlinable package static var runPageRowCountMax: Int { 1024 }
    /// Of a run of counters: 400 days of ten million rewards are about 60 GB.
    package static let runByteCountMax = 1 << 40
    package static let runRowCountMax = 1 << 36
    package static let namesRunByteCountMax = 1 << 34
    package static let manifestByteCountMax = 64 << 20
    /// Level 0 of a daemon that was stopped and started again and again without a merge between.
    package static let manifestLevel0CountMax = 1 << 12
    package static let manifestNamesRunCountMax = 1 << 10
    package static let manifestLostRangeCountMax = 1 << 20
    package static let manifestUncleanStopCountMax = 1 << 12

    // MARK: Days
    /// An event that the clock refused and whose time is further from its admission than this, either way, belongs to the
    /// day of its admission: senders cannot make days without end.
    package static let refusedDayDistanceMicrosecondsMax: Int64 = 400 * 86_400_000_000

    // MARK: Process
    /// Descriptors that a daemon may have open at least, or it does not start: a merge opens each of its inputs.
    package static let daemonDescriptorCountMin = level0MergeCountMax + 64

    // MARK: Queries
    /// Rows whose counters a listing holds at a time, 100 to 250 bytes each; of more, a range after the other.
    package static let queryRowCountMax = 1 << 20
    /// The days that event times can fall on in any zone, since 1970-01-01: a row of another day is damage.
    package static var businessDays: ClosedRange<Int32> { -1...106_652 }
}
