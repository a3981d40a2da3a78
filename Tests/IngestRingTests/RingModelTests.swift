import IngestRing
import TestSupport
import Testing

/// What a ring must do, said with arrays and sums.
private struct RingModel {
    let arenaByteCount: Int
    let slabByteCount: Int
    var committed: [Message] = []
    var published: [Message] = []
    /// Bytes in use up to each message's end, padding before it included, for all not yet released.
    var ends: [Int] = []
    var end = 0
    var released = 0
    var read = 0

    /// A record lies wholly in the stretch of one slab, and a slab is taken again once all of its stretch was released.
    mutating func append(_ message: Message, leaving reserve: Int) -> Bool {
        let toEnd = slabByteCount - end % slabByteCount
        let padding = message.recordByteCount <= toEnd ? 0 : toEnd
        let newEnd = end + padding + message.recordByteCount
        // What is left of the record's slab, or another one.
        let left = (slabByteCount - newEnd % slabByteCount) % slabByteCount
        let inUse =
            (newEnd - 1) / slabByteCount - released / slabByteCount + (left >= reserve ? 1 : 2)
        guard message.byteCount <= slabByteCount, inUse <= arenaByteCount / slabByteCount else {
            return false
        }
        end = newEnd
        ends.append(newEnd)
        committed.append(message)
        return true
    }

    mutating func publish() {
        published += committed
        committed = []
    }

    mutating func next() -> Message? {
        guard !published.isEmpty else { return nil }
        read = ends.removeFirst()
        return published.removeFirst()
    }

    mutating func release() { released = read }
}

@Suite struct RingModelTests {
    @Test(arguments: 0..<32 as Range<UInt64>)
    func anyOrderOfCallsDoesWhatAPlainQueueDoes(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let arenaByteCount = 1 << Int.random(in: 12...15, using: &random)
        let slabByteCount = arenaByteCount >> Int.random(in: 1...4, using: &random)
        let ring = TestRing(byteCount: arenaByteCount, slabByteCount: slabByteCount)
        var model = RingModel(arenaByteCount: arenaByteCount, slabByteCount: slabByteCount)
        var refused = 0
        for turn in 0..<4000 {
            switch Int.random(in: 0..<16, using: &random) {
            case 0..<6:
                let byteCount = Int.random(
                    in: 0...slabByteCount / (turn % 9 == 0 ? 1 : 4), using: &random)
                let message = Message(sequence: UInt64(turn), packetByteCount: byteCount)
                let reserve = turn % 3 == 0 ? 64 * Int.random(in: 0...3, using: &random) : 0
                let fits = model.append(message, leaving: reserve)
                if !fits { refused += 1 }
                #expect(ring.append(message, leaving: reserve) == fits, "turn \(turn)")
            case 6:
                // An aborted claim must not matter, whether it fitted or not.
                let message = Message(
                    sequence: 0, packetByteCount: Int.random(in: 0...2000, using: &random))
                _ = ring.producer.write(message)
                ring.producer.abort()
            case 7..<10:
                ring.producer.publish()
                model.publish()
            case 10..<14:
                #expect(ring.next() == model.next(), "turn \(turn)")
            default:
                ring.consumer.release()
                model.release()
            }
        }
        #expect(refused > 0, "a run that never filled the ring shows little")
    }
}
