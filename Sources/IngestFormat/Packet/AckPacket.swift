// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query

/// What an ack says beside its sequences. Raw values are on the wire.
package enum AckStatus: UInt32, Sendable, BitwiseCopyable, CaseIterable {
    case ok = 0
    /// The daemon sheds: keep everything, send nothing new until an ack says `ok`.
    case busy = 1
    /// As `busy`, for want of disk.
    case diskFull = 2
    /// Epoch or sequence refused for good: stop and report, never go on under another epoch.
    case refused = 3
    /// The sequence is beyond the window: announce the base by a heartbeat, then send again.
    case beyondWindow = 4
    /// Kind or flags of the packet are none that the daemon knows.
    case unsupported = 5
    /// The sender has seen acks of more than the daemon has: it was replaced, or restored from an old copy.
    case rolledBack = 6
}

/// An ack as the daemon writes it: what of one sender epoch is final, what above that is durable, and
/// how much may be in flight.
///
/// **Layout** A packet header with the sender's id and epoch and, as sequence, the lowest sequence that is
/// not final; then bitmap u64 (bit i: sequence + i is durable), credit u32, status u32, directory id u64, commit epoch
/// u64, echo u64; in an answer to a heartbeat `EventSums`; and 0 … 1,023 further words u64 that continue the bitmap. The
/// constants of `Offset` are those of `docs/format/packet.md`.
package struct AckPacket: Equatable, Sendable, BitwiseCopyable {
    /// Within the payload.
    package enum Offset {
        package static let bitmap = 0
        package static let credit = 8
        package static let status = 12
        package static let directory = 16
        package static let commitEpoch = 24
        package static let echo = 32
        /// Only in an answer to a heartbeat.
        package static let sums = 40
        /// The further words, which stand behind the sums where there are any.
        package static func furtherWords(isAnswer: Bool) -> Int {
            isAnswer ? sums + EventSums.byteCount : sums
        }
    }

    package var sender: SenderID
    package var epoch: SenderEpoch
    /// The lowest sequence that is not final: everything below is durable or missing for good.
    package var floor: PacketSequence
    /// Of the packet that is answered; 0 = no key.
    package var keyID: UInt16 = 0
    /// Whether the caller appends a tag: so if the packet that is answered had one.
    package var hasTag = false
    /// Packets that may be in flight from `floor` on.
    package var credit: UInt32
    package var status = AckStatus.ok
    /// Whether packets of the sender are admitted and not durable: the floor is then one of before, and the bitmap 0.
    package var isPending = false
    /// Of the daemon's directory.
    package var directory = DirectoryID(rawValue: 0)
    /// The last commit that is durable.
    package var commitEpoch: UInt64 = 0
    package var echo = AckEcho.sequence(0)
    /// Of the events of the epoch that are durable; only an answer to a heartbeat tells them.
    package var sums = EventSums()

    package init(
        sender: SenderID, epoch: SenderEpoch, floor: PacketSequence, keyID: UInt16 = 0,
        hasTag: Bool = false, credit: UInt32, status: AckStatus = .ok
    ) {
        self.sender = sender
        self.epoch = epoch
        self.floor = floor
        self.keyID = keyID
        self.hasTag = hasTag
        self.credit = credit
        self.status = status
    }
}

// MARK: Sizes

extension AckPacket {
    package static let furtherWordCountMax = Limits.ackFurtherWordCountMax

    /// Of the whole packet, tag and all: 80 bytes, 96 with tag, 24 more in an answer to a heartbeat, and 8 a further word.
    package static func byteCount(
        furtherWordCount: Int, hasTag: Bool, isAnswer: Bool = false
    ) -> Int {
        PacketHeader.byteCount + Offset.furtherWords(isAnswer: isAnswer) + 8 * furtherWordCount
            + (hasTag ? Limits.packetTagByteCount : 0)
    }

