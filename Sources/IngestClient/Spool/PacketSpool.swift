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
