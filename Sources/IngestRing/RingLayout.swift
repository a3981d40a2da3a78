// packet → decode → [ring] → admit → block → segment → compaction → snapshot → query
// Where everything in the ring's memory lies. The algorithm (RingProducer, RingConsumer) uses these
// names and knows no number.
import CIngestLinux

/// The memory of one ring: a page of control words, then the arena, which is cut into slabs.
///
/// **Layout**
///
///     offset  size  what                                       written by
///     0       8     published: end of what may be read         producer
///     128     8     released: end of what may be overwritten   consumer
///     256     4     sleeping: the futex word                   consumer sets, who wakes it clears
///     384     1     wake requested                             any waker sets, consumer clears
///     385     1     closed                                     producer
///     512     2m    order: which slab holds each of the m newest stretches, u16 each    producer
///     4096    n     the arena, n a power of two
///
/// Positions are 64-bit byte counts since the start and never wrap: 2^64 bytes at 10 GB/s are 58 years. A stretch
/// of `slabByteCount` positions lies in one slab, in the one that was freed last: while the consumer keeps up, two
/// slabs take turns, and while it does not, all of the arena is used. The place of
/// a position is `slab × slabByteCount + position mod slabByteCount`, with the slab in `order` at
/// `position / slabByteCount mod m`. Words written by different sides are 128 bytes apart, because the processor
/// fetches lines of 64 bytes in pairs.
package enum RingLayout {
    package static let publishedOffset = 0
    package static let releasedOffset = 128
    package static let sleepingOffset = 256
    package static let wakeRequestedOffset = 384
    package static let closedOffset = 385
    package static let orderOffset = 512
    package static let arenaOffset = 4096

    package static let arenaByteCountMin = 4096
    /// As many slabs as `order` has room for, of those that are a power of two.
    package static let arenaByteCountMax = slabByteCountMax * slabCountMax
    package static let slabCountMax = 1 << 10
    /// It holds the record of any packet: at most 5,035 events with a side record, 0.63 MB.
    package static let slabByteCountMax = 1 << 20

    /// Records start and end on cache lines, so that no two share one and a padding record always fits.
    package static let recordAlignment = 64
    package static let recordHeaderByteCount = 64

    /// The largest record that an arena of this size takes, a slab: half of the arena at most, so that any record fits
    /// an empty ring, wherever the last one ended.
    package static func recordByteCountMax(arenaByteCount: Int) -> Int {
        min(arenaByteCount / 2, slabByteCountMax)
    }

    /// What a slab of the largest size has for each of the records of this size that fit it.
    package static func shareByteCount(of recordByteCount: Int) -> Int {
        slabByteCountMax / max(1, slabByteCountMax / max(1, recordByteCount))
    }

    /// `byteCount` rounded up to whole lines.
    package static func recordByteCount(_ byteCount: Int) -> Int {
        (byteCount &+ recordAlignment &- 1) & ~(recordAlignment &- 1)
    }

    /// Where a record's rows start: after the header and the packet's bytes, 8-aligned.
    package static func rowOffset(packetByteCount: Int) -> Int {
        (recordHeaderByteCount &+ packetByteCount &+ 7) & ~7
    }
}

/// What a record is. The ring itself only tells padding from the rest.
package enum RingRecordKind {
    /// Fills the end of a slab before a record that did not fit there; never shown to the consumer.
    package static let padding: UInt8 = 0
    /// A framed batch packet that passed its checks, with the rows of its events.
    package static let framed: UInt8 = 1
    /// Counts of refused packets since the last such record: in place of packet bytes a u64 for each
    /// packet result, indexed by its raw value.
    package static let refusals: UInt8 = 2
    /// A datagram of plain JSON events, with their rows.
    package static let plain: UInt8 = 3
    /// A heartbeat packet that passed its checks.
    package static let heartbeat: UInt8 = 4
}

/// The head of every record.
///
/// **Layout** 64 bytes, one cache line; then `packetByteCount` bytes of the packet; then, from the next
/// multiple of 8 on, `eventCount` rows and what belongs to them, opaque to the ring. Unused bytes are zero.
package struct RingRecordHeader: BitwiseCopyable, Sendable {
    /// The whole record, a multiple of 64; set by the ring.
    package var byteCount: UInt32 = 0
    /// One of `RingRecordKind`.
    package var kind: UInt8
    /// Bits of `Flags`.
    package var flags: UInt8 = 0
    package var keyID: UInt16 = 0
    /// Sender, epoch and sequence of a framed packet; 0 for others.
    package var sender: UInt64 = 0
    package var epoch: UInt64 = 0
    package var sequence: UInt64 = 0
    package var packetByteCount: UInt16 = 0
    package var eventCount: UInt16 = 0
    /// Events of the packet that were refused as malformed, each by itself; they have no row.
    package var malformedCount: UInt16 = 0
    /// Of a framed packet, 16 bits of all of its bytes; never 0.
    package var check: UInt16 = 0
    /// Where a framed packet came from.
    package var source = ingest_peer()

    package init(kind: UInt8) { self.kind = kind }

    package enum Flags {
        /// The sender asked for acks (the packet's own flag, bit 0).
        package static let wantsAck: UInt8 = 1
        /// The packet passed its identity checks, but its payload could not be decoded: it is refused
        /// as a whole, yet its sequence is consumed. It has no events.
        package static let isMalformed: UInt8 = 2
        /// The packet has a tag, and so has its answer.
        package static let hasTag: UInt8 = 4
        /// The packet's key is bound to a business.
        package static let isBound: UInt8 = 8
    }
}
