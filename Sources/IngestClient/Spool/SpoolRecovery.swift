// packet → [spool] → socket

import IngestFormat
import IngestStorage

/// Reads what an earlier start has left of a spool.
///
/// The end of the last file may be torn: bytes that were being written when the machine stopped. Their packets were
/// never sent, and are cut. Everything else that is not as it was written is damage: the packets may
/// have been sent, and their sequences must not be given to others.
///
/// **Cost** All files once; the packets are in memory afterwards, as `Limits.spoolByteCountMax` allows.
struct SpoolRecovery<Files: FileSystem> {
    struct Found: Sendable {
        /// In their order, without those that were removed.
        var names: [SpoolFileName] = []
        /// Of the last file.
        var last: SenderIdentity?
        var packets: [SpooledPacket] = []
        var firstSequence: UInt64 = 0
        var note = SpoolNote()
        /// Of the last file: no packet came after.
        var hasEnded = false
    }

    let files: Files

    /// **Errors** `corrupt` with file and place, `overLimit`, and those of the disk.
    func run() throws(StorageError) -> Found {
        let names = try files.names().compactMap { SpoolFileName($0) }
            .sorted { $0.number < $1.number }
        var found = Found()
        var byteCount = 0
        for (index, name) in names.enumerated() {
            let isLast = index == names.count - 1
            let file = try files.open(name.text, isLast ? .readWrite : .read)
            let bytes = try file.readAll(byteCountMax: Limits.spoolFileByteCountMax)
            byteCount += bytes.count
            guard byteCount <= Limits.spoolByteCountMax else {
                throw .overLimit(
                    path: files.path, detail: "a spool of over \(Limits.spoolByteCountMax) bytes")
            }
            guard let header = SpoolHeader(bytes) else {
                try removeUnbegun(name, bytes, file, isLast: isLast)
                continue
            }
            try follow(header, name, file, &found)
            let end = try read(bytes, file, isLast: isLast, &found)
            found.names.append(
                SpoolFileName(name.number, endSequence: found.endSequence, byteCount: end))
        }
        return found
    }

    /// A file whose head was never durable holds no packet: the crash was before.
    private func removeUnbegun(
        _ name: SpoolFileName, _ bytes: [UInt8], _ file: Files.File, isLast: Bool
    ) throws(StorageError) {
        guard isLast, !hasRecord(bytes, from: 0, where: { _, _ in true }) else {
            throw .corrupt(path: file.path, offset: 0, detail: "the head of a spool file")
        }
        try files.unlink(name.text)
        try files.syncDirectory()
    }

    /// Each file goes on where the one before ended; a new epoch begins only where no packet is left.
    private func follow(
        _ header: SpoolHeader, _ name: SpoolFileName, _ file: Files.File, _ found: inout Found
    ) throws(StorageError) {
        let isNumbered = header.fileNumber == name.number
        let isNext = found.names.last.map { $0.number + 1 == name.number } ?? true
        let continues =
            found.packets.isEmpty
            || (header.identity == found.last && header.firstSequence == found.endSequence)
        guard isNumbered, isNext, continues else {
            throw .corrupt(
                path: file.path, offset: 0,
                detail: isNumbered
                    ? "this spool file does not continue the previous one"
                    : "the name of this spool file does not match its content")
        }
        if found.packets.isEmpty { found.firstSequence = header.firstSequence }
        found.last = header.identity
        found.note = header.note
        found.hasEnded = header.hasEnded
    }

    /// - Returns: behind the last record.
    private func read(
        _ bytes: [UInt8], _ file: Files.File, isLast: Bool, _ found: inout Found
    ) throws(StorageError) -> Int {
        var offset = SpoolHeader.byteCount
        while offset < bytes.count {
            let whole = SpoolRecord(bytes, at: offset)
            guard let record = whole, record.durableEnd <= offset,
                record.sequence == found.endSequence, isPacket(record, of: found.last)
            else {
                // A record that is whole, and is none that belongs here, was not torn.
                guard isLast, whole == nil, !hasLaterRecord(bytes, behind: offset, found) else {
                    throw .corrupt(
                        path: file.path, offset: UInt64(offset), detail: "a packet of the spool")
                }
                try file.truncate(to: UInt64(offset))
                try file.sync()
                return offset
            }
            found.packets.append(record.packet)
            found.note = record.packet.note
            found.hasEnded = false
            offset += record.byteCount
        }
        // A killed sender's last write may be in memory alone, and its packets are about to be sent.
        if isLast { try file.sync() }
        return offset
    }

    /// Whether the record holds what it says it does: a packet of this sender with this sequence.
    private func isPacket(_ record: SpoolRecord, of identity: SenderIdentity?) -> Bool {
        // SAFETY: the buffer is valid inside the closure.
        let parsed = unsafe record.packet.bytes.withUnsafeBytes { unsafe PacketHeader.parse($0) }
        guard case .packet(let header) = parsed else { return false }
        return header.kind == .batch && header.sequence.rawValue == record.sequence
            && header.sender == identity?.sender && header.epoch == identity?.epoch
    }

    /// Whether a record was written when the one at `offset`, which is not whole, was durable already: what was durable before
    /// a later write began cannot be torn by it. Events hold bytes from outside, which may look like a record, but not like
    /// one with a packet of this sender and epoch.
    private func hasLaterRecord(_ bytes: [UInt8], behind offset: Int, _ found: Found) -> Bool {
        hasRecord(bytes, from: offset + 1) { record, place in
            record.durableEnd > offset && record.durableEnd <= place
                && record.sequence >= found.endSequence && isPacket(record, of: found.last)
        }
    }

    /// Whether a whole record that is as asked for lies anywhere from `start` on.
    private func hasRecord(
        _ bytes: [UInt8], from start: Int, where isOne: (SpoolRecord, Int) -> Bool
    ) -> Bool {
        let magic = UInt8(truncatingIfNeeded: SpoolRecord.magic)
        var offset = start
        while offset + SpoolRecord.headerByteCount <= bytes.count {
            if bytes[offset] == magic, let record = SpoolRecord(bytes, at: offset),
                isOne(record, offset)
            {
                return true
            }
            offset += 1
        }
        return false
    }
}

extension SpoolRecovery.Found {
    /// Behind the last packet.
    var endSequence: UInt64 { firstSequence &+ UInt64(packets.count) }
}
