import IngestFormat
import PipelineTestSupport
import Synchronization
import Testing

@testable import IngestPipeline

/// Lines that a stage has told, in order.
final class KeptLines: Sendable {
    private let kept = Mutex<[String]>([])
    func keep(_ line: String) { kept.withLock { $0.append(line) } }
    var lines: [String] { kept.withLock { $0 } }
}

/// A clock that shows what it was given, a pair for each reading.
private final class ScriptedClock: IngestClock {
    private let readings: Mutex<[(wall: Int64, monotonic: UInt64)]>

    init(_ readings: [(wall: Int64, monotonic: UInt64)]) { self.readings = Mutex(readings) }

    func wallMicroseconds() -> Int64 { readings.withLock { $0[0].wall } }
    func monotonicNanoseconds() -> UInt64 {
        readings.withLock { $0.count > 1 ? $0.removeFirst().monotonic : $0[0].monotonic }
    }
    func threadNanoseconds() -> UInt64 { 0 }
    func pause(nanoseconds: UInt64) {}
}

/// Now, as admission takes it, while the wall clock is slewed and set.
struct AdmissionClockTests {
    private static let start: Int64 = 1_763_600_000_000_000
    private let clock = SimulatedClock(wallMicroseconds: start)
    private let counters = PipelineCounters()
    private let alarms = KeptLines()
    private let state = StageLinks.SharedState()

    private func makeTime() -> AdmissionClock<SimulatedClock> {
        AdmissionClock(
            clock, counters: counters, state: state, warn: { [alarms] in alarms.keep($0) })
    }

    @Test func `small changes are followed, and time never goes back`() {
        var time = makeTime()
        var last = Self.start
        for step in [3_000, 5_000, -4_000, -5_000, 1, -1, 4_999, -5_000] {
            clock.advance(milliseconds: 100)
            clock.jumpWall(milliseconds: step)
            let now = time.now().wallMicroseconds
            #expect(now == max(last, clock.wallMicroseconds()))
            last = now
        }
        #expect(alarms.lines.isEmpty && counters.commit[.clockSteps] == 0)
    }

    @Test(arguments: [5_001, -5_001, 40 * 86_400_000, -40 * 86_400_000])
    func `a step is told and not followed until the clocks agree again`(step: Int) {
        var time = makeTime()
        clock.jumpWall(milliseconds: step)
        for second in 1...50 as ClosedRange<Int64> {
            clock.advance(milliseconds: 1_000)
            let now = time.now()
            #expect(now.wallMicroseconds == Self.start + second * 1_000_000)
            #expect(now.monotonicNanoseconds == clock.monotonicNanoseconds())
        }
        #expect(alarms.lines.count == 1 && counters.commit[.clockSteps] == 1)
        let way = step > 0 ? "forward" : "back"
        #expect(alarms.lines[0].contains("stepped \(way) by \(abs(step) / 1_000) s"))
        #expect(alarms.lines[0].contains("--accept-clock") == (step < 0))
        // Back to within what clocks may differ: it is followed again, from there.
        clock.jumpWall(milliseconds: -step + 2_000)
        #expect(time.now().wallMicroseconds == clock.wallMicroseconds())
        #expect(alarms.lines.count == 2 && counters.commit[.clockSteps] == 1)
        clock.jumpWall(milliseconds: step)
        _ = time.now()
        #expect(alarms.lines.count == 3 && counters.commit[.clockSteps] == 2)
    }

