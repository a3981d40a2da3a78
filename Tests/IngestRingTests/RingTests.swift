import IngestRing
import Testing

@Suite struct RingTests {
    private let arenaByteCount = 4096
    private let largest = 4096 / 2 - RingLayout.recordHeaderByteCount

    @Test func aRecordIsSeenOnceItIsPublishedAndNotBefore() {
        let ring = TestRing(byteCount: arenaByteCount)
        let message = Message(sequence: 7, packetByteCount: 3)
        #expect(ring.next() == nil)
        #expect(ring.append(message))
        #expect(ring.next() == nil)
        ring.producer.publish()
        #expect(ring.next() == message)
        #expect(ring.next() == nil)
    }

    @Test func peekLeavesTheRecordInItsPlace() {
        let ring = TestRing(byteCount: arenaByteCount)
        for sequence in 0..<2 {
            #expect(ring.append(Message(sequence: UInt64(sequence), packetByteCount: 1)))
        }
        ring.producer.publish()
        #expect(ring.nextSequence == 0)
        #expect(ring.nextSequence == 0)
        if let record = ring.consumer.peek() { ring.consumer.advance(past: record) }
        #expect(ring.nextSequence == 1)
    }

    /// So many records that a slab ends among them: those ahead are seen, and then come once more.
    @Test func lookingAheadLeavesTheRecordsInTheirPlaces() {
        let ring = TestRing(byteCount: arenaByteCount)
        var sequences: [UInt64] = []
        func lookAhead(_ countMax: Int) -> [UInt64] {
            sequences = []
            ring.consumer.lookAhead(countMax) { sequences.append($0.header.sequence) }
            return sequences
        }
        #expect(lookAhead(8).isEmpty)
        for sequence in 0..<5 {
            #expect(ring.append(Message(sequence: UInt64(sequence), packetByteCount: 500)))
        }
        ring.producer.publish()
        #expect(lookAhead(3) == [0, 1, 2])
        #expect(lookAhead(8) == [0, 1, 2, 3, 4])
        for sequence in 0..<5 {
            #expect(ring.next()?.sequence == UInt64(sequence))
            let left: [UInt64] = Array([0, 1, 2, 3, 4].suffix(4 - sequence))
            #expect(lookAhead(8) == left)
        }
    }

    /// Whatever was looked at before, with what is left of a slab that has no room for a record.
    @Test func whatWaitsIsWhatWasPublishedAndNotRead() throws {
        let ring = TestRing(byteCount: arenaByteCount)
        #expect(ring.consumer.waitingByteCount() == 0)
        var ends: [Int] = []
        for sequence in 0..<5 {
            #expect(ring.append(Message(sequence: UInt64(sequence), packetByteCount: 500)))
            ends.append(ring.producer.usedByteCount())
        }
        #expect(ring.consumer.waitingByteCount() == 0)
        ring.producer.publish()
        let all = try #require(ends.last)
        #expect(ring.consumer.waitingByteCount() == all)
        // Some are read, and released later or never.
        for sequence in 0..<5 {
            #expect(ring.next()?.sequence == UInt64(sequence))
            if sequence == 2 { ring.consumer.release() }
            #expect(ring.consumer.waitingByteCount() == all - ends[sequence])
        }
    }

    @Test func headerFieldsAndRowsArriveAsTheyWereWritten() throws {
        let ring = TestRing(byteCount: arenaByteCount)
        var header = RingRecordHeader(kind: RingRecordKind.plain)
        header.flags = 3
        header.keyID = 0xABCD
        header.sender = .max
        header.epoch = 1
        header.sequence = .max - 1
        header.packetByteCount = 5
        header.eventCount = 2
        header.malformedCount = 9
        let rowOffset = RingLayout.rowOffset(packetByteCount: 5)
        let record = try #require(ring.claim(header, byteCount: rowOffset + 16))
        (record + rowOffset).storeBytes(of: 0x0102_0304_0506_0708, as: UInt64.self)
        (record + rowOffset + 8).storeBytes(of: 99, as: UInt64.self)
        ring.producer.commit()
        ring.producer.publish()

        let read = try #require(ring.nextRecord())
        #expect(read.header.kind == header.kind && read.header.flags == header.flags)
        #expect(read.header.keyID == header.keyID && read.header.sender == header.sender)
        #expect(read.header.epoch == header.epoch && read.header.sequence == header.sequence)
        #expect(read.header.packetByteCount == 5 && read.header.eventCount == 2)
        #expect(read.header.malformedCount == 9)
        #expect(read.header.byteCount == 128)
        #expect(read.rows.load(as: UInt64.self) == 0x0102_0304_0506_0708)
        #expect(read.rows.load(fromByteOffset: 8, as: UInt64.self) == 99)
    }

