// events → [send] → encode → packet → socket

import IngestFormat
import IngestKeys
import IngestStorage
import Synchronization

/// Sends events to a daemon as framed packets, and again until the daemon says that they are durable.
///
/// Any thread may call; calls take turns under a lock. An event leaves when its packets fill a burst,
/// when it has waited for `Options.batchDelay`, or at `flush` and `close`, whichever is first.
///
/// What `send` took is counted once `close` has returned, whatever the network loses and however often the daemon
/// starts again meanwhile. What `flush` returned from is, with a spool, on disk: this process may end
/// in any way, and the next sender that is opened on the spool sends it under the same sequences, so that
/// nothing counts twice.
///
/// With `Options.Delivery.unacked` packets are sent once: what `close` reports has *left*.
///
/// **Cost** A thread and a socket; until they are acked packets, or of those in a spool 16 bytes each. Per event two copies of
/// its bytes, no allocation.
public final class EventSender: Sendable {
    /// This sender's id on the wire, as the ledger will show it.
    public let senderID: UInt64
    /// The epoch of its packets: with the id, what finds its row in the ledger.
    public let epoch: UInt64
    /// How far an input was read that a spool holds the end of.
    package let spoolNote: SpoolNote
    /// Whether that was all of the input, and all of it was acked.
    package let hasSpoolEnded: Bool
    /// Whether an earlier start has begun the epoch.
    package let continuesEpoch: Bool
    let loop: SenderLoop
    private let openedAt = SenderClock.monotonicNanoseconds()

    /// Opens a socket, and a spool if there shall be one; without packets of an earlier start a new epoch begins.
    ///
    /// - Parameter address: HOST:PORT; an IPv6 address stands in brackets.
    ///
    /// **Errors** `ClientError.badAddress`, `.badOption`, `.unresolved`, `.socket`; `.keys` where the key is for another sender;
    /// `.spool`, `.otherSender`.
    public static func open(
        to address: String, options: Options = Options()
    ) throws(ClientError) -> EventSender {
        try options.check()
        let transport = try UDPTransport(address: address, waitsForName: options.spoolsOn)
        var identity = newIdentity(options)
        let opened = try options.spoolDirectory.map { directory throws(ClientError) in
            try spool(directory, identity, options)
        }
        identity = opened?.spool.identity ?? identity
        let left = opened?.left ?? SpoolContent()
        let stream = SenderStream(
            options.configuration(identity, address: address), transport: transport,
            spool: opened?.spool, left: left, now: SenderClock.monotonicNanoseconds())
        return try EventSender(stream, transport: transport, left: left)
    }

    private static func spool(
        _ directory: String, _ identity: SenderIdentity, _ options: Options
    ) throws(ClientError) -> Spool<LinuxFileSystem>.Opened {
        let (files, isTaken): (LinuxFileSystem, Bool)
        do throws(StorageError) {
            files = try LinuxFileSystem(path: directory, create: true)
            isTaken = try DataDirectory.isThere(in: files)
        } catch {
            throw ClientError(spool: error)
        }
        if isTaken {
            throw .badOption(
                name: "spool", got: directory,
                allowed: "another directory: this is the data directory of an ingestd")
        }
        let asked = options.senderID ?? options.key?.sender
        return try Spool.open(
            files, sender: asked.map { SenderID(rawValue: $0) }, random: identity.sender,
            epoch: identity.epoch)
    }

    init(
        _ stream: consuming sending SenderStream, transport: any DatagramTransport,
        left: SpoolContent = SpoolContent()
    ) throws(ClientError) {
        let configuration = stream.configuration
        senderID = configuration.identity.sender.rawValue
        epoch = configuration.identity.epoch.rawValue
        (spoolNote, hasSpoolEnded) = (left.note, left.hasEnded)
        continuesEpoch = left.isContinued
        loop = try SenderLoop(stream, transport: transport, address: configuration.address)
    }