    /// How many further words an ack may have that is no larger than `byteCount`, tag and all; `nil` if
    /// not even an ack without them is: then there is no answer.
    package static func furtherWordCount(
        fitting byteCount: Int, hasTag: Bool, isAnswer: Bool = false
    ) -> Int? {
        let room =
            byteCount - Self.byteCount(furtherWordCount: 0, hasTag: hasTag, isAnswer: isAnswer)
        return room < 0 ? nil : min(room / 8, furtherWordCountMax)
    }
}

// MARK: Encode

extension AckPacket {
    /// Writes header and payload into the caller's memory and seals them; the tag, if `hasTag`, is the
    /// caller's to append behind them: it covers all that was written.
    ///
    /// - Parameters:
    ///   - packet: at least `byteCount(furtherWordCount:hasTag: false)` bytes.
    ///   - furtherWordCount: 0 … `furtherWordCountMax`.
    ///   - word: bitmap word 0 … `furtherWordCount`; bit i of word w says that floor + 64 · w + i is durable.
    /// - Returns: the bytes written, without tag.
    ///
    /// **Cost** No allocation; a CRC over what is written.
    @unsafe package func encode(
        into packet: UnsafeMutableRawBufferPointer, furtherWordCount: Int, word: (Int) -> UInt64
    ) -> Int {
        precondition((0...Self.furtherWordCountMax).contains(furtherWordCount))
        let byteCount = Self.byteCount(
            furtherWordCount: furtherWordCount, hasTag: false, isAnswer: isAnswer)
        precondition(packet.count >= byteCount)
        func put<Value: FixedWidthInteger & BitwiseCopyable>(_ value: Value, _ offset: Int) {
            // SAFETY: offset + size ≤ byteCount ≤ the buffer's count, checked above.
            unsafe packet.storeBytes(
                of: value.littleEndian, toByteOffset: PacketHeader.byteCount + offset,
                as: Value.self)
        }
        put(word(0), Offset.bitmap)
        put(credit, Offset.credit)
        put(status.rawValue, Offset.status)
        put(directory.rawValue, Offset.directory)
        put(commitEpoch, Offset.commitEpoch)
        put(echo.value, Offset.echo)
        if isAnswer {
            put(sums.counted, Offset.sums)
            put(sums.repeated, Offset.sums + 8)
            put(sums.refusedAndReason, Offset.sums + 16)
        }
        let further = Offset.furtherWords(isAnswer: isAnswer)
        for i in 0..<furtherWordCount { put(word(i + 1), further + 8 * i) }
        var header = PacketHeader(
            kind: .ack, flags: flags, keyID: keyID, sender: sender, epoch: epoch, sequence: floor)
        // SAFETY: the first `byteCount` bytes of the buffer, which has as many.
        unsafe header.seal(UnsafeMutableRawBufferPointer(rebasing: packet[..<byteCount]))
        return byteCount
    }

    /// Whether it answers a heartbeat.
    package var isAnswer: Bool { if case .nonce = echo { true } else { false } }

    private var flags: UInt8 {
        var flags: UInt8 = hasTag ? PacketHeader.Flags.hasTag : 0
        if isPending { flags |= PacketHeader.Flags.isPending }
        if isAnswer { flags |= PacketHeader.Flags.echoesNonce }
        return flags
    }
}

/// What an ack answers.
package enum AckEcho: Equatable, Sendable, BitwiseCopyable {
    /// A heartbeat: its nonce.
    case nonce(UInt64)
    /// The last packet of the sender in the commit: its sequence.
    case sequence(UInt64)

    fileprivate var value: UInt64 {
        switch self {
        case .nonce(let value), .sequence(let value): value
        }
    }
}

// MARK: Parse

