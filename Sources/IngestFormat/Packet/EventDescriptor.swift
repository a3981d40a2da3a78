// packet → [decode] → [ring] → [admit] → block → segment → compaction → snapshot → query

/// One decoded event: fixed-size, pointing into the packet's bytes, hashes taken. The receive queue
/// writes it, the ring carries it beside the packet's bytes, the commit queue reads it. Never on disk.
///
/// **Layout** 112 bytes, alignment 8; plain old data.
/// A name, session or event id is (offset, byte count) into the packet bytes of its ring record; byte count 0 = absent.
/// A decoder that unescapes text does so in place in the packet's own bytes, so that offsets are enough.
package struct EventDescriptor: BitwiseCopyable, Sendable {
    /// Event time, microseconds since 1970 UTC; 0 … `Limits.timestampMicrosecondsMax`.
    package var timestampMicroseconds: Int64 = 0
    /// `KeyedHash.name` of the reward id's bytes; likewise the four below (0 where absent).
    package var rewardHash: UInt64 = 0
    package var businessHash: UInt64 = 0
    package var platformHash: UInt64 = 0
    package var campaignHash: UInt64 = 0
    package var sourceHash: UInt64 = 0
    /// `KeyedHash.event` of (business, event id); meaningful only with `Flags.hasEventID`.
    package var eventHash: UInt64 = 0
    /// Micros of a currency unit, 0 … `Limits.moneyMicrosMax`.
    package var revenueMicros: Int64 = 0
    package var spendMicros: Int64 = 0
    /// 0 … 1,000,000; meaningful only with `Flags.isMeasured`.
    package var visiblePartsPerMillion: UInt32 = 0
    package var durationMilliseconds: UInt32 = 0
    package var rewardOffset: UInt16 = 0
    package var businessOffset: UInt16 = 0
    package var platformOffset: UInt16 = 0
    package var campaignOffset: UInt16 = 0
    package var sourceOffset: UInt16 = 0
    package var sessionOffset: UInt16 = 0
    /// The id as it is hashed: a UUID in JSON text has been replaced, in place, by its 16 bytes.
    package var eventIDOffset: UInt16 = 0
    package var rewardByteCount: UInt8 = 0
    package var businessByteCount: UInt8 = 0
    package var platformByteCount: UInt8 = 0
    package var campaignByteCount: UInt8 = 0
    package var sourceByteCount: UInt8 = 0
    package var sessionByteCount: UInt8 = 0
    package var eventIDByteCount: UInt8 = 0
    /// Raw value of `EventType`; never 0.
    package var type: UInt8 = 0
    /// Raw value of `Consent`.
    package var consent: UInt8 = 0
    /// Raw value of `AdFormat`.
    package var format: UInt8 = 0
    package var flags: UInt8 = 0

    package init() {}

    /// Where the groups of fields begin that are read as arrays, in the order above; held by a test.
    enum Offset {
        static let hashes = 8
        static let offsets = 80
        static let byteCounts = 94
    }

    package enum Flags {
        /// Both viewability numbers are present.
        package static let isMeasured: UInt8 = 1
        package static let hasEventID: UInt8 = 2
        /// The sender's own filter marked the event as invalid traffic.
        package static let isInvalidTraffic: UInt8 = 4
    }
}
