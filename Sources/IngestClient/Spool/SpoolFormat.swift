// packet → [spool] → socket

import IngestFormat
import IngestStorage

/// How far an input was read, kept with every packet: what `ingest-send` needs to go on behind the last
/// line that is safe. Means nothing to the sender itself.
package struct SpoolNote: Equatable, Sendable, BitwiseCopyable {
    /// Bytes of the input up to and with the last event of the packet; 0 = no input is on its way.
    package var position: UInt64 = 0
    /// CRC-32C of these bytes; of a followed file of the last 256 of them.
    package var checksum: UInt32 = 0
    /// Of a file that is followed; both are 0 for any other input, which is known by its bytes alone.
    package var device: UInt64 = 0
    package var inode: UInt64 = 0

    package init(
        position: UInt64 = 0, checksum: UInt32 = 0, device: UInt64 = 0, inode: UInt64 = 0
    ) {
        self.position = position
        self.checksum = checksum
        self.device = device
        self.inode = inode
    }

    /// Whether the input is a followed file.
    package var isFollowed: Bool { inode != 0 }
}

/// A line of an input, as a place in its reader's bytes without the line end.
package struct InputLine: Sendable {
    package var range: Range<Int>
    /// From 1 on.
    package var number: Int
    /// How far the input was read with it.
    package var note: SpoolNote

    package init(range: Range<Int>, number: Int, note: SpoolNote) {
        self.range = range
        self.number = number
        self.note = note
    }
}

/// A whole packet as it is kept: without a key, and so without a tag.
struct SpooledPacket: Equatable, Sendable {
    var bytes: [UInt8]
    var eventCount: Int
    var note: SpoolNote
}

extension SenderIdentity {
    /// Whose packet that is, and its sequence; `nil` if the bytes are no whole, untagged batch.
    static func ofPacket(_ bytes: ArraySlice<UInt8>) -> (SenderIdentity, sequence: UInt64)? {
        // SAFETY: the buffer is valid inside the closure.
        let parsed = unsafe bytes.withUnsafeBytes { unsafe PacketHeader.parse($0) }
        guard case .packet(let header) = parsed, header.kind == .batch, !header.hasTag else {
            return nil
        }
        return (
            SenderIdentity(sender: header.sender, epoch: header.epoch), header.sequence.rawValue
        )
    }
}

/// Where a packet lies in a spool.
///
/// **Layout** 8 bytes: the number of the file above the offset of the packet's first byte, which has 24 bits.
struct SpoolPlace: Equatable, Sendable, BitwiseCopyable {
    static let fileLimits: ClosedRange<UInt64> = 1...1 << 40 - 1
    /// No sender comes so far; sums of a sequence below it and any count of packets fit.
    static let sequenceEnd: UInt64 = 1 << 62
    private var rawValue: UInt64 = 0

    init() {}

    init(file: UInt64, offset: Int) {
        precondition(Self.fileLimits.contains(file) && (0..<1 << 24).contains(offset))
        rawValue = file << 24 | UInt64(offset)
    }

    var file: UInt64 { rawValue >> 24 }
    var offset: Int { Int(rawValue & (1 << 24 - 1)) }

    /// Of the packet in the record behind this one's.
    func next(behind byteCount: Int) -> SpoolPlace {
        SpoolPlace(file: file, offset: offset + byteCount + SpoolRecord.headerByteCount)
    }
}

/// A part of a spool that is not as it was written, and the packets that are lost by it.
public struct SpoolDamage: Equatable, Sendable, CustomStringConvertible {
    /// Of the file.
    public let path: String
    /// Where the damage begins.
    public let offset: UInt64
    /// Empty where the head of a file is damaged and no packet. Where damage has taken what tells of its end, the most that
    /// may be lost.
    public let sequences: Range<UInt64>
    /// What the end of the file had that is no whole packet, and was cut; 0 for all other damage.
    public internal(set) var cutByteCount = 0

    public var description: String {
        if cutByteCount > 0 {
            return
                "the last \(cutByteCount) bytes of this spool file are no whole packet and are cut, \(path)"
                + " at byte \(offset), check the disk unless a crash has ended that write"
        }
        let what =
            switch sequences.count {
            case 0: "the head of this spool file is damaged, no packet is lost by that"
            case 1: "packet \(sequences.lowerBound) of the spool is damaged and skipped"
            default:
                "packets \(sequences.lowerBound) to \(sequences.upperBound - 1) of the spool are damaged"
                    + " and skipped"
            }
        return "\(what), \(path) at byte \(offset), check the disk"
            + (sequences.isEmpty ? "" : ", send their events again")
    }
}

/// A spool file, and the sequence behind its last packet.
struct SpoolFileName: Sendable {
    private static let suffix = ".spool"
    private static let digitCount = 10

    let number: UInt64
    var endSequence: UInt64
    var byteCount: Int
    /// Whether the file says of which epoch it is, by its head or by a packet.
    var isIdentified = true

    init(_ number: UInt64, endSequence: UInt64, byteCount: Int = 0) {
        self.number = number
        self.endSequence = endSequence
        self.byteCount = byteCount
    }

