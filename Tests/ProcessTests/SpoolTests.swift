import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// A sender whose receiver is away for longer than its memory would do.
    struct SpoolTests {
        /// Clicks without ids, so that nothing but sequences keeps one from being counted twice; 500 bytes each.
        private static func file(_ count: Int, in folder: TemporaryFolder) throws -> String {
            let (name, text) = (
                String(repeating: "n", count: 120), String(repeating: "t", count: 60)
            )
            let front =
                "{\"eventType\":\"click\",\"rewardId\":\"\(name)\",\"businessId\":\"\(name)\""
                + ",\"platform\":\"\(text)\",\"campaign\":\"\(text)\",\"source\":\"\(text)\",\"timestamp\":"
            return try folder.write(
                "events", lines: (0..<count).lazy.map { front + "\(1_700_000_000_000 + $0)}" })
        }

        private static func byteCount(_ directory: String) -> Int {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
            return names.reduce(0) { sum, name in
                let file = try? FileManager.default.attributesOfItem(atPath: "\(directory)/\(name)")
                return sum + (file?[.size] as? Int ?? 0)
            }
        }

        /// The most memory that a process had.
        private static func peakByteCount(_ pid: Int32) throws -> Int {
            let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
            let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
            return try 1_024 * #require(Int(line.split(separator: " ")[1]))
        }

        @Test func `a data directory is no spool`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            #expect(daemon.stop().code == 0)
            let before = try FileManager.default.contentsOfDirectory(atPath: folder.data).sorted()
            let ended = try run(
                "ingest-send", ["--to", daemon.address, "--spool", folder.data], in: folder)
            #expect(ended.code == 64 && ended.errorLines.count == 1, "\(ended.errors)")
            let after = try FileManager.default.contentsOfDirectory(atPath: folder.data).sorted()
            #expect(before == after)
        }

        @Test func `more than its memory may hold waits on disk, and after kill -9 counts once`()
            throws
        {
            let folder = try TemporaryFolder()
            let count = 180_000
            let file = try Self.file(count, in: folder)
            let spool = folder.path + "/spool"
            let away = LoopbackSocket()
            let address = "127.0.0.1:\(away.port)"
            let arguments = [
                "--to", address, "--spool", spool, "--give-up-seconds", "3600", file,
            ]
            let sender = try Running("ingest-send", arguments, in: folder)
            // 64 MiB is what a sender without a spool holds.
            let isBeyond = eventually(withinSeconds: 120) {
                Self.byteCount(spool) > 72 << 20 || !sender.isRunning
            }
            #expect(isBeyond && sender.isRunning, "\(sender.errors)")
            #expect(try Self.peakByteCount(sender.pid) < 64 << 20)
            sender.send(SIGKILL)
            _ = sender.end()
            let listed = try run("ingest-send", ["spool", "list", spool], in: folder)
            let row = try #require(
                JSONSerialization.jsonObject(with: Data(listed.output.utf8)) as? [String: Any])
            #expect(row["events"] as? Int ?? 0 > 100_000 && row["damagedPackets"] as? Int == 0)
            away.close()
            let daemon = try DaemonProcess(in: folder, ["--udp", address])
            let again = try Running("ingest-send", arguments, in: folder)
            #expect(eventually { again.errors.contains("resuming the input after") })
            let ended = again.end(withinSeconds: 180)
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(ended.output.contains("\"acked\":\(count),"), "\(ended.output)")
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: count) })
            #expect(daemon.stop().code == 0)
            #expect(try reader.run("verify").code == 0)
        }

        @Test func `a spool whose only packet is damaged sends nothing twice, and says so`() throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let file = try Self.file(5, in: folder)
            let (spool, pipe) = (folder.path + "/spool", folder.path + "/pipe")
            #expect(mkfifo(pipe, 0o600) == 0)
            // It never ends.
            let input = try #require(FileHandle(forUpdatingAtPath: pipe))
            try input.write(contentsOf: Data(contentsOf: URL(filePath: file)))
            let options = ["--to", daemon.address, "--spool", spool]
            let first = try Running("ingest-send", options + [pipe], in: folder)
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: 5) })
            first.send(SIGKILL)
            _ = first.end()
            let path = "\(spool)/0000000001.spool"
            var bytes = try Data(contentsOf: URL(filePath: path))
            bytes[200] ^= 1
            try bytes.write(to: URL(filePath: path))
            for isFirst in [true, false] {
                let ended = try run("ingest-send", options + [file], in: folder)
                // The first one may have spooled the same packets before it was answered: they are no others then.
                let codes: [Int32] = isFirst ? [69] : [69, 0]
                #expect(codes.contains(ended.code), "\(ended.errors)")
                let cut = "the last \(bytes.count - 80) bytes of this spool file are no whole"
                #expect(ended.errors.contains(cut) == isFirst, "\(ended.errors)")
                // Where all became durable the file is gone by the second.
                let isTold = ended.errors.contains("\(path) at byte 80")
                #expect(
                    ended.code == 0
                        || isTold && ended.errors.contains("the receiver has packet "),
                    "\(ended.errors)")
            }
            #expect(try reader.sees(impressions: 0, clicks: 5))
            #expect(daemon.stop().code == 0)
        }

        @Test
        func `at the bound of its spool a sender reads no more, says so once, and goes on later`()
            throws
        {
            let folder = try TemporaryFolder()
            let count = 100_000
            let file = try Self.file(count, in: folder)
            let spool = folder.path + "/spool"
            let away = LoopbackSocket()
            let address = "127.0.0.1:\(away.port)"
            let sender = try Running(
                "ingest-send",
                ["--to", address, "--spool", spool, "--spool-bytes-max", "33554432", file],
                in: folder)
            #expect(
                eventually(withinSeconds: 120) {
                    sender.errors.contains("the spool has reached --spool-bytes-max, waiting")
                })
            #expect(Self.byteCount(spool) <= 33_554_432 + 65_536 + 64)
            away.close()
            let daemon = try DaemonProcess(in: folder, ["--udp", address])
            let ended = sender.end(withinSeconds: 180)
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(ended.errors.components(separatedBy: "--spool-bytes-max").count == 2)
            #expect(ended.output.contains("\"acked\":\(count),"))
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.sees(impressions: 0, clicks: count) })
            #expect(daemon.stop().code == 0)
            #expect(Self.byteCount(spool) < 70_000)
        }
    }
}
