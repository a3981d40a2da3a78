import CIngestLinux
import IngestPipeline
import Synchronization

/// Acks as a test finds them: kept in memory, in the order in which they left.
package final class SimulatedAckSocket: AckSocket {
    private let calls = Mutex<[[[UInt8]]]>([])

    package init() {}

    package func send(_ acks: UnsafeBufferPointer<ingest_ack>) -> Int {
        let packets = acks.map { ack in
            // SAFETY: each answer's bytes are there until this call returns.
            Array(UnsafeBufferPointer(start: ack.bytes, count: Int(ack.byte_count)))
        }
        calls.withLock { $0.append(packets) }
        return acks.count
    }

    /// The packets sent since the last call.
    package func take() -> [[UInt8]] { takeCalls().flatMap { $0 } }

    /// The same, by the calls that sent them.
    package func takeCalls() -> [[[UInt8]]] {
        calls.withLock { calls in
            defer { calls = [] }
            return calls
        }
    }
}
