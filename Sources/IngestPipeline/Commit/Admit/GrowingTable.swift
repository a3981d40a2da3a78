// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux

/// What lies in a `GrowingTable`: plain memory, of which all zeros mean that nothing is there.
protocol TableEntry: BitwiseCopyable {
    /// 64 bits whose upper ones are spread evenly: they say where the entry belongs.
    var spread: UInt64 { get }
    /// Whether an entry belongs at the first place of a cache line, and not at just any place: a find of what is there
    /// then seldom looks at a second line.
    static var belongsToLine: Bool { get }
    var isFree: Bool { get }
}

/// An open-addressing table that grows without a pause: its memory is moved in small steps, one with every entry that
/// is inserted, some with every `goOnGrowing`. Owned by one stage.
///
/// **Layout** An entry belongs at `spread × capacity / 2^64`, or at the first place of that cache line, and lies there
/// or in the next free place after that, round the end. A table doubles when it is half full, a large one, of 4,194,304
/// places or more, when it is three quarters full. While it grows there are two: entries move from the old one to the
/// new one from the first place on, whole stretches between free places at a time, and what belongs before `movedEnd` is
/// in the new one. New entries go into the new one. Memory that was moved is given back on the way: of a table that is
/// three quarters full there is three times as much at first, as new entries belong anywhere in the new one.
///
/// **Cost** A find of what is there: 1.5 places on average at 50 % full, 2.5 at 75 %, neighbours in memory, 160 ns
/// at 10 million entries of 64 bytes, 95 ns with a prefetch ahead; of what is not, 8.5 places at 75 %, 250 ns. An
/// insert while the table grows: 32 places more. To grow by a quarter moved each entry four times; doubling, and one hash
/// of a name less, took 110 to 160 ns a new reward off the commit queue.
@safe struct GrowingTable<Entry: TableEntry>: ~Copyable {
    private(set) var count = 0
    private var table: ZeroedTable<Entry>
    /// The table without what `findOld` finds, as plain data: for a loop of look-ups that must not copy the rest.
    var current: ZeroedTable<Entry> { table }
    /// Where entries are moved from; empty while the table does not grow.
    private var old = ZeroedTable<Entry>()
    /// Places of `old` from the first on that were moved.
    private var movedEnd = 0

    /// Places from which on a table is filled to three quarters.
    private let sparseCountMax: Int
    private static var stepPlaceCount: Int { 32 }
    /// Of `goOnGrowing`: some microseconds.
    private static var idleStepCount: Int { 8 }
    /// Moved bytes that are given back at once.
    private static var forgetByteCount: Int { 2 << 20 }

    /// - Parameters:
    ///   - expectedCount: entries to be held without growing.
    ///   - sparseCountMax: places from which on the table is filled to three quarters.
    init(expectedCount: Int = 0, sparseCountMax: Int = 1 << 22) {
        self.sparseCountMax = sparseCountMax
        table = Self.makeTable(
            max(expectedCount * 3 / 2, min(expectedCount * 2, sparseCountMax)))
    }

    deinit {
        table.free()
        old.free()
    }

    /// Bytes of address space.
    var byteCount: Int { table.byteCount + old.byteCount }
    var capacity: Int { table.capacity }
    var isGrowing: Bool {
        @inline(__always) get { old.capacity > 0 }
    }

    /// Starts the load of the line on which an entry, or its beginning, is or would be.
    @inline(__always)
    func prefetch(_ spread: UInt64) {
        // SAFETY: a prefetch reads nothing.
        unsafe ingest_prefetch(line(of: spread).address)
    }

    /// The line on which an entry is or would be, or its beginning; valid as `find`.
    @inline(__always)
    func line(of spread: UInt64) -> CacheLine {
        let home = isGrowing ? old.home(spread) : 0
        let isMoved = !isGrowing || home < movedEnd
        // SAFETY: a home is inside its table, and an entry begins at a multiple of 8.
        return unsafe CacheLine(isMoved ? table.base + table.home(spread) : old.base + home)
    }

    /// The entry that belongs where `spread` says and matches. Valid until the next insert, removal or `goOnGrowing`.
    @inline(__always)
    func find(
        _ spread: UInt64, _ matches: (UnsafeMutablePointer<Entry>) -> Bool
    ) -> UnsafeMutablePointer<Entry>? {
        if isGrowing, let found = unsafe findOld(spread, matches) { return unsafe found }
        return unsafe table.find(spread, matches)
    }

    /// An entry that has not been moved yet: only one that belongs before `movedEnd` lies before it, or one that went
    /// round the end, which was moved first of all.
    @inline(__always)
    func findOld(
        _ spread: UInt64, _ matches: (UnsafeMutablePointer<Entry>) -> Bool
    ) -> UnsafeMutablePointer<Entry>? { unsafe old.find(spread, from: movedEnd, matches) }

    /// Takes an entry out of a table that does not grow.
    mutating func remove(_ spread: UInt64, _ matches: (UnsafeMutablePointer<Entry>) -> Bool) {
        precondition(!isGrowing)
        guard let entry = unsafe table.find(spread, matches) else { return }
        count -= 1
        unsafe table.remove(entry - table.base)
    }

