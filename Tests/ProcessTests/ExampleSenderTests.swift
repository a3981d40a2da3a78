import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// The senders of examples/, each in a language of its own, which share nothing with the project but its pages. They
    /// do what docs/protocol.md says.
    struct ExampleSenderTests {
        private static let key = Array(0..<32) as [UInt8]
        private static let keys = "1 \(key.hex)\n"

        /// Real events without ids: what is sent again can only be told by its sequence.
        private static let lines = RealEvents.lines.prefix(400).map {
            $0.replacing(#/"eventId":"[^"]*",/#, with: "")
        }

        @Test(arguments: Example.allCases)
        func `through loss and kill -9 of the daemon every event counts once`(example: Example)
            throws
        {
            try example.requireToolchain()
            // About sixty packets.
            let lines = Self.lines.prefix(example == .smallPython ? 60 : 400)
            #expect(!lines.contains { $0.contains("eventId") })
            let count = example == .python ? 600 : lines.count
            let hasKey = example.takesKey && example != .node
            let folder = try TemporaryFolder()
            let options = hasKey ? ["--keys", try folder.writeKeys(Self.keys)] : []
            var network = try FaultyNetwork(
                in: folder, seed: 5, ImpairingProxy.Chances(lossPercent: 30), options)
            let sender = try example.start(
                to: network.address, key: hasKey ? Self.key : nil,
                input: lines.map { $0 + "\n" }.joined(), in: folder)
            try network.killDaemon(whenVisible: count / 3) { !sender.isRunning }
            #expect(sender.isRunning, "\(sender.errors)")
            let ended = sender.end(withinSeconds: 300)
            #expect(ended.code == 0, "\(ended.errors)")
            try network.check(example == .python ? nil : EventModel(lines))
            let reader = network.reader
            if example == .python {
                let row = try #require(
                    try Reader.rows(of: reader.run("reward", "python-reward").output).first)
                #expect(row["businessId"] as? String == "python-business")
                #expect(row["impressions"] as? Int == 400 && row["clicks"] as? Int == 150)
                #expect(row["viewableImpressions"] as? Int == 400)
                #expect(row["redemptions"] as? Int == 50 && row["revenue"] as? String == "625.00")
                #expect(try reader.status().events["malformed"] == 0)
                let totals = try reader.totals()
                #expect(totals["impressions"] == 400 && totals["clicks"] == 150)
                #expect(totals["redemptions"] == 50)
            }
            let rows = try Reader.rows(of: reader.run("ledger", "--format", "ndjson").output)
            // Damaged packets have a row of their own.
            let row = try #require(rows.first { $0["eventsDecoded"] as? Int != 0 })
            #expect(example.senderID == nil || row["sender"] as? String == example.senderID)
            #expect(row["eventsCounted"] as? Int == count)
            #expect(row["packetsMissing"] as? Int == 0 && row["packetsOpen"] as? Int == 0)
        }

        @Test(arguments: Example.ofLines)
        func `lines of any form are sent, in packets that are acked`(example: Example) throws {
            try example.requireToolchain()
            let hasKey = example == .node
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(
                in: folder, hasKey ? ["--keys", try folder.writeKeys(Self.keys)] : [])
            let line = HandSender.line(1)
            let long = line.dropLast() + #","x":"\#(String(repeating: "x", count: 60_000))"}"#
            let sender = try example.start(
                to: daemon.address, key: hasKey ? Self.key : nil,
                input: "\(line)\r\n\n{\"é\":1}\n\(long)\n\(line)\n\(line)", in: folder)
            let ended = sender.end(withinSeconds: 120)
            #expect(ended.code == 0, "\(ended.errors)")
            let reader = Reader(folder: folder)
            #expect(daemon.stop().code == 0)
            let events = try reader.status().events.filter { $0.value > 0 }
            #expect(events == ["counted": 4, "malformed": 1])
            #expect(try reader.run("verify").code == 0)
        }

        @Test(arguments: Example.ofLines)
        func `a line that no packet takes is passed over, and said so`(example: Example) throws {
            try example.requireToolchain()
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let line = HandSender.line(1)
            // The second is longer than what a sender reads at once.
            let (long, longer) = (70_000, 2_000_000)
            let input = [long, longer].map { "\(line)\n" + String(repeating: "x", count: $0) }
            let sender = try example.start(
                to: daemon.address, input: input.joined(separator: "\n"), in: folder)
            let ended = sender.end(withinSeconds: 120)
            #expect(ended.code == 1)
            #expect(ended.errors.contains("2 lines are longer than a packet takes"), "\(ended)")
            #expect(daemon.stop().code == 0)
            let reader = Reader(folder: folder)
            #expect(try reader.status().events.filter { $0.value > 0 } == ["counted": 2])
        }

        /// What the sender of a packet may be told, and by whom.
        private struct Answers {
            let sender: UInt64
            let epoch: UInt64
            /// That of the acks' tags; `nil` = they have none.
            let key: [UInt8]?

            init(to packet: [UInt8], key: [UInt8]? = nil) {
                func number(_ offset: Int) -> UInt64 {
                    packet[offset..<offset + 8].reversed().reduce(0) { $0 << 8 | UInt64($1) }
                }
                (sender, epoch) = (number(8), number(16))
                self.key = key
            }

            /// That its first packet is durable, or why not.
            private func ack(_ status: UInt8 = 0) -> FramedPacket {
                var payload = [UInt8](repeating: 0, count: 40)
                payload[0] = status == 0 ? 1 : 0
                payload[12] = status
                return FramedPacket(
                    kind: 129, flags: key == nil ? 0 : 2, keyID: key == nil ? 0 : 1, sender: sender,
                    epoch: epoch, payload: payload)
            }

            private func tagged(_ packet: FramedPacket) -> [UInt8] {
                packet.bytes + (key.map { HandSender.tag(packet.bytes, $0) } ?? [])
            }

            func bytes(_ status: UInt8 = 0) -> [UInt8] { tagged(ack(status)) }

            /// What a receiver says that knows a later start of the sender.
            var overtaken: [UInt8] {
                var later = ack(3)
                later.epoch += 1 << 20
                return tagged(later)
            }

            /// Those that it must not believe.
            var others: [[UInt8]] {
                var changed = [FramedPacket](repeating: ack(), count: 6)
                changed[0].sender ^= 1
                changed[1].epoch += 1
                changed[2].kind = 1
                changed[3].isChecksumDamaged = true
                changed[4] = ack(3)
                changed[4].epoch -= 1
                changed[5] = ack(6)
                changed[5].epoch += 1
                var others = changed.map { tagged($0) } + [[], Array(bytes().prefix(48)), [0x7B]]
                if key != nil {
                    var (damaged, other) = (bytes(), ack())
                    damaged[damaged.count - 1] ^= 1
                    other.keyID = 2
                    others += [damaged, ack().bytes, tagged(other)]
                }
                return others + others
            }
        }

        /// Its input has one line, and stays open: it sends and ends without another.
        @Test(arguments: Example.ofLines)
        func `only acks of its own are believed, and two that refuse end it`(example: Example)
            throws
        {
            try example.requireToolchain()
            let key = example.takesKey ? Self.key : nil
            for status in [0, 3, 4, 5, 6] as [UInt8] {
                let folder = try TemporaryFolder()
                let socket = LoopbackSocket()
                let input = Pipe()
                let sender = try example.start(
                    to: "127.0.0.1:\(socket.port)", key: key, input: input.fileHandleForReading,
                    in: folder)
                try input.fileHandleForWriting.write(contentsOf: Data("{}\n".utf8))
                let first = try #require(socket.receive(withinMilliseconds: 60_000))
                #expect(first.bytes.count == (key == nil ? 80 : 96))
                #expect(Array(first.bytes[4...5]) == [3, key == nil ? 1 : 3])
                let answers = Answers(to: first.bytes, key: key)
                for other in answers.others { socket.send(other, to: first.from) }
                // One refusal is none.
                socket.send(answers.bytes(status == 0 ? 3 : status), to: first.from)
                let second = try #require(socket.receive(withinMilliseconds: 60_000))
                #expect(second.bytes == first.bytes)
                if status == 0 { try input.fileHandleForWriting.close() }
                let last = status == 3 ? answers.overtaken : answers.bytes(status)
                socket.send(last, to: first.from)
                let ended = sender.end()
                #expect(ended.code == (status == 0 ? 0 : 1), "\(ended.errors)")
                #expect(status == 0 || ended.errors.contains("status \(status): "))
            }
        }

        @Test(arguments: Example.ofLines)
        func `no more than sixteen packets are not acked`(example: Example) throws {
            try example.requireToolchain()
            let folder = try TemporaryFolder()
            let socket = LoopbackSocket()
            let line = #"{"x":"\#(String(repeating: "y", count: 1_400))"}"# + "\n"
            let sender = try example.start(
                to: "127.0.0.1:\(socket.port)", input: String(repeating: line, count: 40),
                in: folder)
            var counts: [UInt8: Int] = [:]
            var last: (bytes: [UInt8], from: LoopbackSocket.Source)?
            // Each is sent again twice by then, and what the receiver says meanwhile makes no room.
            while counts.values.min() ?? 0 < 3 || counts.count < 16 {
                let packet = try #require(socket.receive(withinMilliseconds: 60_000))
                counts[packet.bytes[24], default: 0] += 1
                last = packet
                socket.send(Answers(to: packet.bytes).bytes(1), to: packet.from)
            }
            #expect(counts.keys.max() == 15)
            // So that it ends.
            let (bytes, from) = try #require(last)
            for _ in 0..<2 { socket.send(Answers(to: bytes).bytes(3), to: from) }
            #expect(sender.end().code == 1)
        }
    }
}
