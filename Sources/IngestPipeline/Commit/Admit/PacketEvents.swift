// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestRing

/// The events of one ring record.
@safe struct PacketEvents {
    let rows: UnsafePointer<PacketRow>
    let count: Int
    let sides: UnsafePointer<PacketSide>
    /// The packet's bytes, in which their names lie.
    let bytes: UnsafeRawPointer
    /// Whether the packet's key is bound to a business.
    let isBound: Bool

    /// SAFETY (caller): the record holds the `PacketRows` of its packet.
    @unsafe init(_ record: RingRecord) {
        count = Int(record.header.eventCount)
        isBound = record.header.flags & RingRecordHeader.Flags.isBound != 0
        let offset = PacketRows.sideOffset(eventCount: count)
        unsafe rows = record.rows.assumingMemoryBound(to: PacketRow.self)
        unsafe sides = (record.rows + offset).assumingMemoryBound(to: PacketSide.self)
        unsafe bytes = record.packet
    }
}

extension RingRecord {
    /// Gives what a record of refusals has: how many packets were refused as what.
    func forEachRefusal(_ body: (PacketResult, UInt64) -> Void) {
        let byteCount = Int(header.packetByteCount)
        for (index, result) in PacketResult.allCases.prefix(byteCount / 8).enumerated() {
            // SAFETY: the record holds so many u64, from an 8-aligned place on.
            let count = unsafe packet.load(fromByteOffset: index * 8, as: UInt64.self)
            if count > 0 { body(result, count) }
        }
    }
}

extension PacketRow {
    /// SAFETY (caller): `packet` is the packet that the event was decoded from.
    @unsafe func reward(in packet: UnsafeRawPointer) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(
            start: packet + Int(rewardOffset), count: Int(rewardByteCount))
    }

    /// SAFETY (caller): as above.
    @unsafe func business(in packet: UnsafeRawPointer) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(
            start: packet + Int(businessOffset), count: Int(businessByteCount))
    }
}

extension PacketRow.Name {
    /// SAFETY (caller): as above, of the event that has the name.
    @unsafe func bytes(in packet: UnsafeRawPointer) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: packet + Int(offset), count: Int(byteCount))
    }
}
