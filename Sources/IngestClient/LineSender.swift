// JSON lines → [send] → encode → packet → socket

/// What `ingest-send` needs of a sender, framed or plain.
package protocol LineSender: AnyObject {
    /// Takes one JSON event, and waits for room; `nil`, or why this one was refused.
    ///
    /// - Parameter note: how far the input was read with it, for a spool.
    func send(jsonLine: Span<UInt8>, note: SpoolNote) throws(ClientError) -> EventRefusal?
    /// Sends what is waiting.
    func flush() throws(ClientError)
    /// Sends what is waiting and ends, with acks when all is acked.
    ///
    /// - Parameter note: of the whole input, for a spool.
    func close(within limit: Duration?, note: SpoolNote) throws(ClientError) -> EventSender.Totals
    /// What has left so far.
    var totals: EventSender.Totals { get }
    /// Whether it throws its last error for ever.
    var hasEnded: Bool { get }
}

extension EventSender: LineSender {
    package var hasEnded: Bool {
        if case .ended = state { true } else { false }
    }
}

extension PlainSender: LineSender {
    package var hasEnded: Bool { false }
}
