import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestKeys
@testable import IngestStorage

/// The rules of docs/protocol.md that a sender keeps, one by one.
struct AckedDeliveryTests {
    private static let millisecond: UInt64 = 1_000_000
    private static let second: UInt64 = 1_000_000_000

    private typealias Rig = StreamRig

    // MARK: Heartbeats

    @Test func `S4: A heartbeat leaves first, then one a second, with base and the next sequence`()
    {
        let rig = Rig()
        let first = rig.network.takePackets()
        #expect(first.map(\.kind) == [2])
        #expect(first[0].sequence == 0)
        #expect(first[0].bytes.count == 104)
        rig.ack(floor: 0)
        rig.sendPackets(5)
        rig.ack(floor: 3)
        _ = rig.network.take()
        rig.pass(3 * Self.second + 500 * Self.millisecond)
        let heartbeats = rig.network.takePackets().filter { $0.kind == 2 }
        // Three of them ask for the two packets that nobody acks.
        #expect((5...8).contains(heartbeats.count))
        #expect(heartbeats.allSatisfy { $0.sequence == 5 && $0.payload[0] == 3 })
        #expect(heartbeats.allSatisfy { $0.flags == 1 && $0.computedChecksum == $0.checksum })
    }

    @Test func `S4: Without credit it asks every 100 ms, then less and less often, up to a second`()
    {
        let rig = Rig()
        rig.ack(floor: 0)
        rig.sendPackets(1)
        rig.ack(floor: 1)
        rig.pass(5 * Self.second)
        _ = rig.network.take()
        let start = rig.now
        rig.ack(floor: 1, credit: 0)
        var times: [UInt64] = []
        while rig.now < start + 4 * Self.second {
            rig.now = rig.nextDeadline
            rig.stream.tick(now: rig.now)
            times += rig.network.takePackets().map { _ in (rig.now - start) / Self.millisecond }
        }
        // The regular one came 10 ms earlier.
        #expect(times.starts(with: [90, 290, 690, 1_490, 2_490, 3_490]))
        rig.sendPackets(3)
        #expect(rig.network.take().isEmpty, "packets without credit")
        rig.ack(floor: 1, credit: 2)
        #expect(rig.network.takePackets().map(\.sequence) == [1, 2])
    }

    @Test func `What the receiver told is of all that is acked, or is not shown`() {
        let rig = Rig()
        func tell(_ count: UInt64) {
            let nonce = rig.stream.watch.questions.last?.nonce ?? 0
            rig.ack(floor: count) {
                $0.echo = .nonce(nonce)
                $0.sums = EventSums([count])
            }
        }
        rig.ack(floor: 0)
        rig.sendPackets(3)
        rig.pass(2 * Self.second)
        tell(1)
        #expect(rig.stream.totals.receiver?.counted == 1)
        rig.ack(floor: 1) { $0.echo = .sequence(0) }
        #expect(rig.stream.totals.receiver?.counted == 1)
        rig.ack(floor: 2) { $0.echo = .sequence(1) }
        #expect(rig.stream.totals.eventsAcked == 2 && rig.stream.totals.receiver == nil)
        rig.pass(2 * Self.second)
        tell(3)
        #expect(rig.stream.totals.receiver?.counted == 3)
    }

    @Test func `A heartbeat is large enough for an answer about everything on its way`() {
        let rig = Rig()
        rig.sendPackets(1)
        rig.ack(floor: 1, credit: 5_000)
        rig.sendPackets(3_000)
        rig.pass(2 * Self.second)
        let heartbeats = rig.network.takePackets().filter { $0.kind == 2 }
        let words = AckPacket.furtherWordCount(
            fitting: heartbeats.last?.bytes.count ?? 0, hasTag: false)
        #expect((words ?? 0) * 64 + 64 >= 3_000)
    }

    // MARK: Credit

