// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import IngestFormat

/// What lies in a `ChainTable`.
protocol ChainEntry: BitwiseCopyable {
    /// What the entry is found by.
    var identity: UInt64 { get }
    /// The next entry of the same bucket; the table's to set.
    var link: UInt32 { get set }
}

/// A hash table whose entries stay where they are and can be taken out. Owned by one stage.
///
/// **Layout** `heads` leads to the first entry of a bucket, `link` of each to the next; entry 0 is none. There is a bucket an
/// entry: with each that is added one bucket is split, so that the table grows without a pause. Entries that were taken out
/// are used first.
///
/// **Cost** 4 bytes an entry and its own. Two misses a find, which `prefetchHead` and `prefetchEntry` hide. Memory is kept.
@safe struct ChainTable<Entry: ChainEntry>: ~Copyable {
    /// Entries now.
    private(set) var count = 0
    private var entryMemory = LineMemory<Entry>(capacity: 1 << 12)
    private var headMemory = LineMemory<UInt32>(capacity: leastBucketCount)
    private var usedCount = 1
    /// Of a chain by `link`; 0 = none.
    private var firstFree: UInt32 = 0
    private var bucketCount = leastBucketCount
    /// Below twice the power of two of which there are buckets at least.
    private var mask = UInt64(leastBucketCount * 2 - 1)
    private let seed = UInt64.random(in: 0...UInt64.max)
    private static var leastBucketCount: Int { 1 << 10 }

    init() {
        // SAFETY: there is room for as many.
        unsafe headMemory.base.update(repeating: 0, count: bucketCount)
    }

    private var heads: UnsafeMutablePointer<UInt32> { unsafe headMemory.base }

    /// An entry that `find` or `insert` gave. Valid until the next insert.
    @inline(__always)
    func entry(_ number: UInt32) -> UnsafeMutablePointer<Entry> {
        precondition(number > 0 && number < usedCount)
        // SAFETY: there are so many entries.
        return unsafe entryMemory.base + Int(number)
    }

    @inline(__always)
    private func bucket(_ identity: UInt64) -> Int {
        let hash = SplitMix.finish(identity ^ seed)
        let bucket = Int(truncatingIfNeeded: hash & mask)
        return bucket < bucketCount ? bucket : Int(truncatingIfNeeded: hash & mask >> 1)
    }

    /// Starts the load of what leads to an entry.
    @inline(__always)
    func prefetchHead(_ identity: UInt64) {
        // SAFETY: a bucket is below bucketCount; a prefetch reads nothing.
        unsafe ingest_prefetch(heads + bucket(identity))
    }

    /// Starts the load of an entry, once what leads to it is there.
    @inline(__always)
    func prefetchEntry(_ identity: UInt64) {
        // SAFETY: heads lead to entries.
        unsafe ingest_prefetch(entryMemory.base + Int(heads[bucket(identity)]))
    }

    /// The number of an entry; 0 if it is not there.
    @inline(__always)
    func find(_ identity: UInt64) -> UInt32 {
        // SAFETY: heads and links lead to entries or are 0, where a chain ends.
        var number = unsafe heads[bucket(identity)]
        while number != 0, unsafe entryMemory.base[Int(number)].identity != identity {
            number = unsafe entryMemory.base[Int(number)].link
        }
        return number
    }

    /// Adds an entry that is not there; `Limits` hold the count of entries below 2^31.
    mutating func insert(_ entry: Entry) -> UInt32 {
        if count >= bucketCount { split() }
        let number: UInt32
        if firstFree != 0 {
            number = firstFree
            firstFree = unsafe entryMemory.base[Int(number)].link
        } else {
            entryMemory.reserve(usedCount + 1, keeping: usedCount)
            number = UInt32(usedCount)
            usedCount += 1
        }
        var entry = entry
        let bucket = bucket(entry.identity)
        // SAFETY: the number is one of ours, for which there is room.
        entry.link = unsafe heads[bucket]
        unsafe entryMemory.base[Int(number)] = entry
        unsafe heads[bucket] = number
        count += 1
        return number
    }

    /// Takes an entry out.
    mutating func remove(_ number: UInt32) {
        let bucket = bucket(unsafe entry(number).pointee.identity)
        let next = unsafe entry(number).pointee.link
        // SAFETY: the entry is in the chain of its bucket, so the walk comes to it.
        if unsafe heads[bucket] == number {
            unsafe heads[bucket] = next
        } else {
            var before = unsafe entry(heads[bucket])
            while unsafe before.pointee.link != number {
                unsafe before = entry(before.pointee.link)
            }
            unsafe before.pointee.link = next
        }
        unsafe entry(number).pointee.link = firstFree
        firstFree = number
        count -= 1
    }

    /// Moves the entries of one bucket that belong to a new one.
    private mutating func split() {
        headMemory.reserve(bucketCount + 1, keeping: bucketCount)
        let old = bucketCount & Int(mask >> 1)
        var number = unsafe heads[old]
        // SAFETY: there is room for one bucket more; chains are as in `find`.
        unsafe heads[old] = 0
        unsafe heads[bucketCount] = 0
        bucketCount += 1
        if bucketCount > Int(mask) { mask = mask << 1 | 1 }
        while number != 0 {
            let entry = unsafe entryMemory.base + Int(number)
            let (next, bucket) = unsafe (entry.pointee.link, bucket(entry.pointee.identity))
            unsafe entry.pointee.link = heads[bucket]
            unsafe heads[bucket] = number
            number = next
        }
    }
}
