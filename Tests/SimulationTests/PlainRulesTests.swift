import Foundation
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// The whole counting policy against its plain reference: random events of every kind over several lives of a daemon, and
/// the real events in three zones. Every row of the log and of the four tables, and every sum of the ledger must be the
/// reference's. `INGEST_RULES_EVENTS` says how many random events there are.
@Suite("The counting rules against their plain reference")
struct PlainRulesTests {
    /// Midnight of 27 March 2026, UTC: two days before Europe's clocks go forward.
    private static let start: Int64 = 20_539 * 86_400_000_000
    private static let hour: Int64 = 3_600_000_000

    private static let sessions = SessionPolicy(
        clickIntervalMilliseconds: 1_000, impressionsPerMinuteMax: 6, clicksPerMinuteMax: 3)

    private static let policies = [
        CountingPolicy(),
        CountingPolicy(
            countsUndetermined: false, countsConsentNotSet: false,
            windowMicroseconds: 48 * hour, refusesOutsideWindow: true, sessions: sessions),
        CountingPolicy(
            ageMicrosecondsMax: nil, windowMicroseconds: 48 * hour, sessions: sessions),
        CountingPolicy(
            leadMicrosecondsMax: 0, windowMicroseconds: 48 * hour,
            sessions: SessionPolicy(isOn: false)),
    ]

    private static var eventCount: Int {
        let environment = ProcessInfo.processInfo.environment
        return environment["INGEST_RULES_EVENTS"].flatMap { Int($0) } ?? 48_000
    }

    @Test("random events of every kind", arguments: policies.indices)
    func randomEvents(place: Int) throws {
        let policy = Self.policies[place]
        var zones = PlainZones()
        zones.zone = "America/New_York"
        zones.rules = [
            "business-1": [.init(from: nil, zone: "Europe/Berlin")],
            "business-2": [
                .init(from: nil, zone: "Asia/Tokyo"), .init(from: 20_538, zone: "America/Lima"),
            ],
            "business-3": [.init(from: 20_539, zone: "Pacific/Kiritimati")],
        ]
        var run = PlainRun(policy, zones, start: Self.start, seed: UInt64(place))
        var events = PlainEvents(seed: UInt64(place) + 100)
        let lifeCount = 6
        let count = Self.eventCount / Self.policies.count / lifeCount
        for life in 0..<lifeCount {
            if life == 3 { run.rules.zones.zone = "Asia/Kolkata" }
            var pipeline = try run.open()
            // Once in the middle of a life, all ids are forgotten.
            if life == 2 { try run.forget(&pipeline) }
            var left = count
            while left > 0 {
                let packets = (0..<1 + run.random.below(5)).map { _ in
                    (0..<1 + run.random.below(40)).map { _ in events.next(at: run.now) }
                }
                left -= packets.reduce(0) { $0 + $1.count }
                for packet in packets { try run.send(packet, packet.map(\.line), to: &pipeline) }
                try pipeline.settle()
                let pause = run.random.oneIn(16) ? 550 + run.random.below(200) : 0
                run.pass(seconds: pause + run.random.below(20))
            }
            try run.end(pipeline, isKilled: life % 2 == 0)
        }
        let found = try run.expectSame()
        // Every verdict and every column that a policy can bring about.
        var verdicts = Set(Verdict.allCases).subtracting([.malformed])
        if policy.countsUndetermined { verdicts.remove(.undetermined) }
        if !policy.refusesOutsideWindow { verdicts.remove(.outsideWindow) }
        if !policy.sessions.isOn { verdicts.remove(.sessionRepeat) }
        #expect(Set(found.verdicts.keys) == verdicts)
        #expect(found.counters["uncheckedEvents"] ?? 0 > 0)
        #expect(found.counters["overflowEvents"] ?? 0 > 0)
        let isOn = policy.sessions.isOn
        #expect((found.counters["orphanClicks"] ?? 0 > 0) == isOn)
        #expect((found.counters["orphanRedemptions"] ?? 0 > 0) == isOn)
        // The usual limits of a minute are above most of what comes.
        let isUsual = policy == CountingPolicy()
        let rules = InvalidTrafficRule.allCases.prefix(!isOn ? 1 : isUsual ? 2 : 4)
        #expect(found.rules.isSuperset(of: rules))
    }

