import Dispatch
import Glibc
import IngestRing
import Synchronization
import TestSupport
import Testing

/// Runs two closures at the same time, released together, and waits for both.
///
/// Each has a thread of its own: Dispatch gives every serial queue one, also where all others are busy.
private func together(_ a: @escaping @Sendable () -> Void, _ b: @escaping @Sendable () -> Void) {
    let arrived = Atomic(0)
    let done = DispatchGroup()
    for (queue, work) in [(leftQueue, a), (rightQueue, b)] {
        queue.async(group: done) {
            arrived.add(1, ordering: .sequentiallyConsistent)
            while arrived.load(ordering: .sequentiallyConsistent) < 2 { sched_yield() }
            work()
        }
    }
    done.wait()
}

private let leftQueue = DispatchQueue(label: "ring-test-left")
private let rightQueue = DispatchQueue(label: "ring-test-right")

/// How often a race is run to see its outcomes. `scripts/race` takes fewer: ThreadSanitizer reports what is not ordered
/// whether or not it happened at the same time, and is 60 times slower.
private let runCount = getenv("INGEST_RING_RUNS").flatMap { Int(String(cString: $0)) } ?? 500

/// Runs a race many times over and gives every outcome that was seen.
private func outcomes<Outcome: Hashable & Sendable>(of race: () -> Outcome) -> Set<Outcome> {
    Set((0..<runCount).map { _ in race() })
}

/// One test at a time: all share the two queues.
@Suite(.serialized) enum RingThreadTests {}

/// Each test lists every outcome that the ring allows for one race; seeing another is the failure.
extension RingThreadTests {
    @Suite struct RingOutcomeTests {
        @Test func aBatchIsSeenWholeOrNotAtAll() {
            let seen = outcomes {
                let ring = TestRing(byteCount: 4096)
                let read = Mutex<[UInt64]>([])
                together(
                    {
                        for sequence in 1...3 {
                            _ = ring.append(
                                Message(sequence: UInt64(sequence), packetByteCount: 100))
                        }
                        ring.producer.publish()
                    },
                    {
                        while ring.nextSequence == nil { sched_yield() }
                        while let message = ring.next() {
                            #expect(
                                message == Message(sequence: message.sequence, packetByteCount: 100)
                            )
                            read.withLock { $0.append(message.sequence) }
                        }
                    })
                return read.withLock { $0 }
            }
            #expect(seen == [[1, 2, 3]])
        }

        @Test func twoBatchesAreSeenInTheirOrder() {
            let seen = outcomes {
                let ring = TestRing(byteCount: 4096)
                let read = Mutex<[UInt64]>([])
                together(
                    {
                        for sequence in 1...2 {
                            _ = ring.append(Message(sequence: UInt64(sequence), packetByteCount: 1))
                            ring.producer.publish()
                        }
                    },
                    {
                        while ring.nextSequence == nil { sched_yield() }
                        for _ in 0..<2 {
                            let message = ring.next()
                            if let message { read.withLock { $0.append(message.sequence) } }
                        }
                    })
                return read.withLock { $0 }
            }
            #expect(seen.isSubset(of: [[1], [1, 2]]))
        }

        @Test func closedIsNeverSaidWithARecordStillToCome() {
            let seen = outcomes {
                let ring = TestRing(byteCount: 4096)
                let answer = Mutex<RingWait>(.timedOut)
                together(
                    {
                        _ = ring.append(Message(sequence: 1, packetByteCount: 1))
                        ring.producer.close()
                    },
                    {
                        var found = RingWait.timedOut
                        while found == .timedOut { found = ring.wait() }
                        answer.withLock { [found] in $0 = found }
                    })
                return answer.withLock { $0 }
            }
            #expect(seen == [.records])
        }

        @Test func aPlaceIsReusedOnlyAfterItsRelease() {
            let seen = outcomes {
                let ring = TestRing(byteCount: 4096)
                let old = Message(sequence: 1, packetByteCount: 2048 - 64)
                let new = Message(sequence: 9, packetByteCount: 2048 - 64)
                _ = ring.append(old)
                _ = ring.append(old)
                ring.producer.publish()
                let fitted = Mutex(false)
                let read = Mutex<[Message]>([])
                together(
                    { fitted.withLock { $0 = ring.append(new) } },
                    {
                        if let message = ring.next() { read.withLock { $0.append(message) } }
                        ring.consumer.release()
                        if let message = ring.next() { read.withLock { $0.append(message) } }
                    })
                #expect(read.withLock { $0 } == [old, old])
                return fitted.withLock { $0 }
            }
            #expect(seen.isSubset(of: [true, false]))
        }

        @Test func aWakeDuringAWaitOrBeforeItEndsIt() {
            let seen = outcomes {
                let ring = TestRing(byteCount: 4096)
                let waker = ring.consumer.waker()
                let answer = Mutex<RingWait>(.timedOut)
                together(
                    { waker.wake() },
                    { answer.withLock { $0 = ring.wait(timeoutNanoseconds: 60_000_000_000) } })
                return answer.withLock { $0 }
            }
            #expect(seen == [.woken])
        }

