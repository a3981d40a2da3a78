import IngestFormat
import Testing

struct PacketRowTests {
    private func write(_ events: [EventDescriptor]) -> (rows: [PacketRow], sides: [PacketSide], Int)
    {
        var made = PacketRows()
        made.set(to: events)
        let room = UnsafeMutableRawPointer.allocate(byteCount: made.byteCount, alignment: 8)
        defer { room.deallocate() }
        made.copy(to: room)
        let offset = PacketRows.sideOffset(eventCount: events.count)
        let rows = room.assumingMemoryBound(to: PacketRow.self)
        let sides = (room + offset).assumingMemoryBound(to: PacketSide.self)
        return (
            (0..<events.count).map { rows[$0] },
            (0..<(made.byteCount - offset) / MemoryLayout<PacketSide>.stride).map { sides[$0] },
            made.byteCount
        )
    }

    @Test func `A row is 64 bytes and a side record 48`() {
        #expect(MemoryLayout<PacketRow>.stride == 64)
        #expect(MemoryLayout<PacketSide>.stride == 48)
    }

    @Test func `An event without amounts, campaign and source has no side record`() {
        var event = EventDescriptor()
        (event.pairHash, event.pairTag, event.eventHash) = (1, 2, 3)
        (event.rewardOffset, event.rewardByteCount) = (300, 128)
        (event.businessOffset, event.businessByteCount) = (40_000, 1)
        (event.type, event.consent, event.format, event.flags) = (1, 2, 1, 7)
        (event.visiblePartsPerMillion, event.durationMilliseconds) = (999_999, .max)
        event.timestampMicroseconds = .max
        (event.platformHash, event.platformOffset, event.platformByteCount) = (4, 5, 6)
        let (rows, sides, byteCount) = write([event])
        #expect(sides.isEmpty && byteCount == 64)
        let row = rows[0]
        #expect(row.side == 0)
        #expect((row.pairHash, row.pairTag) == (1, 2))
        #expect(row.eventHash == KeyedHash.event(3, ofType: 1))
        #expect((row.rewardOffset, row.rewardByteCount) == (300, 128))
        #expect((row.businessOffset, row.businessByteCount) == (40_000, 1))
        #expect((row.type, row.consent, row.format, row.flags) == (1, 2, 1, 7))
        #expect((row.visiblePartsPerMillion, row.durationMilliseconds) == (999_999, .max))
        #expect(row.timestampMicroseconds == .max)
        #expect((row.platform.hash, row.platform.offset, row.platform.byteCount) == (4, 5, 6))
    }

    @Test func `Each event with an amount, a campaign or a source has a side record`() {
        func event(_ change: (inout EventDescriptor) -> Void) -> EventDescriptor {
            var event = EventDescriptor()
            change(&event)
            return event
        }
        let events = [
            event { _ in },
            event { ($0.campaignHash, $0.campaignOffset, $0.campaignByteCount) = (7, 8, 9) },
            event { ($0.sourceHash, $0.sourceOffset, $0.sourceByteCount) = (10, 11, 12) },
            event { _ in },
            event { $0.revenueMicros = 13 },
            event { $0.spendMicros = 14 },
        ]
        let (rows, sides, byteCount) = write(events)
        #expect(rows.map(\.side) == [0, 1, 2, 0, 3, 4])
        #expect(sides.map(\.campaign.hash) == [7, 0, 0, 0])
        #expect(sides.map(\.campaign.offset) == [8, 0, 0, 0])
        #expect(sides.map(\.campaign.byteCount) == [9, 0, 0, 0])
        #expect(sides.map(\.source.hash) == [0, 10, 0, 0])
        #expect(sides.map(\.source.offset) == [0, 11, 0, 0])
        #expect(sides.map(\.source.byteCount) == [0, 12, 0, 0])
        #expect(sides.map(\.revenueMicros) == [0, 0, 13, 0])
        #expect(sides.map(\.spendMicros) == [0, 0, 0, 14])
        #expect(byteCount == 6 * 64 + 4 * 48)
    }
}
