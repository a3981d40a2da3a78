// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]
import Glibc

/// The signals that ask a program that draws to stop, or tell it that its terminal has another size: held back, and
/// waited for between two drawings, so that no drawing ends in the middle and the terminal is left as it was found.
///
/// **Source** sigtimedwait(2): nothing runs in a handler.
struct HeldSignals {
    enum Event { case stop, resize }

    private static let stops = [SIGINT, SIGTERM, SIGHUP]
    private var set = sigset_t()

    /// Holds the signals back from now on, in this thread and those that it makes.
    init() {
        // SAFETY: each call reads or writes the one set, which outlives it.
        unsafe sigemptyset(&set)
        for number in Self.stops + [SIGWINCH] { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// The next signal; `nil` if none comes in time.
    func next(within duration: Duration) -> Event? {
        let parts = max(.zero, duration).components
        var limit = timespec(
            tv_sec: Int(clamping: parts.seconds),
            tv_nsec: Int(parts.attoseconds / 1_000_000_000))
        var set = set
        // SAFETY: both are locals that the call reads.
        let number = unsafe sigtimedwait(&set, nil, &limit)
        if Self.stops.contains(number) { return .stop }
        return number == SIGWINCH ? .resize : nil
    }
}
