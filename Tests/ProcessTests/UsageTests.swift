import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// Exit codes of the programs for what their users get wrong.
    struct UsageTests {
        @Test(arguments: [
            [], ["--data"], ["--dat", "x"], ["--data", "x", "extra"],
            ["--data", "x", "--udp", "nonsense"], ["--data", "x", "--commit-interval-ms", "0"],
            ["--data", "x", "--segment-bytes-max", "1"],
            ["--data", "x", "--time-zone", "Mars/Base"],
            ["--data", "x", "--retention-weeks", "1"], ["check-config"], ["start", "--data", "x"],
        ])
        func `wrong usage of ingestd ends with 64 and one line`(arguments: [String]) throws {
            try expectOneLine(arguments, code: 64)
        }

        @Test(arguments: [
            "{\"udpp\": 1}", "{\"udp\": 1}", "{", "[]", "{\"commit-interval-ms\": 5000}",
            "{\"udp\": \"0.0.0.0:4810\"}",
        ])
        func `a wrong config file ends with 78 and one line`(json: String) throws {
            let folder = try TemporaryFolder()
            let path = try folder.write("config.json", json)
            for arguments in [
                ["--data", folder.data, "--config", path], ["check-config", "--config", path],
            ] {
                try expectOneLine(arguments, code: 78)
            }
            #expect(!FileManager.default.fileExists(atPath: folder.data))
        }

        @Test func `a config file that is not there ends with 78`() throws {
            try expectOneLine(["--data", "x", "--config", "/nonexistent/config.json"], code: 78)
        }

        @Test func `a good config file is said to be good`() throws {
            let folder = try TemporaryFolder()
            let path = try folder.write("config.json", "{\"udp\": \"127.0.0.1:0\"}")
            let ended = try run("ingestd", ["check-config", "--config", path], in: folder)
            #expect(ended.code == 0)
            #expect(ended.output == "\(path): ok\n")
            // Of an HTTP server that does not exist yet.
            let later = try folder.write(
                "later.json", "{\"http\": \"off\", \"api-keys\": \"\(folder.path)/keys\"}")
            #expect(try run("ingestd", ["check-config", "--config", later], in: folder).code == 0)
        }

        @Test func `settings come from the environment and the file`() throws {
            let folder = try TemporaryFolder()
            let path = try folder.write(
                "config.json", "{\"data\": \"\(folder.data)\", \"udp\": \"nonsense\"}")
            let ended = try run(
                "ingestd", [], in: folder,
                environment: ["INGESTD_CONFIG": path, "INGESTD_UDP": "localhost:0"])
            #expect(ended.code == 78)
            #expect(ended.errors.contains("\(path): udp"))
            #expect(!FileManager.default.fileExists(atPath: folder.data))

            _ = try folder.write("config.json", "{\"data\": \"\(folder.data)\"}")
            let running = try Running(
                "ingestd", [], in: folder,
                environment: [
                    "INGESTD_CONFIG": path, "INGESTD_UDP": "[::1]:0", "INGESTD_PORT": "\u{1B}1",
                ])
            #expect(eventually { running.output.contains("\n") || !running.isRunning })
            #expect(running.output.contains("\"udp\":\"[::1]:"), "\(running.errors)")
            running.send(SIGTERM)
            let stopped = running.end()
            #expect(stopped.code == 0)
            #expect(stopped.errors.contains("INGESTD_PORT is not an option"))
            #expect(FileManager.default.fileExists(atPath: folder.data))
        }

        @Test func `text of others reaches the terminal escaped and cut`() throws {
            let folder = try TemporaryFolder()
            let hostile = "\u{1B}[31m\u{9B}1m\n" + String(repeating: "x", count: 100_000)
            for arguments in [
                ["--data", folder.data, "--udp", hostile], ["--data", "/\(hostile)"],
                ["--data", folder.data, "--\(hostile)"],
            ] {
                let ended = try run("ingestd", arguments, in: folder)
                #expect(ended.code != 0)
                #expect(ended.errorLines.count == 1)
                #expect(!ended.errors.contains("\u{1B}") && !ended.errors.contains("\u{9B}"))
                #expect(ended.errors.utf8.count < 2_100)
            }
            let sent = try run("ingest-send", ["--to", hostile], in: folder)
            #expect(sent.code == 64)
            #expect(sent.errorLines.count == 1)
            #expect(!sent.errors.contains("\u{1B}") && !sent.errors.contains("\u{9B}"))
        }

        @Test(arguments: [
            [], ["--bogus"], ["--to", "nonsense"], ["--to", "127.0.0.1:9", "--sender-id", "0"],
            ["--to", "127.0.0.1:9", "--plain", "--sender-id", "1"],
            ["--to", "127.0.0.1:9", "--rate", "0"], ["--to", "127.0.0.1:9", "--rate", "1e-12"],
            ["--to", "127.0.0.1:9", "--rate", "nan"], ["--to", "127.0.0.1:9", "--rate", "1e300"],
            ["--to", "127.0.0.1:9", "a", "b"],
        ])
        func `wrong usage of ingest-send ends with 64 and one line`(arguments: [String]) throws {
            try expectOneLine(arguments, code: 64, of: "ingest-send")
        }

        @Test(arguments: [["--bogus"], ["throughput", "--seconds", "x"], ["nothing"]])
        func `wrong usage of ingest-bench ends with 64 and one line`(arguments: [String]) throws {
            try expectOneLine(arguments, code: 64, of: "ingest-bench")
        }

        @Test func `a file that is not there, or nobody at the address, is one line too`() throws {
            try expectOneLine(
                ["--to", "127.0.0.1:9", "/nonexistent/\u{1B}"], code: 66, of: "ingest-send")
            try expectOneLine(["--to", "no.such.host.invalid:9"], code: 69, of: "ingest-send")
        }

        @Test func `the lowest rate sends, and waits without a trap`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let file = try folder.write(
                "events.ndjson",
                String(
                    repeating: """
                        {"eventType":"click","rewardId":"r","businessId":"b","timestamp":"2019-11-24T10:00:00Z"}

                        """, count: 2))
            let sender = try Running(
                "ingest-send", ["--to", daemon.address, "--rate", "0.001", file], in: folder)
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.totals()["clicks"] == 1 })
            #expect(sender.isRunning)
            sender.send(SIGKILL)
            _ = sender.end()
            #expect(daemon.stop().code == 0)
        }

        @Test(arguments: [
            "ingestd", "ingest-reader", "ingest-send", "ingest-send check", "ingest-send spool",
            "ingest-bench",
        ])
        func `every program explains itself`(program: String) throws {
            let folder = try TemporaryFolder()
            let words = program.split(separator: " ").map(String.init)
            for option in ["--help", "--version"] {
                let ended = try run(words[0], words.dropFirst() + [option], in: folder)
                #expect(ended.code == 0, "\(program) \(option)")
                #expect(!ended.output.isEmpty, "\(program) \(option)")
                #expect(ended.errors.isEmpty, "\(program) \(option): \(ended.errors)")
                if option == "--version" {
                    #expect(
                        ended.output.contains(/, (packets|files) \w/), "no format: \(ended.output)")
                }
            }
            try expectOneLine(words.dropFirst() + ["--no-such-option"], code: 64, of: words[0])
        }

        private func expectOneLine(
            _ arguments: [String], code: Int32, of program: String = "ingestd"
        ) throws {
            let folder = try TemporaryFolder()
            let ended = try run(program, arguments, in: folder)
            #expect(ended.code == code, "\(arguments): \(ended.errors)")
            #expect(ended.output.isEmpty)
            #expect(ended.errorLines.count == 1, "\(ended.errors)")
            #expect(ended.errors.hasPrefix("\(program): "), "\(ended.errors)")
            #expect(!ended.errors.contains("\u{1B}"))
        }
    }
}
