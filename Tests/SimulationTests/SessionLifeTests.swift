import IngestFormat
import IngestStorage
import PipelineTestSupport
import TestSupport
import Testing

@testable import IngestPipeline
@testable import IngestReader

/// Sessions over lives of the daemon: what a start reads of the log is what the daemon that was killed knew.
struct SessionLifeTests {
    private static let policy = CountingPolicy(
        sessions: SessionPolicy(
            timeoutSeconds: 600, clickIntervalMilliseconds: 3_600_000, impressionsPerMinuteMax: 60,
            clicksPerMinuteMax: 4))

    /// The rules by the plainest code there is.
    private struct Reference {
        struct Session {
            var seenAt: Int64 = 0
            var impressions: Set<String> = []
            var clicks: [String: Int64] = [:]
            var minute: Int64 = 0
            var counts: [EventType: Int] = [:]
        }
        private var sessions: [String: Session] = [:]
        /// Rewards of which something was not refused.
        private var known: Set<String> = []

        /// - Returns: `nil` where the event is no row, and so changes nothing.
        mutating func verdict(
            on event: SimulatedPacket.Event, of name: String, admittedAt time: Int64
        ) -> (verdict: Verdict, isOrphan: Bool)? {
            let policy = SessionLifeTests.policy.sessions
            var session = sessions[name] ?? Session()
            if time - session.seenAt > Int64(policy.timeoutSeconds) * 1_000_000 {
                session = Session()
            }
            session.seenAt = time
            let found = Self.verdict(on: event, in: &session)
            let reward = event.reward + "/" + event.business
            if found.verdict.isRefusal && !known.contains(reward) { return nil }
            known.insert(reward)
            sessions[name] = session
            return found
        }

        private static func verdict(
            on event: SimulatedPacket.Event, in session: inout Session
        ) -> (verdict: Verdict, isOrphan: Bool) {
            let policy = SessionLifeTests.policy.sessions
            let reward = event.reward + "/" + event.business
            let minute = max(event.timestamp / 60_000_000, session.minute)
            let count = minute > session.minute ? 0 : session.counts[event.type] ?? 0
            if event.type == .click, let last = session.clicks[reward],
                abs(event.timestamp - last) < Int64(policy.clickIntervalMilliseconds) * 1_000
            {
                return (.invalidTraffic, false)
            }
            if event.type == .impression, count >= Int(policy.impressionsPerMinuteMax) {
                return (.invalidTraffic, false)
            }
            if event.type == .click, count >= Int(policy.clicksPerMinuteMax) {
                return (.invalidTraffic, false)
            }
            if minute > session.minute { (session.minute, session.counts) = (minute, [:]) }
            session.counts[event.type, default: 0] += 1
            if event.type == .impression {
                if event.isViewable == false { return (.notViewable, false) }
                if !session.impressions.insert(reward).inserted { return (.sessionRepeat, false) }
                return (.counted, false)
            }
            if event.type == .click { session.clicks[reward] = event.timestamp }
            return (.counted, !session.impressions.contains(reward))
        }
    }

    private static func rows(_ files: SimulatedFileSystem) throws -> [EventRow] {
        var rows: [EventRow] = []
        try IngestReader.open(files).forEachEvent(EventsQuery()) { row in
            rows.append(row)
            return .next
        }
        return rows
    }

