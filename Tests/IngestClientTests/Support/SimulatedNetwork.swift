import Glibc
import Synchronization

@testable import IngestClient

/// The sending end of a network that a simulation moves on by hand.
final class SimulatedNetwork: DatagramTransport {
    private struct State {
        var sent: [[UInt8]] = []
        var failure: ClientError?
        /// Datagrams of each call that leave although it fails.
        var partCount = 0
        var reconnectCount = 0
        var moveCount = 0
        var hasNewAddress = false
        var hasRoute = true
        /// Whether the socket's own address has gone: what it sends arrives, and nobody hears the answers.
        var hasLostAddress = false
        /// A socket that connects again while there is no route has no peer.
        var hasPeer = true

        var routeErrno: Int32? { !hasPeer ? EDESTADDRREQ : !hasRoute ? ENETUNREACH : nil }
    }

    private let state = Mutex(State())

    func send(_ bytes: Span<UInt8>, segmentByteCount: Int) throws(ClientError) {
        let (failure, partCount, errno) = state.withLock {
            ($0.failure, $0.partCount, $0.routeErrno)
        }
        if let errno { throw .socket(call: "send", address: "sim", errno: errno) }
        var start = 0
        var count = 0
        while start < bytes.count {
            if let failure, count == partCount { throw failure }
            count += 1
            let end = min(bytes.count, start + segmentByteCount)
            let datagram = bytes.extracting(start..<end).withUnsafeBufferPointer { Array($0) }
            state.withLock { $0.sent.append(datagram) }
            start = end
        }
    }

    func checkNetworkError() throws(ClientError) {}

    let socket: Int32 = -1

    func networkError(_ errno: Int32) -> ClientError {
        .socket(call: "receive", address: "", errno: errno)
    }

    var hasNewAddress: Bool { state.withLock { $0.hasNewAddress } }

    /// As a name that is given another address.
    func changeAddress() { state.withLock { $0.hasNewAddress = true } }

    func reconnect(movesOn: Bool) {
        state.withLock {
            if movesOn { $0.moveCount += 1 }
            $0.reconnectCount += 1
            $0.hasNewAddress = false
            $0.hasPeer = $0.hasRoute
            $0.hasLostAddress = false
        }
    }

    /// As a link that goes down: until it is up again, connecting fails too.
    func setRoute(_ isThere: Bool) { state.withLock { $0.hasRoute = isThere } }

    /// As an own address that is replaced by another one.
    func loseAddress() { state.withLock { $0.hasLostAddress = true } }

    var hasLostAddress: Bool { state.withLock { $0.hasLostAddress } }

    /// From now on every send throws this; `nil` ends it.
    ///
    /// - Parameter partCount: so many datagrams of each call leave before it does.
    func fail(with failure: ClientError?, afterDatagrams partCount: Int = 0) {
        state.withLock {
            $0.failure = failure
            $0.partCount = partCount
        }
    }

    var reconnectCount: Int { state.withLock { $0.reconnectCount } }
    /// Those that asked for another address.
    var moveCount: Int { state.withLock { $0.moveCount } }

    /// What was sent since the last call.
    func take() -> [[UInt8]] {
        state.withLock { state in
            defer { state.sent = [] }
            return state.sent
        }
    }

    func takePackets() -> [FramedPacket] { take().map { FramedPacket(bytes: $0) } }
}
