import Foundation
import Glibc
import SwiftProtobuf
import Testing

@testable import IngestClient
@testable import IngestFormat

/// What leaves a sender, read by code that shares nothing with it.
struct UnackedDeliveryTests {
    @Test func `JSON lines arrive as the same events, for swift-protobuf`() throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        let count = 500
        for number in 0..<count {
            #expect(try stream.send(jsonLine: Array(SampleEvents.line(number).utf8).span) == .taken)
        }
        let result = try stream.close()
        let events = try decodedEvents(transport.packets(ofKind: 1))
        #expect(result.eventsSent == UInt64(count))
        #expect(events.count == count)
        for (number, event) in events.enumerated() {
            try expect(event, equalsLine: SampleEvents.line(number))
        }
    }

    /// Field by field against Foundation's reading of the line.
    private func expect(_ event: Ingest_V1_Event, equalsLine line: String) throws {
        let object = try #require(
            JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        let names = ["impression": 1, "click": 2, "redemption": 3]
        #expect(event.type.rawValue == names[object["eventType"] as? String ?? ""])
        #expect(event.rewardID == object["rewardId"] as? String)
        #expect(event.businessID == object["businessId"] as? String)
        #expect(event.timestampUs == (object["timestamp"] as? Int64 ?? -1) * 1000)
        #expect(event.eventID == Data((object["eventId"] as? String ?? "").utf8))
        #expect(event.sessionID == object["sessionId"] as? String ?? "")
        let isMeasured = object["metadata"] != nil
        #expect(event.hasViewability == isMeasured)
        #expect(event.viewability.visiblePpm == (isMeasured ? 750_000 : 0))
        #expect(event.viewability.durationMs == (isMeasured ? 1_500 : 0))
        #expect(event.platform == (isMeasured ? "tvOS" : ""))
    }

    @Test func `Every field of an event value arrives`() throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        var event = SampleEvents.event(2)
        event.eventID = [0, 255, 1]
        event.sessionID = "sitzung-ü"
        event.consent = .optOut
        event.viewability = .init(
            visiblePartsPerMillion: 0, durationMilliseconds: 0, format: .video)
        event.platform = "iOS"
        event.campaign = "spring"
        event.source = "mail"
        event.revenueMicros = 12_500_000
        event.spendMicros = 1
        event.isInvalidTraffic = true
        #expect(try stream.send(event) == .taken)
        _ = try stream.close()
        let arrived = try #require(try decodedEvents(transport.packets(ofKind: 1)).first)
        #expect(arrived.type == .redemption)
        #expect(arrived.rewardID == event.rewardID)
        #expect(arrived.businessID == event.businessID)
        #expect(arrived.timestampUs == event.timestampMicroseconds)
        #expect(arrived.eventID == Data([0, 255, 1]))
        #expect(arrived.sessionID == "sitzung-ü")
        #expect(arrived.consent == .optOut)
        #expect(arrived.hasViewability, "measured as 0 % for 0 s is not \"not measured\"")
        #expect(arrived.viewability.format == .video)
        #expect(arrived.platform == "iOS")
        #expect(arrived.campaign == "spring")
        #expect(arrived.source == "mail")
        #expect(arrived.revenueMicros == 12_500_000)
        #expect(arrived.spendMicros == 1)
        #expect(arrived.invalidTraffic)
    }

    @Test(arguments: [1_200, 1_452, 1_473, 9_000, 65_507])
    func `Packets of a burst are of equal size but for the last, and none is too small`(
        packetByteCountMax: Int
    ) throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport, packetByteCountMax: packetByteCountMax)
        for number in 0..<3_000 {
            _ = try stream.send(SampleEvents.event(number))
            if number % 777 == 0 { try stream.flush() }
        }
        _ = try stream.close()
        for call in transport.calls {
            #expect(call.dropLast().allSatisfy { $0.count == packetByteCountMax })
            #expect(call.allSatisfy { (80...packetByteCountMax).contains($0.count) })
            #expect(call.reduce(0) { $0 + $1.count } <= 65_507)
            #expect(call.count <= 64)
        }
        #expect(try decodedEvents(transport.packets(ofKind: 1)).count == 3_000)
    }

    @Test func `The smallest event makes a packet that may be acked`() throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        _ = try stream.send(
            AdEvent(.click, rewardID: "r", businessID: "b", timestampMicroseconds: 0))
        _ = try stream.close()
        #expect(transport.packets(ofKind: 1).allSatisfy { $0.bytes.count >= 80 })
        #expect(try decodedEvents(transport.packets(ofKind: 1)).count == 1)
    }

    @Test func `Sequences count from 0 over all bursts, header and checksum are as published`()
        throws
    {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        for number in 0..<2_000 {
            _ = try stream.send(SampleEvents.event(number))
            if number % 100 == 99 { try stream.flush() }
        }
        let result = try stream.close()
        let packets = transport.packets(ofKind: 1)
        #expect(packets.map(\.sequence) == (0..<result.packetsSent).map { $0 })
        for packet in packets + transport.packets(ofKind: 2) {
            #expect(packet.magic == "IGD1")
            #expect(packet.flags == 0, "no ack is asked for, no tag is there")
            #expect(packet.keyID == 0)
            #expect(packet.sender == 7)
            #expect(packet.epoch == 9)
            #expect(packet.payloadByteCount == UInt64(packet.payload.count))
            #expect(packet.checksum == packet.computedChecksum)
        }
    }

    @Test func `Closing announces how many packets there were`() throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        for number in 0..<100 { _ = try stream.send(SampleEvents.event(number)) }
        let result = try stream.close()
        let heartbeat = try #require(transport.datagrams.last.map(FramedPacket.init))
        #expect(heartbeat.kind == 2)
        #expect(heartbeat.sequence == result.packetsSent)
        #expect(heartbeat.payload == [UInt8](repeating: 0, count: 64))
        #expect(transport.packets(ofKind: 2).count == 1)
    }

    @Test func `A sender that sent nothing sends nothing at all`() throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        try stream.tick(now: 5_000_000_000)
        #expect(try stream.close() == EventSender.Totals())
        #expect(transport.datagrams.isEmpty)
    }

    @Test func `A tick sends what waits, and a heartbeat every second`() throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        _ = try stream.send(SampleEvents.event(1))
        try stream.tick(now: 1_000)
        #expect(transport.packets(ofKind: 1).count == 1)
        #expect(transport.packets(ofKind: 2).isEmpty)
        for now in stride(from: 100_000_000, through: 3_500_000_000, by: 100_000_000) {
            try stream.tick(now: UInt64(now))
        }
        #expect(transport.packets(ofKind: 2).map(\.sequence) == [1, 1, 1])
    }

    @Test func `S4: Heartbeats without acks part too`() throws {
        let transport = RecordingTransport()
        let nonces = CountedNonces(seed: 1)
        var stream = UnackedRig(transport) {
            $0.delivery = .unacked
            $0.makeNonce = { nonces.next() }
        }
        _ = try stream.send(SampleEvents.event(1))
        var times: [Int] = []
        for millisecond in 0..<100_000 {
            let count = transport.calls.count
            try stream.tick(now: UInt64(millisecond) * 1_000_000)
            if transport.calls.count > count, millisecond > 0 { times.append(millisecond) }
        }
        let intervals = zip(times.dropFirst(), times).map { $0 - $1 }
        #expect(intervals.allSatisfy { (750...1_251).contains($0) } && Set(intervals).count > 50)
    }

    @Test func `A heartbeat announces what has left, not what waits for its burst`() throws {
        let transport = RecordingTransport()
        var stream = UnackedRig(transport) {
            $0.delivery = .unacked
            $0.batchNanosecondsMax = 900_000_000
        }
        _ = try stream.send(SampleEvents.event(1))
        try stream.flush()
        try stream.tick(now: 200_000_000)
        for number in 0..<100 { _ = try stream.send(SampleEvents.event(number)) }
        // A sender that is killed now has lost nothing that anybody was told of.
        try stream.tick(now: 1_000_000_000)
        #expect(transport.packets(ofKind: 2).map(\.sequence) == [1])
        #expect(transport.packets(ofKind: 1).map(\.sequence) == [0])
        try stream.tick(now: 1_100_000_000)
        let sent = transport.packets(ofKind: 1).map(\.sequence)
        #expect(sent.count > 3, "several packets waited")
        try stream.tick(now: 2_000_000_000)
        #expect(transport.packets(ofKind: 2).map(\.sequence) == [1, UInt64(sent.count)])
        #expect(sent == (0..<UInt64(sent.count)).map { $0 })
    }

    @Test func `A refused event is counted and costs only itself`() throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        let lines = [
            SampleEvents.line(1), "{", "", "[]", "{\"eventType\":\"view\"}", SampleEvents.line(2),
            SampleEvents.line(3) + SampleEvents.line(4),
            SampleEvents.line(5) + "\n" + SampleEvents.line(6),
            String(repeating: "{", count: 65_508), SampleEvents.line(7),
        ]
        let refusals = try lines.map { try stream.send(jsonLine: Array($0.utf8).span) }
        #expect(
            refusals.map { $0 == .taken } == [
                true, false, false, false, false, true, false, false, false, true,
            ])
        #expect(refusals[8] == .refused(.lineTooLong(byteCountMax: 65_507)))
        let result = try stream.close()
        #expect(result.eventsSent == 3)
        #expect(result.eventsRefused == 7)
        #expect(
            try decodedEvents(transport.packets(ofKind: 1)).map(\.timestampUs)
                == [1, 2, 7].map { (1_700_000_000_000 + $0) * 1000 })
    }

    @Test(arguments: [
        ClientError.notListening(address: "x:1"),
        .socket(call: "send", address: "x:1", errno: ENETUNREACH),
        .socket(call: "send", address: "x:1", errno: EPERM),
    ])
    func `A network error costs the burst that it came to, and no more`(
        error: ClientError
    ) throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        for round in 0..<4 {
            transport.fail(with: round % 2 == 1 ? error : nil)
            for number in 0..<5 { _ = try stream.send(SampleEvents.event(10 * round + number)) }
            try stream.tick(now: UInt64(round) * 100_000_000)
            #expect(stream.networkError == (round % 2 == 1 ? error : nil))
            #expect(stream.totals.eventsDropped == UInt64((round + 1) / 2 * 5))
            #expect(stream.failure == nil)
        }
        #expect(stream.totals.eventsSent == 10)
        // What was lost shows as a gap.
        #expect(transport.packets(ofKind: 1).map(\.sequence) == [0, 2])
        // At the end nothing comes behind it that would show it.
        #expect(throws: error) { _ = try stream.close() }
        transport.fail(with: nil)
        #expect(throws: error) { _ = try stream.close() }
    }

    @Test func `An error that is not the network's ends a stream`() throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        let error = ClientError.socket(call: "send", address: "x:1", errno: EBADF)
        transport.fail(with: error)
        _ = try stream.send(SampleEvents.event(1))
        #expect(throws: error) { try stream.flush() }
        #expect(stream.failure == error)
    }

    @Test func `Without a route for seconds it connects again, also without acks`() throws {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport)
        _ = try stream.send(SampleEvents.event(1))
        for (start, errno) in [(0, EPERM), (100, ENETUNREACH)] as [(UInt64, Int32)] {
            transport.fail(with: .socket(call: "send", address: "x:1", errno: errno))
            for tenth in start..<start + 100 {
                try stream.tick(now: tenth * 100_000_000)
            }
            #expect((errno == EPERM ? 0...0 : 2...4).contains(transport.reconnectCount))
        }
    }

    @Test func `What the transport refuses is not counted as sent, and nothing goes on behind it`()
        throws
    {
        let transport = RecordingTransport()
        var stream = SampleEvents.stream(transport, endsAtNetworkErrors: true)
        for number in 0..<50 { _ = try stream.send(SampleEvents.event(number)) }
        try stream.flush()
        var expected = stream.totals
        #expect(expected.eventsSent == 50)
        transport.fail(with: .notListening(address: "there"))
        _ = try stream.send(SampleEvents.event(1))
        #expect(throws: ClientError.notListening(address: "there")) { try stream.flush() }
        transport.fail(with: nil)
        #expect(throws: ClientError.notListening(address: "there")) {
            _ = try stream.send(SampleEvents.event(2))
        }
        expected.eventsDropped = 1
        #expect(stream.totals == expected)
    }

    @Test func `A closed sender takes nothing more`() throws {
        var stream = SampleEvents.stream(RecordingTransport())
        _ = try stream.close()
        #expect(throws: ClientError.closed) { _ = try stream.send(SampleEvents.event(1)) }
        #expect(throws: ClientError.closed) { _ = try stream.close() }
    }
}
