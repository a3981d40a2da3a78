// events → [time] → packet → socket → ack
// What a stream does by itself, and when.

import IngestFormat

extension SenderStream {
    /// Does what is due: at `nextDeadline`, or earlier.
    package mutating func tick(now: UInt64) {
        guard failure == nil else { return }
        let silence = timers.silence(now: now)
        if silence >= RouteWatch.silenceMax,
            timers.route.isReconnectDue(now: now, hasNewAddress: transport.hasNewAddress)
        {
            reconnect()
        }
        if isTooLarge(now: now) { shrinkPackets() }
        if now >= probe.firesAt { ask(now: now) }
        let isFlushDue = now >= min(timers.batchDueAt, timers.spoolRetryAt)
        if isFlushDue { flush(now: now) } else { pump(now: now) }
        if failure == nil, now >= timers.heartbeatAt { sendHeartbeat(now: now) }
        if failure == nil, let silenceMax {
            failure = obstacle(
                now: now, silenceMax: silenceMax,
                stagnationMax: max(silenceMax, Self.stagnationNanoseconds),
                blockMax: spool == nil ? silenceMax : .max)
        }
    }

    /// Whether heartbeats pass and full packets seem not to.
    private func isTooLarge(now: UInt64) -> Bool {
        isAcked && maySend
            && encoder.packetByteCountMax > PacketEncoder.packetByteCountLimits.lowerBound
            && timers.silence(now: now) < SenderTimers.silenceMin
            && timers.stagnation(now: now) >= Self.stagnationNanoseconds
    }

    /// No ack has told of packets for too long. A heartbeat asks; where nothing gets through, a packet tries to.
    private mutating func ask(now: UInt64) {
        guard probe.isNeeded(congestion.inFlightCount), maySend else { return probe.stop() }
        probe.fired(now: now)
        guard probe.isBlackHole else { return sendHeartbeat(now: now) }
        let first = window.base
        guard first < min(window.sentEnd, acks.edge), send([first], now: now) else { return }
        // And one of the new ones, where it is larger than those.
        let byteCountMax = encoder.smallByteCountMax
        if window[first].byteCount <= byteCountMax { return }
        let next = window.next(
            edge: acks.edge, newEdge: newEdge, countMax: 2, byteCountMax: byteCountMax
        ).first { window[$0].byteCount <= byteCountMax }
        if let next { _ = send([next], now: now) }
    }

    /// When `tick` has something to do; `.max` for a sender that has ended.
    package var nextDeadline: UInt64 {
        guard failure == nil else { return .max }
        var deadline = min(timers.batchDueAt, timers.heartbeatAt, timers.spoolRetryAt)
        deadline = min(deadline, probe.firesAt)
        if maySend, !window.isEmpty {
            deadline = min(deadline, timers.quietUntil > 0 ? timers.quietUntil : departsAt)
        }
        return deadline
    }
}
