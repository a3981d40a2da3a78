// packet → [transport] → socket
// The seam between senders and the network: Linux sockets in UDPTransport, a recorder in the tests.

/// Where finished datagrams go. A conformer keeps no reference to the bytes after `send` returns.
package protocol DatagramTransport: AnyObject, Sendable {
    /// Sends `bytes` as datagrams of `segmentByteCount` bytes each, the last possibly shorter.
    ///
    /// **Errors** `ClientError.notListening` if an earlier datagram was answered "port unreachable", and others of the
    /// network. Some of the datagrams, from the first one on, may have left then.
    func send(_ bytes: Span<UInt8>, segmentByteCount: Int) throws(ClientError)

    /// Throws what the network has answered to earlier datagrams, if it has answered anything.
    func checkAnswers() throws(ClientError)

    /// Chooses route and own address anew: those of the socket may be gone. Where there is none, each `send` throws an error
    /// that `isUnreachable` until this has been called again and has found one.
    func reconnect()
}

extension DatagramTransport {
    package func reconnect() {}
}
