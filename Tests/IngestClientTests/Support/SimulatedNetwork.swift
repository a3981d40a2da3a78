import Synchronization

@testable import IngestClient

/// The sending end of a network that a simulation moves on by hand.
final class SimulatedNetwork: DatagramTransport {
    private struct State {
        var sent: [[UInt8]] = []
        var failure: ClientError?
    }

    private let state = Mutex(State())

    func send(_ bytes: Span<UInt8>, segmentByteCount: Int) throws(ClientError) {
        if let failure = state.withLock({ $0.failure }) { throw failure }
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + segmentByteCount)
            let datagram = (start..<end).map { bytes[$0] }
            state.withLock { $0.sent.append(datagram) }
            start = end
        }
    }

    func checkAnswers() throws(ClientError) {}

    /// From now on every send throws this; `nil` ends it.
    func fail(with failure: ClientError?) { state.withLock { $0.failure = failure } }

    /// What was sent since the last call.
    func take() -> [[UInt8]] {
        state.withLock { state in
            defer { state.sent = [] }
            return state.sent
        }
    }

    func takePackets() -> [FramedPacket] { take().map { FramedPacket(bytes: $0) } }
}
