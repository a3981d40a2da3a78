import Foundation
import IngestClient
import IngestFormat
import IngestKeys

/// Packets of equal size and 11 events each, encoded before the clock starts, back to back in memory, so
/// that a run of them leaves in one call. Before each departure a packet gets its sequence, and each of its
/// events an id that no other has, the time of now less the event's own age, the names of a reward that is drawn for it
/// alone, and its session, if it has one; then its CRC, and its tag. Senders take turns packet by packet.
///
/// Or datagrams of one event each in JSON, measured impressions of the time at which they were made, which get ids and names.
///
/// **Cost** A packet's stride each; patching and CRC take about 0.4 µs a packet, a tag 0.8.
@safe struct PacketPool: ~Copyable {
    fileprivate static let framedEventCount = 11

    /// Of every packet: what fits an Ethernet frame; its last bytes are padding. A tag comes behind it.
    private static let untaggedByteCount = 1_472

    /// Events before one may repeat, about: so many that they are not found in a cache.
    private static let roundEventCountMin = 1 << 20

    let packetCount: Int
    /// Of each, tag and all.
    let packetByteCount: Int
    let packetEventCount: Int
    /// What an event takes in a packet on average, without header and padding; in JSON a datagram.
    let eventByteCountMean: Double

    /// How far back event times begin.
    let lookbackMicroseconds: UInt64

    private let memory: UnsafeMutableRawPointer
    private let patches: [Patch]
    /// `nil` of a pool of framed packets.
    private let json: JSONForm?
    let senders: LoadSenders
    private let key: PacketKey?
    /// How many have been prepared.
    private(set) var packetNumber: UInt64 = 0
    /// Bit 0 of every packet's flags: the load's sender listens to acks.
    let asksForAcks: Bool
    /// Which events come again, with the id, reward and amounts that their place in the pool had in the first round.
    private let repeats: RepeatDraw
    private let sessions: SessionDraw
    private let options: EventMix.Options
    private let popularity: Popularity
    private let businesses: NameForms

    init(
        packetCount: Int, mix options: EventMix.Options, senders: LoadSenders,
        key: PacketKey? = nil, asksForAcks: Bool = false, repeatShare: Double = 0
    ) {
        self.packetCount = packetCount
        self.asksForAcks = asksForAcks
        (self.senders, self.key, self.options) = (senders, key, options)
        (json, packetEventCount) = (nil, Self.framedEventCount)
        packetByteCount = Self.untaggedByteCount + (key == nil ? 0 : PacketTag.byteCount)
        popularity = Popularity(options.popularity, count: options.rewardCount)
        businesses = NameForms(options.names, EventMix.businessKind, count: options.businessCount)
        let eventCount = packetCount * Self.framedEventCount
        let roundCount = (Self.roundEventCountMin + eventCount - 1) / eventCount
        repeats = RepeatDraw(share: repeatShare, round: UInt64(roundCount * eventCount))
        sessions = SessionDraw(count: UInt64(options.sessionCount))
        lookbackMicroseconds = UInt64(options.dayCount) * 86_400_000_000
        unsafe memory = .allocate(byteCount: packetCount * packetByteCount, alignment: 4096)
        var mix = EventMix(options)
        var layout = Layout(packetByteCount: Self.untaggedByteCount)
        let header = PacketHeader(
            kind: .batch, sender: senders.identity(ofPacket: 0).sender,
            epoch: senders.identity(ofPacket: 0).epoch, sequence: PacketSequence(rawValue: 0))
        for packet in 0..<packetCount {
            // SAFETY: the packet's place lies in the pool.
            unsafe layout.append(&mix, header, to: memory + packet * packetByteCount)
        }
        patches = layout.patches
        eventByteCountMean = Double(layout.eventByteCount) / Double(eventCount)
    }

