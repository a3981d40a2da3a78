// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters.
import IngestFormat

/// Sums of counters by (item, day): those of one window of items, or of all businesses. Sources are added one after
/// the other, each in its order; where they have the same rows, as footers of a steady load do, a row is found behind
/// the one before it without a search. Owned by one thread at a time, and handed on whole.
///
/// **Layout** A row is a *slot*: its order (item in the upper half, day + 2^31 in the lower), and a value in each
/// column that any row has. An open-addressing table leads from orders to slots.
///
/// **Cost** 12 bytes a slot and 8 for each column in use; 1 ns a value, 2 ns a row in the order of another source, 10 ns
/// else.
@safe final class RowSums: @unchecked Sendable {
    static let columnCount = CounterRow.columnCount
    /// The order of an item without a day.
    static let dayMask: UInt64 = 0xFFFF_FFFF
    static let noDay: UInt64 = 0x8000_0000

    private(set) var count = 0
    /// Whether slots ascend by order.
    private(set) var isAscending = true
    /// All slots by order, if there are as many.
    private var sorted: [Int] = []
    /// Whether rows of an item are summed over all days.
    var foldsDays = false
    /// Columns in which a value may be other than 0.
    private(set) var columns: UInt32 = 0
    /// By slot: a bit for each column whose sum passed 64 bits, so that what stands there is not the sum.
    private(set) var overflows: [Int: UInt32] = [:]

    private(set) var orders: UnsafeMutablePointer<UInt64>
    private var values: [UnsafeMutablePointer<UInt64>?]
    private var capacity: Int
    /// By hash of an order: its slot + 1; 0 = free.
    private var table: UnsafeMutablePointer<UInt32>
    private var tableMask: Int { 2 &* capacity &- 1 }
    /// The slot behind the last that was found.
    private var next = 0
    private let slots: UnsafeMutablePointer<UInt32>

    /// - Parameter capacity: slots, a power of two; it grows.
    init(capacity: Int = 1 << 10) {
        // SAFETY, of all uses: `orders` and each column hold `capacity` values, `table` twice as many, `slots` a
        // page's; a slot is below count, which `slot(of:)` keeps at or below the capacity.
        self.capacity = capacity
        unsafe orders = .allocate(capacity: capacity)
        unsafe values = Array(repeating: nil, count: Self.columnCount)
        unsafe table = .allocate(capacity: 2 * capacity)
        unsafe table.initialize(repeating: 0, count: 2 * capacity)
        unsafe slots = .allocate(capacity: CounterPage.capacity)
    }

    deinit {
        unsafe orders.deallocate()
        for column in 0..<Self.columnCount { unsafe values[column]?.deallocate() }
        unsafe table.deallocate()
        unsafe slots.deallocate()
    }

    /// Empties it; the memory stays.
    func removeAll() {
        for column in 0..<Self.columnCount where columns >> UInt32(column) & 1 != 0 {
            unsafe values[column]?.update(repeating: 0, count: count)
        }
        unsafe table.update(repeating: 0, count: 2 * capacity)
        (count, next, columns, sorted) = (0, 0, 0, [])
        isAscending = true
        overflows.removeAll()
    }

    // MARK: Adding

    static func order(item: UInt32, day: Int32) -> UInt64 {
        UInt64(item) << 32 | UInt64(UInt32(bitPattern: day)) ^ noDay
    }

    /// Adds all rows of a page.
    func add(_ page: CounterPage) {
        let (orders, values, slots) = unsafe (page.order, page.values, slots)
        for row in 0..<page.rowCount {
            // SAFETY: a page has at most its capacity of rows.
            unsafe slots[row] = UInt32(truncatingIfNeeded: slot(of: orders[row]))
        }
        var rest = page.nonzero
        while let column = rest.popFirst() {
            let source = unsafe values + column &* CounterPage.columnStride
            let target = unsafe self.column(column)
            for row in 0..<page.rowCount {
                let slot = unsafe Int(slots[row])
                let (sum, overflow) = unsafe target[slot].addingReportingOverflow(source[row])
                unsafe target[slot] = sum
                if overflow { overflows[slot, default: 0] |= 1 << UInt32(column) }
            }
        }
    }

    /// Adds the rows of another one.
    /// - Parameters:
    ///   - slots: of the other; all of it, by order, by default.
    ///   - order: under which order a row of this order is added.
    func add(
        _ other: RowSums, slots: ArraySlice<Int>? = nil, as order: (UInt64) -> UInt64 = { $0 }
    ) {
        let sources = (0..<Self.columnCount).filter { other.columns >> UInt32($0) & 1 != 0 }
        for source in slots ?? other.sortedSlots()[...] {
            let slot = slot(of: order(other.order(source)))
            for column in sources { add(other.value(column, source), to: column, at: slot) }
            if let bits = other.overflows[source] { overflows[slot, default: 0] |= bits }
        }
    }

    @inline(__always)
    func add(_ amount: UInt64, to column: Int, at slot: Int) {
        if amount == 0 { return }
        let target = unsafe self.column(column)
        let (sum, overflow) = unsafe target[slot].addingReportingOverflow(amount)
        unsafe target[slot] = sum
        if overflow { overflows[slot, default: 0] |= 1 << UInt32(column) }
    }