/// An ack as a sender reads it, where it lies in a datagram.
///
/// It does not own the bytes: they must stay where they are while the view is used.
@safe package struct AckView {
    package let header: PacketHeader
    /// Packets that may be in flight from `floor` on.
    package let credit: UInt32
    /// As it stands in the packet: a later version may have more than `AckStatus` names.
    package let statusCode: UInt32
    package let directory: DirectoryID
    package let commitEpoch: UInt64
    package let echo: AckEcho
    /// Of the events of the epoch; `nil` where it answers no heartbeat.
    package let sums: EventSums?
    /// Bitmap words, at least 1.
    package let wordCount: Int
    private let payload: UnsafeRawBufferPointer
    private let furtherWordsOffset: Int

    /// - Parameters:
    ///   - header: what `PacketHeader.parse` gave for `packet`.
    ///   - packet: the whole datagram.
    ///
    /// **Errors** `nil` if it is no ack, or its payload is not 40 bytes, 64 of an answer to a heartbeat, and 0 … 1,023
    /// words to the byte.
    @unsafe package init?(_ header: PacketHeader, of packet: UnsafeRawBufferPointer) {
        furtherWordsOffset = AckPacket.Offset.furtherWords(isAnswer: header.echoesNonce)
        let room = header.payloadByteCount - furtherWordsOffset
        guard header.kind == .ack, packet.count == header.packetByteCount, room >= 0, room % 8 == 0,
            room / 8 <= AckPacket.furtherWordCountMax
        else { return nil }
        self.header = header
        wordCount = 1 + room / 8
        // SAFETY: header + payload ≤ the datagram, checked above; every offset below is within the payload.
        unsafe payload = UnsafeRawBufferPointer(
            rebasing: packet[
                PacketHeader.byteCount..<PacketHeader.byteCount + header.payloadByteCount])
        unsafe credit = UInt32(
            littleEndian: payload.loadUnaligned(
                fromByteOffset: AckPacket.Offset.credit, as: UInt32.self))
        unsafe statusCode = UInt32(
            littleEndian: payload.loadUnaligned(
                fromByteOffset: AckPacket.Offset.status, as: UInt32.self))
        unsafe directory = DirectoryID(
            rawValue: Self.load64(payload, AckPacket.Offset.directory))
        unsafe commitEpoch = Self.load64(payload, AckPacket.Offset.commitEpoch)
        let echoed = unsafe Self.load64(payload, AckPacket.Offset.echo)
        echo = header.echoesNonce ? .nonce(echoed) : .sequence(echoed)
        sums = unsafe header.echoesNonce ? Self.loadSums(payload) : nil
    }

    @unsafe private static func loadSums(_ payload: UnsafeRawBufferPointer) -> EventSums {
        // SAFETY: the caller has checked that the payload holds them.
        unsafe EventSums(
            counted: load64(payload, AckPacket.Offset.sums),
            repeated: load64(payload, AckPacket.Offset.sums + 8),
            refusedAndReason: load64(payload, AckPacket.Offset.sums + 16))
    }

    @unsafe private static func load64(
        _ payload: UnsafeRawBufferPointer, _ offset: Int
    ) -> UInt64 {
        // SAFETY: the callers' offsets are inside the payload.
        unsafe UInt64(
            littleEndian: payload.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    /// The lowest sequence that is not final.
    package var floor: UInt64 { header.sequence.rawValue }
    /// Whether it says nothing of sequences, since packets of the sender are not durable yet.
    package var isPending: Bool { header.isPending }

    /// `nil` for a number that this version does not know.
    package var status: AckStatus? { AckStatus(rawValue: statusCode) }

    /// Bitmap word `index`, below `wordCount`: bit i is floor + 64 · index + i.
    package func word(_ index: Int) -> UInt64 {
        precondition(index >= 0 && index < wordCount)
        let offset =
            index == 0
            ? AckPacket.Offset.bitmap : furtherWordsOffset + 8 * (index - 1)
        // SAFETY: offset + 8 ≤ furtherWordsOffset + 8 · (wordCount - 1), the payload's size, by the check of the index.
        return unsafe Self.load64(payload, offset)
    }
}
