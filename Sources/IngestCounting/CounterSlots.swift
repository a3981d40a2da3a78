// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
import CIngestLinux
import IngestFormat

/// The memory of `SegmentCounters`: where the slot of a (key, day) is. A struct, so that the loop over rows
/// has one exclusive access to it a block and none a row.
///
/// **Layout** `lanes` have most rows of one day. Of the others `heads`, dense by key, leads to the slot of the
/// day that the key was last seen with. A *slot*
/// is one cache line: key, day, money and the eight counters that nearly all rows add to. The others
/// have a *rare* line of their own, taken with the first row that needs it. The slots of a key with several
/// days form a ring, and `days` finds them by (key, day).
///
/// **Cost** 12 bytes a key ordinal up to the largest seen, 64 bytes a (key, day) pair that lanes do not hold all of.
/// Memory is kept.
@safe struct CounterSlots: ~Copyable {
    /// One (key, day): 64 bytes, a cache line. Slot 0 is none.
    struct Slot: BitwiseCopyable {
        /// The key in the lower half, the day's bits in the upper: compared as one integer.
        var place: UInt64 = .max
        /// The next slot of the same key; itself if there is one day.
        var next: UInt32 = 0
        /// The rare line; 0 = none.
        var rare: UInt32 = 0
        var revenue: UInt64 = 0
        var spend: UInt64 = 0
        /// By `CountingTable.hotColumns`. 32 bits, as a segment has fewer rows.
        var hot: SIMD8<UInt32> = SIMD8(repeating: 0)

        @inline(__always)
        static func place(key: UInt32, day: Int32) -> UInt64 {
            UInt64(UInt32(bitPattern: day)) << 32 | UInt64(key)
        }
        var key: UInt32 { UInt32(truncatingIfNeeded: place) }
        var day: Int32 { Int32(truncatingIfNeeded: place >> 32) }
    }
    /// By `CountingTable.rareColumns`; the last lanes are unused.
    typealias RareLine = SIMD16<UInt32>

    var lanes = DayLanes()
    private var headMemory = LineMemory<UInt32>()
    /// Heads beyond are 0. There are as many lanes.
    private(set) var headCount = 0
    private var slotMemory = LineMemory<Slot>()
    /// One more than the pairs: slot 0 is none.
    private(set) var slotCount = 1
    private var rareMemory = LineMemory<RareLine>()
    var rareCount = 1
    private var days = OrderTable()
    let offsets = CounterColumnOffsets()

    var heads: UnsafeMutablePointer<UInt32> { unsafe headMemory.base }
    var slots: UnsafeMutablePointer<Slot> { unsafe slotMemory.base }
    var rareLines: UnsafeMutablePointer<RareLine> { unsafe rareMemory.base }

    init() {
        headMemory.reserveZeros(2, keeping: 0)
        // SAFETY: room for one each. Slot 0 is read for keys that have none; its place is no row's.
        unsafe slotMemory.base.initialize(to: Slot())
        unsafe rareMemory.base.initialize(to: RareLine(repeating: 0))
    }

    /// Forgets everything; the memory stays.
    mutating func removeAll() {
        lanes.removeAll()
        // SAFETY: there are headCount heads.
        if slotCount > 1 { unsafe heads.update(repeating: 0, count: headCount) }
        headCount = 0
        slotCount = 1
        rareCount = 1
        days.removeAll()
    }

    /// Makes room for keys up to `keyMax`, and for `rowCount` further slots and rare lines, so that no
    /// pointer moves while as many rows are added. What is reserved and not used is address space.
    mutating func reserve(keyMax: Int, rowCount: Int) {
        if keyMax >= headCount {
            headMemory.reserveZeros(keyMax + 1, keeping: headCount)
            lanes.reserve(keyMax + 1)
            headCount = keyMax + 1
        }
        slotMemory.reserve(slotCount + rowCount, keeping: slotCount)
        rareMemory.reserve(rareCount + rowCount, keeping: rareCount)
    }

    /// The slot of a (key, day), made if there is none. Within what `reserve` has made room for.
    @inline(__always)
    mutating func slot(at place: UInt64) -> UInt32 {
        let key = Int(UInt32(truncatingIfNeeded: place))
        precondition(key < headCount)
        // SAFETY: key < headCount; heads lead to slots.
        let number = unsafe heads[key]
        return unsafe slots[Int(number)].place == place ? number : enter(place)
    }

