// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import CIngestLinux
import IngestFormat

/// The counters of one day that nearly all rows add to, dense by key: a word of eight lanes of a byte each. A lane that
/// comes to 128 is moved to the key's slot, where the few rows of other days, with money or with a rare counter are added
/// in the first place.
///
/// **Layout** `words`: the lane of `CountingTable.hotColumns[i]` in bits 8 i to 8 i + 7.
/// **Cost** 8 bytes a key ordinal up to the largest seen; one access to memory a row, where a head and a slot were two. Of
/// a million keys, uniform, alone on the machine: fold 11.1 → 3.5 ns a row, the seal's pass over the keys 15.7 → 5 ns a
/// row; in the daemon beside load fold 10 to 11 → 6 ns an event.
@safe struct DayLanes: ~Copyable {
    /// What every lane stays below between rows; a row adds at most 1 to each.
    static let fullBits: UInt64 = 0x8080_8080_8080_8080

    private var memory = LineMemory<UInt64>()
    /// Words beyond are 0.
    private(set) var count = 0
    /// Words that are not 0.
    var nonzeroCount = 0
    /// The day of all lanes; `nil` as long as there are no rows.
    var day: Int32?
    /// The rows of a block that are added to slots.
    let slotRows = UnsafeMutablePointer<UInt16>.allocate(capacity: BlockRows.capacity)

    /// For the rows of a page on their way: the word of each that is in lanes, the slot of each other one.
    let rowWords = UnsafeMutablePointer<UInt64>.allocate(capacity: CounterPage.capacity)
    let rowSlots = UnsafeMutablePointer<UInt32>.allocate(capacity: CounterPage.capacity)

    var words: UnsafeMutablePointer<UInt64> { unsafe memory.base }

    init() { memory.reserveZeros(2, keeping: 0) }

    deinit {
        unsafe slotRows.deallocate()
        unsafe rowWords.deallocate()
        unsafe rowSlots.deallocate()
    }

    /// Makes room for keys below `keyCount`.
    mutating func reserve(_ keyCount: Int) {
        guard keyCount > count else { return }
        memory.reserveZeros(keyCount, keeping: count)
        count = keyCount
    }

    /// Forgets everything; the memory stays.
    mutating func removeAll() {
        // SAFETY: there is memory for count words.
        unsafe words.update(repeating: 0, count: count)
        (count, nonzeroCount, day) = (0, 0, nil)
    }

    /// The day that most rows of a block have, if one has more than half of them; else any of them.
    static func mostFrequentDay(_ rows: BlockRows) -> Int32 {
        var (day, lead) = (Int32(0), 0)
        for i in 0..<rows.rowCount {
            // SAFETY: all columns have room for capacity rows, which bounds the count.
            let next = unsafe rows.day[i]
            if lead == 0 { day = next }
            lead &+= next == day ? 1 : -1
        }
        return day
    }

    /// The lanes of a word.
    @inline(__always)
    static func lanes(_ word: UInt64) -> SIMD8<UInt32> {
        SIMD8<UInt32>(truncatingIfNeeded: unsafe unsafeBitCast(word, to: SIMD8<UInt8>.self))
    }
}

extension CounterSlots {
    /// Adds those rows of a block to the lanes that they have: of the lanes' day, without money and rare counters.
    ///
    /// Which rows these are cannot be foretold, so there is no branch on it: the others add 0, and are noted. Beside
    /// load a word comes from memory in the time that some 60 rows take: fetched 24 rows ahead, a row took 3 ns more.
    /// - Returns: how many others there are, in `lanes.slotRows`.
    mutating func addLanes(_ rows: BlockRows, of day: Int32, by table: CountingTable) -> Int {
        let keys = unsafe UnsafePointer(rows.key)
        let days = unsafe UnsafePointer(rows.day)
        let attributes = unsafe UnsafePointer(rows.attributes)
        let (words, slotRows) = unsafe (lanes.words, lanes.slotRows)
        let (classes, additions) = unsafe (table.classes, table.additions)
        let last = rows.rowCount &- 1
        var (slotRowCount, newCount) = (0, 0)
        for i in 0...last {
            // SAFETY: there is a word for every key of the block, and room for a number a row.
            unsafe ingest_prefetch(words + Int(keys[min(i &+ 64, last)]))
            let bits = unsafe attributes[i]
            let found = unsafe additions[Int(classes[CountingTable.index(bits)])]
            let isOfLanes = unsafe days[i] == day && bits & RowAttributes.money == 0
            let addition = isOfLanes ? found : 0
            unsafe slotRows[slotRowCount] = UInt16(truncatingIfNeeded: i)
            slotRowCount &+= addition == 0 ? 1 : 0
            let place = unsafe words + Int(keys[i])
            let word = unsafe place.pointee
            let sum = word &+ addition
            newCount &+= word == 0 && addition != 0 ? 1 : 0
            unsafe place.pointee = sum
            if sum & DayLanes.fullBits != 0 {
                unsafe moveLanes(of: keys[i], day: day)
                newCount &-= 1
            }
        }
        lanes.nonzeroCount &+= newCount
        return slotRowCount
    }

    /// Moves the lanes of a key to its slot; `reserve` has made room for that.
    @inline(never)
    mutating func moveLanes(of key: UInt32, day: Int32) {
        let slot = slot(at: Slot.place(key: key, day: day))
        // SAFETY: `slot` gives one of ours, and there is a word for each key.
        unsafe slots[Int(slot)].hot &+= DayLanes.lanes(lanes.words[Int(key)])
        unsafe lanes.words[Int(key)] = 0
    }
}
