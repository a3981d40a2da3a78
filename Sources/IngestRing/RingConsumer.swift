// packet → decode → [ring] → admit → block → segment → compaction → snapshot → query
import CIngestLinux

/// One record as the consumer sees it: valid until `RingConsumer.release`.
@safe package struct RingRecord: BitwiseCopyable {
    package let header: RingRecordHeader
    /// The packet's bytes, `header.packetByteCount` of them; 64-aligned.
    package let packet: UnsafeRawPointer
    /// The rows, `header.eventCount` of them, and what belongs to them, up to `header.byteCount`; 8-aligned.
    package let rows: UnsafeRawPointer
}

/// The reading end of a ring; owned by the commit queue.
///
///     wait → peek, advance (or next), again and again; then release, once a batch
///
/// `@unchecked Sendable`: it may move to another queue as a whole; `~Copyable` and `mutating` keep it in
/// one place.
@safe package struct RingConsumer: ~Copyable, @unchecked Sendable {
    private let pages: RingPages
    private let words: RingWords
    private let slabByteCount: Int
    /// The slab that holds the end of the records read.
    private var slab: UnsafeMutableRawPointer

    /// End of the records read.
    private var consumed: UInt64 = 0
    /// `consumed` as the producer was last told.
    private var released: UInt64 = 0
    /// The producer's position as last loaded: at or below the true one, so what is there by it is there.
    private var published: UInt64 = 0

    init(_ pages: RingPages) {
        self.pages = pages
        words = pages.words
        slabByteCount = pages.slabByteCount
        unsafe slab = pages.arena
    }

    /// The next record, left in its place; `nil` when there is none (an expected answer).
    ///
    /// **Cost** A few nanoseconds; loads the producer's position only when its copy says empty.
    package mutating func peek() -> RingRecord? {
        guard hasRecord() else { return nil }
        var place = unsafe place()
        // SAFETY: records start at multiples of 64 and lie wholly inside their slab; those below
        // `published` were written before it was stored. A padding record is never the last one.
        var header = unsafe place.load(as: RingRecordHeader.self)
        if header.kind == RingRecordKind.padding {
            consumed &+= UInt64(header.byteCount)
            unsafe place = self.place()
            unsafe header = place.load(as: RingRecordHeader.self)
        }
        let rowOffset = RingLayout.rowOffset(packetByteCount: Int(header.packetByteCount))
        return unsafe RingRecord(
            header: header,
            packet: UnsafeRawPointer(place + RingLayout.recordHeaderByteCount),
            rows: UnsafeRawPointer(place + rowOffset))
    }

    /// Where the next record lies, or the padding before it.
    private mutating func place() -> UnsafeMutableRawPointer {
        let offset = Int(truncatingIfNeeded: consumed) & (slabByteCount &- 1)
        // What was published tells of its slab too.
        if offset == 0 { unsafe slab = pages.slab(at: consumed) }
        return unsafe slab + offset
    }

    /// Goes past a record that `peek` has just returned. Its bytes stay valid until `release`.
    package mutating func advance(past record: RingRecord) {
        consumed &+= UInt64(record.header.byteCount)
    }

    /// `peek` and `advance` in one.
    package mutating func next() -> RingRecord? {
        guard let record = peek() else { return nil }
        advance(past: record)
        return record
    }

    /// Gives the records that `next` will give, so many at most, and leaves them in their place.
    @inline(__always)
    package mutating func lookAhead(_ countMax: Int, _ body: (RingRecord) -> Void) {
        let (consumed, slab) = unsafe (consumed, slab)
        var count = 0
        while count < countMax, let record = next() {
            prefetchLater(record)
            body(record)
            count += 1
        }
        unsafe (self.consumed, self.slab) = (consumed, slab)
    }

    /// Starts the load of head and rows of the record `prefetchDistance` places behind one that was just read, where it
    /// lies if all are as long as that. Where a record begins is known from the one before it only, so that the misses,
    /// in lines that another core wrote, would come one after the other (docs/decisions/0041). A wrong guess costs time.
    @inline(__always)
    private func prefetchLater(_ record: RingRecord) {
        let byteCount = Int(record.header.byteCount)
        let distance = byteCount &* Self.prefetchDistance
        let end = Int(truncatingIfNeeded: consumed) & (slabByteCount &- 1)
        // The record ended there, so it began in the slab; 0 is the end of one.
        guard end != 0, end &+ distance <= slabByteCount,
            consumed &+ UInt64(distance) <= published
        else { return }
        let rowOffset = RingLayout.rowOffset(packetByteCount: Int(record.header.packetByteCount))
        // SAFETY: these bytes are inside the slab, and a prefetch reads nothing.
        let head = unsafe slab + (end &+ distance &- byteCount)
        unsafe ingest_prefetch(head)
        for offset in stride(from: rowOffset, to: byteCount, by: 64) {
            unsafe ingest_prefetch(head + offset)
        }
    }

    /// In records, from the one that was read.
    private static var prefetchDistance: Int { 4 }

    /// Gives the bytes of all records read back to the producer: no `RingRecord` from before may be used
    /// after. Call it once a batch.
    package mutating func release() {
        guard consumed != released else { return }
        released = consumed
        words.release(released)
    }

    /// Bytes of the arena with records that were published and not read yet.
    ///
    /// **Cost** Loads the producer's position.
    package mutating func waitingByteCount() -> Int {
        published = words.loadPublished()
        return Int(truncatingIfNeeded: published &- consumed)
    }

    /// Sleeps until there is a record, a waker calls, the ring is closed, or nothing of these came for so
    /// long. Does not spin; what was read should be released before.
    ///
    /// **Cost** Answers without a system call if there is something to do already.
    package mutating func wait(timeoutNanoseconds: UInt64) -> RingWait {
        if let found = look() { return found }
        guard timeoutNanoseconds > 0 else { return .timedOut }
        repeat {
            words.setSleeping()
            if let found = look() {
                words.clearSleeping()
                return found
            }
            // A wake-up may be for a change that was seen before, without sleeping: then sleep on.
        } while words.sleep(timeoutNanoseconds: timeoutNanoseconds)
        words.clearSleeping()
        return look() ?? .timedOut
    }

    /// A handle with which other queues can end a wait of this consumer.
    package func waker() -> RingWaker { RingWaker(pages) }

    private mutating func hasRecord() -> Bool {
        if consumed != published { return true }
        published = words.loadPublished()
        return consumed != published
    }

    /// What there is to do, if anything. Closed is loaded before published: see `RingWords.isClosed`.
    private mutating func look() -> RingWait? {
        let isClosed = words.isClosed()
        if hasRecord() { return .records }
        if words.takeWakeRequest() { return .woken }
        return isClosed ? .closed : nil
    }
}
