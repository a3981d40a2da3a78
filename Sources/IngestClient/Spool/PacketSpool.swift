// packet → [spool] → socket

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
    /// **Errors** None of these may be sent.
    func append(_ packets: [SpooledPacket]) throws(StorageError)
    /// Forgets what lies below this sequence, file by file.
    func retire(below base: UInt64) throws(StorageError)
    /// All is acked, and the input has ended: no packet is left for a next start.
    ///
    /// - Parameter note: of the whole input, for who asks whether it was sent before.
    func finish(_ note: SpoolNote) throws(StorageError)
}
