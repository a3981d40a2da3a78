// packet → [spool] → socket

import IngestFormat
import IngestKeys
import IngestStorage

/// How far an input was read, kept with every packet: what `ingest-send` needs to go on behind the last
/// line that is safe. Means nothing to the sender itself.
package struct SpoolNote: Equatable, Sendable, BitwiseCopyable {
    /// Bytes of the input up to and with the last event of the packet; 0 = no input is on its way.
    package var position: UInt64 = 0
    /// CRC-32C of these bytes.
    package var checksum: UInt32 = 0

    package init(position: UInt64 = 0, checksum: UInt32 = 0) {
        self.position = position
        self.checksum = checksum
    }
}

/// A whole packet as it is kept.
struct SpooledPacket: Equatable, Sendable {
    var bytes: [UInt8]
    var eventCount: Int
    var note: SpoolNote
}

extension SpooledPacket {
    /// Whether all packets that an earlier start has left are tagged by this key, or not at all without one: they are sent
    /// as they are, and under another key the receiver would drop them without a word.
    static func check(
        _ packets: [SpooledPacket], under key: PacketKey?, path: String
    ) throws(ClientError) {
        for (place, packet) in packets.enumerated() {
            // The first one stands for all: no start goes on under other bytes than it was left with.
            let isChecked = place == 0
            // SAFETY: the buffer is valid inside the closure.
            let (id, isSame) = unsafe packet.bytes.withUnsafeBytes { bytes -> (UInt16?, Bool) in
                guard case .packet(let header) = unsafe PacketHeader.parse(bytes), header.hasTag
                else { return (nil, true) }
                guard isChecked, let key else { return (header.keyID, true) }
                return (header.keyID, unsafe key.tag.isTag(of: bytes))
            }
            guard id == key?.id, isSame else { throw .keys(path: path, .spooledUnder(id: id)) }
        }
    }
}

/// The head of a spool file (docs/format/spool.md).
struct SpoolHeader: Equatable, Sendable {
    static let byteCount = 64
    /// `IGS1` read as a little-endian u32. The version is in the magic.
    static let magic: UInt32 = 0x3153_4749

    enum Offset {
        static let magic = 0
        static let sender = 8
        static let epoch = 16
        static let file = 24
        static let sequence = 32
        static let position = 40
        static let inputChecksum = 48
        static let hasEnded = 52
        static let checksum = 60
    }

    var identity: SenderIdentity
    /// From 1, +1 each.
    var fileNumber: UInt64
    /// Of the first packet.
    var firstSequence: UInt64
    /// Of the packet before the first.
    var note: SpoolNote
    /// The input that the note is of was read to its end, and all of it was acked.
    var hasEnded = false

    func encode() -> [UInt8] {
        var writer = ByteWriter(capacity: Self.byteCount)
        writer.append(u32: Self.magic)
        writer.append(zeroCount: 4)
        writer.append(u64: identity.sender.rawValue)
        writer.append(u64: identity.epoch.rawValue)
        writer.append(u64: fileNumber)
        writer.append(u64: firstSequence)
        writer.append(u64: note.position)
        writer.append(u32: note.checksum)
        writer.append(u32: hasEnded ? 1 : 0)
        writer.append(zeroCount: 4)
        writer.append(u32: Checksum.crc32c(writer.bytes))
        return writer.bytes
    }

    /// `nil` if these are not the bytes of a header, to the last reserved one.
    init?(_ file: [UInt8]) {
        guard file.count >= Self.byteCount else { return nil }
        let sender = number(file, Offset.sender, 8)
        identity = SenderIdentity(
            sender: SenderID(rawValue: sender),
            epoch: SenderEpoch(rawValue: number(file, Offset.epoch, 8)))
        fileNumber = number(file, Offset.file, 8)
        firstSequence = number(file, Offset.sequence, 8)
        note = SpoolNote(
            position: number(file, Offset.position, 8),
            checksum: UInt32(number(file, Offset.inputChecksum, 4)))
        hasEnded = number(file, Offset.hasEnded, 4) == 1
        guard sender != 0, encode() == Array(file[..<Self.byteCount]) else { return nil }
    }

    init(
        identity: SenderIdentity, fileNumber: UInt64, firstSequence: UInt64, note: SpoolNote,
        hasEnded: Bool = false
    ) {
        self.identity = identity
        self.fileNumber = fileNumber
        self.firstSequence = firstSequence
        self.note = note
        self.hasEnded = hasEnded
    }
}

/// The head of a packet in a spool file.
struct SpoolRecord: Equatable, Sendable {
    static let headerByteCount = 40
    /// `IGSR` read as a little-endian u32.
    static let magic: UInt32 = 0x5253_4749

    enum Offset {
        static let magic = 0
        static let packetByteCount = 4
        static let sequence = 8
        static let eventCount = 16
        static let inputChecksum = 20
        static let position = 24
        static let durableEnd = 32
        static let checksum = 36
    }

    var packet: SpooledPacket
    var sequence: UInt64
    /// All bytes of the file before this place were durable when the record was written.
    var durableEnd: Int

    var byteCount: Int { Self.headerByteCount + packet.bytes.count }

    func encode(into writer: inout ByteWriter) {
        var head = ByteWriter(capacity: Self.headerByteCount)
        head.append(u32: Self.magic)
        head.append(u32: UInt32(packet.bytes.count))
        head.append(u64: sequence)
        head.append(u32: UInt32(packet.eventCount))
        head.append(u32: packet.note.checksum)
        head.append(u64: packet.note.position)
        head.append(u32: UInt32(durableEnd))
        let checksum = Checksum.crc32c(packet.bytes, seed: Checksum.crc32c(head.bytes))
        head.append(u32: checksum)
        writer.append(bytes: head.bytes)
        writer.append(bytes: packet.bytes)
    }

    /// The record at `offset`; `nil` if there is none whose checksum holds.
    init?(_ file: [UInt8], at offset: Int) {
        guard offset + Self.headerByteCount <= file.count,
            number(file, offset + Offset.magic, 4) == UInt64(Self.magic)
        else { return nil }
        let packetByteCount = Int(number(file, offset + Offset.packetByteCount, 4))
        let start = offset + Self.headerByteCount
        guard packetByteCount <= Limits.packetByteCountMax, packetByteCount <= file.count - start
        else { return nil }
        let bytes = file[start..<start + packetByteCount]
        let head = Checksum.crc32c(file[offset..<offset + Offset.checksum])
        guard
            UInt64(Checksum.crc32c(bytes, seed: head))
                == number(file, offset + Offset.checksum, 4)
        else { return nil }
        sequence = number(file, offset + Offset.sequence, 8)
        durableEnd = Int(number(file, offset + Offset.durableEnd, 4))
        packet = SpooledPacket(
            bytes: Array(bytes), eventCount: Int(number(file, offset + Offset.eventCount, 4)),
            note: SpoolNote(
                position: number(file, offset + Offset.position, 8),
                checksum: UInt32(number(file, offset + Offset.inputChecksum, 4))))
    }

    init(packet: SpooledPacket, sequence: UInt64, durableEnd: Int) {
        self.packet = packet
        self.sequence = sequence
        self.durableEnd = durableEnd
    }
}

/// A little-endian number in bytes whose count was checked.
private func number(_ bytes: [UInt8], _ offset: Int, _ byteCount: Int) -> UInt64 {
    var value: UInt64 = 0
    for i in 0..<byteCount { value |= UInt64(bytes[offset + i]) << UInt64(8 * i) }
    return value
}
