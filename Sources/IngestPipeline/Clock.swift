// packet → decode → ring → admit → block → segment → compaction → snapshot → query
// Time, as every stage reads it. A seam: tests move it by hand.

import Glibc
import Synchronization

/// The two clocks of the pipeline. *Wall* time is what events and blocks are dated with; it may step in
/// either direction. *Monotonic* time is what ages and intervals are measured with; it never steps.
package protocol IngestClock: Sendable {
    /// Microseconds since 1970-01-01 UTC.
    func wallMicroseconds() -> Int64
    /// Nanoseconds since an arbitrary start.
    func monotonicNanoseconds() -> UInt64
    /// Time that the calling thread has been on a core, since an arbitrary start: what is charged to one piece
    /// of work, whatever else the machine does. **Cost** a system call.
    func threadNanoseconds() -> UInt64
    /// Lets about so much time pass; not ended early by anything.
    func pause(nanoseconds: UInt64)
}

/// The machine's clocks. **Cost** about 25 ns a reading of the first two (no system call).
///
/// The corresponding C function is `clock_gettime`.
package struct LinuxClock: IngestClock {
    package init() {}

    package func wallMicroseconds() -> Int64 {
        let now = Self.read(CLOCK_REALTIME)
        return Int64(now.tv_sec) &* 1_000_000 &+ Int64(now.tv_nsec) / 1000
    }

    package func monotonicNanoseconds() -> UInt64 {
        let now = Self.read(CLOCK_MONOTONIC)
        return UInt64(now.tv_sec) &* 1_000_000_000 &+ UInt64(now.tv_nsec)
    }

    package func threadNanoseconds() -> UInt64 {
        let now = Self.read(CLOCK_THREAD_CPUTIME_ID)
        return UInt64(now.tv_sec) &* 1_000_000_000 &+ UInt64(now.tv_nsec)
    }

    package func pause(nanoseconds: UInt64) {
        var time = timespec(
            tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
        // SAFETY: the call reads one timespec. Ended early by a signal, it is a shorter pause.
        unsafe clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nil)
    }

    private static func read(_ clock: clockid_t) -> timespec {
        var now = timespec()
        // SAFETY: the call writes one timespec. It fails only for a clock that does not exist.
        unsafe clock_gettime(clock, &now)
        return now
    }
}

/// A clock that stands still until it is moved.
package final class SimulatedClock: IngestClock {
    // Relaxed, all: whoever moves the clock orders its readers by other means.
    private let wall: Atomic<Int64>
    private let monotonic: Atomic<UInt64>
    private let thread = Atomic<UInt64>(0)
    private let threadStep = Atomic<UInt64>(0)

    package init(wallMicroseconds: Int64, monotonicNanoseconds: UInt64 = 1_000_000_000) {
        wall = Atomic(wallMicroseconds)
        monotonic = Atomic(monotonicNanoseconds)
    }

    package func wallMicroseconds() -> Int64 { wall.load(ordering: .relaxed) }
    package func monotonicNanoseconds() -> UInt64 { monotonic.load(ordering: .relaxed) }
    /// Work takes as long as it was said to take, whatever it is: nothing at first.
    package func threadNanoseconds() -> UInt64 {
        thread.wrappingAdd(threadStep.load(ordering: .relaxed), ordering: .relaxed).newValue
    }

    /// Has all that is measured on a core take so long.
    package func slowDown(milliseconds: Int) {
        threadStep.store(UInt64(milliseconds) &* 1_000_000, ordering: .relaxed)
    }

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
