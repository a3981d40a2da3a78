// event → encode → [packet] → socket

import IngestFormat
import IngestKeys

/// Who sends: fixed for one start of a sender.
package struct SenderIdentity: Equatable, Sendable {
    package let sender: SenderID
    package let epoch: SenderEpoch

    package init(sender: SenderID, epoch: SenderEpoch) {
        self.sender = sender
        self.epoch = epoch
    }

    /// `unix_milliseconds << 20 | 20 random bits`: greater at each start, and different even for two
    /// starts in one millisecond.
    package static func epoch(unixMilliseconds: UInt64, random: UInt64) -> SenderEpoch {
        SenderEpoch(rawValue: unixMilliseconds << 20 | random & 0xF_FFFF)
    }
}

/// Packs events into framed packets that lie one behind the other, ready to leave in one call.
///
/// **Layout** Packets of exactly `packetByteCountMax` bytes, padded inside their payload, so that the
/// kernel can cut and join them by one size; only the last of a burst may be shorter, never below 56
/// bytes. Sequences count up from 0 by one a packet and never skip: a packet gets its sequence when it is
/// sealed, in the order in which packets leave.
///
/// **Cost** 64 KiB, taken once; each event's bytes are copied three times, an array a packet.
package struct PacketBuilder: ~Copyable {
    /// A packet below this gets no answer (the rule that keeps an answer from being larger).
    package static let packetByteCountMin = 56
    /// The smallest limit on packets that holds one event of any valid size.
    package static let packetByteCountLimits = 1_200...Limits.packetByteCountMax

    /// The sequence that the next sealed packet gets: the number of packets sealed so far.
    package private(set) var nextSequence: UInt64 = 0
    /// Events in the packets of this burst, sealed and open.
    package private(set) var eventCount = 0
    /// Packets of this burst that are sealed.
    package private(set) var sealedPacketCount = 0
    /// The sealed packets, back to back.
    package private(set) var packets: [UInt8] = []

    private let burstByteCountMax: Int
    private var encoder: PacketEncoder

    package init(identity: SenderIdentity, packetByteCountMax: Int, key: PacketKey? = nil) {
        encoder = PacketEncoder(
            identity: identity, packetByteCountMax: packetByteCountMax, key: key, asksForAcks: false
        )
        burstByteCountMax = UDPTransport.burstByteCount(segmentByteCount: packetByteCountMax)
        packets.reserveCapacity(burstByteCountMax)
    }

    /// Tag and all.
    package var packetByteCountMax: Int { encoder.packetByteCountMax }

    /// Adds one event to the open packet, or to the next one if it does not fit.
    ///
    /// - Parameter bytes: what the descriptor's offsets point into.
    /// - Returns: `false`, and nothing was added, if the burst is full: send it, then append again.
    package mutating func append(_ event: EventDescriptor, from bytes: [UInt8]) -> Bool {
        guard hasRoomForPacket else { return false }
        if !encoder.append(event, from: bytes) {
            sealPacket(isFull: true)
            guard hasRoomForPacket else { return false }
            _ = encoder.append(event, from: bytes)
        }
        eventCount += 1
        return true
    }

    /// Seals the open packet if it holds an event. Nothing may be appended before `removeAll`.
    package mutating func seal() {
        if encoder.eventCount > 0 { sealPacket(isFull: false) }
    }

    /// Empties the burst; the memory and the sequence stay.
    package mutating func removeAll() {
        packets.removeAll(keepingCapacity: true)
        eventCount = encoder.eventCount
        sealedPacketCount = 0
    }

    /// A heartbeat of this moment: its sequence is the next to be sent. It takes no sequence itself.
    ///
    /// - Parameter base: the lowest sequence that the sender still holds for a resend; 0 = not given.
    package func heartbeat(base: UInt64) -> [UInt8] {
        encoder.heartbeat(next: nextSequence, base: base)
    }

    /// Whether one more full packet fits the burst.
    private var hasRoomForPacket: Bool { packets.count + packetByteCountMax <= burstByteCountMax }

    private mutating func sealPacket(isFull: Bool) {
        packets += encoder.seal(sequence: nextSequence, isFull: isFull)
        nextSequence += 1
        sealedPacketCount += 1
    }
}