    /// Of datagrams of JSON.
    init(packetCount: Int, jsonOf options: EventMix.Options, senders: LoadSenders) {
        self.packetCount = packetCount
        (self.senders, self.options) = (senders, options)
        (asksForAcks, key, patches, lookbackMicroseconds) = (false, nil, [], 0)
        let json = JSONForm(options.names)
        (packetByteCount, packetEventCount) = (json.bytes.count, 1)
        eventByteCountMean = Double(packetByteCount)
        popularity = Popularity(options.popularity, count: options.rewardCount)
        businesses = NameForms(options.names, EventMix.businessKind, count: options.businessCount)
        repeats = RepeatDraw(share: 0, round: 1)
        sessions = SessionDraw(count: 0)
        unsafe memory = .allocate(byteCount: packetCount * packetByteCount, alignment: 4096)
        for packet in 0..<packetCount {
            // SAFETY: the packet's place lies in the pool.
            unsafe (memory + packet * packetByteCount).copyMemory(
                from: json.bytes, byteCount: packetByteCount)
        }
        self.json = json
    }

    deinit { unsafe memory.deallocate() }

    var isTagged: Bool { key != nil }

    /// Makes the run of `count` packets from `first` ready to leave now.
    ///
    /// - Parameter firstEvent: the number of the run's first event since the start; ids are made from it.
    mutating func prepare(
        first: Int, count: Int, unixMicroseconds: UInt64, firstEvent: UInt64
    ) {
        precondition(first >= 0 && count >= 0 && first + count <= packetCount)
        var event = firstEvent
        for packet in first..<first + count {
            // SAFETY, of both: the packet lies in the pool.
            let place = unsafe memory + packet * packetByteCount
            if let json {
                unsafe prepare(place, json, event)
                (packetNumber, event) = (packetNumber + 1, event + 1)
                continue
            }
            for i in packet * packetEventCount..<(packet + 1) * packetEventCount {
                unsafe prepare(place, patches[i], unixMicroseconds, event)
                event += 1
            }
            seal(packet)
        }
    }

    private func prepare(_ packet: UnsafeMutableRawPointer, _ json: JSONForm, _ event: UInt64) {
        // SAFETY: the form has room for an id and for the names at these offsets.
        unsafe EventMix.NameStyle.uuid.write(
            Int(event), EventMix.eventKind, to: packet + json.idOffset)
        guard let reward = popularity.drawn(event: event, seed: options.seed) else { return }
        unsafe writeNames(
            of: reward, to: packet + json.rewardOffset, packet + json.businessOffset)
    }

    private func writeNames(
        of reward: Int, to place: UnsafeMutableRawPointer, _ business: UnsafeMutableRawPointer
    ) {
        // SAFETY: behind the prefixes is the room of the style's form.
        unsafe options.names.write(reward, EventMix.rewardKind, to: place)
        unsafe businesses.copy(
            Int(UInt32(reward) % UInt32(options.businessCount)), to: business)
    }

    private func prepare(
        _ packet: UnsafeMutableRawPointer, _ patch: Patch, _ unixMicroseconds: UInt64,
        _ event: UInt64
    ) {
        // SAFETY: `Layout` has seen 8 bytes of time, 16 of id, 24 of session and the names at these offsets.
        let place = unsafe packet + Int(patch.timeOffset)
        let time = Self.varint8(unixMicroseconds - UInt64(patch.ageMicroseconds))
        unsafe place.storeBytes(of: time.littleEndian, as: UInt64.self)
        let id = unsafe place + Patch.timeToID
        let original = repeats.original(of: event)
        // Other ids for every epoch of the load.
        let number = original ^ senders.epoch.rawValue << 20
        unsafe id.storeBytes(of: SeededRandom.mix(number), as: UInt64.self)
        unsafe id.storeBytes(of: SeededRandom.mix(~number), toByteOffset: 8, as: UInt64.self)
        if let reward = popularity.drawn(event: original, seed: options.seed) {
            unsafe writeNames(
                of: reward, to: packet + Int(patch.rewardOffset),
                packet + Int(patch.businessOffset))
        }
        guard sessions.count > 0 else { return }
        let (first, second) = sessions.id(ofEvent: event)
        unsafe id.storeBytes(of: first, toByteOffset: Patch.idToSession, as: UInt64.self)
        unsafe id.storeBytes(of: second, toByteOffset: Patch.idToSession + 8, as: UInt64.self)
    }

