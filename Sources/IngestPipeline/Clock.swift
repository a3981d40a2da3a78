// packet → decode → ring → admit → block → segment → compaction → snapshot → query
// Time, as every stage reads it. A seam: tests move it by hand.

import Glibc

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

/// Now, by both clocks; read once for some packets.
struct StageTime {
    let wallMicroseconds: Int64
    let monotonicNanoseconds: UInt64
    /// The same, for times before the start of the machine.
    var signedNanoseconds: Int64 { Int64(clamping: monotonicNanoseconds) }
    /// Since 1970.
    var wallMilliseconds: UInt64 { UInt64(clamping: wallMicroseconds / 1_000) }
}