    /// Each start and each size: those that end before the slab does, exactly with it, and beyond.
    @Test func recordsArriveWholeWhereverTheSlabEnds() {
        let slabByteCount = arenaByteCount / 2
        for offset in stride(from: 0, to: arenaByteCount, by: 64) {
            for packetByteCount in stride(from: 0, through: largest, by: 61) + [largest] {
                let ring = TestRing(byteCount: arenaByteCount)
                ring.moveEnd(to: offset)
                let messages = [
                    Message(sequence: 1, packetByteCount: packetByteCount),
                    Message(sequence: 2, packetByteCount: 17),
                ]
                guard ring.append(messages[0]), ring.append(messages[1]) else {
                    // Only padding, or a slab that is begun, can leave too little room for both.
                    #expect(offset % slabByteCount > 0)
                    #expect(
                        messages[0].recordByteCount + messages[1].recordByteCount
                            > slabByteCount - offset % slabByteCount)
                    continue
                }
                ring.producer.publish()
                #expect(ring.next() == messages[0])
                #expect(ring.next() == messages[1])
                #expect(ring.next() == nil)
            }
        }
    }

    @Test func theLargestRecordFitsAnEmptyRingAtEveryOffset() {
        for offset in stride(from: 0, to: arenaByteCount, by: 64) {
            let ring = TestRing(byteCount: arenaByteCount)
            ring.moveEnd(to: offset)
            let message = Message(sequence: 3, packetByteCount: largest)
            #expect(ring.append(message))
            ring.producer.publish()
            #expect(ring.next() == message)
        }
    }

    @Test func aRecordOfMoreThanHalfTheArenaIsRefused() {
        let ring = TestRing(byteCount: arenaByteCount)
        #expect(!ring.append(Message(sequence: 0, packetByteCount: largest + 1)))
        #expect(ring.append(Message(sequence: 0, packetByteCount: largest)))
    }

    @Test func aFullRingTakesNothingUntilRecordsAreReleased() {
        let ring = TestRing(byteCount: arenaByteCount)
        let message = Message(sequence: 1, packetByteCount: 64)
        let capacity = arenaByteCount / message.recordByteCount
        for _ in 0..<capacity { #expect(ring.append(message)) }
        #expect(!ring.append(message))
        ring.producer.publish()
        #expect(ring.usedByteCount == arenaByteCount)
        for _ in 0..<capacity { #expect(ring.next() == message) }
        #expect(ring.next() == nil)
        #expect(!ring.append(message), "what was read, but not released, is not overwritten")
        ring.consumer.release()
        #expect(ring.usedByteCount == 0)
        for _ in 0..<capacity { #expect(ring.append(message)) }
        #expect(!ring.append(message))
    }

    @Test func anAbortedRecordLeavesNoTrace() {
        let ring = TestRing(byteCount: arenaByteCount)
        let message = Message(sequence: 1, packetByteCount: largest)
        for _ in 0..<10 {
            #expect(ring.write(message))
            ring.producer.abort()
        }
        ring.producer.publish()
        #expect(ring.next() == nil)
        #expect(ring.append(message) && ring.append(message))
        ring.producer.publish()
        #expect(ring.next() == message)
    }

    @Test func aReserveIsLeftForTheRecordThatMustGetThrough() {
        let ring = TestRing(byteCount: arenaByteCount)
        let message = Message(sequence: 1, packetByteCount: 0)
        var taken = 0
        while ring.append(message, leaving: 512) { taken += 1 }
        #expect(taken == (arenaByteCount - 512) / 64)
        #expect(ring.append(Message(sequence: 2, packetByteCount: 512 - 64)))
        #expect(!ring.append(message))
    }

    @Test func aClosedRingGivesItsLastRecordsAndThenSaysSo() {
        let ring = TestRing(byteCount: arenaByteCount)
        let message = Message(sequence: 1, packetByteCount: 1)
        #expect(ring.wait() == .timedOut)
        #expect(ring.append(message))
        ring.producer.close()
        #expect(ring.wait() == .records)
        #expect(ring.next() == message)
        #expect(ring.wait() == .closed)
        #expect(ring.wait() == .closed)
    }

    @Test func aProducerThatIsGivenUpClosesItsRing() {
        let ends = EventRing.make(byteCount: arenaByteCount)!
        var consumer = ends.consumer
        do {
            var producer = ends.producer
            let isTaken = producer.append(Message(sequence: 1, packetByteCount: 1))
            #expect(isTaken)
        }
        let first = consumer.wait(timeoutNanoseconds: 0)
        #expect(first == .records)
        _ = consumer.next()
        let second = consumer.wait(timeoutNanoseconds: 0)
        #expect(second == .closed)
    }

    @Test func aWakerEndsTheNextWaitOnce() {
        let ring = TestRing(byteCount: arenaByteCount)
        let waker = ring.consumer.waker()
        waker.wake()
        waker.wake()
        #expect(ring.wait(timeoutNanoseconds: 60_000_000_000) == .woken)
        #expect(ring.wait() == .timedOut)
        #expect(ring.wait(timeoutNanoseconds: 1) == .timedOut)
    }
}

private func + (steps: StrideThrough<Int>, more: [Int]) -> [Int] { Array(steps) + more }

@Suite struct RingLayoutTests {
    @Test func theRecordHeaderIsOneLineWithEachFieldInItsPlace() {
        #expect(MemoryLayout<RingRecordHeader>.size == RingLayout.recordHeaderByteCount)
        #expect(MemoryLayout<RingRecordHeader>.stride == RingLayout.recordAlignment)
        #expect(MemoryLayout<RingRecordHeader>.offset(of: \.kind) == 4)
        #expect(MemoryLayout<RingRecordHeader>.offset(of: \.sender) == 8)
        #expect(MemoryLayout<RingRecordHeader>.offset(of: \.malformedCount) == 36)
        #expect(MemoryLayout<RingRecordHeader>.offset(of: \.source) == 40)
    }

    @Test func wordsOfDifferentWritersAre128BytesApart() {
        let places = [
            RingLayout.publishedOffset, RingLayout.releasedOffset, RingLayout.sleepingOffset,
            RingLayout.wakeRequestedOffset, RingLayout.arenaOffset,
        ]
        for (a, b) in zip(places, places.dropFirst()) { #expect(b - a >= 128) }
        #expect(RingLayout.arenaOffset % RingLayout.recordAlignment == 0)
        #expect(
            RingLayout.orderOffset + RingLayout.slabCountMax * MemoryLayout<UInt16>.stride
                <= RingLayout.arenaOffset)
    }

    @Test(arguments: [(0, 64), (1, 72), (8, 72), (9, 80), (1400, 1464)])
    func rowsStartAtTheNextMultipleOf8(packetByteCount: Int, offset: Int) {
        #expect(RingLayout.rowOffset(packetByteCount: packetByteCount) == offset)
    }
}

@Suite struct RingSlabTests {
    private let message = Message(sequence: 1, packetByteCount: 1 << 10)

    /// Takes one record through the ring, and says where it lay.
    private func pass(_ ring: TestRing) -> Int {
        #expect(ring.append(message))
        ring.producer.publish()
        let place = ring.nextRecord().map { Int(bitPattern: $0.packet) } ?? 0
        ring.consumer.release()
        return place
    }

    @Test func whileTheConsumerKeepsUpTwoSlabsTakeTurns() {
        let ring = TestRing(byteCount: 16 * RingLayout.slabByteCountMax)
        let places = (0..<16 * RingLayout.slabByteCountMax / (1 << 10)).map { _ in pass(ring) }
        #expect(places.max()! - places.min()! < 2 * RingLayout.slabByteCountMax)
    }

    @Test func aConsumerThatStandsStillLeavesAllOfTheArenaToBeFilled() {
        let slabCount = 16
        let ring = TestRing(byteCount: slabCount * RingLayout.slabByteCountMax)
        _ = pass(ring)
        var count = 0
        while ring.append(message) { count += 1 }
        let ofSlab = RingLayout.slabByteCountMax / message.recordByteCount
        #expect(count == ofSlab * slabCount - 1)
        ring.producer.publish()
        for _ in 0..<count { #expect(ring.next() == message) }
        #expect(ring.next() == nil)
    }
}
