import Foundation
import Glibc
import TestSupport
import Testing

extension ProcessSuite {
    /// `kill -9` at a random moment, and what the next start makes of it.
    struct KillTests {
        /// Sends in the recorded order and kills the daemon once `threshold` events are visible.
        private func kill(
            _ daemon: DaemonProcess, whenVisible threshold: Int, file: String
        ) throws {
            let reader = Reader(folder: daemon.folder)
            let sender = try Running(
                "ingest-send", ["--to", daemon.address, "--rate", "8000", file], in: daemon.folder)
            let isReached = try eventually {
                try reader.totals()["impressions", default: 0] >= threshold
            }
            #expect(isReached)
            daemon.kill()
            sender.send(SIGKILL)
            _ = sender.end()
        }

        private func expect(_ before: String, isContainedIn after: String) throws {
            let earlier = try EventModel.counts(of: before)
            let later = try EventModel.counts(of: after)
            for (id, columns) in earlier {
                for (column, count) in columns {
                    #expect(later[id]?[column] ?? 0 >= count, "\(column) of \(id) fell")
                }
            }
        }

        @Test(arguments: [11, 12, 13] as [UInt64])
        func `what was durable survives kill -9, and what is counted is a prefix of what was sent`(
            seed: UInt64
        ) throws {
            var random = SeededRandom(seed: seed)
            let folder = try TemporaryFolder()
            let options = ["--segment-bytes-max", seed % 2 == 0 ? "65536" : "268435456"]
            let reader = Reader(folder: folder)
            let file = try SampleEvents.file(in: folder)
            let first = try DaemonProcess(in: folder, options)
            try kill(first, whenVisible: Int.random(in: 1...12_000, using: &random), file: file)

            let before = try reader.tables()
            #expect(try reader.run("verify").code == 0)
            let second = try DaemonProcess(in: folder, options)
            let after = try reader.tables()
            try expect(before.rewards, isContainedIn: after.rewards)
            try expect(before.days, isContainedIn: after.days)
            #expect(try reader.run("verify").code == 0)

            // What a reader showed of the killed directory was a prefix too, and stays byte for byte where
            // nothing that was written but not yet shown has been added.
            let shown = try Reader.sums(of: before.rewards)
            let shownCount = shown["impressions", default: 0] + shown["clicks", default: 0]
            let shownModel = try EventModel(SampleEvents.lines.prefix(shownCount))
            #expect(try EventModel.counts(of: before.rewards) == shownModel.rewards)
            #expect(try EventModel.counts(of: before.days) == shownModel.days)
            if try Reader.sums(of: after.rewards) == shown { #expect(after == before) }

            // One sender on loopback: nothing overtakes, so the counted events are the first N.
            let counted = try reader.totals()
            let count = counted["impressions", default: 0] + counted["clicks", default: 0]
            let model = try EventModel(SampleEvents.lines.prefix(count))
            #expect(try EventModel.counts(of: after.rewards) == model.rewards)
            #expect(try EventModel.counts(of: after.days) == model.days)

            #expect(second.stop().code == 0)
            #expect(try reader.tables() == after)
            let third = try DaemonProcess(in: folder, options)
            #expect(try reader.tables() == after)

            // The log goes on where it was: of the same events again only those are added that were lost.
            #expect(try third.send(file).code == 0)
            let isComplete = try eventually {
                let totals = try reader.totals()
                let total = totals["impressions", default: 0] + totals["clicks", default: 0]
                return total == SampleEvents.lines.count
            }
            #expect(isComplete)
            let whole = try EventModel(SampleEvents.lines.prefix(SampleEvents.lines.count))
            #expect(try EventModel.counts(of: reader.tables().rewards) == whole.rewards)
            #expect(third.stop().code == 0)
            #expect(try reader.run("verify").code == 0)
        }

        @Test func `a daemon that is killed at once, again and again, always starts`() throws {
            let folder = try TemporaryFolder()
            for _ in 0..<5 {
                let daemon = try DaemonProcess(in: folder)
                daemon.kill()
            }
            let daemon = try DaemonProcess(in: folder)
            #expect(daemon.stop().code == 0)
            #expect(try Reader(folder: folder).run("verify").code == 0)
        }
    }
}
