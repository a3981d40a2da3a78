// packet → decode → [ring] → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat
import IngestRing

/// What a framed packet says to the window of its sender, as it comes out of the ring.
struct SequencedPacket {
    let key: SenderKey
    /// Of a heartbeat: the next one to be sent.
    let sequence: UInt64
    let asksForAcks: Bool
    /// 16 bits of all of the packet's bytes; never 0.
    let check: UInt16
    /// What it takes of the ring, its descriptors included, but for what fills the last line.
    let ringByteCount: Int
    let source: PacketSource

    init(_ record: RingRecordHeader) {
        key = SenderKey(
            kind: .framed, sender: SenderID(rawValue: record.sender),
            epoch: SenderEpoch(rawValue: record.epoch))
        sequence = record.sequence
        asksForAcks = record.flags & RingRecordHeader.Flags.wantsAck != 0
        check = record.check
        ringByteCount =
            MemoryLayout<RingRecordHeader>.size + Int(record.packetByteCount)
            + Int(record.eventCount) * MemoryLayout<EventDescriptor>.stride
        source = PacketSource(record)
    }
}

/// Where an answer to a packet goes, and how large it may be.
struct PacketSource {
    let peer: ingest_peer
    /// 0 = no key.
    let keyID: UInt16
    /// Whether the packet had a tag: then its answer has one.
    let isTagged: Bool
    /// Bytes of the packet: an answer is no larger.
    private(set) var byteCount: Int

    /// Whether both come from one address and port.
    func isSamePeer(as other: PacketSource) -> Bool {
        let (a, b) = (peer, other.peer)
        return a.host.0 == b.host.0 && a.host.1 == b.host.1 && a.scope == b.scope
            && a.port == b.port && a.family == b.family
    }

    /// The same, for an answer to several packets, of which the largest had so many bytes.
    func answered(byteCount: Int) -> PacketSource {
        var source = self
        source.byteCount = byteCount
        return source
    }

    init(_ record: RingRecordHeader) {
        peer = record.source
        keyID = record.keyID
        isTagged = record.flags & RingRecordHeader.Flags.hasTag != 0
        byteCount = Int(record.packetByteCount)
    }
}

/// Now, by both clocks; read once for some packets.
struct StageTime {
    let wallMicroseconds: Int64
    let monotonicNanoseconds: UInt64
    /// The same, for times before the start of the machine.
    var signedNanoseconds: Int64 { Int64(clamping: monotonicNanoseconds) }
}