    @Test("real events", arguments: ["Asia/Tokyo", "America/Los_Angeles", "Asia/Kathmandu"])
    func realEvents(zone: String) throws {
        let policy = CountingPolicy(ageMicrosecondsMax: nil)
        var zones = PlainZones()
        zones.zone = zone
        var run = PlainRun(policy, zones, start: Self.start, seed: 7)
        let sample = try RealEvents.lines.map { (try PlainEvent(json: $0), $0) }
        try #require(sample.count == 20_080)
        var pipeline = try run.open()
        for first in stride(from: 0, to: sample.count, by: 40) {
            let packet = sample[first..<min(first + 40, sample.count)]
            try run.send(packet.map(\.0), packet.map(\.1), to: &pipeline)
            if first % 800 == 0 { try pipeline.settle() }
        }
        try pipeline.settle()
        try run.end(pipeline, isKilled: false)
        let found = try run.expectSame()
        #expect(found.verdicts == [.counted: 20_080])
        #expect(found.counters["countedImpressions"] == 20_000)
        #expect(found.counters["countedClicks"] == 80)
    }
}

extension PlainEvent {
    /// One of the sample, which has no more fields than these.
    init(json line: String) throws {
        let fields = try #require(
            try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        func text(_ name: String) throws -> String { try #require(fields[name] as? String) }
        type = try text("eventType") == "click" ? .click : .impression
        (reward, business) = (try text("rewardId"), try text("businessId"))
        id = try text("eventId")
        let format = ISO8601DateFormatter()
        format.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
        let date = try #require(format.date(from: try text("timestamp")))
        time = Int64((date.timeIntervalSince1970 * 1_000).rounded()) * 1_000
    }
}

/// A directory and the reference, which get the same events.
private struct PlainRun {
    struct Found {
        var verdicts: [Verdict: UInt64] = [:]
        var counters: [String: UInt128] = [:]
        var rules: Set<InvalidTrafficRule> = []
    }

    var rules: PlainRules
    var random: SeededRandom
    private let seed: UInt64
    private var files: SimulatedFileSystem
    private let clock: SimulatedClock
    private let decoder = LinesDecoder()
    private var rows: [PlainRow] = []
    private var verdicts: [Verdict: UInt64] = [:]
    private var lifeCount: UInt64 = 0

    init(_ policy: CountingPolicy, _ zones: PlainZones, start: Int64, seed: UInt64) {
        rules = PlainRules(policy: policy, zones: zones, rewardCountMax: 18)
        random = SeededRandom(seed: seed)
        files = SimulatedFileSystem(seed: seed)
        clock = SimulatedClock(wallMicroseconds: start)
        self.seed = seed
    }

    var now: Int64 { clock.wallMicroseconds() }

    func pass(seconds: Int) { clock.advance(milliseconds: seconds * 1_000) }

    /// Lets the window of ids go by.
    mutating func forget(_ pipeline: inout SteppedPipeline) throws {
        clock.advance(milliseconds: Int(rules.policy.windowMicroseconds / 1_000) + 86_400_000)
        rules.forget()
        // The keys of sessions are new, as admission sees with the next event; no session of the old ones can go on.
        try pipeline.settle()
        let event = PlainEvent(
            type: .click, reward: "reward 0", business: "business-0", time: now, consent: .optIn)
        try send([event], [event.line], to: &pipeline)
        try pipeline.settle()
        pass(seconds: Int(rules.policy.sessions.timeoutSeconds) + 1)
        try pipeline.settle()
    }

    // MARK: A life

    mutating func open() throws -> SteppedPipeline {
        lifeCount += 1
        let zones = try BusinessZones(rules.zones)
        return try SteppedPipeline.open(
            files, clock: clock, seed: seed &+ lifeCount, policy: rules.policy
        ) {
            $0.zones = zones
            $0.rewardKeyCountMax = rules.rewardCountMax
            $0.segmentByteCountMax = 1 << 20
        }
    }

