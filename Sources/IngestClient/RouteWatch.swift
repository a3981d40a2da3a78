// packet → [time] → socket

/// Since when there is no route to the receiver. **Units** Nanoseconds of the monotonic clock.
struct RouteWatch: Sendable {
    /// Without a route for so long the socket's own address may be gone.
    static let reconnectInterval: UInt64 = 3_000_000_000

    /// After so long a silence it may be gone too: packets still leave from it, and the answers reach nobody.
    static let silenceMax: UInt64 = 10_000_000_000

    private var lostSince: UInt64?
    private var silentSince: UInt64?

    mutating func found() { (lostSince, silentSince) = (nil, nil) }

    /// Whether to connect again, since nothing was heard for so long.
    mutating func isReconnectDue(now: UInt64, silence: UInt64) -> Bool {
        guard silence >= Self.silenceMax else { return false }
        if let silentSince, now - min(now, silentSince) < Self.silenceMax { return false }
        silentSince = now
        return true
    }

    /// Whether to connect again, after an error of the network: for some seconds now there was no route.
    mutating func isReconnectDue(now: UInt64, lacksRoute: Bool) -> Bool {
        guard lacksRoute else {
            lostSince = nil
            return false
        }
        let since = lostSince ?? now
        let isDue = now - min(now, since) >= Self.reconnectInterval
        lostSince = isDue ? now : since
        return isDue
    }
}
