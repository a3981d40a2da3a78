// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query

/// What a framed packet carries. Raw values are on the wire.
package enum PacketKind: UInt8, Sendable, BitwiseCopyable, CaseIterable {
    case batch = 1
    case heartbeat = 2
    case jsonBatch = 3
    case probe = 4
    case ack = 129
    case probeAnswer = 130
}

/// The header of a framed packet, version 1.
///
/// **Layout** 40 bytes, little-endian; the constants of `Offset` are those of `docs/format/packet.md`:
/// magic `IGD1`, kind u8, flags u8, key id u16, sender u64, epoch u64, sequence u64, payload byte count
/// u32, CRC-32C u32 over bytes 0–35 and the payload. After the payload 16 bytes of tag, if flag bit 1.
package struct PacketHeader: Equatable, Sendable, BitwiseCopyable {
    package static let byteCount = Limits.packetHeaderByteCount
    /// `IGD1` read as a little-endian u32. The version is in the magic.
    package static let magic: UInt32 = 0x3144_4749

    package enum Offset {
        package static let magic = 0
        package static let kind = 4
        package static let flags = 5
        package static let keyID = 6
        package static let sender = 8
        package static let epoch = 16
        package static let sequence = 24
        package static let payloadByteCount = 32
        package static let checksum = 36
    }

    package enum Flags {
        package static let isAckWanted: UInt8 = 1
        package static let hasTag: UInt8 = 2
        /// Of a heartbeat: the epoch has ended, nothing more comes of it.
        package static let endsEpoch: UInt8 = 4
        /// Of an ack: packets of the sender are admitted and not durable yet.
        package static let isPending: UInt8 = 4
        /// Of an ack: it answers a heartbeat, whose nonce is its echo.
        package static let echoesNonce: UInt8 = 8
        fileprivate static func known(of kind: PacketKind?) -> UInt8 {
            switch kind {
            case .heartbeat: isAckWanted | hasTag | endsEpoch
            case .ack, .probeAnswer: isAckWanted | hasTag | isPending | echoesNonce
            default: isAckWanted | hasTag
            }
        }
    }

    package var kind: PacketKind
    package var flags: UInt8
    /// 0 = no key.
    package var keyID: UInt16
    package var sender: SenderID
    package var epoch: SenderEpoch
    package var sequence: PacketSequence
    package var payloadByteCount: Int
    /// CRC-32C as it stands in the packet; computed by `seal`.
    package private(set) var checksum: UInt32 = 0

    /// Of a heartbeat: whether its sender sends another one where this is not answered.
    package var isAskedAgain: Bool {
        flags & (Flags.isAckWanted | Flags.endsEpoch) == Flags.isAckWanted
    }

    package init(
        kind: PacketKind, flags: UInt8 = 0, keyID: UInt16 = 0, sender: SenderID,
        epoch: SenderEpoch, sequence: PacketSequence, payloadByteCount: Int = 0
    ) {
        self.kind = kind
        self.flags = flags
        self.keyID = keyID
        self.sender = sender
        self.epoch = epoch
        self.sequence = sequence
        self.payloadByteCount = payloadByteCount
    }

    package var isAckWanted: Bool { flags & Flags.isAckWanted != 0 }
    package var hasTag: Bool { flags & Flags.hasTag != 0 }
    package var isPending: Bool { flags & Flags.isPending != 0 }
    package var echoesNonce: Bool { flags & Flags.echoesNonce != 0 }
    /// Header, payload and tag.
    package var packetByteCount: Int {
        Self.byteCount + payloadByteCount + (hasTag ? Limits.packetTagByteCount : 0)
    }
}

// MARK: Parse

extension PacketHeader {
    package enum Parsed: Equatable, Sendable {
        case packet(PacketHeader)
        case refused(PacketResult)
    }

    /// Who reads: the daemon takes batches, heartbeats and probes, a sender takes acks and answers to probes.
    package enum Receiver: Sendable { case daemon, sender }

    /// Whether a datagram is plain JSON (`bytes` begins with `{`) and so has no header.
    package static func isPlain(_ bytes: UnsafeRawBufferPointer) -> Bool {
        // SAFETY: `first` checks for emptiness.
        unsafe bytes.first == UInt8(ascii: "{")
    }