    /// Adds an entry that is not in the table, and does a step of what growing is left to do.
    /// - Returns: where it lies until the next insert.
    mutating func insert(_ entry: Entry) -> UnsafeMutablePointer<Entry> {
        if isFull { grow() }
        if isGrowing { moveStep() }
        count += 1
        return unsafe table.put(entry)
    }

    /// Does some steps of what growing is left to do, so that a table which nothing is added to any more does not stay
    /// two for good: every find would look into both. What `find` gave is of no use afterwards.
    mutating func goOnGrowing() {
        for _ in 0..<Self.idleStepCount where isGrowing { moveStep() }
    }

    /// Half full while the table is small, where speed is cheap; three quarters where memory counts.
    private var isFull: Bool {
        table.capacity < sparseCountMax
            ? (count + 1) * 2 > table.capacity : (count + 1) * 4 > table.capacity * 3
    }

    private mutating func grow() {
        while isGrowing { moveStep() }
        old = table
        movedEnd = 0
        table = Self.makeTable(old.capacity * 2)
    }

    /// - Parameter capacity: at least so many places, of whole cache lines.
    private static func makeTable(_ capacity: Int) -> ZeroedTable<Entry> {
        ZeroedTable(capacity: max(1 << 12, (capacity + 63) & ~63))
    }

    /// Moves the next places, and on to the next free one, so that no walk that begins behind them needs them.
    private mutating func moveStep() {
        let first = movedEnd
        let end = min(old.capacity, movedEnd + Self.stepPlaceCount)
        // SAFETY: movedEnd is inside the old table in the body.
        while movedEnd < end
            || (movedEnd < old.capacity && !(unsafe old.base[movedEnd].isFree))
        {
            let entry = unsafe old.base[movedEnd]
            if !entry.isFree { _ = unsafe table.put(entry) }
            movedEnd += 1
        }
        guard movedEnd < old.capacity else {
            old.free()
            old = ZeroedTable()
            movedEnd = 0
            return
        }
        old.forget(from: first, to: movedEnd, inSteps: Self.forgetByteCount)
    }
}

/// Memory for a table that is all zeros at first and begins on a cache line. In huge pages where they can be had,
/// since nearly every look-up is of another page. Plain data: its owner frees it.
///
/// **Cost** Address space at once; only what was touched is resident.
@safe struct ZeroedTable<Element: BitwiseCopyable> {
    private(set) var base: UnsafeMutablePointer<Element>
    private(set) var capacity = 0
    private var isMapped = false

    /// None.
    init() { unsafe base = UnsafeMutablePointer(bitPattern: MemoryLayout<Element>.alignment)! }

    init(capacity: Int) {
        self.capacity = capacity
        let byteCount = capacity * MemoryLayout<Element>.stride
        let pages = unsafe ingest_pages_map(byteCount)
        isMapped = unsafe pages != nil
        let raw = unsafe pages ?? .allocate(byteCount: byteCount, alignment: 64)
        // Pages come zeroed.
        if !isMapped {
            unsafe raw.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount)
        }
        unsafe base = raw.bindMemory(to: Element.self, capacity: capacity)
    }

    var byteCount: Int { capacity * MemoryLayout<Element>.stride }

    func free() {
        if capacity == 0 { return }
        if isMapped {
            unsafe ingest_pages_unmap(base, byteCount)
        } else {
            unsafe base.deallocate()
        }
    }

    /// Has the kernel clear pages before they are needed; to be called from anywhere.
    func populate(_ elements: Range<Int>) {
        let stride = MemoryLayout<Element>.stride
        let end = min(elements.upperBound, capacity)
        guard isMapped, elements.lowerBound < end else { return }
        // SAFETY: the bytes are inside the mapping, and populating changes none.
        _ = unsafe ingest_pages_populate(base, elements.lowerBound * stride, end * stride)
    }

    /// Gives back the memory of elements before `end`, each time that a step is complete. Nothing reads them again.
    func forget(from first: Int, to end: Int, inSteps step: Int) {
        let stride = MemoryLayout<Element>.stride
        guard isMapped, first * stride / step != end * stride / step else { return }
        // SAFETY: the bytes are inside the mapping, and nothing reads elements before `end` again.
        unsafe ingest_pages_forget(base, first * stride / step * step, end * stride / step * step)
    }
}

/// Entries of all zeros are free.
extension ZeroedTable where Element: TableEntry {
    @inline(__always)
    fileprivate func home(_ spread: UInt64) -> Int {
        let place = Int(truncatingIfNeeded: spread.multipliedFullWidth(by: UInt64(capacity)).high)
        return Element.belongsToLine ? place & ~(64 / MemoryLayout<Element>.stride - 1) : place
    }

    @inline(__always)
    fileprivate func next(_ place: Int) -> Int { place &+ 1 == capacity ? 0 : place &+ 1 }

    // Of plain data, since of all of a `GrowingTable` a copy is made for each look-up that is called.

