import IngestPipeline
import Synchronization

/// A clock that stands still until it is moved.
package final class SimulatedClock: IngestClock {
    // Relaxed, all: whoever moves the clock orders its readers by other means.
    private let wall: Atomic<Int64>
    private let monotonic: Atomic<UInt64>

    package init(wallMicroseconds: Int64, monotonicNanoseconds: UInt64 = 1_000_000_000) {
        wall = Atomic(wallMicroseconds)
        monotonic = Atomic(monotonicNanoseconds)
    }

    package func wallMicroseconds() -> Int64 { wall.load(ordering: .relaxed) }
    package func monotonicNanoseconds() -> UInt64 { monotonic.load(ordering: .relaxed) }
    /// No work takes any time.
    package func threadNanoseconds() -> UInt64 { 0 }

    package func pause(nanoseconds: UInt64) {
        wall.wrappingAdd(Int64(nanoseconds / 1000), ordering: .relaxed)
        monotonic.wrappingAdd(nanoseconds, ordering: .relaxed)
    }

    /// Lets time pass on both clocks.
    package func advance(milliseconds: Int) {
        wall.wrappingAdd(Int64(milliseconds) &* 1000, ordering: .relaxed)
        monotonic.wrappingAdd(UInt64(milliseconds) &* 1_000_000, ordering: .relaxed)
    }

    /// Steps the wall clock alone, as an operator or a time daemon does.
    package func jumpWall(milliseconds: Int) {
        wall.wrappingAdd(Int64(milliseconds) &* 1000, ordering: .relaxed)
    }
}