    @Test(arguments: [7_200_000, -7_200_000])
    func `as long as the clocks are apart it is told each minute, with what that costs`(step: Int) {
        var time = makeTime()
        counters.events.add(.tooOld, 5)
        _ = time.now()
        clock.jumpWall(milliseconds: step)
        _ = time.now()
        #expect(state.clockStepSeconds == Int64(step / 1_000))
        counters.events.add(step > 0 ? .tooEarly : .tooOld, 40)
        for _ in 0..<185 {
            clock.advance(milliseconds: 1_000)
            _ = time.now()
        }
        #expect(alarms.lines.count == 4 && counters.commit[.clockSteps] == 1)
        let way = step > 0 ? "ahead of" : "behind"
        for line in alarms.lines.dropFirst() {
            #expect(line.contains("is still 7200 s \(way) the admission clock"), "\(line)")
            #expect(line.contains(", 40 events refused as too_old or too_early since; "), "\(line)")
            #expect(line.contains("--accept-clock") == (step < 0))
        }
        clock.jumpWall(milliseconds: -step)
        _ = time.now()
        #expect(state.clockStepSeconds == 0)
        let last = alarms.lines.last
        #expect(last?.hasSuffix(", 40 events refused as too_old or too_early since") == true)
    }

    @Test func `a further step while the clocks are apart is told with its own size`() {
        var time = makeTime()
        _ = time.now()
        for (step, told) in [
            (3_600_000, "stepped forward by 3600 s"), (-7_200_000, "stepped back by 7200 s"),
        ] {
            clock.jumpWall(milliseconds: step)
            _ = time.now()
            #expect(alarms.lines.last?.contains(told) == true, "\(alarms.lines)")
        }
        #expect(alarms.lines.count == 2 && counters.commit[.clockSteps] == 2)
        #expect(state.clockStepSeconds == -3_600)
        // One that is moved slowly has not stepped.
        for _ in 0..<60 {
            clock.advance(milliseconds: 60_000)
            clock.jumpWall(milliseconds: 200)
            _ = time.now()
        }
        #expect(counters.commit[.clockSteps] == 2)
        #expect(time.now().wallMicroseconds == Self.start + 3_600_000_000)
    }

    @Test func `a thread that is held up between the two clocks has seen no step`() {
        let held = ScriptedClock([
            (Self.start, 1_000_000_000), (Self.start + 1_000_000, 60_000_000_000),
            (Self.start + 59_000_000, 60_000_000_000),
        ])
        var time = AdmissionClock(
            held, counters: counters, state: state, warn: { [alarms] in alarms.keep($0) })
        #expect(time.now().wallMicroseconds == Self.start + 59_000_000)
        #expect(alarms.lines.isEmpty)
    }

    /// The same packets with a step between them as without.
    @Test(arguments: [20 * 86_400_000, -20 * 86_400_000])
    func `a step changes no verdict, no business day and no block's time`(step: Int) throws {
        let day: Int64 = 86_400_000_000
        let bench = CommitBench()
        let before = bench.clock.wallMicroseconds()
        let events = ([0, -6, -8, 1, -401, 401] as [Int64]).map { days in
            var event = bench.click()
            event.timestampMicroseconds += days * day
            return event
        }
        func block(_ sequence: UInt64) throws -> (day: [Int32], verdicts: [Verdict?], time: Int64) {
            bench.offerBatch(sequence: sequence, events)
            let block = try #require(bench.turn())
            bench.links.free.push(block)
            let rows = 0..<block.rows.rowCount
            return (
                rows.map { block.rows.day[$0] },
                rows.map { RowAttributes(rawValue: block.rows.attributes[$0]).verdict },
                block.admissionTime
            )
        }
        let steady = try block(0)
        #expect(steady.verdicts == [.counted, .counted, .tooOld, .tooEarly, .tooOld, .tooEarly])
        bench.clock.jumpWall(milliseconds: step)
        for sequence in 1...3 as ClosedRange<UInt64> {
            bench.clock.advance(milliseconds: 1_000)
            let found = try block(sequence)
            #expect(found.day == steady.day && found.verdicts == steady.verdicts)
            #expect(found.time == before + Int64(sequence) * 1_000_000)
        }
        #expect(bench.alarms.lines.count == 1)
        #expect(bench.counters.commit[.clockSteps] == 1)
    }
}
