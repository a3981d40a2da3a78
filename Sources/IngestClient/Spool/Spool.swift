// packet → [spool] → socket

import IngestFormat
import IngestStorage
import Synchronization

/// A directory of packets that are not acked yet (docs/format/spool.md). Locked while it is open.
///
/// **Durability** A packet is on disk when `append` has returned: one write and one fdatasync for all that it
/// is given. Files go in their order, each removal durable before the next, so that no gap can appear.
///
/// **Cost** One descriptor; no memory but that of a write.
final class Spool<Files: FileSystem>: PacketSpool {
    private struct State: Sendable {
        /// In their order, the last one open for appending.
        var names: [SpoolFileName]
        var file: Files.File
        /// Behind what is durable in it.
        var end: Int
        var nextSequence: UInt64
        var note: SpoolNote
    }

    let identity: SenderIdentity
    private let files: Files
    private let lock: Files.File
    private let state: Mutex<State>
    /// A file is left for the next one when it holds this much.
    private let fileByteCountMax: Int

    /// What a start finds.
    struct Opened {
        var spool: Spool
        /// Packets that are to be sent again, from `firstSequence` on.
        var packets: [SpooledPacket]
        var firstSequence: UInt64
        /// How far the input was read that these, or the last ones, came from.
        var note: SpoolNote
        /// All of that input was acked.
        var hasEnded: Bool
    }

    /// Opens a spool and begins a file of its own behind what is there.
    ///
    /// - Parameters:
    ///   - sender: the id that is asked for; where packets are left it must be theirs. `nil` = the spool's,
    ///     or `random` for a new one.
    ///   - epoch: for a spool without packets; if its last one was not less, the next after that.
    ///
    /// **Errors** `ClientError.spool`, `.otherSender`. A crash anywhere leaves a spool that can be opened.
    static func open(
        _ files: Files, sender: SenderID?, random: SenderID, epoch: SenderEpoch,
        fileByteCountMax: Int = 8 << 20
    ) throws(ClientError) -> Opened {
        let lock: Files.File
        let found: SpoolRecovery<Files>.Found
        do throws(StorageError) {
            lock = try files.lock("LOCK")
            // What a killed sender changed last may be in memory alone.
            try files.syncDirectory()
            found = try SpoolRecovery(files: files).run()
        } catch {
            throw ClientError(spool: error)
        }
        if let sender, let last = found.last, !found.packets.isEmpty, sender != last.sender {
            throw .otherSender(
                path: files.path, asked: sender.rawValue, found: last.sender.rawValue)
        }
        let identity = Self.identity(found, sender: sender, random: random, epoch: epoch)
        do throws(StorageError) {
            let spool = try Spool(
                files, lock, found, identity, fileByteCountMax: fileByteCountMax)
            return Opened(
                spool: spool, packets: found.packets,
                firstSequence: found.packets.isEmpty ? 0 : found.firstSequence, note: found.note,
                hasEnded: found.hasEnded)
        } catch {
            throw ClientError(spool: error)
        }
    }

    /// With packets left it is theirs: under another epoch they would be counted twice.
    private static func identity(
        _ found: SpoolRecovery<Files>.Found, sender: SenderID?, random: SenderID, epoch: SenderEpoch
    ) -> SenderIdentity {
        guard let last = found.last else {
            return SenderIdentity(sender: sender ?? random, epoch: epoch)
        }
        if !found.packets.isEmpty { return last }
        let next = max(epoch.rawValue, last.epoch.rawValue &+ 1)
        return SenderIdentity(
            sender: sender ?? last.sender, epoch: SenderEpoch(rawValue: next))
    }

