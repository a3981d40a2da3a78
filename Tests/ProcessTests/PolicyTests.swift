import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// That the options of the counting rules reach the rules.
    struct PolicyTests {
        private static func line(
            _ type: String, at time: String = "2019-11-20T23:30:00Z", _ more: String = ""
        ) -> String {
            """
            {"eventType":"\(type)","rewardId":"r","businessId":"b","timestamp":"\(time)"\(more)}
            """
        }

        /// Sends the lines to a daemon with the options, and returns status and the day rows once all of
        /// them have become part of the log.
        private func count(
            _ lines: [String], _ options: [String]
        ) throws -> (events: [String: Int], rowCount: Int, days: [[String: Any]]) {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, options)
            let file = try folder.write("events.ndjson", lines: lines)
            #expect(try daemon.send(file).code == 0)
            let reader = Reader(folder: folder)
            let isComplete = try eventually {
                try reader.status().events.values.reduce(0, +) == lines.count
            }
            #expect(isComplete)
            #expect(daemon.stop().code == 0)
            #expect(try reader.run("verify").code == 0)
            let status = try reader.status()
            return (
                status.events.filter { $0.value > 0 }, status.rows,
                try Reader.rows(of: reader.run("days").output)
            )
        }

        @Test(arguments: [
            ("UTC", "2019-11-20"), ("Europe/Berlin", "2019-11-21"),
            ("America/New_York", "2019-11-20"),
            ("Pacific/Kiritimati", "2019-11-21"),
        ])
        func `the business day is that of the zone`(zone: String, date: String) throws {
            let found = try count([Self.line("click")], ["--time-zone", zone])
            #expect(found.days.map { $0["date"] as? String } == [date])
        }

        @Test(arguments: ["UTC", "Asia/Tokyo", "America/Sao_Paulo"])
        func `a business has its own zone, from a date another, and SIGHUP reloads it`(zone: String)
            throws
        {
            let folder = try TemporaryFolder()
            let zones = try folder.write(
                "zones", "b Asia/Tokyo\nb America/New_York from=2019-11-21\nc UTC\n")
            let daemon = try DaemonProcess(
                in: folder, ["--time-zone", "Europe/Berlin", "--time-zones", zones],
                under: ["/usr/bin/env", "TZ=\(zone)"])
            // Of b: 14:59 and 15:00 in Tokyo's 20th, which lasts until New York's midnight; of c, and of one in Berlin.
            let times =
                ["T14:59:59Z", "T15:00:00Z", "T23:30:00Z"].map { "2019-11-20\($0)" }
                + ["2019-11-21T04:59:59Z", "2019-11-21T05:00:00Z"]
            let lines = ["b", "c", "other"].flatMap { business in
                times.map {
                    Self.line("click", at: $0).replacing(
                        "\"businessId\":\"b\"", with: "\"businessId\":\"\(business)\"")
                }
            }
            let send = { (lines: [String]) throws -> Void in
                let file = try folder.write("events.ndjson", lines: lines)
                #expect(try daemon.send(file).code == 0)
            }
            try send(lines)
            let reader = Reader(folder: folder)
            let clicks = { () throws -> [String: Int] in
                var found: [String: Int] = [:]
                for row in try Reader.rows(of: reader.run("days").output) {
                    found[row["id"] as? String ?? ""] = row["clicks"] as? Int
                }
                return found
            }
            let first = [
                "b#2019-11-20": 4, "b#2019-11-21": 1, "c#2019-11-20": 3, "c#2019-11-21": 2,
                "other#2019-11-20": 2, "other#2019-11-21": 3,
            ]
            _ = try eventually { try clicks() == first }
            let before = try clicks()
            #expect(before == first)
            _ = try folder.write("zones", "b Mars/Base\n")
            daemon.signal(SIGHUP)
            let isRefused = eventually { daemon.log.contains("keeping the previous zones") }
            #expect(isRefused)
            try send(Array(lines[..<5]))
            _ = try folder.write("zones", "b Asia/Tokyo\n")
            daemon.signal(SIGHUP)
            let isReloaded = eventually { daemon.log.contains("time zones reloaded") }
            #expect(isReloaded)
            try send(Array(lines[..<5]))
            let all = first.merging(["b#2019-11-20": 9, "b#2019-11-21": 6]) { $1 }
            _ = try eventually { try clicks() == all }
            let last = try clicks()
            #expect(last == all)
            #expect(daemon.stop().code == 0)
            #expect(try reader.run("verify").code == 0)
        }

        @Test func `sessions and rates count as the options say`() throws {
            let session = ",\"sessionId\":\"s-1\""
            let lines =
                (0..<3).map { _ in Self.line("impression", session) }
                + (0..<3).map { Self.line("click", at: "2019-11-20T23:30:0\($0)Z", session) }
                + [Self.line("redemption", ",\"sessionId\":\"s-2\"")]
            let usual = try count(lines, [])
            #expect(usual.events == ["counted": 5, "session_repeat": 2])
            #expect(usual.days.map { $0["duplicateImpressions"] as? Int } == [2])
            #expect(usual.days.map { $0["orphanRedemptions"] as? Int } == [1])
            #expect(usual.days.map { $0["orphanClicks"] as? Int } == [0])
            let off = try count(lines, ["--session-rule", "no"])
            #expect(
                off.events == ["counted": 7]
                    && off.days.map { $0["uncheckedEvents"] as? Int } == [7])
            let strict = try count(
                lines,
                [
                    "--click-interval-ms", "1001", "--session-impressions-per-minute-max", "1",
                    "--session-clicks-per-minute-max", "1",
                ])
            #expect(strict.events == ["counted": 3, "invalid_traffic": 4])
            let none = try count(
                lines,
                [
                    "--click-interval-ms", "0", "--session-impressions-per-minute-max", "0",
                    "--session-clicks-per-minute-max", "2",
                ])
            #expect(none.events == ["counted": 4, "session_repeat": 2, "invalid_traffic": 1])
        }

        @Test func `consent and measurement count as the options say, opt-out never`() throws {
            let lines = [
                Self.line("impression"),
                Self.line("impression", ",\"consent\":\"optIn\""),
                Self.line("impression", ",\"consent\":\"optOut\""),
                Self.line(
                    "impression",
                    ",\"consent\":\"optIn\",\"metadata\":{\"viewability\":\"0.5\",\"duration\":\"1\"}"
                ),
                Self.line(
                    "impression",
                    ",\"consent\":\"optIn\",\"metadata\":{\"viewability\":\"0.49\",\"duration\":\"1\"}"
                ),
            ]
            let usual = try count(lines, [])
            #expect(usual.events == ["counted": 3, "no_consent": 1, "not_viewable": 1])
            #expect(usual.rowCount == 4, "an opt-out is no row")
            let strict = try count(
                lines, ["--count-undetermined", "no", "--count-consent-not-set", "no"])
            #expect(
                strict.events
                    == ["counted": 1, "no_consent": 2, "undetermined": 1, "not_viewable": 1])
        }
    }
}
