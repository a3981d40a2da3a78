// events → [send] → encode → packet → socket

import IngestFormat
import IngestKeys
import IngestStorage

/// Sends events to a daemon as framed packets, and again until the daemon says that they are durable.
///
/// Any thread may call; calls take turns under a lock. An event leaves when its packets fill a burst,
/// when it has waited for `Options.batchMillisecondsMax`, or at `flush` and `close`, whichever is first.
///
/// What `send` took is counted once `close` has returned, whatever the network loses and however often the daemon
/// starts again meanwhile. What `flush` returned from is, with a spool, on disk: this process may end
/// in any way, and the next sender that is opened on the spool sends it under the same sequences, so that
/// nothing counts twice. Events without an id get one.
///
/// With `Options.Delivery.unacked` packets are sent once: what `close` reports has *left*.
///
/// **Cost** A thread and a socket; packets until they are acked. Per event two copies of its bytes, no allocation.
public final class EventSender: Sendable {
    /// What has become of the events so far, or at `close`.
    public struct Result: Equatable, Sendable {
        /// Events in packets that the socket took.
        public var sent: UInt64 = 0
        /// Packets of these events; heartbeats and resends are not among them.
        public var packets: UInt64 = 0
        /// Events that the receiver has on disk. With a spool also those of an earlier start.
        public var acked: UInt64 = 0
        /// Packets that were sent again, each time.
        public var resent: UInt64 = 0
        /// Events that were refused before they were sent.
        public var refused: UInt64 = 0
        /// Since the sender was opened.
        public var seconds = 0.0
    }

    /// This sender's id on the wire, as the ledger will show it.
    public let senderID: UInt64
    /// How far an input was read that a spool holds the end of.
    package let spoolNote: SpoolNote
    /// Whether that was all of the input, and all of it was acked.
    package let hasSpoolEnded: Bool
    private let engine: any SenderEngine
    private let isWaiting: Bool
    private let isDurableAtSend: Bool
    private let openedAt = SenderClock.monotonicNanoseconds()

    /// Opens a socket, and a spool if there shall be one; without packets of an earlier start a new epoch begins.
    ///
    /// - Parameter address: HOST:PORT; an IPv6 address stands in brackets.
    ///
    /// **Errors** `ClientError.badAddress`, `.badOption`, `.unresolved`, `.socket`; `.spool`, `.otherSender`.
    public static func open(
        to address: String, options: Options = Options()
    ) throws(ClientError) -> EventSender {
        try options.check()
        let transport = try UDPTransport(address: address)
        guard options.delivery == .acked || options.spoolDirectory != nil else {
            return EventSender(transport: transport, options: options)
        }
        let identity = newIdentity(options)
        guard let directory = options.spoolDirectory else {
            return try acked(
                identity, to: address, transport, nil, options)
        }
        let opened = try spool(directory, identity, options)
        return try acked(
            opened.spool.identity, to: address, transport, opened, options)
    }

    private static func spool(
        _ directory: String, _ identity: SenderIdentity, _ options: Options
    ) throws(ClientError) -> Spool<LinuxFileSystem>.Opened {
        let files: LinuxFileSystem
        do throws(StorageError) {
            files = try LinuxFileSystem(path: directory, create: true)
        } catch {
            throw ClientError(spool: error)
        }
        return try Spool.open(
            files, sender: options.senderID.map { SenderID(rawValue: $0) },
            random: identity.sender, epoch: identity.epoch)
    }

    private static func acked(
        _ identity: SenderIdentity, to address: String, _ transport: UDPTransport,
        _ opened: Spool<LinuxFileSystem>.Opened?, _ options: Options
    ) throws(ClientError) -> EventSender {
        if let key = options.key, let sender = key.sender, sender != identity.sender.rawValue {
            throw ClientError.keys(
                message: "key \(key.key.id) is for sender \(sender) alone, send as that one")
        }
        var configuration = AckedStream.Configuration(identity: identity)
        configuration.packetByteCountMax = options.packetByteCountMax
        configuration.batchNanosecondsMax = UInt64(options.batchMillisecondsMax) * 1_000_000
        configuration.unackedByteCountMax = options.unackedByteCountMax
        configuration.silenceNanosecondsMax = UInt64(options.silenceSecondsMax) * 1_000_000_000
        configuration.key = options.key?.key
        configuration.address = address
        let socket = try AckSocket(socket: transport.socket, address: address)
        var random = SystemRandomNumberGenerator()
        let stream = AckedStream(
            configuration, transport: transport, spool: opened?.spool, left: opened?.packets ?? [],
            firstSequence: opened?.firstSequence ?? 0, ids: EventIDSource(&random),
            now: SenderClock.monotonicNanoseconds())
        return EventSender(
            identity, AckedSender(stream, socket: socket, transport: transport), options,
            note: opened?.note ?? SpoolNote(), hasEnded: opened?.hasEnded ?? false)
    }

