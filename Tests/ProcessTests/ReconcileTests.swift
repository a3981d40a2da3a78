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
                + #""missing":0,"unexpected":0,"otherDays":0}"# + "\n"
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
            #expect(same.output.hasSuffix("\r\n20080,0,0,20080,0,,0,0,0\r\n"), "\(same.output)")
            let thinned = SampleEvents.lines.enumerated().filter { $0.offset % 100 != 7 }
                .map(\.element)
            let ended = try reader.run(
                "reconcile", try folder.write("thinned.ndjson", lines: thinned))
            let rows = try Reader.rows(of: ended.output)
            let taken = SampleEvents.lines.count - thinned.count
            #expect(ended.code == 1 && rows[0]["unexpected"] as? Int == taken)
            #expect(rows[0]["missing"] as? Int == 0)
            let sums = try Reader.sums(of: ended.output)
            #expect(sums["unexpected"] == 2 * taken && sums["missing"] == 0)
            let names = rows.dropFirst().map { "\($0["id"] ?? "")#\($0["businessId"] ?? "")" }
            #expect(names == names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
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
