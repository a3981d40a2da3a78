import Testing

@testable import IngestClient
@testable import IngestFormat

/// The public sender: identity, and what its lock and timer add to the stream.
struct EventSenderTests {
    @Test func `S1: An epoch is milliseconds and 20 random bits, greater at each start`() {
        let early = SenderIdentity.epoch(unixMilliseconds: 1_000, random: .max)
        let late = SenderIdentity.epoch(unixMilliseconds: 1_001, random: 0)
        #expect(early.rawValue == 1_000 << 20 | 0xF_FFFF)
        #expect(late.rawValue == 1_001 << 20)
        #expect(early.rawValue < late.rawValue)
        // Year 2100: the shift loses nothing.
        let far = SenderIdentity.epoch(unixMilliseconds: 4_102_444_800_000, random: 5)
        #expect(far.rawValue >> 20 == 4_102_444_800_000)
    }

    @Test func `A sender's id is the one given, or a random one above 0`() throws {
        var options = EventSender.Options()
        options.senderID = 42
        let transport = RecordingTransport()
        #expect(try EventSender(transport: transport, options: options).senderID == 42)
        let ids = try (0..<50).map { _ in
            try EventSender(transport: transport, options: EventSender.Options()).senderID
        }
        #expect(Set(ids).count == 50)
        #expect(!ids.contains(0))
    }

