// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestRules

/// The ids that were counted: tells a first event from its repeats. Owned by the commit queue; rebuilt at start from
/// the id columns of the log.
///
/// **Layout** Cache lines of 8 slots of 8 bytes, each a claim: part of the keyed hash of (business, event id), 16 bits of
/// the event's payload, the generation it was claimed in (`DedupTable`, `DedupGenerations`). A claim that is too
/// old is a free slot without being touched. From half full on a line is added for every second claim, eight at a time,
/// until there are twice as many, up to what `keyCountMax` needs; once there are more keys, the oldest generation goes.
///
/// **Units** 16–21 bytes a key while it grows; with `keyCountMax` keys, 11 or 12 (0.74 GB for 2^26, 1.07 for 100
/// million).
///
/// **Exactness** Two different ids are taken for one where the known bits of their hashes are equal: 56, with
/// the smallest table of 2^20 lines. Among 100 million keys that is one in 700 million look-ups of new ids, nearly always
/// seen as a conflict, since their payloads differ.
///
/// **Cost** One miss a look-up, which a `prefetch` ahead hides; one line more for a key in twenty.
@safe package struct DedupIndex: ~Copyable {
    package enum Answer: Equatable, Sendable {
        /// It was not there, and is claimed now.
        case first
        /// The same id with the same payload.
        case duplicate
        /// The same id with another payload.
        case conflict
    }

    private var generations: DedupGenerations
    private var table: DedupTable
    /// With how many keys there is to be one line more.
    private var growsAt: Int
    private var sweep = Sweep()
    /// Blocks that had to wait until all of the table was swept: none, as long as claims sweep a line each.
    package private(set) var wholeSweepCount = 0

    /// Keys a line at which the table begins to grow.
    private static let keysPerLine = DedupTable.slotCount / 2
    /// Claims for each line that is added: the lines that are split last have 6 keys by then, three quarters of their slots.
    private static let claimsPerLine = 2
    /// Lines that are added at once: neighbours, so that a CPU loads them ahead.
    private static let linesPerGrowth = 8
    private static let idleLineCount = 64

    /// - Parameters:
    ///   - keyCountMax: claims kept at most, ≥ 1.
    ///   - windowMicroseconds: how long a claim holds, > 0.
    ///   - leastBitCount: of the number of lines at first, 4 … 28.
    package init(keyCountMax: Int, windowMicroseconds: Int64, leastBitCount: Int = 20) {
        precondition(keyCountMax > 0 && windowMicroseconds > 0)
        precondition((4...28).contains(leastBitCount))
        generations = DedupGenerations(
            keyCountMax: keyCountMax, windowMicroseconds: windowMicroseconds)
        // Three quarters of the slots are enough for all keys; there are eight groups at least.
        let lineCount = (keyCountMax - 1) / (DedupTable.slotCount * 3 / 4) + 1
        table = DedupTable(DedupShape(lineCount: lineCount, leastBitCount: leastBitCount - 3))
        growsAt = Self.keyCount(growing: table)
    }

    /// Claims that hold.
    package var keyCount: Int { generations.keyCount }
    /// Bytes of the lines that there are.
    package var byteCount: Int { table.byteCount }
    /// The newest commit time of a claim that was dropped, µs since 1970: repeats of what was counted later than this
    /// are all caught. `Int64.min` while none was dropped.
    package var completeSinceMicroseconds: Int64 { generations.completeSinceMicroseconds }

    /// Has room for so many keys at once, as many lines as it would have grown to; before the first claim.
    package mutating func reserve(keyCount: Int) {
        precondition(generations.keyCount == 0)
        let power = table.powerLineCount(upTo: keyCount / Self.keysPerLine)
        let more = max(0, keyCount - Self.keysPerLine * power) / Self.claimsPerLine
        let added = more / Self.linesPerGrowth * Self.linesPerGrowth
        table.reserve(lineCount: power + min(power, added))
        growsAt = Self.keyCount(growing: table)
    }

    /// Starts the load of the line that `claim` will look at first.
    // Mutating, as the next one, since a caller in another module copies all of the index to call what borrows it.
    @inline(__always)
    package mutating func prefetch(_ hash: UInt64) { table.prefetch(hash) }

    /// That line, for a `LineBatch`.
    @inline(__always)
    mutating func line(of hash: UInt64) -> CacheLine { table.line(of: hash) }

    /// Once that line is there: starts the loads of the lines that `claim` will look at after it.
    @inline(__always)
    package mutating func prefetchFurther(_ hash: UInt64) {
        table.prefetchFurther(hash, generations.live)
    }

    /// To be called for each block, before its claims: they are as old as its admission time.
    package mutating func open(admissionTime: Int64) {
        open(admissionTime: admissionTime, committedAt: admissionTime)
    }

    /// The same of a block of the log, which may say that it was committed later than now.
    mutating func open(admissionTime: Int64, committedAt: Int64) {
        if generations.isNewestFull(admissionTime) {
            // A byte is given again 63 generations after it died at the earliest, a sweep takes a few.
            while !sweep.isClean(generations.nextByte) {
                wholeSweepCount += 1
                goOnSweeping(table.usedLineCount)
            }
            generations.begin(at: admissionTime)
        }
        generations.admit(at: admissionTime, committedAt: committedAt)
        while let byte = generations.dropOldest(at: admissionTime) { sweep.noteDeath(byte) }
    }

    /// Looks for an id, and does not claim it: what `claim` would answer.
    @inline(__always)
    package func find(_ hash: UInt64, check: UInt16) -> Answer {
        guard let found = table.find(hash, generations.live).found else { return .first }
        return DedupSlot.check(table.slot(found)) == check ? .duplicate : .conflict
    }

    /// Looks for an id, and claims it if it is not there.
    ///
    /// - Parameters:
    ///   - hash: the keyed hash of (business, event id).
    ///   - check: 16 bits of what must be equal in a duplicate.
    @inline(__always)
    package mutating func claim(_ hash: UInt64, check: UInt16) -> Answer {
        let (found, free) = table.find(hash, generations.live)
        if let found {
            return DedupSlot.check(table.slot(found)) == check ? .duplicate : .conflict
        }
        add(hash, check, at: free)
        return .first
    }

    /// Claims an id that the log says was counted. One that is there was forgotten and counted again: it is as old as now.
    mutating func load(_ hash: UInt64, check: UInt16) {
        let (found, free) = table.find(hash, generations.live)
        guard let found else { return add(hash, check, at: free) }
        generations.renewKey(DedupSlot.generation(table.slot(found)))
        table.renew(found, check: check, generation: generations.newestByte)
    }

    @inline(__always)
    private mutating func add(_ hash: UInt64, _ check: UInt16, at free: DedupPlace?) {
        table.put(hash, check: check, at: free, &generations)
        generations.addKey()
        if generations.keyCount >= growsAt { addLines() }
        if sweep.isDue { goOnSweeping(1) }
    }

    /// Does some of what forgetting left to do; to be called now and then.
    package mutating func goOn() {
        if sweep.isDue { goOnSweeping(Self.idleLineCount) }
    }

    @inline(never)
    private mutating func addLines() {
        for _ in 0..<Self.linesPerGrowth where table.lineCount < table.lineCountMax {
            table.addLine(&generations)
        }
        growsAt = Self.keyCount(growing: table)
    }

    /// With how many keys a table gets its next lines: half full, and then for each some claims more.
    private static func keyCount(growing table: borrowing DedupTable) -> Int {
        let (count, power) = (table.lineCount, table.powerLineCount)
        if count >= table.lineCountMax { return .max }
        return power * keysPerLine + (count - power) * claimsPerLine
    }

    private mutating func goOnSweeping(_ lineCount: Int) {
        for line in sweep.take(lineCount, of: table.usedLineCount) {
            table.sweep(line, generations.live)
        }
    }

    /// Which lines are to be freed of dead claims, round and round while there are any.
    private struct Sweep {
        private var next = 0
        /// Rounds that were completed.
        private var roundCount = 0
        /// Rounds that must be complete before slots with this byte are gone.
        private var cleanAfter = [Int](repeating: 0, count: 256)
        private var lastCleanAfter = 0

        var isDue: Bool { roundCount < lastCleanAfter }

        func isClean(_ byte: UInt8) -> Bool { roundCount >= cleanAfter[Int(byte)] }

        /// The round that is on may have passed by its slots: the next one will not.
        mutating func noteDeath(_ byte: UInt8) {
            lastCleanAfter = roundCount + (next == 0 ? 1 : 2)
            cleanAfter[Int(byte)] = lastCleanAfter
        }

        mutating func take(_ count: Int, of lineCount: Int) -> Range<Int> {
            let first = next
            next = min(lineCount, first + count)
            defer {
                if next == lineCount { (next, roundCount) = (0, roundCount + 1) }
            }
            return first..<next
        }
    }
}

