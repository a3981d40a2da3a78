import Foundation
import TestSupport
import Testing

extension ProcessSuite {
    /// The same real events, on every way that they can take.
    struct CountingTests {
        /// One run of the daemon: how the events come, and how the log is cut.
        struct Way: Sendable, CustomTestStringConvertible {
            let isPlain: Bool
            let seed: UInt64?
            let segmentBytesMax: Int
            var rate = 40_000
            var testDescription: String {
                "\(isPlain ? "plain" : "framed"), order \(seed.map(String.init) ?? "as recorded"), "
                    + "segments of \(segmentBytesMax), \(rate) events/s"
            }
        }

        private static let reference = Way(isPlain: false, seed: nil, segmentBytesMax: 268_435_456)
        private static let ways = [
            Way(isPlain: false, seed: nil, segmentBytesMax: 65_536, rate: 8_000),
            Way(isPlain: false, seed: 1, segmentBytesMax: 268_435_456),
            Way(isPlain: true, seed: nil, segmentBytesMax: 268_435_456, rate: 15_000),
            Way(isPlain: true, seed: 2, segmentBytesMax: 65_536),
        ]

        /// Sends everything, waits until it is visible, returns the tables before and after a stop.
        private func tables(of way: Way) throws -> (live: Tables, stopped: Tables) {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(
                in: folder, ["--segment-bytes-max", String(way.segmentBytesMax)])
            let file = try SampleEvents.file(in: folder, shuffledBy: way.seed)
            #expect(try daemon.send(file, plain: way.isPlain, rate: way.rate).code == 0)
            let reader = Reader(folder: folder)
            let isVisible = try eventually {
                try reader.sees(
                    impressions: SampleEvents.impressionCount, clicks: SampleEvents.clickCount)
            }
            let totals = try reader.totals()
            #expect(isVisible, "\(way.testDescription): \(totals)")
            #expect(try reader.run("verify").code == 0)
            let live = try reader.tables()
            let ended = daemon.stop()
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(try reader.run("verify").code == 0)
            return (live, try reader.tables())
        }

        @Test func `every way, order, rate and segment size gives the same bytes`() throws {
            let reference = try tables(of: Self.reference)
            #expect(reference.live == reference.stopped)
            #expect(reference.live.rewards.split(separator: "\n").count == SampleEvents.rewardCount)
            #expect(
                reference.live.days.split(separator: "\n").count == SampleEvents.businessDayCount)
            for way in Self.ways {
                let other = try tables(of: way)
                #expect(other.live == reference.live, "\(way.testDescription), live")
                #expect(other.stopped == reference.live, "\(way.testDescription), stopped")
            }
        }
    }
}