    @Test func `An option outside its bounds is an error of open, not the end of the program`() {
        let table: [(String, (inout EventSender.Options) -> Void)] = [
            ("senderID", { $0.senderID = 0 }),
            ("packetByteCountMax", { $0.packetByteCountMax = 1_199 }),
            ("packetByteCountMax", { $0.packetByteCountMax = 65_508 }),
            ("packetByteCountMax", { $0.packetByteCountMax = -1 }),
            ("batchDelay", { $0.batchDelay = .zero }),
            ("batchDelay", { $0.batchDelay = .seconds(2) }),
            ("givesUpAfter", { $0.givesUpAfter = .milliseconds(999) }),
        ]
        for (name, breakIt) in table {
            var options = EventSender.Options()
            breakIt(&options)
            let error = #expect(throws: ClientError.self) {
                try EventSender.open(to: "127.0.0.1:9", options: options)
            }
            #expect(error.map { "\($0)".hasPrefix("\(name) is ") } == true, "\(name)")
            #expect(error?.exitCode == 64)
        }
    }

    @Test func `Events of many threads all arrive, each once`() async throws {
        let transport = RecordingTransport()
        let sender = try EventSender(transport: transport, options: EventSender.Options())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for part in 0..<4 {
                group.addTask {
                    for number in 0..<500 {
                        var event = SampleEvents.event(number)
                        event.timestampMicroseconds = Int64(part * 500 + number)
                        let outcome = try sender.send(event)
                        #expect(outcome == .taken)
                    }
                }
            }
            try await group.waitForAll()
        }
        let result = try await sender.close()
        #expect(result.eventsSent == 2_000)
        let packets = transport.packets(ofKind: 1)
        #expect(Set(try decodedEvents(packets).map(\.timestampUs)) == Set(0..<2_000))
        #expect(packets.map(\.sequence) == (0..<result.packetsSent).map { $0 })
        #expect(Set(packets.map(\.epoch)).count == 1)
    }

    @Test(arguments: [false, true])
    func `A network error of the last burst is one of close, though the heartbeat behind it passes`(
        isFlushed: Bool
    ) throws {
        let transport = RecordingTransport()
        var options = EventSender.Options()
        options.batchDelay = .seconds(1)
        let sender = try EventSender(transport: transport, options: options)
        #expect(try sender.send(SampleEvents.event(1)) == .taken)
        try sender.flush()
        #expect(try sender.send(SampleEvents.event(2)) == .taken)
        let error = ClientError.notListening(address: "there")
        transport.fail(with: error, count: 1)
        if isFlushed { try sender.flush() }
        #expect(throws: error) { _ = try sender.close() }
        #expect(sender.totals.eventsSent == 1)
        #expect(transport.packets(ofKind: 2).map(\.sequence) == [2], "the loss is announced")
    }

    /// No flush: the batch delay is up, and the thread sends.
    @Test func `Without acks a sender's own thread sends what waits, and close announces it`()
        throws
    {
        let peer = UDPPeer()
        var options = EventSender.Options()
        options.delivery = .unacked
        options.batchDelay = .milliseconds(5)
        let sender = try EventSender.open(to: peer.address, options: options)
        #expect(try sender.send(SampleEvents.event(1)) == .taken)
        peer.waitForDatagrams(1)
        let result = try sender.close()
        #expect((result.eventsSent, result.packetsSent, result.eventsAcked) == (1, 1, 0))
        peer.waitForDatagrams(2)
        let receiver = peer.kill()
        #expect(receiver.greatestSequence == 0)
        #expect(receiver.faults.isEmpty, "\(receiver.faults)")
    }

    @Test func `An event is refused for each bound that it breaks, with the bound`() throws {
        let sender = try EventSender(
            transport: RecordingTransport(), options: EventSender.Options())
        let long = String(repeating: "x", count: 129)
        let table: [(String, (inout AdEvent) -> Void)] = [
            ("rewardID", { $0.rewardID = "" }),
            ("rewardID", { $0.rewardID = long }),
            ("businessID", { $0.businessID = "" }),
            ("businessID", { $0.businessID = long }),
            ("eventID", { $0.eventID = [UInt8](repeating: 0, count: 65) }),
            ("sessionID", { $0.sessionID = long }),
            ("timestampMicroseconds", { $0.timestampMicroseconds = -1 }),
            ("revenueMicros", { $0.revenueMicros = -1 }),
            ("spendMicros", { $0.spendMicros = .max }),
            (
                "visiblePartsPerMillion",
                {
                    $0.viewability = .init(
                        visiblePartsPerMillion: 1_000_001, durationMilliseconds: 0)
                }
            ),
        ]
        for (field, breakIt) in table {
            var event = SampleEvents.event(1)
            breakIt(&event)
            guard case .refused(let refusal) = try sender.send(event) else {
                Issue.record("\(field) passes")
                continue
            }
            #expect("\(refusal)".hasPrefix(field + " "), "\(refusal)")
        }
        let result = try sender.close()
        #expect(result.eventsRefused == UInt64(table.count))
        #expect(result.eventsSent == 0)
    }

    @Test func `Decoration that the receiver would drop does not leave, and costs no event`() throws
    {
        let transport = RecordingTransport()
        let sender = try EventSender(transport: transport, options: EventSender.Options())
        var event = SampleEvents.event(1)
        event.platform = "tvOS"
        event.campaign = String(repeating: "x", count: 65)
        event.source = "someone@example.org"
        #expect(try sender.send(event) == .taken)
        event.campaign = String(repeating: "x", count: 64)
        #expect(try sender.send(event) == .taken)
        #expect(try sender.close().eventsRefused == 0)
        let events = try decodedEvents(transport.packets(ofKind: 1))
        #expect(events.map(\.platform) == ["tvOS", "tvOS"])
        #expect(events.map(\.campaign.utf8.count) == [0, 64])
        #expect(events.map(\.source) == ["", ""])
    }

    /// What the client lets pass the daemon's decoder takes too.
    @Test func `The largest event that is allowed fits a packet and is decoded`() throws {
        let transport = RecordingTransport()
        var options = EventSender.Options()
        options.packetByteCountMax = 1_200
        let sender = try EventSender(transport: transport, options: options)
        let name = String(repeating: "x", count: 128)
        var event = AdEvent(
            .redemption, rewardID: name, businessID: name,
            timestampMicroseconds: Limits.timestampMicrosecondsMax)
        event.eventID = [UInt8](repeating: 1, count: 64)
        for path in [\AdEvent.sessionID, \.platform, \.campaign, \.source] {
            event[keyPath: path] = String(repeating: "y", count: 64)
        }
        event.revenueMicros = Limits.moneyMicrosMax
        event.spendMicros = Limits.moneyMicrosMax
        event.viewability = .init(
            visiblePartsPerMillion: 1_000_000, durationMilliseconds: .max, format: .video)
        event.isInvalidTraffic = true
        event.consent = .optIn
        for _ in 0..<3 { #expect(try sender.send(event) == .taken) }
        _ = try sender.close()
        let decoder = EventDecoder(hash: KeyedHash(key: InlineArray(repeating: 0)))
        let scratch = EventScratch()
        var count = 0
        for packet in transport.packets(ofKind: 1) {
            let outcome = packet.bytes.withUnsafeBytes {
                decoder.decode(
                    $0, payloadOffset: 40, payloadByteCount: $0.count - 40, into: scratch)
            }
            guard case .events(let decoded, 0, 0) = outcome else {
                Issue.record("\(outcome)")
                continue
            }
            count += decoded
        }
        #expect(count == 3)
    }
}