    @Test func `S5: Before the first ack 64 packets leave, and then as many as there is credit`() {
        let rig = Rig()
        rig.sendPackets(200)
        #expect(rig.network.takePackets().filter { $0.kind == 1 }.map(\.sequence) == Array(0..<64))
        rig.ack(floor: 10, credit: 70)
        #expect(rig.network.takePackets().map(\.sequence) == Array(64..<80))
        // Credit counts from the floor: less of it takes back.
        rig.ack(floor: 20, credit: 60)
        rig.ack(floor: 30, credit: 40)
        #expect(rig.network.take().isEmpty)
        rig.ack(floor: 80, credit: .max)
        #expect(rig.network.takePackets().map(\.sequence) == Array(80..<200))
    }

    @Test func `An ack of a sender that has none is not believed`() {
        let rig = Rig()
        rig.sendPackets(3)
        rig.ack(floor: 3, sender: 8)
        rig.ack(floor: 3, epoch: 8)
        for bytes in [[1, 2, 3], []] as [[UInt8]] {
            rig.stream.receive(bytes.span, now: rig.now)
        }
        #expect(rig.totals.eventsAcked == 0)
        rig.ack(floor: 3)
        #expect(rig.totals.eventsAcked == 3)
        #expect(rig.isDrained)
    }

    // MARK: Status

    @Test(arguments: [AckStatus.busy, .diskFull])
    func `A receiver that sheds gets nothing but heartbeats until it is ok again`(
        status: AckStatus
    ) {
        let rig = Rig()
        rig.ack(floor: 0)
        rig.sendPackets(5)
        rig.ack(floor: 2)
        _ = rig.network.take()
        // Sequence 0 and credit 0, for the status alone.
        rig.ack(floor: 0, credit: 0, status)
        rig.sendPackets(1)
        rig.pass(30 * Self.second)
        #expect(rig.failure == nil)
        #expect(rig.network.takePackets().allSatisfy { $0.kind == 2 })
        rig.ack(floor: 0, credit: 0, status)
        rig.answer(floor: 2)
        rig.pass(Self.millisecond)
        #expect(rig.network.takePackets().filter { $0.kind == 1 }.map(\.sequence) == [2, 3, 4, 5])
    }

    @Test(arguments: [AckStatus.busy, .diskFull, .ok])
    func `A receiver that takes nothing for too long ends a sender without a spool`(
        status: AckStatus
    ) {
        let rig = Rig { $0.silenceNanosecondsMax = 60 * Self.second }
        rig.ack(floor: 0)
        rig.sendPackets(5)
        rig.ack(floor: 2)
        let cause: ClientError.BlockCause =
            switch status {
            case .busy: .busy
            case .diskFull: .diskFull
            default: .noCredit
            }
        func answerSeconds(_ count: Int, floor: UInt64) {
            for _ in 0..<count {
                rig.ack(floor: status == .ok ? floor : 0, credit: 0, status)
                rig.pass(Self.second)
            }
        }
        answerSeconds(30, floor: 2)
        #expect(rig.obstacle == .notTaken(address: "", cause: cause, seconds: 30))
        // What is acked meanwhile is an answer.
        rig.answer(floor: 3)
        #expect(rig.obstacle == nil)
        answerSeconds(59, floor: 3)
        #expect(rig.failure == nil)
        answerSeconds(2, floor: 3)
        #expect(rig.failure == .notTaken(address: "", cause: cause, seconds: 60))
    }

    @Test func `Answers that ack nothing end no block: packets are refused between them`() {
        let rig = Rig { $0.silenceNanosecondsMax = 60 * Self.second }
        rig.ack(floor: 0)
        rig.sendPackets(5)
        for second in 0..<61 {
            rig.ack(floor: 0, credit: 0, .busy)
            rig.pass(Self.second / 2)
            rig.answer(floor: 0)
            rig.pass(Self.second / 2)
            if second == 30 {
                guard case .notTaken("", .busy, 30...)? = rig.obstacle else {
                    Issue.record("\(rig.obstacle as Any)")
                    return
                }
            }
        }
        #expect(rig.failure == .notTaken(address: "", cause: .busy, seconds: 60))
    }

