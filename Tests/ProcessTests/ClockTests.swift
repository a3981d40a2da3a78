import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// A daemon whose clock is behind its log.
    struct ClockTests {
        private func begin(_ folder: TemporaryFolder) throws -> Running {
            try Running(
                "ingestd", ["--data", folder.data, "--udp", "127.0.0.1:0", "--http", "off"],
                in: folder)
        }

        @Test func `it is not ready and says both times, until it is told to stop or to go on`()
            throws
        {
            let folder = try TemporaryFolder()
            try FutureLog.write(to: folder.data, secondsAhead: 86_400)
            let waiting = try begin(folder)
            #expect(eventually { waiting.errors.contains("--accept-clock") || !waiting.isRunning })
            let said = waiting.errors.split(separator: "\n").filter { $0.contains("waiting") }
            #expect(said.count == 1, "\(waiting.errors)")
            let times = said.first?.matches(of: #/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/#) ?? []
            #expect(times.count == 2, "\(waiting.errors)")
            #expect(waiting.isRunning && waiting.output.isEmpty)
            waiting.send(SIGTERM)
            let ended = waiting.end()
            #expect(ended.code == 0 && ended.output.isEmpty, "\(ended.errors)")
            // As it was: the next one waits too, but where the clock is said to be right.
            let daemon = try DaemonProcess(in: folder, ["--accept-clock"])
            #expect(daemon.log.contains("accepted"))
            let sender = HandSender(to: daemon.port, sender: 8)
            #expect(sender.delivers(0..<1))
            #expect(daemon.stop().code == 0)
            // The log's last block is of now.
            let next = try DaemonProcess(in: folder)
            #expect(!next.log.contains("the clock shows"))
            #expect(next.stop().code == 0)
            #expect(try Reader(folder: folder).run("verify").code == 0)
        }

        /// A step back of the wall clock by an hour must hold no stage: the publishing of what is sealed is due when no
        /// block comes any more.
        @Test func `no stage waits by the wall clock`() throws {
            let folder = try TemporaryFolder()
            let shim = "\(folder.path)/wall-clock-ahead.so"
            let source = Repository.root.appending(path: "Tests/Fixtures/shims/wall-clock-ahead.c")
            let made = try Running(
                "/usr/bin/cc", ["-shared", "-fPIC", "-o", shim, source.path, "-ldl"], in: folder)
            try #require(made.end().code == 0)
            let daemon = try DaemonProcess(
                in: folder, ["--segment-bytes-max", "65536", "--compact-interval-seconds", "1"],
                under: ["/usr/bin/env", "LD_PRELOAD=\(shim)"])
            let sender = HandSender(to: daemon.port, sender: 8)
            // Each is a commit, and those of one segment are no more than sixteen.
            for sequence in 0..<20 as Range<UInt64> {
                #expect(sender.delivers(sequence..<sequence + 1))
            }
            #expect(
                eventually {
                    let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.data))
                    return names?.contains("0000000001.manifest") == true
                })
            #expect(daemon.stop().code == 0)
        }
    }
}
