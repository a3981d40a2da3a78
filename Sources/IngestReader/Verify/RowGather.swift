// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.

import IngestFormat
import Synchronization

/// Rows on their way into a tally: one number each, sorted by place when there are enough of them, and counted then.
/// So the counters are written one after the other, however many keys and days there are, where a table of all of
/// them would miss the caches for each row. Owned by one thread at a time.
///
/// **Layout** A row's *code*: item in bits 39–63, day + 1 in 22–38, in 0–21 the kind of row, or 2^21 + place in
/// `specials`. Codes lie in chunks of 128, those of a chunk in the same *part*: the items of a stretch.
///
/// `@unchecked`: handed from thread to thread under the locks of `StretchWork` and `GatherPool`.
///
/// **Cost** 8 bytes a row, for up to `rowCountMax` rows; sorting and counting 4 to 8 ns each.
@safe final class RowGather: @unchecked Sendable {
    /// What a row does that is of no kind with a number in the line, or has money.
    struct Special: BitwiseCopyable {
        /// In the line, if any.
        var kind: UInt8?
        var isUnlined = false
        /// One is added to each.
        var columns = CounterColumnSet()
        var revenue: UInt64 = 0
        var spend: UInt64 = 0
    }

    enum Code {
        static let itemShift: UInt64 = 39
        static let dayShift: UInt64 = 22
        static let special: UInt64 = 1 << 21
        /// Bits of kind or special.
        static let payload: UInt64 = 1 << 22 - 1
    }

    /// Rows that are sorted at a time.
    static let rowCountMax = 1 << 24
    static let partCount = 1 << 10
    private static let chunk = 1 << 7
    /// With chunks that are not full, of each part.
    private static let codeCountMax = rowCountMax + (2 * partCount + 2) * chunk

    private(set) var codes = SequentialMemory<UInt64>()
    /// By part: behind its last code; a multiple of `chunk` if another chunk is to be begun.
    private(set) var ends = SequentialMemory<UInt32>(capacity: partCount)
    /// By chunk: the last code of the one before of the same part, or 0.
    private var chunksBefore = SequentialMemory<UInt32>()
    /// Behind the last chunk. The first one is not used.
    private var nextChunk = chunk
    private var rowCount = 0
    private var specials: [Special] = []
    private var sorted = TallyStack()
    private var sorter = CodeSorter()
    /// An item's part is its upper bits.
    let itemShift: UInt32
    private weak var pool: GatherPool?

    /// - Parameter itemCount: of the directory, about.
    init(itemCount: Int, pool: GatherPool? = nil) {
        let width = Int.bitWidth - max(0, itemCount - 1).leadingZeroBitCount
        itemShift = UInt32(max(0, width - Self.partCount.trailingZeroBitCount))
        self.pool = pool
        unsafe ends.base.initialize(repeating: 0, count: Self.partCount)
    }

    // MARK: Rows

    /// Makes sure that so many rows can be added without a look at the memory's end.
    func prepare(rowCount: Int) {
        precondition(rowCount <= Self.rowCountMax)
        if self.rowCount + rowCount > Self.rowCountMax
            || specials.count + rowCount > Int(Code.special)
        {
            sort()
        }
        let needed = nextChunk + rowCount + (Self.partCount + 1) * Self.chunk
        if needed > codes.capacity {
            // Where there are many rows more will come: what is not touched costs nothing, to move codes does.
            let needed = needed > 1 << 20 ? Self.codeCountMax : 2 * needed
            codes.reserve(needed, keeping: min(nextChunk, codes.capacity))
            let kept = min(nextChunk / Self.chunk, chunksBefore.capacity)
            chunksBefore.reserve(codes.capacity / Self.chunk, keeping: kept)
        }
        self.rowCount += rowCount
    }

    /// Begins a chunk.
    /// - Parameter end: of the part.
    /// - Returns: where its first code belongs.
    @inline(never)
    func beginChunk(behind end: UInt32) -> UInt32 {
        let start = nextChunk
        precondition(start + Self.chunk <= codes.capacity)
        // SAFETY: chunks below the capacity of `codes` have a place; `prepare` keeps both the same.
        unsafe chunksBefore.base[start / Self.chunk] = end
        nextChunk += Self.chunk
        return UInt32(start)
    }

    static func isChunkEnd(_ end: UInt32) -> Bool { end & UInt32(chunk - 1) == 0 }

    func part(of item: UInt32) -> Int { min(Int(item &>> itemShift), Self.partCount &- 1) }

    /// Adds a row that is prepared for.
    func add(_ special: Special, item: UInt32, day: Int32) {
        let code =
            UInt64(item) << Code.itemShift | UInt64(UInt32(bitPattern: day &+ 1)) << Code.dayShift
            | Code.special | UInt64(specials.count)
        specials.append(special)
        let part = part(of: item)
        // SAFETY: the part is below partCount, the end below the capacity.
        var end = unsafe ends.base[part]
        if Self.isChunkEnd(end) { end = beginChunk(behind: end) }
        unsafe codes.base[Int(end)] = code
        unsafe ends.base[part] = end + 1
    }

    // MARK: Counters

    /// The counters of all rows since the last time; the gather goes back to where it came from.
    func finish() -> Tally {
        sort()
        let tally = sorted.sum
        sorted = TallyStack()
        pool?.give(self)
        return tally
    }

    private func sort() {
        guard nextChunk > Self.chunk else { return }
        var builder = TallyBuilder(capacity: nextChunk)
        for part in 0..<Self.partCount {
            // SAFETY: below partCount.
            let end = unsafe ends.base[part]
            guard end != 0 else { continue }
            unsafe ends.base[part] = 0
            load(endingAt: Int(end), into: &sorter)
            sorter.sort()
            builder.append(&sorter, specials)
        }
        sorted.add(builder.finish())
        nextChunk = Self.chunk
        rowCount = 0
        specials.removeAll(keepingCapacity: true)
    }

