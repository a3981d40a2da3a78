import IngestFormat
import Testing

struct PacketRowTests {
    private func write(_ events: [EventDescriptor]) -> (rows: [PacketRow], sides: [PacketSide], Int)
    {
        let room = UnsafeMutableRawPointer.allocate(
            byteCount: PacketRows.byteCountMax(eventCount: events.count), alignment: 8)
        defer { room.deallocate() }
        let byteCount = events.withUnsafeBufferPointer {
            PacketRows.write($0.baseAddress!, eventCount: events.count, to: room)
        }
        let offset = PacketRows.sideOffset(eventCount: events.count)
        let rows = room.assumingMemoryBound(to: PacketRow.self)
        let sides = (room + offset).assumingMemoryBound(to: PacketSide.self)
        return (
            (0..<events.count).map { rows[$0] },
            (0..<(byteCount - offset) / MemoryLayout<PacketSide>.stride).map { sides[$0] },
            byteCount
        )
    }

    @Test func `A row is 48 bytes and a side record 64`() {
        #expect(MemoryLayout<PacketRow>.stride == 48)
        #expect(MemoryLayout<PacketSide>.stride == 64)
    }

    @Test func `An event without amounts and attribution has no side record`() {
        var event = EventDescriptor()
        (event.pairHash, event.pairTag, event.eventHash) = (1, 2, 3)
        (event.rewardOffset, event.rewardByteCount) = (300, 128)
        (event.businessOffset, event.businessByteCount) = (40_000, 1)
        (event.type, event.consent, event.format, event.flags) = (1, 2, 1, 7)
        (event.visiblePartsPerMillion, event.durationMilliseconds) = (999_999, .max)
        event.timestampMicroseconds = .max
        let (rows, sides, byteCount) = write([event])
        #expect(sides.isEmpty && byteCount == 48)
        let row = rows[0]
        #expect(row.side == 0)
        #expect((row.pairHash, row.pairTag, row.eventHash) == (1, 2, 3))
        #expect((row.rewardOffset, row.rewardByteCount) == (300, 128))
        #expect((row.businessOffset, row.businessByteCount) == (40_000, 1))
        #expect((row.type, row.consent, row.format, row.flags) == (1, 2, 1, 7))
        #expect((row.visiblePartsPerMillion, row.durationMilliseconds) == (999_999, .max))
        #expect(row.timestampMicroseconds == .max)
    }

    @Test func `Neighbours with the same attribution share a side record, others do not`() {
        func event(_ platform: UInt64, _ campaign: UInt64 = 0, revenue: Int64 = 0)
            -> EventDescriptor
        {
            var event = EventDescriptor()
            (event.platformHash, event.platformOffset, event.platformByteCount) = (platform, 9, 3)
            (event.campaignHash, event.campaignByteCount) = (campaign, campaign == 0 ? 0 : 1)
            event.revenueMicros = revenue
            return event
        }
        let events = [
            event(1), event(2), event(1), event(1, 5), event(1, revenue: 4),
            event(1, revenue: 4), EventDescriptor(), event(3), event(4), event(1), event(5),
        ]
        let (rows, sides, byteCount) = write(events)
        // 1 is five side records back by then.
        #expect(rows.map(\.side) == [1, 2, 1, 3, 4, 4, 0, 5, 6, 7, 8])
        #expect(sides.map(\.platform.hash) == [1, 2, 1, 1, 3, 4, 1, 5])
        #expect(sides.map(\.campaign.hash) == [0, 0, 5, 0, 0, 0, 0, 0])
        #expect(sides.map(\.revenueMicros) == [0, 0, 0, 4, 0, 0, 0, 0])
        #expect(sides.allSatisfy { $0.platform.offset == 9 && $0.platform.byteCount == 3 })
        #expect(byteCount == events.count * 48 + sides.count * 64)
    }
}
