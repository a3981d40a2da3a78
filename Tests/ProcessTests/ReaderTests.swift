import Foundation
import IngestReader
import TestSupport
import Testing

extension ProcessSuite {
    /// What `ingest-reader` answers with, as a script sees it.
    struct ReaderTests {
        @Test func `a directory that is not there ends with 66`() throws {
            let reader = Reader(folder: try TemporaryFolder())
            for command in ["rewards", "days", "reward-days", "status", "verify"] {
                let ended = try reader.run(command)
                #expect(ended.code == 66, "\(command): \(ended.errors)")
                #expect(ended.output.isEmpty)
                #expect(ended.errorLines.count == 1, "\(ended.errors)")
            }
        }

        @Test func `keys that were never seen end with 66 and an empty listing with 0`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let reader = Reader(folder: folder)
            for command in ["rewards", "days", "reward-days"] {
                let ended = try reader.run(command)
                #expect(ended.code == 0, "\(command): \(ended.errors)")
                #expect(ended.output.isEmpty)
            }
            for ended in [
                try reader.run("reward", "no"), try reader.run("day", "no", "2026-11-20"),
            ] {
                #expect(ended.code == 66)
                #expect(ended.output.isEmpty)
                #expect(ended.errorLines.count == 1, "\(ended.errors)")
            }
            #expect(try reader.run("verify").code == 0)
            #expect(daemon.stop().code == 0)
        }

        @Test func `explain gives the rows of every counter of the real events`() throws {
            let folder = try SampleEvents.directory()
            let opened = try IngestReader.open(directory: folder.data)
            func expect(_ counters: Counters, are query: EventsQuery, _ name: String) throws {
                var counts: [EventRow.Kind: UInt64] = [:]
                try opened.forEachEvent(query) { event in
                    #expect(event.verdict == .counted && event.viewability == nil)
                    counts[event.kind, default: 0] += 1
                    return .next
                }
                #expect(counters.impressions == counts[.impression] ?? 0, "\(name)")
                #expect(counters.undeterminedImpressions == counts[.impression] ?? 0, "\(name)")
                #expect(counters.clicks == counts[.click] ?? 0, "\(name)")
                #expect(counters.gross(.redemptions) == 0, "\(name)")
            }
            let (rewards, days) = (try opened.rewards(), try opened.days())
            #expect(rewards.count == SampleEvents.rewardCount)
            #expect(days.count == SampleEvents.businessDayCount)
            for row in rewards {
                try expect(row.counters, are: EventsQuery(reward: row.id), row.id)
            }
            for row in days {
                let days = DayRange(from: row.date, to: row.date)
                try expect(
                    row.counters, are: EventsQuery(business: row.businessID, days: days), row.id)
            }
        }

