// events → [send] → encode → packet → socket

extension EventSender {
    /// What has become of the events so far, or at `close`.
    public struct Totals: Equatable, Sendable {
        /// Events in packets that the socket took.
        public internal(set) var eventsSent: UInt64 = 0
        /// Packets of these events; heartbeats and resends are not among them.
        public internal(set) var packetsSent: UInt64 = 0
        /// Events that the receiver has on disk. With a spool also those of an earlier start.
        public internal(set) var eventsAcked: UInt64 = 0
        /// Packets that were sent again, each time.
        public internal(set) var packetsResent: UInt64 = 0
        /// Events that were refused before they were sent.
        public internal(set) var eventsRefused: UInt64 = 0
        /// Since the sender was opened.
        public internal(set) var elapsed = Duration.zero

        package init() {}
    }

    /// What became of one event.
    public enum Outcome: Equatable, Sendable {
        case taken
        /// As much is unacked as may be, or the spool's disk is full. The event was not taken: give it again after an ack.
        case full
        /// It breaks a bound, and nothing was sent of it; the others are not affected.
        case refused(EventRefusal)
    }

    /// How a sender fares.
    public enum State: Equatable, Sendable {
        case working
        /// Packets wait in vain for the moment, and why. It may end by itself.
        case waiting(ClientError)
        /// It does nothing any more, and throws this.
        case ended(ClientError)
    }
}
