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
    private let arena: UnsafeMutableRawPointer
    private let arenaByteCount: Int

    /// End of the committed records.
    private var committed: UInt64 = 0
    /// End of the record being written; `committed` when there is none.
    private var claimed: UInt64 = 0
    /// `committed` as the consumer was last told.
    private var published: UInt64 = 0
    /// The consumer's position as last loaded: at or below the true one, so what is free by it is free.
    private var released: UInt64 = 0
    private var isClosed = false

    init(_ pages: RingPages) {
        self.pages = pages
        words = pages.words
        unsafe arena = pages.arena
        arenaByteCount = pages.arenaByteCount
    }

    deinit { if !isClosed { Self.close(words, at: committed) } }

    /// Takes room for one record of exactly `byteCount` bytes, its header included, and writes the header.
    ///
    /// Returns the record's start: packet bytes go to `RingLayout.recordHeaderByteCount` on, descriptors
    /// to `RingLayout.descriptorOffset`. The place is 64-aligned and valid until `commit` or `abort`, one
    /// of which must follow. `nil`: the ring is full (an expected answer), or the record is larger than
    /// `RingLayout.recordByteCountMax`.
    ///
    /// `leaving` so many bytes free, the claim keeps room for a later record that must get through.
    ///
    /// **Cost** A few nanoseconds; loads the consumer's position only when its copy says full.
    package mutating func claim(
        _ header: RingRecordHeader, byteCount: Int, leaving reserveByteCount: Int = 0
    ) -> UnsafeMutableRawPointer? {
        precondition(
            claimed == committed && !isClosed, "claim follows commit or abort, before close")
        guard byteCount >= RingLayout.recordHeaderByteCount,
            byteCount <= RingLayout.recordByteCountMax(arenaByteCount: arenaByteCount)
        else { return nil }
        let recordByteCount = RingLayout.recordByteCount(byteCount)
        let offset = Int(truncatingIfNeeded: committed) & (arenaByteCount &- 1)
        let toEnd = arenaByteCount &- offset
        let padding = recordByteCount <= toEnd ? 0 : toEnd
        guard hasRoom(padding &+ recordByteCount &+ reserveByteCount) else { return nil }
        if padding != 0 { store(RingRecordHeader(kind: RingRecordKind.padding), offset, padding) }
        let recordOffset = padding == 0 ? offset : 0
        store(header, recordOffset, recordByteCount)
        claimed = committed &+ UInt64(padding &+ recordByteCount)
        return unsafe arena + recordOffset
    }

    /// Makes the claimed record part of what the next `publish` shows.
    package mutating func commit() {
        precondition(claimed != committed, "there is no claimed record")
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
    package mutating func usedByteCount() -> Int {
        released = words.loadReleased()
        return Int(truncatingIfNeeded: committed &- released)
    }

    private mutating func hasRoom(_ byteCount: Int) -> Bool {
        if freeByteCount >= byteCount { return true }
        released = words.loadReleased()
        return freeByteCount >= byteCount
    }

    private var freeByteCount: Int {
        arenaByteCount &- Int(truncatingIfNeeded: committed &- released)
    }

    private func store(_ header: RingRecordHeader, _ offset: Int, _ byteCount: Int) {
        var header = header
        header.byteCount = UInt32(truncatingIfNeeded: byteCount)
        // SAFETY: offset is a multiple of 64 below arenaByteCount, and the caller has checked that the
        // byteCount ≥ 64 bytes from there on are free and inside the arena.
        unsafe (arena + offset).storeBytes(of: header, as: RingRecordHeader.self)
    }
}
