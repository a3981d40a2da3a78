// event → [encode] → packet → socket

import IngestFormat
import IngestKeys

/// Who sends: fixed for one start of a sender.
package struct SenderIdentity: Equatable, Sendable {
    package var sender: SenderID
    package var epoch: SenderEpoch

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

/// Makes the packets of one sender, one at a time: events go into the open packet until it is sealed. The only place where
/// a sender's packets get their header, padding and, when they leave, their tag.
///
/// **Layout** Full packets have exactly `packetByteCountMax` bytes, tag and all, padded inside their payload, so that the
/// kernel can cut and join them by one size; others have 80 at least, so that they may be acked. What goes to a spool has
/// room for a tag whether or not there is a key: the next start may have one. Plain datagrams are JSON lines joined by
/// one newline, none at the end; a line that is longer than the limit travels alone.
///
/// **Cost** Two copies of an event's bytes, an array a packet.
struct PacketEncoder: ~Copyable {
    /// A packet below this gets no ack (the rule that keeps an ack from being larger).
    static let packetByteCountMin = AckPacket.byteCount(furtherWordCount: 0, hasTag: false)
    /// The smallest limit on packets that holds one event of any valid size.
    static let packetByteCountLimits = 1_200...Limits.packetByteCountMax

    /// Of a full packet, tag and all.
    private(set) var packetByteCountMax: Int
    private let isSpooled: Bool
    private let identity: SenderIdentity
    private let delivery: SenderStream.Delivery
    private let key: PacketKey?
    /// What a tag adds to each packet.
    let tagByteCount: Int
    /// The open packet; `nil` for plain delivery.
    private var batch: EventBatchEncoder?
    /// The open plain datagram, and its lines.
    private var datagram: [UInt8] = []
    private var lineCount = 0

    init(_ configuration: SenderStream.Configuration, isSpooled: Bool = false) {
        packetByteCountMax = configuration.packetByteCountMax
        self.isSpooled = isSpooled
        identity = configuration.identity
        delivery = configuration.delivery
        key = configuration.key
        precondition(
            delivery == .plain || Self.packetByteCountLimits.contains(packetByteCountMax))
        tagByteCount = key == nil ? 0 : PacketTag.byteCount
        if delivery != .plain { beginBatch() }
    }

    private mutating func beginBatch() {
        let room = isSpooled ? PacketTag.byteCount : tagByteCount
        batch = EventBatchEncoder(packetByteCountMax: packetByteCountMax - room)
    }

    /// Without a tag: of packets that are no larger than new ones are, since full ones seemed not to pass; else of any.
    var smallByteCountMax: Int {
        packetByteCountMax == Self.packetByteCountLimits.lowerBound
            ? packetByteCountMax - tagByteCount : .max
    }

    /// Makes packets as small as may be from now on. Not while one is open, nor for plain delivery.
    mutating func shrink() {
        precondition(eventCount == 0 && delivery != .plain)
        packetByteCountMax = Self.packetByteCountLimits.lowerBound
        beginBatch()
    }

    /// Events in the open packet.
    var eventCount: Int { batch?.eventCount ?? lineCount }

    /// Adds one event to the open packet.
    ///
    /// - Parameter bytes: what the descriptor's offsets point into.
    /// - Returns: `false`, and nothing was added, if the packet has no room: seal it, then append again.
    mutating func append(_ event: EventDescriptor, from bytes: [UInt8]) -> Bool {
        // SAFETY: the encoder slices the buffer by the descriptor's places, which traps outside it.
        let isTaken = unsafe bytes.withUnsafeBytes { unsafe batch?.append(event, from: $0) }
        precondition(isTaken == true || eventCount > 0, "every valid event fits an empty packet")
        return isTaken == true
    }

    /// Adds one line to the open plain datagram, its bytes unchanged but for white space before it: the first byte of a
    /// datagram tells a JSON one.
    ///
    /// - Returns: `false`, and nothing was added, if the datagram has no room: seal it, then append again.
    mutating func append(line: Span<UInt8>) -> Bool {
        var start = 0
        while start < line.count, isSpace(line[start]) { start += 1 }
        if !datagram.isEmpty {
            guard datagram.count + 1 + line.count - start <= packetByteCountMax else {
                return false
            }
            datagram.append(UInt8(ascii: "\n"))
        } else {
            datagram.reserveCapacity(max(packetByteCountMax, line.count))
        }
        for i in start..<line.count { datagram.append(line[i]) }
        lineCount += 1
        return true
    }

    /// Closes the open packet, untagged, and begins another.
    ///
    /// - Parameter isFull: it is padded to the size of all full ones; another one to the least that is acked.
    mutating func seal(sequence: UInt64, isFull: Bool) -> [UInt8] {
        let header = header(.batch, sequence)
        let sealed = batch?.seal(
            header, isPadded: isFull, byteCountMin: Self.packetByteCountMin)
        if let sealed { return sealed }
        defer { (datagram, lineCount) = ([], 0) }
        return datagram
    }

    /// Puts the key, if there is one, into the last packet of a burst, which is as `seal` made it: into its header, and a tag
    /// behind it.
    ///
    /// - Parameter start: where the packet begins in the burst.
    func tag(_ burst: inout [UInt8], from start: Int) {
        guard let key else { return }
        burst += repeatElement(0, count: tagByteCount)
        // SAFETY: the buffer is valid inside the closure; it holds a sealed packet, and behind it the room of the tag.
        unsafe burst.withUnsafeMutableBytes { bytes in
            let packet = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[start...])
            var header = unsafe PacketHeader.header(UnsafeRawBufferPointer(packet))
            header.flags |= PacketHeader.Flags.hasTag
            header.keyID = key.id
            unsafe header.seal(
                UnsafeMutableRawBufferPointer(
                    rebasing: packet[..<(packet.count - PacketTag.byteCount)]))
            unsafe key.tag.seal(packet)
        }
    }

    /// - Parameters:
    ///   - next: what it announces; it takes no sequence itself.
    ///   - ackByteCount: what the ack should have room for; as far as a packet has.
    func heartbeat(next: UInt64, _ content: Heartbeat, ackByteCount: Int = 0) -> [UInt8] {
        let room = packetByteCountMax - tagByteCount - PacketHeader.byteCount
        var packet = content.packet(
            header(.heartbeat, next),
            payloadByteCount: min(room, max(Heartbeat.payloadByteCountMin, ackByteCount)))
        tag(&packet, from: 0)
        return packet
    }

    private func header(_ kind: PacketKind, _ sequence: UInt64) -> PacketHeader {
        let acks = delivery == .acked ? PacketHeader.Flags.isAckWanted : 0
        return PacketHeader(
            kind: kind, flags: acks, sender: identity.sender, epoch: identity.epoch,
            sequence: PacketSequence(rawValue: sequence))
    }
}
