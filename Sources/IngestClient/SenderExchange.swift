// packet → [socket] → ack → window
// What a stream sends, and what acks change.

import IngestFormat
import IngestKeys
import IngestStorage

/// What the acks so far allow and tell.
struct AckState: Sendable {
    /// The greatest floor that an ack had.
    var floor: UInt64 = 0
    /// No sequence from here on is sent.
    var edge: UInt64 = 0
    /// The receiver sheds: the credit is 0 until an ack is `ok` again.
    var isShedding = false
    /// Below it nothing was given to this receiver: it is one that was accepted in place of another.
    var start: UInt64 = 0
    /// Since when packets were refused as unknown, and none was acked; `nil` = they were not.
    var unsupportedSince: UInt64?
    /// Whether an ack has given a credit.
    var hasCredit = false
    /// What heartbeats announce: never less than before.
    var announcedEnd: UInt64 = 0
    /// Whether the receiver has to be asked for credit.
    var isBlocked: Bool { isShedding || !hasCredit || edge <= floor }
}

extension SenderStream {
    /// Sends what may be sent: first what was lost, then what is new; as much as the network and the receiver take.
    mutating func pump(now: UInt64) {
        departsAt = .max
        guard timers.endsQuiet(now: now), maySend, !probe.isBlackHole else { return }
        // The receiver has given its room to others.
        if now >= departedAt + Self.creditLapse {
            acks.edge = min(acks.edge, max(acks.floor, window.base) + Self.creditFirst)
        }
        while true {
            let allowance = congestion.allowance(now: now)
            let count =
                configuration.hasCongestionControl
                ? min(allowance, Self.burstCountMax) : Self.burstCountMax
            if count == 0 { break }
            let sequences = window.next(
                edge: acks.edge, newEdge: newEdge, countMax: count,
                byteCountMax: encoder.smallByteCountMax)
            if sequences.isEmpty { return congestion.ranOut() }
            guard send(sequences[...], now: now) else { return }
        }
        if !window.next(edge: acks.edge, newEdge: newEdge, countMax: 1).isEmpty {
            departsAt = congestion.nextDeparture
        }
    }

    /// Whether batches may leave, as far as the receiver says. Where an earlier start has removed what was acked, it has to say
    /// first that it is the one that has that.
    var maySend: Bool {
        failure == nil && suspension == nil && !acks.isShedding && !watch.isUnconfirmed
            && (acks.hasCredit || window.leftEnd == nil || window.base == 0)
    }

    /// Where an earlier start has left packets, no new sequence leaves before the receiver has said which it has: a
    /// spool that was copied, or had its end cut, must not give one to other bytes. Behind one that was lost none of which no ack
    /// could tell: an ack is no larger than the packets.
    var newEdge: UInt64 {
        var edge = acks.edge
        if window[window.base].sendCount > 1 {
            let words = AckPacket.furtherWordCount(
                fitting: encoder.packetByteCountMax, hasTag: configuration.key != nil)
            edge = min(edge, window.base + 64 * UInt64(1 + (words ?? 0)))
        }
        return acks.hasCredit ? edge : min(edge, window.leftEnd ?? .max)
    }

