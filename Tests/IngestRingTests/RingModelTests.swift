import IngestRing
import TestSupport
import Testing

/// What a ring must do, said with arrays and sums.
private struct RingModel {
    let arenaByteCount: Int
    var committed: [Message] = []
    var published: [Message] = []
    /// Bytes in use up to each message's end, padding before it included, for all not yet released.
    var ends: [Int] = []
    var end = 0
    var released = 0
    var read = 0

    var slabByteCount: Int { RingLayout.recordByteCountMax(arenaByteCount: arenaByteCount) }

    /// A record lies wholly in the stretch of one slab, and a slab is taken again once all of its stretch was released.
    mutating func append(_ message: Message) -> Bool {
        let toEnd = slabByteCount - end % slabByteCount
        let padding = message.recordByteCount <= toEnd ? 0 : toEnd
        let newEnd = end + padding + message.recordByteCount
        let inUse = (newEnd - 1) / slabByteCount - released / slabByteCount + 1
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
    @Test(arguments: 0..<24 as Range<UInt64>)
    func anyOrderOfCallsDoesWhatAPlainQueueDoes(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let arenaByteCount = 1 << Int.random(in: 12...15, using: &random)
        let ring = TestRing(byteCount: arenaByteCount)
        var model = RingModel(arenaByteCount: arenaByteCount)
        var refused = 0
        for turn in 0..<4000 {
            switch Int.random(in: 0..<16, using: &random) {
            case 0..<6:
                let byteCount = Int.random(
                    in: 0...arenaByteCount / (turn % 9 == 0 ? 2 : 16), using: &random)
                let message = Message(sequence: UInt64(turn), packetByteCount: byteCount)
                let fits = model.append(message)
                if !fits { refused += 1 }
                #expect(ring.append(message) == fits, "turn \(turn)")
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
