// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux

/// A slot of the dedup index, as the word that it is.
///
/// **Layout** bits 0–7 generation (0 = never used), 8–23 payload check, 24–26 displacement, 27 overflow, 28–63
/// remainder. *Displacement* says in which of its lines the key lies; the *overflow* bit says nothing of its
/// own slot, but that of slot d that a key which belongs here has displacement d.
enum DedupSlot {
    static let overflow: UInt64 = 1 << 27
    /// What makes a key: remainder and displacement.
    static let identity: UInt64 = ~0 << 28 | 7 << 24
    static let remainderBitCount = 36

    @inline(__always)
    static func word(remainder: UInt64, displacement: Int) -> UInt64 {
        remainder << 28 | UInt64(truncatingIfNeeded: displacement) << 24
    }
    @inline(__always)
    static func generation(_ slot: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: slot) }
    @inline(__always)
    static func check(_ slot: UInt64) -> UInt16 { UInt16(truncatingIfNeeded: slot >> 8) }
    @inline(__always)
    static func remainder(_ slot: UInt64) -> UInt64 { slot >> 28 }
    @inline(__always)
    static func displacement(_ slot: UInt64) -> Int { Int(truncatingIfNeeded: slot >> 24 & 7) }
}

/// A table of the dedup index: 2^`bitCount` cache lines of 8 slots. Plain data: its owner frees it.
///
/// **Layout** A key belongs to the line that the first bits of its hash say; it lies there, or where that was full, in
/// the line 1, 3, 6, 10, 15, 21 or 28 further on, round the end (displacements 1 to 7). If all of them are full, a key of
/// one of them moves on to another line of its own. The bits of the hash after the first ones are the key's remainder: 36
/// in the smallest table that an index has, one fewer with each doubling, so that every table knows the same
/// bits of every key.
@safe struct DedupTable {
    static let slotCount = 8
    private let memory: ZeroedTable<UInt64>
    let bitCount: Int
    private let identityBitCount: Int

    /// None.
    init() { (memory, bitCount, identityBitCount) = (ZeroedTable(), 0, 0) }

    init(bitCount: Int, leastBitCount: Int) {
        memory = ZeroedTable(capacity: Self.slotCount << bitCount)
        self.bitCount = bitCount
        identityBitCount = leastBitCount + DedupSlot.remainderBitCount
    }

    func free() { memory.free() }

    var isEmpty: Bool { memory.capacity == 0 }
    var lineCount: Int { 1 << bitCount }
    var slotCount: Int { memory.capacity }
    var byteCount: Int { memory.byteCount }

    @inline(__always)
    func home(_ hash: UInt64) -> Int { Int(truncatingIfNeeded: hash >> UInt64(64 &- bitCount)) }

    @inline(__always)
    private func remainder(_ hash: UInt64) -> UInt64 {
        (hash << UInt64(bitCount)) >> UInt64(64 &- (identityBitCount &- bitCount))
    }

    /// The bits of the hash that a key in this line is known by; the others are 0.
    private func hash(home: Int, remainder: UInt64) -> UInt64 {
        UInt64(home) << UInt64(64 - bitCount) | remainder << UInt64(64 - identityBitCount)
    }

    @inline(__always)
    private func line(_ home: Int, _ displacement: Int) -> Int {
        ((home &+ Self.distance(displacement)) & (lineCount &- 1)) &* Self.slotCount
    }

    /// Growing distances, so that full lines do not grow into long stretches.
    @inline(__always)
    private static func distance(_ displacement: Int) -> Int {
        displacement &* (displacement &+ 1) / 2
    }

    @inline(__always)
    func prefetch(_ hash: UInt64) {
        // SAFETY: a home is a line of the table; a prefetch reads nothing.
        unsafe ingest_prefetch(memory.base + home(hash) &* Self.slotCount)
    }

    /// What a line says about a word: a bit a slot.
    private struct Line {
        var matching: UInt8 = 0
        var free: UInt8 = 0
        var overflow: UInt8 = 0
    }