    /// In as few calls as the kernel allows: runs of equal size, of which the last may be shorter.
    ///
    /// - Returns: `false` if the network took only a part.
    mutating func send(_ sequences: ArraySlice<UInt64>, now: UInt64) -> Bool {
        var rest = sequences
        while let first = rest.first {
            // Given up meanwhile: it was twice among these, or in the burst before.
            if window[first].isDone {
                rest.removeFirst()
                continue
            }
            burst.removeAll(keepingCapacity: true)
            let byteCount = wireByteCount(first)
            let byteCountMax = UDPTransport.burstByteCount(segmentByteCount: byteCount)
            var count = 0
            for sequence in rest {
                let next = wireByteCount(sequence)
                guard next <= byteCount, burst.count + next <= byteCountMax,
                    load(sequence, now: now)
                else { break }
                count += 1
                if next < byteCount { break }
            }
            if failure != nil { return false }
            if count == 0 { continue }
            window.attempted(upTo: (rest.prefix(count).max() ?? first) + 1)
            guard transmit(burst, segmentByteCount: byteCount, now: now) else { return false }
            for sequence in rest.prefix(count) { noteSent(sequence, now: now) }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private mutating func noteSent(_ sequence: UInt64, now: UInt64) {
        if window[sequence].state == .inFlight { congestion.replaced() }
        let departure = congestion.departed(now: now)
        probe.start(now: now)
        departedAt = now
        if window.sent(sequence, departure) {
            totals.packetsResent += 1
        } else {
            totals.packetsSent += 1
            totals.eventsSent += UInt64(window[sequence].eventCount)
        }
    }

    /// `false` if not all of it is known to have left, for now or for good.
    mutating func transmit(
        _ bytes: [UInt8], segmentByteCount: Int, now: UInt64
    ) -> Bool {
        do throws(ClientError) {
            try transport.send(bytes.span, segmentByteCount: segmentByteCount)
            if !isAcked {
                timers.networkError = nil
                timers.route.found()
            }
            return true
        } catch {
            unreachable(error, now: now)
            return false
        }
    }

    /// The network says no. A receiver that starts again, and a cable that is plugged in again, are waited for; without
    /// acks what was given to the network meanwhile shows as missing.
    package mutating func unreachable(_ error: ClientError, now: UInt64) {
        guard error.isTemporary, isAcked || !configuration.endsAtNetworkErrors else {
            if failure == nil { failure = error }
            return
        }
        timers.networkError = error.orBetter(timers.networkError)
        timers.quieten(now: now)
        let hasNew = transport.hasNewAddress
        if timers.isReconnectDue(now: now, after: error, hasNewAddress: hasNew) { reconnect() }
    }

    mutating func reconnect() {
        transport.reconnect(movesOn: timers.movesOn)
        watch.reconnected()
    }

    /// Base, and the end of what this start has given to the network: packets that only lie in the spool may be more than a
    /// receiver accepts at once. Large enough that the ack can tell of everything that the receiver may have.
    ///
    /// Without acks the base is 0, "not given": one would make the receiver give up packets that this heartbeat has merely
    /// overtaken. Sealed packets that wait for their burst are not announced: if they never left they would count as
    /// missing.
    /// - Parameter endsEpoch: of a sender with acks, all of whose packets are acked, and gone from the spool.
    mutating func sendHeartbeat(now: UInt64, endsEpoch: Bool = false) {
        guard isAcked else {
            let packet = encoder.heartbeat(next: window.nextSequence, Heartbeat(base: 0))
            _ = transmit(packet, segmentByteCount: packet.count, now: now)
            let random = configuration.makeNonce()
            return timers.heartbeatSent(now: now, isHurried: false, random: random)
        }
        acks.announcedEnd = max(acks.announcedEnd, window.givenEnd)
        // Where nothing passes it must not be for its size.
        let end = probe.isBlackHole ? window.base : max(acks.announcedEnd, window.knownEnd)
        let words = Int((end - window.base) / 64)
        let content = Heartbeat(
            base: window.base, seen: acks.floor, nonce: configuration.makeNonce(),
            endsEpoch: endsEpoch)
        watch.ask(nonce: content.nonce, seen: content.seen, now: now)
        let packet = encoder.heartbeat(
            next: acks.announcedEnd, content,
            ackByteCount: AckPacket.Offset.furtherWords(isAnswer: true) + 8 * words)
        _ = transmit(packet, segmentByteCount: packet.count, now: now)
        timers.heartbeatSent(
            now: now, isHurried: acks.isBlocked || outcome.isAsked, random: content.nonce)
    }
}

// MARK: Acks

extension SenderStream {
    /// Takes a datagram that came to the sender's socket. What is no ack of this sender is ignored.
    package mutating func receive(_ datagram: Span<UInt8>, now: UInt64) {
        guard failure == nil else { return }
        // SAFETY: the view lives inside the closure, in which the span's memory is pinned.
        unsafe datagram.withUnsafeBufferPointer { buffer in
            let bytes = UnsafeRawBufferPointer(buffer)
            guard case .packet(let header) = unsafe PacketHeader.parse(bytes, for: .sender),
                header.sender == configuration.identity.sender,
                unsafe isAuthentic(header, bytes), let ack = unsafe AckView(header, of: bytes)
            else { return }
            take(ack, now: now)
        }
    }

    private func isAuthentic(_ header: PacketHeader, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let key = configuration.key else { return true }
        let signer =
            header.keyID == key.id
            ? key : configuration.otherKeys.first { $0.id == header.keyID }
        return unsafe header.hasTag && signer?.tag.isTag(of: bytes) ?? false
    }

    private mutating func take(_ ack: AckView, now: UInt64) {
        let (own, epoch) = (configuration.identity.epoch.rawValue, ack.header.epoch.rawValue)
        guard let status = ack.status, epoch == own || status == .refused && epoch > own
        else { return }
        let answer: ReceiverWatch.Question?
        let finding = watch.hear(ack)
        if suspension != nil {
            timers.heard(now: now)
            guard endsSuspension(ack, finding) else { return }
            suspension = nil
            acks.unsupportedSince = nil
            timers.progressed(now: now)
        }
        switch finding {
        case .believed(let question):
            answer = question
            guard status == .ok, !ack.isPending, let ackedAt = window.ackedTime(ofLackingIn: ack)
            else { break }
            // It has no longer what it had acked, or was overtaken by the ack that said so.
            if let answer, ackedAt <= answer.sentAt { return lose(ack, .olderCopy, now: now) }
            return timers.requestHeartbeat(now: now)
        case .late: return timers.heard(now: now)
        case .doubtful:
            if status == .unsupported { noteUnsupported(now: now) }
            return timers.requestHeartbeat(now: now)
        case .refused: return failure = refusal(known: ack.header.epoch)
        case .unsupported: return failure = .unsupported(address: configuration.address)
        case .lost(let cause): return lose(ack, cause, now: now)
        }
        timers.heard(now: now)
        // Nothing more is said of packets that are not durable yet: the disk takes its time.
        if ack.isPending { return awaitDisk(now: now) }
        switch status {
        case .ok: apply(ack, answer, now: now)
        case .busy, .diskFull:
            congestion.shed()
            if !acks.isShedding { hurryHeartbeat(now: now) }
            acks.isShedding = true
            if !isAllFinal { timers.blocked(by: status == .busy ? .busy : .diskFull, now: now) }
            timers.progressed(now: now)
        case .beyondWindow: timers.requestHeartbeat(now: now)
        case .refused, .unsupported, .rolledBack: break
        }
        probe.watch(congestion.inFlightCount, now: now)
    }

    /// Whether a receiver that had refused this sender, or had lost data, is right again: it has all that it had acked, and says
    /// so in an answer.
    private func endsSuspension(
        _ ack: borrowing AckView, _ finding: ReceiverWatch.Finding
    ) -> Bool {
        guard case .believed(.some) = finding, ack.status == .ok, !ack.isPending,
            ack.floor >= acks.floor, !isEnding
        else { return false }
        let (lacking, unknown) = (
            window.ackedTime(ofLackingIn: ack), window.unknownSequence(in: ack)
        )
        return lacking == nil && unknown == nil
    }

    /// Nothing had got through: what was in flight is lost, though no ack tells of all of it.
    private mutating func beginAgain(now: UInt64) {
        var lost = CongestionControl.Progress()
        window.loseAll(into: &lost)
        congestion.acked(lost, newest: nil, now: now)
        congestion.restart()
    }

    /// The disk stalls: what is in flight has arrived, and is not asked for before the time is up again.
    private mutating func awaitDisk(now: UInt64) {
        timers.progressed(now: now)
        // A disk that hangs is a receiver that takes nothing, until an ack.
        if !isAllFinal { timers.blocked(by: .busy, now: now) }
        if probe.heard() { beginAgain(now: now) }
        if congestion.inFlightCount > 0 { probe.pending(now: now) }
        pump(now: now)
    }

    /// Acked data is gone: nobody holds it any more, and the sender must not go on as if it were counted.
    private mutating func lose(
        _ ack: borrowing AckView, _ cause: ClientError.LossCause, now: UInt64
    ) {
        let (floor, end) = (ack.floor, window.ackedEnd)
        let first = cause != .otherDirectory && floor < end ? floor : 0
        let range = max(first, acks.start)..<max(first, acks.start, end)
        // Of nothing nothing is lost.
        if range.isEmpty { return startOver(now: now) }
        failure = .ackedDataLost(
            sender: configuration.identity.sender.rawValue,
            epoch: configuration.identity.epoch.rawValue, first: range.lowerBound,
            end: range.upperBound, unacked: window.unackedCount(in: range), cause: cause)
        if configuration.acceptsReceiver { acceptReceiver(now: now) }
    }

    /// Of packets no receiver can echo a nonce, and an ack of long ago may say so too: it counts where none of them is
    /// acked for some time.
    private mutating func noteUnsupported(now: UInt64) {
        let since = acks.unsupportedSince ?? now
        acks.unsupportedSince = since
        guard now - min(now, since) >= SenderTimers.silenceMin else { return }
        failure = .unsupported(address: configuration.address)
    }

    /// Goes on with a receiver that has lost acked data: what is not acked is sent to it, the rest is lost.
    ///
    /// Does nothing unless that has ended the sender.
    package mutating func acceptReceiver(now: UInt64) {
        guard case .ackedDataLost(_, _, let first, let end, let unacked, _) = failure ?? suspension
        else { return }
        (failure, suspension) = (nil, nil)
        totals.packetsLost += end - first - unacked
        startOver(now: now)
    }

    /// As with a receiver that was never heard of.
    private mutating func startOver(now: UInt64) {
        (watch, outcome, totals.receiver) = (ReceiverWatch(), OutcomeWatch(), nil)
        window.forgetAcks()
        acks = AckState(start: window.base, announcedEnd: acks.announcedEnd)
        acks.edge = window.base + Self.creditFirst
        // What was not heard while it had ended is no silence.
        timers.heard(now: now)
        timers.progressed(now: now)
        timers.unblocked()
        sendHeartbeat(now: now)
    }

    private mutating func apply(
        _ ack: borrowing AckView, _ answer: ReceiverWatch.Question?, now: UInt64
    ) {
        if let sequence = window.unknownSequence(in: ack) {
            // Anybody could have said so but in an answer.
            if answer == nil { return timers.requestHeartbeat(now: now) }
            failure = .unknownPackets(
                sender: configuration.identity.sender.rawValue, sequence: sequence,
                next: window.knownEnd, cut: cut)
            return
        }
        acks.isShedding = false
        // Late: it was overtaken by a newer one.
        guard ack.floor >= acks.floor else { return pump(now: now) }
        let wasOpen = acks.edge > acks.floor
        let edge = ack.floor.addingReportingOverflow(min(UInt64(ack.credit), Self.creditMax))
        acks.floor = ack.floor
        acks.edge = edge.overflow ? .max : edge.partialValue
        acks.hasCredit = true
        if ack.credit == 0, wasOpen { hurryHeartbeat(now: now) }
        if acks.isBlocked { timers.progressed(now: now) }
        finishAcked(ack, answer, now: now)
        // An ok that acks nothing ends no block: packets may be refused, and the questions between them answered.
        if acks.isBlocked && !isAllFinal { timers.blocked(by: .noCredit, now: now) }
        pump(now: now)
    }

    private mutating func finishAcked(
        _ ack: borrowing AckView, _ answer: ReceiverWatch.Question?, now: UInt64
    ) {
        var change = window.apply(ack, now: now)
        if let answer {
            outcome.heard(askedAt: answer.sentAt)
            change.progress.askedAt = answer.sentAt
            change.progress.hasTimedOut = probe.answered(now: now, acked: change.ackedPackets)
            window.lose(
                sentBefore: answer.sentAt, known: ack, takesAll: change.progress.hasTimedOut,
                into: &change.progress)
        }
        totals.eventsAcked += change.ackedEvents
        // Of nothing it tells nothing; without sums, what it told before is not of all that is acked.
        if totals.eventsAcked > 0, answer != nil || change.ackedEvents > 0 {
            totals.receiver = ack.sums.map { EventSender.ReceiverCounts($0) }
        }
        if let newest = change.newest { probe.measured(now - min(now, newest.at)) }
        let wasBlackHole = change.ackedPackets > 0 && probe.heard()
        congestion.acked(change.progress, newest: change.newest, now: now)
        if wasBlackHole { beginAgain(now: now) }
        totals.eventsSent += change.unsentEvents
        totals.packetsSent += change.unsentPackets
        if change.ackedPackets > 0 {
            timers.progressed(now: now)
            timers.unblocked()
            acks.unsupportedSince = nil
        }
        if isAllFinal {
            timers.waitsSince = nil
            timers.unblocked()
        }
        // It waits for damaged packets until it knows the base.
        if acks.floor < min(window.base, window.damagedEnd) { timers.requestHeartbeat(now: now) }
    }
}
