import Testing

@testable import IngestClient

/// Plain datagrams: which lines share one, and that their bytes are the caller's.
struct PlainDeliveryTests {
    private static func sender(
        _ transport: RecordingTransport, byteCountMax: Int = 1_452
    ) -> UnackedRig {
        SampleEvents.stream(
            transport, .plain, packetByteCountMax: byteCountMax, endsAtNetworkErrors: true)
    }

    private static func text(_ datagram: [UInt8]) -> String {
        String(decoding: datagram, as: UTF8.self)
    }

    @Test func `Lines are joined up to the limit, in order, and unchanged`() throws {
        let transport = RecordingTransport()
        var sender = Self.sender(transport)
        let lines = (0..<200).map(SampleEvents.line)
        for line in lines { #expect(try sender.send(jsonLine: Array(line.utf8).span) == .taken) }
        let result = try sender.close()
        #expect(result.eventsSent == 200)
        #expect(result.packetsSent == UInt64(transport.datagrams.count))
        #expect(transport.datagrams.allSatisfy { $0.count <= 1_452 && $0.first == 0x7B })
        #expect(
            transport.datagrams.flatMap { Self.text($0).split(separator: "\n") }
                == lines.map {
                    $0[...]
                })
        for (datagram, next) in zip(transport.datagrams, transport.datagrams.dropFirst()) {
            let firstOfNext = Self.text(next).split(separator: "\n")[0].utf8.count
            #expect(datagram.count + 1 + firstOfNext > 1_452, "the next line would have fitted")
        }
    }

    @Test
    func `Two lines that fill a datagram to the byte share it, one byte less and they do not`()
        throws
    {
        let line = Array(SampleEvents.line(1).utf8)
        for (byteCountMax, datagramCount) in [(2 * line.count + 1, 1), (2 * line.count, 2)] {
            let transport = RecordingTransport()
            var sender = Self.sender(transport, byteCountMax: byteCountMax)
            for _ in 0..<2 { _ = try sender.send(jsonLine: line.span) }
            _ = try sender.close()
            #expect(transport.datagrams.count == datagramCount)
        }
    }

    @Test func `A line longer than the limit travels alone`() throws {
        let transport = RecordingTransport()
        var sender = Self.sender(transport, byteCountMax: 300)
        let padding = String(repeating: "p", count: 1_000)
        let long = "{\"unknown\":\"\(padding)\"," + SampleEvents.line(1).dropFirst()
        for line in [SampleEvents.line(2), long, SampleEvents.line(2)] {
            #expect(try sender.send(jsonLine: Array(line.utf8).span) == .taken)
        }
        _ = try sender.close()
        #expect(
            transport.datagrams.map(Self.text) == [
                SampleEvents.line(2), long, SampleEvents.line(2),
            ])
    }

    @Test func `A malformed line is refused here and not sent, escapes stay as they were`() throws {
        let transport = RecordingTransport()
        var sender = Self.sender(transport)
        let escaped = SampleEvents.line(3).replacing("b-3", with: "b\\u002d3\\n")
        for line in ["{\"no\":1}", "  \t" + escaped, "x" + SampleEvents.line(1), ""] {
            _ = try sender.send(jsonLine: Array(line.utf8).span)
        }
        let result = try sender.close()
        #expect(result.eventsRefused == 3)
        #expect(result.eventsSent == 1)
        #expect(transport.datagrams.map(Self.text) == [escaped])
    }

    @Test func `Events count as sent once their datagram has left`() throws {
        let transport = RecordingTransport()
        var sender = Self.sender(transport)
        _ = try sender.send(jsonLine: Array(SampleEvents.line(1).utf8).span)
        #expect(sender.totals.eventsSent == 0)
        transport.fail(with: .notListening(address: "there"))
        #expect(throws: ClientError.notListening(address: "there")) { try sender.flush() }
        #expect(sender.totals.eventsSent == 0)
    }
}
