// packet → [spool] → socket
// What a stream has on disk: where it goes before it is sent, and where it comes from then.

import IngestFormat
import IngestStorage

extension SenderStream {
    /// Whether one more packet, and the head of a file, would make the spool larger than it may be.
    package var isSpoolFull: Bool {
        guard spool != nil else { return false }
        let records =
            queue.byteCount + 2 * configuration.packetByteCountMax
            + (queue.packets.count + 2) * SpoolRecord.headerByteCount
        return spoolByteCount + SpoolHeader.byteCount + records > configuration.spoolByteCountMax
    }

    /// Sealed packets are to go to the spool, if there is one, or may be sent.
    mutating func commit(now: UInt64) {
        if queue.packets.isEmpty, !isStalledAtEnd { endStall() }
        guard !queue.packets.isEmpty, failure == nil else { return }
        if spool != nil {
            queue.isDue = true
            return timers.retried()
        }
        for packet in queue.packets { window.append(packet.bytes, eventCount: packet.eventCount) }
        queue.forget()
        if timers.waitsSince == nil { timers.waitsSince = now }
    }

    /// What is to be done on the disk, if nothing is being done there; see `SpoolWork`.
    package mutating func beginSpoolWork() -> SpoolWork? {
        guard let spool, hasSpoolWork else { return nil }
        return SpoolWork(spool, base: window.base, packets: queue.begin(), end: queue.end)
    }

    /// Whether there is such work.
    var hasSpoolWork: Bool {
        !queue.isRunning && failure == nil && spool != nil
            && (queue.isDue || queue.end != nil
                || stall == nil && window.base >= queue.retirableEnd)
    }

    /// Goes on with what was done on the disk.
    package mutating func endSpoolWork(_ work: consuming SpoolWork, now: UInt64) {
        if let place = work.place { hold(from: place, now: now) }
        queue.finish(isWritten: work.place != nil)
        // Abandoned meanwhile.
        guard let spool else { return }
        spoolByteCount = spool.byteCount
        queue.retirableEnd = spool.retirableEnd
        if let error = work.error {
            storageFailed(error, now: now, atEnd: work.end != nil)
        } else if work.place != nil || work.end != nil {
            endStall()
        }
        if work.end != nil { ended(hasFailed: work.error != nil, now: now) }
        pump(now: now)
    }

    /// What is sealed is in the spool now, from there on.
    private mutating func hold(from place: SpoolPlace, now: UInt64) {
        var place = place
        for packet in queue.packets.prefix(queue.runningCount ?? 0) {
            window.append(
                SendWindow.Entry(
                    place: place, byteCount: UInt16(packet.bytes.count),
                    eventCount: UInt16(clamping: packet.eventCount)))
            place = place.next(behind: packet.bytes.count)
            durableNote = packet.note
        }
        if timers.waitsSince == nil { timers.waitsSince = now }
    }

    private mutating func ended(hasFailed: Bool, now: UInt64) {
        queue.end = nil
        if hasFailed || failure != nil { return }
        if suspension == nil { sendHeartbeat(now: now, endsEpoch: true) }
        abandon()
    }

    /// For everything that was taken.
    var ticket: SpoolTicket { SpoolTicket(end: nextSequence, takenBackEnd: queue.takenBack.end) }

    /// Whether all that was taken before the ticket is in the spool, or held here without one; `nil` = not yet. `false`:
    /// it was taken back, or waits for room on the disk.
    func isHeld(_ ticket: SpoolTicket) -> Bool? {
        if ticket.takenBackEnd < queue.takenBack.start { return false }
        if ticket.takenBackEnd < queue.takenBack.end {
            return ticket.end <= queue.takenBack[ticket.takenBackEnd]
        }
        if window.nextSequence >= ticket.end { return true }
        return queue.isRunning || queue.isDue ? nil : false
    }

    /// Appends a packet to the burst, as it leaves.
    ///
    /// - Returns: `false` if the spool no longer has it: it is given up, or the sender has failed.
    mutating func load(_ sequence: UInt64, now: UInt64) -> Bool {
        let start = burst.count
        guard let spool else {
            burst += window.bytes(of: sequence)
            encoder.tag(&burst, from: start)
            return true
        }
        let entry = window[sequence]
        do throws(StorageError) {
            try spool.read(entry.place, byteCount: Int(entry.byteCount), into: &burst)
            encoder.tag(&burst, from: start)
            return true
        } catch .corrupt(let path, let offset, _) {
            giveUp(sequence, path, offset, now: now)
        } catch {
            storageFailed(error, now: now)
        }
        return false
    }

    /// The disk has lost a packet: the receiver is told not to wait for it, and its ledger shows it as missing.
    private mutating func giveUp(
        _ sequence: UInt64, _ path: String, _ offset: UInt64, now: UInt64
    ) {
        var part = SpoolDamage(path: path, offset: offset, sequences: sequence..<sequence + 1)
        if let last = damage.last, last.path == path, last.sequences.upperBound == sequence {
            damage.removeLast()
            part = SpoolDamage(
                path: path, offset: last.offset, sequences: last.sequences.lowerBound..<sequence + 1
            )
        }
        damage.append(part)
        totals.packetsDamaged += 1
        if window[sequence].state == .inFlight { congestion.replaced() }
        window.giveUp(sequence)
        timers.requestHeartbeat(now: now)
    }

    mutating func endStall() {
        stall = nil
        isStalledAtEnd = false
        timers.endStall()
    }

    /// A full disk may have room again: what is sealed stays, and is written again, the same bytes at the same
    /// place; or is taken back, where its callers wait for it. Everything else ends the sender.
    mutating func storageFailed(_ error: StorageError, now: UInt64, atEnd: Bool = false) {
        guard case .diskFull = error else {
            failure = failure ?? ClientError(spool: error)
            return
        }
        if configuration.isDurableAtSend, !queue.packets.isEmpty {
            queue.takeBack(from: window.nextSequence)
            note = durableNote
        }
        // Also of the packets behind those: the timer tries again.
        queue.isDue = false
        stall = ClientError(spool: error)
        isStalledAtEnd = atEnd
        timers.stalled(now: now, isRetried: !atEnd)
    }

    /// Of a packet as it leaves.
    func wireByteCount(_ sequence: UInt64) -> Int {
        Int(window[sequence].byteCount) + encoder.tagByteCount
    }
}
