// events → [send] → encode → packet → spool → socket → ack

import IngestFormat
import IngestKeys
import IngestStorage

/// One sender that is acked: the state behind `EventSender`, without lock, clock, thread or socket of its
/// own. Whoever holds it brings the time and what arrives, calls `tick` at `nextDeadline`, and asks for
/// `failure`; transport, spool and randomness are seams.
///
/// The rules are those of docs/protocol.md: a packet is in the spool before it is sent; it is sent again
/// until an ack says that it is durable; no sequence goes beyond the credit; a heartbeat leaves first,
/// every second, and more often while the credit is 0.
package struct AckedStream: ~Copyable {
    package struct Configuration {
        package var identity: SenderIdentity
        /// Whole packets, tag and all.
        package var packetByteCountMax = 1_452
        package var batchNanosecondsMax: UInt64 = 20_000_000
        /// Of packets that are not acked, sent or not.
        package var unackedByteCountMax = 64 << 20
        /// Without any answer for so long while something waits for one, the sender gives up.
        package var silenceNanosecondsMax: UInt64 = 60_000_000_000
        /// The same where nobody ever answered and the network says that nobody receives: a wrong address is
        /// likelier then than a receiver that starts again.
        package var absenceNanosecondsMax: UInt64 = 10_000_000_000
        package var key: PacketKey?
        /// For messages.
        package var address = ""

        package init(identity: SenderIdentity) { self.identity = identity }
    }

    package enum Taken: Equatable {
        case taken
        case refused(EventRefusal)
        /// As much is unacked as may be: try again after an ack.
        case full
    }

    /// Before the first ack.
    static let creditFirst: UInt64 = 64
    /// No window of a receiver is larger.
    static let creditMax: UInt64 = 65_536
    /// Packets that are sent again in one go.
    static let resendCountMax = 256

    package internal(set) var result = EventSender.Result()
    /// The first error that ended the sender. Everything after it throws the same.
    package internal(set) var failure: ClientError?
    let configuration: Configuration
    let transport: any DatagramTransport
    private(set) var spool: (any PacketSpool)?
    var window: SendWindow
    var timers: AckedTimers
    var acks = AckState()
    private var ids: EventIDSource
    private var parser = EventLineParser()
    private var texts: [UInt8] = []
    private var batch: EventBatchEncoder
    private var note = SpoolNote()
    /// Sealed, and not in the spool yet.
    private var sealed: [SpooledPacket] = []
    private var sealedByteCount = 0
    private var burst: [UInt8] = []

    /// - Parameters:
    ///   - left: packets that an earlier start has left in the spool, from `firstSequence` on.
    init(
        _ configuration: Configuration, transport: any DatagramTransport, spool: (any PacketSpool)?,
        left: [SpooledPacket] = [], firstSequence: UInt64 = 0, ids: EventIDSource, now: UInt64
    ) {
        self.configuration = configuration
        self.transport = transport
        self.spool = spool
        self.ids = ids
        window = SendWindow(firstSequence: firstSequence)
        timers = AckedTimers(now: now)
        let tagByteCount = configuration.key == nil ? 0 : PacketTag.byteCount
        batch = EventBatchEncoder(
            packetByteCountMax: configuration.packetByteCountMax - tagByteCount)
        for packet in left {
            window.append(packet.bytes, eventCount: packet.eventCount, isLeft: true)
        }
        acks.edge = firstSequence + Self.creditFirst
        acks.announcedEnd = window.nextSequence
        if !left.isEmpty { timers.waitsSince = now }
        texts.reserveCapacity(1024)
        sendHeartbeat(now: now)
        pump(now: now)
    }

    // MARK: Events

    /// - Parameter note: how far the input was read with this line.
    package mutating func send(
        jsonLine: Span<UInt8>, note: SpoolNote? = nil, now: UInt64
    ) -> Taken {
        if isFull { return .full }
        if let refusal = parser.parse(jsonLine) {
            result.refused += 1
            return .refused(refusal)
        }
        var event = parser.event
        parser.complete(&event, from: &ids)
        append(event, parser.bytes, now: now)
        if let note { self.note = note }
        return .taken
    }

    package mutating func send(_ event: AdEvent, now: UInt64) -> Taken {
        if isFull { return .full }
        var descriptor: EventDescriptor
        do {
            descriptor = try event.describe(into: &texts)
        } catch {
            result.refused += 1
            return .refused(error)
        }
        ids.complete(&descriptor, &texts)
        append(descriptor, texts, now: now)
        return .taken
    }

    /// Whether one more packet would go beyond what may be unacked.
    private var isFull: Bool {
        window.byteCount + sealedByteCount + 2 * configuration.packetByteCountMax
            > configuration.unackedByteCountMax
    }

    private mutating func append(_ event: EventDescriptor, _ bytes: [UInt8], now: UInt64) {
        if !appendToOpenPacket(event, bytes) {
            sealPacket(isPadded: true)
            if sealedByteCount + configuration.packetByteCountMax > burstByteCountMax {
                commit(now: now)
                pump(now: now)
            }
            let isTaken = appendToOpenPacket(event, bytes)
            precondition(isTaken, "every valid event fits an empty packet")
        }
        if timers.batchDueAt == .max {
            timers.batchDueAt = now + configuration.batchNanosecondsMax
        }
    }

    private mutating func appendToOpenPacket(_ event: EventDescriptor, _ bytes: [UInt8]) -> Bool {
        // SAFETY: the encoder slices the buffer by the descriptor's places, which traps outside it.
        unsafe bytes.withUnsafeBytes { unsafe batch.append(event, from: $0) }
    }

    private var burstByteCountMax: Int {
        UDPTransport.burstByteCount(segmentByteCount: configuration.packetByteCountMax)
    }

    // MARK: Packets

    private mutating func sealPacket(isPadded: Bool) {
        let eventCount = batch.eventCount
        let sequence = window.nextSequence + UInt64(sealed.count)
        var bytes = batch.seal(
            header(.batch, PacketSequence(rawValue: sequence)), isPadded: isPadded)
        configuration.key?.tag.append(to: &bytes)
        sealedByteCount += bytes.count
        sealed.append(SpooledPacket(bytes: bytes, eventCount: eventCount, note: note))
    }

    func header(_ kind: PacketKind, _ sequence: PacketSequence) -> PacketHeader {
        let tagged = configuration.key == nil ? 0 : PacketHeader.Flags.hasTag
        return PacketHeader(
            kind: kind, flags: PacketHeader.Flags.isAckWanted | tagged,
            keyID: configuration.key?.id ?? 0, sender: configuration.identity.sender,
            epoch: configuration.identity.epoch, sequence: sequence)
    }

    /// Sealed packets go to the spool, if there is one, and then may be sent.
    private mutating func commit(now: UInt64) {
        guard !sealed.isEmpty, failure == nil else { return }
        if let spool {
            do throws(StorageError) {
                try spool.append(sealed)
            } catch {
                failure = ClientError(spool: error)
                return
            }
        }
        for packet in sealed { window.append(packet.bytes, eventCount: packet.eventCount) }
        sealed.removeAll(keepingCapacity: true)
        sealedByteCount = 0
        if timers.waitsSince == nil { timers.waitsSince = now }
    }

    /// Closes the open packet; everything that was taken is in the spool then, and on its way.
    package mutating func flush(now: UInt64) {
        if batch.eventCount > 0 {
            sealPacket(isPadded: batch.packetByteCount < PacketBuilder.packetByteCountMin)
        }
        timers.batchDueAt = .max
        commit(now: now)
        pump(now: now)
    }

    /// Whether everything that was taken is durable at the receiver.
    package var isDrained: Bool {
        batch.eventCount == 0 && sealed.isEmpty && window.isEmpty
    }

    /// Ends a sender that is drained: tells the receiver how many packets there were, and clears the spool.
    ///
    /// - Parameter note: of the whole input, which the spool keeps.
    package mutating func finish(_ note: SpoolNote = SpoolNote(), now: UInt64) {
        guard failure == nil else { return }
        sendHeartbeat(now: now)
        do throws(StorageError) {
            try spool?.finish(note)
            abandon()
        } catch {
            failure = ClientError(spool: error)
        }
    }

    /// Ends a sender as it is; its spool is another's to open.
    package mutating func abandon() {
        if failure == nil { failure = .closed }
        spool = nil
    }
}

