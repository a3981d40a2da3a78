import IngestFormat
import Synchronization

/// The rows of a packet, made both ways.
extension DecoderHarness {
    /// Whether a packet is decoded into rows at once. Ends the process if these are not the rows that its descriptors make.
    ///
    /// - Parameter business: the only one whose events are not marked.
    package static func isUsual(
        _ packet: [UInt8], headerByteCount: Int, onlyOf business: [UInt8]? = nil
    ) -> Bool {
        // Of just their size, so that a sanitizer sees what goes past.
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: packet.count, alignment: 1)
        defer { copy.deallocate() }
        copy.copyBytes(from: packet)
        let room = rooms.withLock { $0.popLast() } ?? UsualRoom()
        defer { rooms.withLock { $0.append(room) } }
        let businessHash = business.map { hash.name($0) }
        let empty = UnsafeMutableRawPointer(room.scratch.descriptors)
        let base = UnsafeRawPointer(copy.baseAddress ?? empty)
        let byteCount = packet.count - headerByteCount
        let decoder = EventDecoder(hash: hash)
        let isUsual = decoder.decodeUsual(
            packet: base, payloadOffset: headerByteCount, payloadByteCount: byteCount,
            onlyOf: businessHash, into: &room.made)
        let whole = decoder.decode(
            packet: base, payloadOffset: headerByteCount, payloadByteCount: byteCount,
            into: room.scratch.descriptors)
        guard isUsual else { return false }
        guard whole == .events(count: room.made.count, malformed: 0) else {
            fatalError("rows of a packet whose descriptors are \(whole)")
        }
        room.expected.set(to: room.scratch, whole, onlyOf: businessHash)
        for index in 0..<room.made.count {
            let made = fields(index, of: room.made)
            let expected = fields(index, of: room.expected)
            if made != expected { fatalError("row \(index): \(made), not \(expected)") }
        }
        if room.made.byteCount != room.expected.byteCount { fatalError("side records") }
        return true
    }

    /// Memory of some MiB, which calls take in turn: each to have its own is a fourth of their time. One call has it at a
    /// time.
    private final class UsualRoom: @unchecked Sendable {
        let scratch = EventScratch()
        var made = PacketRows()
        var expected = PacketRows()
    }
    private static let rooms = Mutex<[UsualRoom]>([])

    /// All fields of a row and of its side record.
    private static func fields(_ index: Int, of rows: borrowing PacketRows) -> [UInt64] {
        let row = rows[index]
        var fields: [UInt64] = [
            UInt64(bitPattern: row.timestampMicroseconds), row.pairHash, UInt64(row.pairTag),
            row.eventHash, UInt64(row.visiblePartsPerMillion), UInt64(row.durationMilliseconds),
            UInt64(row.rewardOffset), UInt64(row.businessOffset), UInt64(row.side),
            UInt64(row.sessionOffset), UInt64(row.sessionByteCount), UInt64(row.rewardByteCount),
            UInt64(row.businessByteCount), UInt64(row.type), UInt64(row.consent),
            UInt64(row.format), UInt64(row.flags),
        ]
        var names = [row.platform]
        if row.side != 0 {
            let side = rows.side(row.side)
            fields.append(UInt64(bitPattern: side.revenueMicros))
            fields.append(UInt64(bitPattern: side.spendMicros))
            names += [side.campaign, side.source]
        }
        return fields + names.flatMap { [$0.hash, UInt64($0.offset), UInt64($0.byteCount)] }
    }
}
