import CIngestLinux
import IngestFormat
import IngestStorage
import PipelineTestSupport
import TestSupport
import Testing

@testable import IngestPipeline
@testable import IngestReader

/// Sessions over lives of the daemon, where not all of the log or no key is left. Where all is, `PlainRulesTests` holds every
/// verdict after kills and stops.
struct SessionLifeTests {
    private static func rows(_ files: SimulatedFileSystem) throws -> [EventRow] {
        var rows: [EventRow] = []
        try IngestReader.open(files).forEachEvent(EventsQuery()) { row in
            rows.append(row)
            return .next
        }
        return rows
    }

    private static func open(
        _ files: SimulatedFileSystem, _ clock: SimulatedClock,
        _ sessions: SessionPolicy = SessionPolicy()
    ) throws -> SteppedPipeline {
        try SteppedPipeline.open(
            files, clock: clock, seed: 4,
            policy: CountingPolicy(ageMicrosecondsMax: nil, sessions: sessions))
    }

    private static func send(
        _ sequence: UInt64, _ session: String, to pipeline: inout SteppedPipeline
    ) throws {
        var packet = SimulatedPacket(sequence: sequence)
        packet.session = session
        while !pipeline.offer(packet) { try pipeline.turn() }
        try pipeline.settle()
    }

    /// A directory of two lives of so long, each with a segment of one packet of session "a".
    private static func twoLives(
        _ clock: SimulatedClock, milliseconds: Int = 0
    ) throws -> SimulatedFileSystem {
        var files = SimulatedFileSystem(seed: 3)
        for sequence in 0..<2 as Range<UInt64> {
            var pipeline = try open(files, clock)
            try send(sequence, "a", to: &pipeline)
            try pipeline.stop()
            files = files.disk.kill()
            clock.advance(milliseconds: milliseconds)
        }
        return files
    }

    /// What becomes of a sealed segment.
    enum Loss: CaseIterable {
        case none, damagedBlock, damagedBlockAndFooter, missing
    }

    @Test(
        "Of sessions that went on where rows are lost, or may have begun there, not all is known",
        arguments: Loss.allCases, [1, 2])
    func partial(loss: Loss, segment: Int) throws {
        let clock = SimulatedClock.afterEvents()
        let files = try Self.twoLives(clock)
        let name = "000000000\(segment).segment"
        switch loss {
        case .none: break
        case .damagedBlock, .damagedBlockAndFooter:
            files.disk.damage(name) {
                $0[4_096 + 30] ^= 1
                if loss == .damagedBlockAndFooter { $0[$0.count - 100] ^= 1 }
            }
        case .missing: try files.unlink(name)
        }
        let isPartial = loss != .none
        var pipeline = try Self.open(files, clock)
        for (sequence, session) in [(2, "a"), (3, "b")] {
            let before = try Self.sums(files)
            try Self.send(UInt64(sequence), session, to: &pipeline)
            let after = try Self.sums(files)
            let counted = after.counted - before.counted
            #expect(counted > 0)
            #expect(after.unchecked - before.unchecked == (isPartial ? counted : 0))
        }
        // They have ended: all is known of one that begins.
        clock.advance(milliseconds: 601_000)
        let before = try Self.sums(files)
        try Self.send(4, "a", to: &pipeline)
        #expect(try Self.sums(files).unchecked == before.unchecked)
        try pipeline.stop()
    }

    @Test(
        "Of sessions that may have begun in rows behind the limit not all is known",
        arguments: [0, 1, 5, 6, 10])
    func limit(rowCountMax: Int) throws {
        let clock = SimulatedClock.afterEvents()
        let files = try Self.twoLives(clock, milliseconds: 500_000)
        let manifest = try newest(files)
        let now = clock.wallMicroseconds()
        let keys = SessionKeyFile.open(in: files, directory: manifest.directory, now: now)
        var rule = SessionRule(SessionPolicy(), keys.file?.ring)
        try LoggedSessions.load(
            into: &rule, SessionPolicy(), of: manifest, now: now, rowCountMax: rowCountMax,
            in: files)
        let known = ["a", "b"].map { rule.knows($0, at: now) }
        // Two packets of 5 rows each, 1,000 and 500 seconds ago: one row too many leaves a packet out.
        let isKnown = [rowCountMax == 10, rowCountMax >= 5]
        #expect(known == isKnown)
    }

