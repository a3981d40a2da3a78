// JSON lines → [send] → encode → packet → socket

/// What `ingest-send` needs of a sender, framed or plain.
package protocol LineSender: AnyObject {
    /// Takes one JSON event; `nil`, or why this one was refused.
    func send(jsonLine: Span<UInt8>) throws(ClientError) -> EventRefusal?
    /// Sends what is waiting.
    func flush() throws(ClientError)
    /// Sends what is waiting and ends; what has left, all told.
    func close() throws(ClientError) -> EventSender.Result
    /// What has left so far.
    var result: EventSender.Result { get }
}

extension EventSender: LineSender {}
extension PlainSender: LineSender {}
