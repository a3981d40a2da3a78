// [packet] → [decode] → [ring] → admit → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestRing
import IngestStorage

/// Takes received datagrams apart: checks and decodes each and puts it into the ring, or counts why not. Owned by the
/// receive queue. It knows nothing of sockets and clocks, so that it stays concrete whatever they are.
///
/// **Cost** No allocation and no reference counting a packet; see `ingest-bench micro path`.
struct PacketIntake: ~Copyable {
    private var ring: RingProducer
    private let scratch = EventScratch()
    /// Of the packet at hand.
    private var rows = PacketRows()
    private let eventDecoder: EventDecoder
    private let jsonDecoder: JSONEventDecoder
    private let counters: PipelineCounters
    /// `nil`: there is nothing behind the ring that could refuse it.
    private let state: StageLinks.SharedState?
    /// While the disk takes nothing, everything is shed for that.
    private var shortage: Shortage?
    /// `nil`: senders are not authenticated.
    private let keyRing: KeyRing?
    private var keys: KeyRing.Keys?
    private var tally = IntakeTally()
    private(set) var refusals = RefusalSamples()
    /// To senders whose packets of this batch were shed, were of no kind that is known, or are probes.
    private(set) var answers = AckList()
    /// Answers to probes and unknown kinds that each key may still have, by its id, until `renewAnswers`.
    private var answersLeft: [UInt16: Int] = [:]

    /// Kept free in the ring, so that the last refusals record finds room however full it is: the record
    /// is 184 bytes.
    private static var reserveByteCount: Int { 512 }
    /// Of one batch.
    private static var answerCountOfBatchMax: Int { 32 }
    /// A key, and tick of 100 ms.
    private static var answerCountMax: Int { 10 }

    init(
        ring: consuming RingProducer, hash: KeyedHash, keyRing: KeyRing?,
        state: StageLinks.SharedState?, counters: PipelineCounters
    ) {
        self.ring = ring
        self.state = state
        self.keyRing = keyRing
        keys = keyRing?.current
        eventDecoder = EventDecoder(hash: hash)
        jsonDecoder = JSONEventDecoder(hash: hash)
        self.counters = counters
    }

    /// Takes every datagram of the batch and shows the consumer what came of them.
    mutating func take(_ batch: borrowing PacketBatch) {
        if let keyRing, var current = keys.take() {
            keyRing.refresh(&current)
            keys = current
        }
        answers.removeAll()
        // After they were received: no sender has heard of a later one.
        answers.commitEpoch = state?.durableEpoch ?? 0
        shortage = state?.shortage
        for index in 0..<batch.count {
            // SAFETY: `count` datagrams have been filled, and their bytes stay until the next receive.
            unsafe take(batch.datagrams + index)
        }
        ring.publish()
        tally.flush(into: counters, bufferCount: batch.count)
    }

    /// Hands the refusals since the last such record down the ring. What does not fit stays for later, and all of it
    /// while nothing can be written; `isLast` uses the room that was kept free.
    mutating func handDownRefusals(isLast: Bool) {
        guard tally.hasUnrecorded, isLast || state?.shortage == nil else { return }
        var header = RingRecordHeader(kind: RingRecordKind.refusals)
        let byteCount = IntakeTally.resultCount * MemoryLayout<UInt64>.size
        header.packetByteCount = UInt16(truncatingIfNeeded: byteCount)
        // SAFETY: the claim is for the header and `byteCount` bytes from the 8-aligned place after it.
        guard
            let record = unsafe ring.claim(
                header, byteCount: RingLayout.recordHeaderByteCount + byteCount,
                leaving: isLast ? 0 : Self.reserveByteCount)
        else { return }
        for index in 0..<IntakeTally.resultCount {
            unsafe record.storeBytes(
                of: tally.unrecorded[index],
                toByteOffset: RingLayout.recordHeaderByteCount + index * MemoryLayout<UInt64>.size,
                as: UInt64.self)
        }
        ring.commit()
        ring.publish()
        tally.unrecorded = InlineArray(repeating: 0)
    }

    /// Says that nothing more will come.
    mutating func close() { ring.close() }

    /// The refusals that no line has told of yet, for the log.
    mutating func withRefusals(_ body: (inout RefusalSamples) -> Void) { body(&refusals) }
}

// MARK: One datagram