    deinit { loop.stop() }

    /// Takes one event, and never waits for room.
    ///
    /// **Errors** What has ended the sender. It is not known then whether the event was taken: with a spool it may be on
    /// disk, and be sent by the next start.
    public func send(_ event: AdEvent) throws(ClientError) -> Outcome {
        try taken { $0.send(event, now: SenderClock.monotonicNanoseconds()) }
    }

    /// Takes one JSON event, without its line end. See `send` of an event.
    public func send(jsonLine: Span<UInt8>) throws(ClientError) -> Outcome {
        try taken { $0.send(jsonLine: jsonLine, now: SenderClock.monotonicNanoseconds()) }
    }

    /// What became of one event: where it shall be in the spool at once, when that is known.
    private func taken(_ body: (inout SenderStream) -> Outcome) throws(ClientError) -> Outcome {
        let (outcome, ticket) = try loop.locked {
            stream throws(ClientError) -> (Outcome, SpoolTicket?) in
            let outcome = body(&stream)
            let waits = outcome == .taken && stream.configuration.isDurableAtSend
            return (outcome, waits ? stream.ticket : nil)
        }
        guard let ticket else { return outcome }
        return try wait(for: ticket)?.isHeld == true ? outcome : .full
    }

    /// Waits until it is known whether all of it is in the spool, and what keeps it out if not; `nil` = the time is up.
    private func wait(
        for ticket: SpoolTicket, until deadline: UInt64 = .max
    ) throws(ClientError) -> (isHeld: Bool, stall: ClientError?)? {
        try loop.wait(until: deadline) { stream throws(ClientError) in
            let isHeld = stream.isHeld(ticket)
            if isHeld != true, let failure = stream.failure { throw failure }
            return isHeld.map { ($0, stream.stall) }
        }
    }

    /// Takes one JSON event, without its line end. See `send` of an event.
    public func send(jsonLine: String) throws(ClientError) -> Outcome {
        try send(jsonLine: jsonLine.utf8Span.span)
    }

    /// Takes one event, and suspends the task while there is no room.
    ///
    /// - Returns: `nil` if it was taken, or why it was refused.
    ///
    /// **Errors** As `send`, and `.cancelled`.
    public func sendWhenRoom(_ event: AdEvent) async throws(ClientError) -> EventRefusal? {
        while true {
            switch try send(event) {
            case .taken: return nil
            case .refused(let refusal): return refusal
            case .full: try await pause(until: .max)
            }
        }
    }

    /// As `send(jsonLine:)`, of lines of an input in their order, up to one that is refused; waits for room. Many lines take
    /// their turn under one lock.
    ///
    /// - Parameters:
    ///   - bytes: in which the lines lie.
    ///   - waits: called each time before it does, with what the spool has no room for.
    /// - Returns: how many lines were looked at, and why the last of them was refused, if it was.
    package func send(
        jsonLines lines: ArraySlice<InputLine>, of bytes: Span<UInt8>,
        waits: (_ isSpoolFull: Bool, _ stall: ClientError?) -> Void
    ) throws(ClientError) -> (count: Int, refusal: EventRefusal?) {
        var next = lines.startIndex
        while next < lines.endIndex {
            let (outcome, isSpoolFull, stall) = try loop.locked {
                stream throws(ClientError) -> (Outcome, Bool, ClientError?) in
                let outcome = stream.send(lines: lines, from: &next, of: bytes)
                return (outcome, stream.isSpoolFull, stream.stall)
            }
            switch outcome {
            case .taken: break
            case .refused(let refusal): return (next - lines.startIndex, refusal)
            case .full:
                waits(isSpoolFull, stall)
                waitForProgress()
            }
        }
        return (lines.count, nil)
    }

