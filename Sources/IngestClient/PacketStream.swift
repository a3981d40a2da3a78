// events → [send] → encode → packet → socket

import IngestFormat
import IngestKeys

/// One sender's packets in order: the state behind `EventSender`, without lock, clock or socket of its
/// own. Whoever holds it brings the time; the transport is a seam.
package struct PacketStream: ~Copyable {
    private static let heartbeatNanoseconds: UInt64 = 1_000_000_000

    package private(set) var totals = EventSender.Totals()
    private var builder: PacketBuilder
    private var parser = EventLineParser()
    private var texts: [UInt8] = []
    private let transport: any DatagramTransport
    /// The first error of the transport. Events in the burst that it hit are not known to have left, so
    /// the stream does not go on behind it.
    private(set) var failure: ClientError?
    private var heartbeatAt: UInt64?

    package init(
        identity: SenderIdentity, packetByteCountMax: Int, key: PacketKey? = nil,
        transport: any DatagramTransport
    ) {
        builder = PacketBuilder(
            identity: identity, packetByteCountMax: packetByteCountMax, key: key)
        self.transport = transport
        texts.reserveCapacity(1024)
    }

    package mutating func send(jsonLine: Span<UInt8>) throws(ClientError) -> EventSender.Outcome {
        try checkOpen()
        if let refusal = parser.parse(jsonLine) {
            totals.eventsRefused += 1
            return .refused(refusal)
        }
        if builder.append(parser.event, from: parser.bytes) { return .taken }
        try sendBurst()
        _ = builder.append(parser.event, from: parser.bytes)
        return .taken
    }

    package mutating func send(_ event: AdEvent) throws(ClientError) -> EventSender.Outcome {
        try checkOpen()
        let descriptor: EventDescriptor
        do {
            descriptor = try event.describe(into: &texts)
        } catch {
            totals.eventsRefused += 1
            return .refused(error)
        }
        if builder.append(descriptor, from: texts) { return .taken }
        try sendBurst()
        _ = builder.append(descriptor, from: texts)
        return .taken
    }

    package mutating func flush() throws(ClientError) {
        try checkOpen()
        try sendBurst()
    }

    /// Called again and again while open: sends what waits, and a heartbeat every second once there is a
    /// packet to tell of.
    package mutating func tick(now: UInt64) throws(ClientError) {
        try flush()
        guard totals.packetsSent > 0 else { return }
        let dueAt = heartbeatAt ?? now + Self.heartbeatNanoseconds
        heartbeatAt = dueAt
        guard now >= dueAt else { return }
        heartbeatAt = now + Self.heartbeatNanoseconds
        try sendHeartbeat()
    }

    package mutating func close() throws(ClientError) -> EventSender.Totals {
        try flush()
        if totals.packetsSent > 0 { try sendHeartbeat() }
        try guarded { transport throws(ClientError) in try transport.checkAnswers() }
        failure = .closed
        return totals
    }

    private func checkOpen() throws(ClientError) {
        if let failure { throw failure }
    }

    private mutating func sendBurst() throws(ClientError) {
        builder.seal()
        guard builder.sealedPacketCount > 0 else { return }
        do {
            try transport.send(
                builder.packets.span, segmentByteCount: builder.packetByteCountMax)
        } catch {
            failure = error
            throw error
        }
        totals.eventsSent += UInt64(builder.eventCount)
        totals.packetsSent += UInt64(builder.sealedPacketCount)
        builder.removeAll()
    }

    /// Base 0, "not given": without acks a sender holds nothing, but a base would make the receiver
    /// give up packets that this heartbeat has merely overtaken.
    private mutating func sendHeartbeat() throws(ClientError) {
        let packet = builder.heartbeat(base: 0)
        try guarded { transport throws(ClientError) in
            try transport.send(packet.span, segmentByteCount: packet.count)
        }
    }

    private mutating func guarded(
        _ body: (any DatagramTransport) throws(ClientError) -> Void
    ) throws(ClientError) {
        do { try body(transport) } catch {
            failure = error
            throw error
        }
    }
}
