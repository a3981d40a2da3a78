import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// Bad input over a real socket: each kind is counted by its name, and nothing else is lost.
    struct RefusalTests {
        /// Protobuf by hand, so that no encoder of ours is in play.
        private enum Wire {
            static func varint(_ value: UInt64) -> [UInt8] {
                var rest = value
                var bytes: [UInt8] = []
                while rest >= 0x80 {
                    bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
                    rest >>= 7
                }
                return bytes + [UInt8(rest)]
            }
            static func number(_ field: UInt64, _ value: UInt64) -> [UInt8] {
                varint(field << 3) + varint(value)
            }
            static func bytes(_ field: UInt64, _ value: [UInt8]) -> [UInt8] {
                varint(field << 3 | 2) + varint(UInt64(value.count)) + value
            }
            static func event(type: UInt64, reward: String) -> [UInt8] {
                bytes(
                    1,
                    number(1, type) + bytes(2, Array(reward.utf8)) + bytes(3, Array("b".utf8))
                        + number(4, 1_574_244_000_000_000))
            }
        }

        private static func line(_ reward: String) -> String {
            """
            {"eventType":"click","rewardId":"\(reward)","businessId":"b",\
            "timestamp":"2019-11-20T10:00:00Z"}
            """
        }

        @Test func `ingest-send names refused lines, and once what may be meant by keys and times`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let good = Self.line("r")
            let file = try folder.write(
                "events.ndjson",
                lines: [
                    good.replacing("eventType", with: "event_type"),
                    good.replacing("eventType", with: "event_type"),
                    good.replacing(#""2019-11-20T10:00:00Z""#, with: "1574244000"),
                    good.dropLast() + ",\"price\":1,\"\\u001b[2J\":2}",
                    good.dropLast() + ",\"price\":1}",
                ])
            let sent = try daemon.send(file)
            #expect(sent.code == 1)
            let refusal = "not a valid event: eventType is missing, refused"
            #expect(
                sent.errorLines == [
                    "ingest-send: line 1: \(refusal)",
                    "ingest-send: line 1: unknown key event_type, is eventType meant?",
                    "ingest-send: line 2: \(refusal)",
                    "ingest-send: line 3: timestamp is taken for milliseconds of 1970, are they seconds?",
                    "ingest-send: line 4: unknown key price is not read, correct its name or leave it out",
                    #"ingest-send: line 4: unknown key \u{1b}[2J is not read, correct its name or leave it out"#,
                ])
            #expect(try Reader(folder: folder).status().events["counted"] == 3)
            daemon.stop()
        }

        /// What is sent, and how it is to be counted: (datagram, packet result).
        private static let refused: [([UInt8], String)] = {
            let good = Wire.event(type: 2, reward: "lost")
            var cut = FramedPacket(payload: good).bytes
            cut.removeLast()
            return [
                (Array("hello".utf8), "bad_magic"),
                (Array("IGD".utf8), "bad_magic"),
                (FramedPacket(magic: Array("IGD2".utf8), payload: good).bytes, "bad_magic"),
                (Array("IGD1".utf8), "bad_length"),
                (cut, "bad_length"),
                (FramedPacket(payload: good, claimedByteCount: 4_000_000_000).bytes, "bad_length"),
                (FramedPacket(payload: good, isChecksumDamaged: true).bytes, "bad_crc"),
                (FramedPacket(kind: 7, payload: good).bytes, "bad_kind"),
                (FramedPacket(kind: 129, payload: good).bytes, "bad_kind"),
                (FramedPacket(flags: 0x80, payload: good).bytes, "bad_kind"),
                (FramedPacket(sender: 0, payload: good).bytes, "bad_kind"),
                (FramedPacket(payload: [0x0A, 0x7F, 1]).bytes, "malformed"),
                (FramedPacket(sequence: 1, payload: [0xFF, 0xFF]).bytes, "malformed"),
            ]
        }()

        @Test func `every kind of bad datagram is counted, and good ones beside it too`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let socket = Datagrams(to: daemon.port)
            defer { socket.close() }
            var expected: [String: Int] = [:]
            for (bytes, result) in Self.refused {
                socket.send(bytes)
                expected[result, default: 0] += 1
            }
            // A bad event costs only itself, in both forms.
            let batch =
                Wire.event(type: 2, reward: "framed") + Wire.event(type: 9, reward: "bad")
                + Wire.event(type: 2, reward: "") + Wire.event(type: 2, reward: "framed")
            socket.send(FramedPacket(sender: 78, payload: batch).bytes)
            socket.send("\(Self.line("plain"))\n{\"eventType\":\"click\"}\n\(Self.line("plain"))\n")
            expected["accepted"] = 2

            let reader = Reader(folder: folder)
            let isCounted = try eventually {
                let status = try reader.status()
                return status.packets.filter { $0.value > 0 } == expected
                    && status.events.filter { $0.value > 0 } == ["counted": 4, "malformed": 3]
            }
            let status = try reader.status()
            #expect(isCounted, "\(status), expected \(expected)")
            // Lines come within a second or two: a line a second and kind.
            for (name, count) in expected where name != "accepted" {
                let isTold = eventually { Self.told(daemon.log, "datagram", name) == count }
                #expect(isTold, "\(name): \(daemon.log)")
            }
            #expect(
                eventually { Self.told(daemon.log, "event", "malformed") == 3 }, "\(daemon.log)")
            #expect(
                try EventModel.counts(of: reader.run("rewards").output)
                    == ["framed": ["clicks": 2], "plain": ["clicks": 2]])
            let ended = daemon.stop()
            #expect(ended.code == 0)
            let last = ended.errorLines.last { $0.contains("refused in this run: ") }
            #expect(last?.contains("3 events as malformed") == true, "\(ended.errors)")
            for (name, count) in expected where name != "accepted" {
                let text = "\(count) datagram\(count == 1 ? "" : "s") as \(name)"
                #expect(last?.contains(text) == true, "\(text) in \(ended.errors)")
            }
            #expect(try reader.run("verify").code == 0)
        }

        /// How many datagrams or events the lines of a kind tell of, all together.
        private static func told(_ log: String, _ noun: String, _ name: String) -> Int {
            log.split(separator: "\n").reduce(0) { sum, line in
                let words = line.split(separator: " ")
                guard let at = words.firstIndex(of: "refused"), at + 4 < words.count,
                    words[at + 2].hasPrefix(noun), words[at + 4].hasPrefix(name)
                else { return sum }
                return sum + (Int(words[at + 1]) ?? 0)
            }
        }

        @Test func `events of a wrong clock have their line, and one bad line among good ones`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, ["--max-event-age-seconds", "604800"])
            let socket = Datagrams(to: daemon.port)
            defer { socket.close() }
            socket.send(Self.line("old"))
            socket.send(Self.line("early").replacing("2019", with: "2100"))
            socket.send("{not json")
            for (name, count) in [("too_old", 1), ("too_early", 1), ("malformed", 1)] {
                let isTold = eventually { Self.told(daemon.log, "event", name) == count }
                #expect(isTold, "\(name): \(daemon.log)")
            }
            #expect(daemon.stop().code == 0)
            // Nor do they leave a row or a name.
            let reader = Reader(folder: folder)
            let status = try reader.status()
            let refused = ["too_old": 1, "too_early": 1, "malformed": 1]
            #expect(status.events.filter { $0.value > 0 } == refused)
            #expect(try status.rows == 0 && reader.run("days").output.isEmpty)
            #expect(try reader.run("verify").code == 0)
        }

        @Test func `what is refused leaves no text of its sender unescaped in the log`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let socket = Datagrams(to: daemon.port)
            defer { socket.close() }
            for _ in 0..<1_000 { socket.send("\u{1B}[31mforged\ningestd: line") }
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.status().packets["bad_magic"] == 1_000 })
            #expect(daemon.stop().code == 0)
            #expect(daemon.log.contains(#"as bad_magic, the last of 25 bytes from 127.0.0.1:"#))
            #expect(daemon.log.contains(#"beginning with "\x1b[31""#), "\(daemon.log)")
            #expect(!daemon.log.contains("\u{1B}"))
            #expect(!daemon.log.contains("\ningestd: line"))
            let count = daemon.log.split(separator: "\n").count { $0.contains("as bad_magic") }
            #expect(count <= 10, "log lines are rate-limited: \(daemon.log)")
        }
    }
}
