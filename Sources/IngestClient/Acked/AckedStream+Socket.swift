// packet → [send] → socket → ack

import IngestFormat
import IngestKeys

extension AckedStream {
    /// Sends what may be sent: first what has to be sent again, then what is new.
    mutating func pump(now: UInt64) {
        guard failure == nil, !acks.isShedding, timers.endsQuiet(now: now) else { return }
        let again = window.due(now: now, edge: acks.edge, countMax: Self.resendCountMax)
        guard send(again[...], now: now) else {
            window.recheck()
            return
        }
        let edge = newEdge
        while let first = window.firstUnsent(), first < edge {
            let end = min(edge, window.nextSequence, first + 64)
            let sequences = (first..<end).filter { !window[$0].isDone }
            guard send(sequences[...], now: now) else { return }
        }
    }

    /// Where an earlier start has left packets, no new sequence leaves before the receiver has said which it has: a
    /// spool that was copied, or had its end cut, must not give one to other bytes.
    private var newEdge: UInt64 {
        acks.hasCredit || window.leftEnd == 0 ? acks.edge : min(acks.edge, window.leftEnd)
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
            window.attempted(upTo: (rest.prefix(count).max() ?? first) + 1)
            guard transmit(burst, segmentByteCount: byteCount, now: now) else { return false }
            for sequence in rest.prefix(count) { noteSent(sequence, now: now) }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private mutating func noteSent(_ sequence: UInt64, now: UInt64) {
        if window.sent(sequence, now: now) {
            totals.packetsResent += 1
        } else {
            totals.packetsSent += 1
            totals.eventsSent += UInt64(window[sequence].eventCount)
        }
    }

    /// `false` if not all of it is known to have left, for now or for good.
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
        timers.networkError = error.orBetter(timers.networkError)
        timers.quieten(now: now)
        if timers.route.isReconnectDue(now: now, lacksRoute: error.isUnreachable) {
            transport.reconnect()
        }
    }

    /// Base, and the end of what this start has given to the network: packets that only lie in the spool may be more than a
    /// receiver believes at once. Large enough that the answer can tell of everything that the receiver may have.
    mutating func sendHeartbeat(now: UInt64) {
        acks.announcedEnd = max(acks.announcedEnd, window.givenEnd)
        let words = Int((max(acks.announcedEnd, window.knownEnd) - window.base) / 64)
        let packet = encoder.heartbeat(
            next: acks.announcedEnd, base: window.base,
            answerByteCount: AckPacket.Offset.furtherWords + 8 * words)
        _ = transmit(packet, segmentByteCount: packet.count, now: now)
        timers.heartbeatSent(now: now, isHurried: acks.isBlocked)
    }
}
