import CIngestLinux
import IngestPipeline
import Synchronization

/// Acks as a test finds them: kept in memory, in the order in which they left.
package final class SimulatedAckSocket: AckSocket {
    private let packets = Mutex<[[UInt8]]>([])

    package init() {}

    package func send(_ acks: UnsafeBufferPointer<ingest_ack>) -> Int {
        for index in acks.indices {
            // SAFETY: each answer's bytes are there until this call returns.
            let packet = Array(
                UnsafeBufferPointer(
                    start: acks[index].bytes, count: Int(acks[index].byte_count)))
            packets.withLock { $0.append(packet) }
        }
        return acks.count
    }

    /// The packets sent since the last call.
    package func take() -> [[UInt8]] {
        packets.withLock { packets in
            defer { packets = [] }
            return packets
        }
    }
}
