// packet → [decode] → [ring] → [admit] → block → segment → compaction → snapshot → query

/// One decoded event: fixed-size, pointing into the packet's bytes, hashes taken. The receive queue
/// makes it, and a `PacketRow` of it for the ring. Never on disk.
///
/// **Layout** 112 bytes, alignment 8; plain old data.
/// A name, session or event id is (offset, byte count) into the packet's bytes; byte count 0 = absent.
/// A decoder that unescapes text does so in place in the packet's own bytes, so that offsets are enough.
public struct EventDescriptor: BitwiseCopyable, Sendable {
    /// Event time, microseconds since 1970 UTC; 0 … `Limits.timestampMicrosecondsMax`, the ends for any
    /// time beyond them.
    public var timestampMicroseconds: Int64 = 0
    /// Of `KeyedHash.pair` of reward and business; the rest is `pairTag`.
    public var pairHash: UInt64 = 0
    /// `KeyedHash.name` of the business' bytes; likewise the three below (0 where absent).
    public var businessHash: UInt64 = 0
    public var platformHash: UInt64 = 0
    public var campaignHash: UInt64 = 0
    public var sourceHash: UInt64 = 0
    /// `KeyedHash.event` of (business, event id), without the type; meaningful only with `Flags.hasEventID`.
    public var eventHash: UInt64 = 0
    /// Micros of a currency unit, 0 … `Limits.moneyMicrosMax`.
    public var revenueMicros: Int64 = 0
    public var spendMicros: Int64 = 0
    /// 0 … 1,000,000; meaningful only with `Flags.isMeasured`.
    public var visiblePartsPerMillion: UInt32 = 0
    public var durationMilliseconds: UInt32 = 0
    public var rewardOffset: UInt16 = 0
    public var businessOffset: UInt16 = 0
    public var platformOffset: UInt16 = 0
    public var campaignOffset: UInt16 = 0
    public var sourceOffset: UInt16 = 0
    public var sessionOffset: UInt16 = 0
    /// The id as it is hashed: a UUID in JSON text has been replaced, in place, by its 16 bytes.
    public var eventIDOffset: UInt16 = 0
    public var rewardByteCount: UInt8 = 0
    public var businessByteCount: UInt8 = 0
    public var platformByteCount: UInt8 = 0
    public var campaignByteCount: UInt8 = 0
    public var sourceByteCount: UInt8 = 0
    public var sessionByteCount: UInt8 = 0
    public var eventIDByteCount: UInt8 = 0
    /// Raw value of `EventType`; never 0.
    public var type: UInt8 = 0
    /// Raw value of `Consent`.
    public var consent: UInt8 = 0
    /// Raw value of `AdFormat`.
    public var format: UInt8 = 0
    public var flags: UInt8 = 0
    public var pairTag: UInt32 = 0

    public init() {}

    /// The hash of reward and business.
    package var pair: PairHash {
        @inline(__always) get { PairHash(low: pairHash, tag: pairTag) }
        set { (pairHash, pairTag) = (newValue.low, newValue.tag) }
    }

    public enum Flags {
        /// Viewability was measured: in JSON both numbers are there; in protobuf the submessage is, with 0
        /// for a number that is not.
        public static let isMeasured: UInt8 = 1
        public static let hasEventID: UInt8 = 2
        /// The sender's own filter marked the event as invalid traffic.
        public static let isInvalidTraffic: UInt8 = 4
        /// The packet's key may not send for this business.
        public static let isWrongBusiness: UInt8 = 8
    }
}

/// Room for the descriptors of one packet, however many events it holds. Owned by the receive queue.
///
/// **Cost** 3.5 MiB of address space, taken once; pages that no packet needs are never touched.
@safe package struct EventScratch: ~Copyable {
    package static let capacity = Limits.packetEventCountMax
    package let descriptors: UnsafeMutablePointer<EventDescriptor>

    package init() { unsafe descriptors = .allocate(capacity: Self.capacity) }
    deinit { unsafe descriptors.deallocate() }

    /// The descriptor at `index`, which a decoder has filled.
    package subscript(index: Int) -> EventDescriptor {
        precondition(index >= 0 && index < Self.capacity)
        // SAFETY: inside the room, by the line above; filled, by the sentence above.
        return unsafe descriptors[index]
    }

    /// Marks those of the first `eventCount` events that are of another business.
    func mark(_ eventCount: Int, notOf businessHash: UInt64) {
        for index in 0..<eventCount where unsafe descriptors[index].businessHash != businessHash {
            // SAFETY: a decoder has filled so many.
            unsafe descriptors[index].flags |= EventDescriptor.Flags.isWrongBusiness
        }
    }
}

/// What became of one packet's payload.
package enum DecodeOutcome: Equatable, Sendable {
    /// `count` descriptors are filled; `malformed` further events were well-formed on the wire (a line of
    /// its own in JSON) but broke a rule: refused by themselves, and counted.
    /// Of those filled, `dropped` platforms, campaigns and sources were left out.
    case events(count: Int, malformed: Int, dropped: Int = 0)
    /// The wire format is broken: the whole packet is refused. The descriptors mean nothing.
    case malformed
}
