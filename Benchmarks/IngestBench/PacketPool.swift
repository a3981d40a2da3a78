import Glibc
import IngestClient
import IngestFormat

/// Packets of equal size and 11 events each, encoded before the clock starts, back to back in memory, so
/// that a run of them leaves in one call. Before each departure a packet gets its sequence, and each of its
/// events an id that no other has, the time of now less the event's own age, and its session, if it has one; then its CRC.
///
/// **Cost** A packet's stride each; patching and CRC take about 0.1 µs a packet.
@safe struct PacketPool: ~Copyable {
    static let packetEventCount = 11

    /// Of every packet: what fits an Ethernet frame; its last bytes are padding.
    static let packetByteCount = 1_472

    let packetCount: Int
    /// What an event takes in a packet on average, without header and padding.
    let eventByteCountMean: Double

    /// How far back event times begin.
    let lookbackMicroseconds: UInt64

    private let memory: UnsafeMutableRawPointer
    private let patches: [Patch]
    private var identity: SenderIdentity
    private(set) var nextSequence: UInt64 = 0
    /// Bit 0 of every packet's flags: the load's sender listens to acks.
    let asksForAcks: Bool
    /// Which events come again, with the id, reward and amounts that their place in the pool had in the first round.
    private let repeats: RepeatDraw
    private let sessions: SessionDraw

    init(
        packetCount: Int, mix options: EventMix.Options, identity: SenderIdentity,
        asksForAcks: Bool = false, repeatShare: Double = 0
    ) {
        self.packetCount = packetCount
        self.asksForAcks = asksForAcks
        repeats = RepeatDraw(
            share: repeatShare, round: UInt64(packetCount * Self.packetEventCount))
        self.identity = identity
        sessions = SessionDraw(count: UInt64(options.sessionCount))
        lookbackMicroseconds = UInt64(options.dayCount) * 86_400_000_000
        unsafe memory = .allocate(byteCount: packetCount * Self.packetByteCount, alignment: 4096)
        var mix = EventMix(options)
        var layout = Layout()
        let header = PacketHeader(
            kind: .batch, sender: identity.sender, epoch: identity.epoch,
            sequence: PacketSequence(rawValue: 0))
        for packet in 0..<packetCount {
            // SAFETY: the packet's place lies in the pool.
            unsafe layout.append(&mix, header, to: memory + packet * Self.packetByteCount)
        }
        patches = layout.patches
        eventByteCountMean =
            Double(layout.eventByteCount) / Double(packetCount * Self.packetEventCount)
    }

    deinit { unsafe memory.deallocate() }

    /// Makes the run of `count` packets from `first` ready to leave now.
    ///
    /// - Parameter firstEvent: the number of the run's first event since the start; ids are made from it.
    mutating func prepare(
        first: Int, count: Int, unixMicroseconds: UInt64, firstEvent: UInt64
    ) {
        precondition(first >= 0 && count >= 0 && first + count <= packetCount)
        var event = firstEvent
        for packet in first..<first + count {
            let start = packet * Self.packetByteCount
            for i in packet * Self.packetEventCount..<(packet + 1) * Self.packetEventCount {
                let patch = patches[i]
                // SAFETY: `Layout` has seen 8 bytes of time, 16 of id and 24 of session at these offsets.
                let place = unsafe memory + start + Int(patch.timeOffset)
                let time = Self.varint8(unixMicroseconds - UInt64(patch.ageMicroseconds))
                unsafe place.storeBytes(of: time.littleEndian, as: UInt64.self)
                let id = unsafe place + Patch.timeToID
                let number = idNumber(of: event)
                unsafe id.storeBytes(of: SeededRandom.mix(number), as: UInt64.self)
                unsafe id.storeBytes(
                    of: SeededRandom.mix(~number), toByteOffset: 8, as: UInt64.self)
                if sessions.count > 0 {
                    let (first, second) = sessions.id(ofEvent: event)
                    unsafe id.storeBytes(
                        of: first, toByteOffset: Patch.idToSession, as: UInt64.self)
                    unsafe id.storeBytes(
                        of: second, toByteOffset: Patch.idToSession + 8, as: UInt64.self)
                }
                event += 1
            }
            seal(packet)
        }
    }

    /// The bytes of a run, ready to send.
    func withPackets<Failure: Error>(
        first: Int, count: Int, _ body: (Span<UInt8>) throws(Failure) -> Void
    ) throws(Failure) {
        precondition(first >= 0 && count >= 0 && first + count <= packetCount)
        // SAFETY: the run lies in the pool, checked above, and is initialised.
        let bytes = unsafe UnsafeRawBufferPointer(
            start: memory + first * Self.packetByteCount,
            count: count * Self.packetByteCount)
        try unsafe body(bytes.bindMemory(to: UInt8.self).span)
    }

