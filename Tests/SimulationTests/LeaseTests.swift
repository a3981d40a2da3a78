import IngestFormat
import IngestPipeline
import IngestReader
import IngestStorage
import IngestVerify
import PipelineTestSupport
import TestSupport
import Testing

/// Readers and `verify` that are suspended at any open while a daemon lets everything expire that they are on.
@Suite("Leases")
struct LeaseTests {
    private static let packetCount: UInt64 = 400

    private static let start = SimulatedPacket.start + 3 * 86_400_000_000

    /// What a daemon without retention has left.
    private func begin() throws -> SimulatedFileSystem {
        let files = SimulatedFileSystem(seed: 1)
        let clock = SimulatedClock(wallMicroseconds: Self.start)
        var pipeline = try SteppedPipeline.open(files, clock: clock, seed: 1)
        try pipeline.take(0..<Self.packetCount)
        try pipeline.rest(turns: 20)
        try pipeline.stop()
        #expect(try newest(files).sealed.count >= 9)
        return files
    }

    /// A daemon that lets everything expire, once, when somebody opens a file.
    private final class Expiry: @unchecked Sendable {
        private var pipeline: SteppedPipeline
        private let clock: SimulatedClock
        let files: SimulatedFileSystem
        private let turnCount: Int
        private let spareByteCount: Int?
        private var openCount = 0
        private let openNumber: Int
        var hasRun: Bool { openCount >= openNumber }

        /// - Parameters:
        ///   - begun: a directory with segments.
        ///   - number: before which open.
        ///   - turns: seconds for which the daemon goes on then.
        ///   - spare: what the disk has left then; `nil` = enough.
        init(_ begun: SimulatedFileSystem, beforeOpen number: Int, turns: Int, spare: Int? = nil)
            throws
        {
            clock = SimulatedClock(wallMicroseconds: LeaseTests.start)
            let files = begun.disk.kill()
            pipeline = try SteppedPipeline.open(files, clock: clock, seed: 2) {
                $0.retention = RetentionPolicy(byteCountMax: 1)
            }
            (self.files, turnCount, spareByteCount, openNumber) = (files, turns, spare, number)
        }

        var watched: WatchedFileSystem {
            WatchedFileSystem(files) { _ in
                self.openCount += 1
                guard self.openCount == self.openNumber else { return }
                if let spare = self.spareByteCount {
                    let space = (try? self.files.space())!
                    self.files.disk.limit(
                        byteCount: Int(space.totalByteCount - space.freeByteCount) + spare)
                }
                do { try self.goOn() } catch { Issue.record("\(error)") }
            }
        }

        func goOn() throws(PipelineError) {
            // On a disk that is to be full, more than the live segment has room for.
            let count: UInt64 = spareByteCount == nil ? 4 : 40
            try pipeline.take(LeaseTests.packetCount..<LeaseTests.packetCount + count)
            try pipeline.rest(turns: turnCount)
        }

        func segments() throws -> Int { try files.names().count { $0.hasSuffix(".segment") } }
    }

    @Test("verify finds nothing wrong, wherever it is suspended for five minutes")
    func verify() throws {
        let begun = try begin()
        var number = 1
        while true {
            let expiry = try Expiry(begun, beforeOpen: number, turns: 300)
            let report = try Verifier.run(expiry.watched, workerCount: 1)
            let found = report.findings.filter { !$0.what.contains("the daemon removes it") }
            #expect(report.exitCode == 0 && found.isEmpty, "open \(number): \(found.prefix(3))")
            #expect(
                report.rowCount + report.trustedRowCount
                    >= Self.packetCount * UInt64(SimulatedPacket.eventCount), "open \(number)")
            if !expiry.hasRun { break }
            #expect(try newest(expiry.files).lastExpired.rawValue >= 8)
            number += 1
        }
        #expect(number > 40)
    }

    private func read(_ files: WatchedFileSystem) throws -> (events: UInt64, senders: Int) {
        let reader = try IngestReader.open(files)
        var count: UInt64 = 0
        try reader.forEachEvent { _ in
            count += 1
            return .next
        }
        return (count, try reader.ledger().count)
    }

    @Test("a reader gets all rows of its cut, wherever it is suspended for five minutes")
    func reader() throws {
        let begun = try begin()
        var number = 1
        var whole = 0
        while true {
            let expiry = try Expiry(begun, beforeOpen: number, turns: 300)
            let found = try read(expiry.watched)
            #expect(found.senders == 1, "open \(number)")
            if found.events >= Self.packetCount * UInt64(SimulatedPacket.eventCount) { whole += 1 }
            if !expiry.hasRun { break }
            number += 1
        }
        #expect(number > 20 && whole > number / 2)
    }

    @Test("a lease ends after an hour, and verify says that the boundary has moved")
    func hour() throws {
        let begun = try begin()
        for number in [30, 40] {
            let expiry = try Expiry(begun, beforeOpen: number, turns: 3_700)
            let report = try Verifier.run(expiry.watched, workerCount: 1)
            #expect(report.exitCode == 0, "\(report.findings)")
            #expect(
                report.findings.contains {
                    $0.kind == .note && $0.what.contains("expired while verify ran")
                })
        }
        let expiry = try Expiry(begun, beforeOpen: 40, turns: 3_700)
        let error = #expect(throws: ReaderError.self) { try read(expiry.watched) }
        #expect(error?.what == "retention removed rows before they were read")
    }

    @Test("a lease ends where the disk is full")
    func space() throws {
        let begun = try begin()
        let expiry = try Expiry(begun, beforeOpen: 40, turns: 300, spare: 3_000)
        let report = try Verifier.run(expiry.watched, workerCount: 1)
        #expect(report.exitCode == 0, "\(report.findings)")
        #expect(try expiry.segments() < 8)
        #expect(report.findings.contains { $0.what.contains("expired while verify ran") })
    }

    @Test("what was leased goes a minute after its reader")
    func end() throws {
        let begun = try begin()
        let expiry = try Expiry(begun, beforeOpen: .max, turns: 100)
        do {
            let reader = try IngestReader.open(expiry.watched)
            try expiry.goOn()
            #expect(try expiry.segments() >= 9 && newest(expiry.files).lastExpired.rawValue >= 8)
            #expect(try !reader.rewards().isEmpty)
        }
        try expiry.goOn()
        #expect(try expiry.segments() < 4)
        // A copy has no such file, and no lease.
        #expect(try expiry.watched.names().contains("leases"))
        try expiry.watched.unlink("leases")
        #expect(try Verifier.run(expiry.watched).exitCode == 0)
    }
}