    /// Offers a packet, which is admitted before the clock goes on.
    mutating func send(
        _ events: [PlainEvent], _ lines: [String], to pipeline: inout SteppedPipeline
    ) throws {
        var (bytes, descriptors) = try decoder.decode(lines, pipeline.hash)
        for (place, event) in events.enumerated() {
            if event.isMarked {
                descriptors[place].flags |= EventDescriptor.Flags.isInvalidTraffic
            }
            if event.isOfAnother {
                descriptors[place].flags |= EventDescriptor.Flags.isWrongBusiness
            }
            let (verdict, row) = rules.admit(event, at: now)
            verdicts[verdict, default: 0] += 1
            if let row { rows.append(row) }
        }
        let isTaken = pipeline.offer(bytes, descriptors)
        try #require(isTaken)
    }

    mutating func end(_ pipeline: consuming SteppedPipeline, isKilled: Bool) throws {
        // What is in the ledger alone may wait for a second.
        clock.advance(milliseconds: 1_000)
        try pipeline.settle()
        if !isKilled { try pipeline.stop() }
        files = files.disk.kill()
    }

    // MARK: What is there

    /// Holds everything in the directory against the reference.
    mutating func expectSame() throws -> Found {
        var (found, place, wrongCount, collisionCount) = (Found(), 0, 0, 0)
        let reader = try IngestReader.open(files)
        try reader.forEachEvent(EventsQuery()) { row in
            guard place < rows.count else {
                Issue.record("more rows than the reference has")
                return .stop
            }
            defer { place += 1 }
            // A duplicate is told by 16 bits of reward and amounts.
            if rows[place].verdict == .conflict && row.verdict == .duplicate {
                (rows[place].verdict, collisionCount) = (.duplicate, collisionCount + 1)
            }
            if let rule = rows[place].rule { found.rules.insert(rule) }
            guard !rows[place].isSame(as: row) else { return .next }
            wrongCount += 1
            Issue.record("row \(place): \(row.verdict) \(row) not \(rows[place])")
            return wrongCount < 5 ? .next : .stop
        }
        #expect(place == rows.count)
        let conflictCount = Int(verdicts[.conflict] ?? 0)
        #expect(collisionCount <= 2 + conflictCount / 10_000)
        verdicts[.conflict]? -= UInt64(collisionCount)
        if collisionCount > 0 { verdicts[.duplicate]! += UInt64(collisionCount) }
        try expectTables(reader)
        #expect(try reader.status().events == verdicts)
        let report = try Verifier.run(files, deepByteCountMax: 1 << 20)
        #expect(report.findings.filter { $0.kind != .note }.isEmpty, "\(report.findings)")
        #expect(report.judgedRowCount == UInt64(rows.count))
        for row in rows { Self.add(row.counters, to: &found.counters) }
        found.verdicts = verdicts
        print("\(rows.count) rows of \(verdicts.values.reduce(0, +)) events, \(verdicts)")
        return found
    }

    private func expectTables(_ reader: IngestReader) throws {
        var rewards: [String: [String: UInt128]] = [:]
        var (days, rewardDays, campaigns) = (rewards, rewards, rewards)
        for row in rows {
            let (business, date) = (row.event.business, "\(CivilDay(dayNumber: row.day))")
            Self.add(row.counters, to: &rewards[row.reward, default: [:]])
            Self.add(row.counters, to: &days["\(business)#\(date)", default: [:]])
            Self.add(
                row.counters, to: &rewardDays["\(row.reward)#\(business)#\(date)", default: [:]])
            let key = Self.key(row.reward, business, row.event.campaign, row.event.source)
            Self.add(row.counters, to: &campaigns[key, default: [:]])
        }
        expectEqual(try reader.rewards().map { ($0.id, $0.counters) }, rewards, "rewards")
        expectEqual(try reader.days().map { ($0.id, $0.counters) }, days, "days")
        expectEqual(
            try reader.rewardDays().map {
                ("\($0.id)#\($0.businessID)#\($0.date)", $0.counters)
            }, rewardDays, "reward-days")
        expectEqual(
            try reader.campaigns().map {
                (Self.key($0.id, $0.businessID, $0.campaign, $0.source), $0.counters)
            }, campaigns, "campaigns")
    }

