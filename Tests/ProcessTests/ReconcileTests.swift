import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// `ingest-reader reconcile` of what a daemon was sent, as it was and altered.
    struct ReconcileTests {
        /// A field, the line it is taken from, and what it is altered to.
        private static let alterations: [(Int, String, String)] = [
            (1, #""rewardId":"r-1""#, #""rewardId":"r-2""#),
            (1, "10:00:01.000001Z", "10:00:01.000002Z"),
            (1, #""eventType":"impression""#, #""eventType":"click""#),
            (1, #""viewability":"0.75""#, #""viewability":"0.750001""#),
            (1, #""duration":"1.00""#, #""duration":"1.001""#),
            (1, #""format":"display""#, #""format":"largeDisplay""#),
            (1, #""platform":"iOS""#, #""platform":"tvOS""#),
            (1, #""campaign":"autumn""#, #""campaign":"winter""#),
            (1, #""source":"mail""#, #""source":"web""#),
            (1, #""consent":"optIn""#, #""consent":"notSet""#),
            (1, #""eventId":"id-1""#, #""eventId":"id-x""#),
            (2, #""revenue":"12.50""#, #""revenue":"12.500001""#),
            (2, #""spend":"1""#, #""spend":"2""#),
            (2, #""businessId":"b""#, #""businessId":"c""#),
        ]

        private static func lines() -> [String] {
            (0..<300).map { number in
                let id = number % 2 == 0 ? "" : #","eventId":"id-\#(number)""#
                let time = "2026-11-20T10:00:\(number % 60 < 10 ? "0" : "")\(number % 60)"
                let head = #"{"rewardId":"r-\#(number)","businessId":"b","timestamp":"\#(time)"#
                if number % 10 == 2 {
                    return head
                        + #".5Z","eventType":"redemption","metadata":{"revenue":"12.50","spend":"1"}}"#
                }
                if number % 50 == 3 { return head + #"Z","eventType":"click","consent":"optOut"}"# }
                return head + ".000001Z\",\"eventType\":\"impression\",\"consent\":\"optIn\"\(id),"
                    + #""metadata":{"viewability":"0.75","duration":"1.00","format":"display","#
                    + #""platform":"iOS","campaign":"autumn","source":"mail"}}"#
            }
        }

        private static func directory() throws -> (Reader, file: String) {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let file = try folder.write("sent.ndjson", lines: lines())
            #expect(try daemon.send(file).code == 0)
            #expect(daemon.stop().code == 0)
            return (Reader(folder: folder), file)
        }

        @Test func `what was sent is what the log has, and every alteration is seen`() throws {
            let (reader, file) = try Self.directory()
            let same = try reader.run("reconcile", file)
            #expect(same.code == 0 && same.errors.isEmpty, "\(same.errors)")
            let expected =
                #"{"lines":300,"malformed":0,"optedOut":6,"counted":294,"repeated":0,"refused":{},"#
                + #""missing":0,"unexpected":0,"otherDays":0,"withoutRow":0}"# + "\n"
            #expect(same.output == expected)
            for (place, old, new) in Self.alterations {
                var lines = Self.lines()
                let altered = lines[place].replacingOccurrences(of: old, with: new)
                try #require(altered != lines[place], "\(old)")
                lines[place] = altered
                let ended = try reader.run(
                    "reconcile", try reader.folder.write("altered.ndjson", lines: lines))
                #expect(ended.code == 1 && ended.errorLines.count == 1, "\(ended.errors)")
                let rows = try Reader.rows(of: ended.output)
                #expect(rows[0]["missing"] as? Int == 1, "\(new): \(ended.output)")
                #expect(rows[0]["unexpected"] as? Int == 1, "\(new): \(ended.output)")
                let isNamed = ["rewardId", "businessId"].contains { old.contains($0) }
                #expect(rows.count == (isNamed ? 3 : 2), "\(new)")
            }
        }

        @Test func `a segment that is missing is damage of the log, whatever is asked for`() throws
        {
            let (reader, file) = try Self.directory()
            let name = try #require(reader.folder.files(ending: ".segment").first)
            try FileManager.default.removeItem(atPath: "\(reader.folder.data)/\(name)")
            for day in ["2100-01-01", "2026-11-20"] {
                let ended = try reader.run("reconcile", file, "--from", day)
                #expect(ended.code == 65 && ended.errors.contains(name), "\(ended.errors)")
            }
        }

        @Test func `the real events reconcile, and a thinned copy lacks what was taken out`() throws
        {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let reader = Reader(folder: folder)
            let file = try SampleEvents.file(in: folder, shuffledBy: 4)
            #expect(try daemon.send(file).code == 0)
            #expect(daemon.stop().code == 0)
            let same = try reader.run("reconcile", file, "--format", "csv")
            #expect(same.code == 0 && same.errors.isEmpty)
            #expect(same.output.hasSuffix("\r\n20080,0,0,20080,0,,0,0,0,0\r\n"), "\(same.output)")
            let thinned = SampleEvents.lines.enumerated().filter { $0.offset % 100 != 7 }
                .map(\.element)
            let ended = try reader.run(
                "reconcile", try folder.write("thinned.ndjson", lines: thinned))
            let rows = try Reader.rows(of: ended.output)
            let taken = SampleEvents.lines.enumerated().filter { $0.offset % 100 == 7 }
                .map(\.element)
            #expect(ended.code == 1 && rows[0]["unexpected"] as? Int == taken.count)
            #expect(rows[0]["missing"] as? Int == 0)
            #expect(try Self.differences(rows) == Self.expected(missing: [], unexpected: taken))
            let names = rows.dropFirst().map { "\($0["id"] ?? "")#\($0["businessId"] ?? "")" }
            #expect(names == names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
        }

        @Test func `an altered copy of the real events has exactly the differences that were made`()
            throws
        {
            let folder = try SampleEvents.directory()
            let reader = Reader(folder: folder)
            var (altered, before, after): ([String], [String], [String]) = ([], [], [])
            for (place, line) in SampleEvents.lines.enumerated() {
                let (old, new) =
                    [
                        3: (#""rewardId":"all-"#, #""rewardId":"none-"#), 40: ("00Z", "01Z"),
                        41: ("4Z", "5Z"), 80: ("impression", "redemption"),
                    ][place % 400] ?? ("", "")
                let other = line.replacingOccurrences(of: old, with: new)
                altered.append(other)
                if other != line {
                    before.append(line)
                    after.append(other)
                }
            }
            #expect(before.count > 100)
            let ended = try reader.run(
                "reconcile", try folder.write("altered.ndjson", lines: altered))
            let rows = try Reader.rows(of: ended.output)
            #expect(ended.code == 1)
            #expect(rows[0]["counted"] as? Int == altered.count - before.count)
            #expect(rows[0]["missing"] as? Int == before.count)
            #expect(rows[0]["unexpected"] as? Int == before.count)
            #expect(
                try Self.differences(rows) == Self.expected(missing: after, unexpected: before))
        }

        /// By reward, business and date: missing and unexpected.
        private static func differences(_ rows: [[String: Any]]) throws -> [String: [Int]] {
            try rows.dropFirst().reduce(into: [:]) { sums, row in
                let names = try ["id", "businessId", "date"].map {
                    try #require(row[$0] as? String)
                }
                let counts = try ["missing", "unexpected"].map { try #require(row[$0] as? Int) }
                #expect(sums.updateValue(counts, forKey: names.joined(separator: "#")) == nil)
            }
        }

        /// The same of lines.
        private static func expected(
            missing: [String], unexpected: [String]
        ) throws -> [String: [Int]] {
            var sums: [String: [Int]] = [:]
            for (place, lines) in [missing, unexpected].enumerated() {
                for row in try Reader.rows(of: lines.joined(separator: "\n")) {
                    let names = try ["rewardId", "businessId", "timestamp"].map {
                        try #require(row[$0] as? String)
                    }
                    sums["\(names[0])#\(names[1])#\(names[2].prefix(10))", default: [0, 0]][
                        place] += 1
                }
            }
            return sums
        }

        /// Events of two businesses, of which one has more rewards than the limit; the last five are refused, four of them
        /// without a row.
        private static let bounded: [String] = {
            // One of today, whose clock the daemon judges by.
            let now = ISO8601DateFormatter().string(from: Date(timeIntervalSinceNow: -3_600))
            func line(
                _ type: String, _ reward: String, _ business: String, _ more: String = "",
                at time: String? = nil
            ) -> String {
                let time = time ?? now
                return
                    #"{"eventType":"\#(type)","rewardId":"\#(reward)","businessId":"\#(business)","#
                    + #""timestamp":"\#(time)"\#(more.isEmpty ? "}" : more)"#
            }
            let hidden = #","metadata":{"viewability":"0.4","duration":"3""#
            let counted = (0..<12).map { number in
                line(
                    number % 3 == 0 ? "click" : "impression", "r-\(number % 6)",
                    number < 6 ? "many" : "few \(number % 2)", #","eventId":"id-\#(number)"}"#)
            }
            return counted + [
                line("impression", "r-5", "many", #","eventId":"id-5"}"#),
                line("click", "r-4", "many", #","eventId":"id-3"}"#),
                line("impression", "r-1", "many", hidden + "}}"),
                line("impression", "r-9", "few 1", hidden + "}}"),
                line("click", "r-9", "few 1", at: "2019-11-20T10:00:00Z"),
                line("impression", "r-1", "many", hidden + #","campaign":"test"}}"#),
                line("impression", "r-9", "none", hidden + "}}"),
            ]
        }()

        @Test func `rewards beyond the limit and refusals without a row reconcile`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(
                in: folder, ["--reward-keys-max", "3", "--max-event-age-seconds", "604800"])
            let reader = Reader(folder: folder)
            let lines = Self.bounded
            #expect(try daemon.send(folder.write("sent.ndjson", lines: lines)).code == 0)
            #expect(daemon.stop().code == 0)
            #expect(try reader.run("verify", "--deep").code == 0)
            func reconcile(_ lines: [String]) throws -> (code: Int32, rows: [[String: Any]]) {
                let file = try folder.write("altered.ndjson", lines: lines)
                let ended = try reader.run("reconcile", file)
                return (ended.code, try Reader.rows(of: ended.output))
            }
            var (code, rows) = try reconcile(lines.shuffled())
            #expect(code == 0 && rows.count == 1, "\(rows)")
            #expect(rows[0]["counted"] as? Int == 12 && rows[0]["repeated"] as? Int == 2)
            #expect(
                rows[0]["refused"] as? [String: Int]
                    == ["not_viewable": 4, "too_old": 1])
            #expect(rows[0]["withoutRow"] as? Int == 4)
            // One of a reward beyond the limit under another such name, and one that would now be a fifth without a row.
            var altered = lines
            altered[4] = lines[4].replacingOccurrences(of: "r-4", with: "r-5")
            altered[6] = lines[6].replacingOccurrences(
                of: #""click""#,
                with: #""impression","metadata":{"viewability":0.1,"duration":9}"#)
            (code, rows) = try reconcile(altered)
            #expect(code == 1 && rows[0]["withoutRow"] as? Int == 4)
            #expect(rows[0]["missing"] as? Int == 2 && rows[0]["unexpected"] as? Int == 2)
            let unexpected = rows.dropFirst().filter { $0["unexpected"] as? Int == 1 }
            #expect(unexpected.map { $0["id"] as? String } == ["(other)", "r-0"], "\(rows)")

            // What the counters, `explain` and `find` say of them.
            let rewards = try Reader.rows(of: reader.run("rewards").output)
            #expect(
                rewards.map { $0["id"] as? String } == [
                    "(other)", "r-0", "r-1", "r-2", "r-3", "r-4", "r-5",
                ])
            #expect(rewards[0]["overflowEvents"] as? Int == 3)
            #expect(rewards[0]["duplicateImpressions"] as? Int == 1)
            #expect(rewards[0]["conflictClicks"] as? Int == 1)
            let explained = try Reader.rows(of: reader.run("explain", "reward", "(other)").output)
            #expect(
                explained.count == 5 && explained.allSatisfy { $0["overflow"] as? Bool == true })
            let found = try Reader.rows(
                of: reader.run("find", "id-3", "--business", "many").output)
            #expect(found.map { $0["verdict"] as? String } == ["counted", "conflict"])
            #expect(found[1]["differs"] as? [String] == ["rewardId"], "\(found)")
            for path in try FileManager.default.subpathsOfDirectory(atPath: folder.data) {
                let bytes = FileManager.default.contents(atPath: "\(folder.data)/\(path)") ?? Data()
                #expect(bytes.range(of: Data("r-9".utf8)) == nil, "\(path)")
                #expect(bytes.range(of: Data("test".utf8)) == nil, "\(path)")
            }
        }

        @Test func `a conflict whose reward nobody knows has no row, and is not missing`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let lines = ["r-1", "r-2"].map {
                #"{"eventType":"click","rewardId":"\#($0)","businessId":"b","eventId":"x","#
                    + #""timestamp":"2026-11-20T10:00:00Z"}"#
            }
            let file = try folder.write("sent.ndjson", lines: lines)
            #expect(try daemon.send(file).code == 0)
            #expect(daemon.stop().code == 0)
            let reconciled = try Reader(folder: folder).run("reconcile", file)
            #expect(reconciled.code == 0, "\(reconciled.errors)")
            #expect(reconciled.output.contains(#""missing":0"#))
            #expect(reconciled.output.contains(#""withoutRow":1"#))
        }

        @Test func `rows without their campaigns reconcile with their lines`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder, ["--campaign-keys-max", "2"])
            // Half of the events are equal but for their campaigns.
            let lines = (0..<40).map { number in
                let id = number % 2 == 0 ? "" : #","eventId":"id-\#(number)""#
                return
                    #"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":1790000000000"#
                    + #"\#(id),"metadata":{"campaign":"c \#(number % 10)"}}"#
            }
            #expect(try daemon.send(folder.write("sent.ndjson", lines: lines)).code == 0)
            #expect(daemon.stop().code == 0)
            let reader = Reader(folder: folder)
            func reconcile(_ lines: [String]) throws -> [String: Any] {
                let file = try folder.write("altered.ndjson", lines: lines)
                let rows = try Reader.rows(of: reader.run("reconcile", file).output)
                return rows[0]
            }
            var found = try reconcile(lines.shuffled())
            #expect(found["counted"] as? Int == 40 && found["missing"] as? Int == 0, "\(found)")
            #expect(found["unexpected"] as? Int == 0)
            // One with a campaign that is known, one without, and one less.
            var altered = lines
            altered[1] = lines[1].replacingOccurrences(of: "c 1", with: "c 2")
            altered[5] = lines[5].replacingOccurrences(of: "id-5", with: "id-x")
            altered.removeLast()
            found = try reconcile(altered)
            #expect(found["missing"] as? Int == 2, "\(found)")
            #expect(found["unexpected"] as? Int == 3, "\(found)")
        }

        @Test func `the sender's mark is kept and compared`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let now = ISO8601DateFormatter().string(from: Date(timeIntervalSinceNow: -3_600))
            func line(_ id: Int, _ mark: String) -> String {
                #"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":"\#(now)","#
                    + #""eventId":"\#(id)"\#(mark)}"#
            }
            let marks = [
                "", #","invalidTraffic":true"#, #","metadata":{"invalidTraffic":"true"}"#,
                #","invalidTraffic":"false""#,
            ]
            let lines = marks.enumerated().map { line($0.offset, $0.element) }
            #expect(try daemon.send(folder.write("sent.ndjson", lines: lines)).code == 0)
            #expect(daemon.stop().code == 0)
            let reader = Reader(folder: folder)
            let same = try reader.run("reconcile", "\(folder.path)/sent.ndjson")
            #expect(same.code == 0, "\(same.output)")
            #expect(
                try Reader.rows(of: same.output)[0]["refused"] as? [String: Int]
                    == ["invalid_traffic": 2])
            for (place, mark) in [(0, marks[1]), (1, marks[0]), (2, marks[3]), (3, marks[2])] {
                var altered = lines
                altered[place] = line(place, mark)
                let ended = try reader.run(
                    "reconcile", try folder.write("altered.ndjson", lines: altered))
                let found = try Reader.rows(of: ended.output)[0]
                #expect(ended.code == 1 && found["missing"] as? Int == 1, "\(found)")
                #expect(found["unexpected"] as? Int == 1, "\(found)")
            }
        }

        @Test func `rows whose platforms were left out reconcile with their lines`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            var lines = (0..<1_100).map { number in
                #"{"eventType":"click","rewardId":"r","businessId":"b","timestamp":1790000000000"#
                    + #","platform":"p \#(number)"}"#
            }
            #expect(try daemon.send(folder.write("sent.ndjson", lines: lines)).code == 0)
            #expect(daemon.stop().code == 0)
            let reader = Reader(folder: folder)
            let same = try reader.run("reconcile", "\(folder.path)/sent.ndjson")
            #expect(same.code == 0, "\(same.output)")
            lines[1] = lines[1].replacingOccurrences(of: "p 1", with: "p 2")
            lines[3] = lines[3].replacingOccurrences(of: #","platform":"p 3""#, with: "")
            let ended = try reader.run(
                "reconcile", try folder.write("altered.ndjson", lines: lines))
            let found = try Reader.rows(of: ended.output)[0]
            #expect(found["missing"] as? Int == 2 && found["unexpected"] as? Int == 2, "\(found)")
        }

        @Test func `a file that is none ends with 66, and malformed lines are named`() throws {
            let (reader, file) = try Self.directory()
            for path in ["\(reader.folder.path)/nothing", reader.folder.path, "/dev/stdin"] {
                let ended = try reader.run("reconcile", path)
                #expect(ended.code == 66 && ended.output.isEmpty, "\(path): \(ended.code)")
                #expect(ended.errorLines.count == 1, "\(ended.errors)")
            }
            let link = "\(reader.folder.path)/link"
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: file)
            #expect(try reader.run("reconcile", link).code == 0)
            let lines = Self.lines() + Array(repeating: "nothing", count: 14)
            let ended = try reader.run(
                "reconcile", try reader.folder.write("more.ndjson", lines: lines), "--format",
                "table")
            #expect(ended.code == 1 && ended.output.contains(#/\nmalformed +14\n/#))
            #expect(ended.errorLines.count == 12)
            #expect(ended.errorLines[0].contains("line 301: not a JSON object"))
            #expect(ended.errorLines[10].contains("4 more malformed lines"))
        }
    }
}
