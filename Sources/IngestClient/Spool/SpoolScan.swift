// packet → [spool] → socket

import IngestFormat
import IngestStorage

/// What a sender has left in a spool.
struct SpoolContent: Sendable {
    /// Where each packet is; those that are damaged are done.
    var packets = SequenceArray<SendWindow.Entry>(start: 0)
    /// All below was acked, as far as is known.
    var ackedEnd: UInt64 = 0
    /// How far the input was read that these, or the last ones, came from.
    var note = SpoolNote()
    /// All of that input was acked, and no packet came after.
    var hasEnded = false
    var damage: [SpoolDamage] = []
    /// The end of the last file, where it was torn or damaged.
    var cut: SpoolDamage?
    /// An earlier start has begun the epoch, and a receiver may have packets of it, also where none are left.
    var isContinued = false
}

/// Reads the files of a spool.
///
/// The end of the last file may be torn: bytes that were being written when the machine stopped. Their packets were never
/// sent, and are cut. Everything else that is not as it was written is damage, also a file or a region that cannot be read:
/// it costs the packets that it takes, whose sequences are given to no others. A record that is whole, and does not belong
/// where it is, was not damaged but put there: an error.
///
/// **Cost** All files once, one of them in memory at a time, and 16 bytes a packet.
struct SpoolScan<Files: FileSystem> {
    /// Takes each packet, in the order of sequences.
    typealias Visit = (SpoolRecord) -> Void

    struct Found: Sendable {
        /// In their order, without those that were removed.
        var names: [SpoolFileName] = []
        /// Of the last file.
        var last: SenderIdentity?
        var content = SpoolContent()
        /// Damage behind which nothing whole has been found yet, and how many bytes it may have taken.
        fileprivate var gap: (path: String, offset: UInt64, byteCount: Int)?
        /// Whether bytes of this epoch were damaged: they may have been packets that were sent.
        fileprivate var hasLostBytes = false
    }

    let files: Files
    /// Whether nothing is changed: a torn end is skipped, and files that vanish are those of a running sender.
    var isReadOnly = false

    /// **Errors** `corrupt` with file and place, `overLimit`, and those of the disk.
    func run(_ visit: Visit = { _ in }) throws(StorageError) -> Found {
        let names = try files.names().compactMap { SpoolFileName($0) }
            .sorted { $0.number < $1.number }
        var found = Found()
        for (index, name) in names.enumerated() {
            let isLast = index == names.count - 1
            let file: Files.File
            do {
                file = try files.open(name.text, isLast && !isReadOnly ? .readWrite : .read)
            } catch {
                guard case .notFound = error, isReadOnly else { throw error }
                // All of it, and of those before, has been acked meanwhile.
                found = Found()
                continue
            }
            try read(file, name, isLast: isLast, &found, visit)
        }
        found.endGap()
        return found
    }

    private func read(
        _ file: Files.File, _ name: SpoolFileName, isLast: Bool, _ found: inout Found,
        _ visit: Visit
    ) throws(StorageError) {
        let bytes = try bytes(of: file)
        if let last = found.names.last, last.number + 1 < name.number {
            let (number, count) = (last.number + 1, Int(name.number - last.number - 1))
            let missing = SpoolFileName(number, endSequence: 0).text
            let byteCount = min(count, 1 << 20) * Limits.spoolFileByteCountMax
            found.miss("\(files.path)/\(missing)", at: 0, byteCount: byteCount)
        }
        if let header = SpoolHeader(bytes) {
            guard header.fileNumber == name.number else {
                throw .corrupt(
                    path: file.path, offset: 0,
                    detail: "the name of this spool file does not match its content")
            }
            guard found.follow(header) else {
                throw .corrupt(
                    path: file.path, offset: 0,
                    detail: "this spool file does not continue the previous one")
            }
        } else {
            var headless = found
            headless.missHead(file.path)
            if isLast, record(in: bytes, from: 0, of: headless) == nil {
                if bytes.count <= SpoolHeader.byteCount {
                    // Its head was never durable: it holds no packet.
                    return try removeUnbegun(name)
                }
                // Behind a head that was durable packets may have been, and have been sent.
                guard headless.last != nil else {
                    throw .corrupt(
                        path: file.path, offset: 0,
                        detail: "the head of this spool file, and no packet behind it is whole")
                }
                let rest = bytes.count - SpoolHeader.byteCount
                headless.miss(file.path, at: SpoolHeader.byteCount, byteCount: rest)
                found = headless
                var kept = SpoolFileName(
                    name.number, endSequence: found.content.packets.end, byteCount: bytes.count)
                kept.isIdentified = false
                return found.names.append(kept)
            }
            found = headless
        }
        let end = try readRecords(bytes, file, name, isLast: isLast, &found, visit)
        found.names.append(
            SpoolFileName(
                name.number, endSequence: found.content.packets.end, byteCount: end))
    }

