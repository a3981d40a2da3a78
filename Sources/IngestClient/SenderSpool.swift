// packet → [spool] → socket
// What a stream has on disk: where it goes before it is sent, and where it comes from then.

import IngestFormat
import IngestStorage

extension SenderStream {
    /// Whether one more packet, and the head of a file, would make the spool larger than it may be.
    package var isSpoolFull: Bool {
        guard spool != nil else { return false }
        let records =
            sealedByteCount + 2 * configuration.packetByteCountMax
            + (sealed.count + 2) * SpoolRecord.headerByteCount
        return spoolByteCount + SpoolHeader.byteCount + records > configuration.spoolByteCountMax
    }

    /// Sealed packets go to the spool, if there is one, and then may be sent.
    ///
    /// - Returns: the time then.
    mutating func commit(now: UInt64) -> UInt64 {
        if sealed.isEmpty, !isStalledAtEnd { endStall() }
        guard !sealed.isEmpty, failure == nil else { return now }
        let later: UInt64
        if let spool {
            do throws(StorageError) {
                let place = try spool.append(sealed)
                spoolByteCount = spool.byteCount
                endStall()
                later = configuration.clock(now)
                hold(from: place)
            } catch {
                let later = configuration.clock(now)
                storageFailed(error, now: later)
                return later
            }
        } else {
            later = now
            for packet in sealed { window.append(packet.bytes, eventCount: packet.eventCount) }
        }
        forgetSealed()
        if timers.waitsSince == nil { timers.waitsSince = later }
        return later
    }

    /// What is sealed is in the spool now, from there on.
    private mutating func hold(from place: SpoolPlace) {
        var place = place
        for packet in sealed {
            window.append(
                SendWindow.Entry(
                    place: place, byteCount: UInt16(packet.bytes.count),
                    eventCount: UInt16(clamping: packet.eventCount)))
            place = place.next(behind: packet.bytes.count)
        }
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
        retireAcked(now: now)
    }

    mutating func endStall() {
        stall = nil
        isStalledAtEnd = false
        timers.endStall()
    }

    /// A full disk may have room again: what is sealed stays, and is written again, the same bytes at the same
    /// place. Everything else ends the sender.
    mutating func storageFailed(_ error: StorageError, now: UInt64, atEnd: Bool = false) {
        guard case .diskFull = error else {
            failure = ClientError(spool: error)
            return
        }
        stall = ClientError(spool: error)
        isStalledAtEnd = atEnd
        timers.stalled(now: now, isRetried: !atEnd)
    }

    /// Of a packet as it leaves.
    func wireByteCount(_ sequence: UInt64) -> Int {
        Int(window[sequence].byteCount) + encoder.tagByteCount
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
}
