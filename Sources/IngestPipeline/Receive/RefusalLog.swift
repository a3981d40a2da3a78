// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query
import IngestFormat
import Logging

/// Says in the log what was refused: at most one line a second for each reason, with the count since the
/// line before. Owned by the receive queue.
///
/// A line holds numbers, the names of this project and the peer's address, and nothing that the peer wrote:
/// there is nothing in it to escape.
package final class RefusalLog {
    private let logger: Logger
    private var waiting: [PacketResult: UInt64] = [:]
    private var lastLine: [PacketResult: UInt64] = [:]
    private var lastDropLine: UInt64 = 0
    private static let intervalNanoseconds: UInt64 = 1_000_000_000

    package init(logger: Logger) { self.logger = logger }

    /// Counts one refused packet, and writes a line if the last one for this reason is a second old.
    func note(_ result: PacketResult, from source: SocketAddress, at now: UInt64) {
        waiting[result, default: 0] += 1
        if let last = lastLine[result], now &- last < Self.intervalNanoseconds { return }
        lastLine[result] = now
        let count = waiting.removeValue(forKey: result) ?? 1
        logger.warning("refused \(count) packets as \(result.name), the last from \(source)")
    }

    /// Says that the kernel dropped datagrams for want of room.
    func noteKernelDrops(total: UInt64, receiveBufferByteCount: Int, at now: UInt64) {
        guard lastDropLine == 0 || now &- lastDropLine >= Self.intervalNanoseconds else { return }
        lastDropLine = now
        logger.warning(
            """
            the kernel has dropped \(total) datagrams at the socket since the start: its receive buffer \
            of \(receiveBufferByteCount) bytes was full, raise --receive-buffer-bytes and \
            net.core.rmem_max
            """)
    }

    /// Writes what is still waiting.
    func flush() {
        for (result, count) in waiting.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            logger.warning("refused \(count) packets as \(result.name)")
        }
        waiting.removeAll()
    }
}
