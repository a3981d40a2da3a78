// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Sums of some columns for a stretch of keys, dense: what folds many tables, of which each has rows for
/// most keys of the stretch, into one answer. Owned by one stage.
///
/// **Layout** column-major, in the order of the columns: a fold goes through a page and the sums column by
/// column, and both stay in the cache for stretches of up to some ten thousand keys.
/// **Cost** 8 bytes a key and column, taken once; 1 ns a row and column, a third of that where the keys
/// of a page follow each other.
@safe package final class CounterSums {
    package let columns: CounterColumnSet
    /// Keys that there is room for.
    package let capacity: Int
    /// The stretch that is summed.
    package private(set) var keys: ClosedRange<UInt32>
    private let sums: UnsafeMutablePointer<UInt64>
    /// Which keys had a row.
    private let seen: UnsafeMutablePointer<UInt8>
    private let places: UnsafeMutablePointer<UInt32>

    /// - Parameter capacity: the keys of the longest stretch; memory is taken for it.
    package init(columns: CounterColumnSet, capacity: Int) {
        precondition(capacity > 0 && capacity <= Limits.keyCountMax)
        self.columns = columns
        self.capacity = capacity
        keys = 0...0
        unsafe sums = .allocate(capacity: capacity * columns.count)
        unsafe seen = .allocate(capacity: capacity)
        unsafe places = .allocate(capacity: CounterPage.capacity)
        begin(0...0)
    }

    deinit {
        unsafe sums.deallocate()
        unsafe seen.deallocate()
        unsafe places.deallocate()
    }

    /// Starts anew with the keys of a stretch.
    /// - Parameter keys: at most `capacity`.
    package func begin(_ keys: ClosedRange<UInt32>) {
        let count = Int(keys.upperBound - keys.lowerBound) + 1
        precondition(count <= capacity)
        self.keys = keys
        for column in 0..<columns.count {
            // SAFETY: count ≤ capacity.
            unsafe (sums + column * capacity).initialize(repeating: 0, count: count)
        }
        unsafe seen.initialize(repeating: 0, count: count)
    }

    /// Adds the rows of a page; a key may have several.
    /// - Parameter page: has the columns, and no rows of keys outside the stretch
    ///   (`makeCursor(columns:keys:)` gives such).
    /// - Returns: a key of which a sum does not fit 64 bits; the sums are of no use then.
    package func add(_ page: CounterPage) -> UInt32? {
        guard page.rowCount > 0 else { return nil }
        precondition(page.columns.isSuperset(of: columns))
        precondition(page.key(0) >= keys.lowerBound)
        precondition(page.key(page.rowCount - 1) <= keys.upperBound)
        let isRun = place(page)
        var rest = columns
        var number = 0
        while let column = rest.popFirst() {
            defer { number += 1 }
            guard page.nonzero.contains(column) else { continue }
            // SAFETY: a column has capacity sums, and a page's column its rows.
            let source = unsafe page.values + column &* CounterPage.columnStride
            let target = unsafe sums + number &* capacity
            let fits =
                unsafe isRun
                ? addRun(source, to: target + Int(places[0]), count: page.rowCount)
                : addRows(source, to: target, count: page.rowCount)
            if !fits { return unsafe overflow(source, of: target, page) }
        }
        return nil
    }

    /// Whether any row of the key was added.
    /// - Parameter key: one of `keys`.
    package func hasRow(_ key: UInt32) -> Bool {
        precondition(keys.contains(key))
        // SAFETY: the key is inside the stretch.
        return unsafe seen[Int(key - keys.lowerBound)] != 0
    }

    /// - Parameters:
    ///   - column: one of `columns`.
    ///   - key: one of `keys`.
    package func value(_ column: CounterColumn, _ key: UInt32) -> UInt64 {
        precondition(columns.contains(column) && keys.contains(key))
        // SAFETY: the key is inside the stretch, the column one of those summed.
        return unsafe sums[start(of: column) + Int(key - keys.lowerBound)]
    }

    /// Calls `body` with the sums of a column for all keys of the stretch, in their order; 0 for keys
    /// without a row.
    /// - Parameter column: one of `columns`.
    package func withValues<Result>(
        of column: CounterColumn, _ body: (UnsafeBufferPointer<UInt64>) -> Result
    ) -> Result {
        precondition(columns.contains(column))
        let count = Int(keys.upperBound - keys.lowerBound) + 1
        // SAFETY: count ≤ capacity sums of the column; the buffer is used inside the call.
        return unsafe body(UnsafeBufferPointer(start: sums + start(of: column), count: count))
    }

    private func start(of column: CounterColumn) -> Int {
        let before = columns.rawValue & (1 << UInt32(column.rawValue) - 1)
        return before.nonzeroBitCount * capacity
    }

    /// Finds the place of each row's key.
    /// - Returns: whether they follow each other without gaps.
    private func place(_ page: CounterPage) -> Bool {
        let base = UInt64(keys.lowerBound)
        let (order, count) = unsafe (page.order, page.rowCount)
        // SAFETY: rows are inside the page, and their keys ascend inside the stretch, as the caller has
        // checked at both ends.
        let first = unsafe Int(order[0] &>> 32 &- base)
        if unsafe !page.mayRepeatKeys
            && order[count &- 1] &>> 32 &- base == UInt64(first + count - 1)
        {
            unsafe places[0] = UInt32(truncatingIfNeeded: first)
            unsafe (seen + first).update(repeating: 1, count: count)
            return true
        }
        var areOnce = true
        var last = -1
        for row in 0..<count {
            let place = unsafe Int(truncatingIfNeeded: order[row] &>> 32 &- base)
            unsafe places[row] = UInt32(truncatingIfNeeded: place)
            unsafe seen[place] = 1
            areOnce = areOnce && place != last
            last = place
        }
        return areOnce && last &- first == count &- 1
    }

    private func addRun(
        _ source: UnsafePointer<UInt64>, to target: UnsafeMutablePointer<UInt64>, count: Int
    ) -> Bool {
        var carries: UInt64 = 0
        for i in 0..<count {
            // SAFETY: count rows are inside the page, and their keys inside the stretch.
            let (a, b) = unsafe (target[i], source[i])
            let sum = a &+ b
            // The carry out of the top bit, in a form that vectors have.
            carries |= a & b | (a | b) & ~sum
            unsafe target[i] = sum
        }
        return carries >> 63 == 0
    }

    private func addRows(
        _ source: UnsafePointer<UInt64>, to target: UnsafeMutablePointer<UInt64>, count: Int
    ) -> Bool {
        var overflowCount = 0
        for i in 0..<count {
            // SAFETY: as above.
            let place = unsafe Int(places[i])
            let value = unsafe source[i]
            let sum = unsafe target[place] &+ value
            // Without a branch: the loop is bound by how much it does a row.
            overflowCount &+= sum < value ? 1 : 0
            unsafe target[place] = sum
        }
        return overflowCount == 0
    }

    /// The first key whose sum did not fit: the additions are undone from the last one on.
    private func overflow(
        _ source: UnsafePointer<UInt64>, of target: UnsafeMutablePointer<UInt64>,
        _ page: CounterPage
    ) -> UInt32 {
        var found = page.key(0)
        for i in (0..<page.rowCount).reversed() {
            // SAFETY: as above.
            let place = Int(page.key(i) - keys.lowerBound)
            if unsafe target[place] < source[i] { found = page.key(i) }
            unsafe target[place] &-= source[i]
        }
        return found
    }
}