    /// Checks a whole datagram and gives its header. The first failure names the refusal:
    ///
    /// 1. `badMagic`: it does not begin with `IGD1`;
    /// 2. `badLength`: it is not header + payload + tag, to the byte; or a heartbeat or probe under 64 bytes of payload;
    /// 3. `badCRC`;
    /// 4. the tag is not looked at here: with keys, the caller checks it next;
    /// 5. `badKind`: unknown kind, one that this receiver does not take, a flag bit without meaning, or sender 0.
    ///
    /// So that a caller with keys can put its own check between 3 and 5, `parse` is `frame` then `kindRefusal`.
    ///
    /// **Cost** The CRC over all bytes; about 45 ns for 1,400.
    package static func parse(
        _ bytes: UnsafeRawBufferPointer, for receiver: Receiver = .daemon
    ) -> Parsed {
        if let refusal = unsafe frameRefusal(bytes) { return .refused(refusal) }
        if let refusal = unsafe kindRefusal(bytes, for: receiver) { return .refused(refusal) }
        return unsafe .packet(header(bytes))
    }

    /// The header of a packet that has passed `frameRefusal`; a kind that `kindRefusal` refuses may stand there as a batch.
    @unsafe package static func header(_ bytes: UnsafeRawBufferPointer) -> PacketHeader {
        // SAFETY: `frameRefusal` has checked that the header is there.
        unsafe load(bytes.baseAddress!)
    }

    /// Steps 1 to 3: is this a whole, undamaged packet?
    package static func frameRefusal(_ bytes: UnsafeRawBufferPointer) -> PacketResult? {
        guard bytes.count >= byteCount, let base = bytes.baseAddress else {
            return unsafe shortRefusal(bytes)
        }
        // SAFETY: 40 bytes are there, checked above; every offset below is inside them.
        let magic = unsafe load32(base, Offset.magic)
        if magic != Self.magic { return .badMagic }
        let kind = unsafe base.load(fromByteOffset: Offset.kind, as: UInt8.self)
        let flags = unsafe base.load(fromByteOffset: Offset.flags, as: UInt8.self)
        let payloadByteCount = unsafe Int(load32(base, Offset.payloadByteCount))
        let tagByteCount = flags & Flags.hasTag != 0 ? Limits.packetTagByteCount : 0
        if bytes.count != byteCount &+ payloadByteCount &+ tagByteCount { return .badLength }
        let isAsking = kind == PacketKind.heartbeat.rawValue || kind == PacketKind.probe.rawValue
        if isAsking && payloadByteCount < Heartbeat.payloadByteCountMin { return .badLength }
        // SAFETY: the payload lies inside the datagram, by the equation above.
        let computed = unsafe checksum(base, payload: base + byteCount, payloadByteCount)
        return unsafe computed == load32(base, Offset.checksum) ? nil : .badCRC
    }

    /// Step 5, on a packet that has passed `frameRefusal`.
    package static func kindRefusal(
        _ bytes: UnsafeRawBufferPointer, for receiver: Receiver
    ) -> PacketResult? {
        // SAFETY: a precondition of this function: 40 bytes are there.
        let kind = unsafe PacketKind(rawValue: bytes[Offset.kind])
        let isTaken =
            switch kind {
            case .batch, .heartbeat, .jsonBatch, .probe: receiver == .daemon
            case .ack, .probeAnswer: receiver == .sender
            case nil: false
            }
        let flags = unsafe bytes[Offset.flags]
        let sender = unsafe bytes.loadUnaligned(fromByteOffset: Offset.sender, as: UInt64.self)
        return isTaken && flags & ~Flags.known(of: kind) == 0 && sender != 0 ? nil : .badKind
    }

    /// Whether a packet that `kindRefusal` has refused is one of a sender that knows more than this version, and may be told.
    package static func isUnsupported(_ bytes: UnsafeRawBufferPointer) -> Bool {
        // SAFETY: as in `kindRefusal`.
        let sender = unsafe bytes.loadUnaligned(fromByteOffset: Offset.sender, as: UInt64.self)
        return unsafe (1..<128).contains(bytes[Offset.kind]) && sender != 0
    }

