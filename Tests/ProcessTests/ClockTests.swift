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
    }
}
