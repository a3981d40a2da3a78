// packet → decode → [ring] → admit → block → segment → compaction → snapshot → query

/// The single-producer single-consumer byte ring between the receive queue and the commit queue.
///
/// `make` hands out its two ends, once; each is owned by one queue and cannot be copied, so that the
/// compiler holds "single". The memory lives as long as an end or a waker does.
///
/// **Cost** One store a batch on either side; each side keeps a copy of the other's position and loads it
/// again only when the ring looks full (or empty) by the copy.
package enum EventRing {
    /// The two ends of one ring.
    @frozen package struct Ends: ~Copyable {
        package var producer: RingProducer
        package var consumer: RingConsumer
    }

    /// A new ring with an arena of `byteCount` bytes: a power of two within
    /// `RingLayout.arenaByteCountMin ... arenaByteCountMax`. `nil` when that much memory is not there.
    package static func make(byteCount: Int) -> Ends? {
        precondition(
            byteCount >= RingLayout.arenaByteCountMin && byteCount <= RingLayout.arenaByteCountMax
                && byteCount & (byteCount - 1) == 0,
            "the size of a ring is a power of two within RingLayout's bounds")
        guard let pages = RingPages(arenaByteCount: byteCount) else { return nil }
        return Ends(producer: RingProducer(pages), consumer: RingConsumer(pages))
    }
}

/// What ended a consumer's wait.
package enum RingWait: Sendable {
    /// There is a record to read.
    case records
    /// A `RingWaker` asked for attention; there is no record.
    case woken
    /// Nothing happened in the time given.
    case timedOut
    /// The producer has closed the ring and every record has been read.
    case closed
}

/// Lets another queue end the consumer's wait, e.g. when a sync has finished. May be copied freely.
package struct RingWaker: Sendable {
    private let pages: RingPages

    init(_ pages: RingPages) { self.pages = pages }

    /// Makes the consumer's present wait, or its next one, return. Never lost; several may count as one.
    ///
    /// **Cost** Two uncontended atomic operations; a system call only if the consumer sleeps.
    package func wake() {
        pages.words.requestWake()
        pages.words.wakeConsumer()
    }
}
