// datagram → [socket] → lines → send → spool → packet

import Dispatch
import Glibc
import Synchronization

/// Empties sockets into memory, on a thread of its own: a disk that takes its time must not fill them. What is in here, little,
/// is lost where the program is killed.
///
/// **Cost** A thread; as many bytes as came while the spool was written, `byteCountMax` at most.
final class DatagramInbox: Sendable {
    /// When so much waits, the sockets are not read: the kernel counts what it drops.
    private static let byteCountMax = 4 << 20
    /// No datagram is larger.
    private static let datagramByteCountMax = 1 << 20
    private static let waitMilliseconds: Int32 = 100
    /// Taken of one socket before it is the other's turn.
    private static let turnCountMax = 65_536

    private struct State {
        /// The datagrams, each with a newline behind it.
        var lines: [UInt8] = []
        var isStopped = false
        var hasEnded = false
    }

    let sockets: [DatagramSocket]
    private let state = Mutex(State())
    private let signal: DispatchSemaphore

    /// - Parameter signal: signalled where there is something to take, and at the end.
    init(_ sockets: [DatagramSocket], signal: DispatchSemaphore) {
        (self.sockets, self.signal) = (sockets, signal)
        DispatchQueue(label: "ingest.send.listen").async { self.run() }
    }

    var dropCount: UInt64 { sockets.reduce(0) { $0 + $1.dropCount } }

    /// Puts what has come in place of `lines`; `false` if nothing has, and nothing will.
    func take(_ lines: inout [UInt8]) -> Bool {
        lines.removeAll(keepingCapacity: true)
        return state.withLock { state in
            swap(&lines, &state.lines)
            return !lines.isEmpty || !state.hasEnded
        }
    }

    /// What the sockets hold is still taken, then nothing more.
    func stop() { state.withLock { $0.isStopped = true } }

    private func run() {
        var buffer = [UInt8](repeating: 0, count: Self.datagramByteCountMax)
        var entries = sockets.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
        var isOpen = true
        while isOpen {
            isOpen = state.withLock { !$0.isStopped }
            // Where that fails it is not waited until nobody sends.
            let isShut = sockets.map { !isOpen && $0.shut() }
            // SAFETY: the kernel writes within the entries.
            unsafe poll(&entries, nfds_t(entries.count), isOpen ? Self.waitMilliseconds : 0)
            for (socket, isShut) in zip(sockets, isShut) {
                empty(socket, &buffer, countMax: isShut ? .max : Self.turnCountMax)
            }
        }
        state.withLock { $0.hasEnded = true }
        signal.signal()
    }

    private func empty(_ socket: DatagramSocket, _ buffer: inout [UInt8], countMax: Int) {
        for _ in 0..<countMax {
            while state.withLock({ $0.lines.count >= Self.byteCountMax }) { usleep(5_000) }
            guard let count = socket.receive(&buffer) else { return }
            let isFirst = state.withLock { state in
                let isFirst = state.lines.isEmpty
                state.lines += buffer[..<count]
                state.lines.append(0x0A)
                return isFirst
            }
            if isFirst { signal.signal() }
        }
    }
}