    /// One line of an input, without waiting for room: what `waits` would be told beside the outcome.
    package func offer(
        jsonLine: Span<UInt8>, note: SpoolNote
    ) throws(ClientError) -> (Outcome, isSpoolFull: Bool, stall: ClientError?) {
        try loop.locked { stream throws(ClientError) -> (Outcome, Bool, ClientError?) in
            let outcome = stream.send(
                jsonLine: jsonLine, note: note, now: SenderClock.monotonicNanoseconds())
            return (outcome, stream.isSpoolFull, stream.stall)
        }
    }

    /// Blocks until there may be room, a moment at most.
    package func waitForProgress() { loop.waitForProgress(nanosecondsMax: .max) }

    /// Sends what is waiting for its packet to fill. With a spool it is on disk then.
    ///
    /// **Errors** What has ended the sender; `.spool(_, .diskFull)`: what was taken stays in memory, and is written when
    /// there is room.
    public func flush() throws(ClientError) { try flush(until: .max) }

    /// **Errors** `.deadline`: the disk takes longer.
    private func flush(until deadline: UInt64) throws(ClientError) {
        let ticket = try loop.locked { stream throws(ClientError) -> SpoolTicket in
            stream.flush(now: SenderClock.monotonicNanoseconds())
            return stream.ticket
        }
        guard let result = try wait(for: ticket, until: deadline) else { throw .deadline }
        if !result.isHeld, let stall = result.stall { throw stall }
    }

    /// Ends where all is acked; `nil` where not.
    ///
    /// - Parameters:
    ///   - note: of the whole input, for the spool; `nil` = it keeps the one that it has.
    ///   - asks: whether it waits, some seconds at most, for what became of the events.
    func end(_ note: SpoolNote?, asks: Bool = true) throws(ClientError) -> Totals? {
        let isEnding = try loop.locked { stream throws(ClientError) -> Bool in
            let now = SenderClock.monotonicNanoseconds()
            guard stream.isDrained, !asks || stream.knowsOutcome(now: now) else { return false }
            stream.finish(note, now: now)
            return true
        }
        guard isEnding else { return nil }
        let totals = try loop.wait { stream throws(ClientError) -> Totals?? in
            if stream.failure == .closed { return stream.totals }
            if let failure = stream.failure { throw failure }
            if stream.isEnding { return nil }
            if let stall = stream.stall { throw stall }
            // Something was written meanwhile.
            return .some(nil)
        }
        return totals?.map { timed($0) }
    }

    /// Sends what is waiting, and waits until all is acked. Calls after this throw `ClientError.closed`.
    ///
    /// - Parameter limit: How long to wait at most; `nil` = until it is done, or `Options.givesUpAfter`.
    ///
    /// **Errors** What has ended the sender. When the time is up, what the packets wait for, as `state` has it, or
    /// `.deadline`; and `.spool(_, .diskFull)`: the sender goes on then, and can be closed again. Where events are not acked
    /// then, `.notAcked` has these errors as its cause, and says how many. Without acks, the network error of the last
    /// packets or of the end, if there was one.
    public func close(within limit: Duration? = nil) throws(ClientError) -> Totals {
        do throws(ClientError) {
            do throws(ClientError) {
                return try close(within: limit, note: SpoolNote())
            } catch .deadline {
                if let totals = try end(SpoolNote(), asks: false) { return totals }
                throw .deadline
            }
        } catch {
            throw withUnacked(error)
        }
    }

    /// As `close`, for tasks: it suspends where that one blocks its thread.
    ///
    /// **Errors** Also `.cancelled`: the sender goes on, and can be closed again.
    public func close(within limit: Duration? = nil) async throws(ClientError) -> Totals {
        let deadline = Self.deadline(limit)
        do throws(ClientError) {
            try flush(until: deadline)
            while true {
                if let totals = try end(SpoolNote()) { return totals }
                if SenderClock.monotonicNanoseconds() >= deadline {
                    if let totals = try end(SpoolNote(), asks: false) { return totals }
                    throw .deadline
                }
                try await pause(until: deadline)
            }
        } catch {
            throw withUnacked(error)
        }
    }

