import Foundation
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Scripts of ten lives of a daemon, each with faults that the seed draws: how it ends, what the disk does meanwhile, what
/// clock the next one finds, and what becomes of a file between two of them.
///
/// Whatever happens, no acked event is lost whose copies in the log were not all destroyed, none counts twice, and what was
/// destroyed is reported. `INGEST_FAULT_SCRIPTS` says how many scripts are run: `scripts/faults 1000`.
@Suite("Fault scripts")
struct FaultScriptTests {
    private static let lifeCount: UInt64 = 10
    private static let packetsOfLife: UInt64 = 14

    /// As many as are asked for, or those that are named; else some, and one of each kind that once failed.
    private static var seeds: [UInt64] {
        let environment = ProcessInfo.processInfo.environment
        if let list = environment["INGEST_FAULT_SEEDS"] {
            return list.split(separator: ",").compactMap { UInt64($0) }
        }
        if let count = environment["INGEST_FAULT_SCRIPTS"].flatMap(UInt64.init) {
            return Array(0..<count)
        }
        return Array(0..<24) + failedSeeds
    }

    /// Names runs and the segments of their names damaged (32, 96, 144); lost ranges that expire (36); a damaged segment put
    /// aside before a crash (132); runs and footers damaged (188, 288); an expired run without its names (315); windows
    /// behind a lost segment (944); a last block that was cut off (552).
    private static let failedSeeds: [UInt64] = [32, 36, 96, 132, 144, 188, 288, 315, 552, 944]

    @Test("no acked event is lost but those whose only copy was destroyed and reported")
    func scripts() throws {
        var (damagedCount, lostCount) = (0, 0)
        for seed in Self.seeds {
            var script = Script(seed: seed)
            do { try script.run() } catch { Issue.record("seed \(seed): \(error), \(script.told)") }
            damagedCount += script.isLogDamaged ? 1 : 0
            lostCount += script.lostEventCount > 0 ? 1 : 0
        }
        print(
            "\(Self.seeds.count) fault scripts: \(damagedCount) damaged the log, \(lostCount) lost events"
        )
        #expect(Self.seeds.count < 24 || damagedCount > 0)
    }

    /// How a life ends.
    private enum End: CaseIterable { case stop, kill, powerCut, tornSectors }

    private struct Script {
        let seed: UInt64
        private var random: SeededRandom
        private var files: SimulatedFileSystem
        private var sender: AckedSender
        private var clock = SimulatedClock.afterEvents()
        /// What was done, for messages.
        private(set) var told: [String] = []
        /// Whether a file of the log itself was damaged.
        private(set) var isLogDamaged = false
        private(set) var lostEventCount: UInt64 = 0
        /// Of how many events starts have said that they were cut off at the end of the log, and may have been acked:
        /// neither mark nor anything behind them tells.
        private var cutEventCount: UInt64 = 0

        private static let isVerbose =
            ProcessInfo.processInfo.environment["INGEST_FAULT_SEEDS"] != nil

        init(seed: UInt64) {
            self.seed = seed
            random = SeededRandom(seed: seed &* 7919 &+ 1)
            files = SimulatedFileSystem(seed: seed)
            sender = AckedSender(seed: seed)
        }

        mutating func run() throws {
            for life in 0..<FaultScriptTests.lifeCount {
                let first = life * FaultScriptTests.packetsOfLife
                sender.unacked.formUnion(first..<first + FaultScriptTests.packetsOfLife)
                try endLife(life)
                if random.oneIn(2) { try damage() }
            }
            var round: UInt64 = 0
            while round == 0 || !sender.unacked.isEmpty {
                round += 1
                try #require(round < 40, "seed \(seed): \(told)")
                try live(100 &+ round)
                files = files.disk.kill()
            }
            try expectAll()
        }

        // MARK: A life

        /// One life with the faults that are drawn for it.
        private mutating func endLife(_ life: UInt64) throws {
            let end = End.allCases[random.below(End.allCases.count)]
            // Up to 60 days ahead, or a little behind.
            let step = random.oneIn(4) ? random.below(60 * 86_400) : random.oneIn(8) ? -4 : 0
            clock.jumpWall(milliseconds: step * 1_000)
            if end != .stop { files.disk.crash(beforeOperation: 5 + random.below(220)) }
            let isFull = random.oneIn(4)
            if isFull {
                let space = try files.space()
                let used = Int(space.totalByteCount - space.freeByteCount)
                files.disk.limit(byteCount: used + random.below(120_000))
            }
            told.append(
                "life \(life): \(end)\(isFull ? ", disk full" : "")\(step == 0 ? "" : ", clock \(step) s")"
            )
            do { try live(life) } catch let error as PipelineError {
                // What a crash or a full disk may end it with.
                guard files.disk.isDown || isFull else { throw error }
            }
            files.disk.limit(byteCount: 1 << 40)
            let cutSeed = random.next()
            files =
                switch end {
                case .stop, .kill: files.disk.kill()
                case .powerCut: files.disk.powerCut(seed: cutSeed)
                case .tornSectors:
                    files.disk.powerCut(seed: cutSeed, garbledSectorByteCount: 4096)
                }
        }

