// packet → [socket] → ack

import Glibc
import Synchronization

/// The receiving end of a sender's socket, and a way to wake whoever waits at it.
///
/// One thread waits and receives; any thread wakes.
final class AckSocket: Sendable {
    /// The largest ack; what is longer is none.
    private static let byteCountMax = 9_216

    private let socket: Int32
    private let wakeEnds: (read: Int32, write: Int32)

    /// - Parameter socket: of a transport that outlives this.
    ///
    /// **Errors** `ClientError.socket`: no descriptors are left.
    init(socket: Int32, address: String) throws(ClientError) {
        var ends: [Int32] = [-1, -1]
        // SAFETY: the kernel writes two descriptors.
        let status = unsafe ends.withUnsafeMutableBufferPointer { unsafe pipe($0.baseAddress!) }
        guard status == 0 else {
            throw .socket(call: "pipe", address: address, errno: errno)
        }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        self.socket = socket
        wakeEnds = (ends[0], ends[1])
    }

    deinit {
        _ = close(wakeEnds.read)
        _ = close(wakeEnds.write)
    }

    /// Ends the wait that is going on, or the next one.
    func wake() {
        var byte: UInt8 = 0
        // SAFETY: one byte is read. A full pipe wakes as well.
        _ = unsafe write(wakeEnds.write, &byte, 1)
    }

    /// Waits until something has come, somebody wakes, or the time is up.
    ///
    /// - Parameter nanoseconds: `.max` = for ever.
    func wait(nanoseconds: UInt64) {
        // A millisecond late, never early: a wait of 0 for something that is due soon would spin.
        let milliseconds =
            nanoseconds == .max ? -1 : Int32(min(nanoseconds / 1_000_000 + 1, 60_000))
        var ends = [
            pollfd(fd: socket, events: Int16(POLLIN), revents: 0),
            pollfd(fd: wakeEnds.read, events: Int16(POLLIN), revents: 0),
        ]
        // SAFETY: the kernel writes within the two entries.
        _ = unsafe ends.withUnsafeMutableBufferPointer {
            unsafe poll($0.baseAddress, 2, nanoseconds == 0 ? 0 : milliseconds)
        }
        guard ends[1].revents != 0 else { return }
        var bytes = [UInt8](repeating: 0, count: 64)
        // SAFETY: at most the array's own bytes are written.
        while unsafe read(wakeEnds.read, &bytes, bytes.count) == bytes.count {}
    }

    enum Received {
        /// In the front of the buffer.
        case datagram(byteCount: Int)
        /// The network's answer to an earlier datagram.
        case failure(errno: Int32)
        case nothing
    }

    /// Takes the next datagram, without waiting, into `buffer`, which is made once.
    func receive(_ buffer: inout [UInt8]) -> Received {
        if buffer.count != Self.byteCountMax {
            buffer = [UInt8](repeating: 0, count: Self.byteCountMax)
        }
        // SAFETY: at most the buffer's own bytes are written.
        let count = unsafe buffer.withUnsafeMutableBytes {
            unsafe recv(socket, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT))
        }
        if count < 0 {
            return errno == EAGAIN || errno == EINTR ? .nothing : .failure(errno: errno)
        }
        return .datagram(byteCount: count)
    }
}