extension PacketIntake {
    /// A buffer: one datagram, or several of one size of which the last may be shorter.
    @unsafe private mutating func take(_ buffer: UnsafeMutablePointer<ingest_datagram>) {
        let byteCount = unsafe Int(buffer.pointee.byte_count)
        let segmentByteCount = unsafe max(1, Int(buffer.pointee.segment_byte_count))
        let bytes = unsafe UnsafeMutableRawPointer(buffer.pointee.bytes!)
        tally.byteCount &+= UInt64(byteCount)
        if unsafe buffer.pointee.is_truncated {
            tally.datagramCount &+= 1
            return unsafe refuse(.truncated, bytes, byteCount, buffer)
        }
        var offset = 0
        // Once for an empty datagram too: it is refused, not overlooked.
        repeat {
            let count = min(segmentByteCount, byteCount &- offset)
            // SAFETY: offset + count ≤ byteCount, and the buffer holds so many bytes.
            let packet = unsafe UnsafeMutableRawBufferPointer(start: bytes + offset, count: count)
            if let refusal = unsafe take(packet, from: buffer) {
                unsafe refuse(refusal, bytes + offset, count, buffer)
            }
            tally.datagramCount &+= 1
            offset &+= count
        } while offset < byteCount
    }

    /// One datagram. `nil` once it is in the ring, else why it is not.
    @unsafe private mutating func take(
        _ packet: UnsafeMutableRawBufferPointer, from buffer: UnsafeMutablePointer<ingest_datagram>
    ) -> PacketResult? {
        guard packet.count <= Limits.packetByteCountMax else { return .badLength }
        let bytes = UnsafeRawBufferPointer(packet)
        if unsafe PacketHeader.isPlain(bytes) {
            return keys == nil ? unsafe takePlain(packet, from: buffer) : .unauthenticated
        }
        if let refusal = unsafe PacketHeader.frameRefusal(bytes) { return refusal }
        var businessHash: UInt64?
        if let keys {
            // Before anything of the packet but its length and checksum is used.
            switch unsafe keys.check(bytes) {
            case .failure(let refusal): return refusal.result
            case .success(let key): businessHash = keys.businessHash(of: key)
            }
        }
        if let refusal = unsafe PacketHeader.kindRefusal(bytes, for: .daemon) {
            unsafe noteUnsupported(bytes, from: buffer)
            return refusal
        }
        let header = unsafe PacketHeader.header(bytes)
        switch header.kind {
        case .heartbeat: return unsafe takeHeartbeat(header, bytes, from: buffer)
        case .probe: return unsafe takeProbe(header, bytes, from: buffer)
        default: return unsafe takeBatch(header, packet, onlyOf: businessHash, from: buffer)
        }
    }

    /// - Parameter businessHash: the only business whose events the key may send; `nil` = any.
    @unsafe private mutating func takeBatch(
        _ header: PacketHeader, _ packet: UnsafeMutableRawBufferPointer,
        onlyOf businessHash: UInt64?, from buffer: UnsafeMutablePointer<ingest_datagram>
    ) -> PacketResult? {
        // Before lines are unescaped.
        let checksum = unsafe header.checksumWithoutKey(of: UnsafeRawBufferPointer(packet))
        // SAFETY: `frameRefusal` has checked that the payload lies inside the packet; lines are unescaped in it.
        let outcome =
            if header.kind == .jsonBatch {
                unsafe jsonDecoder.decode(
                    packet: packet.baseAddress!, payloadOffset: PacketHeader.byteCount,
                    payloadByteCount: header.payloadByteCount, onlyOf: businessHash, into: &rows,
                    by: scratch)
            } else {
                unsafe eventDecoder.decode(
                    packet: packet.baseAddress!, payloadOffset: PacketHeader.byteCount,
                    payloadByteCount: header.payloadByteCount, onlyOf: businessHash, into: &rows,
                    by: scratch)
            }
        var record = unsafe RingRecordHeader(
            header, kind: RingRecordKind.framed, acksAreTagged: keys != nil, from: buffer)
        record.setCheck(checksum)
        if businessHash != nil { record.flags |= RingRecordHeader.Flags.isBound }
        return unsafe append(record, outcome, UnsafeRawBufferPointer(packet), from: buffer)
    }

    @unsafe private mutating func takeHeartbeat(
        _ header: PacketHeader, _ packet: UnsafeRawBufferPointer,
        from buffer: UnsafeMutablePointer<ingest_datagram>
    ) -> PacketResult? {
        guard unsafe Heartbeat(Self.payload(header, of: packet)) != nil else { return .malformed }
        let record = unsafe RingRecordHeader(
            header, kind: RingRecordKind.heartbeat, acksAreTagged: keys != nil, from: buffer)
        // It would wait in the ring, and its sender has to know that somebody is here.
        if header.isAskedAgain && state?.lacksBlocks == true {
            unsafe noteShed(record, packet)
        } else {
            _ = unsafe append(record, packet)
        }
        return nil
    }

