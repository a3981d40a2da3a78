// packet → [transport] → socket
// The seam between senders and the network: Linux sockets in UDPTransport, a recorder in the tests.

/// Where finished datagrams go. A conformer keeps no reference to the bytes after `send` returns.
package protocol DatagramTransport: AnyObject, Sendable {
    /// Sends `bytes` as datagrams of `segmentByteCount` bytes each, the last possibly shorter.
    ///
    /// **Errors** `ClientError.notListening` if an earlier datagram was answered "port unreachable";
    /// none of these bytes was sent then.
    func send(_ bytes: Span<UInt8>, segmentByteCount: Int) throws(ClientError)

    /// Throws what the network has answered to earlier datagrams, if it has answered anything.
    func checkAnswers() throws(ClientError)
}
