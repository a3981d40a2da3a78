// packet → socket → ack → [round trip] → resend

/// How long an ack takes, from send to receive, commit of the receiver and all, and so how long to wait
/// for one before the packet is sent again.
///
/// **Units** Nanoseconds.
/// **Source** RFC 6298: smoothed mean and deviation; what was sent twice is not measured (Karn).
struct RoundTrip: Sendable {
    /// Before anything was measured. A receiver that starts may take longer; a packet too many does no harm.
    static let waitFirst: UInt64 = 500_000_000
    /// An ack comes with a commit: some milliseconds, and a slow disk's flush on top.
    static let waitMin: UInt64 = 100_000_000
    static let waitMax: UInt64 = 5_000_000_000

    private var smoothed: UInt64?
    private var deviation: UInt64 = 0

    mutating func measured(_ sample: UInt64) {
        // A machine that slept is not a slow network.
        let sample = min(sample, Self.waitMax)
        guard let smoothed else {
            smoothed = sample
            deviation = sample / 2
            return
        }
        let distance = sample > smoothed ? sample - smoothed : smoothed - sample
        deviation = (3 * deviation + distance) / 4
        self.smoothed = (7 * smoothed + sample) / 8
    }

    /// The wait after a packet was sent for the `sendCount`-th time: twice as long each time.
    func wait(sendCount: Int) -> UInt64 {
        let first = smoothed.map { max(Self.waitMin, $0 + 4 * deviation) } ?? Self.waitFirst
        let doublings = UInt64(min(max(0, sendCount - 1), 16))
        return min(Self.waitMax, min(first, Self.waitMax) << doublings)
    }
}