    /// The slot of a (key, day) that the key's head does not lead to, made if there is none; the head
    /// leads to it from now on. Within what `reserve` has made room for.
    @inline(never)
    mutating func enter(_ place: UInt64) -> UInt32 {
        let key = Int(UInt32(truncatingIfNeeded: place))
        precondition(key < headCount && slotCount < slotMemory.capacity)
        // SAFETY: key < headCount; heads lead to slots below slotCount.
        let head = unsafe heads[key]
        if head == 0 { return append(place, after: nil) }
        // Around midnight keys have two days, and the other one is next in the ring.
        let next = unsafe slots[Int(head)].next
        let found = unsafe slots[Int(next)].place == place ? next : days.slot(of: place)
        if found != 0 {
            unsafe heads[key] = found
            return found
        }
        if next == head {
            unsafe days.insert(slots[Int(head)].place, slot: head)
        }
        let slot = append(place, after: head)
        days.insert(place, slot: slot)
        return slot
    }

    private mutating func append(_ place: UInt64, after head: UInt32?) -> UInt32 {
        let slot = UInt32(truncatingIfNeeded: slotCount)
        // SAFETY: there is room for a slot, and the key is below headCount, both checked by `enter`.
        unsafe slots[Int(slot)] = Slot(place: place, next: slot)
        if let head {
            unsafe slots[Int(slot)].next = slots[Int(head)].next
            unsafe slots[Int(head)].next = slot
        }
        unsafe heads[Int(UInt32(truncatingIfNeeded: place))] = slot
        slotCount += 1
        return slot
    }
}

// MARK: Rows to slots. A block is checked as a whole first, so that the loop needs no checks and a block is
// folded whole or not at all.

/// What the loop over a block's rows relies on.
///
/// **Cost** Plain loops over whole columns: half a nanosecond a row.
struct BlockShape {
    private(set) var keyMax: UInt32 = 0
    /// Whether every row is of a type, verdict, consent and format, and has its money.
    private(set) var isValid = true
    private(set) var revenue: UInt64 = 0
    private(set) var spend: UInt64 = 0
    private(set) var moneyOverflows = false

    init(_ rows: BlockRows) {
        precondition(rows.rowCount >= 0 && rows.rowCount <= BlockRows.capacity)
        precondition(rows.moneyCount >= 0 && rows.moneyCount <= BlockRows.capacity)
        let keys = unsafe UnsafePointer(rows.key)
        // SAFETY: all columns have room for capacity rows, which bounds both counts.
        for i in 0..<rows.rowCount { unsafe keyMax = max(keyMax, keys[i]) }
        let tally = unsafe AttributeTally(rows.attributes, count: rows.rowCount)
        isValid = tally.areAllValid && tally.moneyCount == rows.moneyCount
        readMoney(rows)
    }

    private mutating func readMoney(_ rows: BlockRows) {
        var signs: Int64 = 0
        for i in 0..<rows.moneyCount {
            // SAFETY: as above.
            let amounts = unsafe (revenue: rows.revenue[i], spend: rows.spend[i])
            signs |= amounts.revenue | amounts.spend
            let first = revenue.addingReportingOverflow(UInt64(bitPattern: amounts.revenue))
            let second = spend.addingReportingOverflow(UInt64(bitPattern: amounts.spend))
            revenue = first.partialValue
            spend = second.partialValue
            moneyOverflows = moneyOverflows || first.overflow || second.overflow
        }
        isValid = isValid && signs >= 0
    }
}

extension CounterSlots {
    /// Adds all rows of a block of that shape. No sum can overflow: counts stay below 2^32 as the rows
    /// of a segment do, and the money of all rows together was found to fit.
    mutating func add(_ rows: BlockRows, _ shape: BlockShape, by table: CountingTable) {
        guard rows.rowCount > 0 else { return }
        reserve(keyMax: Int(shape.keyMax), rowCount: rows.rowCount)
        let day = lanes.day ?? DayLanes.mostFrequentDay(rows)
        lanes.day = day
        let count = addLanes(rows, of: day, by: table)
        if count > 0 { addSlots(rows, count: count, by: table) }
    }

