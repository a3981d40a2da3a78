import Foundation
import TestSupport
import Testing

@testable import IngestClient
@testable import IngestFormat
@testable import IngestKeys

/// `EventSender` over real sockets, against a receiver that acks.
struct EventSenderAckTests {
    private static func options(
        _ change: (inout EventSender.Options) -> Void = { _ in }
    ) -> EventSender.Options {
        var options = EventSender.Options()
        options.delivery = .acked
        options.batchDelay = .milliseconds(5)
        change(&options)
        return options
    }

    private static func check(_ receiver: ModelReceiver, count: Int) throws {
        #expect(receiver.faults.isEmpty, "\(receiver.faults)")
        let times = try receiver.durableEvents().map(\.timestampUs)
        #expect(times.count == count)
        #expect(Set(times) == Set((0..<count).map { 1_700_000_000_000_000 + Int64($0) }))
    }

    @Test func `Everything that was sent is acked when close returns`() throws {
        let peer = UDPPeer()
        let sender = try EventSender.open(to: peer.address, options: Self.options())
        for number in 0..<3_000 { #expect(try sender.send(SampleEvents.event(number)) == .taken) }
        let result = try sender.close()
        #expect(result.eventsSent == 3_000)
        #expect(result.eventsAcked == 3_000)
        try Self.check(peer.kill(), count: 3_000)
        #expect(throws: ClientError.closed) { try sender.flush() }
    }

    @Test func `Loss both ways is made good`() throws {
        let peer = UDPPeer(lossPercent: 20)
        let sender = try EventSender.open(to: peer.address, options: Self.options())
        for number in 0..<2_000 { _ = try sender.send(SampleEvents.event(number)) }
        let result = try sender.close()
        #expect(result.eventsAcked == 2_000)
        #expect(result.packetsResent > 0)
        try Self.check(peer.kill(), count: 2_000)
    }

    @Test func `A receiver that is killed and starts again gets the rest`() throws {
        let peer = UDPPeer()
        let sender = try EventSender.open(
            to: peer.address, options: Self.options { $0.unackedByteCountMax = 1 << 20 })
        for part in 0..<4 {
            for number in 0..<500 {
                #expect(try sender.send(SampleEvents.event(500 * part + number)) == .taken)
            }
            peer.restart()
        }
        #expect(try sender.close().eventsAcked == 2_000)
        try Self.check(peer.kill(), count: 2_000)
    }

    @Test func `S2: A spool outlives its sender, and the next one goes on under the same epoch`()
        throws
    {
        let folder = try TemporaryFolder()
        let options = Self.options { $0.delivery = .spooled(directory: folder.path) }
        let peer = UDPPeer(lossPercent: 30)
        var senders: Set<UInt64> = []
        for part in 0..<5 {
            let sender = try EventSender.open(to: peer.address, options: options)
            senders.insert(sender.senderID)
            for number in 0..<200 { _ = try sender.send(SampleEvents.event(200 * part + number)) }
            // Dropped without a close, as if the process had ended.
            try sender.flush()
        }
        let last = try EventSender.open(to: peer.address, options: options)
        _ = try last.close()
        let receiver = peer.kill()
        try Self.check(receiver, count: 1_000)
        #expect(senders.count == 1)
        #expect(
            Set(
                try FileManager.default.contentsOfDirectory(atPath: folder.path).map {
                    $0.suffix(6)
                })
                == ["LOCK", ".spool", "eserve"])
    }

    @Test func `An empty spool of a random sender is gone on with by a key's own sender`() throws {
        let folder = try TemporaryFolder()
        let keys = try folder.write("keys", "7 000102030405060708090a0b0c0d0e0f sender=5\n")
        chmod(keys, 0o600)
        var options = Self.options {
            $0.delivery = .spooled(directory: folder.path + "/spool")
        }
        do {
            let sender = try EventSender.open(to: "127.0.0.1:9", options: options)
            #expect(sender.senderID != 5)
        }
        options.key = try EventSender.Key(id: 7, file: keys)
        do {
            let sender = try EventSender.open(to: "127.0.0.1:9", options: options)
            #expect(sender.senderID == 5)
            _ = try sender.send(SampleEvents.event(1))
            try sender.flush()
        }
        // Any key will do for what it holds, or none.
        options.key = nil
        let next = try EventSender.open(to: "127.0.0.1:9", options: options)
        #expect(next.senderID == 5)
    }