    /// Fewer bytes than a header: with the whole magic a packet cut short, without it none of ours.
    private static func shortRefusal(_ bytes: UnsafeRawBufferPointer) -> PacketResult {
        guard bytes.count >= 4, let base = bytes.baseAddress else { return .badMagic }
        // SAFETY: four bytes are there, checked above.
        return unsafe load32(base, Offset.magic) == magic ? .badLength : .badMagic
    }

    /// The fields of 40 bytes that were checked before.
    @unsafe private static func load(_ base: UnsafeRawPointer) -> PacketHeader {
        // SAFETY: the caller has checked 40 bytes; every offset is inside them.
        var header = unsafe PacketHeader(
            kind: PacketKind(rawValue: base.load(fromByteOffset: Offset.kind, as: UInt8.self))
                ?? .batch,
            flags: base.load(fromByteOffset: Offset.flags, as: UInt8.self),
            keyID: UInt16(
                littleEndian: base.loadUnaligned(fromByteOffset: Offset.keyID, as: UInt16.self)),
            sender: SenderID(rawValue: load64(base, Offset.sender)),
            epoch: SenderEpoch(rawValue: load64(base, Offset.epoch)),
            sequence: PacketSequence(rawValue: load64(base, Offset.sequence)),
            payloadByteCount: Int(load32(base, Offset.payloadByteCount)))
        unsafe header.checksum = load32(base, Offset.checksum)
        return header
    }