        /// All that is not acked is sent, then the daemon is stopped.
        private mutating func live(_ life: UInt64) throws {
            let byteCountMax: UInt64 = seed % 3 == 0 ? 80_000 : 0
            var pipeline = try SteppedPipeline.open(
                files, clock: clock, seed: seed &+ life,
                policy: CountingPolicy(ageMicrosecondsMax: nil)
            ) {
                $0.retention = RetentionPolicy(byteCountMax: byteCountMax)
            }
            cutEventCount = cutEventCount.saturatingSum(pipeline.cutEventCount)
            if Self.isVerbose { told += pipeline.found }
            var waiting = sender.unacked.sorted()
            var turnCount = 0
            while !waiting.isEmpty && turnCount < 600 {
                var packet = SimulatedPacket(sequence: waiting[0], hasIDs: true)
                packet.paddingByteCount = 512
                if pipeline.shortage == nil, pipeline.offer(packet, wantsAck: true) {
                    waiting.removeFirst()
                }
                turnCount += 1
                do { try pipeline.turn() } catch {
                    try? sender.hear(pipeline.takeAcks())
                    throw error
                }
                try? sender.hear(pipeline.takeAcks())
            }
            try pipeline.stop()
            try? sender.hear(pipeline.takeAcks())
        }

        // MARK: Damage

        /// Between two lives: a file goes, is changed, cannot be read, or is one of an earlier time.
        private mutating func damage() throws {
            // Without an expired run, the only copy of what it has, no start is possible; nor are there two marks.
            let names = try files.names().sorted().filter {
                switch FileName($0) {
                case .run(let table, _)?: table != .expired && table != .expiredNames
                case .segment?, .manifest?: true
                default: false
                }
            }
            // Without a segment the directory has never had anything.
            guard names.contains(where: { $0.hasSuffix(".segment") }) else { return }
            let name = names[random.below(names.count)]
            let isOfLog = if case .segment? = FileName(name) { true } else { false }
            // Most scripts leave the log alone.
            if isOfLog && seed % 4 != 0 { return }
            guard let count = files.disk.contents(name)?.count, count > 0 else { return }
            let place = random.below(count)
            let bit = random.below(8)
            let fault = random.below(isOfLog ? 2 : 3)
            switch fault {
            case 0: files.disk.damage(name) { $0[place] ^= 1 << UInt8(bit) }
            case 1: files.disk.makeUnreadable(name, place..<min(count, place + 4096))
            default: try files.unlink(name)
            }
            told.append("\(["bit", "unreadable", "gone"][fault]) \(name) at \(place)")
            isLogDamaged = isLogDamaged || isOfLog
        }

        // MARK: What is left

        private mutating func expectAll() throws {
            let packetCount = FaultScriptTests.lifeCount * FaultScriptTests.packetsOfLife
            let expected = ReferenceModel(packetCount: packetCount).counts
            // A derived file of which no start has met the damage yet is made again once it is gone.
            let damaged = Set(
                try Verifier.run(files, workerCount: 1).findings
                    .filter { $0.kind == .corruption && !$0.file.hasSuffix(".segment") }
                    .map(\.file))
            if !damaged.isEmpty {
                for name in damaged { try files.unlink(name) }
                try live(200)
                files = files.disk.kill()
            }
            let reading = try DirectoryReading(files)
            let findings = try Verifier.run(files, workerCount: 1).findings
            let wrong = findings.filter { $0.kind != .note }
            #expect(!wrong.contains { $0.kind == .difference }, "seed \(seed): \(told), \(wrong)")
            guard isLogDamaged else {
                #expect(reading.counts == expected, "seed \(seed): \(told)")
                #expect(wrong.isEmpty, "seed \(seed): \(told), \(wrong)")
                return
            }
            // Nothing counts twice; what has lost its name stands under another.
            for (key, counts) in reading.counts
            where !key.reward.hasPrefix("(lost:") && !key.business.hasPrefix("(lost:") {
                #expect(
                    expected[key].map { counts.isWithin($0) } == true,
                    "seed \(seed): \(told), \(key) \(counts)")
            }
            // Events that are not there must stand in a lost range, or in a report of damage that is still there.
            let total = expected.values.reduce(0) {
                $0 + $1.impressions + $1.clicks + $1.redemptions + $1.notViewable
            }
            let lost = try lostRanges()
            let reported = lost.reduce(cutEventCount) {
                $0.saturatingSum($1.rowCount ?? .max)
            }
            #expect(reading.eventCount <= total, "seed \(seed): \(told)")
            lostEventCount = total - min(total, reading.eventCount)
            #expect(
                lostEventCount <= reported,
                "seed \(seed): \(lostEventCount) lost, \(lost), \(wrong), \(told)")
            #expect(lost.isEmpty || !wrong.isEmpty, "seed \(seed): \(told)")
        }

        /// What is recorded as lost, of segments that have expired too.
        private func lostRanges() throws -> [LostRange] {
            let manifest = try newest(files)
            return try manifest.expired.reduce(into: manifest.lost) { lost, entry in
                lost += try RunReader(entry.run, directory: manifest.directory, in: files)
                    .readExpired().lost
            }
        }
    }
}