    /// Adds the first `count` of `lanes.slotRows`, all rows with money among them.
    private mutating func addSlots(_ rows: BlockRows, count: Int, by table: CountingTable) {
        let keys = unsafe UnsafePointer(rows.key)
        let days = unsafe UnsafePointer(rows.day)
        let attributes = unsafe UnsafePointer(rows.attributes)
        let money = unsafe (revenue: rows.revenue, spend: rows.spend)
        let (heads, slots, rareLines) = unsafe (heads, slots, rareLines)
        let (classes, hot, rare) = unsafe (table.classes, table.hot, table.rare)
        let hasRare = unsafe table.hasRare
        let slotRows = unsafe lanes.slotRows
        let last = count &- 1
        var moneyPlace = 0
        for place in 0...last {
            // SAFETY: `reserve` made room for every key of the block and for a slot and a rare line a
            // row, so nothing moves in the loop; rows and money are as the shape found them.
            // A slot comes from memory in the time that some 30 rows take, its head before and its rare line
            // after it.
            unsafe ingest_prefetch(heads + Int(keys[Int(slotRows[min(place &+ 64, last)])]))
            let soon = unsafe Int(slotRows[min(place &+ 32, last)])
            unsafe ingest_prefetch(slots + Int(heads[Int(keys[soon])]))
            let next = unsafe Int(slotRows[min(place &+ 16, last)])
            unsafe ingest_prefetch(rareLines + Int(slots[Int(heads[Int(keys[next])])].rare))
            let i = unsafe Int(slotRows[place])
            let bits = unsafe attributes[i]
            let slot = unsafe slots + Int(slot(at: Slot.place(key: keys[i], day: days[i])))
            let rowClass = unsafe Int(classes[CountingTable.index(bits)])
            unsafe slot.pointee.hot &+= hot[rowClass]
            if unsafe hasRare[rowClass] {
                if unsafe slot.pointee.rare == 0 {
                    unsafe rareLines[rareCount] = RareLine(repeating: 0)
                    unsafe slot.pointee.rare = UInt32(truncatingIfNeeded: rareCount)
                    rareCount &+= 1
                }
                unsafe rareLines[Int(slot.pointee.rare)] &+= rare[rowClass]
            }
            if bits & RowAttributes.money != 0 {
                if bits & RowAttributes.verdictMask == 0 {
                    unsafe slot.pointee.revenue &+= UInt64(bitPattern: money.revenue[moneyPlace])
                    unsafe slot.pointee.spend &+= UInt64(bitPattern: money.spend[moneyPlace])
                }
                moneyPlace &+= 1
            }
        }
    }
}

/// (key, day) as one integer → a slot number: an open table, for the pairs that a dense array does not
/// lead to. Its seed is random, so that days sent on purpose cannot be made to collide; nothing that is
/// written depends on it.
///
/// **Cost** 32 to 64 bytes a place, four times as much while it is small and `spread` is 8; about one miss a lookup.
@safe struct OrderTable: ~Copyable {
    private struct Entry: BitwiseCopyable {
        var order: UInt64 = 0
        /// 0 = free.
        var slot: UInt32 = 0
    }

    private var entries: UnsafeMutablePointer<Entry>
    private var capacity: Int
    private let spread: Int
    private(set) var count = 0
    private let seed: UInt64

    /// Entries up to which there are `spread` a place: a mebibyte. A larger table is out of the first-level caches anyway.
    private static var spreadEntryCountMax: Int { 1 << 16 }

    /// - Parameter spread: entries a place as long as the table is small, then 2. With 2 one look-up in three goes on to a
    ///   second entry, a branch that is often mispredicted; with 8 one in sixteen (by calculation).
    init(spread: Int = 2) {
        self.init(capacity: 64, spread: spread, seed: UInt64.random(in: 0...UInt64.max))
    }

    private init(capacity: Int, spread: Int, seed: UInt64) {
        (self.capacity, self.spread, self.seed) = (capacity, spread, seed)
        unsafe entries = .allocate(capacity: capacity)
        unsafe entries.initialize(repeating: Entry(), count: capacity)
    }

    deinit { unsafe entries.deallocate() }

    /// The slot of `order`, 0 if there is none.
    func slot(of order: UInt64) -> UInt32 {
        // SAFETY: place is below capacity.
        unsafe entries[place(of: order)].slot
    }

    /// Adds an order that is not there yet.
    mutating func insert(_ order: UInt64, slot: UInt32) {
        let spread = capacity < Self.spreadEntryCountMax ? spread : 2
        if spread * (count + 1) > capacity { grow() }
        // SAFETY: place is below capacity.
        unsafe entries[place(of: order)] = Entry(order: order, slot: slot)
        count += 1
    }

    /// Forgets everything; the memory stays.
    mutating func removeAll() {
        guard count > 0 else { return }
        unsafe entries.update(repeating: Entry(), count: capacity)
        count = 0
    }

    /// Where the order is, or would be put: at most half of the places are taken, so there is one.
    private func place(of order: UInt64) -> Int {
        let mask = capacity &- 1
        var place = Int(truncatingIfNeeded: hash(order)) & mask
        // SAFETY: place is below capacity, a power of two.
        while unsafe entries[place].slot != 0 && entries[place].order != order {
            place = (place &+ 1) & mask
        }
        return place
    }

    private func hash(_ order: UInt64) -> UInt64 { SplitMix.finish(order ^ seed) }

    private mutating func grow() {
        var larger = OrderTable(capacity: capacity * 2, spread: spread, seed: seed)
        for place in 0..<capacity {
            // SAFETY: place is below capacity.
            let entry = unsafe entries[place]
            if entry.slot != 0 { larger.insert(entry.order, slot: entry.slot) }
        }
        swap(&self, &larger)
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