    /// A probe is answered at once, as far as its key has answers left. It comes to no window and no ledger.
    @unsafe private mutating func takeProbe(
        _ header: PacketHeader, _ packet: UnsafeRawBufferPointer,
        from buffer: UnsafeMutablePointer<ingest_datagram>
    ) -> PacketResult? {
        guard let probe = unsafe Probe(Self.payload(header, of: packet)) else { return .malformed }
        guard takesAnswer(header) else { return nil }
        var record = unsafe RingRecordHeader(
            header, kind: RingRecordKind.framed, acksAreTagged: keys != nil, from: buffer)
        record.packetByteCount = UInt16(truncatingIfNeeded: packet.count)
        answers.append(
            OutgoingAck(
                answering: probe, sender: header.sender, epoch: header.epoch,
                to: PacketSource(record)))
        return nil
    }

    @unsafe private static func payload(
        _ header: PacketHeader, of packet: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        // SAFETY: `frameRefusal` has checked that the payload follows the header.
        unsafe UnsafeRawBufferPointer(
            start: packet.baseAddress! + PacketHeader.byteCount, count: header.payloadByteCount)
    }

    @unsafe private mutating func takePlain(
        _ packet: UnsafeMutableRawBufferPointer, from buffer: UnsafeMutablePointer<ingest_datagram>
    ) -> PacketResult? {
        // SAFETY: as in `takeBatch`; the decoder overwrites nothing but this packet.
        let outcome = unsafe jsonDecoder.decode(
            packet: packet.baseAddress!, payloadOffset: 0, payloadByteCount: packet.count,
            onlyOf: nil, into: &rows, by: scratch)
        return unsafe append(
            RingRecordHeader(kind: RingRecordKind.plain), outcome, UnsafeRawBufferPointer(packet),
            from: buffer)
    }

    /// Puts a record of decoded events into the ring, and notes what is malformed in them.
    @unsafe private mutating func append(
        _ record: RingRecordHeader, _ outcome: DecodeOutcome, _ packet: UnsafeRawBufferPointer,
        from buffer: UnsafeMutablePointer<ingest_datagram>
    ) -> PacketResult? {
        var record = record
        switch outcome {
        case .events(let count, let malformed, let dropped):
            tally.droppedCount &+= UInt64(dropped)
            record.setCounts(events: count, malformed: malformed)
            let refusal = unsafe append(record, packet)
            if malformed > 0, refusal == nil {
                unsafe refusals.noteMalformedEvents(
                    malformed, byteCount: packet.count, from: buffer.pointee.source)
            }
            return refusal
        case .malformed:
            // The sequence is consumed all the same, so the record must go down.
            record.flags |= RingRecordHeader.Flags.isMalformed
            let refusal = unsafe append(record, packet)
            if refusal == nil {
                unsafe refusals.note(.malformed, packet, from: buffer.pointee.source)
            }
            return refusal
        }
    }

    /// Puts a record with the packet's bytes and the rows of its events into the ring.
    @unsafe private mutating func append(
        _ record: RingRecordHeader, _ packet: UnsafeRawBufferPointer
    ) -> PacketResult? {
        var record = record
        record.packetByteCount = UInt16(truncatingIfNeeded: packet.count)
        if shortage != nil {
            unsafe noteShed(record, packet)
            return .shed
        }
        let rowOffset = RingLayout.rowOffset(packetByteCount: packet.count)
        // SAFETY: the claim is for the header, the packet's bytes after it, and the rows at their
        // offset.
        let rowByteCount = record.eventCount == 0 ? 0 : rows.byteCount
        guard
            let place = unsafe ring.claim(
                record, byteCount: rowOffset &+ rowByteCount, leaving: Self.reserveByteCount)
        else {
            unsafe noteShed(record, packet)
            return .shed
        }
        unsafe (place + RingLayout.recordHeaderByteCount).copyMemory(
            from: packet.baseAddress!, byteCount: packet.count)
        if rowByteCount > 0 { unsafe rows.copy(to: place + rowOffset) }
        ring.commit()
        tally.eventCount &+= UInt64(record.eventCount)
        return nil
    }

