import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// Start and stop of the real daemon.
    struct StopTests {
        private static let event = """
            {"eventType":"click","rewardId":"r","businessId":"b","timestamp":"2019-11-24T10:00:00Z"}
            """

        @Test(arguments: [SIGTERM, SIGINT])
        func `a signal stops the daemon cleanly, with everything sealed`(signal: Int32) throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let file = try folder.write("one.ndjson", Self.event + "\n")
            #expect(try daemon.send(file).code == 0)
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.totals()["clicks"] == 1 })
            daemon.signal(signal)
            let ended = daemon.end()
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(
                ended.output.split(separator: "\n").count == 1, "stdout is the ready line alone")
            // What was written, by kind: one row, and none a second time.
            #expect(ended.errors.contains("bytes written: blocks "))
            #expect(ended.errors.contains("rows by reward and day: in footers 1, "))
            #expect(try reader.totals()["clicks"] == 1)
            let segments = try reader.status().segments
            #expect(segments.sealed >= 1)
            #expect(segments.unsealed == 0)
        }

        @Test func `a log that nobody reads keeps no daemon from its stop`() throws {
            let folder = try TemporaryFolder()
            let log = try FullPipe(in: folder)
            let running = try log.start("ingestd", ["--data", folder.data, "--udp", "127.0.0.1:0"])
            #expect(eventually { running.output.contains("\n") || !running.isRunning })
            log.fill()
            running.send(SIGTERM)
            #expect(running.end().code == 0)
            let reader = Reader(folder: folder)
            #expect(try reader.run("verify").code == 0)
            #expect(try reader.status().segments.unsealed == 0)
        }

        @Test func `a fault that cannot be said ends with its code all the same`() throws {
            let folder = try TemporaryFolder()
            // A disk that is full, a reader that is gone.
            for target in ["2>/dev/full", "2> >(:)"] {
                let ended = try run(
                    "/bin/bash",
                    [
                        "-c", "exec \"$1\" --data \"$2\" \(target)", "bash",
                        Programs.path("ingestd"), "\(folder.path)/no/data",
                    ], in: folder)
                #expect(ended.code == 66, "\(target)")
            }
        }

        @Test func `a second signal ends a daemon in its stop`() throws {
            let folder = try TemporaryFolder()
            var codes: [Int32] = []
            // Both wait when it goes on, and the second one comes at once behind the first: but for what the scheduler does.
            while codes.count < 5, ![128 + SIGTERM, 128 + SIGINT].contains(codes.last) {
                let daemon = try DaemonProcess(in: folder)
                for signal in [SIGSTOP, SIGTERM, SIGINT, SIGCONT] { daemon.signal(signal) }
                codes.append(daemon.end().code)
            }
            #expect([128 + SIGTERM, 128 + SIGINT].contains(codes.last), "\(codes)")
            #expect(try Reader(folder: folder).run("verify").code == 0)
        }

        @Test func `a hangup is no reason to stop`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            daemon.signal(SIGHUP)
            let file = try folder.write("one.ndjson", Self.event + "\n")
            #expect(try daemon.send(file).code == 0)
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.totals()["clicks"] == 1 })
            #expect(daemon.isRunning)
            #expect(daemon.stop().code == 0)
        }

        @Test func `events that were only just sent are in the log after a stop`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, ["--commit-interval-ms", "1000"])
            let file = try SampleEvents.file(in: folder)
            #expect(try daemon.send(file).code == 0)
            #expect(daemon.stop().code == 0)
            #expect(
                try Reader(folder: folder).sees(
                    impressions: SampleEvents.impressionCount, clicks: SampleEvents.clickCount))
        }

        @Test func `the ready line is one line of JSON with the port in use`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            #expect(daemon.port != 0)
            let line = daemon.output
            #expect(
                line == "{\"ready\":true,\"udp\":\"127.0.0.1:\(daemon.port)\",\"http\":null,"
                    + "\"pid\":\(daemon.pid)}\n")
            #expect(daemon.stop().code == 0)
        }

        @Test func `a ready line that cannot be written is told, and the daemon runs`() throws {
            let folder = try TemporaryFolder()
            let start =
                "exec '\(Programs.path("ingestd"))' --data '\(folder.data)' --udp 127.0.0.1:0"
            let running = try Running("/bin/bash", ["-c", start + " >/dev/full"], in: folder)
            let isTold = eventually { running.errors.contains("the ready line cannot be written") }
            #expect(isTold && running.errors.contains("\"ready\":true"), "\(running.errors)")
            kill(running.pid, SIGTERM)
            #expect(running.end(withinSeconds: 30).code == 0)
        }

        @Test func `closed standard descriptors are not taken for files of the log`() throws {
            let folder = try TemporaryFolder()
            // Started with 0, 1 and 2 closed, stopped once the log is begun.
            let script = """
                '\(Programs.path("ingestd"))' --data '\(folder.data)' --udp 127.0.0.1:0 <&- >&- 2>&- &
                while ! ls '\(folder.data)'/*.segment; do kill -0 $! || exit 99; done >/dev/null 2>&1
                kill -TERM $!; wait $!
                """
            let ended = try run("/bin/bash", ["-c", script], in: folder)
            #expect(ended.code == 0, "\(ended.errors)")
            for name in folder.files(ending: "") {
                let bytes = FileManager.default.contents(atPath: "\(folder.data)/\(name)") ?? Data()
                #expect(!bytes.starts(with: Data("{\"ready\"".utf8)), "\(name)")
            }
            #expect(try Reader(folder: folder).run("verify").code == 0)
        }

        @Test func `with too few descriptors for signals, or for merges, it does not start`() throws
        {
            let folder = try TemporaryFolder()
            let start = "'\(Programs.path("ingestd"))' --data '\(folder.data)' --udp 127.0.0.1:0"
            for count in [8, 12, 127] {
                let ended = try run(
                    "/bin/bash", ["-c", "ulimit -n \(count); exec \(start)"], in: folder)
                #expect(ended.code == 78, "\(ended.errors)")
                #expect(ended.errors.contains("the hard limit on open files is \(count), raise it"))
            }
            #expect(folder.files(ending: "").isEmpty)
        }

        @Test func `a signal during the start stops the daemon as cleanly as one later`() throws {
            let folder = try TemporaryFolder()
            let running = try Running(
                "ingestd", ["--data", folder.data, "--udp", "127.0.0.1:0"], in: folder)
            _ = eventually { FileManager.default.fileExists(atPath: folder.data) }
            running.send(SIGTERM)
            let ended = running.end()
            #expect(ended.code == 0, "\(ended.errors)")
            let daemon = try DaemonProcess(in: folder)
            daemon.signal(SIGTERM)
            #expect(daemon.end().code == 0)
            #expect(try Reader(folder: folder).run("verify").code == 0)
        }

        @Test(arguments: ["--config", "--time-zones", "--reward-owners", "--keys"])
        func `a pipe in the place of a file is refused, and nobody waits for it`(option: String)
            throws
        {
            let folder = try TemporaryFolder()
            let pipe = folder.path + "/pipe"
            try #require(mkfifo(pipe, 0o600) == 0)
            let ended = try Running(
                "ingestd", ["--data", folder.data, "--udp", "127.0.0.1:0", option, pipe], in: folder
            ).end()
            #expect(ended.code == 78)
            #expect(ended.errors.contains(pipe), "\(ended.errors)")
        }
    }
}
