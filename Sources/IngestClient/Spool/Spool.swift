// packet → [spool] → socket

import IngestFormat
import IngestStorage
import Synchronization

/// Where packets are on disk before they are first sent, and until they are acked.
///
/// One thread changes it; another may read meanwhile, and does not wait for the disk's sync.
protocol PacketSpool: AnyObject, Sendable {
    /// Makes the packets, at least one, durable; they follow those before without a gap.
    ///
    /// - Returns: where the first of them is; the others are behind it.
    ///
    /// **Errors** None of these may be sent. At `diskFull` the same ones, and more behind them, can be appended again.
    @discardableResult
    func append(_ packets: [SpooledPacket]) throws(StorageError) -> SpoolPlace
    /// Adds a packet to `bytes`.
    ///
    /// **Errors** `corrupt` where the disk cannot read it, or reads other bytes than were written.
    func read(
        _ place: SpoolPlace, byteCount: Int, into bytes: inout [UInt8]
    ) throws(StorageError)
    /// Forgets what lies below this sequence, file by file.
    func retire(below base: UInt64) throws(StorageError)
    /// All is acked, and the input has ended: no packet is left for a next start.
    ///
    /// - Parameter note: of the whole input, for who asks whether it was sent before; `nil` = what is known of it stays.
    ///
    /// **Errors** At `diskFull` it goes on as it was.
    func finish(_ note: SpoolNote?) throws(StorageError)
    /// Of all files.
    var byteCount: Int { get }
    /// With an acked base from here on `retire` makes room; `.max` = with none.
    var retirableEnd: UInt64 { get }
}

/// A directory of packets that are not acked yet (docs/format/spool.md). Locked while open.
///
/// **Durability** A packet is on disk when `append` has returned: one write and one fdatasync for all that it
/// is given. Files go in their order, each removal durable before the next, so that no gap can appear.
///
/// **Cost** Two descriptors; no memory but that of a write and of what is read ahead.
final class Spool<Files: FileSystem>: PacketSpool {
    /// What was read last, and from what file.
    private struct Ahead: Sendable {
        let file: Files.File
        let number: UInt64
        var offset = 0
        var bytes: [UInt8] = []

        /// Where a packet begins in the bytes, if all of it is there.
        func start(_ place: SpoolPlace, _ byteCount: Int) -> Int? {
            let start = place.offset - offset
            guard place.file == number, start >= 0, byteCount <= bytes.count - start else {
                return nil
            }
            return start
        }
    }

    private struct Reading: Sendable {
        var ahead: Ahead?
        /// The file that is written, and behind what is durable in it: nothing is read beyond.
        var file: UInt64 = 0
        var end = 0
    }

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
    /// Under a lock of its own: packets are read while others are written.
    private let reading = Mutex(Reading())
    /// A file is left for the next one when it holds this much.
    private let fileByteCountMax: Int
    /// Read at once: most packets leave in the order in which they lie here.
    private static var readByteCount: Int { 96 << 10 }

    /// What a start finds.
    struct Opened {
        var spool: Spool
        var left: SpoolContent
    }

    /// Opens a spool. The first packets begin a file behind those that are there: a start needs no room on the disk, for it
    /// may be full, and stay so until these are acked.
    ///
    /// - Parameters:
    ///   - sender: the id that is asked for; where packets are left it must be theirs. `nil` = the spool's,
    ///     or `random` for a new one.
    ///   - epoch: for a spool without packets, of which nothing was cut; if its last one was not less, the next after that.
    ///
    /// **Errors** `ClientError.spool`, `.otherSender`. A crash anywhere leaves a spool that can be opened.
    static func open(
        _ files: Files, sender: SenderID?, random: SenderID, epoch: SenderEpoch,
        fileByteCountMax: Int = 8 << 20
    ) throws(ClientError) -> Opened {
        let lock: Files.File
        var found: SpoolScan<Files>.Found
        do throws(StorageError) {
            lock = try files.lock("LOCK")
            // What a killed sender changed last may be in memory alone.
            try files.syncDirectory()
            found = try SpoolScan(files: files).run()
        } catch {
            throw ClientError(spool: error)
        }
        found.content.isContinued = found.isContinued
        if let sender, let last = found.last, found.isContinued, sender != last.sender {
            throw .otherSender(
                path: files.path, asked: sender.rawValue, found: last.sender.rawValue)
        }
        let identity = Self.identity(found, sender: sender, random: random, epoch: epoch)
        if !found.content.isContinued {
            // Files without packets are of another epoch, and hold nothing of this one's sequences.
            found.content.packets = SequenceArray(start: 0)
            found.content.ackedEnd = 0
            for i in found.names.indices { found.names[i].endSequence = 0 }
        }
        // Behind packets that are there a torn end is nothing to tell of, unless the receiver has more.
        if found.content.packets.isEmpty, let cut = found.content.cut {
            found.content.damage.append(cut)
        }
        do throws(StorageError) {
            let spool = try Spool(
                files, lock, found, identity, fileByteCountMax: fileByteCountMax)
            return Opened(spool: spool, left: found.content)
        } catch {
            throw ClientError(spool: error)
        }
    }

    private static func identity(
        _ found: SpoolScan<Files>.Found, sender: SenderID?, random: SenderID, epoch: SenderEpoch
    ) -> SenderIdentity {
        guard let last = found.last else {
            return SenderIdentity(sender: sender ?? random, epoch: epoch)
        }
        if found.content.isContinued { return last }
        let next = max(epoch.rawValue, last.epoch.rawValue &+ 1)
        return SenderIdentity(
            sender: sender ?? last.sender, epoch: SenderEpoch(rawValue: next))
    }

