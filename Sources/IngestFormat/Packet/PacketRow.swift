// packet → [decode] → [ring] → [admit] → block → segment → compaction → snapshot → query

/// One decoded event as the ring carries it: what the commit queue needs of nearly every event. Names are
/// places in the packet's bytes, looked at only where their pair is new. Never on disk.
///
/// **Layout** 64 bytes, alignment 8; plain old data. Fields are those of `EventDescriptor`.
public struct PacketRow: BitwiseCopyable, Sendable {
    public var timestampMicroseconds: Int64
    public var pairHash: UInt64
    /// Of business, type and event id; meaningful only with `EventDescriptor.Flags.hasEventID`.
    public var eventHash: UInt64
    public var platform: Name
    public var pairTag: UInt32
    public var visiblePartsPerMillion: UInt32
    public var durationMilliseconds: UInt32
    public var rewardOffset: UInt16
    public var businessOffset: UInt16
    /// The number of the event's side record in its packet, from 1 on; 0 = it has none.
    public var side: UInt16
    /// Where the session's id is in the packet; byte count 0 = absent.
    public var sessionOffset: UInt16
    public var sessionByteCount: UInt8
    public var rewardByteCount: UInt8
    public var businessByteCount: UInt8
    public var type: UInt8
    public var consent: UInt8
    public var format: UInt8
    public var flags: UInt8

    /// A name's place in the packet's bytes, and its `KeyedHash.name`; byte count 0 = absent.
    public struct Name: BitwiseCopyable, Sendable {
        public var hash: UInt64
        public var offset: UInt16
        public var byteCount: UInt8

        @inline(__always)
        init(_ hash: UInt64, _ offset: UInt16, _ byteCount: UInt8) {
            (self.hash, self.offset, self.byteCount) = (hash, offset, byteCount)
        }
    }

    @inline(__always)
    public init(_ event: borrowing EventDescriptor, side: UInt16 = 0) {
        timestampMicroseconds = event.timestampMicroseconds
        pairHash = event.pairHash
        eventHash = KeyedHash.event(event.eventHash, ofType: event.type)
        platform = Name(event.platformHash, event.platformOffset, event.platformByteCount)
        pairTag = event.pairTag
        visiblePartsPerMillion = event.visiblePartsPerMillion
        durationMilliseconds = event.durationMilliseconds
        rewardOffset = event.rewardOffset
        businessOffset = event.businessOffset
        self.side = side
        sessionOffset = event.sessionOffset
        sessionByteCount = event.sessionByteCount
        rewardByteCount = event.rewardByteCount
        businessByteCount = event.businessByteCount
        type = event.type
        consent = event.consent
        format = event.format
        flags = event.flags
    }

    /// The hash of reward and business.
    public var pair: PairHash {
        @inline(__always) get { PairHash(low: pairHash, tag: pairTag) }
    }
}

/// What not every event has: amounts, campaign and source.
///
/// **Layout** 48 bytes, alignment 8; plain old data. Fields are those of `EventDescriptor`.
public struct PacketSide: BitwiseCopyable, Sendable {
    public var revenueMicros: Int64
    public var spendMicros: Int64
    public var campaign: PacketRow.Name
    public var source: PacketRow.Name

    @inline(__always)
    public init(_ event: borrowing EventDescriptor) {
        revenueMicros = event.revenueMicros
        spendMicros = event.spendMicros
        campaign = PacketRow.Name(
            event.campaignHash, event.campaignOffset, event.campaignByteCount)
        source = PacketRow.Name(event.sourceHash, event.sourceOffset, event.sourceByteCount)
    }
}

/// The part of a ring record behind the packet's bytes: a row for each event, then a side record for each that has what
/// belongs into one.
public enum PacketRows {
    /// What the rows and side records of `eventCount` events take, in bytes.
    @unsafe public static func byteCount(
        of events: UnsafePointer<EventDescriptor>, eventCount: Int
    ) -> Int {
        var sideCount = 0
        for index in 0..<eventCount {
            // SAFETY: there are so many.
            sideCount &+= unsafe events[index].hasSide ? 1 : 0
        }
        return sideOffset(eventCount: eventCount)
            &+ sideCount &* MemoryLayout<PacketSide>.stride
    }

    /// Where the side records begin, in bytes from the rows.
    @inline(__always)
    public static func sideOffset(eventCount: Int) -> Int {
        eventCount &* MemoryLayout<PacketRow>.stride
    }

    /// Writes the rows and side records of `eventCount` ≤ 65,535 events to `place`, which is 8-aligned and has room for
    /// what `byteCount` says.
    ///
    /// **Cost** 4 ns an event from the first-level cache.
    @unsafe public static func write(
        _ events: UnsafePointer<EventDescriptor>, eventCount: Int, to place: UnsafeMutableRawPointer
    ) {
        let rows = unsafe place.assumingMemoryBound(to: PacketRow.self)
        let sides = unsafe (place + sideOffset(eventCount: eventCount))
            .assumingMemoryBound(to: PacketSide.self)
        var count = 0
        for index in 0..<eventCount {
            let event = unsafe events + index
            let hasSide = unsafe event.pointee.hasSide
            if hasSide {
                // SAFETY: count ≤ index, so that there is room for one more.
                unsafe (sides + count).initialize(to: PacketSide(event.pointee))
                count &+= 1
            }
            unsafe (rows + index).initialize(
                to: PacketRow(
                    event.pointee, side: hasSide ? UInt16(truncatingIfNeeded: count) : 0))
        }
    }
}

extension EventDescriptor {
    @inline(__always)
    fileprivate var hasSide: Bool {
        revenueMicros | spendMicros | Int64(campaignByteCount | sourceByteCount) != 0
    }
}