    @Test("Sessions that have ended make room while a start loads rows")
    func room() throws {
        let files = SimulatedFileSystem(seed: 3)
        let start = SimulatedPacket.start
        let keys = SessionKeyFile.open(
            in: files, directory: DirectoryID(rawValue: 1), now: start)
        let ring = try #require(keys.file?.ring)
        var rule = SessionRule(SessionPolicy(timeoutSeconds: 10, keyCountMax: 1_000), ring)
        rule.beginLoading(now: start)
        let row = RowAttributes(
            type: EventType.impression.rawValue, verdict: .counted, consent: 0, format: 0, bits: 0)
        // Of 400 keys at a time, those of 200 sessions that go on.
        var now = start
        for number in 0..<20_000 as Range<UInt64> {
            now += 50_000
            rule.load(
                SplitMix.finish(number) >> 16, row, key: 1, timestamp: now, admissionTime: now)
        }
        var text = "a"
        let pseudonym = try #require(ring.current.newest).pseudonym(
            of: text.withUTF8 { ingest_text(bytes: $0.baseAddress!, byteCount: $0.count) })
        rule.load(pseudonym, row, key: 1, timestamp: now, admissionTime: now)
        #expect(rule.knows("a", at: now) == true)
    }

    private static func sums(
        _ files: SimulatedFileSystem
    ) throws -> (counted: UInt64, unchecked: UInt64) {
        try IngestReader.open(files).rewards().reduce((0, 0)) {
            (
                $0.0 + $1.counters.impressions + $1.counters.clicks + $1.counters.redemptions,
                $0.1 + $1.counters.uncheckedEvents
            )
        }
    }

    @Test(
        "Without their keys sessions begin anew, unchecked while one that went on may be among them",
        arguments: [false, true])
    func lostKeys(hadNone: Bool) throws {
        let files = SimulatedFileSystem(seed: 3)
        let clock = SimulatedClock.afterEvents()
        var first = try Self.open(files, clock, SessionPolicy(isOn: !hadNone))
        try Self.send(0, "a", to: &first)
        try first.stop()
        let left = files.disk.kill()
        if !hadNone { try left.unlink("session-keys") }
        clock.advance(milliseconds: 1)
        var second = try Self.open(left, clock)
        try Self.send(1, "a", to: &second)
        try second.stop()
        let rows = try Self.rows(left)
        let counted = rows.filter {
            $0.verdict == .counted && $0.kind == .impression && $0.segment > 1
        }
        #expect(rows.count == 10 && !counted.isEmpty)
        #expect(counted.allSatisfy { $0.isUnchecked })
    }

    @Test("Where none went on when its key was destroyed, all is known of those that begin then")
    func keysOfSilence() throws {
        let files = SimulatedFileSystem(seed: 3)
        let clock = SimulatedClock.afterEvents()
        var first = try Self.open(files, clock)
        try Self.send(0, "a", to: &first)
        try first.stop()
        let left = files.disk.kill()
        clock.advance(milliseconds: 3 * 86_400_000)
        var second = try Self.open(left, clock)
        try Self.send(1, "a", to: &second)
        try second.stop()
        let sums = try Self.sums(left)
        #expect(sums.counted > 0 && sums.unchecked == 0)
    }

    @Test(
        "A session that outlived its key stays unchecked over starts, until all of them can have ended",
        arguments: [false, true])
    func outlivedKeys(isStoppedMeanwhile: Bool) throws {
        var files = SimulatedFileSystem(seed: 3)
        let clock = SimulatedClock.afterEvents()
        let sessions = SessionPolicy(timeoutSeconds: 80_000)
        var pipeline = try Self.open(files, clock, sessions)
        // It goes on for longer than its key lives.
        for sequence in 0..<3 as Range<UInt64> {
            try Self.send(sequence, "a", to: &pipeline)
            clock.advance(milliseconds: 20 * 3_600_000)
        }
        // A key is destroyed behind the first event after its time, or by the next start.
        if !isStoppedMeanwhile { try Self.send(3, "a", to: &pipeline) }
        clock.advance(milliseconds: 1_000)
        let first = clock.wallMicroseconds()
        // Further keys are destroyed meanwhile, and its next one too.
        for life in 4..<10 as Range<UInt64> {
            try pipeline.stop()
            files = files.disk.kill()
            clock.advance(milliseconds: life < 6 ? 1_000 : 20 * 3_600_000)
            pipeline = try Self.open(files, clock, sessions)
            try Self.send(life, "a", to: &pipeline)
        }
        clock.advance(milliseconds: 81_000_000)
        try Self.send(10, "b", to: &pipeline)
        try pipeline.stop()
        let counted = try Self.rows(files).filter {
            $0.verdict == .counted && $0.kind == .impression
        }
        let last = counted.map(\.admissionTime).max() ?? 0
        for row in counted {
            #expect(row.isUnchecked == (first..<last).contains(row.admissionTime), "\(row)")
        }
        #expect(counted.contains { $0.isUnchecked })
    }
}

extension SessionRule {
    /// Whether all that was counted in a session is known.
    fileprivate mutating func knows(_ session: String, at time: Int64) -> Bool {
        open(admissionTime: time)
        var text = session
        return text.withUTF8 {
            let id = ingest_text(bytes: $0.baseAddress!, byteCount: $0.count)
            beginTurn()
            prepare(id)
            var lines = LineBatch()
            load(with: &lines)
            return visit(0, id, key: 1, type: EventType.impression.rawValue).isKnown
        }
    }
}
