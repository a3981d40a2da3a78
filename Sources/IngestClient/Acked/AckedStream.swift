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
        /// Of the spool's files. Nothing is taken beyond it, so that the next start can read them all.
        package var spoolByteCountMax = Limits.spoolByteCountMax - Limits.spoolFileByteCountMax
        /// Without an answer for so long while packets wait for one, or with answers and none of them acked, the
        /// sender gives up; `nil` = never.
        package var silenceNanosecondsMax: UInt64?
        /// The same where nobody ever answered and the network says that nobody receives: a wrong address is
        /// likelier then than a receiver that starts again.
        package var absenceNanosecondsMax: UInt64 = 10_000_000_000
        package var key: PacketKey?
        /// An event is taken only when it is in the spool.
        package var isDurableAtSend = false
        /// For messages.
        package var address = ""
        /// The wall clock when the sender was opened, for messages.
        package var unixMilliseconds: UInt64?
        /// The time at the end of a call that began at the given one: a disk can take seconds.
        package var clock: @Sendable (_ since: UInt64) -> UInt64 = { $0 }

        package init(identity: SenderIdentity) { self.identity = identity }
    }

    /// Before the first ack.
    static let creditFirst: UInt64 = 64
    /// No window of a receiver is larger.
    static let creditMax: UInt64 = 65_536
    /// Packets that are sent again in one go.
    static let resendCountMax = 256

    package internal(set) var totals = EventSender.Totals()
    /// The first error that ended the sender. Everything after it throws the same.
    package internal(set) var failure: ClientError?
    /// The spool's disk is full: nothing more is taken until it takes what is sealed.
    package internal(set) var stall: ClientError?
    /// It had no room for the end: events are taken as before, and nothing but another `finish` ends this stall.
    private(set) var isStalledAtEnd = false
    let configuration: Configuration
    let transport: any DatagramTransport
    private(set) var spool: (any PacketSpool)?
    var window: SendWindow
    var timers: AckedTimers
    var acks = AckState()
    private var ids: EventIDSource
    private var parser = EventLineParser()
    private var texts: [UInt8] = []
    private(set) var encoder: PacketEncoder
    private var note = SpoolNote()
    /// Sealed, and not in the spool yet.
    private var sealed: [SpooledPacket] = []
    private var sealedByteCount = 0
    private var spoolByteCount = 0
    var burst: [UInt8] = []

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
        encoder = PacketEncoder(
            identity: configuration.identity,
            packetByteCountMax: configuration.packetByteCountMax, key: configuration.key,
            asksForAcks: true)
        for packet in left {
            window.append(packet.bytes, eventCount: packet.eventCount, isLeft: true)
        }
        acks.edge = firstSequence + Self.creditFirst
        acks.announcedEnd = firstSequence
        spoolByteCount = spool?.byteCount ?? 0
        if !left.isEmpty { timers.waitsSince = now }
        texts.reserveCapacity(1024)
        sendHeartbeat(now: now)
        pump(now: now)
    }

    // MARK: Events

    /// - Parameter note: how far the input was read with this line.
    package mutating func send(
        jsonLine: Span<UInt8>, note: SpoolNote? = nil, now: UInt64
    ) -> EventSender.Outcome {
        if isFull { return .full }
        if let refusal = parser.parse(jsonLine) {
            totals.eventsRefused += 1
            return .refused(refusal)
        }
        var event = parser.event
        parser.complete(&event, from: &ids)
        append(event, parser.bytes, now: now)
        let before = self.note
        if let note { self.note = note }
        if isTaken(now: now) { return .taken }
        self.note = before
        return .full
    }

    package mutating func send(_ event: AdEvent, now: UInt64) -> EventSender.Outcome {
        if isFull { return .full }
        var descriptor: EventDescriptor
        do {
            descriptor = try event.describe(into: &texts)
        } catch {
            totals.eventsRefused += 1
            return .refused(error)
        }
        ids.complete(&descriptor, &texts)
        append(descriptor, texts, now: now)
        return isTaken(now: now) ? .taken : .full
    }

    /// Puts the event that was appended last into the spool, where each shall be there at once. If the disk has no room it
    /// is taken back: nothing of it was sent, and the next one gets its sequence.
    private mutating func isTaken(now: UInt64) -> Bool {
        guard configuration.isDurableAtSend else { return true }
        flush(now: now)
        guard failure == nil, !sealed.isEmpty else { return true }
        sealed.removeAll(keepingCapacity: true)
        sealedByteCount = 0
        return false
    }

    /// Whether one more packet would go beyond what may be unacked, or the spool's disk has no room.
    package var isFull: Bool {
        if stall != nil && !isStalledAtEnd { return true }
        if spoolByteCount > configuration.spoolByteCountMax { return true }
        return window.byteCount + sealedByteCount + 2 * configuration.packetByteCountMax
            > configuration.unackedByteCountMax
    }

    private mutating func append(_ event: EventDescriptor, _ bytes: [UInt8], now: UInt64) {
        if !encoder.append(event, from: bytes) {
            sealPacket(isFull: true)
            if sealedByteCount + configuration.packetByteCountMax > burstByteCountMax {
                pump(now: commit(now: now))
            }
            _ = encoder.append(event, from: bytes)
        }
        if timers.batchDueAt == .max {
            timers.batchDueAt = now + configuration.batchNanosecondsMax
        }
    }

    private var burstByteCountMax: Int {
        UDPTransport.burstByteCount(segmentByteCount: configuration.packetByteCountMax)
    }

    // MARK: Packets

    private mutating func sealPacket(isFull: Bool) {
        let eventCount = encoder.eventCount
        let sequence = window.nextSequence + UInt64(sealed.count)
        let bytes = encoder.seal(sequence: sequence, isFull: isFull)
        sealedByteCount += bytes.count
        sealed.append(SpooledPacket(bytes: bytes, eventCount: eventCount, note: note))
    }

    /// Sealed packets go to the spool, if there is one, and then may be sent.
    ///
    /// - Returns: the time then.
    private mutating func commit(now: UInt64) -> UInt64 {
        if sealed.isEmpty, !isStalledAtEnd { endStall() }
        guard !sealed.isEmpty, failure == nil else { return now }
        let later: UInt64
        if let spool {
            do throws(StorageError) {
                try spool.append(sealed)
                spoolByteCount = spool.byteCount
                endStall()
                later = configuration.clock(now)
            } catch {
                let later = configuration.clock(now)
                storageFailed(error, now: later)
                return later
            }
        } else {
            later = now
        }
        for packet in sealed { window.append(packet.bytes, eventCount: packet.eventCount) }
        sealed.removeAll(keepingCapacity: true)
        sealedByteCount = 0
        if timers.waitsSince == nil { timers.waitsSince = later }
        return later
    }

    private mutating func endStall() {
        stall = nil
        isStalledAtEnd = false
        timers.endStall()
    }

    /// A full disk may have room again: what is sealed stays, and is written again, the same bytes at the same
    /// place. Everything else ends the sender.
    private mutating func storageFailed(_ error: StorageError, now: UInt64, atEnd: Bool = false) {
        guard case .diskFull = error else {
            failure = ClientError(spool: error)
            return
        }
        stall = ClientError(spool: error)
        isStalledAtEnd = atEnd
        timers.stalled(now: now, isRetried: !atEnd)
    }

    /// Closes the open packet; everything that was taken is in the spool then, and on its way. See `stall`.
    package mutating func flush(now: UInt64) {
        if encoder.eventCount > 0 { sealPacket(isFull: false) }
        timers.batchDueAt = .max
        pump(now: commit(now: now))
    }

    /// Forgets in the spool what is acked.
    mutating func retireAcked(now: UInt64) {
        guard let spool else { return }
        do throws(StorageError) {
            try spool.retire(below: window.base)
            spoolByteCount = spool.byteCount
        } catch {
            storageFailed(error, now: now)
        }
    }

    /// Whether everything that was taken is durable at the receiver.
    package var isDrained: Bool {
        encoder.eventCount == 0 && sealed.isEmpty && window.isEmpty
    }

    /// Ends a sender that is drained: tells the receiver how many packets there were, and clears the spool. It has
    /// not ended if there is a `stall` then.
    ///
    /// - Parameter note: of the whole input, which the spool keeps.
    package mutating func finish(_ note: SpoolNote = SpoolNote(), now: UInt64) {
        guard failure == nil else { return }
        do throws(StorageError) {
            try spool?.finish(note)
            endStall()
            sendHeartbeat(now: now)
            abandon()
        } catch {
            storageFailed(error, now: now, atEnd: true)
        }
    }

    /// Ends a sender as it is; its spool is another's to open.
    package mutating func abandon() {
        if failure == nil { failure = .closed }
        spool = nil
    }
}
