import Glibc
import IngestFormat
import IngestPipeline
import IngestRing
import IngestStorage
import PipelineTestSupport
import TestSupport

/// A data directory as a daemon leaves it whose clock was ahead.
enum FutureLog {
    /// Commits one packet without events by a clock that is so far ahead, and stops.
    static func write(to path: String, secondsAhead: Int64) throws {
        let wall = LinuxClock().wallMicroseconds() + secondsAhead * 1_000_000
        let clock = SimulatedClock(wallMicroseconds: wall)
        let counters = PipelineCounters()
        var random = SystemRandomNumberGenerator()
        let start = try PipelineStart.open(
            LinuxFileSystem(path: path, create: true), clock: clock, counters: counters,
            random: &random)
        var stages = try PipelineStages(
            start, configuration: PipelineConfiguration(), clock: clock,
            acks: SimulatedAckSocket(), counters: counters)
        var header = RingRecordHeader(kind: RingRecordKind.framed)
        (header.sender, header.epoch) = (7, 1)
        let place = RingLayout.rowOffset(packetByteCount: 0)
        _ = stages.producer?.claim(header, byteCount: place)
        stages.producer?.commit()
        stages.producer?.publish()
        stages.producer = nil
        var (isCommitted, isSynced, isCompacted) = (false, false, false)
        while !isCompacted {
            if !isCommitted, case .finished = stages.commit.step(mayWait: false) {
                isCommitted = true
            }
            if !isSynced, case .finished = try stages.sync.step(mayWait: false, mayKeep: false) {
                isSynced = true
            }
            if case .finished = try stages.compact.step(mayWait: false, mayRetry: false) {
                isCompacted = true
            }
            _ = try stages.merge.step(mayWait: false)
        }
    }
}
