import Glibc
import Testing

/// A socket of the test's own that is connected to a socket file.
final class UnixSocket {
    private let descriptor: Int32

    init(_ kind: __socket_type, to path: String) throws {
        descriptor = socket(AF_UNIX, Int32(kind.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { room in
            precondition(path.utf8.count < room.count, "the path is too long for a socket")
            room.copyBytes(from: path.utf8)
        }
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        if result != 0 { throw Failure(description: "connect \(path): errno \(errno)") }
    }

    struct Failure: Error, CustomStringConvertible { let description: String }

    deinit { _ = close(descriptor) }

    func send(_ text: String) {
        let bytes = Array(text.utf8)
        #expect(Glibc.send(descriptor, bytes, bytes.count, 0) == bytes.count)
    }

    /// What comes until the other side closes.
    func receiveAll() -> String {
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while case let count = recv(descriptor, &buffer, buffer.count, 0), count > 0 {
            all += buffer[..<count]
        }
        return String(decoding: all, as: UTF8.self)
    }
}
