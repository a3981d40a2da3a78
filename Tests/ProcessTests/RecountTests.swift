import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// The counter tables against those that DuckDB makes of the exported events, by scripts/recount.sql.
    struct RecountTests {
        private static let python = Repository.root.appending(path: ".build/python/bin/python").path

        private static let hasPython = FileManager.default.isExecutableFile(atPath: python)

        /// Events of every kind that a sender can bring about: repeats and conflicts, not viewable ones, clocks that are
        /// wrong, sessions, redemptions.
        private static func lines() -> [String] {
            (0..<2_000).map { number in
                let type = ["impression", "impression", "impression", "click", "redemption"][
                    number % 5]
                var line = #"{"eventType":"\#(type)","rewardId":"r,\"\#(number % 7)","#
                line += #""businessId":"b \#(number % 3)","#
                let time = number % 41 == 0 ? "0" : #""2026-11-\#(10 + number % 4)T23:59:59Z""#
                line += #""timestamp":\#(time)"#
                if number % 2 == 0 { line += #","eventId":"e \#(number % 400)""# }
                if number % 3 == 0 { line += #","sessionId":"s \#(number % 30)""# }
                if number % 11 == 0 { line += #","consent":"optOut""# }
                var metadata: [String] = []
                if number % 4 < 2 {
                    metadata.append(
                        #""viewability":"0.\#(number % 10)","duration":"\#(number % 3)""#)
                }
                if type == "redemption" {
                    metadata.append(#""revenue":"\#(number).000001","spend":"0.\#(number % 4)""#)
                }
                if !metadata.isEmpty {
                    line += ",\"metadata\":{\(metadata.joined(separator: ","))}"
                }
                return line + "}"
            }
        }

        @Test(
            .enabled(if: hasPython, "no .build/python: run scripts/python-env, which needs python3")
        )
        func `DuckDB makes the three tables of the exported events`() throws {
            let folder = try TemporaryFolder()
            let reader = Reader(folder: folder)
            for options in [[], ["--count-undetermined", "no"]] {
                let daemon = try DaemonProcess(in: folder, options)
                #expect(try daemon.send(SampleEvents.file(in: folder)).code == 0)
                #expect(try daemon.send(folder.write("more.ndjson", lines: Self.lines())).code == 0)
                #expect(daemon.stop().code == 0)
            }
            for table in ["rewards", "days", "reward-days", "events"] {
                let ended = try reader.run(
                    "export", table, "--format", "csv", "--out", "\(folder.path)/\(table).csv")
                #expect(ended.code == 0, "\(ended.errors)")
            }
            let ended = try run(
                Self.python, ["scripts/recount.py", "scripts/recount.sql", folder.path], in: folder,
                directory: Repository.root)
            #expect(ended.code == 0, "\(ended.output)\(ended.errors)")
            let counts = try ["rewards", "days", "reward-days"].map {
                String(try Reader.rows(of: reader.run($0, "--format", "ndjson").output).count)
            }
            #expect(ended.output == counts.joined(separator: " ") + "\n")
            let totals = try reader.totals()
            for column in [
                "viewableImpressions", "undeterminedImpressions", "notViewableImpressions",
                "duplicateImpressions", "conflictImpressions", "refusedImpressions", "clicks",
                "refusedClicks", "redemptions", "uncheckedEvents",
            ] { #expect(totals[column] ?? 0 > 0, "no row has \(column)") }
            // What was counted by two policies is judged again by each.
            let verified = try reader.run("verify", "--deep", "--format", "ndjson")
            #expect(verified.code == 0, "\(verified.output)\(verified.errors)")
            let report = try #require(Reader.rows(of: verified.output).first)
            #expect(report["judgedRows"] as? Int == report["rows"] as? Int)
            #expect(report["differences"] as? Int == 0)
        }
    }
}