    /// The bytes of a run, ready to send.
    func withPackets<Result, Failure: Error>(
        first: Int, count: Int, _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        precondition(first >= 0 && count >= 0 && first + count <= packetCount)
        // SAFETY: the run lies in the pool, checked above, and is initialised.
        let bytes = unsafe UnsafeRawBufferPointer(
            start: memory + first * packetByteCount, count: count * packetByteCount)
        return try unsafe body(bytes.bindMemory(to: UInt8.self).span)
    }

    /// A heartbeat of each sender that tells how many packets have been prepared.
    /// - Parameter base: the lowest packet that may still be sent; 0 without acks.
    func heartbeats(base: UInt64 = 0) -> [[UInt8]] {
        if json != nil { return [] }
        return (0..<senders.count).map { sender in
            var packet = Heartbeat(base: senders.sequences(before: base, of: sender)).packet(
                header(
                    .heartbeat, ofPacket: sender,
                    senders.sequences(before: packetNumber, of: sender))
            )
            guard let key else { return packet }
            packet += [UInt8](repeating: 0, count: PacketTag.byteCount)
            // SAFETY: the array is a sealed packet, and behind it the room of its tag.
            unsafe packet.withUnsafeMutableBytes { unsafe key.tag.seal($0) }
            return packet
        }
    }

    private mutating func seal(_ packet: Int) {
        var header = header(
            .batch, ofPacket: packetNumber, senders.sequence(ofPacket: packetNumber))
        // SAFETY: the packet lies in the pool, and behind it the room of its tag, if it has one.
        let bytes = unsafe UnsafeMutableRawBufferPointer(
            start: memory + packet * packetByteCount, count: packetByteCount)
        unsafe header.seal(
            UnsafeMutableRawBufferPointer(rebasing: bytes[..<Self.untaggedByteCount]))
        if let key { unsafe key.tag.seal(bytes) }
        packetNumber += 1
    }

    private func header(
        _ kind: PacketKind, ofPacket number: UInt64, _ sequence: UInt64
    ) -> PacketHeader {
        let identity = senders.identity(ofPacket: number)
        var header = PacketHeader(
            kind: kind, flags: asksForAcks ? PacketHeader.Flags.isAckWanted : 0,
            sender: identity.sender, epoch: identity.epoch,
            sequence: PacketSequence(rawValue: sequence))
        if let key {
            header.flags |= PacketHeader.Flags.hasTag
            header.keyID = key.id
        }
        return header
    }

    /// A number of 50 to 56 bits as a varint of 8 bytes.
    private static func varint8(_ value: UInt64) -> UInt64 {
        // Pulled apart in three steps: halves of 28 bits, quarters of 14, bytes of 7.
        var bytes = value & 0x0FFF_FFFF | (value & 0xFF_FFFF_F000_0000) << 4
        bytes = bytes & 0x0000_3FFF_0000_3FFF | (bytes & 0x0FFF_C000_0FFF_C000) << 2
        bytes = bytes & 0x007F_007F_007F_007F | (bytes & 0x3F80_3F80_3F80_3F80) << 1
        return bytes | 0x0080_8080_8080_8080
    }
}

/// A datagram of one event in JSON, and where its id and names are patched: behind the prefixes of these.
private struct JSONForm {
    let bytes: [UInt8]
    let rewardOffset: Int
    let businessOffset: Int
    let idOffset: Int

