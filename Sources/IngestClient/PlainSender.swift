// JSON lines → [pack] → datagram → socket

import IngestFormat

/// Sends JSON events as they are, several lines to a plain datagram. No sequence, no epoch: what is lost
/// on the way is known to nobody. For receivers and networks that framed packets cannot reach, and to
/// test a daemon with what its oldest clients send.
///
/// A line is checked before it is packed, so that a bad one is refused here, with its number, and not
/// silently at the receiver. Its bytes are not changed.
///
/// **Layout** Lines joined by one newline, none at the end; up to `datagramByteCountMax` bytes, except
/// that a single longer line travels alone (and is cut into IP fragments on the way).
///
/// Owned by one thread.
///
/// **Cost** One datagram and the parser's copy of a line; one system call a datagram.
package final class PlainSender {
    package private(set) var totals = EventSender.Totals()
    private let datagramByteCountMax: Int
    private let transport: any DatagramTransport
    private var parser = EventLineParser()
    private var datagram: [UInt8] = []
    private var eventCount: UInt64 = 0

    package init(transport: any DatagramTransport, datagramByteCountMax: Int) {
        precondition((1...Limits.packetByteCountMax).contains(datagramByteCountMax))
        self.transport = transport
        self.datagramByteCountMax = datagramByteCountMax
        datagram.reserveCapacity(Limits.packetByteCountMax)
    }

    /// Takes one JSON event, without its line end.
    ///
    /// - Parameter note: means nothing here, for plain datagrams are kept nowhere.
    /// - Returns: `nil` if it was taken, or why it was refused; a refusal costs only this event.
    package func send(
        jsonLine line: Span<UInt8>, note: SpoolNote = SpoolNote()
    ) throws(ClientError) -> EventRefusal? {
        if let refusal = parser.parse(line) {
            totals.eventsRefused += 1
            return refusal
        }
        // The first byte of a datagram tells a JSON one: leading white space goes.
        let event = line.extracting(leadingSpaceCount(line)..<line.count)
        if !datagram.isEmpty, datagram.count + 1 + event.count > datagramByteCountMax {
            try flush()
        }
        if !datagram.isEmpty { datagram.append(UInt8(ascii: "\n")) }
        for i in event.indices { datagram.append(event[i]) }
        eventCount += 1
        return nil
    }

    /// Sends the datagram in progress.
    package func flush() throws(ClientError) {
        guard !datagram.isEmpty else { return }
        do {
            // A local name: a span cannot look into a property of a class.
            let datagram = datagram
            try transport.send(datagram.span, segmentByteCount: datagram.count)
        }
        totals.eventsSent += eventCount
        totals.packetsSent += 1
        datagram.removeAll(keepingCapacity: true)
        eventCount = 0
    }

    /// - Parameter limit: nothing is waited for.
    package func close(
        within limit: Duration? = nil, note: SpoolNote = SpoolNote()
    ) throws(ClientError) -> EventSender.Totals {
        try flush()
        try transport.checkAnswers()
        return totals
    }
}

private func leadingSpaceCount(_ line: Span<UInt8>) -> Int {
    var count = 0
    while count < line.count, isSpace(line[count]) { count += 1 }
    return count
}

/// White space of JSON.
package func isSpace(_ byte: UInt8) -> Bool {
    byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
}