    @inline(__always)
    private func scan(
        _ first: Int, for word: UInt64, _ generations: borrowing DedupGenerations
    ) -> Line {
        var line = Line()
        for i in 0..<Self.slotCount {
            // SAFETY: a line's 8 slots are in the table.
            let slot = unsafe memory.base[first &+ i]
            let bit = UInt8(truncatingIfNeeded: 1 << i)
            let holds = generations.holds(DedupSlot.generation(slot))
            line.free |= holds ? 0 : bit
            line.matching |= holds && (slot ^ word) & DedupSlot.identity == 0 ? bit : 0
            line.overflow |= slot & DedupSlot.overflow != 0 ? bit : 0
        }
        return line
    }

    /// Where a key lies; else where it may be put: the first slot that is free in its lines, or `nil`.
    @inline(__always)
    func find(
        _ hash: UInt64, _ generations: borrowing DedupGenerations
    ) -> (found: Int?, free: DedupPlace?) {
        let home = home(hash)
        let word = DedupSlot.word(remainder: remainder(hash), displacement: 0)
        let line = scan(home &* Self.slotCount, for: word, generations)
        if line.matching != 0 {
            return (home &* Self.slotCount &+ line.matching.trailingZeroBitCount, nil)
        }
        if line.overflow == 0 && line.free != 0 {
            return (nil, DedupPlace(home, 0, slot: line.free.trailingZeroBitCount))
        }
        return findFurther(hash, line.overflow, line.free, generations)
    }

    @inline(never)
    private func findFurther(
        _ hash: UInt64, _ overflow: UInt8, _ free: UInt8, _ generations: borrowing DedupGenerations
    ) -> (found: Int?, free: DedupPlace?) {
        let home = home(hash)
        var place = free == 0 ? nil : DedupPlace(home, 0, slot: free.trailingZeroBitCount)
        for displacement in 1..<Self.slotCount {
            let mayHold = overflow & UInt8(1 << displacement) != 0
            if !mayHold && place != nil { continue }
            let word = DedupSlot.word(remainder: remainder(hash), displacement: displacement)
            let first = line(home, displacement)
            let line = scan(first, for: word, generations)
            if mayHold && line.matching != 0 {
                return (first + line.matching.trailingZeroBitCount, nil)
            }
            if place == nil && line.free != 0 {
                place = DedupPlace(home, displacement, slot: line.free.trailingZeroBitCount)
            }
        }
        return (nil, place)
    }

    /// The slot at a place that `find` found.
    func slot(_ place: Int) -> UInt64 {
        // SAFETY: `find` gives places inside the table.
        unsafe memory.base[place]
    }

    /// Frees the slot at a place that `find` found.
    func clear(_ place: Int) {
        // SAFETY: as in `slot`.
        unsafe memory.base[place] &= DedupSlot.overflow
    }

    @inline(__always)
    func put(_ hash: UInt64, _ place: DedupPlace, check: UInt16, generation: UInt8) {
        let word = DedupSlot.word(
            remainder: remainder(hash), displacement: place.displacement)
        let slot = word | UInt64(check) << 8 | UInt64(generation)
        let index = line(place.home, place.displacement) &+ place.slot
        // SAFETY: lines and slots are inside the table.
        unsafe memory.base[index] = slot | (memory.base[index] & DedupSlot.overflow)
        if place.displacement > 0 {
            unsafe memory.base[place.home &* Self.slotCount &+ place.displacement] |=
                DedupSlot.overflow
        }
    }

    /// Moves one of the keys in the lines of `hash`, none of which has a free slot, to another line of its own.
    /// - Returns: the place that it left, or `nil` if none of them can move.
    func makeRoom(
        _ hash: UInt64, _ generations: borrowing DedupGenerations
    ) -> DedupPlace? {
        let home = home(hash)
        for displacement in 0..<Self.slotCount {
            let first = line(home, displacement)
            for i in 0..<Self.slotCount where moveOn(first + i, generations) {
                return DedupPlace(home, displacement, slot: i)
            }
        }
        return nil
    }