    /// Hands over the codes of a part.
    private func load(endingAt end: Int, into sorter: inout CodeSorter) {
        var end = end
        sorter.removeAll()
        while end > 0 {
            let start = (end - 1) / Self.chunk * Self.chunk
            // SAFETY: a chunk's codes up to the end were written.
            unsafe sorter.add(codes.base + start, count: end - start)
            end = Int(unsafe chunksBefore.base[start / Self.chunk])
        }
    }
}

/// The codes of some rows, put in the order of their places.
@safe struct CodeSorter: ~Copyable {
    private var sorter = WordSorter()
    /// The least item and the least day: subtracted from all, so that few bits are left to sort by.
    private(set) var base: UInt64 = 0

    private typealias Code = RowGather.Code
    private static let dayMask: UInt64 = 1 << 17 - 1

    var count: Int { sorter.count }
    var codes: UnsafePointer<UInt64> { unsafe UnsafePointer(sorter.words) }

    mutating func removeAll() { sorter.removeAll() }

    mutating func add(_ codes: UnsafePointer<UInt64>, count: Int) {
        unsafe sorter.append(codes, count: count)
    }

    /// Sorts by item and day.
    mutating func sort() {
        let codes = unsafe sorter.words
        var (items, days, bits) = (UInt64.max, UInt64.max, UInt64(0))
        for index in 0..<count {
            // SAFETY: below count.
            let code = unsafe codes[index]
            items = min(items, code &>> Code.itemShift)
            days = min(days, code &>> Code.dayShift & Self.dayMask)
        }
        base = count == 0 ? 0 : items << Code.itemShift | days << Code.dayShift
        for index in 0..<count {
            let code = unsafe codes[index] &- base
            unsafe codes[index] = code
            bits |= code
        }
        let (dayBits, itemBits) = (bits &>> Code.dayShift & Self.dayMask, bits &>> Code.itemShift)
        sorter.sort(
            bitsFrom: Code.dayShift, width: UInt64.bitWidth - dayBits.leadingZeroBitCount)
        sorter.sort(
            bitsFrom: Code.itemShift, width: UInt64.bitWidth - itemBits.leadingZeroBitCount)
    }
}

extension TallyBuilder {
    /// Adds the rows of sorted codes, of places behind the others; there is room for as many places.
    mutating func append(_ sorter: inout CodeSorter, _ specials: [RowGather.Special]) {
        let codes = unsafe sorter.codes
        precondition(count + sorter.count <= memory.capacity)
        var place = UInt64.max
        var done = 0
        while done < sorter.count {
            // Short of what makes a number of a line that was begun before reach the next one.
            let end = min(sorter.count, done + 1 << 14)
            let begun = place == .max ? nil : count - 1
            unsafe append(codes, done..<end, base: sorter.base, &place, specials)
            if let begun, line(at: begun).isLarge { carry(at: begun) }
            done = end
        }
    }

    private mutating func append(
        _ codes: UnsafePointer<UInt64>, _ rows: Range<Int>, base: UInt64, _ last: inout UInt64,
        _ specials: [RowGather.Special]
    ) {
        typealias Code = RowGather.Code
        let lines = unsafe self.base
        let lanes = unsafe UnsafeMutableRawPointer(lines).assumingMemoryBound(to: UInt16.self)
        for index in rows {
            // SAFETY: codes up to the sorter's count are there; each makes one line at most, for which there is
            // room; a payload without the special bit is a kind that has a number in the line.
            let code = unsafe codes[index]
            let place = code & ~Code.payload
            if place != last {
                last = place
                let whole = place &+ base
                let order =
                    (whole &>> Code.itemShift) &<< 32
                    &+ (whole &>> Code.dayShift & 0x1_FFFF) &+ 0x7FFF_FFFF
                unsafe lines[count] = Tally.Line(order: order)
                count &+= 1
            }
            let payload = code & Code.payload
            if payload < Code.special {
                let lane = (count &- 1) &* 16 &+ 6 &+ Int(truncatingIfNeeded: payload)
                unsafe lanes[lane] &+= 1
            } else {
                add(specials[Int(payload & ~Code.special)])
            }
        }
    }

    /// Adds a row to the last place.
    private mutating func add(_ special: RowGather.Special) {
        let index = count - 1
        if let kind = special.kind {
            var line = line(at: index)
            line.set(Int(kind), to: UInt16(truncatingIfNeeded: line.rowCount(Int(kind)) + 1))
            set(line, at: index)
        }
        if special.isUnlined { add(unlined: 1, at: index) }
        if !special.columns.isEmpty {
            for column in CounterColumn.allCases where special.columns.contains(column) {
                add(1, to: column.rawValue, at: index)
            }
        }
        add(special.revenue, to: CounterColumn.revenueMicros.rawValue, at: index)
        add(special.spend, to: CounterColumn.spendMicros.rawValue, at: index)
    }
}

/// Gathers that nobody uses, so that their memory is taken once. Shared by the threads of a `verify`.
final class GatherPool: Sendable {
    private let itemCount: Int
    private let countMax: Int
    private let free = Mutex<[RowGather]>([])

    /// - Parameters:
    ///   - itemCount: of the directory, about.
    ///   - countMax: of those that wait.
    init(itemCount: Int, countMax: Int) {
        self.itemCount = itemCount
        self.countMax = countMax
    }

    func take() -> RowGather {
        free.withLock { $0.popLast() } ?? RowGather(itemCount: itemCount, pool: self)
    }

    func give(_ gather: RowGather) {
        free.withLock { if $0.count < countMax { $0.append(gather) } }
    }
}
