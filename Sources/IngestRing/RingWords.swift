// packet → decode → [ring] → admit → block → segment → compaction → snapshot → query
import CIngestLinux
import Synchronization

/// The atomic words that the ring's ends share, and every operation on them: all orderings of the ring
/// stand on this page, each beside its partner.
///
/// Sleeping is Dekker's pattern. The consumer stores `sleeping`, then loads what it waits for; the thread that
/// changes that stores the change, then loads `sleeping`. These four are sequentially consistent: in the
/// one order that all threads see, either the consumer's load comes after the change (it does not sleep)
/// or the other's load comes after `sleeping` was set (it wakes). No wake-up is lost, and no side pays
/// for a system call while the other is awake.
@safe struct RingWords: BitwiseCopyable {
    private let published: UnsafeMutablePointer<Atomic<UInt64>>
    private let released: UnsafeMutablePointer<Atomic<UInt64>>
    private let sleeping: UnsafeMutablePointer<Atomic<UInt32>>
    private let wakeRequested: UnsafeMutablePointer<Atomic<Bool>>
    private let closed: UnsafeMutablePointer<Atomic<Bool>>

    /// `pages`: the start of a ring's memory, zeroed.
    init(pages: UnsafeMutableRawPointer) {
        unsafe published = Self.word(pages, RingLayout.publishedOffset, Atomic(0))
        unsafe released = Self.word(pages, RingLayout.releasedOffset, Atomic(0))
        unsafe sleeping = Self.word(pages, RingLayout.sleepingOffset, Atomic(0))
        unsafe wakeRequested = Self.word(pages, RingLayout.wakeRequestedOffset, Atomic(false))
        unsafe closed = Self.word(pages, RingLayout.closedOffset, Atomic(false))
    }

    private static func word<Value: ~Copyable>(
        _ pages: UnsafeMutableRawPointer, _ offset: Int, _ value: consuming Value
    ) -> UnsafeMutablePointer<Value> {
        // SAFETY: each offset of RingLayout is a multiple of its word's alignment and lies below
        // arenaOffset, no two words overlap, and each is bound and initialised once, here.
        let word = unsafe (pages + offset).bindMemory(to: Value.self, capacity: 1)
        unsafe word.initialize(to: value)
        return unsafe word
    }

    // SAFETY: in all that follows the pointers are to words initialised above, within memory that the
    // RingPages holds whose `words` these are.

    // MARK: Positions

    /// Releasing, partner: `loadPublished` (what the producer wrote is seen by who sees the position);
    /// sequentially consistent, partner: `setSleeping` (see above).
    func publish(_ position: UInt64) {
        unsafe published.pointee.store(position, ordering: .sequentiallyConsistent)
    }

    /// Acquiring, partner: `publish`; sequentially consistent, for the look after `setSleeping`. On
    /// x86-64 and arm64 this load costs what an acquiring one does.
    func loadPublished() -> UInt64 {
        unsafe published.pointee.load(ordering: .sequentiallyConsistent)
    }

    /// Releasing, partner: `loadReleased` (the consumer's reads are over before the bytes are reused).
    func release(_ position: UInt64) {
        unsafe released.pointee.store(position, ordering: .releasing)
    }

    /// Acquiring, partner: `release`.
    func loadReleased() -> UInt64 { unsafe released.pointee.load(ordering: .acquiring) }

    // MARK: Waiting

    /// Sequentially consistent, partner: the load in `wakeConsumer`.
    func setSleeping() { unsafe sleeping.pointee.store(1, ordering: .sequentiallyConsistent) }

    /// Relaxed: a waker that still sees the old value makes one system call too many.
    func clearSleeping() { unsafe sleeping.pointee.store(0, ordering: .relaxed) }

    /// Sleeps until `wakeConsumer` (or a signal), at once awake if `sleeping` is no longer set. `false`
    /// once the time is up.
    func sleep(timeoutNanoseconds: UInt64) -> Bool {
        unsafe !ingest_futex_wait(
            UnsafeMutableRawPointer(sleeping).assumingMemoryBound(to: UInt32.self), 1,
            timeoutNanoseconds)
    }

    /// Wakes the consumer if it sleeps; called after the change that it waits for was stored.
    func wakeConsumer() {
        // Sequentially consistent, partner: `setSleeping`.
        guard unsafe sleeping.pointee.load(ordering: .sequentiallyConsistent) != 0 else { return }
        // Cleared by who wakes, so that the changes until the consumer runs cost no further system
        // calls. Relaxed: the kernel orders the wake-up, and the loser of a race has nothing to do.
        guard unsafe sleeping.pointee.exchange(0, ordering: .relaxed) != 0 else { return }
        unsafe ingest_futex_wake(
            UnsafeMutableRawPointer(sleeping).assumingMemoryBound(to: UInt32.self))
    }

    /// Sequentially consistent, partners: `takeWakeRequest` and `setSleeping`.
    func requestWake() {
        unsafe wakeRequested.pointee.store(true, ordering: .sequentiallyConsistent)
    }