    @Test(
        "Every verdict is that of the plain rules, over kills and stops", arguments: UInt64(1)...6)
    func lives(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var files = SimulatedFileSystem(seed: seed)
        let clock = SimulatedClock(wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000)
        var sent: [SimulatedPacket] = []
        var admitted: [ClosedRange<Int64>] = []
        for life in 0..<5 as Range<UInt64> {
            var pipeline = try SteppedPipeline.open(
                files, clock: clock, seed: seed + life, policy: Self.policy)
            for _ in 0..<24 {
                var packet = SimulatedPacket(sequence: UInt64(sent.count))
                packet.session = "session-\(random.next() % 3)"
                let offeredAt = clock.wallMicroseconds()
                while !pipeline.offer(packet) { try pipeline.turn() }
                sent.append(packet)
                try pipeline.settle()
                admitted.append(offeredAt...clock.wallMicroseconds())
                let seconds = random.next() % 8 == 0 ? 300 : Int(random.next() % 40)
                clock.advance(milliseconds: seconds * 1_000 + 1)
            }
            try pipeline.settle()
            if random.next() % 2 == 0 { try pipeline.stop() }
            files = files.disk.kill()
        }
        let rows = try Self.rows(files)
        var rest = rows[...]
        var reference = Reference()
        var found: [Verdict: Int] = [:]
        for (packet, times) in zip(sent, admitted) {
            // One without rows changes nothing.
            let (events, session) = (packet.events, packet.session ?? "")
            guard let time = rest.first?.admissionTime, times.contains(time) else { continue }
            for event in events {
                guard let expected = reference.verdict(on: event, of: session, admittedAt: time)
                else { continue }
                let first = rest.popFirst()
                let row = try #require(first)
                #expect(
                    row.verdict == expected.verdict && row.isOrphan == expected.isOrphan
                        && row.timestampMicroseconds == event.timestamp,
                    "\(row.admissionTime) \(row.segment) \(row.block) \(row.row) \(session) \(event) \(row.verdict) not \(expected)"
                )
                #expect(!row.isUnchecked && row.hasSession)
                found[row.verdict, default: 0] += 1
            }
        }
        #expect(rest.isEmpty && rows.count > sent.count)
        #expect(Set(found.keys) == [.counted, .notViewable, .sessionRepeat, .invalidTraffic])
    }

    private static func open(
        _ files: SimulatedFileSystem, _ clock: SimulatedClock
    ) throws -> SteppedPipeline {
        try SteppedPipeline.open(files, clock: clock, seed: 4)
    }

    private static func send(
        _ sequence: UInt64, _ session: String, to pipeline: inout SteppedPipeline
    ) throws {
        var packet = SimulatedPacket(sequence: sequence)
        packet.session = session
        while !pipeline.offer(packet) { try pipeline.turn() }
        try pipeline.settle()
    }

    /// What becomes of a sealed segment.
    enum Loss: CaseIterable {
        case none, damagedBlock, damagedBlockAndFooter, missing
    }

    @Test(
        "Of sessions that went on where rows are lost, or may have begun there, not all is known",
        arguments: Loss.allCases, [1, 2])
    func partial(loss: Loss, segment: Int) throws {
        var files = SimulatedFileSystem(seed: 3)
        let clock = SimulatedClock(wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000)
        for sequence in 0..<2 as Range<UInt64> {
            var pipeline = try Self.open(files, clock)
            try Self.send(sequence, "a", to: &pipeline)
            try pipeline.stop()
            files = files.disk.kill()
        }
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
        var files = SimulatedFileSystem(seed: 3)
        let clock = SimulatedClock(wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000)
        for sequence in 0..<2 as Range<UInt64> {
            var pipeline = try Self.open(files, clock)
            try Self.send(sequence, "a", to: &pipeline)
            try pipeline.stop()
            files = files.disk.kill()
            clock.advance(milliseconds: 500_000)
        }
        let manifest = try ManifestStore(files: files).readNewest()
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
        "Without their keys sessions begin anew, unchecked while one that went on may be among them"
    )
    func lostKeys() throws {
        let files = SimulatedFileSystem(seed: 3)
        let clock = SimulatedClock(wallMicroseconds: SimulatedPacket.start + 3 * 86_400_000_000)
        var first = try Self.open(files, clock)
        try Self.send(0, "a", to: &first)
        try first.stop()
        let left = files.disk.kill()
        try left.unlink("session-keys")
        clock.advance(milliseconds: 1)
        var second = try Self.open(left, clock)
        try Self.send(0, "a", to: &second)
        try Self.send(1, "a", to: &second)
        try second.stop()
        let rows = try Self.rows(left)
        let counted = rows.filter { $0.verdict == .counted && $0.kind == .impression }
        #expect(rows.count == 10 && !counted.isEmpty)
        #expect(counted.allSatisfy { $0.isUnchecked == ($0.segment > 1) })
    }
}

extension SessionRule {
    /// Whether all that was counted in a session is known.
    fileprivate mutating func knows(_ session: String, at time: Int64) -> Bool {
        open(admissionTime: time)
        var text = session
        return text.withUTF8 {
            let bytes = UnsafeRawPointer($0.baseAddress!)
            prepare(0, bytes, $0.count)
            return visit(0, bytes, $0.count, key: 1).isKnown
        }
    }
}
