import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// A real daemon that may keep some segments only: what it says, what stays, and who still reads it.
    struct RetentionTests {
        private static let options = [
            "--segment-bytes-max", "65536", "--retention-bytes", "150000",
        ]

        private func names(_ folder: TemporaryFolder, _ ending: String) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: folder.data)
                .filter { $0.hasSuffix(ending) }.sorted()
        }

        @Test func `rows expire by bytes, and every answer stays`() throws {
            let folder = try TemporaryFolder()
            let file = try SampleEvents.file(in: folder)
            let reader = Reader(folder: folder)
            let model = try EventModel(SampleEvents.lines)
            var daemon = try DaemonProcess(in: folder, Self.options)
            #expect(try daemon.send(file, rate: 8_000).code == 0)
            #expect(
                try eventually {
                    try reader.sees(
                        impressions: SampleEvents.impressionCount, clicks: SampleEvents.clickCount)
                })
            #expect(try eventually { try reader.status().expired != nil })
            let live = try reader.tables()
            #expect(try EventModel.counts(of: live.rewards) == model.rewards)
            #expect(try EventModel.counts(of: live.days) == model.days)
            #expect(daemon.log.contains("retention: "))
            daemon.kill()
            // The segments that have expired are there for another minute, and part of nothing.
            daemon = try DaemonProcess(in: folder, Self.options)
            #expect(try reader.tables() == live)
            let ended = daemon.stop()
            #expect(
                ended.code == 0 && ended.errors.contains(#/sealed segments, [1-9][0-9]* expired/#))
            let status = try reader.status()
            let expired = try #require(status.expired)
            #expect(status.rows == model.eventCount)
            #expect(expired.rows > 0 && expired.rows < status.rows && expired.missingSegments == 0)
            #expect(status.segments.sealed >= 1)
            #expect(!FileManager.default.fileExists(atPath: folder.data + "/aside"))
            #expect(try reader.tables() == live)
            #expect(try reader.run("verify").code == 0)
            var missing = 0
            for row in try Reader.rows(of: live.rewards) {
                let id = try #require(row["id"] as? String)
                let explained = try reader.run("explain", "reward", id)
                let found = explained.errors.firstMatch(
                    of: #/: (\d+) of the (\d+) events of reward .* they have expired\n$/#)
                #expect(explained.code == 0 && explained.errorLines.count == (found == nil ? 0 : 1))
                missing += found.flatMap { Int($0.1) } ?? 0
            }
            #expect(missing == expired.rows)
            let kept = try #require(try names(folder, ".expired.run").last)
            let inspected = try reader.inspect(kept)
            #expect(inspected.code == 0 && inspected.output.contains("\nledger     1 senders"))
        }

        @Test func `an option that cannot be is refused`() throws {
            let folder = try TemporaryFolder()
            for option in [["--retention-days", "-1"], ["--retention-bytes", "many"]] {
                let ended = try run("ingestd", ["--data", folder.data] + option, in: folder)
                #expect(ended.code == 64, "\(option)")
            }
        }
    }
}