    @inline(__always)
    fileprivate func find(
        _ spread: UInt64, _ matches: (UnsafeMutablePointer<Element>) -> Bool
    ) -> UnsafeMutablePointer<Element>? {
        var place = home(spread)
        while true {
            // SAFETY: the place is inside; a quarter of the entries is free, so the walk ends.
            let entry = unsafe base + place
            if unsafe entry.pointee.isFree { return nil }
            if unsafe matches(entry) { return unsafe entry }
            place = next(place)
        }
    }

    /// The same of what belongs at `first` or behind it, up to the end.
    @inline(never)
    fileprivate func find(
        _ spread: UInt64, from first: Int, _ matches: (UnsafeMutablePointer<Element>) -> Bool
    ) -> UnsafeMutablePointer<Element>? {
        var place = home(spread)
        guard place >= first else { return nil }
        while place < capacity {
            // SAFETY: the place is inside.
            let entry = unsafe base + place
            if unsafe entry.pointee.isFree { return nil }
            if unsafe matches(entry) { return unsafe entry }
            place += 1
        }
        return nil
    }

    /// What belongs where `spread` says and matches, a cache line at a time: in a table whose entries belong to lines, and
    /// that is not growing.
    ///
    /// - Parameter scan: says of a line which of its entries match, and which are free and do not. Bit i stands for the
    ///   i-th 4 bytes of the line; an entry's bit is that of its first ones.
    @inline(__always)
    func findInLines(
        _ spread: UInt64, scan: (UnsafeMutablePointer<Element>) -> (matching: UInt32, free: UInt32)
    ) -> UnsafeMutablePointer<Element>? {
        var place = home(spread)
        while true {
            // SAFETY: the place is the first of a line; a quarter of the entries is free, so the walk ends.
            let line = unsafe base + place
            let (matching, free) = unsafe scan(line)
            if matching != 0 {
                let offset = 4 &* matching.trailingZeroBitCount
                return unsafe line + offset / MemoryLayout<Element>.stride
            }
            // Entries take the first free place from the line's beginning on.
            if free != 0 { return nil }
            place = next(place &+ (64 / MemoryLayout<Element>.stride &- 1))
        }
    }

    fileprivate func remove(_ place: Int) {
        var hole = place
        var place = next(hole)
        // SAFETY: places are inside; a quarter of the entries is free, so the walk ends.
        while unsafe !base[place].isFree {
            // It may move if its walk comes by the hole: if it begins there or before.
            let walked = distance(to: place, from: unsafe home(base[place].spread))
            if walked >= distance(to: place, from: hole) {
                unsafe base[hole] = base[place]
                hole = place
            }
            place = next(place)
        }
        unsafe UnsafeMutableRawPointer(base + hole).initializeMemory(
            as: UInt8.self, repeating: 0, count: MemoryLayout<Element>.stride)
    }

    private func distance(to place: Int, from first: Int) -> Int {
        place >= first ? place - first : place + capacity - first
    }

    fileprivate func put(_ entry: Element) -> UnsafeMutablePointer<Element> {
        var place = home(entry.spread)
        // SAFETY: the place is inside; a quarter of the entries is free, so the walk ends.
        while unsafe !base[place].isFree { place = next(place) }
        unsafe base[place] = entry
        return unsafe base + place
    }
}

/// A cache line of a table, as long as nothing is inserted into that or moved in it.
@safe struct CacheLine {
    fileprivate let address: UnsafeRawPointer

    /// SAFETY (caller): eight bytes from the address on lie on one line, and are readable.
    @inline(__always)
    @unsafe init(_ address: UnsafeRawPointer) { unsafe self.address = address }

    /// Starts its load.
    @inline(__always)
    func prefetch() { unsafe ingest_prefetch(address) }
}

/// Cache lines that will be looked at soon, to be loaded all together. Owned by one stage.
///
/// Where the loads stand behind each other, with nothing between them, most misses are under way at once: a CPU has room
/// for some hundred instructions behind the first load that it waits for (docs/decisions/0060-loads-ahead.md).
@safe struct LineBatch: ~Copyable {
    private let lines: UnsafeMutablePointer<CacheLine>
    private(set) var count = 0
    /// Lines that are loaded together at most.
    static var capacity: Int { 2_048 }

    init() { unsafe lines = .allocate(capacity: Self.capacity) }

    deinit { unsafe lines.deallocate() }

    /// Adds a line; a full batch is loaded first.
    ///
    /// SAFETY (caller): as `load`.
    @inline(__always)
    @unsafe mutating func add(_ line: CacheLine) {
        if count == Self.capacity { unsafe load() }
        // SAFETY: there is room.
        unsafe lines[count] = line
        count &+= 1
    }

    /// Loads all of them, and is empty again.
    ///
    /// SAFETY (caller): since they were added nothing was inserted into their tables or moved in them.
    @inline(never)
    @unsafe mutating func load() {
        // SAFETY: so many were added.
        for index in 0..<count { unsafe ingest_touch(lines[index].address) }
        count = 0
    }
}
