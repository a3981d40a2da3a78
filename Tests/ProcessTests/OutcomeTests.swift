import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// What `ingest-send` says of what became of its events.
    struct OutcomeTests {
        /// Events of now, but for some of the last century.
        private static func lines(_ count: Int, old: Int = 0) -> [String] {
            let now = Int(Date().timeIntervalSince1970 * 1_000)
            return (0..<count).map {
                """
                {"eventType":"click","rewardId":"r-\($0 % 7)","businessId":"b-1",\
                "timestamp":\($0 < old ? 946_684_800_000 + $0 : now - $0)}
                """
            }
        }

        private static let refusing = ["--max-event-age-seconds", "604800"]

        private func send(
            _ file: String, to daemon: DaemonProcess, _ options: [String] = []
        ) throws -> (ended: Ended, summary: [String: Any]) {
            let ended = try run(
                "ingest-send", ["--to", daemon.address] + options + [file], in: daemon.folder)
            return (ended, try #require(Reader.rows(of: ended.output).first, "\(ended.errors)"))
        }

        @Test func `closed standard descriptors are not taken for sockets`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let file = try folder.write("events", lines: Self.lines(30))
            let program = "'\(Programs.path("ingest-send"))' --to \(daemon.address)"
            for part in ["'\(file)' >&- 2>&-", "<&-", "--spool '\(folder.path)/s' - <&-"] {
                let ended = try run("/bin/bash", ["-c", "\(program) \(part)"], in: folder)
                #expect(ended.code == 0, "\(part): \(ended.errors)")
            }
            #expect(daemon.stop().code == 0)
            let ledger = try Reader(folder: folder).run("ledger", "--format", "ndjson").output
            #expect(!ledger.contains("plain") && !ledger.contains(#""malformed":1"#), "\(ledger)")
        }

        @Test func `a summary that cannot be written is an error, and its events count`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let file = try folder.write("events", lines: Self.lines(30))
            let to = ["--to", daemon.address]
            let spool = "\(folder.path)/spool"
            #expect(try run("ingest-send", to + ["--spool", spool, file], in: folder).code == 0)
            for arguments in [to + [file], ["check"] + to, ["spool", "list", spool]] {
                let full = try #require(FileHandle(forWritingAtPath: "/dev/full"))
                let ended = try run("ingest-send", arguments, in: folder, output: full)
                #expect(ended.code == 74, "\(arguments)")
                #expect(ended.errors.contains("No space left on device"), "\(ended.errors)")
            }
            #expect(daemon.stop().code == 0)
            let reader = Reader(folder: folder)
            #expect(try reader.status().rows == 60)
        }

        @Test func `events that do not count are told, with the reason and what to do`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, Self.refusing)
            let file = try folder.write("events", lines: Self.lines(3_000, old: 2_000))
            let first = try send(file, to: daemon)
            #expect(first.ended.code == 0)
            #expect(first.summary["acked"] as? Int == 3_000)
            #expect(first.summary["counted"] as? Int == 1_000)
            #expect(first.summary["repeated"] as? Int == 0)
            #expect(first.summary["not_counted"] as? Int == 2_000)
            #expect(first.summary["reason"] as? String == "too_old")
            #expect(
                first.ended.errors.hasSuffix(
                    "2,000 of 3,000 events not counted, most often too_old; to load history start ingestd with "
                        + "--max-event-age-seconds 0\n"))
            #expect(try send(file, to: daemon, ["--fail-on-refused"]).ended.code == 1)
            let good = try folder.write("good", lines: Self.lines(10))
            let last = try send(good, to: daemon, ["--fail-on-refused"])
            #expect(last.ended.code == 0 && last.ended.errors == "")
            #expect(last.summary["counted"] as? Int == 10)
            #expect(last.summary["reason"] is NSNull)
            #expect(daemon.stop().code == 0)
        }

        @Test func `nobody has to read what it says`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let file = try folder.write("events", lines: ["not json"] + Self.lines(3))
            // It ends as if somebody read: 1, since a line was refused.
            let ended = try run(
                "/bin/sh",
                [
                    "-c", "{ \"$0\" --to \"$1\" \"$2\" 2>&1; echo $? >&3; } 3>&2 | true",
                    Programs.path("ingest-send"), daemon.address, file,
                ], in: folder)
            #expect(ended.errors == "1\n")
            #expect(try Reader(folder: folder).sees(impressions: 0, clicks: 3))
            #expect(daemon.stop().code == 0)
        }

        @Test func `repeated events are no refused ones`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let lines = Self.lines(50).enumerated().map {
                $1.dropLast() + ",\"eventId\":\"e-\($0 % 20)\"}"
            }
            let file = try folder.write("events", lines: lines.map(String.init))
            let sent = try send(file, to: daemon, ["--fail-on-refused"])
            #expect(sent.ended.code == 0)
            #expect(sent.summary["counted"] as? Int == 20)
            #expect(sent.summary["repeated"] as? Int == 30)
            #expect(sent.summary["not_counted"] as? Int == 0)
            #expect(daemon.stop().code == 0)
        }

        @Test(arguments: ["--plain", "--no-acks"])
        func `without acks nothing is known of them`(option: String) throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, Self.refusing)
            let file = try folder.write("events", lines: Self.lines(20, old: 20))
            let sent = try send(file, to: daemon, [option])
            #expect(sent.ended.code == 0)
            for field in ["counted", "repeated", "not_counted", "reason"] {
                #expect(sent.summary[field] is NSNull, "\(field)")
            }
            let refused = try run(
                "ingest-send", ["--to", daemon.address, "--fail-on-refused", option, file],
                in: folder)
            #expect(refused.code == 64 && refused.errors.contains("--fail-on-refused"))
            #expect(daemon.stop().code == 0)
        }

        /// The window's sums come from footers, sealed and rewritten ones, and the blocks behind.
        @Test func `the sums of an epoch are the same after kill -9, over segments and retention`()
            throws
        {
            let folder = try TemporaryFolder()
            let options =
                Self.refusing + [
                    "--segment-bytes-max", "65536", "--retention-bytes", "200000",
                ]
            var daemon = try DaemonProcess(in: folder, options)
            var next: UInt64 = 0
            for _ in 0..<4 {
                #expect(HandSender(to: daemon.port, sender: 31).delivers(next..<next + 1_000))
                next += 1_000
                daemon.kill()
                daemon = try DaemonProcess(in: folder, options)
                let sender = HandSender(to: daemon.port, sender: 31)
                let isTold = eventually {
                    sender.heartbeat(next: next, base: next)
                    return sender.listen(withinMilliseconds: 20) && sender.acks.last?.sums != nil
                }
                #expect(isTold)
                #expect(sender.acks.last?.sums == [0, 0, next, 7])
            }
            #expect(daemon.stop().code == 0)
        }

        @Test func `a run that goes on with a spool says that the sums are of a longer epoch`()
            throws
        {
            let folder = try TemporaryFolder()
            var daemon = try DaemonProcess(in: folder, Self.refusing)
            let file = try folder.write("events", lines: Self.lines(4_000, old: 4_000))
            let options = ["--spool", folder.path + "/spool", "--fail-on-refused"]
            let first = try Running(
                "ingest-send", ["--to", daemon.address, "--rate", "2000"] + options + [file],
                in: folder)
            let reader = Reader(folder: folder)
            let isUnderWay = try eventually {
                let row = try Reader.rows(
                    of: reader.run("ledger", "--format", "ndjson").output
                ).first { $0["sender"] as? String != "plain" }
                return row?["eventsDecoded"] as? Int ?? 0 >= 500
            }
            #expect(isUnderWay)
            first.send(SIGKILL)
            _ = first.end()
            daemon.kill()
            daemon = try DaemonProcess(in: folder, Self.refusing)
            let second = try send(file, to: daemon, options)
            #expect(second.ended.code == 1)
            #expect(second.summary["not_counted"] as? Int == 4_000)
            #expect(
                second.ended.errors.contains(
                    "4,000 of 4,000 events of this epoch, which an earlier run"))
            #expect(daemon.stop().code == 0)
        }
    }
}