    @unsafe private static func load32(_ base: UnsafeRawPointer, _ offset: Int) -> UInt32 {
        unsafe UInt32(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    @unsafe private static func load64(_ base: UnsafeRawPointer, _ offset: Int) -> UInt64 {
        unsafe UInt64(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    /// What the checksum of the packet would be without key and tag, and with no flag but that of acks: the same whichever key
    /// it is tagged by.
    ///
    /// - Parameter packet: that has passed `frameRefusal`.
    /// **Cost** None where it is as above; else a CRC over all bytes.
    @unsafe package func checksumWithoutKey(of packet: UnsafeRawBufferPointer) -> UInt32 {
        if keyID == 0 && flags & ~Flags.isAckWanted == 0 { return checksum }
        var plain = self
        (plain.keyID, plain.flags) = (0, flags & Flags.isAckWanted)
        return unsafe withUnsafeTemporaryAllocation(
            byteCount: Self.byteCount, alignment: 8
        ) { head in
            // SAFETY: the memory is of 40 bytes, and the payload lies behind the packet's, as it says.
            unsafe plain.store(head)
            return unsafe Self.checksum(
                UnsafeRawPointer(head.baseAddress!),
                payload: packet.baseAddress! + Self.byteCount, payloadByteCount)
        }
    }

    /// CRC-32C of bytes 0–35 followed by the payload.
    @unsafe private static func checksum(
        _ base: UnsafeRawPointer, payload: UnsafeRawPointer, _ payloadByteCount: Int
    ) -> UInt32 {
        let head = unsafe Checksum.crc32c(
            UnsafeRawBufferPointer(start: base, count: Offset.checksum))
        return unsafe Checksum.crc32c(
            UnsafeRawBufferPointer(start: payload, count: payloadByteCount), seed: head)
    }
}

// MARK: Encode

extension PacketHeader {
    /// Writes the header before its payload: `packet` holds 40 bytes of room and then the payload, which
    /// is complete. Sets the payload's byte count from the buffer and computes the CRC.
    ///
    /// A tag, if there is one, is appended by the caller afterwards: it covers the CRC.
    package mutating func seal(_ packet: inout [UInt8]) {
        // SAFETY: the buffer is valid inside the closure.
        unsafe packet.withUnsafeMutableBytes { unsafe seal($0) }
    }

    /// As above, for a packet that lies in the caller's memory.
    @unsafe package mutating func seal(_ packet: UnsafeMutableRawBufferPointer) {
        precondition(packet.count >= Self.byteCount)
        payloadByteCount = packet.count - Self.byteCount
        // SAFETY: the buffer holds the header's room, checked above, and the payload behind it.
        unsafe store(packet)
        let base = UnsafeRawPointer(packet.baseAddress!)
        checksum = unsafe Self.checksum(base, payload: base + Self.byteCount, payloadByteCount)
        unsafe packet.storeBytes(
            of: checksum.littleEndian, toByteOffset: Offset.checksum, as: UInt32.self)
    }

    @unsafe private func store(_ bytes: UnsafeMutableRawBufferPointer) {
        func put<Value: FixedWidthInteger & BitwiseCopyable>(_ value: Value, _ offset: Int) {
            // SAFETY: offset + size ≤ 40 ≤ count, by the layout.
            unsafe bytes.storeBytes(of: value.littleEndian, toByteOffset: offset, as: Value.self)
        }
        put(Self.magic, Offset.magic)
        put(kind.rawValue, Offset.kind)
        put(flags, Offset.flags)
        put(keyID, Offset.keyID)
        put(sender.rawValue, Offset.sender)
        put(epoch.rawValue, Offset.epoch)
        put(sequence.rawValue, Offset.sequence)
        put(UInt32(truncatingIfNeeded: payloadByteCount), Offset.payloadByteCount)
    }
}

extension PacketHeader {
    /// A whole packet, whose payload is these words and zeros behind them.
    func packet(of words: [UInt64], payloadByteCount: Int) -> [UInt8] {
        var writer = ByteWriter(capacity: Self.byteCount + payloadByteCount)
        writer.append(zeroCount: Self.byteCount)
        for word in words { writer.append(u64: word) }
        writer.append(zeroCount: Self.byteCount + payloadByteCount - writer.byteCount)
        var packet = writer.bytes
        var header = self
        header.seal(&packet)
        return packet
    }
}

/// The payload of a heartbeat: what the sender still holds, and what it has heard.
///
/// **Layout** 64 bytes or more: base u64, seen u64, nonce u64, then zeros.
package struct Heartbeat: Equatable, Sendable, BitwiseCopyable {
    package static let payloadByteCountMin = 64

    /// The lowest sequence that the sender still holds; 0 = not given.
    package var base: UInt64
    /// The greatest floor that an ack had; 0 = none came.
    package var seen: UInt64
    /// What the answer echoes: so it is none of an earlier heartbeat, nor a replayed one.
    package var nonce: UInt64
    /// Whether it ends its epoch: the header says that, by `endsEpoch`.
    package var endsEpoch: Bool

    package init(base: UInt64, seen: UInt64 = 0, nonce: UInt64 = 0, endsEpoch: Bool = false) {
        (self.base, self.seen, self.nonce) = (base, seen, nonce)
        self.endsEpoch = endsEpoch
    }

    /// **Errors** `nil` if there are fewer than 64 bytes or a reserved one is not zero: the packet is malformed.
    package init?(_ payload: UnsafeRawBufferPointer) {
        // SAFETY: the reader lives inside this call; the caller's buffer is valid for it.
        var reader = unsafe ByteReader(payload)
        guard payload.count >= Self.payloadByteCountMin, let base = reader.readU64(),
            let seen = reader.readU64(), let nonce = reader.readU64(),
            reader.skipZeros(reader.remainingByteCount)
        else { return nil }
        self.init(base: base, seen: seen, nonce: nonce)
    }

    /// That of a whole packet.
    ///
    /// - Parameter packet: it has passed `frameRefusal` and `kindRefusal`, and there may be more behind it.
    @unsafe package init?(ofPacket packet: UnsafeRawBufferPointer) {
        guard packet.count >= PacketHeader.byteCount else { return nil }
        // SAFETY: the header is there; the payload is cut to what there is.
        let header = unsafe PacketHeader.header(packet)
        guard header.kind == .heartbeat else { return nil }
        let end = min(packet.count, PacketHeader.byteCount + header.payloadByteCount)
        unsafe self.init(UnsafeRawBufferPointer(rebasing: packet[PacketHeader.byteCount..<end]))
        endsEpoch = header.flags & PacketHeader.Flags.endsEpoch != 0
    }

    /// A whole heartbeat packet.
    ///
    /// - Parameter header: its sequence is the next to be sent.
    package func packet(
        _ header: PacketHeader, payloadByteCount: Int = payloadByteCountMin
    ) -> [UInt8] {
        var header = header
        if endsEpoch { header.flags |= PacketHeader.Flags.endsEpoch }
        return header.packet(
            of: [base, seen, nonce],
            payloadByteCount: max(payloadByteCount, Self.payloadByteCountMin))
    }
}
