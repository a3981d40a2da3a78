import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// Tenants of a real daemon, each with a key that is bound to its business: one of them wants the other's rewards.
    struct RewardOwnerTests {
        private static let keys: [(id: UInt16, bytes: [UInt8])] = [
            (1, Array(0..<32)), (2, Array(32..<64)), (3, Array(64..<96)),
        ]

        private static func options(_ folder: TemporaryFolder) throws -> [String] {
            let bounds = [" business=b-ours", " business=b-theirs", ""]
            let lines = zip(keys, bounds).map { "\($0.id) \($0.bytes.hex)\($1)\n" }
            let path = try folder.writeKeys(lines.joined())
            return ["--keys", path, "--segment-bytes-max", "65536"]
        }

        /// Clicks of one reward and business, all of which are acked.
        private static func clicks(
            _ daemon: DaemonProcess, _ count: UInt64, _ reward: String, _ business: String,
            key: Int, sender: UInt64
        ) -> Bool {
            let hand = HandSender(
                to: daemon.port, sender: sender, epoch: 1 << 60 + UInt64.random(in: 0..<1 << 40),
                key: keys[key - 1])
            hand.names = { _ in (reward, business) }
            return hand.delivers(0..<count)
        }

        private func row(_ reader: Reader, _ reward: String) throws -> String {
            try reader.run("reward", reward, "--format", "ndjson").output
        }

        @Test func `a tenant takes none of another's rewards, before and after any start`() throws {
            let folder = try TemporaryFolder()
            let options = try Self.options(folder) + ["--retention-bytes", "100000"]
            let reader = Reader(folder: folder)
            var daemon = try DaemonProcess(in: folder, options)
            #expect(Self.clicks(daemon, 9, "r-ours", "b-ours", key: 1, sender: 5))
            let ours = try row(reader, "r-ours")
            #expect(ours.contains("\"clicks\":9") && ours.contains("\"businessId\":\"b-ours\""))
            var refusedCount = 0
            func takes() throws {
                #expect(Self.clicks(daemon, 4, "r-ours", "b-theirs", key: 2, sender: 6))
                refusedCount += 4
                #expect(
                    try eventually {
                        try reader.status().events["wrong_business"] == refusedCount
                    })
                #expect(try row(reader, "r-ours") == ours)
            }
            try takes()
            daemon.kill()
            daemon = try DaemonProcess(in: folder, options)
            try takes()
            #expect(daemon.stop().code == 0)
            #expect(try reader.run("rebuild").code == 0)
            daemon = try DaemonProcess(in: folder, options)
            try takes()
            // The rows of the first segments expire, and the owner with none of them.
            var sender: UInt64 = 100
            let hasExpired = try eventually {
                sender += 1
                #expect(Self.clicks(daemon, 600, "r-theirs", "b-theirs", key: 2, sender: sender))
                return try reader.status().expired.map { $0.rows >= 9 } ?? false
            }
            #expect(hasExpired)
            try takes()
            #expect(daemon.stop().code == 0)
            #expect(try reader.run("rebuild").code == 0)
            #expect(try row(reader, "r-ours") == ours)
            daemon = try DaemonProcess(in: folder, options)
            try takes()
            #expect(Self.clicks(daemon, 1, "r-ours", "b-ours", key: 1, sender: 5))
            #expect(daemon.stop().code == 0)
            #expect(try row(reader, "r-ours").contains("\"clicks\":10"))
            #expect(try reader.run("verify").code == 0)
        }

        @Test
        func `the owners file is read at start and by SIGHUP, and a wrong one changes nothing`()
            throws
        {
            let folder = try TemporaryFolder()
            let path = "\(folder.path)/owners"
            func write(_ text: String) throws {
                try text.write(toFile: path, atomically: false, encoding: .utf8)
            }
            let options = try Self.options(folder) + ["--reward-owners", path]
            let reader = Reader(folder: folder)
            var arguments = ["--data", folder.data, "--http", "off", "--udp", "127.0.0.1:0"]
            arguments += options
            let missing = try run("ingestd", arguments, in: folder)
            #expect(
                missing.code == 78 && missing.errors.contains("reward owners file cannot be read"))
            try write("r-1\n")
            let wrong = try run("ingestd", arguments, in: folder)
            #expect(wrong.code == 78 && wrong.errors.contains("owners line 1, not two fields"))
            try write("r-1 b-theirs\n")
            let daemon = try DaemonProcess(in: folder, options)
            #expect(Self.clicks(daemon, 2, "r-1", "b-ours", key: 1, sender: 5))
            #expect(Self.clicks(daemon, 3, "r-1", "b-theirs", key: 2, sender: 6))
            try write("r-2 b-theirs\nr-2 b-ours\n")
            daemon.signal(SIGHUP)
            let isRefused = eventually {
                daemon.log.contains("line 2, the same reward a second time")
                    && daemon.log.contains("keeping the previous owners")
            }
            #expect(isRefused)
            #expect(Self.clicks(daemon, 4, "r-1", "b-ours", key: 1, sender: 5))
            try write("r-1 b-ours\n")
            daemon.signal(SIGHUP)
            let isRead = eventually { daemon.log.contains("reward owners file reloaded: 1 reward") }
            #expect(isRead)
            #expect(Self.clicks(daemon, 5, "r-1", "b-ours", key: 1, sender: 5))
            #expect(daemon.stop().code == 0)
            #expect(try reader.status().events["wrong_business"] == 6)
            let row = try row(reader, "r-1")
            #expect(row.contains("\"clicks\":8") && row.contains("\"businessCount\":2"))
            #expect(try reader.run("verify").code == 0)
        }
    }
}