    /// A sender without acks.
    package convenience init(transport: any DatagramTransport, options: Options) {
        let identity = Self.newIdentity(options)
        self.init(
            identity,
            UnackedSender(identity: identity, options: options, transport: transport), options)
    }

    private init(
        _ identity: SenderIdentity, _ engine: any SenderEngine, _ options: Options,
        note: SpoolNote = SpoolNote(), hasEnded: Bool = false
    ) {
        senderID = identity.sender.rawValue
        spoolNote = note
        hasSpoolEnded = hasEnded
        self.engine = engine
        isWaiting = options.waitsWhenFull
        isDurableAtSend = options.isDurableAtSend
    }

    /// Takes one JSON event, without its line end.
    ///
    /// - Returns: `nil` if it was taken, or why it was refused; a refusal costs only this event. `.full`, where
    ///   `Options.waitsWhenFull` is off: try again later.
    ///
    /// **Errors** What has ended the sender; the event was not taken then.
    public func send(jsonLine: Span<UInt8>) throws(ClientError) -> EventRefusal? {
        try kept(engine.send(jsonLine: jsonLine, note: nil, isWaiting: isWaiting))
    }

    /// Takes one JSON event, without its line end. See `send(jsonLine:)` of bytes.
    public func send(jsonLine: String) throws(ClientError) -> EventRefusal? {
        try send(jsonLine: jsonLine.utf8Span.span)
    }

    /// Takes one event. See `send(jsonLine:)` of bytes.
    public func send(_ event: AdEvent) throws(ClientError) -> EventRefusal? {
        try kept(engine.send(event, isWaiting: isWaiting))
    }

    /// As `send(jsonLine:)`, with how far the input was read with this line.
    package func send(
        jsonLine: Span<UInt8>, note: SpoolNote
    ) throws(ClientError) -> EventRefusal? {
        try engine.send(jsonLine: jsonLine, note: note, isWaiting: isWaiting)
    }

    /// Sends what is waiting for its packet to fill. With a spool it is on disk then.
    public func flush() throws(ClientError) { try engine.flush() }

    /// Sends what is waiting, and waits until all is acked. Calls after this throw `ClientError.closed`.
    ///
    /// - Parameter seconds: How long to wait at most; `nil` = as long as the receiver answers.
    ///
    /// **Errors** What has ended the sender, and `.deadline`: the sender goes on then, and can be closed again. Without
    /// acks, as `flush`; also if the machine has answered by now that nobody receives.
    public func close(within seconds: Double? = nil) throws(ClientError) -> Result {
        try timed(engine.close(within: seconds, note: SpoolNote()))
    }

    /// As `close(within:)`; the spool keeps `note`, of the whole input.
    package func close(
        within seconds: Double?, note: SpoolNote
    ) throws(ClientError) -> Result {
        try engine.close(within: seconds, note: note)
    }

    /// How far it is.
    public var result: Result { timed(engine.result) }

    private func timed(_ result: Result) -> Result {
        var result = result
        result.seconds = Double(SenderClock.monotonicNanoseconds() - openedAt) / 1_000_000_000
        return result
    }

    /// Makes an event that was taken durable in the spool, where each shall be.
    private func kept(_ refusal: EventRefusal?) throws(ClientError) -> EventRefusal? {
        if refusal == nil, isDurableAtSend { try engine.flush() }
        return refusal
    }

    private static func newIdentity(_ options: Options) -> SenderIdentity {
        let sender = options.senderID ?? options.key?.sender ?? UInt64.random(in: 1...UInt64.max)
        precondition(sender != 0, "sender id 0 is refused by every receiver")
        return SenderIdentity(
            sender: SenderID(rawValue: sender),
            epoch: SenderIdentity.epoch(
                unixMilliseconds: SenderClock.unixNanoseconds() / 1_000_000,
                random: UInt64.random(in: 0...UInt64.max)))
    }
}
