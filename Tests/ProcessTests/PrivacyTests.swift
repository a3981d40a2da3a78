import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// That nothing of a person is kept: no id of an event or a session, and nothing of what is not asked for.
    struct PrivacyTests {
        private static func secret(_ random: inout SeededRandom) -> String {
            let letters = Array("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789")
            return String((0..<24).map { _ in letters[Int(random.below(UInt64(letters.count)))] })
        }

        /// Each way in which a text of a person might be kept.
        private static func forms(_ secret: String) -> [Data] {
            let hex = secret.utf8.map { byte in
                let digits = String(byte, radix: 16)
                return digits.count == 1 ? "0" + digits : digits
            }.joined()
            return [secret, hex, hex.uppercased(), Data(secret.utf8).base64EncodedString()]
                .map { Data($0.utf8) }
        }

        /// Events with texts of a person wherever there is room for them, some of them malformed.
        private static func lines(_ count: Int) -> (lines: [String], secrets: [String]) {
            var random = SeededRandom(seed: UInt64.random(in: 0...UInt64.max))
            var secrets: [String] = []
            let lines = (0..<count).map { number in
                let own = (0..<5).map { _ in secret(&random) }
                secrets += own
                let type = ["impression", "click", "redemption"][number % 3]
                let consent = ["optIn", "notSet", "optOut"][number % 7 % 3]
                let reward =
                    number % 50 == 49 ? String(repeating: "x", count: 129) : "r-\(number % 9)"
                return """
                    {"eventType":"\(type)","rewardId":"\(reward)","businessId":"b","timestamp":1763600000000,\
                    "eventId":"\(own[0])","sessionId":"\(own[1])","consent":"\(consent)",\
                    "ip":"\(own[2])","metadata":{"userAgent":"\(own[3])","campaign":"\(own[4])@example.org"}}
                    """
            }
            return (lines, secrets)
        }

        @Test
        func `no file, log line or answer has an id of an event, of a session, or an address`()
            throws
        {
            let (lines, secrets) = Self.lines(150)
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let file = try folder.write("events.ndjson", lines: lines)
            var texts: [String] = []
            // As plain datagrams too. The program refuses three lines.
            let sent = try daemon.send(file)
            let plain = try run(
                "ingest-send", ["--to", daemon.address, "--plain", file], in: folder)
            texts += [sent.output, sent.errors, plain.output, plain.errors]
            let reader = Reader(folder: folder)
            let isComplete = try eventually {
                try reader.status().events.values.reduce(0, +) >= 2 * (lines.count - 3)
            }
            #expect(isComplete)
            let export = "\(folder.path)/events.export"
            #expect(
                try reader.run("export", "events", "--format", "ndjson", "--out", export).code == 0)
            for command in ["status", "ledger", "rewards", "days", "reward-days", "verify"] {
                let ended = try reader.run(command, "--format", "ndjson")
                texts += [ended.output, ended.errors]
            }
            let log = daemon.log
            #expect(daemon.stop().code == 0)
            texts += [log, daemon.output, try String(contentsOfFile: export, encoding: .utf8)]
            let files = try Self.files(of: folder.data)
            #expect(files.contains { $0.name == "session-keys" } && files.count > 4)
            let all = files + texts.map { ("an output", Data($0.utf8)) }
            // The search finds what is there.
            #expect(all.contains { $0.data.range(of: Data("r-8".utf8)) != nil })
            for secret in secrets {
                for form in Self.forms(secret) {
                    let found = all.first { $0.data.range(of: form) != nil }
                    #expect(found == nil, "\(secret) in \(found?.name ?? "")")
                }
            }
        }

        private static func files(of path: String) throws -> [(name: String, data: Data)] {
            try FileManager.default.subpathsOfDirectory(atPath: path).compactMap { name in
                // Zeros hold room back, and are many.
                if name == "reserve" { return nil }
                let data = try? Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)"))
                return data.map { (name, $0) }
            }
        }
    }
}
