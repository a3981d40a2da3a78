// events → [send] → encode → packet → socket

import Dispatch
import IngestFormat
import Synchronization

/// Sends events to a daemon as framed packets: batches them, numbers the packets, and announces at the
/// end how many there were, so that the daemon's ledger shows what was lost on the way.
///
/// Any thread may call; calls take turns under a lock. An event leaves when its packets fill a burst,
/// when it has waited for `Options.batchMillisecondsMax`, or at `flush` and `close`, whichever is first.
///
/// This version sends without asking for acks: what `send` took and `close` reported has *left*, which is
/// not yet proof that it was counted.
///
/// **Cost** About 64 KiB, one socket and one timer; per event one copy of its bytes, no allocation.
public final class EventSender: Sendable {
    public struct Options: Sendable {
        /// The sender's own id, above 0; `nil` draws one at random. Two processes must never share one.
        public var senderID: UInt64?
        /// The size of full packets: 1,200 … 65,507 bytes. The default fits an Ethernet frame over IPv4
        /// and IPv6.
        public var packetByteCountMax = 1_452
        /// How long an event may wait for its packet to fill: 1 … 1,000 ms.
        public var batchMillisecondsMax = 20

        public init() {}

        fileprivate func check() throws(ClientError) {
            if senderID == 0 {
                throw .badOption(name: "senderID", got: 0, allowed: 1...UInt64.max)
            }
            let allowed = PacketBuilder.packetByteCountLimits
            guard allowed.contains(packetByteCountMax) else {
                throw .badOption(
                    name: "packetByteCountMax", got: UInt64(clamping: packetByteCountMax),
                    allowed: UInt64(allowed.lowerBound)...UInt64(allowed.upperBound))
            }
            guard (1...1_000).contains(batchMillisecondsMax) else {
                throw .badOption(
                    name: "batchMillisecondsMax", got: UInt64(clamping: batchMillisecondsMax),
                    allowed: 1...1_000)
            }
        }
    }

    /// What left, at `close`.
    public struct Result: Equatable, Sendable {
        /// Events in packets that the socket took.
        public var sent: UInt64 = 0
        /// Packets of these events; heartbeats are not among them.
        public var packets: UInt64 = 0
        /// Events that were confirmed as durable: 0, as no acks are asked for.
        public var acked: UInt64 = 0
        /// Packets that were sent again: 0, as no acks are asked for.
        public var resent: UInt64 = 0
        /// Events that were refused before they were sent.
        public var refused: UInt64 = 0
    }

    /// This sender's id on the wire, as the ledger will show it.
    public let senderID: UInt64
    private let stream: Mutex<PacketStream>
    private let timerQueue = DispatchQueue(label: "ingest.sender.timer")
    private let tickInterval: DispatchTimeInterval

    /// Opens a socket and takes a new epoch; nothing is sent before the first event.
    ///
    /// - Parameter address: HOST:PORT; an IPv6 address stands in brackets.
    ///
    /// **Errors** `ClientError.badAddress`, `.badOption`, `.unresolved`, `.socket`.
    public static func open(
        to address: String, options: Options = Options()
    ) throws(ClientError) -> EventSender {
        try options.check()
        return EventSender(transport: try UDPTransport(address: address), options: options)
    }

    package init(transport: any DatagramTransport, options: Options) {
        let identity = Self.identity(options)
        senderID = identity.sender.rawValue
        stream = Mutex(
            PacketStream(
                identity: identity, packetByteCountMax: options.packetByteCountMax,
                transport: transport))
        tickInterval = .milliseconds(max(1, options.batchMillisecondsMax))
        scheduleTick()
    }

    /// Takes one JSON event, without its line end.
    ///
    /// - Returns: `nil` if it was taken, or why it was refused; a refusal costs only this event.
    ///
    /// **Errors** What the socket answered to earlier packets; the event was not taken then.
    public func send(jsonLine: Span<UInt8>) throws(ClientError) -> EventRefusal? {
        try stream.withLock { stream throws(ClientError) in try stream.send(jsonLine: jsonLine) }
    }

    /// Takes one JSON event, without its line end. See `send(jsonLine:)` of bytes.
    public func send(jsonLine: String) throws(ClientError) -> EventRefusal? {
        try send(jsonLine: jsonLine.utf8Span.span)
    }

    /// Takes one event. See `send(jsonLine:)` of bytes.
    public func send(_ event: AdEvent) throws(ClientError) -> EventRefusal? {
        try stream.withLock { stream throws(ClientError) in try stream.send(event) }
    }

    /// Sends what is waiting for its packet to fill.
    public func flush() throws(ClientError) {
        try stream.withLock { stream throws(ClientError) in try stream.flush() }
    }

    /// Sends what is waiting, then a heartbeat that tells how many packets there were. Calls after this
    /// throw `ClientError.closed`.
    ///
    /// **Errors** As `flush`; also if the machine has answered by now that nobody receives.
    public func close() throws(ClientError) -> Result {
        try stream.withLock { stream throws(ClientError) in try stream.close() }
    }

    /// What has left so far.
    public var result: Result { stream.withLock { $0.result } }

    /// A tick follows another until the sender is closed, has failed, or is gone.
    private func scheduleTick() {
        timerQueue.asyncAfter(deadline: .now() + tickInterval) { [weak self] in
            guard let self, self.tick() else { return }
            self.scheduleTick()
        }
    }

    /// Whether the stream goes on. An error stays in the stream and answers the next call.
    private func tick() -> Bool {
        stream.withLock { stream in
            do throws(ClientError) {
                try stream.tick(now: SenderClock.monotonicNanoseconds())
                return true
            } catch {
                return false
            }
        }
    }

    private static func identity(_ options: Options) -> SenderIdentity {
        let sender = options.senderID ?? UInt64.random(in: 1...UInt64.max)
        precondition(sender != 0, "sender id 0 is refused by every receiver")
        return SenderIdentity(
            sender: SenderID(rawValue: sender),
            epoch: SenderIdentity.epoch(
                unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000,
                random: UInt64.random(in: 0...UInt64.max)))
    }
}
