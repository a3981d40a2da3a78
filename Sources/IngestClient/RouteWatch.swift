// packet → [time] → socket

/// Since when there is no route to the receiver. **Units** Nanoseconds of the monotonic clock.
struct RouteWatch: Sendable {
    /// Without a route for so long the socket's own address may be gone.
    static let reconnectInterval: UInt64 = 3_000_000_000

    private var lostSince: UInt64?

    mutating func found() { lostSince = nil }

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
