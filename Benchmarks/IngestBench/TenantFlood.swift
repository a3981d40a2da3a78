import IngestClient
import IngestFormat
import IngestKeys

/// What a tenant with a key of his own may send to harm others: packets that are right in every byte, from one thread.
struct TenantFlood {
    enum Kind: String, CaseIterable {
        /// Each of a sender that was never heard of.
        case heartbeats
        /// A batch of one event each, of one sender, under a greater epoch.
        case epochs
        /// Of one sender, an event each of a reward with a name not known before.
        case names
        /// Events of the greatest amounts that are taken, and of greater ones, in turn.
        case money
        /// Events of another tenant's business, and such that are too old, in turn.
        case refused
    }

    struct Figures {
        var packetCount = 0
        var seconds = 0.0
        var packetsPerSecond: Double { Double(packetCount) / max(1e-9, seconds) }
    }

    let kind: Kind
    let key: PacketKey
    /// Of the key, and of the other tenant.
    let businesses: (own: String, other: String)
    private var number: UInt64 = 0
    private var texts: [UInt8] = []
    private var encoder = EventBatchEncoder(packetByteCountMax: 1_452)
    private let sender = UInt64.random(in: 1 ... .max)
    private let epoch = SenderIdentity.epoch(
        unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000, random: 0)
    private let unixMicroseconds = Int64(SenderClock.unixNanoseconds() / 1_000)

    init(_ kind: Kind, key: PacketKey, businesses: (own: String, other: String)) {
        (self.kind, self.key, self.businesses) = (kind, key, businesses)
    }

    /// Sends so many, at this rate; 0 = as fast as it goes, for `seconds`.
    mutating func send(
        _ count: Int = .max, to address: String, packetsPerSecond: Double,
        seconds: Double = .infinity
    ) throws -> Figures {
        let transport = try UDPTransport(address: address)
        var figures = Figures()
        let startedAt = SenderClock.monotonicNanoseconds()
        while figures.packetCount < count, figures.seconds < seconds {
            let packet = try next()
            try transport.send(packet.span, segmentByteCount: packet.count)
            figures.packetCount += 1
            // In runs, so that a sleep costs no rate.
            guard figures.packetCount % 32 == 0 || figures.packetCount == count else { continue }
            if packetsPerSecond > 0 {
                let due = Double(figures.packetCount) / packetsPerSecond * 1e9
                SenderClock.sleep(untilMonotonicNanoseconds: startedAt + UInt64(due))
            }
            figures.seconds = Double(SenderClock.monotonicNanoseconds() - startedAt) / 1e9
        }
        return figures
    }

    private mutating func next() throws -> [UInt8] {
        defer { number += 1 }
        var packet: [UInt8]
        switch kind {
        case .heartbeats:
            packet = Heartbeat(base: 0).packet(
                header(.heartbeat, sender: SeededRandom.mix(sender &+ number) | 1))
        case .epochs: packet = try batch(epoch: epoch.rawValue + number)
        case .names, .money, .refused: packet = try batch(sequence: number)
        }
        key.tag.append(to: &packet)
        return packet
    }

    private mutating func batch(epoch: UInt64? = nil, sequence: UInt64 = 0) throws -> [UInt8] {
        let isOdd = number % 2 == 1
        let isOthers = kind == .refused && isOdd
        var event = AdEvent(
            .redemption, rewardID: kind == .names ? "flood-\(sender)-\(number)" : "reward",
            businessID: isOthers ? businesses.other : businesses.own,
            timestampMicroseconds: unixMicroseconds)
        if kind == .refused && !isOdd { event.timestampMicroseconds -= 30 * 86_400_000_000 }
        if kind == .money {
            event.revenueMicros = isOdd ? Limits.moneyMicrosMax : 1_000_000 * 1_000_000
            event.spendMicros = event.revenueMicros
        }
        let descriptor = try event.describe(into: &texts)
        // SAFETY: the descriptor points into `texts`.
        _ = unsafe texts.withUnsafeBytes { unsafe encoder.append(descriptor, from: $0) }
        return encoder.seal(header(.batch, epoch: epoch, sequence: sequence), byteCountMin: 80)
    }

    private func header(
        _ kind: PacketKind, sender: UInt64? = nil, epoch: UInt64? = nil, sequence: UInt64 = 0
    ) -> PacketHeader {
        // Acks are asked for where they cost the receiver something: a window each.
        let isAcked = kind == .heartbeat || self.kind == .epochs
        return PacketHeader(
            kind: kind,
            flags: PacketHeader.Flags.hasTag | (isAcked ? PacketHeader.Flags.isAckWanted : 0),
            keyID: key.id, sender: SenderID(rawValue: sender ?? self.sender),
            epoch: SenderEpoch(rawValue: epoch ?? self.epoch.rawValue),
            sequence: PacketSequence(rawValue: sequence))
    }
}
