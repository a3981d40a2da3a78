import Glibc
import IngestFormat
import Synchronization

/// A real UDP socket on 127.0.0.1, for what stands at the other end of a program's network.
package final class LoopbackSocket: Sendable {
    /// Where a datagram came from.
    package typealias Source = sockaddr_in

    private let descriptor: Atomic<Int32>
    /// The port that it is bound to.
    package let port: UInt16

    package init() {
        let socket = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        var address = Self.address(0)
        let isBound = Self.withAddress(&address) { pointer, byteCount in
            bind(socket, pointer, byteCount.pointee) == 0
                && getsockname(socket, pointer, byteCount) == 0
        }
        precondition(isBound, "no socket on loopback")
        descriptor = Atomic(socket)
        port = UInt16(bigEndian: address.sin_port)
    }

    deinit { close() }

    /// One whose port is taken, so that no other test gets it, and where nobody receives: whoever sends there is
    /// answered that the port is unreachable, since a connected socket takes nothing of others.
    package static func refusing() -> LoopbackSocket {
        let socket = LoopbackSocket()
        var itself = address(socket.port)
        let descriptor = socket.descriptor.load(ordering: .relaxed)
        let isConnected = withAddress(&itself) { connect(descriptor, $0, $1.pointee) == 0 }
        precondition(isConnected, "no socket on loopback")
        return socket
    }

    /// Frees the port; the second time does nothing.
    package func close() {
        let open = descriptor.exchange(-1, ordering: .sequentiallyConsistent)
        if open >= 0 { _ = Glibc.close(open) }
    }

    package func send(_ bytes: [UInt8], to port: UInt16) { send(bytes, to: Self.address(port)) }

    package func send(_ bytes: [UInt8], to target: Source) {
        var target = target
        let socket = descriptor.load(ordering: .relaxed)
        _ = Self.withAddress(&target) { sendto(socket, bytes, bytes.count, 0, $0, $1.pointee) }
    }

    /// The next datagram and its source; `nil` if none has come in time.
    package func receive(withinMilliseconds limit: Int32 = 0) -> (bytes: [UInt8], from: Source)? {
        let socket = descriptor.load(ordering: .relaxed)
        var waiting = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
        guard limit == 0 || poll(&waiting, 1, limit) == 1 else { return nil }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        var source = Source()
        let count = Self.withAddress(&source) {
            recvfrom(socket, &bytes, bytes.count, Int32(MSG_DONTWAIT), $0, $1)
        }
        return count < 0 ? nil : (Array(bytes.prefix(count)), source)
    }

    private static func address(_ port: UInt16) -> Source {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }

    private static func withAddress<Result>(
        _ address: inout Source,
        _ body: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Result
    ) -> Result {
        var byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, &byteCount) }
        }
    }
}

/// Reads an answer as a sender does.
package func readAck<Value>(
    _ packet: [UInt8], _ body: (PacketHeader, AckView) throws -> Value
) throws -> Value {
    try packet.withUnsafeBytes { bytes in
        guard case .packet(let header) = PacketHeader.parse(bytes, for: .sender),
            let ack = AckView(header, of: bytes)
        else { throw AckFault.unreadable }
        return try body(header, ack)
    }
}

package enum AckFault: Error { case unreadable }
