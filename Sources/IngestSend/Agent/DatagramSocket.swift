// datagram → socket → [lines] → send → spool → packet

import ArgumentParser
import CIngestLinux
import Dispatch
import Glibc
import IngestFormat
import Synchronization

/// `udp:HOST:PORT` or `unix:PATH`, as `--listen` takes it.
enum ListenAddress: ExpressibleByArgument, Sendable, CustomStringConvertible {
    case udp(HostPort)
    case unix(String)

    /// What fits sun_path with its end.
    static let pathByteCountMax = 107

    init?(argument: String) {
        if argument.hasPrefix("udp:"), let address = HostPort(String(argument.dropFirst(4))) {
            self = .udp(address)
        } else if argument.hasPrefix("unix:"),
            (1...Self.pathByteCountMax).contains(argument.utf8.count - 5)
        {
            self = .unix(String(argument.dropFirst(5)))
        } else {
            return nil
        }
    }

    var description: String {
        switch self {
        case .udp(let address): "udp:\(address.host):\(address.port)"
        case .unix(let path): "unix:\(path)"
        }
    }
}

/// A socket on which other programs of this machine give events, as datagrams.
///
/// One thread receives, any asks for drops; it closes with the object.
final class DatagramSocket: Sendable {
    /// As much as the kernel allows of it: what comes while the disk writes waits there.
    private static let receiveByteCount: Int32 = 64 << 20

    let descriptor: Int32
    /// As it was bound: with the port that the kernel has chosen.
    let name: String
    /// Of a socket file, which is removed at the end.
    private let path: String?

    /// **Errors** The address is in use (69), unknown or not of this machine.
    init(_ address: ListenAddress) throws(AgentFailure) {
        switch address {
        case .udp(let parts): (descriptor, name) = try Self.bound(parts)
        case .unix(let file): (descriptor, name) = (try Self.bound(file), "unix:\(file)")
        }
        if case .unix(let file) = address { path = file } else { path = nil }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        for option in [SO_RCVBUFFORCE, SO_RCVBUF] where set(SOL_SOCKET, option) { break }
    }

    deinit {
        _ = close(descriptor)
        // SAFETY: the path is copied by the kernel.
        if let path { _ = unsafe unlink(path) }
    }

    private func set(_ level: Int32, _ option: Int32) -> Bool {
        var value = Self.receiveByteCount
        // SAFETY: four bytes are read.
        return unsafe setsockopt(descriptor, level, option, &value, 4) == 0
    }

    private static func failure(_ name: String, _ call: String, _ errno: Int32) -> AgentFailure {
        // SAFETY: strerror returns a string for every number; it is copied at once.
        let reason = unsafe String(cString: strerror(errno))
        return AgentFailure(
            "\(name.debugDescription): \(call): \(reason), choose another address for --listen",
            exitCode: 69)
    }

    private static func bound(_ parts: HostPort) throws(AgentFailure) -> (Int32, String) {
        let name = "udp:\(parts.host):\(parts.port)"
        var address = ingest_address()
        // SAFETY: the text is terminated and lives through the call, which writes one address.
        let code = unsafe parts.host.withCString {
            unsafe ingest_address_resolve($0, parts.port, nil, false, &address)
        }
        if code != 0 {
            // SAFETY: a text for every code, copied at once.
            let reason = unsafe String(cString: ingest_address_error(code))
            throw AgentFailure("\(name.debugDescription): \(reason)", exitCode: 69)
        }
        // SAFETY: the address is read only.
        let descriptor = unsafe ingest_udp_bind(&address, 0)
        if descriptor < 0 { throw failure(name, "bind", -descriptor) }
        // Datagrams must not be joined: nothing else tells where one ends.
        var off: Int32 = 0
        var text = [CChar](repeating: 0, count: 128)
        // SAFETY: four bytes are read; one address is written; at most the text's own bytes are.
        unsafe setsockopt(descriptor, Int32(IPPROTO_UDP), 104, &off, 4)
        _ = unsafe ingest_udp_address(descriptor, &address)
        unsafe ingest_address_text(&address, &text, text.count)
        let ends = text.firstIndex(of: 0) ?? text.count
        let bytes = text[..<ends].map { UInt8(bitPattern: $0) }
        return (descriptor, "udp:\(String(decoding: bytes, as: UTF8.self))")
    }

    /// A socket file without a receiver was left by a program that was killed, and is replaced.
    private static func bound(_ path: String) throws(AgentFailure) -> Int32 {
        let name = "unix:\(path)"
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | O_CLOEXEC, 0)
        if descriptor < 0 { throw failure(name, "socket", errno) }
        var result = unsafe at(path) { unsafe bind(descriptor, $0, $1) }
        if result != 0, errno == EADDRINUSE, try isLeft(path) {
            // SAFETY: the path is copied by the kernel.
            _ = unsafe unlink(path)
            result = unsafe at(path) { unsafe bind(descriptor, $0, $1) }
        }
        if result != 0 {
            let error = errno
            _ = close(descriptor)
            throw failure(name, "bind", error)
        }
        // As that of syslog: whoever reaches the folder may write. SAFETY: the path is copied.
        _ = unsafe chmod(path, 0o666)
        return descriptor
    }

    private static func isLeft(_ path: String) throws(AgentFailure) -> Bool {
        var status = stat()
        // SAFETY: the path is copied; the kernel writes one stat.
        guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else {
            return false
        }
        let probe = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | O_CLOEXEC, 0)
        defer { _ = close(probe) }
        let result = unsafe at(path) { unsafe connect(probe, $0, $1) }
        return result != 0 && errno == ECONNREFUSED
    }

    private static func at(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // SAFETY: the path fits with its end, as ListenAddress has checked; sockaddr_un is made to be read as sockaddr.
        return unsafe withUnsafeMutablePointer(to: &address) { pointer in
            let start = unsafe UnsafeMutableRawPointer(pointer) + 2
            for (i, byte) in path.utf8.enumerated() {
                unsafe start.storeBytes(of: byte, toByteOffset: i, as: UInt8.self)
            }
            return unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    /// Datagrams that the kernel has dropped, since the socket had no room (what SO_RXQ_OVFL tells with the next datagram,
    /// without waiting for one). Programs that write to a socket file are told or wait instead.
    var dropCount: UInt64 {
        var values = [UInt32](repeating: 0, count: 9)
        var byteCount = socklen_t(4 * values.count)
        // SAFETY: at most the array's own bytes are written. SO_MEMINFO and SK_MEMINFO_DROPS.
        return unsafe getsockopt(descriptor, SOL_SOCKET, 55, &values, &byteCount) == 0
            ? UInt64(values[8]) : 0
    }

    /// Nothing more comes from now on; what has come can still be received.
    func shut() -> Bool {
        var address = sockaddr_storage()
        var byteCount = socklen_t(MemoryLayout<sockaddr_storage>.size)
        // SAFETY: sockaddr_storage is made to be read as sockaddr; the kernel writes as many bytes as it has at most.
        return unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                guard unsafe getsockname(descriptor, $0, &byteCount) == 0 else { return false }
                // A connected socket takes datagrams of its other end alone, which is itself here.
                return unsafe connect(descriptor, $0, byteCount) == 0
            }
        }
    }

    /// Takes the next datagram without waiting; its size, or `nil` if there is none.
    func receive(_ buffer: inout [UInt8]) -> Int? {
        // SAFETY: at most the buffer's own bytes are written.
        let count = unsafe buffer.withUnsafeMutableBytes {
            unsafe recv(descriptor, $0.baseAddress, $0.count, 0)
        }
        return count < 0 ? nil : count
    }
}

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