    init(_ style: EventMix.NameStyle) {
        let id = EventMix.NameStyle.uuid.form
        let time = Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        var text = "{\"eventType\":\"impression\",\"rewardId\":\"\(EventMix.rewardPrefix)"
        rewardOffset = text.utf8.count
        text += "\(style.form)\",\"businessId\":\"\(EventMix.businessPrefix)"
        businessOffset = text.utf8.count
        text += "\(style.form)\",\"timestamp\":\"\(time)\",\"eventId\":\""
        idOffset = text.utf8.count
        text += "\(id)\",\"consent\":\"optIn\",\"metadata\":{\"platform\":\"iOS\","
        bytes = Array((text + "\"viewability\":0.75,\"duration\":2.5}}").utf8)
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
    /// Behind the prefixes of the names.
    let rewardOffset: UInt16
    let businessOffset: UInt16
    let ageMicroseconds: UInt32
}

/// The senders of a load, which take turns packet by packet: their ids follow each other.
struct LoadSenders: Sendable {
    let count: UInt64
    private let first: UInt64
    let epoch: SenderEpoch

    init(count: Int, first: UInt64, epoch: SenderEpoch) {
        (self.count, self.first, self.epoch) = (UInt64(count), first, epoch)
    }

    func identity(ofPacket number: UInt64) -> SenderIdentity {
        SenderIdentity(sender: SenderID(rawValue: first + number % count), epoch: epoch)
    }

    func sequence(ofPacket number: UInt64) -> UInt64 { number / count }

    /// How many of the packets before this one are of the sender with this index.
    func sequences(before number: UInt64, of sender: UInt64) -> UInt64 {
        (number + count - 1 - sender) / count
    }

    /// The packet of the load that has this sequence, of the sender with this index.
    func packet(_ sequence: UInt64, ofIndex index: UInt64) -> UInt64 {
        sequence &* count &+ index
    }

    /// `nil` for a sender that is none of them.
    func index(of sender: SenderID) -> UInt64? {
        let index = sender.rawValue &- first
        return index < count ? index : nil
    }
}

/// Lays packets and finds in them what will be patched.
private struct Layout: ~Copyable {
    private(set) var patches: [Patch] = []
    private(set) var eventByteCount = 0
    private let packetByteCount: Int
    private var encoder: EventBatchEncoder
    private let decoder = EventDecoder(hash: KeyedHash(key: InlineArray(repeating: 0)))
    private let scratch = EventScratch()

    init(packetByteCount: Int) {
        self.packetByteCount = packetByteCount
        encoder = EventBatchEncoder(packetByteCountMax: packetByteCount)
    }

    /// Builds one packet of the mix's next events at `place`.
    mutating func append(
        _ mix: inout EventMix, _ header: PacketHeader, to place: UnsafeMutableRawPointer
    ) {
        var ages = drawEvents(&mix)
        // One packet in some thousand would be too long for a frame: it is drawn again.
        while ages.count < PacketPool.framedEventCount {
            _ = encoder.seal(header)
            ages = drawEvents(&mix)
        }
        eventByteCount += encoder.packetByteCount - Limits.packetHeaderByteCount
        let packet = encoder.seal(header, isPadded: true)
        precondition(packet.count == packetByteCount)
        unsafe packet.withUnsafeBytes { bytes in
            // SAFETY: the pool has room for a packet here; both have the same byte count.
            unsafe place.copyMemory(from: bytes.baseAddress!, byteCount: bytes.count)
            unsafe findPatches(bytes, ages)
        }
    }

    /// Draws events into the open packet; the ages of those that fitted.
    private mutating func drawEvents(_ mix: inout EventMix) -> [UInt32] {
        var ages: [UInt32] = []
        for _ in 0..<PacketPool.framedEventCount {
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
            patches.append(
                Patch(
                    timeOffset: UInt16(timeOffset),
                    rewardOffset: UInt16(scratch[i].rewardOffset)
                        + UInt16(EventMix.rewardPrefix.utf8.count),
                    businessOffset: UInt16(scratch[i].businessOffset)
                        + UInt16(EventMix.businessPrefix.utf8.count),
                    ageMicroseconds: age))
        }
    }
}