        @Test func aRecordPublishedDuringAWaitOrBeforeItEndsIt() {
            let seen = outcomes {
                let ring = TestRing(byteCount: 4096)
                let answer = Mutex<RingWait>(.timedOut)
                together(
                    {
                        _ = ring.append(Message(sequence: 1, packetByteCount: 1))
                        ring.producer.publish()
                    },
                    { answer.withLock { $0 = ring.wait(timeoutNanoseconds: 60_000_000_000) } })
                return answer.withLock { $0 }
            }
            #expect(seen == [.records])
        }
    }
}

extension RingThreadTests {
    @Suite struct RingStressTests {
        /// FNV-1a over a record's bytes.
        private static func checksum(_ bytes: some Sequence<UInt8>) -> UInt64 {
            bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        }

        /// Sends 40,000 records of random sizes and batches through a ring that they fill many times over.
        @Test(arguments: [(4096, 2048), (4096, 512), (1 << 16, 1 << 15), (1 << 16, 4096)])
        func everyRecordArrivesOnceInOrderAndUndamaged(arenaByteCount: Int, slabByteCount: Int) {
            let ring = TestRing(byteCount: arenaByteCount, slabByteCount: slabByteCount)
            let recordCount = UInt64(20 * runCount)
            let damaged = Atomic(0)
            let received = Atomic<UInt64>(0)
            together(
                {
                    var random = SeededRandom(seed: 42)
                    for sequence in 0..<recordCount {
                        var message = Message(
                            sequence: sequence,
                            packetByteCount: Int.random(in: 0...300, using: &random)
                        )
                        message.packet.withUnsafeMutableBytes { random.fill($0) }
                        var header = message.header
                        header.epoch = Self.checksum(message.packet)
                        while !ring.producer.write(message.packet, header) {
                            ring.producer.publish()
                        }
                        ring.producer.commit()
                        if random.next() % 8 == 0 { ring.producer.publish() }
                    }
                    ring.producer.close()
                },
                {
                    var expected: UInt64 = 0
                    while ring.wait(timeoutNanoseconds: 60_000_000_000) == .records {
                        while let record = ring.consumer.next() {
                            let isWhole =
                                record.header.sequence == expected
                                && record.header.epoch == Self.checksum(record.packetBytes)
                            if !isWhole { damaged.add(1, ordering: .relaxed) }
                            expected += 1
                        }
                        ring.consumer.release()
                    }
                    received.store(expected, ordering: .relaxed)
                })
            #expect(received.load(ordering: .relaxed) == recordCount)
            #expect(damaged.load(ordering: .relaxed) == 0)
        }

        /// Two rings, one message that goes to and fro: each side sleeps before each answer, so that a lost
        /// wake-up stops both for good.
        @Test func noWakeUpIsLostInTwentyThousandRoundTrips() {
            let there = TestRing(byteCount: 4096)
            let back = TestRing(byteCount: 4096)
            let rounds: UInt64 = 20_000
            let timeouts = Atomic(0)
            @Sendable func relay(from: TestRing, to: TestRing) {
                for round in 0..<rounds {
                    let answer = from.wait(timeoutNanoseconds: 60_000_000_000)
                    guard answer == .records, from.next()?.sequence == round else {
                        timeouts.add(1, ordering: .relaxed)
                        return
                    }
                    from.consumer.release()
                    _ = to.append(Message(sequence: round, packetByteCount: 8))
                    to.producer.publish()
                }
            }
            together(
                {
                    _ = there.append(Message(sequence: 0, packetByteCount: 8))
                    there.producer.publish()
                    for round in 0..<rounds {
                        guard back.wait(timeoutNanoseconds: 60_000_000_000) == .records,
                            back.next()?.sequence == round
                        else {
                            timeouts.add(1, ordering: .relaxed)
                            return
                        }
                        back.consumer.release()
                        _ = there.append(Message(sequence: round + 1, packetByteCount: 8))
                        there.producer.publish()
                    }
                },
                { relay(from: there, to: back) })
            #expect(timeouts.load(ordering: .relaxed) == 0)
        }

        @Test func aSleepingConsumerIsWokenByTheLastProducerGoingAway() {
            let ring = TestRing(byteCount: 4096)
            let answer = Mutex<RingWait>(.timedOut)
            together(
                { ring.producer.close() },
                { answer.withLock { $0 = ring.wait(timeoutNanoseconds: 60_000_000_000) } })
            #expect(answer.withLock { $0 } == .closed)
        }
    }
}

extension SeededRandom {
    fileprivate mutating func fill(_ bytes: UnsafeMutableRawBufferPointer) {
        for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: next()) }
    }
}
