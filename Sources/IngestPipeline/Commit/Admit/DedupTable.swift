// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux
import Dispatch

/// A slot of the dedup index, as the word that it is.
///
/// **Layout** bits 0–7 generation (0 = never used), 8–23 payload check, 24–26 displacement, 27 overflow, 28–63
/// remainder. *Displacement* says in which of its lines the key lies; the *overflow* bit says nothing of its
/// own slot, but that of slot d that a key which belongs here has displacement d.
enum DedupSlot {
    static let overflow: UInt64 = 1 << 27
    /// Check and generation.
    static let value: UInt64 = 1 << 24 - 1
    static let remainderBitCount = 36
    private static let remainderShift: UInt64 = 28
    private static let displacementShift: UInt64 = 24
    private static let displacementMask: UInt64 = 7 << displacementShift

    /// A claim as it lies in a line of its own.
    @inline(__always)
    static func claim(remainder: UInt64, check: UInt16, generation: UInt8) -> UInt64 {
        remainder << remainderShift | UInt64(check) << 8 | UInt64(generation)
    }
    /// A claim as it lies in its line of this displacement.
    @inline(__always)
    static func displaced(_ claim: UInt64, by displacement: Int) -> UInt64 {
        claim & ~(displacementMask | overflow)
            | UInt64(truncatingIfNeeded: displacement) << displacementShift
    }
    @inline(__always)
    static func generation(_ slot: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: slot) }
    @inline(__always)
    static func check(_ slot: UInt64) -> UInt16 { UInt16(truncatingIfNeeded: slot >> 8) }
    @inline(__always)
    static func remainder(_ slot: UInt64) -> UInt64 { slot >> remainderShift }
    @inline(__always)
    static func displacement(_ slot: UInt64) -> Int {
        Int(truncatingIfNeeded: (slot & displacementMask) >> displacementShift)
    }
}

/// The lines of the dedup index: cache lines of 8 slots, of which there are more as there are more keys (linear hashing),
/// until there are `DedupShape.lineCountMax`.
///
/// **Layout** Keys are in groups by the first byte of their hash. Of 2^b to 2^(b+1) lines a group, a key belongs to the
/// one that the last b + 1 bits of its hash say, or b bits where there is no such line yet; lines of all groups that have the
/// same bits lie side by side. A line that is added takes its keys from the one line of its group whose number differs in the
/// first of these bits; no other key moves. A key lies in the line that it belongs to, or where that was full in the line 1,
/// 3, 6, 10, 15, 21 or 28 further on (displacements 1 to 7); behind the last line there are 28 for these. If all are
/// full, a key of one of them moves on to another line of its own. The 36 bits of the hash before the last
/// `leastBitCount` are the key's remainder: with its line and its group all bits that are known.
///
/// **Cost** Address space for all lines at once; memory as lines are added.
@safe struct DedupTable: ~Copyable {
    static let slotCount = 8
    static let displacementCount = 8
    /// Lines behind the last, in which displaced keys lie.
    private static let spareLineCount = distance(displacementCount - 1)

    private let memory: Memory
    private let base: UnsafeMutablePointer<UInt64>
    private let shape: DedupShape
    private let groupCount: UInt64
    /// Lines that keys belong to.
    private(set) var lineCount: Int
    /// The last b + 1 bits.
    private var wideMask: UInt64

    init(_ shape: DedupShape) {
        memory = Memory(lineCount: shape.lineCountMax + Self.spareLineCount)
        unsafe base = memory.table.base
        self.shape = shape
        groupCount = UInt64(shape.groupCount)
        lineCount = shape.lineCountMin
        wideMask = 2 << UInt64(shape.leastBitCount) - 1
    }

    /// Lines in which keys lie.
    var usedLineCount: Int { lineCount + Self.spareLineCount }
    /// Bytes in which keys lie.
    var byteCount: Int { usedLineCount * Self.slotCount * MemoryLayout<UInt64>.stride }
    var lineCountMax: Int { shape.lineCountMax }
    /// Of 2^b lines a group.
    var powerLineCount: Int { shape.groupCount * (Int(truncatingIfNeeded: wideMask >> 1) + 1) }

