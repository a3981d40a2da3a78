// event → encode → [packet] → socket

import IngestFormat

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
/// **Cost** 64 KiB, taken once; appending allocates nothing and copies each event's bytes once.
@safe package struct PacketBuilder: ~Copyable {
    /// A packet below this gets no answer (the rule that keeps an answer from being larger).
    package static let packetByteCountMin = 56
    /// The smallest limit on packets that holds one event of any valid size.
    package static let packetByteCountLimits = 1_200...Limits.packetByteCountMax

    package let identity: SenderIdentity
    package let packetByteCountMax: Int
    /// The sequence that the next sealed packet gets: the number of packets sealed so far.
    package private(set) var nextSequence: UInt64 = 0
    /// Events in the packets of this burst, sealed and open.
    package private(set) var eventCount = 0
    /// Packets of this burst that are sealed.
    package private(set) var sealedPacketCount = 0

    private let burstByteCountMax: Int
    private let memory: UnsafeMutableRawPointer
    /// Where the open packet starts, and where its next event goes; equal to the header's end in an
    /// empty one.
    private var packetStart = 0
    private var payloadEnd = Limits.packetHeaderByteCount

    package init(identity: SenderIdentity, packetByteCountMax: Int) {
        precondition(Self.packetByteCountLimits.contains(packetByteCountMax))
        self.identity = identity
        self.packetByteCountMax = packetByteCountMax
        burstByteCountMax = UDPTransport.burstByteCount(segmentByteCount: packetByteCountMax)
        unsafe memory = .allocate(byteCount: burstByteCountMax, alignment: 64)
    }

    deinit { unsafe memory.deallocate() }

    package var isEmpty: Bool { eventCount == 0 }

    /// Adds one event to the open packet, or to the next one if it does not fit.
    ///
    /// - Parameter bytes: what the descriptor's offsets point into.
    /// - Returns: `false`, and nothing was added, if the burst is full: send it, then append again.
    package mutating func append(_ event: EventDescriptor, from bytes: [UInt8]) -> Bool {
        let byteCount = EventBatchEncoder.byteCount(of: event)
        if !fits(byteCount) {
            seal(paddedTo: packetByteCountMax)
        }
        guard packetStart + packetByteCountMax <= burstByteCountMax else { return false }
        precondition(event.lies(within: bytes.count))
        // SAFETY: `fits` holds for the open packet, so `byteCount` bytes are free at payloadEnd; the
        // descriptor's ranges lie within `bytes`, checked above.
        unsafe bytes.withUnsafeBytes { source in
            _ = unsafe EventBatchEncoder.encode(
                event, from: source.baseAddress!, to: memory + payloadEnd)
        }
        payloadEnd += byteCount
        eventCount += 1
        return true
    }

    /// Seals the open packet if it holds an event. Nothing may be appended before `removeAll`.
    package mutating func seal() {
        guard payloadEnd > packetStart + Limits.packetHeaderByteCount else { return }
        let byteCount = payloadEnd - packetStart
        // One byte short of the least size cannot be padded by one byte: go two above.
        let least = Self.packetByteCountMin - byteCount == 1 ? byteCount + 2 : Self.packetByteCountMin
        seal(paddedTo: max(byteCount, least))
    }

    /// The sealed packets, back to back.
    package func withPackets<Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Void
    ) throws(Failure) {
        // SAFETY: the first packetStart bytes are initialised: headers, events and padding.
        let packets = unsafe UnsafeRawBufferPointer(start: memory, count: packetStart)
        try unsafe body(packets.bindMemory(to: UInt8.self).span)
    }

    /// Empties the burst; the memory and the sequence stay.
    package mutating func removeAll() {
        packetStart = 0
        payloadEnd = Limits.packetHeaderByteCount
        eventCount = 0
        sealedPacketCount = 0
    }

    /// A heartbeat of this moment: its sequence is the next to be sent. It takes no sequence itself.
    ///
    /// - Parameter base: the lowest sequence that the sender still holds for a resend; 0 = not given.
    package func heartbeat(base: UInt64) -> [UInt8] {
        Heartbeat.packet(header(.heartbeat), base: PacketSequence(rawValue: base))
    }

    /// Whether the event goes into the open packet so that the rest can still be padded. An empty
    /// packet takes any valid event.
    private func fits(_ byteCount: Int) -> Bool {
        let free = packetByteCountMax - (payloadEnd - packetStart) - byteCount
        return free >= 0 && EventBatchEncoder.canPad(free)
    }

    private mutating func seal(paddedTo byteCount: Int) {
        // SAFETY: packetStart + byteCount ≤ burstByteCountMax, as `append` leaves room for a whole
        // packet before it opens one.
        unsafe EventBatchEncoder.pad(
            memory + payloadEnd, byteCount: byteCount - (payloadEnd - packetStart))
        var header = header(.batch)
        unsafe header.seal(
            UnsafeMutableRawBufferPointer(start: memory + packetStart, count: byteCount))
        packetStart += byteCount
        payloadEnd = packetStart + Limits.packetHeaderByteCount
        nextSequence += 1
        sealedPacketCount += 1
    }

    /// Without acks asked for: flag bit 0 stays 0.
    private func header(_ kind: PacketKind) -> PacketHeader {
        PacketHeader(
            kind: kind, sender: identity.sender, epoch: identity.epoch,
            sequence: PacketSequence(rawValue: nextSequence))
    }
}