    private static func key(
        _ reward: String, _ business: String, _ campaign: String?, _ source: String?
    ) -> String { "\(reward)#\(business)#\(campaign ?? "")#\(source ?? "")" }

    private func expectEqual(
        _ found: [(String, Counters)], _ expected: [String: [String: UInt128]], _ table: String
    ) {
        #expect(found.count == expected.count, "\(table)")
        let wrong = found.first { $1.named != expected[$0]?.filter { $0.value > 0 } }
        #expect(wrong == nil, "\(table), not \(expected[wrong?.0 ?? ""] ?? [:])")
    }

    private static func add(_ counters: [String: UInt128], to sums: inout [String: UInt128]) {
        for (name, count) in counters { sums[name, default: 0] += count }
    }
}

extension PlainRow {
    fileprivate func isSame(as row: EventRow) -> Bool {
        row.rewardID == reward && row.businessID == event.business
            && row.timestampMicroseconds == max(event.time, 0) && row.admissionTime == admittedAt
            && row.date.dayNumber == day && row.kind == event.type && row.verdict == verdict
            && row.invalidTrafficRule == rule && row.isOrphan == isOrphan
            && row.isOverflow == isOverflow && row.campaign == event.campaign
            && row.source == event.source
            && (verdict != .counted || row.isUnchecked == isUnchecked)
    }
}

extension Counters {
    /// Those that are not 0, by the names of the reference.
    fileprivate var named: [String: UInt128] {
        var sums: [String: UInt128] = [
            "viewableImpressions": UInt128(viewableImpressions),
            "undeterminedImpressions": UInt128(undeterminedImpressions),
            "notViewableImpressions": UInt128(notViewableImpressions),
            "uncheckedEvents": UInt128(uncheckedEvents), "orphanClicks": UInt128(orphanClicks),
            "orphanRedemptions": UInt128(orphanRedemptions),
            "overflowEvents": UInt128(overflowEvents), "revenue": revenue.micros,
            "spend": spend.micros,
        ]
        for (kind, name) in zip(Kind.allCases, ["Impressions", "Clicks", "Redemptions"]) {
            sums["counted" + name] = UInt128(counted(kind))
            sums["invalid" + name] = UInt128(invalid(kind))
            sums["duplicate" + name] = UInt128(duplicate(kind))
            sums["conflict" + name] = UInt128(conflict(kind))
            sums["refused" + name] = UInt128(refused(kind))
            sums["gross" + name] = UInt128(gross(kind))
        }
        return sums.filter { $0.value > 0 }
    }
}

/// Lines → descriptors, by the daemon's decoder.
private final class LinesDecoder {
    private let scratch = EventScratch()

    func decode(
        _ lines: [String], _ hash: KeyedHash
    ) throws -> (bytes: [UInt8], events: [EventDescriptor]) {
        var bytes = Array(lines.joined(separator: "\n").utf8)
        // SAFETY: the decoder stays within the bytes.
        let outcome = unsafe bytes.withUnsafeMutableBytes {
            unsafe JSONEventDecoder(hash: hash).decode($0, into: scratch)
        }
        try #require(outcome == .events(count: lines.count, malformed: 0))
        return (bytes, lines.indices.map { scratch[$0] })
    }
}

extension BusinessZones {
    /// From the files of tzdata, as the daemon makes them of its zones file.
    fileprivate init(_ plain: PlainZones) throws {
        var (text, zones): (String, [String: ZoneOffsets]) = ("", [:])
        for (business, rules) in plain.rules {
            for rule in rules {
                let from = rule.from.map { " from=\(CivilDay(dayNumber: $0))" } ?? ""
                text += "\(business) \(rule.zone)\(from)\n"
            }
        }
        for name in plain.rules.values.flatMap({ $0.map(\.zone) }) + [plain.zone] {
            let file = try Data(contentsOf: URL(fileURLWithPath: "/usr/share/zoneinfo/\(name)"))
            zones[name] = try ZoneFile.decode([UInt8](file))
        }
        let file = try ZonesFile(Array(text.utf8))
        let zone = try #require(zones[plain.zone])
        self = try #require(BusinessZones(zone, file, zones, version: 1))
    }
}