    @Test func `A block goes on where the receiver has packets that its disk has not`() {
        let rig = Rig { $0.silenceNanosecondsMax = 60 * Self.second }
        rig.ack(floor: 0)
        rig.sendPackets(5)
        rig.ack(floor: 0, credit: 0, .busy)
        rig.answer(floor: 0)
        for second in 0..<62 {
            if second == 59 { #expect(rig.failure == nil) }
            rig.answer(floor: 0, isPending: true)
            rig.pass(Self.second)
        }
        #expect(rig.failure == .notTaken(address: "", cause: .busy, seconds: 60))
    }

    @Test func `A pending answer to a sender all of whose packets are acked blocks nothing`() {
        let rig = Rig { $0.silenceNanosecondsMax = 60 * Self.second }
        rig.ack(floor: 0)
        rig.sendPackets(1)
        rig.answer(floor: 1)
        rig.answer(floor: 1, isPending: true)
        rig.pass(600 * Self.second)
        rig.sendPackets(1)
        #expect(rig.failure == nil && rig.obstacle == nil)
    }

    @Test func `A block ends with what waited, and is no cause of what is lost later`() {
        let rig = Rig { $0.silenceNanosecondsMax = 60 * Self.second }
        rig.ack(floor: 0)
        rig.sendPackets(1)
        rig.ack(floor: 0, credit: 0, .busy)
        rig.answer(floor: 1)
        rig.pass(600 * Self.second)
        rig.sendPackets(2)
        for _ in 0..<62 {
            rig.answer(floor: 1)
            rig.pass(Self.second)
        }
        let hasNoProgress = if case .noProgress? = rig.failure { true } else { false }
        #expect(hasNoProgress, "\(rig.failure as Any)")
    }

    @Test func `A refused epoch ends the sender, with both epochs`() {
        let rig = Rig()
        rig.sendPackets(1)
        rig.answer(floor: 0, credit: 0, .refused, epoch: 55)
        #expect(rig.failure == .refused(sender: 7, epoch: 9, cause: .newerEpoch(55)))
        #expect(rig.nextDeadline == .max)
    }

    @Test func `Beyond the window it tells its base at once`() {
        let rig = Rig()
        rig.ack(floor: 0)
        rig.sendPackets(1)
        rig.pass(200 * Self.millisecond)
        _ = rig.network.take()
        rig.ack(floor: 0, credit: 0, .beyondWindow)
        rig.stream.tick(now: rig.now)
        #expect(rig.network.takePackets().contains { $0.kind == 2 })
        // But not for each of many.
        rig.ack(floor: 0, credit: 0, .beyondWindow)
        rig.stream.tick(now: rig.now)
        #expect(!rig.network.takePackets().contains { $0.kind == 2 })
    }

    // MARK: What must not be silent

    @Test func `A receiver with packets that were never sent from here has another's`() {
        let rig = Rig()
        rig.sendPackets(5)
        rig.ack(floor: 6)
        #expect(rig.failure == .unknownPackets(sender: 7, sequence: 5, next: 5))
        // Nor does it have packets that wait for credit here.
        let waiting = Rig()
        waiting.sendPackets(100)
        waiting.ack(floor: 0, credit: 64, words: [.max, 1 << 35])
        #expect(waiting.totals.eventsAcked == 0)
        #expect(waiting.failure == .unknownPackets(sender: 7, sequence: 99, next: 64))
        // Without keys anybody could say so, who cannot answer a heartbeat.
        let forged = Rig()
        forged.sendPackets(5)
        forged.ack(floor: 2)
        forged.ack(floor: 1_000)
        #expect(forged.failure == nil && forged.totals.eventsAcked == 2)
        forged.answer(floor: 1_000)
        #expect(forged.failure == .unknownPackets(sender: 7, sequence: 999, next: 5))
    }

    @Test func `Silence ends the sender after its time, a wrong address sooner`() {
        let rig = Rig { $0.silenceNanosecondsMax = 30 * Self.second }
        rig.pass(100 * Self.second)
        #expect(rig.failure == nil, "nothing waits for an answer")
        rig.sendPackets(1)
        rig.pass(29 * Self.second)
        #expect(rig.failure == nil)
        rig.pass(2 * Self.second)
        #expect(rig.failure?.exitCode == 69)

        let wrong = Rig { $0.silenceNanosecondsMax = 30 * Self.second }
        wrong.network.fail(with: .notListening(address: "x:1"))
        wrong.sendPackets(1)
        wrong.pass(9 * Self.second)
        #expect(wrong.failure == nil)
        wrong.pass(2 * Self.second)
        #expect(wrong.failure == .notListening(address: "x:1"))
    }

    // MARK: Bounds, ids, tags

    @Test func `As much is taken as may be unacked, and more after an ack`() {
        let rig = Rig { $0.unackedByteCountMax = 100_000 }
        var count = 0
        while rig.send(SampleEvents.event(count)) == .taken { count += 1 }
        #expect(count > 500)
        #expect(rig.unackedByteCount <= 100_000)
        rig.ack(floor: rig.sentEnd)
        #expect(rig.send(SampleEvents.event(0)) == .taken)
    }

    @Test func `S2: Events keep the id that they came with, or none`() throws {
        let rig = Rig()
        let line = Array(SampleEvents.line(1).utf8)
        for number in 0..<20 {
            var event = SampleEvents.event(number)
            event.eventID = number % 2 == 0 ? [] : [7]
            _ = rig.send(event)
            _ = rig.stream.send(jsonLine: line.span, now: rig.now)
        }
        rig.flush()
        let events = try decodedEvents(rig.network.takePackets().filter { $0.kind == 1 })
        #expect(events.count == 40)
        #expect(events.filter { Array($0.eventID) == [7] }.count == 10)
        #expect(events.filter(\.eventID.isEmpty).count == 30)
    }

    @Test func `With a key every packet is tagged, and only tagged acks are believed`() throws {
        let key = PacketKey(id: 3, key: [UInt8](0..<32))
        let rig = Rig { $0.key = key }
        for number in 0..<300 { _ = rig.send(SampleEvents.event(number)) }
        rig.flush()
        let packets = rig.network.takePackets()
        #expect(packets.count > 10)
        for packet in packets {
            #expect(packet.keyID == 3 && packet.flags == 3)
            #expect((96...1_200).contains(packet.bytes.count))
            #expect(packet.bytes.withUnsafeBytes { key.tag.isTag(of: $0) })
        }
        #expect(packets[1...].dropLast().allSatisfy { $0.bytes.count == 1_200 })
        rig.ack(floor: 1)
        #expect(rig.totals.eventsAcked == 0)
        let header = PacketHeader(
            kind: .batch, flags: 3, keyID: 3, sender: SenderID(rawValue: 7),
            epoch: SenderEpoch(rawValue: 9), sequence: PacketSequence(rawValue: 0))
        let nonce = try #require(rig.stream.watch.questions.last?.nonce)
        var ack = ModelReceiver.ack(header, floor: 1, credit: 9, .ok, echo: .nonce(nonce))
        key.tag.append(to: &ack)
        var forged = ack
        forged[ack.count - 1] ^= 1
        rig.stream.receive(forged.span, now: rig.now)
        #expect(rig.totals.eventsAcked == 0)
        rig.stream.receive(ack.span, now: rig.now)
        #expect(rig.totals.eventsAcked > 0)
    }

    @Test func `S8: Packets of a burst are of equal size, and a packet sent again is the same`() {
        let rig = Rig()
        rig.ack(floor: 0)
        for number in 0..<500 { _ = rig.send(SampleEvents.event(number)) }
        rig.flush()
        let first = rig.network.takePackets().filter { $0.kind == 1 }
        #expect(first.dropLast().allSatisfy { $0.bytes.count == 1_200 })
        rig.pass(600 * Self.millisecond)
        rig.answer(floor: 0)
        let again = rig.network.takePackets().filter { $0.kind == 1 }
        #expect(again.map(\.bytes) == first.map(\.bytes))
        #expect(rig.totals.packetsResent == UInt64(first.count))
        #expect(rig.totals.packetsSent == UInt64(first.count))
    }

    @Test func `An idle sender has nothing to do but its heartbeats`() {
        let rig = Rig()
        rig.ack(floor: 0)
        rig.sendPackets(3)
        rig.ack(floor: 3)
        rig.pass(2 * Self.second)
        var steps = 0
        let end = rig.now + 10 * Self.second
        while rig.nextDeadline < end {
            rig.now = rig.nextDeadline
            rig.stream.tick(now: rig.now)
            steps += 1
        }
        #expect(steps <= 11)
    }
}