/// How many lines there are at first and at last: a number of groups, of 2^b lines each. Linear hashing is even where all
/// groups have a power of two; by groups there is one for any number of keys that is at most an eighth too large.
struct DedupShape {
    /// 8 … 15.
    private(set) var groupCount: Int
    let leastBitCount: Int
    private(set) var greatestBitCount: Int

    /// - Parameters:
    ///   - lineCount: wanted at last.
    ///   - leastBitCount: of the lines of a group at first, 1 … 25.
    init(lineCount: Int, leastBitCount: Int) {
        self.leastBitCount = leastBitCount
        let bitCount = Int.bitWidth - 1 - max(1, lineCount).leadingZeroBitCount
        greatestBitCount = min(
            max(leastBitCount, bitCount - 3),
            leastBitCount + DedupSlot.remainderBitCount - 1)
        groupCount = max(8, (lineCount - 1) >> greatestBitCount + 1)
        if groupCount > 15 { (groupCount, greatestBitCount) = (8, greatestBitCount + 1) }
    }

    var lineCountMin: Int { groupCount << leastBitCount }
    var lineCountMax: Int { groupCount << greatestBitCount }

    /// The greatest b for which there are not more lines than these; at least that of the beginning.
    func bitCount(lineCount: Int) -> Int {
        max(
            leastBitCount,
            Int.bitWidth - 1 - max(1, lineCount / groupCount).leadingZeroBitCount)
    }
}

