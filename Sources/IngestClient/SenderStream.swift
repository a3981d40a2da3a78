// events → [send] → encode → packet → spool → socket → ack

import IngestFormat
import IngestKeys
import IngestStorage

/// One sender: the state behind `EventSender`, without lock, clock, thread or socket of its own. Its owner brings the
/// time and what arrives, calls `tick` at `nextDeadline`, and asks for `failure`; transport, spool and randomness are seams.
///
/// The rules are those of docs/protocol.md. With acks a packet is in the spool before it is sent; it is sent again, whenever it
/// was lost, until an ack says that it is durable, at a rate that the network takes; no sequence goes beyond the credit; a
/// heartbeat leaves first, every second, and more often while the credit is 0. Without, packets leave in bursts, once, and
/// heartbeats follow the first of them.
package struct SenderStream: ~Copyable {
    /// What a sender promises of its packets.
    package enum Delivery: Sendable {
        /// Sent again until they are durable at the receiver.
        case acked
        /// Sent once; the receiver's ledger tells what was lost.
        case unacked
        /// JSON lines as they are, once, with nothing that tells of a loss.
        case plain
    }

    package struct Configuration {
        package var identity: SenderIdentity
        package var delivery = Delivery.acked
        /// Whole packets, tag and all.
        package var packetByteCountMax = 1_372
        package var batchNanosecondsMax: UInt64 = 20_000_000
        /// Of packets that are not acked, sent or not, without a spool.
        package var unackedByteCountMax = 64 << 20
        /// Of the spool's files.
        package var spoolByteCountMax = 10 << 30
        /// Without an ack for so long while packets wait for one, or with acks that tell of nothing new, the
        /// sender gives up; `nil` = never.
        package var silenceNanosecondsMax: UInt64?
        /// The same if no ack ever came and the network says "port unreachable": a wrong address is
        /// likelier then than a receiver that starts again.
        package var absenceNanosecondsMax: UInt64 = 10_000_000_000
        package var key: PacketKey?
        /// Acks are believed under these too.
        package var otherKeys: [PacketKey] = []
        /// An event is taken only when it is in the spool.
        package var isDurableAtSend = false
        /// Whether a network error ends a sender without acks: for a program in the foreground.
        package var endsAtNetworkErrors = false
        /// Whether what a receiver refuses ends no sender that holds packets: see `suspension`.
        package var spoolsOn = false
        /// For messages.
        package var address = ""
        /// The wall clock when the sender was opened, for messages.
        package var unixMilliseconds: UInt64?
        /// Whether it goes on by itself where acked data was lost: see `acceptReceiver`.
        package var acceptsReceiver = false
        /// Whether more than the credit decides what may leave.
        package var hasCongestionControl = true
        /// For heartbeats: random, so that nobody can have an answer before they are sent. Their times are drawn from it too.
        package var makeNonce: @Sendable () -> UInt64 = { .random(in: 0...UInt64.max) }

        package init(identity: SenderIdentity) { self.identity = identity }
    }

    /// Before the first ack, and after so long without a packet.
    static let creditFirst: UInt64 = 64
    static let creditLapse: UInt64 = 2_000_000_000
    /// No window of a receiver is larger.
    static let creditMax: UInt64 = 65_536
    /// Packets that leave in one go.
    static let burstCountMax = 256

    package internal(set) var totals = EventSender.Totals()
    /// The first error that ended the sender. Everything after it throws the same.
    package internal(set) var failure: ClientError? { didSet { suspend() } }
    /// What would have ended a sender that spools on: it takes events as before, and sends none until the receiver is right
    /// again.
    package internal(set) var suspension: ClientError?
    /// The spool's disk is full: nothing more is taken until it takes what is sealed.
    package internal(set) var stall: ClientError?
    /// It had no room for the end: events are taken as before, and nothing but another `finish` ends this stall.
    var isStalledAtEnd = false
    /// What was found damaged in the spool, at the start and since.
    package internal(set) var damage: [SpoolDamage]
    /// What the start has cut of its end.
    let cut: SpoolDamage?
    let configuration: Configuration
    let transport: any DatagramTransport
    private(set) var spool: (any PacketSpool)?
    var window: SendWindow
    var timers: SenderTimers
    var acks = AckState()
    var watch = ReceiverWatch()
    var outcome = OutcomeWatch()
    var congestion: CongestionControl
    var probe = ProbeTimer()
    /// When the next burst may leave, by the pace; `.max` while none may.
    var departsAt = UInt64.max
    /// When the last packet left.
    var departedAt: UInt64 = 0
    private var parser = EventLineParser()
    private var texts: [UInt8] = []
    private(set) var encoder: PacketEncoder
    /// Of what was taken last, and of what is in the spool.
    var note = SpoolNote()
    var durableNote = SpoolNote()
    /// Sealed, and not in the spool yet.
    var queue = SpoolQueue()
    var spoolByteCount = 0
    var burst: [UInt8] = []

    /// Of the next packet that is sealed.
    var nextSequence: UInt64 { window.nextSequence + UInt64(queue.packets.count) }
    var isAcked: Bool { configuration.delivery == .acked }

    /// - Parameters:
    ///   - left: what an earlier start has left in the spool.
    init(
        _ configuration: Configuration, transport: any DatagramTransport, spool: (any PacketSpool)?,
        left: SpoolContent = SpoolContent(), now: UInt64
    ) {
        self.configuration = configuration
        self.transport = transport
        self.spool = spool
        window = SendWindow(left: left.packets, isContinued: left.isContinued)
        (damage, cut) = (left.damage, left.cut)
        congestion = CongestionControl(packetByteCount: configuration.packetByteCountMax)
        timers = SenderTimers(now: now, isAcked: configuration.delivery == .acked)
        encoder = PacketEncoder(configuration, isSpooled: spool != nil)
        acks.floor = left.ackedEnd
        acks.edge = window.base + Self.creditFirst
        acks.announcedEnd = window.base
        spoolByteCount = spool?.byteCount ?? 0
        queue.retirableEnd = spool?.retirableEnd ?? .max
        totals.packetsDamaged = damage.reduce(0) { $0 + UInt64($1.sequences.count) }
        if !isAllFinal { timers.waitsSince = now }
        texts.reserveCapacity(1024)
        if isAcked {
            sendHeartbeat(now: now)
            pump(now: now)
        }
    }

    // MARK: Events

    /// - Parameters:
    ///   - note: how far the input was read with this line.
    ///   - now: read only where a packet begins or leaves.
    package mutating func send(
        jsonLine: Span<UInt8>, note: SpoolNote? = nil, now: @autoclosure () -> UInt64
    ) -> EventSender.Outcome {
        if isFull { return .full }
        if let refusal = parser.parse(jsonLine) {
            totals.eventsRefused += 1
            return .refused(refusal)
        }
        if configuration.delivery == .plain {
            append(line: jsonLine, now: now)
            return .taken
        }
        append(parser.event, parser.bytes, now: now)
        if let note { self.note = note }
        if configuration.isDurableAtSend { flush(now: now()) }
        return .taken
    }

    /// Sends lines from `next` on, which it moves behind what it has looked at: all, or up to one that is refused, or for which
    /// there is no room.
    mutating func send(
        lines: ArraySlice<InputLine>, from next: inout Int, of bytes: Span<UInt8>
    ) -> EventSender.Outcome {
        while next < lines.endIndex, failure == nil {
            let line = lines[next]
            let outcome = send(
                jsonLine: bytes.extracting(line.range), note: line.note,
                now: SenderClock.monotonicNanoseconds())
            if case .full = outcome { return outcome }
            next += 1
            if case .refused = outcome { return outcome }
        }
        return .taken
    }

    /// - Parameter now: as above. Not for plain delivery, which has JSON lines alone.
    package mutating func send(
        _ event: AdEvent, now: @autoclosure () -> UInt64
    ) -> EventSender.Outcome {
        precondition(configuration.delivery != .plain)
        if isFull { return .full }
        let descriptor: EventDescriptor
        do {
            descriptor = try event.describe(into: &texts)
        } catch {
            totals.eventsRefused += 1
            return .refused(error)
        }
        append(descriptor, texts, now: now)
        if configuration.isDurableAtSend { flush(now: now()) }
        return .taken
    }

    /// Whether one more packet would go beyond what may be unacked, or the spool's disk has no room.
    package var isFull: Bool {
        if stall != nil && !isStalledAtEnd || queue.end != nil || isSpoolFull { return true }
        return window.byteCount + queue.byteCount + 2 * configuration.packetByteCountMax
            > configuration.unackedByteCountMax
    }

    private mutating func append(
        _ event: EventDescriptor, _ bytes: [UInt8], now: () -> UInt64
    ) {
        if !encoder.append(event, from: bytes) {
            sealPacket(isFull: true)
            if queue.byteCount + configuration.packetByteCountMax > burstByteCountMax {
                sendSealed(now: now())
            }
            _ = encoder.append(event, from: bytes)
        }
        if timers.batchDueAt == .max {
            timers.batchDueAt = now() + configuration.batchNanosecondsMax
        }
    }

    /// A plain datagram leaves when the next line does not fit, or at `flush`: what shares one depends on no clock.
    private mutating func append(line: Span<UInt8>, now: () -> UInt64) {
        if encoder.append(line: line) { return }
        flush(now: now())
        _ = encoder.append(line: line)
    }

    private var burstByteCountMax: Int {
        UDPTransport.burstByteCount(segmentByteCount: configuration.packetByteCountMax)
    }

    // MARK: Packets

    private mutating func sealPacket(isFull: Bool) {
        let eventCount = encoder.eventCount
        let bytes = encoder.seal(sequence: nextSequence, isFull: isFull)
        queue.append(SpooledPacket(bytes: bytes, eventCount: eventCount, note: note))
    }

    /// What is made from now on may pass where full packets do not; those that there are stay as they are.
    mutating func shrinkPackets() {
        if encoder.eventCount > 0 { sealPacket(isFull: false) }
        encoder.shrink()
    }

    private mutating func sendSealed(now: UInt64) {
        guard isAcked else { return sendOnce(now: now) }
        commit(now: now)
        pump(now: now)
    }

    /// Without acks: what is sealed leaves in one burst and is forgotten, whether or not the network takes it.
    private mutating func sendOnce(now: UInt64) {
        let sealed = queue.packets
        guard let first = sealed.first, failure == nil else { return }
        burst.removeAll(keepingCapacity: true)
        for packet in sealed {
            burst += packet.bytes
            encoder.tag(&burst, from: burst.count - packet.bytes.count)
        }
        let byteCount = first.bytes.count + encoder.tagByteCount
        let eventCount = sealed.reduce(0) { $0 + UInt64($1.eventCount) }
        if transmit(burst, segmentByteCount: byteCount, now: now) {
            totals.packetsSent += UInt64(sealed.count)
            totals.eventsSent += eventCount
        } else {
            totals.eventsDropped += eventCount
        }
        window.pass(sealed.count)
        queue.forget()
        if configuration.delivery == .unacked { timers.beginHeartbeats(now: now) }
    }

    /// Closes the open packet; everything that was taken is to go to the spool now, and on its way. See `isHeld` and `stall`.
    package mutating func flush(now: UInt64) {
        if encoder.eventCount > 0 { sealPacket(isFull: false) }
        timers.batchDueAt = .max
        sendSealed(now: now)
    }

    /// Whether everything is durable at the receiver, which waits for no packet that was damaged; where an earlier start has
    /// begun the epoch, once the receiver has told that it has nothing that is not here.
    var isAllFinal: Bool {
        window.isEmpty && acks.floor >= window.damagedEnd
            && (acks.hasCredit || window.leftEnd == nil)
    }

    /// What was taken, and is not known to be durable at the receiver.
    var unacked: (events: UInt64, packets: UInt64) {
        guard isAcked else { return (0, 0) }
        let (events, held) = window.unacked
        let packets = held + UInt64(queue.packets.count) + (encoder.eventCount > 0 ? 1 : 0)
        return (events + unspooledEventCount, packets)
    }

    /// Of these, what is in the open packet, or waits for the spool.
    var unspooledEventCount: UInt64 {
        queue.packets.reduce(UInt64(encoder.eventCount)) { $0 + UInt64($1.eventCount) }
    }

    /// Whether `finish` may end it: with acks, once everything that was taken is durable at the receiver.
    package var isDrained: Bool {
        !isAcked
            || encoder.eventCount == 0 && queue.packets.isEmpty && isAllFinal && suspension == nil
    }

    /// Whether a sender that is drained knows what became of its events, or has waited for that long enough: asks the receiver,
    /// which tells it in answers to heartbeats alone.
    mutating func knowsOutcome(now: UInt64) -> Bool {
        // Of no packet nothing has become.
        guard isAcked, window.nextSequence > 0, failure == nil else { return true }
        if outcome.begin(upTo: window.nextSequence, now: now) {
            sendHeartbeat(now: now)
            return false
        }
        return outcome.isKnown(now: now)
    }

    /// Ends a sender that is drained: clears the spool, and tells the receiver how many packets there were. With a spool it
    /// has ended when that has been done, unless there is a `stall` then.
    ///
    /// - Parameter note: of the whole input, which the spool keeps; `nil` = it keeps the one that it has.
    package mutating func finish(_ note: SpoolNote? = SpoolNote(), now: UInt64) {
        guard failure == nil else { return }
        guard isAcked else { return finishUnacked(now: now) }
        if spool != nil { return queue.end = SpoolEnd(note: note) }
        sendHeartbeat(now: now, endsEpoch: true)
        abandon()
    }

    /// Whether the spool is being cleared.
    var isEnding: Bool { queue.end != nil }

    /// What the network said to the last packets is an end too: nothing comes behind them that would show it, and the
    /// heartbeat, which may pass, must not hide it.
    private mutating func finishUnacked(now: UInt64) {
        flush(now: now)
        let lastError = timers.networkError
        if configuration.delivery == .unacked, window.nextSequence > 0 { sendHeartbeat(now: now) }
        do throws(ClientError) {
            try transport.checkNetworkError()
        } catch {
            failure = failure ?? error
        }
        failure = failure ?? lastError ?? timers.networkError ?? .closed
    }

    /// An agent keeps what it is given, whatever becomes of its receiver. Of an epoch that is refused for good it keeps nothing
    /// more where all is acked: it clears the spool, so that its next start takes a new one, and ends.
    private mutating func suspend() {
        guard configuration.spoolsOn, suspension == nil, let error = failure, error.isOfReceiver
        else { return }
        failure = nil
        // All was acked that it had, and it is ending anyway.
        if isEnding, case .refused = error { return }
        if isDrained, isForGood(error) { queue.end = SpoolEnd(note: nil) }
        suspension = error
    }

    /// Whether that is said of the epoch for ever. Before any ack it may be for a clock, which will be set.
    private func isForGood(_ refusal: ClientError) -> Bool {
        switch refusal {
        case .refused(_, _, .newerEpoch): true
        case .refused: acks.hasCredit
        default: false
        }
    }

    /// Ends a sender as it is; its spool is another's to open.
    package mutating func abandon() {
        if failure == nil { failure = suspension ?? .closed }
        spool = nil
    }
}

extension SendWindow {
    /// Packets of the range that are held and not acked.
    func unackedCount(in range: Range<UInt64>) -> UInt64 {
        UInt64(range.clamped(to: base..<nextSequence).count { !self[$0].isDone })
    }

    /// What is held and not acked: the events of it, and the packets.
    var unacked: (events: UInt64, packets: UInt64) {
        var (events, packets): (UInt64, UInt64) = (0, 0)
        for sequence in base..<nextSequence where !self[sequence].isDone {
            events += UInt64(self[sequence].eventCount)
            packets += 1
        }
        return (events, packets)
    }
}
