import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// The counter tables against those that DuckDB makes of the exported events, by scripts/recount.sql.
    struct RecountTests {
        private static let python = Repository.root.appending(path: ".build/python/bin/python").path

        private static let hasPython = FileManager.default.isExecutableFile(atPath: python)

        /// Events of every kind that a sender can bring about: repeats and conflicts, not viewable ones, clocks that are
        /// wrong, sessions, redemptions, campaigns within and beyond the bound and of odd names.
        private static func lines() -> [String] {
            (0..<2_000).map { number in
                let type = ["impression", "impression", "impression", "click", "redemption"][
                    number % 5]
                // Of the first two one is what a spreadsheet's CSV makes of the other.
                let reward = ["=r", "'=r"].dropFirst(number % 7).first ?? #"r,\"\#(number % 7)"#
                var line = #"{"eventType":"\#(type)","rewardId":"\#(reward)","#
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
                if number % 3 > 0 {
                    let names = [#"(other)"#, #"a,\"b\""#, "c \(number % 50)", "x@y", "(other)"]
                    metadata.append(#""campaign":"\#(names[number % 7 % 5])""#)
                    if number % 3 > 1 { metadata.append(#""source":"\#(names[number % 5])""#) }
                }
                if !metadata.isEmpty {
                    line += ",\"metadata\":{\(metadata.joined(separator: ","))}"
                }
                return line + "}"
            }
        }

        private static let limits = [
            "--campaign-keys-max", "60", "--reward-keys-max", "5",
            "--session-impressions-per-minute-max", "3", "--session-clicks-per-minute-max", "2",
        ]

        /// Every counter that is stored.
        private static let columns: [String] =
            ["impressions", "clicks", "redemptions", "viewableImpressions"]
            + ["undeterminedImpressions", "notViewableImpressions", "uncheckedEvents"]
            + ["orphanClicks", "orphanRedemptions", "overflowEvents"]
            + ["invalid", "duplicate", "conflict", "refused"].flatMap { outcome in
                ["Impressions", "Clicks", "Redemptions"].map { outcome + $0 }
            }

        /// Events that their sender's own filter marks as invalid traffic.
        private static func sendMarked(to daemon: DaemonProcess, _ reader: Reader) throws {
            // Its names are known before anything is refused.
            #expect(HandSender(to: daemon.port, sender: 8).delivers(0..<1))
            let sender = HandSender(to: daemon.port, sender: 9)
            for type in 1...3 as ClosedRange<UInt8> {
                let payload = HandSender.payload(0, type: type, isMarked: true)
                sender.send(
                    FramedPacket(
                        sender: sender.sender, epoch: sender.epoch, sequence: UInt64(type - 1),
                        payload: payload
                    ).bytes)
            }
            let isCounted = try eventually { try reader.totals()["invalidRedemptions"] == 1 }
            let events = try reader.status().events
            #expect(isCounted, "\(events)")
        }

        /// Exports all tables, or those of some days, and has DuckDB make the counters of the events.
        private static func expectRecounted(
            _ reader: Reader, _ days: [String], in folder: TemporaryFolder
        ) throws {
            for table in ["rewards", "days", "campaigns", "reward-days", "events"] {
                let path = "\(folder.path)/\(table).csv"
                let ended = try reader.run(
                    ["export", table, "--format", "csv", "--no-csv-safe", "--out", path] + days)
                #expect(ended.code == 0, "\(ended.errors)")
            }
            let ended = try run(
                python, ["scripts/recount.py", "scripts/recount.sql", folder.path], in: folder,
                directory: Repository.root)
            #expect(ended.code == 0, "\(ended.output)\(ended.errors)")
            let counts = try ["rewards", "days", "campaigns", "reward-days"].map {
                let ended = try reader.run([$0, "--format", "ndjson"] + days)
                return String(try Reader.rows(of: ended.output).count)
            }
            #expect(ended.output == counts.joined(separator: " ") + "\n")
        }

        @Test(
            .enabled(if: hasPython, "no .build/python: run scripts/python-env, which needs python3")
        )
        func `DuckDB makes the counter tables of the exported events`() throws {
            let folder = try TemporaryFolder()
            let reader = Reader(folder: folder)
            for options in [[], ["--count-undetermined", "no"]] {
                let daemon = try DaemonProcess(in: folder, options + Self.limits)
                #expect(try daemon.send(SampleEvents.file(in: folder)).code == 0)
                if options.isEmpty { try Self.sendMarked(to: daemon, reader) }
                let sent = try daemon.send(folder.write("more.ndjson", lines: Self.lines()))
                #expect(sent.code == 0, "\(sent.output)\(sent.errors)")
                #expect(daemon.stop().code == 0)
            }
            for days in [[], ["--from", "2026-11-11", "--to", "2026-11-12"]] {
                try Self.expectRecounted(reader, days, in: folder)
            }
            let campaigns = try Reader.rows(
                of: reader.run("campaigns", "--format", "ndjson").output)
            let kinds = Set(
                campaigns.map { [$0["campaign"] as? String, $0["overflow"].map { "\($0)" }] })
            for overflow in ["0", "1"] {
                #expect(kinds.contains(["(other)", overflow]), "\(kinds)")
            }
            let totals = try reader.totals()
            for column in Self.columns {
                #expect(totals[column] ?? 0 > 0, "no row has \(column)")
            }
            // What was counted by two policies is judged again by each.
            let verified = try reader.run("verify", "--deep", "--format", "ndjson")
            #expect(verified.code == 0, "\(verified.output)\(verified.errors)")
            let report = try #require(Reader.rows(of: verified.output).first)
            #expect(report["judgedRows"] as? Int == report["rows"] as? Int)
            #expect(report["differences"] as? Int == 0)
        }

        @Test func `after a kill the tables made again are the same, byte for byte each time`()
            throws
        {
            let folder = try TemporaryFolder()
            let reader = Reader(folder: folder)
            for life in 0..<3 {
                let daemon = try DaemonProcess(in: folder, Self.limits)
                #expect(
                    try daemon.send(folder.write("\(life).ndjson", lines: Self.lines())).code == 0)
                if life == 1 { #expect(daemon.stop().code == 0) } else { daemon.kill() }
            }
            func tables() throws -> [[UInt8]] {
                try ["rewards", "days", "campaigns", "reward-days"].map { table in
                    let path = "\(folder.path)/\(table).csv"
                    #expect(
                        try reader.run("export", table, "--format", "csv", "--out", path).code == 0)
                    return Array(try Data(contentsOf: URL(filePath: path)))
                }
            }
            let before = try tables()
            let copy = "\(folder.path)/copy"
            try FileManager.default.copyItem(atPath: folder.data, toPath: copy)
            var images: [[[UInt8]]] = []
            for data in [folder.data, copy] {
                let made = try TestSupport.run(
                    "ingest-reader", ["rebuild", "--data", data], in: folder)
                #expect(made.code == 0, "\(made.errors)")
                let names = try FileManager.default.contentsOfDirectory(atPath: data)
                images.append(
                    try names.filter { $0.hasSuffix(".run") }.sorted().map {
                        Array(try Data(contentsOf: URL(filePath: "\(data)/\($0)")))
                    })
            }
            #expect(images[0].count >= 3 && images[0] == images[1])
            #expect(try tables() == before)
            let verified = try reader.run("verify", "--deep")
            #expect(verified.code == 0, "\(verified.output)\(verified.errors)")
        }
    }
}
