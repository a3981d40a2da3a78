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
    /// The error that ended it: `closed`, or the transport's. Events in the burst that it hit are not known to have left.
    private(set) var failure: ClientError?
    /// What the network said to the last burst or heartbeat, if that was no end.
    private(set) var networkError: ClientError?
    /// Whether what the network answers is an end too: for a program that somebody waits for.
    private let endsAtAnswers: Bool
    private var route = RouteWatch()
    private var heartbeatAt: UInt64?

    package init(
        identity: SenderIdentity, packetByteCountMax: Int, key: PacketKey? = nil,
        endsAtAnswers: Bool = false, transport: any DatagramTransport
    ) {
        self.endsAtAnswers = endsAtAnswers
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
        try beat(now: now)
        if networkError == nil { route.found() }
        let lacksRoute = networkError?.isUnreachable ?? false
        if route.isReconnectDue(now: now, lacksRoute: lacksRoute) { transport.reconnect() }
    }

    private mutating func beat(now: UInt64) throws(ClientError) {
        guard builder.nextSequence > 0 else { return }
        let dueAt = heartbeatAt ?? now + Self.heartbeatNanoseconds
        heartbeatAt = dueAt
        guard now >= dueAt else { return }
        heartbeatAt = now + Self.heartbeatNanoseconds
        try sendHeartbeat()
    }

    /// **Errors** Also what the network has just said: nothing comes behind these packets that would show it.
    package mutating func close() throws(ClientError) -> EventSender.Totals {
        networkError = nil
        try flush()
        let answer = networkError
        if builder.nextSequence > 0 { try sendHeartbeat() }
        do throws(ClientError) {
            try transport.checkAnswers()
        } catch {
            failure = error
            throw error
        }
        if let error = answer ?? networkError {
            failure = error
            throw error
        }
        failure = .closed
        return totals
    }

    private func checkOpen() throws(ClientError) {
        if let failure { throw failure }
    }

    private mutating func sendBurst() throws(ClientError) {
        builder.seal()
        guard builder.sealedPacketCount > 0 else { return }
        do throws(ClientError) {
            try transport.send(
                builder.packets.span, segmentByteCount: builder.packetByteCountMax)
            networkError = nil
            totals.eventsSent += UInt64(builder.eventCount)
            totals.packetsSent += UInt64(builder.sealedPacketCount)
        } catch {
            try failed(error)
        }
        builder.removeAll()
    }

    /// Base 0, "not given": without acks a sender holds nothing, but a base would make the receiver
    /// give up packets that this heartbeat has merely overtaken.
    private mutating func sendHeartbeat() throws(ClientError) {
        let packet = builder.heartbeat(base: 0)
        do throws(ClientError) {
            try transport.send(packet.span, segmentByteCount: packet.count)
            networkError = nil
        } catch {
            try failed(error)
        }
    }

    /// A receiver that starts again costs what was given to the network meanwhile; their sequences show as missing.
    private mutating func failed(_ error: ClientError) throws(ClientError) {
        guard error.isTemporary, !endsAtAnswers else {
            failure = error
            throw error
        }
        networkError = error.orBetter(networkError)
    }
}
