// packet → socket → [ack] → window
// What keeps packets from being acked, and when that ends a sender.

extension SenderStream {
    /// So long acks may tell of nothing new before it is called an obstacle: a slow disk takes seconds.
    static let stagnationNanoseconds: UInt64 = 10_000_000_000

    /// What keeps packets from being acked: a full spool, silence for two heartbeats, or acks for ten seconds that
    /// tell of nothing new. Without acks what the network said last. It may end by itself.
    package func obstacle(now: UInt64) -> ClientError? {
        if let stall { return stall }
        guard isAcked else { return timers.networkError }
        return obstacle(
            now: now, silenceMax: SenderTimers.silenceMin,
            stagnationMax: Self.stagnationNanoseconds)
    }

    func obstacle(
        now: UInt64, silenceMax: UInt64, stagnationMax: UInt64
    ) -> ClientError? {
        if let stall, let since = timers.stalledSince, now - min(now, since) >= silenceMax {
            return stall
        }
        let silence = timers.silence(now: now)
        if silence >= silenceMax {
            return timers.networkError
                ?? .noAnswer(address: configuration.address, seconds: silence / 1_000_000_000)
        }
        guard timers.stagnation(now: now) >= stagnationMax else { return nil }
        return .noProgress(
            address: configuration.address, sequence: window.base,
            byteCount: wireByteCount(window.base))
    }

    var silenceMax: UInt64? {
        guard let silenceMax = configuration.silenceNanosecondsMax else { return nil }
        let isUnreachable = !timers.hasHeard && timers.networkError != nil
        return isUnreachable ? min(configuration.absenceNanosecondsMax, silenceMax) : silenceMax
    }
}
