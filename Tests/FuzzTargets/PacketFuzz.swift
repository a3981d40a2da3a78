import IngestFormat
import TestSupport

// The two forms of a datagram and the header of the framed one.

extension FuzzTarget {
    // MARK: Header

    /// Parses the bytes as they are and, since few of them have a right checksum, sealed again.
    static let packetHeader = FuzzTarget(
        name: "packet-header",
        seeds: { PacketKind.allCases.map(headerSeed) },
        run: { bytes in
            checkHeader(Array(bytes))
            checkHeader(resealed(Array(bytes)))
        })

    private static func headerSeed(_ kind: PacketKind) -> [UInt8] {
        var packet = [UInt8](repeating: 0, count: PacketHeader.byteCount + 64)
        var header = PacketHeader(
            kind: kind, flags: PacketHeader.Flags.isAckWanted, sender: SenderID(rawValue: 7),
            epoch: SenderEpoch(rawValue: 8), sequence: PacketSequence(rawValue: 9))
        header.seal(&packet)
        return packet
    }

    private static func resealed(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        let tagByteCount = bytes.count > 5 && bytes[5] & 2 != 0 ? 16 : 0
        guard bytes.count >= PacketHeader.byteCount + tagByteCount else { return bytes }
        let payload = bytes[PacketHeader.byteCount..<bytes.count - tagByteCount]
        var writer = ByteWriter()
        writer.append(u32: UInt32(payload.count))
        bytes.replaceSubrange(32..<36, with: writer.bytes)
        writer.removeAll()
        writer.append(u32: Checksum.crc32c(payload, seed: Checksum.crc32c(bytes[..<36])))
        bytes.replaceSubrange(36..<40, with: writer.bytes)
        return bytes
    }

    private static func checkHeader(_ bytes: [UInt8]) {
        for receiver in [PacketHeader.Receiver.daemon, .sender] {
            let parsed = bytes.withUnsafeBytes { PacketHeader.parse($0, for: receiver) }
            guard case .packet(var header) = parsed else { continue }
            fuzzExpect(header.packetByteCount == bytes.count, "the length")
            let isAnswer = header.kind == .ack || header.kind == .probeAnswer
            fuzzExpect(isAnswer == (receiver == .sender), "the kind")
            checkHeartbeat(header, bytes)
            checkProbe(header, bytes)
            // What was parsed is all that the header says: sealed again it is the same bytes.
            var again = Array(bytes[..<(PacketHeader.byteCount + header.payloadByteCount)])
            let original = again
            again.replaceSubrange(..<PacketHeader.byteCount, with: repeatElement(0xEE, count: 40))
            header.seal(&again)
            fuzzExpect(again == original, "the header sealed again")
        }
    }

    /// What it carries, in a packet again, is the same bytes.
    private static func checkHeartbeat(_ header: PacketHeader, _ bytes: [UInt8]) {
        guard let content = bytes.withUnsafeBytes({ Heartbeat(ofPacket: $0) }) else { return }
        let again = content.packet(header, payloadByteCount: header.payloadByteCount)
        fuzzExpect(again == Array(bytes[..<again.count]), "the heartbeat made again")
    }

    /// The same of a probe and its answer.
    private static func checkProbe(_ header: PacketHeader, _ bytes: [UInt8]) {
        let payload = bytes[PacketHeader.byteCount...].prefix(header.payloadByteCount)
        if header.kind == .probe, let probe = Array(payload).withUnsafeBytes({ Probe($0) }) {
            let again = probe.packet(header)[PacketHeader.byteCount...]
            fuzzExpect(Array(again) == Array(payload.prefix(again.count)), "the probe made again")
        }
        guard let answer = bytes.withUnsafeBytes({ ProbeAnswer(header, of: $0) }) else { return }
        var again = [UInt8](repeating: 0xEE, count: ProbeAnswer.byteCount(hasTag: false))
        let count = again.withUnsafeMutableBytes { answer.encode(into: $0, header) }
        fuzzExpect(
            Array(again[PacketHeader.byteCount..<count])
                == Array(payload.prefix(ProbeAnswer.payloadByteCount)), "the answer made again")
    }

    // MARK: Ack

    /// As a sender takes it; sealed again too, since few mutations have a right checksum.
    static let ack = FuzzTarget(
        name: "ack",
        seeds: { [ackSeed(words: 1), ackSeed(words: 5), ackSeed(words: 5, nonce: 7)] },
        run: { bytes in
            checkAck(Array(bytes))
            checkAck(resealed(Array(bytes)))
        })

