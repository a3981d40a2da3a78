import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// Packets of JSON lines: acked like those of protobuf, line by line like plain datagrams.
    struct JSONBatchTests {
        /// A payload, and what of it is counted and malformed.
        private typealias Case = (payload: [UInt8], counted: Int, malformed: Int)

        private static let payloadByteCountMax = 65_507 - 40

        /// A line that is an event, of just so many bytes by a key that nobody knows.
        private static func line(byteCount: Int) -> [UInt8] {
            let (head, tail) = (HandSender.line(1).dropLast() + ",\"x\":\"", "\"}")
            let filler = String(repeating: "x", count: byteCount - head.count - tail.count)
            return Array((head + filler + tail).utf8)
        }

        private static let cases: [Case] = {
            let line = Array(HandSender.line(1).utf8)
            let newline: [UInt8] = [0x0A]
            return [
                (
                    newline + newline + [0x20, 0x09, 0x0D, 0x0A]
                        + [UInt8](repeating: 0x20, count: 64), 0, 0
                ),
                (line, 1, 0),
                (line + newline + line, 2, 0),
                (line + newline + line + newline, 2, 0),
                (line + [0x0D, 0x0A] + line + [0x0D, 0x0A], 2, 0),
                // Only white space is padding.
                (line + [UInt8](repeating: 0, count: 32), 0, 1),
                (line + newline + [UInt8](repeating: 0, count: 32), 1, 1),
                (line.dropLast() + [0x2C, 0x22, 0, 0x22, 0x3A, 0x31, 0x7D], 0, 1),
                (line + line, 0, 1),
                ([0x5B] + line + [0x5D], 0, 1),
                ([0xEF, 0xBB, 0xBF] + line, 0, 1),
                (line + newline + line.dropLast() + newline + line, 2, 1),
                // Protobuf: an end of line is the length of its business.
                (Array(HandSender.payload(1) + [UInt8](repeating: 0x20, count: 64)), 0, 2),
                (Self.line(byteCount: payloadByteCountMax), 1, 0),
                (Self.line(byteCount: payloadByteCountMax).dropLast() + [0x20], 0, 1),
                ([UInt8](repeating: 0x7B, count: payloadByteCountMax), 0, 1),
                // More lines than a packet has room for events.
                (Array(repeatElement([0x78, 0x0A], count: 32_733).joined()) + [0x78], 0, 32_734),
                ([UInt8](repeating: 0x0A, count: payloadByteCountMax), 0, 0),
                (
                    Array(
                        repeatElement(line + newline, count: payloadByteCountMax / (line.count + 1))
                            .joined()),
                    payloadByteCountMax / (line.count + 1), 0
                ),
            ]
        }()

        @Test func `a bad line costs only itself, and every packet is acked and in the ledger`()
            throws
        {
            let folder = try TemporaryFolder()
            var daemon = try DaemonProcess(in: folder)
            let port = daemon.port
            let sender = HandSender(to: port, sender: 7)
            func packet(_ sequence: Int) -> [UInt8] {
                FramedPacket(
                    kind: 3, flags: 1, sender: 7, epoch: sender.epoch, sequence: UInt64(sequence),
                    payload: Self.cases[sequence].payload
                ).bytes
            }
            for sequence in Self.cases.indices {
                sender.send(packet(sequence))
                let isAcked = eventually {
                    sender.listen(withinMilliseconds: 10)
                    return sender.acks.contains { $0.floor == UInt64(sequence) + 1 }
                }
                #expect(isAcked, "packet \(sequence)")
            }
            // Too short to be answered, and taken all the same.
            let empty = UInt64(Self.cases.count)
            sender.send(
                FramedPacket(kind: 3, flags: 1, sender: 7, epoch: sender.epoch, sequence: empty)
                    .bytes)
            #expect(sender.delivers(empty + 1..<empty + 2))
            #expect(sender.acks.last?.floor == empty + 2)
            daemon.kill()
            daemon = try DaemonProcess(in: folder, ["--udp", "127.0.0.1:\(port)"])
            for sequence in Self.cases.indices { sender.send(packet(sequence)) }
            // The same bytes under another kind are another packet, or one of no kind.
            var last = FramedPacket(
                kind: 3, flags: 1, sender: 7, epoch: sender.epoch, sequence: empty + 2,
                payload: Self.cases[1].payload)
            for (kind, floor, status) in [(3, empty + 3, 0), (1, 0, 3), (5, 0, 5)]
                as [(UInt8, UInt64, UInt32)]
            {
                last.kind = kind
                sender.send(last.bytes)
                let isAnswered = eventually {
                    sender.listen(withinMilliseconds: 10)
                    return sender.acks.contains { $0.status == status && $0.floor >= floor }
                }
                #expect(isAnswered, "kind \(kind)")
            }
            #expect(daemon.stop().code == 0)
            try expectCounted(folder)
        }

        private func expectCounted(_ folder: TemporaryFolder) throws {
            let reader = Reader(folder: folder)
            let counted = Self.cases.reduce(2) { $0 + $1.counted }
            let malformed = Self.cases.reduce(0) { $0 + $1.malformed }
            let status = try reader.status()
            #expect(
                status.events.filter { $0.value > 0 }
                    == ["counted": counted, "malformed": malformed])
            let text = try reader.run("ledger", "--sender", "7", "--format", "ndjson").output
            let row = try #require(try Reader.rows(of: text).first)
            #expect(row["packetsReceived"] as? Int == Self.cases.count + 3)
            let resent = try #require(row["packetsResent"] as? Int)
            #expect(resent >= Self.cases.count)
            #expect(row["packetsMissing"] as? Int == 0 && row["packetsOpen"] as? Int == 0)
            #expect(row["eventsCounted"] as? Int == counted)
            #expect((row["packetsRefused"] as? [String: Int])?["sequence_conflict"] == 1)
            #expect((row["eventsRefused"] as? [String: Int])?["malformed"] == malformed)
            #expect(try reader.run("verify", "--deep").code == 0)
        }
    }
}