    /// The greatest such number that is not greater than this one, if any is not.
    func powerLineCount(upTo lineCount: Int) -> Int {
        shape.groupCount << shape.bitCount(lineCount: min(lineCount, lineCountMax))
    }

    @inline(__always)
    private func home(_ hash: UInt64) -> Int {
        let group = ((hash >> 56) &* groupCount) >> 8
        let bits = hash & wideMask
        let wide = Int(truncatingIfNeeded: bits &* groupCount &+ group)
        if wide < lineCount { return wide }
        return Int(truncatingIfNeeded: (bits & wideMask >> 1) &* groupCount &+ group)
    }

    @inline(__always)
    private func remainder(_ hash: UInt64) -> UInt64 {
        (hash &>> UInt64(shape.leastBitCount)) & (1 << UInt64(DedupSlot.remainderBitCount) - 1)
    }

    @inline(__always)
    private static func distance(_ displacement: Int) -> Int {
        // Growing, so that full lines do not grow into long stretches.
        displacement &* (displacement &+ 1) / 2
    }

    /// The first slot of a line.
    @inline(__always)
    private static func first(_ home: Int, _ displacement: Int) -> Int {
        (home &+ distance(displacement)) &* slotCount
    }

    @inline(__always)
    func prefetch(_ hash: UInt64) {
        // SAFETY: a home is a line of the table; a prefetch reads nothing.
        unsafe ingest_prefetch(base + home(hash) &* Self.slotCount)
    }

    @inline(__always)
    func line(of hash: UInt64) -> CacheLine {
        // SAFETY: a home is a line of the table.
        unsafe CacheLine(base + home(hash) &* Self.slotCount)
    }

    /// For a key whose own line has been fetched: starts the loads of its further lines that `find` will look at.
    @inline(__always)
    func prefetchFurther(_ hash: UInt64, _ live: DedupGenerations.Live) {
        let home = home(hash)
        let line = scan(home &* Self.slotCount, for: 0, live)
        var further = line.overflow | (line.free == 0 ? 2 : 0)
        while further != 0 {
            let first = Self.first(home, further.trailingZeroBitCount)
            further &= further &- 1
            // SAFETY: as in `prefetch`.
            unsafe ingest_prefetch(base + first)
        }
    }

    /// What a line says about a claim: a bit a slot.
    private struct Line {
        let bits: UInt32
        var matching: UInt32 { bits & 0xff }
        var free: UInt32 { bits >> 8 & 0xff }
        var overflow: UInt32 { bits >> 16 }
    }

    @inline(__always)
    private func scan(_ first: Int, for claim: UInt64, _ live: DedupGenerations.Live) -> Line {
        unsafe Self.scan(base, first, for: claim, live)
    }

    @inline(__always)
    private static func scan(
        _ base: UnsafeMutablePointer<UInt64>, _ first: Int, for claim: UInt64,
        _ live: DedupGenerations.Live
    ) -> Line {
        // SAFETY: a line's 8 slots are in the table, and begin on a cache line.
        Line(bits: unsafe ingest_slots_scan(base + first, claim, live.oldest, live.span))
    }

    /// Where a key lies; else where it may be put: the first slot that is free in its lines, or `nil`.
    @inline(__always)
    func find(
        _ hash: UInt64, _ live: DedupGenerations.Live
    ) -> (found: Int?, free: DedupPlace?) {
        let home = home(hash)
        let claim = DedupSlot.claim(remainder: remainder(hash), check: 0, generation: 0)
        let line = scan(home &* Self.slotCount, for: claim, live)
        if line.matching != 0 {
            return (home &* Self.slotCount &+ line.matching.trailingZeroBitCount, nil)
        }
        if line.overflow == 0 && line.free != 0 {
            return (nil, DedupPlace(home, 0, slot: line.free.trailingZeroBitCount))
        }
        return unsafe Self.findFurther(base, home, claim, line, live)
    }

