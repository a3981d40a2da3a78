// events → [send] → encode → packet → socket

import IngestFormat
import IngestKeys

extension EventSender {
    public struct Options: Sendable {
        /// Whether the receiver acks.
        public enum Delivery: Sendable {
            /// Every packet is sent again until it is durable at the receiver.
            case acked
            /// Every packet is sent once; the ledger tells what was lost.
            case unacked
        }

        /// The sender's own id, above 0; `nil` draws one at random, or takes that of the spool. Two processes
        /// must never share one.
        public var senderID: UInt64?
        /// The size of full packets: 1,200 … 65,507 bytes. The default fits an Ethernet frame over IPv4
        /// and IPv6; 8,952 is for jumbo frames.
        public var packetByteCountMax = 1_452
        /// How long an event may wait for its packet to fill: 1 … 1,000 ms.
        public var batchMillisecondsMax = 20
        public var delivery = Delivery.acked
        /// A directory, made if it is not there, in which packets are on disk before they are first sent. A
        /// sender that is opened on it again goes on with what is not acked. One sender at a time, and acked.
        public var spoolDirectory: String?
        /// Whether an event is on disk in the spool when `send` has returned, and not only after `flush`: each
        /// then costs a packet and an fdatasync of its own.
        public var isDurableAtSend = false
        /// Tags every packet; acks must be tagged too.
        public var key: Key?
        /// What may be taken and not be acked, 1 MiB … 1 GiB: beyond that `send` waits, or says `.full`.
        public var unackedByteCountMax = 64 << 20
        /// Whether `send` waits where as much is unacked as may be.
        public var waitsWhenFull = true
        /// Without any answer for so long while packets wait for one, the sender gives up: 1 … 31,536,000 s. A
        /// receiver that starts again is waited for. Where nobody ever listened, ten seconds are enough.
        public var silenceSecondsMax = 60

        public init() {}

        func check() throws(ClientError) {
            if senderID == 0 {
                throw .badOption(name: "senderID", got: 0, allowed: 1...UInt64.max)
            }
            try check("packetByteCountMax", packetByteCountMax, PacketBuilder.packetByteCountLimits)
            try check("batchMillisecondsMax", batchMillisecondsMax, 1...1_000)
            try check(
                "unackedByteCountMax", unackedByteCountMax, 1 << 20...Limits.unackedByteCountMax)
            try check("silenceSecondsMax", silenceSecondsMax, 1...31_536_000)
        }

        private func check(
            _ name: String, _ got: Int, _ allowed: ClosedRange<Int>
        ) throws(ClientError) {
            guard allowed.contains(got) else {
                throw .badOption(
                    name: name, got: UInt64(clamping: got),
                    allowed: UInt64(allowed.lowerBound)...UInt64(allowed.upperBound))
            }
        }
    }

    /// A key that tags packets, from a keys file (docs/format/keys.md) or from elsewhere.
    public struct Key: Sendable {
        let key: PacketKey

        /// - Parameters:
        ///   - id: 1 … 65,535, as the receiver's keys file has it.
        ///   - bytes: 16 … 64.
        ///
        /// **Errors** `ClientError.badOption`.
        public init(id: UInt16, bytes: [UInt8]) throws(ClientError) {
            if id == 0 { throw .badOption(name: "key id", got: 0, allowed: 1...65_535) }
            let allowed = Limits.keyByteCountMin...Limits.keyByteCountMax
            guard allowed.contains(bytes.count) else {
                throw .badOption(
                    name: "the key's byte count", got: UInt64(bytes.count), allowed: 16...64)
            }
            key = PacketKey(id: id, key: bytes)
        }

        /// The key of a keys file.
        ///
        /// **Errors** `ClientError.keys`: the file is not there, not its owner's alone, wrong, or has no such key.
        public init(id: UInt16, file path: String) throws(ClientError) {
            do throws(KeysError) {
                guard let key = try KeysFile(path: path)[id] else {
                    throw .unknownKey(path: path, id: id)
                }
                self.key = key
            } catch {
                throw ClientError(keys: error)
            }
        }

        /// The only sender that may use the key, if there is one.
        package var sender: UInt64? { key.sender?.rawValue }
    }
}
