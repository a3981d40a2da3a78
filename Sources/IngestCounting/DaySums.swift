// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
import IngestFormat

/// Sums of rows by (business, day): rows of a reward-days table in, rows of a days table out. Owned by one stage.
///
/// **Cost** 3 ns a row for its place, 1 ns for each of its columns that is not all zeros; 30 to 60 bytes a (business, day) and
/// 8 to 16 for each column that rows have.
package final class DaySums {
    private let keys: [RewardKey]
    private var memory = DaySumMemory()

    /// - Parameter keys: the pair of names of each key, indexed by its ordinal.
    package init(keys: [RewardKey]) { self.keys = keys }

    /// Forgets all rows.
    package func removeAll() { memory.removeAll() }

    enum Outcome {
        case added
        case unknownKey(UInt32)
        case overflow(business: UInt32, day: Int32)
    }

    /// Adds all rows of a page. With another outcome than `added` the sums are of no use afterwards.
    func add(_ page: CounterPage) -> Outcome { memory.add(page, keys) }

    /// The sums in order. Valid until the next `add` or `removeAll`.
    package func makeCursor() -> Cursor { Cursor(self) }

    package struct Cursor: CounterPageSource {
        private let sums: DaySums
        /// Places by their order.
        private let sorted: [Int]
        private var next = 0

        fileprivate init(_ sums: DaySums) {
            self.sums = sums
            let orders = sums.memory.orders
            sorted = orders.indices.sorted { orders[$0] < orders[$1] }
        }

        package mutating func nextPage(into page: CounterPage) throws(Never) -> Bool {
            let places = sorted[next..<min(next + CounterPage.capacity, sorted.count)]
            next = places.endIndex
            sums.memory.fill(page, places)
            return page.rowCount > 0
        }
    }
}

/// The memory of `DaySums`. A struct, so that a page has one exclusive access to it and a row none: with the class's own
/// members they took 3 of 5 ns an event at a seal.
///
/// **Layout** column-major, a place for each (business, day) in the order in which they first came: with some
/// thousand of them a column stays in the first-level cache while a page is added to it.
@safe private struct DaySumMemory: ~Copyable {
    private var places = OrderTable(spread: 8)
    /// Of each place, as `CounterPage.order`.
    private(set) var orders: [UInt64] = []
    private var capacity = 0
    /// By column; `nil` of those that no row has.
    private var sums = unsafe InlineArray<32, UnsafeMutablePointer<UInt64>?>(repeating: nil)
    /// The columns that rows have.
    private var columns: CounterColumnSet = []
    /// The place of each row of the page at hand.
    private let rowPlaces = UnsafeMutablePointer<UInt32>.allocate(capacity: CounterPage.capacity)

    deinit {
        for column in unsafe sums.indices { unsafe sums[column]?.deallocate() }
        unsafe rowPlaces.deallocate()
    }

    mutating func removeAll() {
        places.removeAll()
        orders.removeAll(keepingCapacity: true)
        columns = []
        for column in unsafe sums.indices {
            // SAFETY: each column has room for capacity sums.
            unsafe sums[column]?.update(repeating: 0, count: capacity)
        }
    }

    /// The sums of a column, all 0 if it had none.
    private mutating func sums(of column: Int) -> UnsafeMutablePointer<UInt64> {
        if let known = unsafe sums[column] { return unsafe known }
        let made = UnsafeMutablePointer<UInt64>.allocate(capacity: capacity)
        unsafe made.initialize(repeating: 0, count: capacity)
        unsafe sums[column] = made
        return unsafe made
    }

    mutating func add(_ page: CounterPage, _ keys: [RewardKey]) -> DaySums.Outcome {
        if let key = findPlaces(page, keys) { return .unknownKey(key) }
        columns.formUnion(page.nonzero)
        var rest = page.nonzero
        while let column = rest.popFirst() {
            // SAFETY: a page's column has its rows; `place` gives places below capacity.
            let source = unsafe page.values + column &* CounterPage.columnStride
            let target = unsafe sums(of: column)
            let fits = unsafe ColumnAddition.add(
                source, count: page.rowCount, at: UnsafePointer(rowPlaces), to: target)
            if fits { continue }
            let high = CounterColumn(rawValue: column)?.high
            if let high { columns.formUnion(CounterColumnSet([high])) }
            let (rowPlaces, highs) = unsafe (rowPlaces, high.map { unsafe sums(of: $0.rawValue) })
            let row = unsafe ColumnAddition.carry(
                source, count: page.rowCount, sums: target, highs: highs
            ) { unsafe Int(rowPlaces[$0]) }
            guard let row else { continue }
            let order = unsafe orders[Int(rowPlaces[row])]
            return .overflow(
                business: UInt32(truncatingIfNeeded: order >> 32),
                day: CounterPage.day(ofOrder: order))
        }
        return .added
    }

    /// Finds the place of each row, made if there is none.
    /// - Returns: a key that is unknown.
    private mutating func findPlaces(_ page: CounterPage, _ keys: [RewardKey]) -> UInt32? {
        let (rowOrders, rowPlaces) = unsafe (page.order, rowPlaces)
        for row in 0..<page.rowCount {
            // SAFETY: row < the page's capacity.
            let rowOrder = unsafe rowOrders[row]
            let key = Int(truncatingIfNeeded: rowOrder >> 32)
            guard key < keys.count else { return UInt32(truncatingIfNeeded: key) }
            let order = UInt64(keys[key].business.rawValue) << 32 | rowOrder & 0xFFFF_FFFF
            let found = places.slot(of: order)
            unsafe rowPlaces[row] = found != 0 ? found &- 1 : makePlace(of: order)
        }
        return nil
    }

