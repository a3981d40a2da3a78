import Glibc
import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// A disk that takes nothing for a while: full, read-only, or out of descriptors. From any call on, and at any byte.
@Suite("A disk that takes nothing for a while")
struct ShortageTests {
    private static let packetCount: UInt64 = 64
    private let clock = SimulatedClock.afterEvents()

    private func open(
        _ files: SimulatedFileSystem,
        _ configure: (inout PipelineConfiguration) -> Void = { _ in }
    ) throws(PipelineError) -> SteppedPipeline {
        try SteppedPipeline.open(files, clock: clock, seed: 21, configure: configure)
    }

    private func expectAll(_ files: SimulatedFileSystem, _ place: String) throws {
        let whole = ReferenceModel(packetCount: Self.packetCount)
        #expect(try DirectoryReading(files).counts == whole.counts, "\(place)")
        // Segments that have expired stay for a minute, which is told and no fault.
        let findings = try Verifier.run(files).findings.filter {
            $0.kind != .note || !$0.what.hasPrefix("expired")
        }
        #expect(findings.isEmpty, "\(place): \(findings.prefix(2))")
    }

    /// What is counted is what the first packets are, and no less than was durable.
    /// - Returns: how many packets.
    @discardableResult
    private func expectPrefix(
        _ files: SimulatedFileSystem, durableRowCount: UInt64, _ place: String
    ) throws -> UInt64 {
        let found = try DirectoryReading(files)
        let packets = found.eventCount / UInt64(SimulatedPacket.eventCount)
        #expect(found.eventCount >= durableRowCount, "\(place)")
        #expect(found.counts == ReferenceModel(packetCount: packets).counts, "\(place)")
        return packets
    }

    /// Calls, how they are refused, and which of them begin it: so many that the test stays short, and every call
    /// that takes new room.
    private static let refusals: [(kind: SimulatedDisk.Kind, errno: Int32, stride: Int)] = [
        (.create, ENOSPC, 5), (.create, EMFILE, 11), (.create, EROFS, 13), (.open, EMFILE, 11),
        (.write, ENOSPC, 29), (.write, EDQUOT, 61), (.write, EROFS, 53), (.allocate, ENOSPC, 1),
        (.allocate, EROFS, 3), (.syncData, ENOSPC, 5), (.syncData, EDQUOT, 7), (.sync, ENOSPC, 11),
        (.rename, ENOSPC, 5), (.truncate, EROFS, 2),
    ]

    @Test(
        "a call that is refused from any place on ends nothing, and all is there afterwards",
        arguments: refusals)
    func everyCall(refusal: (kind: SimulatedDisk.Kind, errno: Int32, stride: Int)) throws {
        var call = 1
        while try refuse(refusal.kind, refusal.errno, onCall: call, kills: false, { _ in }) {
            call += refusal.stride
        }
    }

    /// As above, for what a generation can have besides.
    private static let refusalsOfGenerations:
        [(kind: SimulatedDisk.Kind, errno: Int32, stride: Int)] = [
            (.create, ENOSPC, 9), (.write, ENOSPC, 43), (.sync, ENOSPC, 13), (.rename, EROFS, 5),
        ]

    @Test(
        "so with several segments a generation, rows that expire, and kills",
        arguments: refusalsOfGenerations)
    func everyCallOfGenerations(
        refusal: (kind: SimulatedDisk.Kind, errno: Int32, stride: Int)
    ) throws {
        var call = 1
        let configure = { (configuration: inout PipelineConfiguration) in
            configuration.unpublishedSegmentCountMax = 3
            configuration.compactIntervalNanoseconds = 4_000_000_000
            configuration.retention = RetentionPolicy(byteCountMax: 12_000)
        }
        while try refuse(
            refusal.kind, refusal.errno, onCall: call, kills: call % 2 == 0, configure)
        {
            call += refusal.stride
        }
    }

    /// One run, during which a call and all after it are refused for a while.
    /// - Parameter kills: whether the daemon is killed in the middle of that, and started again on a good disk.
    /// - Returns: `false` if there are not so many calls.
    private func refuse(
        _ kind: SimulatedDisk.Kind, _ errno: Int32, onCall call: Int, kills: Bool,
        _ configure: @escaping (inout PipelineConfiguration) -> Void
    ) throws -> Bool {
        var files = SimulatedFileSystem(seed: 31)
        let disk = files.disk
        var pipeline = try open(files, configure)
        let last = disk.callCount(kind) + call
        disk.fail(kind, onCall: call, errno: errno, forever: true)
        var (next, refusedTurnCount): (UInt64, Int) = (0, 0)
        let place = "\(kind) \(call)"
        while next < Self.packetCount {
            if pipeline.offer(SimulatedPacket(sequence: next)) { next += 1 }
            try pipeline.turn()
            guard disk.callCount(kind) >= last else { continue }
            refusedTurnCount += 1
            // Some ten seconds of the simulated clock; a reader needs descriptors too.
            guard refusedTurnCount == 60 else { continue }
            disk.clearFailures()
            let durable = pipeline.counters.sync[.durableRows]
            try expectPrefix(files, durableRowCount: durable, place)
            guard kills else { continue }
            files = disk.kill()
            pipeline = try open(files, configure)
            #expect(pipeline.directory.movedAside == [], "\(place)")
            next = try expectPrefix(files, durableRowCount: durable, place)
        }
        let isHit = disk.callCount(kind) >= last
        disk.clearFailures()
        try pipeline.stop(waits: true)
        #expect(try !files.names().contains { $0.hasSuffix(".tmp") || $0 == "aside" }, "\(place)")
        try expectAll(files, place)
        return isHit
    }