    // Static, since of all that is called by `self` a copy is made, for each look-up.
    @inline(never)
    private static func findFurther(
        _ base: UnsafeMutablePointer<UInt64>, _ home: Int, _ claim: UInt64, _ own: Line,
        _ live: DedupGenerations.Live
    ) -> (found: Int?, free: DedupPlace?) {
        var place =
            own.free == 0 ? nil : DedupPlace(home, 0, slot: own.free.trailingZeroBitCount)
        for displacement in 1..<Self.displacementCount {
            let mayHold = own.overflow & 1 << UInt32(displacement) != 0
            if !mayHold && place != nil { continue }
            let first = first(home, displacement)
            let line = unsafe scan(
                base, first, for: DedupSlot.displaced(claim, by: displacement), live)
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
        unsafe base[place]
    }

    /// Writes a claim of a new key; where `find` found no free slot, room is made.
    @inline(__always)
    func put(
        _ hash: UInt64, check: UInt16, at free: DedupPlace?,
        _ generations: inout DedupGenerations
    ) {
        let claim = DedupSlot.claim(
            remainder: remainder(hash), check: check, generation: generations.newestByte)
        put(claim, at: free ?? makeRoom(home(hash), &generations))
    }

    /// Another check and generation for the key at a place that `find` found.
    func renew(_ place: Int, check: UInt16, generation: UInt8) {
        let claim = DedupSlot.claim(remainder: 0, check: check, generation: generation)
        // SAFETY: as in `slot`.
        unsafe base[place] = base[place] & ~DedupSlot.value | claim
    }

    @inline(__always)
    private func put(_ claim: UInt64, at place: DedupPlace) {
        let index = Self.first(place.home, place.displacement) &+ place.slot
        // SAFETY: lines and slots are inside the table.
        unsafe base[index] =
            DedupSlot.displaced(claim, by: place.displacement) | base[index] & DedupSlot.overflow
        if place.displacement > 0 {
            unsafe base[place.home &* Self.slotCount &+ place.displacement] |= DedupSlot.overflow
        }
    }

    /// Frees a slot.
    private func clear(_ index: Int) {
        // SAFETY: as in `put`.
        unsafe base[index] &= DedupSlot.overflow
    }

    // MARK: Room

    /// A place for a key of this line, whose lines are all full: one of the keys in them moves to another line of its
    /// own, or, if none can, the oldest claim in the line ends.
    @inline(never)
    private func makeRoom(_ home: Int, _ generations: inout DedupGenerations) -> DedupPlace {
        for displacement in 0..<Self.displacementCount {
            let first = Self.first(home, displacement)
            for i in 0..<Self.slotCount where moveOn(first + i, generations.live) {
                return DedupPlace(home, displacement, slot: i)
            }
        }
        var (oldest, age) = (0, -1)
        for i in 0..<Self.slotCount {
            let slotAge = generations.age(DedupSlot.generation(slot(home * Self.slotCount + i)))
            if slotAge > age { (oldest, age) = (i, slotAge) }
        }
        generations.evictKey(DedupSlot.generation(slot(home * Self.slotCount + oldest)))
        return DedupPlace(home, 0, slot: oldest)
    }

    /// Moves the key of a slot to a line of greater displacement; that it was here stays marked until the next sweep.
    private func moveOn(_ index: Int, _ live: DedupGenerations.Live) -> Bool {
        let slot = slot(index)
        let displacement = DedupSlot.displacement(slot)
        let home = index / Self.slotCount - Self.distance(displacement)
        for further in (displacement + 1)..<max(displacement + 1, Self.displacementCount) {
            let line = scan(Self.first(home, further), for: 0, live)
            guard line.free != 0 else { continue }
            put(slot, at: DedupPlace(home, further, slot: line.free.trailingZeroBitCount))
            clear(index)
            return true
        }
        return false
    }

    // MARK: Growing

    /// Takes so many lines; before the first key is put.
    mutating func reserve(lineCount wanted: Int) {
        guard wanted > lineCount else { return }
        lineCount = min(wanted, lineCountMax)
        wideMask = 2 << UInt64(shape.bitCount(lineCount: lineCount)) - 1
        memory.populate(0..<usedLineCount)
    }

    /// Adds a line, and moves the keys to it that belong to it now.
    mutating func addLine(_ generations: inout DedupGenerations) {
        let new = lineCount
        let old = new - powerLineCount
        // Of the remainder: the bit that a home of the next size has besides.
        let bit = (wideMask >> 1 + 1) >> UInt64(shape.leastBitCount)
        lineCount += 1
        if lineCount == 2 * powerLineCount { wideMask = wideMask << 1 | 1 }
        if lineCount % Memory.stepLineCount == 0 {
            memory.populate(lineCount + Memory.stepLineCount..<lineCount + 2 * Memory.stepLineCount)
        }
        // SAFETY: both are lines of the table.
        let isSplit = unsafe ingest_slots_split(
            base + old &* Self.slotCount, base + new &* Self.slotCount,
            DedupSlot.claim(remainder: bit, check: 0, generation: 0), generations.live.oldest,
            generations.live.span)
        if isSplit && scan(old &* Self.slotCount, for: 0, generations.live).overflow == 0 { return }
        split(old, into: new, by: bit, from: isSplit ? 1 : 0, &generations)
    }

    /// Moves the keys of a line that have the bit in their remainder, of one displacement and all above it.
    private mutating func split(
        _ old: Int, into new: Int, by bit: UInt64, from first: Int,
        _ generations: inout DedupGenerations
    ) {
        for displacement in first..<Self.displacementCount {
            let mark = old * Self.slotCount + displacement
            if displacement > 0 {
                guard slot(mark) & DedupSlot.overflow != 0 else { continue }
                // SAFETY: as in `put`.
                unsafe base[mark] &= ~DedupSlot.overflow
            }
            forEachKey(of: old, displacement: displacement, generations.live) { index, claim in
                let moves = DedupSlot.remainder(claim) & bit != 0
                // What is displaced may have room nearer by now.
                if !moves && displacement == 0 { return }
                clear(index)
                let home = moves ? new : old
                put(claim, at: free(home, generations.live) ?? makeRoom(home, &generations))
            }
        }
    }

    private func free(_ home: Int, _ live: DedupGenerations.Live) -> DedupPlace? {
        for displacement in 0..<Self.displacementCount {
            let line = scan(Self.first(home, displacement), for: 0, live)
            guard line.free != 0 else { continue }
            return DedupPlace(home, displacement, slot: line.free.trailingZeroBitCount)
        }
        return nil
    }

    // MARK: Sweeping

    /// Frees what does not hold in one of the used lines, and the overflow bits that no key needs any more.
    func sweep(_ line: Int, _ live: DedupGenerations.Live) {
        let first = line * Self.slotCount
        // SAFETY: the line is one of the table.
        var overflow = unsafe ingest_slots_sweep(base + first, live.oldest, live.span)
        while overflow != 0 {
            let displacement = overflow.trailingZeroBitCount
            overflow &= overflow &- 1
            var isNeeded = false
            forEachKey(of: line, displacement: displacement, live) { _, _ in isNeeded = true }
            // SAFETY: as in `put`.
            if !isNeeded { unsafe base[first + displacement] &= ~DedupSlot.overflow }
        }
    }

    /// Gives the slots and claims of the live keys that belong to a line and have this displacement.
    @inline(__always)
    private func forEachKey(
        of home: Int, displacement: Int, _ live: DedupGenerations.Live,
        _ body: (Int, UInt64) -> Void
    ) {
        let first = Self.first(home, displacement)
        for i in 0..<Self.slotCount {
            let slot = slot(first + i)
            guard DedupSlot.displacement(slot) == displacement,
                live.holds(DedupSlot.generation(slot))
            else { continue }
            body(first + i, slot)
        }
    }
}

extension DedupTable {
    /// The memory of all lines that there may be; it lives until the table has gone and no page is being populated.
    private final class Memory: @unchecked Sendable {
        /// Lines of a huge page.
        static let stepLineCount = (2 << 20) / (slotCount * MemoryLayout<UInt64>.stride)
        let table: ZeroedTable<UInt64>

        init(lineCount: Int) { table = ZeroedTable(capacity: lineCount * slotCount) }

        deinit { table.free() }

        /// Has the kernel clear the pages of lines that will be needed soon, on another core: 3 ms each.
        func populate(_ lines: Range<Int>) {
            DispatchQueue.global(qos: .utility).async { [self] in
                table.populate(lines.lowerBound * slotCount..<lines.upperBound * slotCount)
            }
        }
    }
}
