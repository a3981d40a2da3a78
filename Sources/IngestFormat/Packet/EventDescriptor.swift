// packet → [decode] → [ring] → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux

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

/// The end of every event's decoding, whichever way it came: the rules of the schema, then the hashes.
///
/// **Rules** Type, reward and business are there; names are 1–128 bytes of UTF-8, a session 0–64 of
/// UTF-8, an event id 0–64 of anything; money is 0 … `Limits.moneyMicrosMax`; visible share
/// ≤ 1,000,000 ppm; enums hold known values. What breaks one is malformed. A time outside of `Limits` is
/// taken to the nearer end, where the rule of too old or too early judges it. Platform,
/// campaign and source are decoration: one that is over 64 bytes, holds an `@` (it might be a person's
/// address) or is not UTF-8 is dropped, the event stays.
@safe struct EventCompletion {
    typealias Key = UnsafePointer<ingest_hash_key>

    private let hash: KeyedHash
    private let takesHashes: Bool
    /// There as long as this is.
    var key: Key { @inline(__always) get { unsafe hash.subkeys } }

    /// - Parameter hash: `nil` = hashes are not asked for, and mean nothing.
    init(hash: KeyedHash?) {
        takesHashes = hash != nil
        self.hash = hash ?? KeyedHash(key: InlineArray(repeating: 0))
    }

    /// Checks `count` events, whose places all lie in `packet` and whose numbers are valid, and takes their
    /// hashes. Events with a text that is not valid are taken out.
    /// - Returns: how many stay, and how many platforms, campaigns and sources were dropped.
    func complete(
        _ events: UnsafeMutablePointer<EventDescriptor>, _ count: Int, _ packet: UnsafeRawPointer
    ) -> (live: Int, dropped: Int) {
        var (live, dropped) = (0, 0)
        for i in 0..<count {
            // SAFETY: live ≤ i < count.
            guard unsafe Self.hasValidTexts(events + i, packet) else { continue }
            if takesHashes { unsafe hashNames(events + i, packet) }
            dropped += unsafe completeAttribution(events + i, packet, key)
            if live != i { unsafe events[live] = events[i] }
            live += 1
        }
        return (live, dropped)
    }

    /// Checks the rules that need no bytes of the packet, takes the time into its range and marks an event
    /// that has an id. A decoder keeps only events that pass.
    @inline(__always)
    static func accepts(_ event: UnsafeMutablePointer<EventDescriptor>) -> Bool {
        let hasID: UInt8 = unsafe event.pointee.eventIDByteCount != 0 ? 1 : 0
        unsafe event.pointee.flags |= hasID &* EventDescriptor.Flags.hasEventID
        let time = unsafe event.pointee.timestampMicroseconds
        unsafe event.pointee.timestampMicroseconds =
            min(max(time, 0), Limits.timestampMicrosecondsMax)
        return unsafe hasValidNumbers(event)
    }

    @inline(__always)
    private static func hasValidNumbers(_ event: UnsafeMutablePointer<EventDescriptor>) -> Bool {
        // SAFETY: the caller's descriptor.
        unsafe event.pointee.type &- 1 < 3 && event.pointee.consent < 3 && event.pointee.format < 3
            && event.pointee.rewardByteCount &- 1 < UInt8(Limits.nameByteCountMax)
            && event.pointee.businessByteCount &- 1 < UInt8(Limits.nameByteCountMax)
            && event.pointee.eventIDByteCount <= UInt8(Limits.eventIDByteCountMax)
            && event.pointee.sessionByteCount <= UInt8(Limits.sessionIDByteCountMax)
            && event.pointee.visiblePartsPerMillion <= Limits.visiblePartsPerMillionMax
            // A negative number is a great one without its sign.
            && UInt64(bitPattern: event.pointee.revenueMicros) <= UInt64(Limits.moneyMicrosMax)
            && UInt64(bitPattern: event.pointee.spendMicros) <= UInt64(Limits.moneyMicrosMax)
    }

    private static func hasValidTexts(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ packet: UnsafeRawPointer
    ) -> Bool {
        // SAFETY: each place was taken from the packet's own bytes, and its count checked.
        unsafe UTF8Text.isValid(
            packet + Int(event.pointee.rewardOffset), Int(event.pointee.rewardByteCount))
            && UTF8Text.isValid(
                packet + Int(event.pointee.businessOffset), Int(event.pointee.businessByteCount))
            && UTF8Text.isValid(
                packet + Int(event.pointee.sessionOffset), Int(event.pointee.sessionByteCount))
    }

    private func hashNames(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ packet: UnsafeRawPointer
    ) {
        // SAFETY: each place was taken from the packet's own bytes, and its count checked.
        let pair = unsafe ingest_hash_pair(
            key, packet + Int(event.pointee.rewardOffset), Int(event.pointee.rewardByteCount),
            packet + Int(event.pointee.businessOffset), Int(event.pointee.businessByteCount))
        unsafe event.pointee.pair = PairHash(low: pair.low, tag: pair.tag)
        unsafe event.pointee.businessHash = pair.business
        if unsafe event.pointee.eventIDByteCount != 0 {
            unsafe event.pointee.eventHash = KeyedHash.event(
                key, pair.business, packet + Int(event.pointee.eventIDOffset),
                Int(event.pointee.eventIDByteCount))
        }
    }

    /// - Returns: how many were dropped.
    private func completeAttribution(
        _ event: UnsafeMutablePointer<EventDescriptor>, _ packet: UnsafeRawPointer, _ key: Key
    ) -> Int {
        let platform = unsafe Self.completeName(
            &event.pointee.platformOffset, &event.pointee.platformByteCount,
            &event.pointee.platformHash, packet, key)
        let campaign = unsafe Self.completeName(
            &event.pointee.campaignOffset, &event.pointee.campaignByteCount,
            &event.pointee.campaignHash, packet, key)
        let source = unsafe Self.completeName(
            &event.pointee.sourceOffset, &event.pointee.sourceByteCount,
            &event.pointee.sourceHash, packet, key)
        return platform + campaign + source
    }

    @inline(__always)
    private static func completeName(
        _ offset: inout UInt16, _ byteCount: inout UInt8, _ hash: inout UInt64,
        _ packet: UnsafeRawPointer, _ key: Key
    ) -> Int {
        guard byteCount != 0 else { return 0 }
        let count = Int(byteCount)
        // SAFETY: the place was taken from the packet's own bytes; a count of 255 may stand for more.
        let name = unsafe packet + Int(offset)
        if count <= Limits.attributionByteCountMax, unsafe UTF8Text.isValid(name, count),
            unsafe !UTF8Text.contains(UInt8(ascii: "@"), name, count)
        {
            hash = unsafe KeyedHash.name(key, name, count)
            return 0
        }
        hash = 0
        offset = 0
        byteCount = 0
        return 1
    }
}