    /// What of its sequences is known is for the windows to say: this has none of them, and no credit.
    @unsafe private mutating func noteShed(
        _ record: RingRecordHeader, _ packet: UnsafeRawBufferPointer
    ) {
        guard record.flags & RingRecordHeader.Flags.wantsAck != 0 else { return }
        // Once a sender, and once more in answer to a heartbeat.
        if let last = answers.acks.last, last.sender.rawValue == record.sender,
            last.probeNonce == nil
        {
            if record.kind != RingRecordKind.heartbeat || last.isAnswer { return }
        }
        unsafe answer(record, shortage?.status ?? .busy, packet)
    }

    /// The sender knows a kind or a flag that this version does not.
    @unsafe private mutating func noteUnsupported(
        _ packet: UnsafeRawBufferPointer, from buffer: UnsafePointer<ingest_datagram>
    ) {
        guard unsafe PacketHeader.isUnsupported(packet) else { return }
        // SAFETY: a framed packet; its kind, which may be none, is not read.
        let header = unsafe PacketHeader.header(packet)
        guard takesAnswer(header) else { return }
        let record = unsafe RingRecordHeader(
            header, kind: RingRecordKind.framed, acksAreTagged: keys != nil, from: buffer)
        unsafe answer(record, .unsupported, packet)
    }

    /// Whether the packet's key has an answer left, and then takes it.
    private mutating func takesAnswer(_ header: PacketHeader) -> Bool {
        // Without keys anybody may write any id.
        let key = keys == nil ? 0 : header.keyID
        let left = answersLeft[key] ?? Self.answerCountMax
        guard left > 0, answers.acks.count < Self.answerCountOfBatchMax else { return false }
        answersLeft[key] = left - 1
        return true
    }

    /// Lets all keys have answers again.
    mutating func renewAnswers() { if !answersLeft.isEmpty { answersLeft.removeAll() } }

    @unsafe private mutating func answer(
        _ record: RingRecordHeader, _ status: AckStatus, _ packet: UnsafeRawBufferPointer
    ) {
        guard answers.acks.count < Self.answerCountOfBatchMax else { return }
        var record = record
        record.packetByteCount = UInt16(truncatingIfNeeded: packet.count)
        let heartbeat = unsafe Heartbeat(ofPacket: packet)
        let ack = OutgoingAck(
            status, sender: SenderID(rawValue: record.sender),
            epoch: SenderEpoch(rawValue: record.epoch),
            echo: heartbeat.map { .nonce($0.nonce) } ?? .sequence(record.sequence),
            to: PacketSource(record))
        if let ack { answers.append(ack) }
    }

    @unsafe private mutating func refuse(
        _ result: PacketResult, _ packet: UnsafeMutableRawPointer, _ byteCount: Int,
        _ buffer: UnsafeMutablePointer<ingest_datagram>
    ) {
        tally.results[Int(result.rawValue)] &+= 1
        tally.unrecorded[Int(result.rawValue)] &+= 1
        // SAFETY: byteCount bytes are there.
        let bytes = unsafe UnsafeRawBufferPointer(start: packet, count: byteCount)
        unsafe refusals.note(result, bytes, from: buffer.pointee.source)
    }
}

extension Shortage {
    /// What senders are told: that the disk takes nothing, or that they have to wait.
    fileprivate var status: AckStatus {
        switch self {
        case .space, .writeAccess: .diskFull
        case .resources: .busy
        }
    }
}

extension RingRecordHeader {
    /// A record of a framed packet.
    @unsafe fileprivate init(
        _ header: PacketHeader, kind: UInt8, acksAreTagged: Bool,
        from buffer: UnsafePointer<ingest_datagram>
    ) {
        self.init(kind: kind)
        if header.isAckWanted { flags = Flags.wantsAck }
        if header.hasTag && acksAreTagged { flags |= Flags.hasTag }
        // SAFETY: the call reads the datagram, which lives through it.
        source = unsafe ingest_peer_of(buffer)
        keyID = header.keyID
        sender = header.sender.rawValue
        epoch = header.epoch.rawValue
        sequence = header.sequence.rawValue
    }

    /// - Parameter checksum: by which the packet is told from another of its sequence.
    fileprivate mutating func setCheck(_ checksum: UInt32) {
        // 0 is for "not known".
        check = max(1, UInt16(truncatingIfNeeded: checksum ^ checksum >> 16))
    }

    fileprivate mutating func setCounts(events: Int, malformed: Int) {
        eventCount = UInt16(truncatingIfNeeded: events)
        malformedCount = UInt16(truncatingIfNeeded: malformed)
    }
}