    /// Sequentially consistent, partner: `requestWake`. What a waker wrote before is seen after.
    func takeWakeRequest() -> Bool {
        guard unsafe wakeRequested.pointee.load(ordering: .sequentiallyConsistent) else {
            return false
        }
        return unsafe wakeRequested.pointee.exchange(false, ordering: .sequentiallyConsistent)
    }

    // MARK: Closing

    /// Sequentially consistent, partners: `isClosed` and `setSleeping`. The last records are published
    /// before.
    func close() { unsafe closed.pointee.store(true, ordering: .sequentiallyConsistent) }

    /// Sequentially consistent, partner: `close`. Loaded *before* the published position, so that
    /// "closed and nothing to read" is never said with a record still to come.
    func isClosed() -> Bool { unsafe closed.pointee.load(ordering: .sequentiallyConsistent) }
}

/// Holds a ring's memory; it is given back when the last end or waker is gone.
///
/// `@unchecked Sendable`: every word that both sides touch is atomic (`RingWords`), and a byte of the
/// arena, and of `order`, is written only by the producer before the store that publishes it, and read by the
/// consumer only before the store that releases it.
@safe final class RingPages: @unchecked Sendable {
    let words: RingWords
    let arena: UnsafeMutableRawPointer
    let slabByteCount: Int
    let slabCount: Int
    private let order: UnsafeMutablePointer<UInt16>
    private let pages: UnsafeMutableRawPointer
    private let arenaByteCount: Int

    init?(arenaByteCount: Int, slabByteCount: Int) {
        guard let pages = unsafe ingest_pages_map(RingLayout.arenaOffset + arenaByteCount) else {
            return nil
        }
        // SAFETY: the mapping is arenaOffset + arenaByteCount zeroed bytes, aligned to 2 MiB.
        unsafe self.pages = pages
        unsafe words = RingWords(pages: pages)
        unsafe arena = pages + RingLayout.arenaOffset
        self.arenaByteCount = arenaByteCount
        self.slabByteCount = slabByteCount
        slabCount = arenaByteCount / slabByteCount
        // SAFETY: `orderOffset` is even, and the control page has room for the slabs of the largest arena.
        unsafe order = (pages + RingLayout.orderOffset)
            .bindMemory(to: UInt16.self, capacity: slabCount)
        unsafe order.initialize(repeating: 0, count: slabCount)
    }

    /// The slab in which a position lies, of a stretch that was begun and is not released.
    func slab(at position: UInt64) -> UnsafeMutableRawPointer {
        unsafe slab(slabNumber(at: position))
    }

    /// - Parameter number: below `slabCount`.
    func slab(_ number: UInt16) -> UnsafeMutableRawPointer {
        unsafe arena + Int(number) &* slabByteCount
    }

    // SAFETY: in the two below the place is below `slabCount`.

    /// By the producer also of a stretch that is released, until another takes its place.
    func slabNumber(at position: UInt64) -> UInt16 { unsafe order[place(of: position)] }

    /// Says in which slab the stretch lies that begins at a position.
    func setSlab(_ number: UInt16, at position: UInt64) {
        unsafe order[place(of: position)] = number
    }

    private func place(of position: UInt64) -> Int {
        Int(truncatingIfNeeded: position / UInt64(slabByteCount)) & (slabCount &- 1)
    }

    deinit { unsafe ingest_pages_unmap(pages, RingLayout.arenaOffset + arenaByteCount) }
}

/// The single-producer single-consumer byte ring between the receive queue and the commit queue.
///
/// `make` hands out its two ends, once; each is owned by one queue and cannot be copied, so that the
/// compiler holds "single". The memory lives as long as an end or a waker does.
///
/// **Cost** One store a batch on either side; the consumer loads the producer's position when there is nothing by the
/// copy that it keeps, the producer the consumer's when it needs a slab.
package enum EventRing {
    /// The two ends of one ring.
    @frozen package struct Ends: ~Copyable {
        package var producer: RingProducer
        package var consumer: RingConsumer
    }

    /// A new ring with an arena of `byteCount` bytes: a power of two within
    /// `RingLayout.arenaByteCountMin ... arenaByteCountMax`. `nil` when that much memory is not there.
    ///
    /// - Parameter slabByteCount: a power of two, at most what `recordByteCountMax` says, which is the default; of at
    ///   most 1,024 slabs.
    package static func make(byteCount: Int, slabByteCount: Int? = nil) -> Ends? {
        precondition(
            byteCount >= RingLayout.arenaByteCountMin && byteCount <= RingLayout.arenaByteCountMax
                && byteCount & (byteCount - 1) == 0,
            "the size of a ring is a power of two within RingLayout's bounds")
        let greatest = RingLayout.recordByteCountMax(arenaByteCount: byteCount)
        let slabByteCount = slabByteCount ?? greatest
        precondition(
            slabByteCount >= RingLayout.recordAlignment && slabByteCount <= greatest
                && slabByteCount & (slabByteCount - 1) == 0
                && byteCount / slabByteCount <= RingLayout.slabCountMax,
            "the size of a slab is a power of two within RingLayout's bounds")
        guard let pages = RingPages(arenaByteCount: byteCount, slabByteCount: slabByteCount) else {
            return nil
        }
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