/// Where a key may be put: a slot of one of its lines.
struct DedupPlace {
    let home: Int
    let displacement: Int
    let slot: Int

    @inline(__always)
    init(_ home: Int, _ displacement: Int, slot: Int) {
        self.home = home
        self.displacement = displacement
        self.slot = slot
    }
}

/// The rule of repeats: the same (business, type, event id) counts once, as far back as the index reaches. Owned by the
/// commit queue; made at start from the rows of the log.
///
/// Only events that would count are asked about, and only they claim their id.
package struct RepeatRule: ~Copyable {
    struct Answer {
        let verdict: Verdict
        /// Counted or refused although an older event with its id may have been forgotten.
        let isOutsideWindow: Bool
    }

    private var index: DedupIndex
    private let policy: CountingPolicy
    /// What was forgotten before the index was made, as `completeSince`.
    private var completeSinceStart: Int64
    /// How far ahead of its commit an event's time may be, now or as far as the log was read.
    private let leadMicroseconds: Int64

    /// - Parameters:
    ///   - completeSince: the newest commit time of rows with ids that `index` was not told of.
    ///   - leadMicroseconds: how far ahead event times were allowed to be in the log, as far as that was read.
    package init(
        _ index: consuming DedupIndex, _ policy: CountingPolicy, completeSince: Int64,
        leadMicroseconds: Int64 = 0
    ) {
        self.index = index
        self.policy = policy
        completeSinceStart = completeSince
        self.leadMicroseconds = max(leadMicroseconds, policy.leadMicrosecondsMax)
    }

    /// Of a new directory.
    package static func empty(_ policy: CountingPolicy = CountingPolicy()) -> RepeatRule {
        RepeatRule(
            DedupIndex(
                keyCountMax: policy.keyCountMax, windowMicroseconds: policy.windowMicroseconds),
            policy, completeSince: .min)
    }

    /// The newest commit time of a claim that is no longer known, µs since 1970; `Int64.min` if all are.
    var completeSinceMicroseconds: Int64 {
        max(completeSinceStart, index.completeSinceMicroseconds)
    }

    /// To be called for each block, before its first row.
    mutating func open(admissionTime: Int64) { index.open(admissionTime: admissionTime) }

    /// The line that `judge` of the same hash will look at first, for a `LineBatch`.
    @inline(__always)
    mutating func line(of hash: UInt64) -> CacheLine { index.line(of: hash) }

    /// Once that load is done: starts those of what lies further on.
    @inline(__always)
    mutating func prefetchFurther(_ hash: UInt64) { index.prefetchFurther(hash) }

    /// To be called between packets, now and then.
    mutating func goOn() { index.goOn() }

    /// Judges an event that would count.
    ///
    /// - Parameters:
    ///   - hash: the keyed hash of (business, type, event id).
    ///   - check: of what a duplicate has in common with it.
    @inline(__always)
    mutating func judge(_ hash: UInt64, check: UInt16, timestamp: Int64) -> Answer {
        // No event is committed before its own time less the lead.
        let isOutside = timestamp &- leadMicroseconds <= completeSinceMicroseconds
        let answer =
            isOutside && policy.refusesOutsideWindow
            ? index.find(hash, check: check) : index.claim(hash, check: check)
        switch answer {
        case .first:
            return Answer(
                verdict: isOutside && policy.refusesOutsideWindow ? .outsideWindow : .counted,
                isOutsideWindow: isOutside)
        case .duplicate: return Answer(verdict: .duplicate, isOutsideWindow: false)
        case .conflict: return Answer(verdict: .conflict, isOutsideWindow: false)
        }
    }

    /// Whether an id was counted, without a claim of it; `nil` if not.
    mutating func verdict(onRepeat hash: UInt64, check: UInt16) -> Verdict? {
        switch index.find(hash, check: check) {
        case .first: nil
        case .duplicate: .duplicate
        case .conflict: .conflict
        }
    }

    /// Whether `judge` refuses an event whose reward is not known, so that it is no duplicate.
    mutating func refusesNew(_ hash: UInt64, timestamp: Int64) -> Bool {
        guard policy.refusesOutsideWindow,
            timestamp &- leadMicroseconds <= completeSinceMicroseconds
        else { return false }
        return verdict(onRepeat: hash, check: 0) == nil
    }

    /// 16 bits of what a repeat must have in common with the first to be a duplicate: reward and business, amounts.
    @inline(__always)
    static func check(key: UInt32, revenue: Int64, spend: Int64) -> UInt16 {
        var bits = UInt64(key)
        // Mixed one after the other: a sum of them would be the same for many pairs.
        if revenue | spend != 0 {
            bits ^= SplitMix.finish(
                SplitMix.finish(UInt64(bitPattern: revenue)) ^ UInt64(bitPattern: spend))
        }
        return UInt16(truncatingIfNeeded: SplitMix.finish(bits) >> 48)
    }
}
