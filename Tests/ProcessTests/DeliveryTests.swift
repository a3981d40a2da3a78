import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// `ingest-send` and the daemon over a bad network, both of them killed again and again: every event counts
    /// once.
    struct DeliveryTests {
        /// The numbers of a summary.
        private func summary(_ ended: Ended) throws -> [String: Double] {
            try #require(Reader.rows(of: ended.output).first).compactMapValues { $0 as? Double }
        }

        @Test(arguments: [1, 2] as [UInt64])
        func `through loss, doubles, damage and kill -9 of the daemon every event counts once`(
            seed: UInt64
        ) throws {
            let folder = try TemporaryFolder()
            let file = try SampleEvents.file(in: folder)
            var network = try FaultyNetwork(in: folder, seed: seed)
            let sender = try Running(
                "ingest-send", ["--to", network.address, "--acks", "--rate", "12000", file],
                in: folder)
            for round in 1...4 {
                try network.killDaemon(whenVisible: 3_000 * round) { !sender.isRunning }
            }
            let ended = sender.end(withinSeconds: 120)
            #expect(ended.code == 0, "\(ended.errors)")
            let counts = try summary(ended)
            #expect(counts["sent"] == Double(SampleEvents.lines.count))
            #expect(counts["acked"] == Double(SampleEvents.lines.count))
            #expect(counts["refused"] == 0)
            #expect(counts["resent", default: 0] > 0)
            #expect(counts["counted"] == Double(SampleEvents.lines.count))
            #expect(counts["repeated"] == 0 && counts["not_counted"] == 0)
            try network.check(EventModel(SampleEvents.lines))
        }

        @Test(.enabled(if: SmallDisk.canMount, "a hosts file of its own needs root"))
        func `of two addresses of a name the one is taken on which the daemon listens`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let hosts = try folder.write("hosts", "::1 shop\n127.0.0.1 shop\n")
            let file = try folder.write("event.ndjson", HandSender.line(1) + "\n")
            for arguments in [["check"], [file]] {
                let ended = try run(
                    "/usr/bin/unshare",
                    [
                        "-m", "/bin/sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
                        hosts, Programs.path("ingest-send"),
                    ] + arguments + ["--to", "shop:\(daemon.port)"], in: folder)
                #expect(ended.code == 0, "\(ended.errors)")
            }
            #expect(daemon.stop().code == 0)
            #expect(try Reader(folder: folder).status().rows == 1)
        }

        @Test func `S3: without acks every packet is sent once, and the ledger has them all`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let ended = try daemon.send(SampleEvents.file(in: folder), acks: false, rate: 20_000)
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(ended.errors.contains("sent, not confirmed"))
            let counts = try summary(ended)
            #expect(counts["sent"] == Double(SampleEvents.lines.count))
            #expect(counts["acked"] == 0 && counts["resent"] == 0 && counts["refused"] == 0)
            #expect(counts["counted"] == nil && counts["not_counted"] == nil)
            let reader = Reader(folder: folder)
            let isVisible = try eventually {
                try reader.sees(
                    impressions: SampleEvents.impressionCount, clicks: SampleEvents.clickCount)
            }
            #expect(isVisible)
            #expect(daemon.stop().code == 0)
            let rows = try Reader.rows(of: reader.run("ledger", "--format", "ndjson").output)
            let row = try #require(rows.first { $0["packetsReceived"] as? Int ?? 0 > 0 })
            #expect(row["packetsMissing"] as? Int == 0)
            #expect(row["packetsOpen"] as? Int == 0)
            #expect(row["packetsResent"] as? Int == 0)
            #expect(row["clockSkewSeconds"] is Double)
        }

        @Test(arguments: [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "127.0.0.3"), ("[::]:0", "[::1]")])
        func `a daemon of all addresses answers from the one that was sent to`(
            bound: String, host: String
        ) throws {
            let folder = try TemporaryFolder()
            let file = try SampleEvents.file(in: folder)
            let daemon = try DaemonProcess(
                in: folder, ["--udp", bound, "--insecure-accept-unauthenticated"])
            let ended = try Running(
                "ingest-send",
                ["--to", "\(host):\(daemon.port)", "--give-up-seconds", "5", file], in: folder
            ).end(withinSeconds: 60)
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(try summary(ended)["acked"] == Double(SampleEvents.lines.count))
        }

        @Test
        func `a sender that is killed too goes on with its spool, and every event counts once`()
            throws
        {
            let folder = try TemporaryFolder()
            let file = try SampleEvents.file(in: folder)
            var network = try FaultyNetwork(in: folder, seed: 3)
            let arguments = [
                "--to", network.address, "--spool", folder.path + "/spool", "--rate", "12000", file,
            ]
            for round in 1...4 {
                let sender = try Running("ingest-send", arguments, in: folder)
                try network.killDaemon(whenVisible: 3_000 * round) { !sender.isRunning }
                sender.send(SIGKILL)
                _ = sender.end()
            }
            let ended = try run(
                "ingest-send", arguments, in: folder, withinSeconds: 120)
            #expect(ended.code == 0, "\(ended.errors)")
            try network.check(EventModel(SampleEvents.lines))
        }
    }
}