    /// `nil` for a name that is none of a spool's.
    init?(_ text: String) {
        guard text.hasSuffix(Self.suffix), let number = UInt64(text.dropLast(Self.suffix.count)),
            SpoolPlace.fileLimits.contains(number)
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

/// The head of a spool file (docs/format/spool.md).
struct SpoolHeader: Equatable, Sendable {
    static let layout = Layout<Self>(
        .derived("magic", 4) { _ in UInt64(magic) }, .reserved(4),
        .id("sender", \.identity.sender, in: 1...UInt64.max), .id("epoch", \.identity.epoch),
        .int("file", \.fileNumber),
        .int("sequence", \.firstSequence, in: 0...SpoolPlace.sequenceEnd - 1),
        .int("position", \.note.position), .int("input checksum", \.note.checksum),
        .int("ended", \.ended, in: 0...1), .int("device", \.note.device),
        .int("inode", \.note.inode), .reserved(4, "reserved end"), .checksum)
    static let byteCount = layout.byteCount
    /// `IGQ1` read as a little-endian u32. The version is in the magic.
    static let magic: UInt32 = 0x3151_4749

    var identity: SenderIdentity
    /// From 1, +1 each.
    var fileNumber: UInt64
    /// Of the first packet.
    var firstSequence: UInt64
    /// Of the packet before the first.
    var note: SpoolNote
    /// The input that the note is of was read to its end, and all of it was acked.
    var hasEnded = false
}

extension SpoolHeader {
    private var ended: UInt32 {
        get { hasEnded ? 1 : 0 }
        set { hasEnded = newValue == 1 }
    }

    func encode() -> [UInt8] {
        var writer = ByteWriter(capacity: Self.byteCount)
        writer.append(bytes: Self.layout.image(of: self).dropLast(4))
        writer.append(u32: Checksum.crc32c(writer.bytes))
        return writer.bytes
    }

    /// `nil` if these are not the bytes of a header, to the last reserved one.
    init?(_ file: [UInt8]) {
        let blank = SpoolHeader(
            identity: SenderIdentity(
                sender: SenderID(rawValue: 0), epoch: SenderEpoch(rawValue: 0)),
            fileNumber: 0, firstSequence: 0, note: SpoolNote())
        guard let header = try? Self.layout.record(at: file, into: blank),
            header.encode() == Array(file[..<Self.byteCount])
        else { return nil }
        self = header
    }
}

/// The head of a packet in a spool file.
struct SpoolRecord: Equatable, Sendable {
    static let headerByteCount = 56
    /// `IGSR` read as a little-endian u32.
    static let magic: UInt32 = 0x5253_4749

    enum Offset {
        static let magic = 0
        static let packetByteCount = 4
        static let sequence = 8
        static let eventCount = 16
        static let inputChecksum = 20
        static let position = 24
        static let device = 32
        static let inode = 40
        static let durableEnd = 48
        static let checksum = 52
    }

    var packet: SpooledPacket
    var sequence: UInt64
    /// All bytes of the file before this place were durable when the record was written.
    var durableEnd: Int

    var byteCount: Int { Self.headerByteCount + packet.bytes.count }

    /// Whose packet it holds; `nil` if it is no untagged batch with this sequence.
    var identity: SenderIdentity? {
        guard let (identity, held) = SenderIdentity.ofPacket(packet.bytes[...]), held == sequence
        else { return nil }
        return identity
    }

    func encode(into writer: inout ByteWriter) {
        var head = ByteWriter(capacity: Self.headerByteCount)
        head.append(u32: Self.magic)
        head.append(u32: UInt32(packet.bytes.count))
        head.append(u64: sequence)
        head.append(u32: UInt32(packet.eventCount))
        head.append(u32: packet.note.checksum)
        head.append(u64: packet.note.position)
        head.append(u64: packet.note.device)
        head.append(u64: packet.note.inode)
        head.append(u32: UInt32(durableEnd))
        let checksum = Checksum.crc32c(packet.bytes, seed: Checksum.crc32c(head.bytes))
        head.append(u32: checksum)
        writer.append(bytes: head.bytes)
        writer.append(bytes: packet.bytes)
    }
}

extension SpoolRecord {
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
        guard sequence < SpoolPlace.sequenceEnd else { return nil }
        durableEnd = Int(number(file, offset + Offset.durableEnd, 4))
        packet = SpooledPacket(
            bytes: Array(bytes), eventCount: Int(number(file, offset + Offset.eventCount, 4)),
            note: SpoolNote(
                position: number(file, offset + Offset.position, 8),
                checksum: UInt32(number(file, offset + Offset.inputChecksum, 4)),
                device: number(file, offset + Offset.device, 8),
                inode: number(file, offset + Offset.inode, 8)))
    }
}

/// A little-endian number in bytes whose count was checked.
private func number(_ bytes: [UInt8], _ offset: Int, _ byteCount: Int) -> UInt64 {
    var value: UInt64 = 0
    for i in 0..<byteCount { value |= UInt64(bytes[offset + i]) << UInt64(8 * i) }
    return value
}