    /// What cannot be read is damaged.
    private func bytes(of file: Files.File) throws(StorageError) -> [UInt8] {
        let byteCount = try file.byteCount()
        guard byteCount <= Limits.spoolFileByteCountMax else {
            throw .overLimit(
                path: file.path,
                detail: "\(byteCount) of at most \(Limits.spoolFileByteCountMax) bytes")
        }
        let buffer = ReadBuffer(capacity: max(1, Int(byteCount)))
        try buffer.readAround(file, at: 0, byteCount: Int(byteCount))
        return buffer.array(0..<buffer.byteCount)
    }

    private func removeUnbegun(_ name: SpoolFileName) throws(StorageError) {
        if isReadOnly { return }
        try files.unlink(name.text)
        try files.syncDirectory()
    }

    /// - Returns: behind the last record.
    private func readRecords(
        _ bytes: [UInt8], _ file: Files.File, _ name: SpoolFileName, isLast: Bool,
        _ found: inout Found, _ visit: Visit
    ) throws(StorageError) -> Int {
        var offset = SpoolHeader.byteCount
        while offset < bytes.count {
            if let record = SpoolRecord(bytes, at: offset) {
                guard record.durableEnd <= offset, found.add(record, name.number, offset) else {
                    throw .corrupt(
                        path: file.path, offset: UInt64(offset), detail: "a packet of the spool")
                }
                visit(record)
                offset += record.byteCount
                continue
            }
            guard let next = nextRecord(bytes, behind: offset, isLast: isLast, found) else {
                if isLast {
                    found.content.cut = SpoolDamage(
                        path: file.path, offset: UInt64(offset),
                        sequences: found.content.packets.end..<found.content.packets.end,
                        cutByteCount: bytes.count - offset)
                    return try cut(file, at: offset, found)
                }
                found.miss(file.path, at: offset, byteCount: bytes.count - offset)
                return bytes.count
            }
            found.miss(file.path, at: offset, byteCount: next - offset)
            offset = next
        }
        // A killed sender's last write may be in memory alone, and its packets are about to be sent.
        if isLast, !isReadOnly { try file.sync() }
        return offset
    }

    /// Where no packet is left a byte stays, which the next record is written over: the next start has to know too that there
    /// was more.
    private func cut(
        _ file: Files.File, at offset: Int, _ found: Found
    ) throws(StorageError) -> Int {
        if isReadOnly { return offset }
        try file.truncate(to: UInt64(found.content.packets.isEmpty ? offset + 1 : offset))
        try file.sync()
        return offset
    }

    /// Where the next whole record is behind damage. In the last file, which may be torn, only where a record was written when
    /// the bytes at `offset` were durable already: what was durable before a write began cannot be torn by it.
    private func nextRecord(
        _ bytes: [UInt8], behind offset: Int, isLast: Bool, _ found: Found
    ) -> Int? {
        guard let first = record(in: bytes, from: offset + 1, of: found) else { return nil }
        let isDurable =
            !isLast || record(in: bytes, from: first, of: found, durableFrom: offset + 1) != nil
        return isDurable ? first : nil
    }

    /// Where the first whole record lies from `start` on that goes on where `found` ends. Events hold bytes from outside,
    /// which may look like a record, but not like one with a packet of this sender and epoch.
    private func record(
        in bytes: [UInt8], from start: Int, of found: Found, durableFrom: Int = 0
    ) -> Int? {
        let magic = UInt8(truncatingIfNeeded: SpoolRecord.magic)
        var offset = start
        while offset + SpoolRecord.headerByteCount <= bytes.count {
            if bytes[offset] == magic, let record = SpoolRecord(bytes, at: offset),
                record.durableEnd >= durableFrom, record.durableEnd <= offset,
                record.sequence >= found.content.packets.end, let identity = record.identity,
                identity == found.last ?? identity
            {
                return offset
            }
            offset += 1
        }
        return nil
    }
}