        @Test
        func `explain prints the rows of an export, and ends with 66 for what was never seen`()
            throws
        {
            let folder = try SampleEvents.directory()
            let reader = Reader(folder: folder)
            let opened = try IngestReader.open(directory: folder.data)
            let (reward, day) = (try opened.rewards()[7], try opened.days()[9])
            let exported = try reader.run(
                "export", "events", "--format", "ndjson", "--out", "-", "--reward", reward.id)
            let explained = try reader.run("explain", "reward", reward.id)
            #expect(explained.code == 0 && explained.errors.isEmpty, "\(explained.errors)")
            #expect(explained.output == exported.output)
            #expect(
                UInt64(try Reader.rows(of: explained.output).count)
                    == reward.counters.impressions + reward.counters.clicks)
            let ofDay = try reader.run("explain", "day", day.businessID, "\(day.date)")
            #expect(ofDay.code == 0 && ofDay.errors.isEmpty, "\(ofDay.errors)")
            #expect(
                try Reader.rows(of: ofDay.output).allSatisfy {
                    $0["date"] as? String == "\(day.date)"
                })
            for format in ["table", "json", "ndjson", "csv"] {
                for key in [["reward", "no"], ["day", "no", "2026-11-20"]] {
                    let none = try run(
                        "ingest-reader",
                        ["explain"] + key + ["--data", folder.data, "--format", format], in: folder)
                    #expect(none.code == 66 && none.output.isEmpty)
                    #expect(none.errorLines.count == 1, "\(none.errors)")
                }
            }
            for wrong in [
                ["reward", "r", "2026-11-20"], ["day", "b"], ["week", "b"],
                ["day", "b", "2026-11-20", "--business", "b"],
            ] {
                let ended = try run(
                    "ingest-reader", ["explain"] + wrong + ["--data", folder.data], in: folder)
                #expect(ended.code == 64, "\(wrong)")
            }
        }

        @Test func `find says of an id whether it was counted`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(in: folder)
            let reader = Reader(folder: folder)
            let event =
                #"{"eventType":"click","rewardId":"r","businessId":"shop","#
                + #""timestamp":"2026-11-20T10:00:00Z","eventId":"order 4711"}"#
            let file = try folder.write("event.ndjson", event + "\n")
            let sent = try daemon.send(file)
            #expect(sent.code == 0, "\(sent.errors)")
            let found = try reader.run("find", "order 4711", "--business", "shop")
            #expect(found.code == 0, "\(found.errors)")
            let rows = try Reader.rows(of: found.output)
            #expect(rows.count == 1 && rows[0]["verdict"] as? String == "counted")
            #expect(rows[0]["firstSequence"] as? Int == 0)
            let hex = "6f726465722034373131"
            #expect(
                try reader.run("find", hex, "--hex", "--business", "shop").output == found.output)
            let table = try reader.run(
                "find", "order 4711", "--business", "shop", "--format", "table")
            #expect(table.output.hasPrefix("verdict"))
            for format in ["table", "json", "ndjson", "csv"] {
                let none = try reader.run(
                    "find", "order 4711", "--business", "other", "--format", format)
                #expect(none.code == 66 && none.output.isEmpty)
                #expect(none.errorLines.count == 1, "\(none.errors)")
            }
            // Once more, and once with another reward that is known: both are seen for what they are.
            let other = event.replacingOccurrences(of: #""r""#, with: #""r 2""#)
            let known = other.replacingOccurrences(of: "4711", with: "4712")
            let again = try folder.write("again.ndjson", "\(event)\n\(known)\n\(other)\n")
            #expect(try daemon.send(again).code == 0)
            let all = try Reader.rows(
                of: reader.run("find", "order 4711", "--business", "shop").output)
            #expect(
                all.map { $0["verdict"] as? String } == ["counted", "duplicate", "conflict"])
            #expect(all.last?["differs"] as? [String] == ["rewardId"])
            #expect(try reader.run("find", "order 4711").code == 64)
            #expect(try reader.run("find", "", "--business", "shop").code == 64)
            #expect(try reader.run("find", "6g", "--hex", "--business", "shop").code == 64)
            daemon.stop()
        }

        @Test func `wrong usage ends with 64`() throws {
            let reader = Reader(folder: try TemporaryFolder())
            #expect(try reader.run("rewards", "--by", "luck").code == 64)
            #expect(try reader.run("rewards", "--from", "yesterday").code == 64)
            #expect(try reader.run("rewards", "--format", "xml").code == 64)
            #expect(try reader.run("reward").code == 64)
            #expect(try reader.run("frobnicate").code == 64)
        }

        @Test func `no command ends with 64, and a word that is none is named`() throws {
            let folder = try TemporaryFolder()
            for (arguments, named) in [
                ([], "no command"), (["explode", "--data", "d"], "'explode'"),
                (["--data", "d", "bogus"], "'bogus'"),
            ] {
                let ended = try run("ingest-reader", arguments, in: folder)
                #expect(ended.code == 64 && ended.output.isEmpty)
                #expect(ended.errorLines.count == 1 && ended.errors.contains(named))
            }
        }

        @Test func `a folder that is no data directory is said to be none`() throws {
            let folder = try TemporaryFolder()
            let ended = try run("ingest-reader", ["rewards", "--data", folder.path], in: folder)
            #expect(ended.code == 66)
            #expect(ended.errors.contains("not a data directory of ingestd"), "\(ended.errors)")
        }
    }
}
