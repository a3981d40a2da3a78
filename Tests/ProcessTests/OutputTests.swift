import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// What `ingest-reader` prints of a directory of five events, byte for byte.
    struct OutputTests {
        private static let events = [
            #"{"eventType":"impression","rewardId":"r-1","businessId":"b-1","timestamp":"2026-11-19T08:00:00Z"}"#,
            #"{"eventType":"impression","rewardId":"r-1","businessId":"b-1","timestamp":"2026-11-20T08:00:00Z"}"#,
            #"{"eventType":"click","rewardId":"r-1","businessId":"b-1","timestamp":"2026-11-20T08:00:01Z"}"#,
            #"{"eventType":"impression","rewardId":"r,2","businessId":"b-2","timestamp":"2026-11-20T09:00:00Z"}"#,
            #"{"eventType":"click","rewardId":"r,2","businessId":"b-2","timestamp":"2026-11-20T09:00:02Z","consent":"optOut"}"#,
        ]

        private static func directory() throws -> Reader {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, ["--time-zone", "UTC"])
            let file = try folder.write("five.ndjson", lines: events)
            #expect(try daemon.send(file).code == 0)
            let reader = Reader(folder: folder)
            #expect(try eventually { try reader.status().rows == 4 })
            #expect(daemon.stop().code == 0)
            return reader
        }

        @Test func `every command prints in every format what it always printed`() throws {
            let reader = try Self.directory()
            let commands = [
                ["reward", "r-1"], ["rewards"], ["day", "b-1", "2026-11-20"], ["days"],
                ["reward-days"], ["verify"],
            ]
            var printed = ""
            for command in commands {
                for format in ["table", "json", "ndjson", "csv"] {
                    let arguments = command + ["--format", format]
                    let ended = try run(
                        "ingest-reader", arguments + ["--data", reader.folder.data],
                        in: reader.folder)
                    #expect(ended.code == 0 && ended.errors.isEmpty, "\(arguments)")
                    printed += "$ ingest-reader \(arguments.joined(separator: " "))\n"
                    printed += Self.shown(ended.output)
                }
            }
            let path = Repository.root.appendingPathComponent("Tests/Fixtures/reader-output.txt")
            let golden = try String(contentsOf: path, encoding: .utf8)
            if printed != golden {
                let found = try reader.folder.write("reader-output.txt", printed)
                Issue.record("not what it printed before; now:\n\(printed)\n(\(found))")
            }
        }

        /// How many blocks the events came into is the clock's affair, and is shown as N.
        private static func shown(_ output: String) -> String {
            output.replacingOccurrences(of: "\r\n", with: "<CRLF>\n")
                .replacing(#/"block":\d+/#, with: "\"block\":N")
                .replacing(#/"blocks":\d+/#, with: "\"blocks\":N")
                .replacing(#/in \d+ blocks/#, with: "in N blocks")
        }

        @Test func `export writes the listing into a file, or nothing`() throws {
            let reader = try Self.directory()
            for table in ["rewards", "days", "reward-days"] {
                for format in ["csv", "ndjson"] {
                    let listed = try reader.run(table, "--format", format).output
                    let path = "\(reader.folder.path)/\(table).\(format)"
                    let ended = try reader.run("export", table, "--format", format, "--out", path)
                    #expect(ended.code == 0 && ended.errors.isEmpty, "\(ended.errors)")
                    #expect(try String(contentsOfFile: path, encoding: .utf8) == listed)
                }
            }
            let path = "\(reader.folder.path)/nowhere/x.csv"
            let ended = try reader.run("export", "days", "--format", "csv", "--out", path)
            #expect(ended.code == 74 && ended.errorLines.count == 1, "\(ended.errors)")
            #expect(try reader.run("export", "days", "--format", "csv", "--out", "x/").code == 64)
        }

        @Test func `with-cut adds the cut to JSON and nothing to the rest`() throws {
            let reader = try Self.directory()
            let rows = try Reader.rows(
                of: reader.run("rewards", "--format", "ndjson", "--with-cut").output)
            #expect(rows.count == 2)
            let status = try Reader.rows(of: reader.run("status", "--format", "ndjson").output)
            let cut = try #require(status.first?["cut"] as? [String: Int])
            for row in rows { #expect(row["cut"] as? [String: Int] == cut) }
            for format in ["table", "csv"] {
                let plain = try reader.run("rewards", "--format", format).output
                let cut = try reader.run("rewards", "--with-cut", "--format", format).output
                #expect(plain == cut)
            }
        }

        @Test func `status has all its fields in every format`() throws {
            let reader = try Self.directory()
            let text = try reader.run("status", "--format", "json").output
            #expect(text == (try reader.run("status", "--format", "ndjson").output))
            let fields = [
                "cut", "durable", "compacted", "generation", "windows", "segments", "expired",
                "files",
                "bytes", "names", "keys", "rows", "packets", "events", "lostRanges",
                "uncleanStops",
            ]
            let object = try #require(try Reader.rows(of: text).first)
            #expect(Set(object.keys) == Set(fields))
            #expect(
                (object["windows"] as? [String: Any])?["idsCompleteSince"] is NSNull
                    && object["rows"] as? Int == 4)
            let csv = try reader.run("status", "--format", "csv").output
            #expect(csv.hasPrefix(fields.joined(separator: ",") + "\r\n"))
            let table = try reader.run("status", "--format", "table").output
            let labels = table.split(separator: "\n").map { $0.prefix { $0 != " " } }
            #expect(labels.map(String.init) == fields)
        }

        @Test func `inspect takes a path, or the name of a file in the data directory`() throws {
            let reader = try Self.directory()
            let name = "0000000001.segment"
            let byName = try reader.run("inspect", name)
            #expect(byName.code == 0 && byName.output.contains("4 rows"), "\(byName.errors)")
            let path = "\(reader.folder.data)/\(name)"
            #expect(try reader.run("inspect", path).output == byName.output)
            let alone = try run("ingest-reader", ["inspect", path], in: reader.folder)
            #expect(alone.output == byName.output)
            #expect(try reader.run("inspect", "0000000002.segment").code == 66)
            for sound in ["LOCK", "durable-mark", "leases", "reserve", "session-keys"] {
                let shown = try reader.run("inspect", sound)
                #expect(shown.code == 0 && shown.output.contains(sound), "\(shown.output)")
            }
            #expect(try run("ingest-reader", ["inspect", name], in: reader.folder).code == 66)
        }
    }
}
