// packet → [spool] → socket

import IngestFormat
import IngestStorage
import Synchronization

/// Where packets are on disk before they are first sent, and until they are acked.
protocol PacketSpool: AnyObject, Sendable {
    /// Makes the packets durable; they follow those before without a gap.
    ///
    /// **Errors** None of these may be sent. At `diskFull` the same ones, and more behind them, can be appended again.
    func append(_ packets: [SpooledPacket]) throws(StorageError)
    /// Forgets what lies below this sequence, file by file.
    func retire(below base: UInt64) throws(StorageError)
    /// All is acked, and the input has ended: no packet is left for a next start.
    ///
    /// - Parameter note: of the whole input, for who asks whether it was sent before.
    ///
    /// **Errors** At `diskFull` it goes on as it was.
    func finish(_ note: SpoolNote) throws(StorageError)
    /// Of all files.
    var byteCount: Int { get }
}

/// A directory of packets that are not acked yet (docs/format/spool.md). Locked while it is open.
///
/// **Durability** A packet is on disk when `append` has returned: one write and one fdatasync for all that it
/// is given. Files go in their order, each removal durable before the next, so that no gap can appear.
///
/// **Cost** One descriptor; no memory but that of a write.
final class Spool<Files: FileSystem>: PacketSpool {
    private struct State: Sendable {
        /// In their order.
        var names: [SpoolFileName]
        /// The last one, open for appending; `nil` as long as this start has not begun one.
        var file: Files.File?
        /// Behind what is durable in it.
        var end = 0
        var nextSequence: UInt64
        /// All below is acked.
        var ackedEnd: UInt64
        var note: SpoolNote
        /// The note is that of a whole input, all of which was acked, and no packet came after.
        var hasEnded: Bool

        /// Whether a file without packets may take the place of all that is there, and would be smaller.
        var isReplaceable: Bool {
            ackedEnd >= nextSequence
                && (names.count > 1 || names.last?.byteCount ?? 0 > SpoolHeader.byteCount)
        }
    }

    let identity: SenderIdentity
    private let files: Files
    private let lock: Files.File
    private let reserve: SpoolReserve<Files>
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

    /// Opens a spool. The first packets begin a file behind those that are there: a start needs no room on the disk, for it
    /// may be full, and stay so until these are acked.
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
        let isEmpty = found.packets.isEmpty
        self.identity = identity
        self.files = files
        self.lock = lock
        self.fileByteCountMax = fileByteCountMax
        reserve = SpoolReserve(files: files)
        // Files without packets are of another epoch, and hold nothing of this one's sequences.
        let names = found.names.map {
            SpoolFileName(
                $0.number, endSequence: isEmpty ? 0 : $0.endSequence, byteCount: $0.byteCount)
        }
        state = Mutex(
            State(
                names: names, nextSequence: isEmpty ? 0 : found.endSequence,
                ackedEnd: isEmpty ? 0 : found.firstSequence, note: found.note,
                hasEnded: found.hasEnded))
        if isEmpty { try beginEpoch() }
        reserve.hold()
    }

    /// Puts the epoch on disk, so that the next start takes a greater one, also by a clock that was set back. Without room
    /// the first packets do.
    private func beginEpoch() throws(StorageError) {
        try state.withLock { state throws(StorageError) in
            do throws(StorageError) {
                try begin(&state, state.note, hasEnded: state.hasEnded)
            } catch {
                guard case .diskFull = error else { throw error }
            }
        }
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
            do throws(StorageError) {
                try add(packets, &state)
            } catch {
                guard case .diskFull = error, state.isReplaceable else { throw error }
                // All that fills this disk is acked.
                try replaceAll(&state, state.note, hasEnded: state.hasEnded)
                try add(packets, &state)
            }
        }
    }

    private func add(
        _ packets: [SpooledPacket], _ state: inout State
    ) throws(StorageError) {
        if state.file == nil || state.end > fileByteCountMax {
            try begin(&state, state.note, hasEnded: state.hasEnded)
        }
        guard let file = state.file else { return }
        var writer = ByteWriter()
        var sequence = state.nextSequence
        for packet in packets {
            SpoolRecord(packet: packet, sequence: sequence, durableEnd: state.end)
                .encode(into: &writer)
            sequence += 1
        }
        try write(writer.bytes, to: file, at: state.end)
        state.end += writer.byteCount
        state.nextSequence = sequence
        state.names[state.names.count - 1].endSequence = sequence
        state.names[state.names.count - 1].byteCount = state.end
        if let last = packets.last { state.note = last.note }
        state.hasEnded = false
    }

    /// **Errors** At `diskFull` the file ends durably where it did: shorter records, and another file, may follow.
    private func write(
        _ bytes: [UInt8], to file: Files.File, at end: Int
    ) throws(StorageError) {
        do throws(StorageError) {
            try file.write(bytes, at: UInt64(end))
            try file.syncData()
        } catch {
            guard case .diskFull = error else { throw error }
            try file.truncate(to: UInt64(end))
            try file.sync()
            throw error
        }
    }

    /// Begins a file behind those that are there, and removes what is acked.
    private func begin(
        _ state: inout State, _ note: SpoolNote, hasEnded: Bool
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
        state.hasEnded = hasEnded
        state.end = SpoolHeader.byteCount
        try retire(&state, below: state.ackedEnd)
    }

    /// All packets are acked: a file without any takes the place of the others, out of the reserve if there is no room.
    private func replaceAll(
        _ state: inout State, _ note: SpoolNote, hasEnded: Bool
    ) throws(StorageError) {
        do throws(StorageError) {
            try begin(&state, note, hasEnded: hasEnded)
        } catch {
            guard case .diskFull = error, reserve.spend() else { throw error }
            // Also where that was not enough: the next time it may be.
            defer { reserve.hold() }
            try begin(&state, note, hasEnded: hasEnded)
        }
        try retire(&state, below: .max)
        reserve.hold()
    }

    func retire(below base: UInt64) throws(StorageError) {
        try state.withLock { state throws(StorageError) in
            state.ackedEnd = max(state.ackedEnd, base)
            let fileCount = state.names.count
            try retire(&state, below: base)
            if state.names.count < fileCount { reserve.hold() }
        }
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
            try replaceAll(&state, note, hasEnded: true)
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
            (1...UInt64.max / 2).contains(number)
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

/// A little room on the spool's disk, held back by a file of zeros: packets may fill the disk, and the file that takes
/// their place when all of them are acked still fits (docs/format/spool.md).
///
/// Never synced and never read. Where a file system cannot preallocate, or has no room, it holds nothing back.
struct SpoolReserve<Files: FileSystem> {
    static var name: String { "reserve" }
    /// A head and its directory entry, whatever the size of the file system's blocks.
    static var byteCount: UInt64 { 65_536 }

    let files: Files

    /// Makes it whole, as far as there is room: to be called where there may be some again.
    ///
    /// **Errors** None: what is wrong with the disk, the next write of a packet says.
    func hold() {
        guard let file = try? files.open(Self.name, .readWrite) else {
            try? files.create(Self.name).allocate(to: Self.byteCount)
            return
        }
        try? file.allocate(to: Self.byteCount)
    }

    /// Frees it.
    ///
    /// - Returns: whether that gave any room.
    func spend() -> Bool {
        guard let file = try? files.open(Self.name, .readWrite), let count = try? file.byteCount(),
            count > 0
        else { return false }
        return (try? file.truncate(to: 0)) != nil
    }
}
