// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query
// The hot part: rows → slots. A block is looked through as a whole first, so that the loop needs no
// checks and a block is folded whole or not at all.
import CIngestLinux

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
        let keys = unsafe UnsafePointer(rows.key)
        let days = unsafe UnsafePointer(rows.day)
        let attributes = unsafe UnsafePointer(rows.attributes)
        let money = unsafe (revenue: rows.revenue, spend: rows.spend)
        let (heads, slots, rareLines) = unsafe (heads, slots, rareLines)
        let (classes, hot, rareLanes) = unsafe (table.classes, table.hot, table.rareLanes)
        let last = rows.rowCount &- 1
        var moneyPlace = 0
        for i in 0...last {
            // SAFETY: `reserve` made room for every key of the block and for a slot and a rare line a
            // row, so nothing moves in the loop; rows and money are as the shape found them.
            // A slot comes from memory in the time that some 30 rows take, and its head before it.
            unsafe ingest_prefetch(heads + Int(keys[min(i &+ 64, last)]))
            unsafe ingest_prefetch(slots + Int(heads[Int(keys[min(i &+ 32, last)])]))
            let bits = unsafe attributes[i]
            let key = unsafe keys[i]
            let place = unsafe Slot.place(key: key, day: days[i])
            var number = unsafe heads[Int(key)]
            if unsafe slots[Int(number)].place != place { number = enter(place) }
            let slot = unsafe slots + Int(number)
            let rowClass = unsafe Int(classes[CountingTable.index(bits)])
            unsafe slot.pointee.hot &+= hot[rowClass]
            let lane = unsafe rareLanes[rowClass]
            if lane != CountingTable.noLane {
                if unsafe slot.pointee.rare == 0 {
                    unsafe rareLines[rareCount] = RareLine(repeating: 0)
                    unsafe slot.pointee.rare = UInt32(truncatingIfNeeded: rareCount)
                    rareCount &+= 1
                }
                let line = unsafe UnsafeMutableRawPointer(rareLines + Int(slot.pointee.rare))
                unsafe line.assumingMemoryBound(to: UInt32.self)[Int(lane)] &+= 1
            }
            if bits & RowAttributes.money != 0 {
                if bits & 0x3C == 0 {
                    unsafe slot.pointee.revenue &+= UInt64(bitPattern: money.revenue[moneyPlace])
                    unsafe slot.pointee.spend &+= UInt64(bitPattern: money.spend[moneyPlace])
                }
                moneyPlace &+= 1
            }
        }
    }
}