    /// The slot of an order, a new one if it has none yet.
    @inline(__always)
    func slot(of order: UInt64) -> Int {
        let order = foldsDays ? order & ~Self.dayMask | Self.noDay : order
        if next < count, unsafe orders[next] == order {
            next &+= 1
            return next &- 1
        }
        let slot = find(order)
        next = slot &+ 1
        return slot
    }

    private func find(_ order: UInt64) -> Int {
        // Rows of one item follow each other where days are folded.
        if next > 0, next <= count, unsafe orders[next - 1] == order { return next - 1 }
        var place = Self.home(order) & tableMask
        while true {
            let found = unsafe Int(table[place]) &- 1
            if found < 0 { break }
            if unsafe orders[found] == order { return found }
            place = (place &+ 1) & tableMask
        }
        if count == capacity {
            grow()
            return find(order)
        }
        if count > 0, unsafe orders[count - 1] > order { isAscending = false }
        unsafe orders[count] = order
        unsafe table[place] = UInt32(truncatingIfNeeded: count &+ 1)
        count += 1
        return count - 1
    }

    private static func home(_ order: UInt64) -> Int {
        let product = order.multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        return Int(truncatingIfNeeded: (product.low ^ product.high) >> 20)
    }

    /// The values of a column, all 0 until one is added.
    @inline(__always)
    private func column(_ column: Int) -> UnsafeMutablePointer<UInt64> {
        columns |= 1 << UInt32(truncatingIfNeeded: column)
        if let values = unsafe values[column] { return unsafe values }
        return unsafe makeColumn(column)
    }

    private func makeColumn(_ column: Int) -> UnsafeMutablePointer<UInt64> {
        let made = UnsafeMutablePointer<UInt64>.allocate(capacity: capacity)
        unsafe made.initialize(repeating: 0, count: capacity)
        unsafe values[column] = made
        return unsafe made
    }

    private func grow() {
        let old = capacity
        capacity = 2 * old
        func moved(_ from: UnsafeMutablePointer<UInt64>) -> UnsafeMutablePointer<UInt64> {
            let to = UnsafeMutablePointer<UInt64>.allocate(capacity: capacity)
            unsafe to.initialize(from: from, count: old)
            unsafe (to + old).initialize(repeating: 0, count: capacity - old)
            unsafe from.deallocate()
            return unsafe to
        }
        unsafe orders = moved(orders)
        for column in unsafe values.indices { unsafe values[column] = values[column].map(moved) }
        unsafe table.deallocate()
        unsafe table = .allocate(capacity: 2 * capacity)
        unsafe table.initialize(repeating: 0, count: 2 * capacity)
        for slot in 0..<count {
            var place = unsafe Self.home(orders[slot]) & tableMask
            while unsafe table[place] != 0 { place = (place &+ 1) & tableMask }
            unsafe table[place] = UInt32(truncatingIfNeeded: slot &+ 1)
        }
    }

    // MARK: Reading

    func order(_ slot: Int) -> UInt64 { unsafe orders[slot] }

    @inline(__always)
    func value(_ column: Int, _ slot: Int) -> UInt64 {
        guard columns >> UInt32(truncatingIfNeeded: column) & 1 != 0,
            let values = unsafe values[column]
        else { return 0 }
        return unsafe values[slot]
    }

    /// All slots by order.
    func sortedSlots() -> [Int] {
        if sorted.count == count { return sorted }
        sorted = Array(0..<count)
        if !isAscending { sorted.sort { unsafe orders[$0] < orders[$1] } }
        return sorted
    }

    /// The slots of some items, by order.
    func slots(of items: ClosedRange<UInt32>) -> ArraySlice<Int> {
        let all = sortedSlots()
        func first(notBelow item: UInt64) -> Int {
            var (low, high) = (0, all.count)
            while low < high {
                let middle = (low + high) / 2
                if order(all[middle]) >> 32 < item { low = middle + 1 } else { high = middle }
            }
            return low
        }
        let start = first(notBelow: UInt64(items.lowerBound))
        return all[start..<first(notBelow: UInt64(items.upperBound) + 1)]
    }

    /// Whether both have the same rows at the same slots, and the same sums: the answer of nearly every comparison, a
    /// column at a time. `false` says nothing.
    func isSame(as other: RowSums) -> Bool {
        guard count == other.count, overflows.isEmpty, other.overflows.isEmpty else {
            return false
        }
        func differ(_ a: UnsafeMutablePointer<UInt64>, _ b: UnsafeMutablePointer<UInt64>) -> Bool {
            var difference: UInt64 = 0
            // SAFETY: both have count values.
            for slot in 0..<count { unsafe difference |= a[slot] ^ b[slot] }
            return difference != 0
        }
        if unsafe differ(orders, other.orders) { return false }
        for column in 0..<UInt32(Self.columnCount)
        where (columns | other.columns) >> column & 1 != 0 {
            if unsafe differ(self.column(Int(column)), other.column(Int(column))) { return false }
        }
        return true
    }
}