    @Test func `An event is on disk when send has returned, where each shall be`() throws {
        let folder = try TemporaryFolder()
        let deaf = UDPPeer(lossPercent: 100)
        let options = Self.options {
            $0.delivery = .spooled(directory: folder.path, durableAtSend: true)
            $0.batchDelay = .seconds(1)
        }
        do {
            let sender = try EventSender.open(to: deaf.address, options: options)
            for number in 0..<20 { #expect(try sender.send(SampleEvents.event(number)) == .taken) }
        }
        let peer = UDPPeer(receiver: deaf.kill())
        let next = try EventSender.open(to: peer.address, options: options)
        let result = try next.close()
        #expect(result.eventsAcked == 20)
        #expect(result.elapsed > .zero)
        try Self.check(peer.kill(), count: 20)
    }

    @Test func `A full sender says so and takes nothing`() throws {
        let peer = UDPPeer()
        peer.change { $0.credit = 0 }
        let sender = try EventSender.open(
            to: peer.address,
            options: Self.options { $0.unackedByteCountMax = 1 << 20 })
        // Before the first answer packets leave without credit: the first event is acked, or, where the answer to a
        // heartbeat was there before it, stays.
        #expect(try sender.send(SampleEvents.event(0)) == .taken)
        try sender.flush()
        while !sender.loop.state.withLock({
            $0.stream.acks.hasCredit && $0.stream.congestion.inFlightCount == 0
        }) {
            sender.loop.waitForProgress(nanosecondsMax: .max)
        }
        var count = 1
        while try sender.send(SampleEvents.event(count)) == .taken { count += 1 }
        #expect(try sender.send(SampleEvents.event(count)) == .full)
        let error = #expect(throws: ClientError.self) {
            try sender.close(within: .milliseconds(50))
        }
        guard case .notAcked(let events, let packets, .deadline)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(events >= count - 1 && events <= count && packets > 0)
        #expect(sender.state == .working)
        peer.change { $0.credit = 10_000 }
        #expect(try sender.close().eventsAcked == UInt64(count))
        #expect(sender.state == .ended(.closed))
        try Self.check(peer.kill(), count: count)
    }

    @Test func `Many tasks wait for room, and all of it arrives`() async throws {
        let peer = UDPPeer(lossPercent: 5)
        peer.change { $0.credit = 100 }
        let sender = try EventSender.open(
            to: peer.address, options: Self.options { $0.unackedByteCountMax = 1 << 20 })
        try await withThrowingTaskGroup(of: Void.self) { group in
            for part in 0..<3 {
                group.addTask {
                    for number in 0..<3_000 {
                        let event = SampleEvents.event(3_000 * part + number)
                        let refusal = try await sender.sendWhenRoom(event)
                        #expect(refusal == nil)
                    }
                }
            }
            try await group.waitForAll()
        }
        let totals = try await sender.close()
        #expect(totals.eventsAcked == 9_000)
        try Self.check(peer.kill(), count: 9_000)
    }

