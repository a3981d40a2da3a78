// packet → socket → [ack] → window
// What keeps packets from being acked, and when that ends a sender.

import IngestFormat

extension SenderStream {
    /// So long acks may tell of nothing new before it is called an obstacle: a slow disk takes seconds.
    static let stagnationNanoseconds: UInt64 = 10_000_000_000

    /// What keeps packets from being acked: a full spool, silence for two heartbeats, a receiver that takes nothing for as
    /// long, or acks for ten seconds that tell of nothing new. Without acks what the network said last. It may end by itself.
    package func obstacle(now: UInt64) -> ClientError? {
        if let stall { return stall }
        if let suspension { return suspension }
        guard isAcked else { return timers.networkError }
        return obstacle(
            now: now, silenceMax: SenderTimers.silenceMin,
            stagnationMax: Self.stagnationNanoseconds, blockMax: SenderTimers.silenceMin)
    }

    /// - Parameter blockMax: how long the receiver may take nothing: what a spool holds waits for it as long as that lasts.
    func obstacle(
        now: UInt64, silenceMax: UInt64, stagnationMax: UInt64, blockMax: UInt64
    ) -> ClientError? {
        if let stall, let since = timers.stalledSince, now - min(now, since) >= silenceMax {
            return stall
        }
        let silence = timers.silence(now: now)
        if silence >= silenceMax {
            return timers.networkError
                ?? .noAnswer(address: configuration.address, seconds: silence / 1_000_000_000)
        }
        if let block = timers.block(now: now), block.nanoseconds >= blockMax {
            return .notTaken(
                address: configuration.address, cause: block.cause,
                seconds: block.nanoseconds / 1_000_000_000)
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

    func refusal(known: SenderEpoch) -> ClientError {
        let epoch = configuration.identity.epoch
        let isAhead =
            configuration.unixMilliseconds.map {
                epoch.rawValue >> 20 > $0 + Limits.epochLeadMillisecondsMax
            } ?? false
        return .refused(
            sender: configuration.identity.sender.rawValue, epoch: epoch.rawValue,
            cause: known.rawValue > epoch.rawValue
                ? .newerEpoch(known.rawValue) : isAhead ? .clock : .reused)
    }
}
