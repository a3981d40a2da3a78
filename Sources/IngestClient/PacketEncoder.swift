// event → [encode] → packet → socket

import IngestFormat
import IngestKeys

/// Makes the packets of one sender, one at a time: events go into the open packet until it is sealed. The only place where
/// a sender's packets get their header, padding and tag.
///
/// **Cost** Two copies of an event's bytes, an array a packet.
struct PacketEncoder: ~Copyable {
    let identity: SenderIdentity
    /// Of a full packet, tag and all.
    let packetByteCountMax: Int
    private let asksForAcks: Bool
    private let key: PacketKey?
    private var batch: EventBatchEncoder

    /// - Parameter packetByteCountMax: one of `PacketBuilder.packetByteCountLimits`.
    init(
        identity: SenderIdentity, packetByteCountMax: Int, key: PacketKey?, asksForAcks: Bool
    ) {
        precondition(PacketBuilder.packetByteCountLimits.contains(packetByteCountMax))
        self.identity = identity
        self.packetByteCountMax = packetByteCountMax
        self.asksForAcks = asksForAcks
        self.key = key
        let tagByteCount = key == nil ? 0 : PacketTag.byteCount
        batch = EventBatchEncoder(packetByteCountMax: packetByteCountMax - tagByteCount)
    }

    /// Events in the open packet.
    var eventCount: Int { batch.eventCount }

    /// Adds one event to the open packet.
    ///
    /// - Parameter bytes: what the descriptor's offsets point into.
    /// - Returns: `false`, and nothing was added, if the packet has no room: seal it, then append again.
    mutating func append(_ event: EventDescriptor, from bytes: [UInt8]) -> Bool {
        // SAFETY: the encoder slices the buffer by the descriptor's places, which traps outside it.
        let isTaken = unsafe bytes.withUnsafeBytes { unsafe batch.append(event, from: $0) }
        precondition(isTaken || batch.eventCount > 0, "every valid event fits an empty packet")
        return isTaken
    }

    /// Closes the open packet and begins another.
    ///
    /// - Parameter isFull: it is padded to the size of all full ones. Another one is as short as an answer allows.
    mutating func seal(sequence: UInt64, isFull: Bool) -> [UInt8] {
        let isPadded = isFull || batch.packetByteCount < PacketBuilder.packetByteCountMin
        var packet = batch.seal(header(.batch, sequence), isPadded: isPadded)
        key?.tag.append(to: &packet)
        return packet
    }

    /// - Parameters:
    ///   - next: what it announces; it takes no sequence itself.
    ///   - base: the lowest sequence that the sender still holds for a resend; 0 = not given.
    ///   - answerByteCount: what an answer should have room for; as far as a packet has.
    func heartbeat(next: UInt64, base: UInt64, answerByteCount: Int = 0) -> [UInt8] {
        let room = batch.packetByteCountMax - PacketHeader.byteCount
        var packet = Heartbeat.packet(
            header(.heartbeat, next), base: PacketSequence(rawValue: base),
            payloadByteCount: min(room, max(Heartbeat.payloadByteCountMin, answerByteCount)))
        key?.tag.append(to: &packet)
        return packet
    }

    private func header(_ kind: PacketKind, _ sequence: UInt64) -> PacketHeader {
        let acks = asksForAcks ? PacketHeader.Flags.isAckWanted : 0
        return PacketHeader(
            kind: kind, flags: acks | (key == nil ? 0 : PacketHeader.Flags.hasTag),
            keyID: key?.id ?? 0, sender: identity.sender, epoch: identity.epoch,
            sequence: PacketSequence(rawValue: sequence))
    }
}