    @Test(
        "a sync that had no space is never believed: what was acked later survives a power cut",
        arguments: [ENOSPC, EDQUOT])
    func syncWithoutSpace(errno: Int32) throws {
        for call in 1...12 {
            let files = SimulatedFileSystem(seed: UInt64(call))
            var pipeline = try open(files)
            files.disk.fail(.syncData, onCall: call, errno: errno)
            try pipeline.take(0..<32)
            // Some of them are as far as this gets.
            #expect(call > 8 || pipeline.counters.sync[.waits] == 1)
            let durable = pipeline.counters.sync[.durableRows]
            for seed in 0..<4 as Range<UInt64> {
                let left = files.disk.powerCut(seed: seed)
                var again = try open(left)
                try again.stop()
                try expectPrefix(left, durableRowCount: durable, "call \(call), seed \(seed)")
            }
        }
    }

    @Test(
        "at one of 32 places in 40 KB: it fills, is read, goes on when there is room, or starts on the full disk",
        arguments: 0..<4)
    func fillsAnywhere(part: Int) throws {
        var (waitCount, spentCount) = (0, 0)
        for room in stride(from: part * 97, to: 40_000, by: 4 * 1297) {
            let files = SimulatedFileSystem(seed: 5)
            var pipeline = try open(files)
            let space = try files.space()
            // Without the first segment, which has its room already.
            let used =
                Int(space.totalByteCount - space.freeByteCount)
                - SteppedPipeline.segmentByteCountMax
            files.disk.limit(byteCount: used + room)
            var next: UInt64 = 0
            var turnCount = 0
            while next < Self.packetCount && turnCount < 400 {
                if pipeline.shortage == nil && pipeline.offer(SimulatedPacket(sequence: next)) {
                    next += 1
                }
                try pipeline.turn()
                turnCount += pipeline.shortage == nil ? 0 : 1
                if turnCount == 40 {
                    waitCount += 1
                    try expectPrefix(
                        files, durableRowCount: pipeline.counters.sync[.durableRows],
                        "room \(room)")
                    if room % 2 == 0 { break }
                    files.disk.limit(byteCount: 1 << 40)
                }
            }
            if room % 2 == 1 || next == Self.packetCount {
                files.disk.limit(byteCount: 1 << 40)
                try pipeline.stop(waits: true)
                try expectAll(files, "room \(room)")
                continue
            }
            // Killed while it is full, and started again while it still is.
            let durable = pipeline.counters.sync[.durableRows]
            let left = files.disk.kill()
            var again = try open(left)
            try again.rest(turns: 3)
            let packets = try expectPrefix(left, durableRowCount: durable, "room \(room)")
            spentCount += again.shortage == nil ? 0 : 1
            left.disk.limit(byteCount: 1 << 40)
            try again.take(packets..<Self.packetCount)
            try again.stop(waits: true)
            try expectAll(left, "room \(room)")
        }
        #expect(waitCount > 3 && (part % 2 == 1 || spentCount > 0), "\(waitCount), \(spentCount)")
    }

    @Test("a stop does not wait for a full disk: 74, and the next start has all that was durable")
    func stopOnFullDisk() throws {
        let files = SimulatedFileSystem(seed: 6)
        var pipeline = try open(files)
        try pipeline.take(0..<20)
        let durable = pipeline.counters.sync[.durableRows]
        let space = try files.space()
        files.disk.limit(byteCount: Int(space.totalByteCount - space.freeByteCount))
        files.disk.fail(.write, onCall: 1, errno: ENOSPC, forever: true)
        for next in 20..<30 as Range<UInt64> {
            while !pipeline.offer(SimulatedPacket(sequence: next)) { try pipeline.turn() }
            try pipeline.turn()
        }
        var failure: PipelineError?
        do { try pipeline.stop() } catch { failure = error }
        #expect(failure?.exitCode == 74)
        #expect(failure.map { "\($0)".contains("free space") } == true)
        files.disk.clearFailures()
        let left = files.disk.kill()
        var again = try open(left)
        let packets = try expectPrefix(left, durableRowCount: durable, "full")
        left.disk.limit(byteCount: 1 << 40)
        try again.take(packets..<Self.packetCount)
        try again.stop()
        try expectAll(left, "after")
    }
}
