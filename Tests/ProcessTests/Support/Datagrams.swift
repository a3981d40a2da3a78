import IngestFormat
import TestSupport

/// A plain UDP socket of the test's own that sends to one port.
struct Datagrams {
    private let socket = LoopbackSocket()
    private let target: UInt16

    init(to port: UInt16) { target = port }

    func close() { socket.close() }
    func send(_ bytes: [UInt8]) { socket.send(bytes, to: target) }
    func send(_ text: String) { send(Array(text.utf8)) }

    /// The next datagram that came back; `nil` if none came within a while.
    func receive(withinMilliseconds limit: Int32 = 200) -> [UInt8]? {
        socket.receive(withinMilliseconds: limit)?.bytes
    }
}

/// A framed packet as a sender in another language would write it: built from the published layout, so that what is
/// refused is judged from outside.
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
