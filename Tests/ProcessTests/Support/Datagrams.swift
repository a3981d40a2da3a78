import Foundation
import Glibc
import IngestFormat

/// A plain UDP socket of the test's own, and packets built by hand from the published layout, so that
/// what is refused is judged from outside.
struct Datagrams {
    private let descriptor: Int32
    private var address = sockaddr_in()

    init(to port: UInt16) {
        descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    }

    func close() { _ = Glibc.close(descriptor) }

    func send(_ bytes: [UInt8]) {
        var target = address
        _ = withUnsafePointer(to: &target) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(
                    descriptor, bytes, bytes.count, 0, $0, socklen_t(MemoryLayout<sockaddr_in>.size)
                )
            }
        }
    }

    func send(_ text: String) { send(Array(text.utf8)) }

    /// The next datagram that came back; `nil` if none came within a while.
    func receive(withinMilliseconds limit: Int32 = 200) -> [UInt8]? {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&waiting, 1, limit) == 1 else { return nil }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        return count < 0 ? nil : Array(bytes.prefix(count))
    }
}

/// A framed packet as a sender in another language would write it.
struct FramedPacket {
    var magic = Array("IGD1".utf8)
    var kind: UInt8 = 1
    var flags: UInt8 = 0
    var keyID: UInt16 = 0
    var sender: UInt64 = 77
    var epoch: UInt64 = 1 << 60
    var sequence: UInt64 = 0
    var payload: [UInt8] = []
    /// What the header says, where it is to differ from the truth.
    var claimedByteCount: UInt32?
    var isChecksumDamaged = false

    var bytes: [UInt8] {
        var header =
            magic + [kind, flags, UInt8(truncatingIfNeeded: keyID), UInt8(keyID >> 8)]
        for value in [sender, epoch, sequence] { header += Self.littleEndian(value, 8) }
        header += Self.littleEndian(UInt64(claimedByteCount ?? UInt32(payload.count)), 4)
        let checksum = Checksum.crc32c(header + payload) ^ (isChecksumDamaged ? 1 : 0)
        return header + Self.littleEndian(UInt64(checksum), 4) + payload
    }

    private static func littleEndian(_ value: UInt64, _ byteCount: Int) -> [UInt8] {
        (0..<byteCount).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }
}
