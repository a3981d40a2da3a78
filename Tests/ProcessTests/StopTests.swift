import Foundation
import Glibc
import Testing

extension ProcessSuite {
    /// Start and stop of the real daemon.
    struct StopTests {
        private static let event = """
            {"eventType":"click","rewardId":"r","businessId":"b","timestamp":"2026-11-20T10:00:00Z"}
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
            #expect(try reader.totals()["clicks"] == 1)
            let segments = try reader.status().segments
            #expect(segments.sealed >= 1)
            #expect(segments.unsealed == 0)
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

        @Test func `a closed standard output does not end the daemon`() throws {
            let folder = try TemporaryFolder()
            let command =
                "ingestd --data '\(folder.data)' --udp 127.0.0.1:0 >&- & pid=$!; "
                + "until ls '\(folder.data)'/*.manifest >/dev/null 2>&1; do :; done; "
                + "kill -TERM $pid; wait $pid"
            let ended = try run(
                "/bin/bash", ["-c", "PATH=\(Programs.directory):$PATH; \(command)"], in: folder)
            #expect(ended.code == 0 || ended.code == 143, "\(ended.errors)")
        }
    }
}
