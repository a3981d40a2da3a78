import Foundation
import Testing

extension ProcessSuite {
    /// Exit codes of the programs for what their users get wrong.
    struct UsageTests {
        @Test(arguments: [
            [], ["--data"], ["--dat", "x"], ["--data", "x", "extra"],
            ["--data", "x", "--udp", "nonsense"], ["--data", "x", "--commit-interval-ms", "0"],
            ["--data", "x", "--segment-bytes-max", "1"],
            ["--data", "x", "--time-zone", "Mars/Base"],
            ["--data", "x", "--retention-days", "1"], ["check-config"], ["start", "--data", "x"],
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
        }

        @Test(arguments: ["ingestd", "ingest-reader", "ingest-send", "ingest-bench"])
        func `every program explains itself`(program: String) throws {
            let folder = try TemporaryFolder()
            for option in ["--help", "--version"] {
                let ended = try run(program, [option], in: folder)
                #expect(ended.code == 0, "\(program) \(option)")
                #expect(!ended.output.isEmpty, "\(program) \(option)")
                #expect(ended.errors.isEmpty, "\(program) \(option): \(ended.errors)")
            }
            #expect(try run(program, ["--no-such-option"], in: folder).code == 64, "\(program)")
        }

        private func expectOneLine(_ arguments: [String], code: Int32) throws {
            let folder = try TemporaryFolder()
            let ended = try run("ingestd", arguments, in: folder)
            #expect(ended.code == code, "\(arguments): \(ended.errors)")
            #expect(ended.output.isEmpty)
            #expect(ended.errorLines.count == 1, "\(ended.errors)")
            #expect(ended.errors.hasPrefix("ingestd: "))
        }
    }
}
