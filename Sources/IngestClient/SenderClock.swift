// events → [pace] → packet → socket

import Glibc

/// The two clocks that senders read.
package enum SenderClock {
    /// CLOCK_MONOTONIC: for pacing and ages; unaffected by steps of the wall clock.
    package static func monotonicNanoseconds() -> UInt64 { nanoseconds(CLOCK_MONOTONIC) }

    /// CLOCK_REALTIME since 1970 UTC: for epochs and event times.
    package static func unixNanoseconds() -> UInt64 { nanoseconds(CLOCK_REALTIME) }

    /// Sleeps until the monotonic clock reads this; at once if it already does. Signals do not cut it
    /// short.
    package static func sleep(untilMonotonicNanoseconds deadline: UInt64) {
        var time = timespec(
            tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        // SAFETY: `time` is read only; with TIMER_ABSTIME nothing is written back.
        while unsafe clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nil) == EINTR {}
    }

    private static func nanoseconds(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        // SAFETY: the kernel writes one timespec.
        unsafe clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