    /// What an event's id is made of: other numbers for every sender epoch.
    private func idNumber(of event: UInt64) -> UInt64 {
        repeats.original(of: event) ^ identity.epoch.rawValue << 20
    }

    /// A heartbeat that tells how many packets have been prepared.
    /// - Parameter base: the lowest sequence that may still be sent; 0 without acks.
    func heartbeat(base: UInt64 = 0) -> [UInt8] {
        Heartbeat(base: base).packet(header(.heartbeat))
    }

    private mutating func seal(_ packet: Int) {
        var header = header(.batch)
        // SAFETY: the packet lies in the pool.
        unsafe header.seal(
            UnsafeMutableRawBufferPointer(
                start: memory + packet * Self.packetByteCount, count: Self.packetByteCount))
        nextSequence += 1
    }

    private func header(_ kind: PacketKind) -> PacketHeader {
        PacketHeader(
            kind: kind, flags: asksForAcks ? PacketHeader.Flags.isAckWanted : 0,
            sender: identity.sender, epoch: identity.epoch,
            sequence: PacketSequence(rawValue: nextSequence))
    }

    /// A number of 50 to 56 bits as a varint of 8 bytes.
    private static func varint8(_ value: UInt64) -> UInt64 {
        var bytes: UInt64 = 0x0080_8080_8080_8080
        for i in 0..<8 as Range<UInt64> { bytes |= (value >> (7 * i) & 0x7F) << (8 * i) }
        return bytes
    }
}

/// Where an event of the pool is patched before each departure.
private struct Patch {
    /// From the time to the id: its 8 bytes, then the id's tag and length.
    static let timeToID = 10
    /// From the id to the part of the session's id that is patched: its 16 bytes, tag and length, and 8 that stay.
    static let idToSession = 16 + 2 + SessionDraw.idByteCount - 16
    /// From the start of the packet.
    let timeOffset: UInt16
    let ageMicroseconds: UInt32
}

/// Lays packets and finds in them what will be patched.
private struct Layout: ~Copyable {
    private(set) var patches: [Patch] = []
    private(set) var eventByteCount = 0
    private var encoder = EventBatchEncoder(packetByteCountMax: PacketPool.packetByteCount)
    private let decoder = EventDecoder(hash: KeyedHash(key: InlineArray(repeating: 0)))
    private let scratch = EventScratch()

    /// Builds one packet of the mix's next events at `place`.
    mutating func append(
        _ mix: inout EventMix, _ header: PacketHeader, to place: UnsafeMutableRawPointer
    ) {
        var ages = drawEvents(&mix)
        // One packet in some thousand would be too long for a frame: it is drawn again.
        while ages.count < PacketPool.packetEventCount {
            _ = encoder.seal(header)
            ages = drawEvents(&mix)
        }
        eventByteCount += encoder.packetByteCount - Limits.packetHeaderByteCount
        let packet = encoder.seal(header, isPadded: true)
        precondition(packet.count == PacketPool.packetByteCount)
        unsafe packet.withUnsafeBytes { bytes in
            // SAFETY: the pool has room for a packet here; both have the same byte count.
            unsafe place.copyMemory(from: bytes.baseAddress!, byteCount: bytes.count)
            unsafe findPatches(bytes, ages)
        }
    }

    /// Draws events into the open packet; the ages of those that fitted.
    private mutating func drawEvents(_ mix: inout EventMix) -> [UInt32] {
        var ages: [UInt32] = []
        for _ in 0..<PacketPool.packetEventCount {
            let event = mix.next()
            // SAFETY: the descriptor points into mix.bytes.
            let isTaken = unsafe mix.bytes.withUnsafeBytes {
                unsafe encoder.append(event, from: $0)
            }
            if isTaken { ages.append(mix.ageMicroseconds) }
        }
        return ages
    }

    private mutating func findPatches(_ packet: UnsafeRawBufferPointer, _ ages: [UInt32]) {
        let outcome = unsafe decoder.decode(
            packet, payloadOffset: Limits.packetHeaderByteCount,
            payloadByteCount: packet.count - Limits.packetHeaderByteCount, into: scratch)
        precondition(outcome == .events(count: ages.count, malformed: 0))
        for (i, age) in ages.enumerated() {
            let timeOffset = Int(scratch[i].eventIDOffset) - Patch.timeToID
            // The time's tag stands before it, the id's tag and length behind it.
            let marks = unsafe (
                packet[timeOffset - 1], packet[timeOffset + 8], packet[timeOffset + 9]
            )
            precondition(marks == (4 << 3, 5 << 3 | 2, 16))
            let session = Int(scratch[i].sessionOffset)
            precondition(
                scratch[i].sessionByteCount == 0
                    || session + 8 == timeOffset + Patch.timeToID + Patch.idToSession)
            patches.append(Patch(timeOffset: UInt16(timeOffset), ageMicroseconds: age))
        }
    }
}
