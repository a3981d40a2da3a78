import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// A daemon that has not what it had acked ends its senders, and nothing else does: docs/sending.md.
    struct ReplacedReceiverTests {
        private func visibleCount(_ folder: TemporaryFolder) throws -> Int {
            let totals = try Reader(folder: folder).totals()
            return totals["impressions", default: 0] + totals["clicks", default: 0]
        }

        @Test(arguments: [true, false], [true, false])
        func `S6: a restored copy or another directory ends it with 71, or is gone on with`(
            isCopy: Bool, isAccepted: Bool
        ) throws {
            let folder = try TemporaryFolder()
            var daemon = try DaemonProcess(in: folder)
            let port = daemon.port
            let pipe = Pipe()
            let sender = try Running(
                "ingest-send",
                ["--to", "127.0.0.1:\(port)"] + (isAccepted ? ["--accept-receiver"] : []),
                in: folder, input: pipe.fileHandleForReading)
            /// One packet of three events.
            func give(_ number: Int) {
                let lines = SampleEvents.lines[3 * number..<3 * number + 3]
                pipe.fileHandleForWriting.write(Data(lines.map { $0 + "\n" }.joined().utf8))
            }
            let copy = "\(folder.path)/copy"
            for number in 0..<2 {
                give(number)
                #expect(try eventually { try visibleCount(folder) == 3 * (number + 1) })
                // What is durable is acked when it has stopped.
                #expect(daemon.stop().code == 0)
                if number == 0 {
                    try FileManager.default.copyItem(atPath: folder.data, toPath: copy)
                    daemon = try DaemonProcess(in: folder, ["--udp", "127.0.0.1:\(port)"])
                }
            }
            give(2)
            try pipe.fileHandleForWriting.close()
            try FileManager.default.removeItem(atPath: folder.data)
            if isCopy { try FileManager.default.moveItem(atPath: copy, toPath: folder.data) }
            daemon = try DaemonProcess(in: folder, ["--udp", "127.0.0.1:\(port)"])
            let ended = sender.end()
            if isAccepted {
                #expect(ended.code == 0, "\(ended.errors)")
                #expect(ended.errors.contains("had lost \(isCopy ? 1 : 2) packets"))
                #expect(try visibleCount(folder) == (isCopy ? 6 : 3))
            } else {
                #expect(ended.code == 71, "\(ended.errors)")
                #expect(ended.errors.contains("packets \(isCopy ? 1 : 0) to 1 of sender "))
                #expect(ended.errors.contains("had been acked; "))
            }
            #expect(eventually { daemon.log.contains("senders that had heard of more than") })
            #expect(daemon.stop().code == 0)
        }
    }
}
