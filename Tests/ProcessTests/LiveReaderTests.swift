import Dispatch
import Foundation
import IngestReader
import Synchronization
import TestSupport
import Testing

extension ProcessSuite {
    /// Readers in a tight loop beside a daemon that seals, merges, publishes and drops files all the time.
    struct LiveReaderTests {
        /// What readers saw, on all threads.
        private final class Watch: Sendable {
            private struct State {
                var problems: [String] = []
                var readCount = 0
                var programCount = 0
                var lookedInside = false
                var isOver = false
            }
            private let state = Mutex(State())

            var problems: [String] { state.withLock { $0.problems } }
            var readCount: Int { state.withLock { $0.readCount } }
            var programCount: Int { state.withLock { $0.programCount } }
            /// Whether a reader met a generation whose runs covered part of a segment.
            var lookedInside: Bool { state.withLock { $0.lookedInside } }
            var isOver: Bool { state.withLock { $0.isOver } }

            func end() { state.withLock { $0.isOver = true } }
            func countProgram() { state.withLock { $0.programCount += 1 } }
            func add(_ problem: String) { state.withLock { $0.problems.append(problem) } }
            func count(isInside: Bool) {
                state.withLock {
                    $0.readCount += 1
                    if isInside { $0.lookedInside = true }
                }
            }
        }

        /// Opens the directory again and again: the sums of both tables are what the ledger of the same cut
        /// says, and no counter is less than it was before.
        private static func read(_ directory: String, _ watch: Watch) {
            var last: [String: UInt64] = [:]
            while !watch.isOver {
                do {
                    let reader = try IngestReader.open(directory: directory)
                    let status = try reader.status()
                    var counts: [String: UInt64] = [:]
                    for row in try reader.rewards() {
                        counts[row.id] = row.counters.impressions + row.counters.clicks
                    }
                    let days = try reader.days().reduce(0) {
                        $0 + $1.counters.impressions + $1.counters.clicks
                    }
                    let sum = counts.values.reduce(0, +)
                    let counted = status.events[.counted, default: 0]
                    if sum != counted || days != counted || status.rowCount != counted {
                        watch.add("\(sum), \(days), \(status.rowCount) of \(counted)")
                    }
                    for (id, count) in last where counts[id, default: 0] < count {
                        watch.add("\(id) fell from \(count) to \(counts[id, default: 0])")
                    }
                    last = counts
                    watch.count(isInside: status.unsealedSegmentCount > 0 && sum > 0)
                } catch {
                    watch.add("\(error)")
                }
            }
        }

        /// The same by programs: each ends with 0, and no counter of a reward is less than it was before.
        private static func run(_ reader: Reader, _ watch: Watch) {
            var last: [String: [String: Int]] = [:]
            while !watch.isOver {
                do {
                    let rewards = try reader.run("rewards", "--format", "ndjson")
                    let counts = try EventModel.counts(of: rewards.output)
                    for (id, columns) in last {
                        for (column, count) in columns where counts[id]?[column] ?? 0 < count {
                            watch.add("\(column) of \(id) fell")
                        }
                    }
                    last = counts
                    let verified = try reader.run("verify")
                    for ended in [rewards, verified] where ended.code != 0 {
                        watch.add("\(ended.code): \(ended.output) \(ended.errors)")
                    }
                    watch.countProgram()
                } catch {
                    watch.add("\(error)")
                }
            }
        }

        @Test func `counters never fall, and every cut adds up, whatever the daemon does`() throws {
            let folder = try TemporaryFolder()
            let daemon = try DaemonProcess(
                in: folder, ["--segment-bytes-max", "65536", "--compact-interval-seconds", "1"])
            let file = try SampleEvents.file(in: folder)
            let watch = Watch()
            let group = DispatchGroup()
            for _ in 0..<2 {
                DispatchQueue.global().async(group: group) { [data = folder.data] in
                    Self.read(data, watch)
                }
            }
            let reader = Reader(folder: folder)
            DispatchQueue.global().async(group: group) { Self.run(reader, watch) }
            let sent = try daemon.send(file, rate: 4_000)
            let isVisible = try eventually {
                try reader.sees(
                    impressions: SampleEvents.impressionCount, clicks: SampleEvents.clickCount)
            }
            let isVerified = eventually { watch.programCount > 10 }
            let ended = daemon.stop()
            let newest = try #require(folder.files(ending: ".manifest").last)
            watch.end()
            group.wait()
            #expect(sent.code == 0 && isVisible && ended.code == 0, "\(ended.errors)")
            #expect(watch.problems.prefix(5) == [])
            #expect(watch.readCount > 2 && watch.lookedInside && isVerified)
            // The clean end makes one; how many more there are is up to the speed of the machine.
            let generation = Int(newest.prefix(10)) ?? 0
            #expect(generation >= 2)
            #expect(try reader.run("verify").code == 0)
        }
    }
}
