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

    package let identity: SenderIdentity
    /// The sequence that the next sealed packet gets: the number of packets sealed so far.
    package private(set) var nextSequence: UInt64 = 0
    /// Events in the packets of this burst, sealed and open.
    package private(set) var eventCount = 0
    /// Packets of this burst that are sealed.
    package private(set) var sealedPacketCount = 0
    /// The sealed packets, back to back.
    package private(set) var packets: [UInt8] = []

    private let burstByteCountMax: Int
    private var batch: EventBatchEncoder
    private let key: PacketKey?

    package init(identity: SenderIdentity, packetByteCountMax: Int, key: PacketKey? = nil) {
        precondition(Self.packetByteCountLimits.contains(packetByteCountMax))
        self.identity = identity
        self.key = key
        self.packetByteCountMax = packetByteCountMax
        batch = EventBatchEncoder(
            packetByteCountMax: packetByteCountMax - (key == nil ? 0 : PacketTag.byteCount))
        burstByteCountMax = UDPTransport.burstByteCount(segmentByteCount: packetByteCountMax)
        packets.reserveCapacity(burstByteCountMax)
    }

    /// Tag and all.
    package let packetByteCountMax: Int

    /// Adds one event to the open packet, or to the next one if it does not fit.
    ///
    /// - Parameter bytes: what the descriptor's offsets point into.
    /// - Returns: `false`, and nothing was added, if the burst is full: send it, then append again.
    package mutating func append(_ event: EventDescriptor, from bytes: [UInt8]) -> Bool {
        guard hasRoomForPacket else { return false }
        if !appendToOpenPacket(event, bytes) {
            sealPacket(isPadded: true)
            guard hasRoomForPacket else { return false }
            let isTaken = appendToOpenPacket(event, bytes)
            precondition(isTaken, "every valid event fits an empty packet")
        }
        eventCount += 1
        return true
    }

    /// Seals the open packet if it holds an event. Nothing may be appended before `removeAll`.
    package mutating func seal() {
        guard batch.eventCount > 0 else { return }
        sealPacket(isPadded: batch.packetByteCount < Self.packetByteCountMin)
    }

    /// Empties the burst; the memory and the sequence stay.
    package mutating func removeAll() {
        packets.removeAll(keepingCapacity: true)
        eventCount = batch.eventCount
        sealedPacketCount = 0
    }

    /// A heartbeat of this moment: its sequence is the next to be sent. It takes no sequence itself.
    ///
    /// - Parameter base: the lowest sequence that the sender still holds for a resend; 0 = not given.
    package func heartbeat(base: UInt64) -> [UInt8] {
        var packet = Heartbeat.packet(
            header(.heartbeat), base: PacketSequence(rawValue: base))
        key?.tag.append(to: &packet)
        return packet
    }

    /// Whether one more full packet fits the burst.
    private var hasRoomForPacket: Bool { packets.count + packetByteCountMax <= burstByteCountMax }

    private mutating func appendToOpenPacket(_ event: EventDescriptor, _ bytes: [UInt8]) -> Bool {
        // SAFETY: the encoder slices the buffer by the descriptor's places, which traps outside it.
        unsafe bytes.withUnsafeBytes { unsafe batch.append(event, from: $0) }
    }

    private mutating func sealPacket(isPadded: Bool) {
        var packet = batch.seal(header(.batch), isPadded: isPadded)
        key?.tag.append(to: &packet)
        packets += packet
        nextSequence += 1
        sealedPacketCount += 1
    }

    /// Without acks asked for: flag bit 0 stays 0.
    private func header(_ kind: PacketKind) -> PacketHeader {
        PacketHeader(
            kind: kind, flags: key == nil ? 0 : PacketHeader.Flags.hasTag, keyID: key?.id ?? 0,
            sender: identity.sender, epoch: identity.epoch,
            sequence: PacketSequence(rawValue: nextSequence))
    }
}
