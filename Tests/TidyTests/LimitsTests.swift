import IngestFormat
import IngestRing
import Testing

/// The relations between the bounds: what one of them relies on another for.
struct LimitsTests {
    @Test func `a packet's offsets and lengths fit the fields that hold them`() {
        #expect(Limits.packetByteCountMax <= Int(UInt16.max))
        #expect(
            Limits.packetHeaderByteCount + Limits.packetTagByteCount < Limits.packetByteCountMax)
        #expect(
            Limits.payloadByteCountMax + Limits.packetHeaderByteCount == Limits.packetByteCountMax)
        // An ack covers a whole window, and is a packet.
        #expect(64 * (1 + Limits.ackFurtherWordCountMax) == 65_536)
        #expect(16 + 8 * Limits.ackFurtherWordCountMax <= Limits.payloadByteCountMax)
        // Id, key, sender and business with their names, blanks and line end.
        let keyLine = 5 + 2 * Limits.keyByteCountMax + 7 + 20 + 9 + Limits.nameByteCountMax + 4
        #expect(65_535 * keyLine <= Limits.keysFileByteCountMax)
        // A spool's file is left at 8 MiB, and one burst may go beyond.
        #expect((8 << 20) + (128 << 10) < Limits.spoolFileByteCountMax)
        #expect(Limits.unackedByteCountMax < Limits.spoolByteCountMax)
        #expect(Limits.nameByteCountMax <= Int(UInt8.max))
        #expect(Limits.attributionByteCountMax <= Limits.nameByteCountMax)
        #expect(Limits.eventIDByteCountMax <= Int(UInt8.max))
        #expect(Limits.sessionIDByteCountMax <= Int(UInt8.max))
    }

    @Test func `a packet with all its rows fits the ring, and its events fit a block`() {
        let (row, side) = (MemoryLayout<PacketRow>.stride, MemoryLayout<PacketSide>.stride)
        // The smallest events, and the smallest with a campaign: two bytes of tag and size, one of name.
        let rows = max(
            Limits.payloadByteCountMax / Limits.eventByteCountMin * row,
            Limits.payloadByteCountMax / (Limits.eventByteCountMin + 3) * (row + side))
        let largest = RingLayout.recordByteCount(
            RingLayout.rowOffset(packetByteCount: Limits.packetByteCountMax) + rows)
        #expect(largest <= RingLayout.recordByteCountMax(arenaByteCount: Limits.ringByteCount))
        #expect(Limits.packetEventCountMax <= Limits.blockEventCountMax)
        #expect(Limits.ringByteCount.nonzeroBitCount == 1)
    }

    @Test func `the largest amounts of a packet fit a block, and those of a segment 64 bits`() {
        let amountCount = UInt64(Limits.packetByteCountMax / Limits.moneyByteCountMin)
        #expect(Limits.moneyMicrosMax < 1 << 50 && Limits.moneyByteCountMin == 1 + (50 + 6) / 7)
        #expect(amountCount * UInt64(Limits.moneyMicrosMax) < Limits.blockMoneyMicrosMax)
        #expect(Limits.blockMoneyMicrosMax < UInt64.max - Limits.rollMoneyMicros)
    }

    /// A segment that is not full yet takes one more block, and what is on its way.
    @Test func `a segment that rolls where it should never passes what a footer may hold`() {
        #expect(Limits.rollRowCount + Limits.blockEventCountMax <= Limits.segmentRowCountMax)
        // A pair may have lanes and a slot.
        #expect(
            2 * (Limits.rollRowCount + Limits.blockEventCountMax) <= Limits.segmentKeyDayCountMax)
        #expect(Limits.rollBlockCount <= Limits.segmentBlockCountMax)
        #expect(
            Limits.rollSenderCount + Limits.blockSenderCountMax <= Limits.segmentSenderCountMax)
        #expect(
            Limits.rollSequenceRangeCount + Limits.blockSequenceRangeCountMax
                <= Limits.segmentSequenceRangeCountMax)
        for roll in [
            Limits.rollRowCount, Limits.rollBlockCount, Limits.rollNameByteCount,
            Limits.rollSenderCount,
            Limits.rollSequenceRangeCount,
        ] { #expect(roll > 0) }
        #expect(Limits.segmentLostRangeCountMax <= Limits.segmentBlockCountMax)
    }

    @Test
    func `what windows, and ended epochs, of all keys take is bounded, and each key has a part`() {
        // One that is as large as it gets fits the part of a key, and a key cannot take that of others.
        #expect(Limits.windowPartOfKey > 1)
        #expect(
            Limits.windowByteCountMax / Limits.windowPartOfKey
                >= Limits.windowSequenceCountMax / 8 + Limits.windowMissingRangeCountMax * 16)
        #expect(Limits.checkPlaceCountMax / Limits.windowPartOfKey >= Limits.windowCheckCountMax)
        // Keys come one by one, each filled with the part that it has then.
        let sum = (1...65_535).reduce(0) {
            $0 + ExpiredEpochs.countMax(of: 1, keyCount: $1)
        }
        #expect(sum + Limits.expiredEpochCountMax < 1 << 22)
        #expect((sum + Limits.expiredEpochCountMax) * 16 < Limits.footerByteCountMax / 8)
        // Two ids of three bytes a byte, and a blank.
        #expect(6 * Limits.nameByteCountMax + 1 < Limits.ownersLineByteCountMax)
    }

    @Test func `event times fit the calendar and stay clear of overflow`() {
        #expect(Limits.timestampMicrosecondsMax < Int64.max - 400 * 86_400_000_000)
        #expect(Limits.timestampMicrosecondsMax / 86_400_000_000 <= Int64(Int32.max))
    }

    @Test func `a listing's range holds every day that events can have, twice`() {
        #expect(Limits.queryRowCountMax >= 2 * Limits.businessDays.count)
        // A zone is at most a day from UTC.
        let last = Limits.timestampMicrosecondsMax / 86_400_000_000
        #expect(Int64(Limits.businessDays.upperBound) == last + 1)
        #expect(Limits.businessDays.lowerBound == -1)
    }

    @Test func `ordinals fit 32 bits with room, and a block's news fit the dictionary`() {
        #expect(Limits.nameCountMax <= Int(UInt32.max) / 2)
        #expect(Limits.keyCountMax <= Int(UInt32.max) / 2)
        #expect(Limits.blockNameCountMax <= Limits.nameCountMax)
    }

    @Test func `segment sizes are in order, and their counts fit the durable mark`() {
        #expect(Limits.segmentByteCountMin < Limits.segmentByteCountDefault)
        #expect(Limits.segmentByteCountDefault < Limits.segmentByteCountMax)
        #expect(Limits.segmentBlockCountMax < 1 << 20)
        #expect(Limits.preallocationByteCountMax <= Limits.segmentByteCountDefault)
        #expect(Limits.segmentByteCountMax <= Int(UInt32.max))
        #expect(Limits.footerByteCountMax <= Int(UInt32.max))
        #expect(Limits.blockByteCountMax <= Limits.segmentByteCountMax)
    }

    @Test func `a full block of rows without news fits the bound of its bytes`() {
        // key 4, time 8, day 4, attributes 2, three names 12, hash 8, viewability 8, money 16.
        #expect(Limits.blockEventCountMax * 62 < Limits.blockByteCountMax)
        #expect(
            Limits.blockNameCountMax * Limits.nameByteCountMax + Limits.blockEventCountMax * 62
                < Limits.blockByteCountMax)
    }

    @Test func `a manifest can name what it has to name`() {
        #expect(Limits.level0CountMax < Limits.manifestLevel0CountMax)
        #expect(
            Limits.level0CountMax * Limits.segmentLostRangeCountMax
                <= Limits.manifestLostRangeCountMax)
        #expect(
            Limits.manifestLevel0CountMax * SealedSegment.layout.byteCount
                + Limits.manifestLostRangeCountMax * LostRange.layout.byteCount
                < Limits.manifestByteCountMax)
        let blockByteCountMax = Limits.blockByteCountMax + (1 << 20)
        #expect(
            Limits.segmentByteCountMax + blockByteCountMax <= Limits.segmentFileByteCountMax)
    }
}