    private init(
        _ files: Files, _ lock: Files.File, _ found: SpoolRecovery<Files>.Found,
        _ identity: SenderIdentity, fileByteCountMax: Int
    ) throws(StorageError) {
        let header = SpoolHeader(
            identity: identity, fileNumber: (found.names.last?.number ?? 0) + 1,
            firstSequence: found.packets.isEmpty ? 0 : found.endSequence, note: found.note,
            hasEnded: found.hasEnded)
        let file = try Self.create(header, in: files)
        let own = SpoolFileName(
            header.fileNumber, endSequence: header.firstSequence, byteCount: SpoolHeader.byteCount)
        self.identity = identity
        self.files = files
        self.lock = lock
        self.fileByteCountMax = fileByteCountMax
        state = Mutex(
            State(
                names: found.names + [own], file: file, end: SpoolHeader.byteCount,
                nextSequence: header.firstSequence, note: found.note))
        // Files before hold nothing then, and are of another epoch.
        if found.packets.isEmpty { try retire(below: .max) }
    }

    /// The name is durable when the header is: a crash between leaves a file that a start removes.
    ///
    /// **Errors** At `diskFull` the name is free again.
    private static func create(
        _ header: SpoolHeader, in files: Files
    ) throws(StorageError) -> Files.File {
        let name = SpoolFileName(header.fileNumber, endSequence: 0).text
        let file = try files.create(name)
        do {
            try file.write(header.encode(), at: 0)
        } catch {
            if case .diskFull = error { try files.unlink(name) }
            throw error
        }
        try file.sync()
        try files.syncDirectory()
        return file
    }

    func append(_ packets: [SpooledPacket]) throws(StorageError) {
        try state.withLock { state throws(StorageError) in
            if state.end > fileByteCountMax { try roll(&state, state.note) }
            var writer = ByteWriter()
            var sequence = state.nextSequence
            for packet in packets {
                SpoolRecord(packet: packet, sequence: sequence, durableEnd: state.end)
                    .encode(into: &writer)
                sequence += 1
            }
            try state.file.write(writer.bytes, at: UInt64(state.end))
            try state.file.syncData()
            state.end += writer.byteCount
            state.nextSequence = sequence
            state.names[state.names.count - 1].endSequence = sequence
            state.names[state.names.count - 1].byteCount = state.end
            if let last = packets.last { state.note = last.note }
        }
    }

    private func roll(
        _ state: inout State, _ note: SpoolNote, hasEnded: Bool = false
    ) throws(StorageError) {
        let header = SpoolHeader(
            identity: identity, fileNumber: (state.names.last?.number ?? 0) + 1,
            firstSequence: state.nextSequence, note: note, hasEnded: hasEnded)
        state.file = try Self.create(header, in: files)
        state.names.append(
            SpoolFileName(
                header.fileNumber, endSequence: state.nextSequence,
                byteCount: SpoolHeader.byteCount))
        state.note = note
        state.end = SpoolHeader.byteCount
    }

    func retire(below base: UInt64) throws(StorageError) {
        try state.withLock { state throws(StorageError) in try retire(&state, below: base) }
    }

    private func retire(_ state: inout State, below base: UInt64) throws(StorageError) {
        while state.names.count > 1, let first = state.names.first, first.endSequence <= base {
            try files.unlink(first.text)
            try files.syncDirectory()
            state.names.removeFirst()
        }
    }

    func finish(_ note: SpoolNote) throws(StorageError) {
        try state.withLock { state throws(StorageError) in
            try roll(&state, note, hasEnded: true)
            try retire(&state, below: .max)
        }
    }

    var byteCount: Int { state.withLock { $0.names.reduce(0) { $0 + $1.byteCount } } }
}

/// A spool file, and the sequence behind its last packet.
struct SpoolFileName: Sendable {
    private static let suffix = ".spool"
    private static let digitCount = 10

    let number: UInt64
    var endSequence: UInt64
    var byteCount: Int

    init(_ number: UInt64, endSequence: UInt64, byteCount: Int = 0) {
        self.number = number
        self.endSequence = endSequence
        self.byteCount = byteCount
    }

    /// `nil` for a name that is none of a spool's.
    init?(_ text: String) {
        guard text.hasSuffix(Self.suffix), let number = UInt64(text.dropLast(Self.suffix.count)),
            number > 0
        else { return nil }
        self.init(number, endSequence: 0)
        guard self.text == text else { return nil }
    }

    /// Ten digits, so that names sort as numbers do.
    var text: String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, Self.digitCount - digits.count)) + digits
            + Self.suffix
    }
}