    /// As `close(within:)`; the spool keeps `note`, of the whole input, or if it is `nil` the one that it has.
    ///
    /// **Errors** When the time is up, always `.deadline`.
    package func close(
        within limit: Duration?, note: SpoolNote?
    ) throws(ClientError) -> Totals {
        let deadline = Self.deadline(limit)
        try flush(until: deadline)
        while true {
            if let totals = try end(note) { return totals }
            let now = SenderClock.monotonicNanoseconds()
            if now >= deadline { throw .deadline }
            loop.waitForProgress(nanosecondsMax: deadline - now)
        }
    }

    /// Goes on after `ClientError.ackedDataLost`: what is not acked is sent to the receiver as it is now. What had been acked
    /// is not sent again, since the sender no longer has it; `totals.packetsLost` counts it.
    ///
    /// Does nothing to a sender that another error, or none, has ended.
    public func acceptReceiver() { loop.acceptReceiver() }

    /// How far it is.
    public var totals: Totals { timed(loop.state.withLock { $0.stream.totals }) }

    /// What was found damaged in the spool, when it was opened and since; `totals.packetsDamaged` has the sum.
    public var spoolDamage: [SpoolDamage] { loop.state.withLock { $0.stream.damage } }

    /// Whether it works, waits or has ended, at this moment.
    public var state: State {
        loop.state.withLock { state in
            if let failure = state.stream.failure { return .ended(failure) }
            let obstacle = state.stream.obstacle(now: SenderClock.monotonicNanoseconds())
            return obstacle.map { .waiting($0) } ?? .working
        }
    }

    /// Whether it throws its last error for ever.
    package var hasEnded: Bool {
        if case .ended = state { true } else { false }
    }

    /// What was taken, and is not known to be durable at the receiver.
    package var unacked: (events: UInt64, packets: UInt64) {
        loop.state.withLock { $0.stream.unacked }
    }

    private static func deadline(_ limit: Duration?) -> UInt64 {
        guard let limit else { return .max }
        let sum = SenderClock.monotonicNanoseconds().addingReportingOverflow(limit.nanoseconds)
        return sum.overflow ? .max : sum.partialValue
    }

    /// Suspends until acks may have come. They come every few milliseconds while there is a receiver.
    private func pause(until deadline: UInt64) async throws(ClientError) {
        let now = SenderClock.monotonicNanoseconds()
        let nanoseconds = min(deadline - min(deadline, now), 10_000_000)
        do {
            try await Task.sleep(nanoseconds: nanoseconds)
        } catch {
            throw .cancelled
        }
    }

    /// Events that were taken and are not in the spool.
    package var unspooledEventCount: UInt64 {
        loop.state.withLock { $0.stream.unspooledEventCount }
    }

    /// The error of a close: with what the packets wait for where its time was up, and how many.
    package func withUnacked(_ error: ClientError) -> ClientError {
        if error == .closed || error == .cancelled { return error }
        var cause = error
        if error == .deadline, case .waiting(let obstacle) = state { cause = obstacle }
        let (events, packets) = unacked
        return packets == 0
            ? cause : .notAcked(events: events, packets: packets, cause: cause)
    }

    private func timed(_ totals: Totals) -> Totals {
        var totals = totals
        totals.elapsed = .nanoseconds(SenderClock.monotonicNanoseconds() - openedAt)
        return totals
    }

    static func newIdentity(_ options: Options) -> SenderIdentity {
        let sender = options.senderID ?? options.key?.sender ?? UInt64.random(in: 1...UInt64.max)
        precondition(sender != 0, "sender id 0 is invalid")
        return SenderIdentity(
            sender: SenderID(rawValue: sender),
            epoch: SenderIdentity.epoch(
                unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000,
                random: UInt64.random(in: 0...UInt64.max)))
    }
}