    private init(
        _ files: Files, _ lock: Files.File, _ found: SpoolScan<Files>.Found,
        _ identity: SenderIdentity, fileByteCountMax: Int
    ) throws(StorageError) {
        let content = found.content
        self.identity = identity
        self.files = files
        self.lock = lock
        self.fileByteCountMax = fileByteCountMax
        reserve = SpoolReserve(files: files)
        state = Mutex(
            State(
                names: found.names, nextSequence: content.packets.end,
                ackedEnd: content.packets.start, note: content.note, hasEnded: content.hasEnded))
        if !content.isContinued { try beginEpoch() }
        reserve.hold()
    }

    /// Puts the epoch on disk, so that the next start takes a greater one, also by a clock that was set back. Without room
    /// the first packets do.
    private func beginEpoch() throws(StorageError) {
        try state.withLock { state throws(StorageError) in
            do throws(StorageError) {
                try begin(&state, state.note, hasEnded: state.hasEnded)
                try retire(&state, below: state.ackedEnd)
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

    @discardableResult
    func append(_ packets: [SpooledPacket]) throws(StorageError) -> SpoolPlace {
        try state.withLock { state throws(StorageError) in
            do throws(StorageError) {
                return try add(packets, &state)
            } catch {
                guard case .diskFull = error, state.isReplaceable else { throw error }
                // All that fills this disk is acked.
                try replaceAll(&state, state.note, hasEnded: state.hasEnded)
                return try add(packets, &state)
            }
        }
    }

    private func add(
        _ packets: [SpooledPacket], _ state: inout State
    ) throws(StorageError) -> SpoolPlace {
        let file: Files.File
        if let open = state.file, state.end <= fileByteCountMax {
            file = open
        } else {
            file = try begin(&state, state.note, hasEnded: state.hasEnded)
        }
        let last = state.names.count - 1
        let place = SpoolPlace(
            file: state.names[last].number, offset: state.end + SpoolRecord.headerByteCount)
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
        state.names[last].endSequence = sequence
        state.names[last].byteCount = state.end
        let end = state.end
        reading.withLock { ($0.file, $0.end) = (place.file, end) }
        if let last = packets.last { state.note = last.note }
        state.hasEnded = false
        // Files before it that are acked stay until `retire`: an error from here on would call these packets not written.
        return place
    }

    func read(
        _ place: SpoolPlace, byteCount: Int, into bytes: inout [UInt8]
    ) throws(StorageError) {
        try reading.withLock { reading throws(StorageError) in
            if reading.ahead?.start(place, byteCount) == nil {
                reading.ahead = try readAhead(place, byteCount, reading)
            }
            guard let ahead = reading.ahead, let start = ahead.start(place, byteCount),
                SenderIdentity.ofPacket(ahead.bytes[start..<start + byteCount])?.0 == identity
            else {
                let name = SpoolFileName(place.file, endSequence: 0).text
                throw .corrupt(
                    path: "\(files.path)/\(name)", offset: UInt64(place.offset),
                    detail: "a packet of the spool")
            }
            bytes += ahead.bytes[start..<start + byteCount]
        }
    }

    private func readAhead(
        _ place: SpoolPlace, _ byteCount: Int, _ reading: Reading
    ) throws(StorageError) -> Ahead {
        var ahead: Ahead
        if let last = reading.ahead, last.number == place.file {
            ahead = last
        } else {
            let name = SpoolFileName(place.file, endSequence: 0).text
            do throws(StorageError) {
                ahead = Ahead(file: try files.open(name, .read), number: place.file)
            } catch .notFound(let path) {
                throw .corrupt(path: path, offset: 0, detail: "a file of the spool is gone")
            }
        }
        ahead.offset = place.offset
        let offset = UInt64(place.offset)
        let end = place.file == reading.file ? reading.end : .max
        do {
            ahead.bytes = try ahead.file.readArray(
                at: offset,
                byteCount: max(byteCount, min(Self.readByteCount, end - place.offset)))
        } catch {
            // It may be what lies behind the packet that cannot be read.
            ahead.bytes = try ahead.file.readArray(at: offset, byteCount: byteCount)
        }
        return ahead
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

    /// Begins a file behind those that are there.
    @discardableResult private func begin(
        _ state: inout State, _ note: SpoolNote, hasEnded: Bool
    ) throws(StorageError) -> Files.File {
        let header = SpoolHeader(
            identity: identity, fileNumber: (state.names.last?.number ?? 0) + 1,
            firstSequence: state.nextSequence, note: note, hasEnded: hasEnded)
        let file = try Self.create(header, in: files)
        state.file = file
        state.names.append(
            SpoolFileName(
                header.fileNumber, endSequence: state.nextSequence,
                byteCount: SpoolHeader.byteCount))
        state.note = note
        state.hasEnded = hasEnded
        state.end = SpoolHeader.byteCount
        return file
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
        // The next start has to know the epoch from what is left.
        while let first = state.names.first, first.endSequence <= base,
            state.names.dropFirst().contains(where: \.isIdentified)
        {
            do throws(StorageError) {
                try files.unlink(first.text)
            } catch .notFound {
                // Something else has removed it, and the packets in it were given up.
            }
            try files.syncDirectory()
            reading.withLock { if $0.ahead?.number == first.number { $0.ahead = nil } }
            state.names.removeFirst()
        }
    }

    func finish(_ note: SpoolNote?) throws(StorageError) {
        try state.withLock { state throws(StorageError) in
            try replaceAll(
                &state, note ?? state.note, hasEnded: note != nil || state.hasEnded)
        }
    }

    var byteCount: Int { state.withLock { $0.names.reduce(0) { $0 + $1.byteCount } } }

    var retirableEnd: UInt64 {
        state.withLock { $0.names.count > 1 ? $0.names[0].endSequence : .max }
    }
}
