import CIngestLinux
import IngestPipeline
import Synchronization

/// Acks as a test finds them: kept in memory, in the order in which they left.
package final class SimulatedAnswerSocket: AnswerSocket {
    private let packets = Mutex<[[UInt8]]>([])

    package init() {}

    package func send(_ answers: UnsafeBufferPointer<ingest_answer>) -> Int {
        for index in answers.indices {
            // SAFETY: each answer's bytes are there until this call returns.
            let packet = Array(
                UnsafeBufferPointer(
                    start: answers[index].bytes, count: Int(answers[index].byte_count)))
            packets.withLock { $0.append(packet) }
        }
        return answers.count
    }

    /// The packets sent since the last call.
    package func take() -> [[UInt8]] {
        packets.withLock { packets in
            defer { packets = [] }
            return packets
        }
    }
}
