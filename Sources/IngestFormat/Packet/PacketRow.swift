// packet → [decode] → [ring] → [admit] → block → segment → compaction → snapshot → query

/// One decoded event as the ring carries it: what the commit queue needs of nearly every event. Names are
/// places in the packet's bytes, looked at only where their pair is new. Never on disk.
///
/// **Layout** 48 bytes, alignment 8; plain old data. Fields are those of `EventDescriptor`.
public struct PacketRow: BitwiseCopyable, Sendable {
    public var timestampMicroseconds: Int64
    public var pairHash: UInt64
    /// Meaningful only with `EventDescriptor.Flags.hasEventID`.
    public var eventHash: UInt64
    public var pairTag: UInt32
    public var visiblePartsPerMillion: UInt32
    public var durationMilliseconds: UInt32
    public var rewardOffset: UInt16
    public var businessOffset: UInt16
    /// The number of the event's side record in its packet, from 1 on; 0 = it has none.
    public var side: UInt16
    public var rewardByteCount: UInt8
    public var businessByteCount: UInt8
    public var type: UInt8
    public var consent: UInt8
    public var format: UInt8
    public var flags: UInt8

    @inline(__always)
    public init(_ event: borrowing EventDescriptor, side: UInt16 = 0) {
        timestampMicroseconds = event.timestampMicroseconds
        pairHash = event.pairHash
        eventHash = event.eventHash
        pairTag = event.pairTag
        visiblePartsPerMillion = event.visiblePartsPerMillion
        durationMilliseconds = event.durationMilliseconds
        rewardOffset = event.rewardOffset
        businessOffset = event.businessOffset
        self.side = side
        rewardByteCount = event.rewardByteCount
        businessByteCount = event.businessByteCount
        type = event.type
        consent = event.consent
        format = event.format
        flags = event.flags
    }

    /// The hash of reward and business.
    package var pair: PairHash {
        @inline(__always) get { PairHash(low: pairHash, tag: pairTag) }
    }
}

/// What few events of a packet have, or most of them alike: amounts, platform, campaign and source.
///
/// **Layout** 64 bytes, alignment 8; plain old data. Amounts are those of `EventDescriptor`.
public struct PacketSide: BitwiseCopyable, Sendable {
    /// Micros of a currency unit, 0 … `Limits.moneyMicrosMax`.
    public var revenueMicros: Int64
    public var spendMicros: Int64
    public var platform: Name
    public var campaign: Name
    public var source: Name

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
    public init(_ event: borrowing EventDescriptor) {
        revenueMicros = event.revenueMicros
        spendMicros = event.spendMicros
        platform = Name(event.platformHash, event.platformOffset, event.platformByteCount)
        campaign = Name(event.campaignHash, event.campaignOffset, event.campaignByteCount)
        source = Name(event.sourceHash, event.sourceOffset, event.sourceByteCount)
    }
}

/// The part of a ring record behind the packet's bytes: a row for each event, then the side records, of which
/// neighbours with the same one share it.
public enum PacketRows {
    /// The most that so many events take, in bytes.
    @inline(__always)
    public static func byteCountMax(eventCount: Int) -> Int {
        eventCount &* (MemoryLayout<PacketRow>.stride &+ MemoryLayout<PacketSide>.stride)
    }

    /// Where the side records begin, in bytes from the rows.
    @inline(__always)
    public static func sideOffset(eventCount: Int) -> Int {
        eventCount &* MemoryLayout<PacketRow>.stride
    }

    /// Writes the rows and side records of `eventCount` ≤ 65,535 events to `place`, which is 8-aligned and has room for
    /// `byteCountMax`.
    ///
    /// **Cost** 2–3 ns an event from the first-level cache.
    /// - Returns: how many bytes they take.
    @unsafe public static func write(
        _ events: UnsafePointer<EventDescriptor>, eventCount: Int, to place: UnsafeMutableRawPointer
    ) -> Int {
        let rows = unsafe place.assumingMemoryBound(to: PacketRow.self)
        let sides = unsafe (place + sideOffset(eventCount: eventCount))
            .assumingMemoryBound(to: PacketSide.self)
        var count = 0
        for index in 0..<eventCount {
            let event = unsafe events + index
            var side = 0
            if unsafe event.pointee.hasSide {
                // SAFETY: count ≤ index, so that there is room for one more.
                side = unsafe number(of: event, in: sides, count: count)
                if side > count {
                    unsafe (sides + count).initialize(to: PacketSide(event.pointee))
                    count = side
                }
            }
            unsafe (rows + index).initialize(
                to: PacketRow(event.pointee, side: UInt16(truncatingIfNeeded: side)))
        }
        return sideOffset(eventCount: eventCount) &+ count &* MemoryLayout<PacketSide>.stride
    }

    /// Among so many of the side records written last an equal one is looked for.
    private static var nearCount: Int { 4 }

    /// The number of the side record that an event shares, or of the next one.
    @inline(__always)
    private static func number(
        of event: UnsafePointer<EventDescriptor>, in sides: UnsafePointer<PacketSide>, count: Int
    ) -> Int {
        var number = count
        // SAFETY: so many have been written.
        while number > max(0, count &- nearCount) {
            if unsafe event.pointee.equals(sides[number &- 1]) { return number }
            number &-= 1
        }
        return count &+ 1
    }
}

extension EventDescriptor {
    @inline(__always)
    fileprivate var hasSide: Bool {
        revenueMicros | spendMicros != 0
            || platformByteCount | campaignByteCount | sourceByteCount != 0
    }

    /// Whether a side record holds what this event has: names with the same hash are the same (decision 33).
    @inline(__always)
    fileprivate func equals(_ side: PacketSide) -> Bool {
        let names =
            (platformHash ^ side.platform.hash) | (campaignHash ^ side.campaign.hash)
            | (sourceHash ^ side.source.hash)
        return names == 0 && revenueMicros == side.revenueMicros
            && spendMicros == side.spendMicros
    }
}