// MARK: To the socket

extension AckedStream {
    /// Sends what may be sent: first what has to be sent again, then what is new.
    mutating func pump(now: UInt64) {
        guard failure == nil, !acks.isShedding, timers.endsQuiet(now: now) else { return }
        let again = window.due(now: now, edge: acks.edge, countMax: Self.resendCountMax)
        guard send(again[...], now: now) else {
            window.recheck()
            return
        }
        while let first = window.firstUnsent(), first < acks.edge {
            let end = min(acks.edge, window.nextSequence, first + 64)
            let sequences = (first..<end).filter { !window[$0].isDone }
            guard send(sequences[...], now: now) else { return }
        }
    }

    /// In as few calls as the kernel allows: runs of equal size, of which the last may be shorter.
    ///
    /// - Returns: `false` if the network took only a part.
    private mutating func send(_ sequences: ArraySlice<UInt64>, now: UInt64) -> Bool {
        var rest = sequences
        while let first = rest.first {
            burst.removeAll(keepingCapacity: true)
            let byteCount = window[first].bytes.count
            let byteCountMax = UDPTransport.burstByteCount(segmentByteCount: byteCount)
            var count = 0
            for sequence in rest {
                let bytes = window[sequence].bytes
                guard bytes.count <= byteCount, burst.count + bytes.count <= byteCountMax else {
                    break
                }
                burst += bytes
                count += 1
                if bytes.count < byteCount { break }
            }
            guard transmit(burst, segmentByteCount: byteCount, now: now) else { return false }
            for sequence in rest.prefix(count) { noteSent(sequence, now: now) }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private mutating func noteSent(_ sequence: UInt64, now: UInt64) {
        if window.sent(sequence, now: now) {
            result.resent += 1
        } else {
            result.packets += 1
            result.sent += UInt64(window[sequence].eventCount)
        }
    }

    /// `false` if nothing left, for now or for good.
    private mutating func transmit(
        _ bytes: [UInt8], segmentByteCount: Int, now: UInt64
    ) -> Bool {
        do throws(ClientError) {
            try transport.send(bytes.span, segmentByteCount: segmentByteCount)
            return true
        } catch {
            unreachable(error, now: now)
            return false
        }
    }

    /// The network says no. A receiver that starts again, and a cable that is plugged in again, are waited for.
    package mutating func unreachable(_ error: ClientError, now: UInt64) {
        guard error.isTemporary else {
            if failure == nil { failure = error }
            return
        }
        timers.networkError = error
        timers.quieten(now: now)
    }

    /// Base and next sequence, large enough that the answer can tell of everything on its way.
    mutating func sendHeartbeat(now: UInt64) {
        acks.announcedEnd = max(acks.announcedEnd, window.sentEnd)
        let words = Int((acks.announcedEnd - window.base) / 64)
        let room = batch.packetByteCountMax - PacketHeader.byteCount
        var packet = Heartbeat.packet(
            header(.heartbeat, PacketSequence(rawValue: acks.announcedEnd)),
            base: PacketSequence(rawValue: window.base),
            payloadByteCount: min(
                room, max(Heartbeat.payloadByteCountMin, AckPacket.Offset.furtherWords + 8 * words))
        )
        configuration.key?.tag.append(to: &packet)
        _ = transmit(packet, segmentByteCount: packet.count, now: now)
        timers.heartbeatSent(now: now, isHurried: acks.isBlocked)
    }
}