    /// Moves the key of a slot to a line of greater displacement; that it was here stays marked until the next sweep.
    private func moveOn(_ index: Int, _ generations: borrowing DedupGenerations) -> Bool {
        let slot = slot(index)
        let displacement = DedupSlot.displacement(slot)
        let home =
            (index / Self.slotCount - Self.distance(displacement)) & (lineCount - 1)
        for further in (displacement + 1)..<max(displacement + 1, Self.slotCount) {
            let line = scan(line(home, further), for: 0, generations)
            guard line.free != 0 else { continue }
            let place = DedupPlace(home, further, slot: line.free.trailingZeroBitCount)
            put(
                hash(home: home, remainder: DedupSlot.remainder(slot)), place,
                check: DedupSlot.check(slot), generation: DedupSlot.generation(slot))
            clear(index)
            return true
        }
        return false
    }

    /// The slot of the key's own line whose claim is the oldest, for when no room can be made.
    func oldest(_ hash: UInt64, _ generations: borrowing DedupGenerations) -> DedupPlace {
        let home = home(hash)
        var (oldest, age) = (0, -1)
        for i in 0..<Self.slotCount {
            let slot = slot(home * Self.slotCount + i)
            let slotAge = generations.age(DedupSlot.generation(slot))
            if slotAge > age { (oldest, age) = (i, slotAge) }
        }
        return DedupPlace(home, 0, slot: oldest)
    }

    /// Frees what does not hold in a line, and the overflow bits that no key needs any more.
    func sweep(_ home: Int, _ generations: borrowing DedupGenerations) {
        let first = home * Self.slotCount
        for i in 0..<Self.slotCount {
            // SAFETY: a line's 8 slots are in the table.
            let slot = unsafe memory.base[first + i]
            if slot != 0, !generations.holds(DedupSlot.generation(slot)) { clear(first + i) }
            guard slot & DedupSlot.overflow != 0 else { continue }
            var isNeeded = false
            forEachKey(of: home, displacement: i, generations) { _, _ in isNeeded = true }
            if !isNeeded { unsafe memory.base[first + i] &= ~DedupSlot.overflow }
        }
    }

    /// Adds the live keys that belong to a line, wherever they lie: the bits of their hashes that are known, and
    /// their slots.
    func appendKeys(
        of home: Int, to keys: inout [(hash: UInt64, slot: UInt64)],
        _ generations: borrowing DedupGenerations
    ) {
        for displacement in 0..<Self.slotCount {
            let flags = slot(home * Self.slotCount + displacement)
            if displacement > 0, flags & DedupSlot.overflow == 0 { continue }
            forEachKey(of: home, displacement: displacement, generations) { keys.append(($0, $1)) }
        }
    }

    private func forEachKey(
        of home: Int, displacement: Int, _ generations: borrowing DedupGenerations,
        _ body: (UInt64, UInt64) -> Void
    ) {
        let first = line(home, displacement)
        for i in 0..<Self.slotCount {
            let slot = slot(first + i)
            guard DedupSlot.displacement(slot) == displacement,
                generations.holds(DedupSlot.generation(slot))
            else { continue }
            body(hash(home: home, remainder: DedupSlot.remainder(slot)), slot)
        }
    }

    /// Gives back the memory of lines before `end`, whose keys were moved; but for the first step of it, in which
    /// keys of the last lines may lie.
    func forget(from first: Int, to end: Int) {
        let stepByteCount = 2 << 20
        let kept = stepByteCount / MemoryLayout<UInt64>.stride
        guard end * Self.slotCount > kept else { return }
        memory.forget(
            from: max(kept, first * Self.slotCount), to: end * Self.slotCount,
            inSteps: stepByteCount)
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
