// packet → decode → [ring] → admit → block → segment → compaction → snapshot → query

/// The writing end of a ring; owned by the receive queue.
///
///     claim → write the bytes → commit (or abort), again and again; then publish, once a batch
///
/// Giving the producer up closes the ring, if `close` has not.
///
/// `@unchecked Sendable`: it may move to another queue as a whole; `~Copyable` and `mutating` keep it in
/// one place.
@safe package struct RingProducer: ~Copyable, @unchecked Sendable {
    private let pages: RingPages
    private let words: RingWords
    private let slabByteCount: Int
    /// Slabs that hold nothing, the one that was given back last at the end.
    private var free: [UInt16]
    /// The slab that holds the end of the committed records, unless that is also the slab's end.
    private var slab: UnsafeMutableRawPointer
    /// Stretches from the first on whose slabs were given back.
    private var freedCount: UInt64 = 0

    /// End of the committed records.
    private var committed: UInt64 = 0
    /// The record being written: its start, its end (`committed` when there is none), and where it lies.
    private var begun: UInt64 = 0
    private var claimed: UInt64 = 0
    private var record: UnsafeMutableRawPointer
    /// `committed` as the consumer was last told.
    private var published: UInt64 = 0
    private var isClosed = false

    init(_ pages: RingPages) {
        self.pages = pages
        words = pages.words
        slabByteCount = pages.slabByteCount
        free = (0..<UInt16(pages.slabCount)).reversed()
        unsafe slab = pages.arena
        unsafe record = pages.arena
    }

    deinit { if !isClosed { Self.close(words, at: committed) } }

    /// Takes room for one record of exactly `byteCount` bytes, its header included, and writes the header.
    ///
    /// Returns the record's start: packet bytes go to `RingLayout.recordHeaderByteCount` on, rows
    /// to `RingLayout.rowOffset`. The place is 64-aligned and valid until `commit` or `abort`, one
    /// of which must follow. `nil`: the ring is full (an expected answer), or the record is larger than
    /// `RingLayout.recordByteCountMax`.
    ///
    /// `leaving` so many bytes free, the claim keeps room for a later record that must get through.
    ///
    /// **Cost** A few nanoseconds; loads the consumer's position where a slab is needed.
    package mutating func claim(
        _ header: RingRecordHeader, byteCount: Int, leaving reserveByteCount: Int = 0
    ) -> UnsafeMutableRawPointer? {
        precondition(
            claimed == committed && !isClosed, "claim follows commit or abort, before close")
        guard byteCount >= RingLayout.recordHeaderByteCount, byteCount <= slabByteCount else {
            return nil
        }
        let recordByteCount = RingLayout.recordByteCount(byteCount)
        let offset = Int(truncatingIfNeeded: committed) & (slabByteCount &- 1)
        let rest = offset == 0 ? 0 : slabByteCount &- offset
        if recordByteCount <= rest {
            let isEnough = rest &- recordByteCount >= reserveByteCount
            guard isEnough || !free.isEmpty || reclaim() > 0 else { return nil }
            begun = committed
            unsafe record = slab + offset
        } else {
            let isEnough = slabByteCount &- recordByteCount >= reserveByteCount
            // Also where some are free: the one that was given back last is in the cache.
            guard reclaim() >= (isEnough ? 1 : 2) else { return nil }
            if rest != 0 {
                unsafe store(
                    RingRecordHeader(kind: RingRecordKind.padding), at: slab + offset, rest)
            }
            begun = committed &+ UInt64(rest)
            unsafe record = pages.slab(free[free.count &- 1])
        }
        claimed = begun &+ UInt64(recordByteCount)
        unsafe store(header, at: record, recordByteCount)
        return unsafe record
    }

    /// Makes the claimed record part of what the next `publish` shows.
    package mutating func commit() {
        precondition(claimed != committed, "there is no claimed record")
        // A record is never the rest of a slab and the start of another.
        if begun & UInt64(slabByteCount &- 1) == 0 {
            unsafe slab = record
            pages.setSlab(free.removeLast(), at: begun)
        }
        committed = claimed
    }

    /// Gives the claimed record's room back.
    package mutating func abort() { claimed = committed }

    /// Shows every committed record to the consumer and wakes it if it sleeps. Without new records it
    /// does nothing.
    package mutating func publish() {
        guard committed != published else { return }
        published = committed
        words.publish(published)
        words.wakeConsumer()
    }

    /// Publishes, and says that no record will follow: the consumer's wait answers `closed` once it has
    /// read all.
    package mutating func close() {
        guard !isClosed else { return }
        isClosed = true
        Self.close(words, at: committed)
    }

    private static func close(_ words: RingWords, at position: UInt64) {
        words.publish(position)
        words.close()
        words.wakeConsumer()
    }

    /// Bytes of the arena that hold records not yet released.
    package func usedByteCount() -> Int {
        Int(truncatingIfNeeded: committed &- words.loadReleased())
    }

    /// Takes back the slabs of which the consumer has released all.
    /// - Returns: how many are free.
    @inline(never)
    private mutating func reclaim() -> Int {
        let end = words.loadReleased() / UInt64(slabByteCount)
        while freedCount < end {
            free.append(pages.slabNumber(at: freedCount &* UInt64(slabByteCount)))
            freedCount &+= 1
        }
        return free.count
    }

    private func store(
        _ header: RingRecordHeader, at place: UnsafeMutableRawPointer, _ byteCount: Int
    ) {
        var header = header
        header.byteCount = UInt32(truncatingIfNeeded: byteCount)
        // SAFETY: the caller has checked that the byteCount ≥ 64 bytes from there on are free and inside their slab.
        unsafe place.storeBytes(of: header, as: RingRecordHeader.self)
    }
}