    private static func ackSeed(words: Int, nonce: UInt64? = nil) -> [UInt8] {
        var ack = AckPacket(
            sender: SenderID(rawValue: 7), epoch: SenderEpoch(rawValue: 8),
            floor: PacketSequence(rawValue: 9), credit: 10)
        if let nonce { ack.echo = .nonce(nonce) }
        var packet = [UInt8](
            repeating: 0,
            count: AckPacket.byteCount(
                furtherWordCount: words - 1, hasTag: false, isAnswer: nonce != nil))
        _ = packet.withUnsafeMutableBytes {
            ack.encode(into: $0, furtherWordCount: words - 1) { 0x55 << UInt64($0) }
        }
        return packet
    }

    private static func checkAck(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { bytes in
            guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender),
                let view = AckView(header, of: bytes)
            else { return }
            let tagByteCount = header.hasTag ? Limits.packetTagByteCount : 0
            fuzzExpect(
                bytes.count - tagByteCount
                    == AckPacket.byteCount(
                        furtherWordCount: view.wordCount - 1, hasTag: false,
                        isAnswer: view.sums != nil),
                "the size formula")
            checkAckAgain(view, bytes)
        }
    }

    /// Where the status is known, the ack encoded again is the same bytes.
    private static func checkAckAgain(_ view: AckView, _ bytes: UnsafeRawBufferPointer) {
        guard let status = view.status, !view.header.isAckWanted else { return }
        let header = view.header
        var ack = AckPacket(
            sender: header.sender, epoch: header.epoch, floor: header.sequence,
            keyID: header.keyID, hasTag: header.hasTag, credit: view.credit, status: status)
        ack.directory = view.directory
        ack.commitEpoch = view.commitEpoch
        ack.echo = view.echo
        ack.isPending = view.isPending
        ack.sums = view.sums ?? ack.sums
        var again = [UInt8](repeating: 0, count: bytes.count)
        let byteCount = again.withUnsafeMutableBytes {
            ack.encode(into: $0, furtherWordCount: view.wordCount - 1, word: view.word)
        }
        fuzzExpect(again[..<byteCount].elementsEqual(bytes[..<byteCount]), "the ack encoded again")
    }

    // MARK: Protobuf

    static let events = FuzzTarget(
        name: "events", seeds: { [EventSeeds.payload] },
        run: { bytes in
            // What was decoded can be encoded, and then is the same.
            let decoded = DecoderHarness.protobuf(Array(bytes), headerByteCount: 0)
            if let decoded { checkAgain(decoded.events) }
        })

    private static func checkAgain(_ decoded: [DecodedEvent]) {
        var encoder = EventBatchEncoder(packetByteCountMax: Limits.packetByteCountMax)
        for event in decoded {
            let (descriptor, source) = event.descriptor
            let isTaken = source.withUnsafeBytes { encoder.append(descriptor, from: $0) }
            fuzzExpect(isTaken, "an event that was decoded fits a packet")
        }
        let header = PacketHeader(
            kind: .batch, sender: SenderID(rawValue: 1), epoch: SenderEpoch(rawValue: 1),
            sequence: PacketSequence(rawValue: 0))
        let payload = Array(encoder.seal(header)[PacketHeader.byteCount...])
        let again = DecoderHarness.protobuf(payload, headerByteCount: 0)
        fuzzExpect(again?.events == decoded, "the events encoded and decoded again")
    }

    // MARK: JSON

    /// What is decoded from JSON has to pass through protobuf unchanged: `ingest-send` depends on it. Behind the header of a
    /// batch it is what it is in a plain datagram.
    static let jsonEvents = FuzzTarget(
        name: "json-events", seeds: { EventSeeds.lines },
        run: { bytes in
            let lineCount = bytes.count { $0 == 0x0A } + 1
            guard let decoded = DecoderHarness.json(Array(bytes))?.events else {
                fuzzExpect(bytes.count > Limits.packetByteCountMax, "JSON is refused by the line")
                return
            }
            fuzzExpect(decoded.count <= lineCount, "an event is a line")
            let isBatch = bytes.count <= Limits.payloadByteCountMax
            fuzzExpect(
                !isBatch
                    || DecoderHarness.json(Array(bytes), headerByteCount: 40)?.events == decoded,
                "the events of a batch")
            checkAgain(decoded)
        })
}
