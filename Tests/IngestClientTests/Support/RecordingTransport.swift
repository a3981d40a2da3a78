import Synchronization

@testable import IngestClient

/// A network that keeps what is sent, cut into datagrams as the kernel would, and fails when told to.
final class RecordingTransport: DatagramTransport {
    private let state = Mutex(State())

    private struct State {
        var calls: [[[UInt8]]] = []
        var failure: ClientError?
        var failureCount = Int.max
        var reconnectCount = 0

        mutating func takeFailure() -> ClientError? {
            guard failureCount > 0 else { return nil }
            failureCount -= 1
            return failure
        }
    }

    func send(_ bytes: Span<UInt8>, segmentByteCount: Int) throws(ClientError) {
        var datagrams: [[UInt8]] = []
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + segmentByteCount)
            datagrams.append((start..<end).map { bytes[$0] })
            start = end
        }
        if let failure = state.withLock({ $0.takeFailure() }) { throw failure }
        let call = datagrams
        state.withLock { $0.calls.append(call) }
    }

    func checkNetworkError() throws(ClientError) {
        if let failure = state.withLock({ $0.takeFailure() }) { throw failure }
    }

    let socket: Int32 = -1

    func networkError(_ errno: Int32) -> ClientError {
        .socket(call: "receive", address: "", errno: errno)
    }

    var hasNewAddress: Bool { false }

    func reconnect(movesOn: Bool) { state.withLock { $0.reconnectCount += 1 } }

    var reconnectCount: Int { state.withLock { $0.reconnectCount } }

    /// From now on every call throws this, or so many do; `nil` ends it.
    func fail(with failure: ClientError?, count: Int = .max) {
        state.withLock { ($0.failure, $0.failureCount) = (failure, count) }
    }

    /// The datagrams of each call.
    var calls: [[[UInt8]]] { state.withLock { $0.calls } }
    /// All datagrams in order.
    var datagrams: [[UInt8]] { calls.flatMap { $0 } }
    /// Framed packets by kind: 1 batch, 2 heartbeat.
    func packets(ofKind kind: UInt8) -> [FramedPacket] {
        datagrams.map(FramedPacket.init).filter { $0.kind == kind }
    }
}

extension EventSender {
    /// A sender without acks, over a network of the test's own.
    convenience init(transport: any DatagramTransport, options: Options) throws(ClientError) {
        var options = options
        options.delivery = .unacked
        let stream = SenderStream(
            options.configuration(Self.newIdentity(options), address: ""), transport: transport,
            spool: nil, now: SenderClock.monotonicNanoseconds())
        try self.init(stream, transport: transport)
    }
}

/// A framed packet read field by field at the offsets of the published table, by code that shares nothing
/// with the sender's.
struct FramedPacket {
    let bytes: [UInt8]

    var magic: String { String(decoding: bytes[0..<4], as: UTF8.self) }
    var kind: UInt8 { bytes[4] }
    var flags: UInt8 { bytes[5] }
    var keyID: UInt64 { number(6, 2) }
    var sender: UInt64 { number(8, 8) }
    var epoch: UInt64 { number(16, 8) }
    var sequence: UInt64 { number(24, 8) }
    var payloadByteCount: UInt64 { number(32, 4) }
    var checksum: UInt64 { number(36, 4) }
    /// Without the tag, if there is one.
    var payload: [UInt8] { Array(bytes[40..<40 + Int(payloadByteCount)]) }

    /// CRC-32C of bytes 0–35 and the payload, bit by bit from the polynomial.
    var computedChecksum: UInt64 {
        var remainder: UInt32 = .max
        for byte in bytes[0..<36] + payload {
            remainder ^= UInt32(byte)
            for _ in 0..<8 { remainder = remainder >> 1 ^ (remainder & 1) * 0x82F6_3B78 }
        }
        return UInt64(~remainder)
    }

    private func number(_ offset: Int, _ byteCount: Int) -> UInt64 {
        bytes[offset..<offset + byteCount].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
}