extension SpoolScan.Found {
    /// Whether its epoch goes on: there are packets, or bytes of some behind the head of a file. These may have been sent, and be
    /// lost to damage; under another epoch their events would be counted twice.
    var isContinued: Bool {
        last != nil && (!content.packets.isEmpty || content.cut != nil || hasLostBytes)
    }

    /// Notes damage; what lies directly behind earlier damage is one with it.
    fileprivate mutating func miss(_ path: String, at offset: Int, byteCount: Int) {
        let before = gap ?? (path, UInt64(offset), 0)
        gap = (before.path, before.offset, before.byteCount + byteCount)
    }

    /// Notes that the head of a file is damaged. Where no packet was found before, it may be of a new epoch.
    fileprivate mutating func missHead(_ path: String) {
        if gap == nil, content.packets.isEmpty { beginEpoch(nil, at: 0) }
        miss(path, at: 0, byteCount: 0)
    }

    private mutating func beginEpoch(_ identity: SenderIdentity?, at first: UInt64) {
        hasLostBytes = hasLostBytes && identity == last
        last = identity
        content.packets = SequenceArray(start: first)
        content.ackedEnd = first
        for i in names.indices { names[i].endSequence = first }
    }

    /// Each file goes on where the one before ended; a new epoch begins only where no packet is left.
    fileprivate mutating func follow(_ header: SpoolHeader) -> Bool {
        if gap == nil, content.packets.isEmpty {
            beginEpoch(header.identity, at: header.firstSequence)
        } else {
            guard header.identity == last ?? header.identity, closeGap(header.firstSequence) else {
                return false
            }
            last = header.identity
            if !names.isEmpty { names[names.count - 1].endSequence = header.firstSequence }
        }
        content.note = header.note
        content.hasEnded = header.hasEnded
        return true
    }

    /// - Returns: whether the record goes on where the last one ended, or behind damage.
    fileprivate mutating func add(_ record: SpoolRecord, _ file: UInt64, _ offset: Int) -> Bool {
        guard let identity = record.identity, identity == last ?? identity,
            closeGap(record.sequence)
        else { return false }
        last = identity
        content.packets.append(
            SendWindow.Entry(
                place: SpoolPlace(file: file, offset: offset + SpoolRecord.headerByteCount),
                byteCount: UInt16(record.packet.bytes.count),
                eventCount: UInt16(clamping: record.packet.eventCount)))
        content.note = record.packet.note
        content.hasEnded = false
        return true
    }

    /// The most packets that fit the damaged bytes.
    private var gapCountMax: UInt64 {
        let byteCountMin = SpoolRecord.headerByteCount + PacketHeader.byteCount
        return UInt64(((gap?.byteCount ?? 0) + byteCountMin - 1) / byteCountMin)
    }

    /// The next packet is this one: what was expected before it is lost.
    ///
    /// - Returns: whether that can be, by the bytes that are damaged.
    private mutating func closeGap(_ next: UInt64) -> Bool {
        guard let gap else { return next == content.packets.end }
        let first: UInt64
        if last == nil {
            // Nothing has told yet where it begins, and so nothing which packets were acked.
            first = next - min(next, gapCountMax)
            content.packets = SequenceArray(start: next)
        } else {
            first = content.packets.end
            guard next >= first, next - first <= gapCountMax else { return false }
        }
        while content.packets.end < next { content.packets.append(SendWindow.Entry(state: .done)) }
        content.damage.append(
            SpoolDamage(path: gap.path, offset: gap.offset, sequences: first..<next))
        self.gap = nil
        hasLostBytes = hasLostBytes || gap.byteCount > 0
        return true
    }

    /// Nothing whole is behind the damage: so many sequences as it may have had are given to no other packets.
    fileprivate mutating func endGap() {
        if gap != nil { _ = closeGap((last == nil ? 0 : content.packets.end) + gapCountMax) }
    }
}