    @inline(never)
    private mutating func makePlace(of order: UInt64) -> UInt32 {
        if orders.count == capacity { grow() }
        orders.append(order)
        places.insert(order, slot: UInt32(truncatingIfNeeded: orders.count))
        return UInt32(truncatingIfNeeded: orders.count &- 1)
    }

    /// Fills a page with the sums at some places, as many as it takes.
    func fill(_ page: CounterPage, _ places: ArraySlice<Int>) {
        page.removeAll()
        var rest = page.nonzero.subtracting(columns)
        while let column = rest.popFirst() { page.clear(column) }
        page.open(columns)
        rest = columns
        while let column = rest.popFirst() {
            guard let sums = unsafe sums[column] else { continue }
            let values = unsafe page.values + column &* CounterPage.columnStride
            for (row, place) in places.enumerated() {
                // SAFETY: places are below capacity, and rows below that of the page.
                unsafe values[row] = sums[place]
            }
        }
        for (row, place) in places.enumerated() { unsafe page.order[row] = orders[place] }
        page.rowCount = places.count
    }

    private mutating func grow() {
        let larger = max(64, capacity * 2)
        for column in unsafe sums.indices {
            guard let old = unsafe sums[column] else { continue }
            let grown = UnsafeMutablePointer<UInt64>.allocate(capacity: larger)
            // SAFETY: a column has room for capacity sums, and its successor for more.
            unsafe grown.initialize(from: old, count: capacity)
            unsafe (grown + capacity).initialize(repeating: 0, count: larger - capacity)
            unsafe sums[column] = grown
            unsafe old.deallocate()
        }
        capacity = larger
    }
}

/// Passes the rows of a reward-days table on, and sums them by business on their way.
package struct DaySumming<Source: CounterPageSource>: CounterPageSource {
    private var source: Source
    private let sums: DaySums

    package init(_ source: Source, into sums: DaySums) {
        self.source = source
        self.sums = sums
    }

    /// **Errors** `source`, `overflow` (with the business as its key), `unknownKey`.
    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        do { guard try source.nextPage(into: page) else { return false } } catch {
            throw .source(error)
        }
        switch sums.add(page) {
        case .added: return true
        case .unknownKey(let key): throw .unknownKey(key)
        case .overflow(let business, let day): throw .overflow(key: business, day: day)
        }
    }

    /// Takes all rows.
    package mutating func drain() throws(CounterMergeError<Source.Failure>) {
        let page = CounterPage()
        while try nextPage(into: page) {}
    }
}

/// Adds a column of rows to a column of sums: the one loop of merges, of sums by key and of those by business.
///
/// **Cost** A third of a nanosecond a row where the rows lie side by side in the sums too, 1 ns where each has a
/// place of its own.
enum ColumnAddition {
    /// Adds `count` values to as many sums, one to each.
    /// - Returns: whether all sums fit 64 bits; if not, the sums are of no use until `carry`.
    @inline(__always)
    static func add(
        _ source: UnsafePointer<UInt64>, count: Int, to sums: UnsafeMutablePointer<UInt64>
    ) -> Bool {
        var carries: UInt64 = 0
        for i in 0..<count {
            // SAFETY: the caller has count values and count sums.
            let (a, b) = unsafe (sums[i], source[i])
            let sum = a &+ b
            // The carry out of the top bit, in a form that vectors have.
            carries |= a & b | (a | b) & ~sum
            unsafe sums[i] = sum
        }
        return carries >> 63 == 0
    }

    /// Adds `count` values, each to the sum at its place; several may have the same.
    /// - Parameter places: of the sums; all inside.
    /// - Returns: as above.
    @inline(__always)
    static func add<Place: FixedWidthInteger & UnsignedInteger>(
        _ source: UnsafePointer<UInt64>, count: Int, at places: UnsafePointer<Place>,
        to sums: UnsafeMutablePointer<UInt64>
    ) -> Bool {
        var overflowCount = 0
        for i in 0..<count {
            // SAFETY: the caller has count values and places, and the places are inside the sums.
            let place = unsafe Int(truncatingIfNeeded: places[i])
            let value = unsafe source[i]
            let sum = unsafe sums[place] &+ value
            // Without a branch: the loop is bound by how much it does a row.
            overflowCount &+= sum < value ? 1 : 0
            unsafe sums[place] = sum
        }
        return overflowCount == 0
    }

    /// Carries what did not fit when values were added, as if they were added again one by one.
    /// - Parameters:
    ///   - highs: of the sums, where a carry goes; `nil` of a column that has none.
    ///   - place: where the sum of a value is.
    /// - Returns: a value whose addition does not fit all the same. The sums are of no use then.
    static func carry(
        _ source: UnsafePointer<UInt64>, count: Int, sums: UnsafeMutablePointer<UInt64>,
        highs: UnsafeMutablePointer<UInt64>?, place: (Int) -> Int
    ) -> Int? {
        // SAFETY: as they were added.
        for i in 0..<count { unsafe sums[place(i)] &-= source[i] }
        for i in 0..<count {
            let place = place(i)
            unsafe sums[place] &+= source[i]
            guard unsafe sums[place] < source[i] else { continue }
            guard let highs = unsafe highs, unsafe highs[place] < .max else { return i }
            unsafe highs[place] += 1
        }
        return nil
    }
}

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
