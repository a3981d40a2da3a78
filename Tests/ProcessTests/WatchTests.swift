import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// `ingest-reader watch` beside a daemon, on a terminal and elsewhere.
    struct WatchTests {
        private static func send(_ count: Int, of reward: String, to daemon: DaemonProcess) throws {
            let line =
                #"{"eventType":"impression","rewardId":"\#(reward)","businessId":"b","timestamp":"2026-11-20T08:00:00Z"}"#
            let file = try daemon.folder.write(
                "\(count).ndjson", String(repeating: line + "\n", count: count))
            #expect(try daemon.send(file).code == 0)
        }

        private static func arguments(_ folder: TemporaryFolder, _ more: String...) -> [String] {
            ["watch", "--data", folder.data, "--interval-seconds", "0.1"] + more
        }

        @Test func `on a terminal the table is drawn over again, and given back at the end`() throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            try Self.send(3, of: "first-reward", to: daemon)
            let terminal = try Terminal(columnCount: 80, lineCount: 12)
            let watch = try terminal.start("ingest-reader", Self.arguments(folder))
            defer { if watch.isRunning { kill(watch.processIdentifier, SIGKILL) } }
            func shows(_ condition: ([String]) -> Bool) -> Bool {
                eventually {
                    terminal.read()
                    return condition(terminal.lastDrawing) || !watch.isRunning
                } && watch.isRunning
            }
            #expect(shows { $0.contains { $0.hasPrefix("first-reward  b") && $0.contains(" 3 ") } })
            #expect(terminal.output.hasPrefix("\u{1b}[?1049h\u{1b}[?25l"))
            try Self.send(5, of: #"second\u0007"#, to: daemon)
            // Greatest first, and nothing that acts on the terminal.
            #expect(shows { $0.contains { $0.hasPrefix(#"second\u{7}"#) && $0.contains(" 5 ") } })
            let rows = terminal.lastDrawing.filter {
                $0.hasPrefix("first") || $0.hasPrefix("second")
            }
            #expect(rows.count == 2 && rows[0].hasPrefix("second"), "\(terminal.lastDrawing)")
            #expect(
                terminal.lastDrawing.contains { $0.contains("events 8 (") },
                "\(terminal.lastDrawing)")
            terminal.resize(columnCount: 20, lineCount: 7)
            #expect(
                shows { lines in
                    lines.allSatisfy { $0.unicodeScalars.count <= 20 } && lines.count == 6
                })
            #expect(terminal.drawingCount >= 3)
            kill(watch.processIdentifier, SIGINT)
            #expect(eventually { !watch.isRunning })
            watch.waitUntilExit()
            terminal.read()
            #expect(watch.terminationStatus == 0 && watch.terminationReason == .exit)
            // The cursor, the first screen, and the last table on it.
            let end = terminal.output.components(separatedBy: "\u{1b}[?25h\u{1b}[?1049l")
            #expect(end.count == 2 && end[1].contains("second") && !end[1].contains("\u{1b}"))
            #expect(daemon.stop().code == 0)
        }

        @Test func `elsewhere a table follows the other, until a signal or the end of the reader`()
            throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            try Self.send(2, of: "r", to: daemon)
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.status().rows == 2 })
            for signal in [SIGINT, SIGTERM] {
                let watch = try Running("ingest-reader", Self.arguments(folder), in: folder)
                #expect(eventually { watch.output.components(separatedBy: "\n\n").count > 3 })
                watch.send(signal)
                let ended = watch.end()
                #expect(ended.code == 0 && ended.errors.isEmpty, "\(ended.errors)")
                let tables = ended.output.components(separatedBy: "\n\n")
                // A head, an empty line, a table; and so on, the last one whole.
                #expect(tables.last == "" && tables.count % 2 == 1)
                #expect(!ended.output.contains("\u{1b}"))
                #expect(tables[1].hasPrefix("id  businessId  impressions"), "\(tables[1])")
            }
            let program = Programs.path("ingest-reader")
            let words = Self.arguments(folder, "--top", "1").joined(separator: " ")
            let piped = try run(
                "/bin/bash",
                ["-c", "\(program) \(words) | head -n 1; exit ${PIPESTATUS[0]}"], in: folder)
            #expect(piped.code == 0 && piped.errors.isEmpty, "\(piped.errors)")
            #expect(daemon.stop().code == 0)
        }

        @Test func `what cannot be watched is one line`() throws {
            let folder = try TemporaryFolder()
            for (arguments, code) in [
                (["--interval-seconds", "0"], Int32(64)), (["--top", "0"], 64),
                (["--interval-seconds", "nan"], 64), ([], 66),
            ] {
                let ended = try run(
                    "ingest-reader", ["watch", "--data", folder.data] + arguments, in: folder)
                #expect(ended.code == code && ended.errorLines.count == 1, "\(ended.errors)")
                #expect(ended.output.isEmpty)
            }
        }
    }
}