    @Test func `Tasks that wait can be cancelled or run out of time, and nothing is lost by it`()
        async throws
    {
        let peer = UDPPeer()
        peer.change { $0.credit = 0 }
        let sender = try EventSender.open(
            to: peer.address, options: Self.options { $0.unackedByteCountMax = 1 << 20 })
        // Before the first ack 64 packets may leave, and their acks would make room again.
        #expect(eventually { sender.loop.state.withLock { $0.stream.acks.hasCredit } })
        var count = 0
        while try sender.send(SampleEvents.event(count)) == .taken { count += 1 }
        let event = SampleEvents.event(count)
        let waits = Task { try await sender.sendWhenRoom(event) }
        waits.cancel()
        await #expect(throws: ClientError.cancelled) { try await waits.value }
        let closes = Task { try await sender.close() }
        closes.cancel()
        await #expect(throws: ClientError.cancelled) { try await closes.value }
        let error = await #expect(throws: ClientError.self) {
            try await sender.close(within: .milliseconds(50))
        }
        switch error {
        // The others where answers take over two seconds here, or they have come for as long.
        case .notAcked(UInt64(count), 1..., .deadline), .notAcked(_, _, .noAnswer),
            .notAcked(_, _, .notTaken):
            break
        default: Issue.record("\(String(describing: error))")
        }
        #expect(try sender.send(event) == .full)
        peer.change { $0.credit = 10_000 }
        #expect(try await sender.close().eventsAcked == UInt64(count))
        try Self.check(peer.kill(), count: count)
    }

    @Test func `When the time is up it is said what the packets wait for`() async throws {
        let deaf = UDPPeer(lossPercent: 100)
        let sender = try EventSender.open(to: deaf.address, options: Self.options())
        #expect(try sender.send(SampleEvents.event(0)) == .taken)
        try sender.flush()
        let cause = { (error: ClientError?) in
            if case .notAcked(1, 1, .noAnswer(deaf.address, 2...))? = error { true } else { false }
        }
        #expect(
            cause(
                await #expect(throws: ClientError.self) {
                    try await sender.close(within: .milliseconds(2_500))
                }))
        #expect(cause(#expect(throws: ClientError.self) { try Self.close(sender) }))
        #expect(deaf.kill().faults.isEmpty)
    }

    /// Blocks, as a thread may.
    private static func close(_ sender: EventSender) throws(ClientError) -> EventSender.Totals {
        try sender.close(within: .milliseconds(1))
    }

    @Test func `An address where nobody listens ends close with 69`() throws {
        let nobody = LoopbackSocket.refusing()
        defer { nobody.close() }
        let sender = try EventSender.open(
            to: "127.0.0.1:\(nobody.port)", options: Self.options { $0.givesUpAfter = .seconds(1) })
        _ = try sender.send(SampleEvents.event(1))
        let error = #expect(throws: ClientError.self) { try sender.close() }
        #expect(error?.exitCode == 69)
    }

    private static func otherSender(_ path: String) -> ClientError {
        .keys(path: path, .otherSender(id: 7, sender: 5))
    }

    @Test func `An ack is believed under each key of the file that its sender may use`() throws {
        let folder = try TemporaryFolder()
        let owners = [" sender=7", " sender=7", "", " sender=8"]
        let keys = try folder.write(
            "keys",
            owners.enumerated().map {
                "\($0 + 1) \(String(repeating: "0\($0 + 1)", count: 16))\($1)\n"
            }.joined())
        chmod(keys, 0o600)
        let key = try EventSender.Key(id: 1, file: keys)
        let configuration = Self.options { $0.key = key }
            .configuration(SampleEvents.identity(sender: 7), address: "")
        for (id, signer) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (2, 1), (1, 2)]
            as [(UInt16, UInt8)]
        {
            let rig = StreamRig {
                ($0.key, $0.otherKeys) = (configuration.key, configuration.otherKeys)
            }
            rig.sendPackets(1)
            let header = PacketHeader(
                kind: .batch, flags: 3, keyID: id, sender: SenderID(rawValue: 7),
                epoch: SenderEpoch(rawValue: 9), sequence: PacketSequence(rawValue: 0))
            let nonce = try #require(rig.stream.watch.questions.last?.nonce)
            var ack = ModelReceiver.ack(header, floor: 1, credit: 9, .ok, echo: .nonce(nonce))
            TagKey([UInt8](repeating: signer, count: 16)).append(to: &ack)
            rig.stream.receive(ack.span, now: rig.now)
            let isBelieved = id == signer && id <= 3
            #expect(rig.totals.eventsAcked == (isBelieved ? 1 : 0), "\(id), by \(signer)")
        }
    }

    @Test func `A key of another sender is refused before anything is sent`() throws {
        let folder = try TemporaryFolder()
        let keys = try folder.write("keys", "7 000102030405060708090a0b0c0d0e0f sender=5\n")
        chmod(keys, 0o600)
        let key = try EventSender.Key(id: 7, file: keys)
        let error = #expect(throws: ClientError.self) {
            try EventSender.open(
                to: "127.0.0.1:9",
                options: Self.options {
                    $0.key = key
                    $0.senderID = 6
                })
        }
        #expect(error?.exitCode == 78)
        for delivery in [.unacked, .spooled(directory: folder.path + "/spool")]
            as [EventSender.Options.Delivery]
        {
            #expect(throws: Self.otherSender(keys)) {
                try EventSender.open(
                    to: "127.0.0.1:9",
                    options: Self.options {
                        $0.delivery = delivery
                        $0.key = key
                        $0.senderID = 6
                    })
            }
        }
        #expect(throws: ClientError.keys(path: keys, .noSuchKey(id: 8))) {
            try EventSender.Key(id: 8, file: keys)
        }
        #expect(throws: ClientError.keys(path: "/nonexistent/k", .unreadable(errno: ENOENT))) {
            try EventSender.Key(id: 8, file: "/nonexistent/k")
        }
        let sender = try EventSender.open(
            to: "127.0.0.1:9", options: Self.options { $0.key = key })
        #expect(sender.senderID == 5)
    }
}
