import IngestFormat
import PipelineTestSupport
import Testing

@testable import IngestPipeline

struct RetentionPolicyTests {
    private static let day: Int64 = 86_400_000_000

    @Test func `what is too much is counted over all sealed segments`() {
        var manifest = Manifest(
            directory: DirectoryID(rawValue: 1), createdAt: 0, hashAlgorithm: 1,
            hashKey: Array(0..<32))
        manifest.sealed = (1...3).map {
            SealedSegment(
                number: SegmentNumber(rawValue: $0), byteCount: 100, footerChecksum: 0,
                blockCount: 1, rowCount: 1, minTimestamp: 0, maxTimestamp: 0, lastCommitTime: 0)
        }
        let cases: [(max: UInt64, excess: UInt64)] = [
            (0, 0), (1, 299), (299, 1), (300, 0), (.max, 0),
        ]
        for (max, excess) in cases {
            let policy = RetentionPolicy(byteCountMax: max)
            #expect(policy.excessByteCount(of: manifest) == excess)
        }
        manifest.sealed[0].byteCount = .max
        #expect(RetentionPolicy(byteCountMax: 1).excessByteCount(of: manifest) == UInt64.max - 1)
    }

    @Test func `days are those of the zone, and whole`() throws {
        let policy = RetentionPolicy(dayCountMax: 2)
        #expect(RetentionAge(RetentionPolicy(), now: 0, calendar: .utc) == nil)
        // The middle of day 100.
        let now = 100 * Self.day + Self.day / 2
        var utc = try #require(RetentionAge(policy, now: now, calendar: .utc))
        for (timestamp, isOld) in [
            (98 * Self.day, false), (98 * Self.day - 1, true), (now, false), (.min, true),
            (.max, false), (0, true),
        ] { #expect(utc.isOld(timestamp) == isOld, "\(timestamp)") }
        let zone = BusinessCalendar(ZoneOffsets(initialOffsetSeconds: 3_600))
        var east = try #require(RetentionAge(policy, now: now, calendar: zone))
        let found = [-3_600_000_001, -3_600_000_000].map { east.isOld(98 * Self.day + $0) }
        #expect(found == [true, false])
    }

    @Test func `a step forward is believed after a day, any other change at once`() {
        let clock = SimulatedClock(wallMicroseconds: 1_000 * Self.day)
        var steady = RetentionClock(clock)
        func days() -> Int64 { steady.wallMicroseconds() / Self.day }
        clock.advance(milliseconds: 5 * 86_400_000)
        #expect(days() == 1_005)
        clock.jumpWall(milliseconds: 3_000_000)
        #expect(steady.wallMicroseconds() == clock.wallMicroseconds())
        clock.jumpWall(milliseconds: 400 * 86_400_000)
        #expect(days() == 1_005)
        clock.advance(milliseconds: 82_000_000)
        #expect(days() == 1_005)
        clock.advance(milliseconds: 4_400_000)
        #expect(days() == 1_406)
        clock.jumpWall(milliseconds: -300 * 86_400_000)
        #expect(days() == 1_106)
    }
}
