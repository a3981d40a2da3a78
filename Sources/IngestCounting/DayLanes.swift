// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import CIngestLinux
import IngestFormat

/// The counters of one day that nearly all rows add to, dense by key: a word of eight lanes of a byte each. A lane that
/// comes to 128 is moved to the key's slot, where the few rows of other days, with money or with a rare counter are added
/// in the first place.
///
/// **Layout** `words`: the lane of `CountingTable.hotColumns[i]` in bits 8 i to 8 i + 7.
/// **Cost** 8 bytes a key ordinal up to the largest seen; one access to memory a row, where a head and a slot were two. Of
/// a million keys, uniform, alone on the machine: fold 11.1 → 3.2 ns a row, the seal's pass over the keys 15.7 → 5 ns a
/// row; in the daemon beside load fold 10 to 11 → 5 ns an event.
@safe struct DayLanes: ~Copyable {
    /// What every lane stays below between rows; a row adds at most 1 to each.
    static let fullBits: UInt64 = 0x8080_8080_8080_8080

    private var memory = LineMemory<UInt64>()
    /// Words beyond are 0.
    private(set) var count = 0
    /// The day of all lanes, which the first block decides for the segment; `nil` as long as there are no rows. Where most
    /// later rows are of another day, they cost what rows in slots do.
    var day: Int32?
    /// The rows of a block that are added to slots.
    let slotRows = UnsafeMutablePointer<UInt16>.allocate(capacity: BlockRows.capacity)
    /// What a part of a block's rows add to the words of their keys.
    let additions = UnsafeMutablePointer<UInt64>.allocate(capacity: Self.partRowCount)
    static var partRowCount: Int { 256 }
    /// For the rows of a page on their way: the word of each that is in lanes, the slot of each other one.
    let rowWords = UnsafeMutablePointer<UInt64>.allocate(capacity: CounterPage.capacity)
    let rowSlots = UnsafeMutablePointer<UInt32>.allocate(capacity: CounterPage.capacity)

    var words: UnsafeMutablePointer<UInt64> { unsafe memory.base }

    init() { memory.reserveZeros(2, keeping: 0) }

    deinit {
        unsafe slotRows.deallocate()
        unsafe additions.deallocate()
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
        (count, day) = (0, nil)
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
    /// A part of the rows after the other: first what each adds is found, and the word fetched that it is added to;
    /// beside load that takes as long as some 60 rows.
    /// - Returns: how many others there are, in `lanes.slotRows`.
    mutating func addLanes(_ rows: BlockRows, of day: Int32, by table: CountingTable) -> Int {
        var (first, slotRowCount) = (0, 0)
        let rowCount = rows.rowCount
        while first < rowCount {
            let part = first..<min(first &+ DayLanes.partRowCount, rowCount)
            slotRowCount = planAdditions(part, of: rows, day, table, slotRowCount)
            addPlanned(part, of: rows, day)
            first = part.upperBound
        }
        return slotRowCount
    }

    /// Finds what rows add to the words of their keys. Which of them have to be added to slots would often be mispredicted, so
    /// that there is no branch on it: these add 0, and are noted.
    /// - Returns: how many have been noted.
    @inline(__always)
    private func planAdditions(
        _ part: Range<Int>, of rows: BlockRows, _ day: Int32, _ table: CountingTable,
        _ slotRowCount: Int
    ) -> Int {
        let (keys, days) = unsafe (UnsafePointer(rows.key), UnsafePointer(rows.day))
        let attributes = unsafe UnsafePointer(rows.attributes)
        let (words, slotRows) = unsafe (UnsafePointer(lanes.words), lanes.slotRows)
        let (known, additions) = unsafe (UnsafePointer(table.additions), lanes.additions)
        var slotRowCount = slotRowCount
        for i in part {
            // SAFETY: there is a word for every key of the block, and room for a number a row and for what a
            // part adds.
            unsafe ingest_prefetch(words + Int(keys[i]))
            let bits = unsafe attributes[i]
            let isOfLanes = unsafe days[i] == day && bits & RowAttributes.money == 0
            let addition = unsafe isOfLanes ? known[CountingTable.index(bits)] : 0
            unsafe additions[i &- part.lowerBound] = addition
            unsafe slotRows[slotRowCount] = UInt16(truncatingIfNeeded: i)
            slotRowCount &+= addition == 0 ? 1 : 0
        }
        return slotRowCount
    }

    @inline(__always)
    private mutating func addPlanned(_ part: Range<Int>, of rows: BlockRows, _ day: Int32) {
        let keys = unsafe UnsafePointer(rows.key)
        let (words, additions) = unsafe (lanes.words, lanes.additions)
        for i in part {
            // SAFETY: as above.
            let key = unsafe keys[i]
            let sum = unsafe words[Int(key)] &+ additions[i &- part.lowerBound]
            unsafe words[Int(key)] = sum
            if sum & DayLanes.fullBits != 0 { moveLanes(of: key, day: day) }
        }
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
