// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// The ids that were counted: tells a first event from its repeats. Owned by the commit queue; rebuilt at start from
/// the id columns of the log.
///
/// **Layout** Cache lines of 8 slots of 8 bytes, each a claim: part of the keyed hash of (business, event id), 16 bits of
/// the event's payload, the generation it was claimed in (`DedupTable`, `DedupGenerations`). A claim that is too
/// old is a free slot without being touched. The table doubles when it is half full, a line with each third claim, until there
/// is room for `keyCountMax`; once there are more, the oldest generation goes.
///
/// **Units** 16–32 bytes a key, 11–21 once it has its full size; 1.07 GB for 100 million.
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
    /// Where keys are moved from; empty while the table does not grow.
    private var old = DedupTable()
    /// Lines of `old` from the first on whose keys were moved.
    private var movedEnd = 0
    /// Keys on their way; empty between steps.
    private var moving: [(hash: UInt64, slot: UInt64)] = []
    private var sweep = Sweep()
    /// Blocks that had to wait until all of the table was swept: none, as long as claims sweep a line each.
    package private(set) var wholeSweepCount = 0

    private let leastBitCount: Int
    private let greatestBitCount: Int
    /// Claims for each line that is moved: a claim while the table grows must not cost twice as much as others, or a daemon
    /// at its rate sheds; and the lines that are moved last must not be full by then.
    private static var claimsPerMove: Int { 3 }
    private static var idleLineCount: Int { 64 }

    /// - Parameters:
    ///   - keyCountMax: claims kept at most, ≥ 1.
    ///   - windowMicroseconds: how long a claim holds, > 0.
    ///   - leastBitCount: of the number of lines of the first table, 4 … 28.
    package init(keyCountMax: Int, windowMicroseconds: Int64, leastBitCount: Int = 20) {
        precondition(keyCountMax > 0 && windowMicroseconds > 0)
        precondition((4...28).contains(leastBitCount))
        generations = DedupGenerations(
            keyCountMax: keyCountMax, windowMicroseconds: windowMicroseconds)
        self.leastBitCount = leastBitCount
        // Three quarters of the slots are enough for all keys.
        let lineCountMin = (keyCountMax - 1) / (DedupTable.slotCount * 3 / 4) + 1
        let bitCount = Int.bitWidth - (lineCountMin - 1).leadingZeroBitCount
        greatestBitCount = min(
            max(leastBitCount, bitCount), leastBitCount + DedupSlot.remainderBitCount - 1)
        table = DedupTable(bitCount: leastBitCount, leastBitCount: leastBitCount)
    }

    deinit {
        table.free()
        old.free()
    }

    /// Claims that hold.
    package var keyCount: Int { generations.keyCount }
    /// Bytes of address space.
    package var byteCount: Int { table.byteCount + old.byteCount }
    /// The newest commit time of a claim that was dropped, µs since 1970: repeats of what was counted later than this
    /// are all caught. `Int64.min` while none was dropped.
    package var completeSinceMicroseconds: Int64 { generations.completeSinceMicroseconds }

    /// Starts the load of the line that `claim` will look at.
    @inline(__always)
    package func prefetch(_ hash: UInt64) { holder(of: hash).prefetch(hash) }

    /// To be called for each block, before its claims: they are as old as its admission time.
    package mutating func open(admissionTime: Int64) {
        if generations.isNewestFull(admissionTime) {
            // A byte is given again 63 generations after it died at the earliest, a sweep takes a few.
            while !sweep.isClean(generations.nextByte) {
                wholeSweepCount += 1
                goOnSweeping(table.lineCount)
            }
            generations.begin(at: admissionTime)
        }
        generations.admit(at: admissionTime)
        while let byte = generations.dropOldest(at: admissionTime) { sweep.noteDeath(byte) }
    }

    /// Looks for an id, and claims it if it is not there.
    ///
    /// - Parameters:
    ///   - hash: the keyed hash of (business, event id).
    ///   - check: 16 bits of what must be equal in a duplicate.
    @inline(__always)
    package mutating func claim(_ hash: UInt64, check: UInt16) -> Answer {
        let holder = holder(of: hash)
        let (found, free) = holder.find(hash, generations)
        if let found {
            return DedupSlot.check(holder.slot(found)) == check ? .duplicate : .conflict
        }
        let place = free ?? makeRoom(hash, in: holder)
        holder.put(hash, place, check: check, generation: generations.newestByte)
        generations.addKey()
        if old.isEmpty
            ? sweep.isDue || isFull : generations.keyCount % Self.claimsPerMove == 0
        {
            goOn(lineCount: 1)
        }
        return .first
    }

    /// Does some of what growing and forgetting left to do; to be called now and then.
    package mutating func goOn() {
        if !old.isEmpty || sweep.isDue { goOn(lineCount: Self.idleLineCount) }
    }

    @inline(__always)
    private func holder(of hash: UInt64) -> DedupTable {
        old.isEmpty || old.home(hash) < movedEnd ? table : old
    }

    @inline(never)
    private mutating func makeRoom(_ hash: UInt64, in holder: DedupTable) -> DedupPlace {
        if let place = holder.makeRoom(hash, generations) { return place }
        let place = holder.oldest(hash, generations)
        let slot = holder.slot(place.home * DedupTable.slotCount + place.slot)
        generations.evictKey(DedupSlot.generation(slot))
        return place
    }

    // MARK: Growing and sweeping

    private var isFull: Bool {
        old.isEmpty && table.bitCount < greatestBitCount
            && generations.keyCount * 2 > table.slotCount
    }

    private mutating func goOn(lineCount: Int) {
        if isFull {
            old = table
            movedEnd = 0
            table = DedupTable(bitCount: old.bitCount + 1, leastBitCount: leastBitCount)
            sweep.restart()
        }
        if old.isEmpty { goOnSweeping(lineCount) } else { goOnMoving(lineCount) }
    }

    private mutating func goOnMoving(_ lineCount: Int) {
        let first = movedEnd
        movedEnd = min(old.lineCount, first + lineCount)
        for home in first..<movedEnd { old.appendKeys(of: home, to: &moving, generations) }
        for (hash, slot) in moving { move(hash, slot) }
        moving.removeAll(keepingCapacity: true)
        guard movedEnd < old.lineCount else {
            old.free()
            old = DedupTable()
            return
        }
        old.forget(from: first, to: movedEnd)
    }

    /// Into the larger table, which is at most half full.
    private mutating func move(_ hash: UInt64, _ slot: UInt64) {
        let place = table.find(hash, generations).free ?? makeRoom(hash, in: table)
        table.put(
            hash, place, check: DedupSlot.check(slot), generation: DedupSlot.generation(slot))
    }

    private mutating func goOnSweeping(_ lineCount: Int) {
        // Growing drops what died too, but a table in two halves is not swept.
        while !old.isEmpty { goOnMoving(lineCount) }
        for line in sweep.take(lineCount, of: table.lineCount) { table.sweep(line, generations) }
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

        mutating func restart() { next = 0 }

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
