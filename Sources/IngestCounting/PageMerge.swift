// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
import IngestFormat

/// Merges the rows of pages; a page that has been used up is asked for again. The part of a merge that
/// knows nothing of where pages come from, so that its loops are compiled once, without generics.
///
/// It goes in two steps over as many rows as the pages have. The first looks at the order alone and
/// finds out which row of the target each row is added to. The second adds column by column: a column of
/// a page is in the first-level cache, a row of all columns is not, and columns that hold zeros are left
/// out.
///
/// **Cost** 3 ns a row for its place, with many inputs 5–10; 1 ns for each of its columns that is not all
/// zeros, a third of that where rows are not mixed with those of other inputs.
@safe final class PageMerge {
    enum Step: Equatable {
        /// The rows of this input's page have all been taken: it is to be entered anew, or has ended.
        case usedUp(Int)
        /// The target has no room for the next row.
        case isFull
        /// No input has rows left.
        case isAtEnd
        /// A sum at this place in the order does not fit 64 bits.
        case overflow(UInt64)
    }

    /// Where an input stands in its page.
    @unsafe struct Input: BitwiseCopyable {
        var order: UnsafePointer<UInt64>
        var values: UnsafePointer<UInt64>
        /// The target's row for each row that has been placed.
        var places: UnsafeMutablePointer<UInt16>
        var nonzero: CounterColumnSet
        /// The first row that is not added yet, and the first that is not placed yet.
        var start: Int
        var row: Int
        var rowCount: Int
        var number: Int
    }

    private let pages: [CounterPage]
    /// Those with rows left, in any order.
    private let inputs: UnsafeMutablePointer<Input>
    private let places: UnsafeMutablePointer<UInt16>
    private var inputCount = 0
    /// Rows are the same if these bits of their order are; the others are replaced in the target.
    private let dropsDays: Bool
    private let groupMask: UInt64
    private let droppedDay: UInt64

    /// - Parameter dropsDays: rows of a key are summed over all days, and their day is 0.
    init(inputCount: Int, dropsDays: Bool) {
        pages = (0..<inputCount).map { _ in CounterPage() }
        unsafe inputs = .allocate(capacity: max(inputCount, 1))
        unsafe places = .allocate(capacity: max(inputCount, 1) * CounterPage.capacity)
        self.dropsDays = dropsDays
        groupMask = dropsDays ? ~0xFFFF_FFFF : ~0
        droppedDay = dropsDays ? 1 << 31 : 0
    }

    deinit {
        unsafe inputs.deallocate()
        unsafe places.deallocate()
    }

    /// The page of an input, to be filled while the input is not entered.
    func page(_ number: Int) -> CounterPage { pages[number] }

    /// Takes part with the rows of its page, which has been filled.
    func enter(_ number: Int) {
        let page = pages[number]
        guard page.rowCount > 0 else { return }
        precondition(inputCount < pages.count)
        // SAFETY: inputCount < pages.count, which is the capacity. The page's memory lives as long as
        // this object and does not move.
        unsafe inputs[inputCount] = Input(
            order: UnsafePointer(page.order), values: UnsafePointer(page.values),
            places: places + number * CounterPage.capacity, nonzero: page.nonzero, start: 0, row: 0,
            rowCount: page.rowCount, number: number)
        inputCount += 1
    }

    /// Appends rows to `target` until something is needed.
    func run(into target: CounterPage) -> Step {
        // Two that ended with the same row are told of one after the other.
        if let number = removeEnded() { return .usedUp(number) }
        guard inputCount > 0 else { return .isAtEnd }
        for i in 0..<inputCount {
            // SAFETY: i < inputCount.
            unsafe target.columns.formIntersection(pages[inputs[i].number].columns)
        }
        let oldRowCount = target.rowCount
        switch inputCount {
        case 1: placeOne(target)
        case 2: placeTwo(target)
        default: placeMany(target)
        }
        if let order = addPlaced(to: target, from: oldRowCount) { return .overflow(order) }
        return removeEnded().map { .usedUp($0) } ?? .isFull
    }

    private func removeEnded() -> Int? {
        for i in 0..<inputCount {
            // SAFETY: i < inputCount; the last input takes the place of the one that has ended.
            guard unsafe inputs[i].row == inputs[i].rowCount else { continue }
            let number = unsafe inputs[i].number
            inputCount &-= 1
            unsafe inputs[i] = inputs[inputCount]
            return number
        }
        return nil
    }
}

// MARK: Places

extension PageMerge {
    /// The target's rows while they are found: the last one, and what is the same row.
    @unsafe private struct Rows {
        let order: UnsafeMutablePointer<UInt64>
        let groupMask: UInt64
        let droppedDay: UInt64
        var last: Int
        var group: UInt64

        @inline(__always)
        func isFull(for next: UInt64) -> Bool {
            unsafe last == CounterPage.capacity &- 1 && next & groupMask != group
        }

        /// The row of `next`, which is the last row or a new one, for which there is room.
        @inline(__always)
        mutating func place(_ next: UInt64) -> UInt16 {
            let group = unsafe next & groupMask
            unsafe last &+= group != self.group ? 1 : 0
            unsafe self.group = group
            // SAFETY: last < capacity, as the page was not full.
            unsafe order[last] = group | droppedDay
            return unsafe UInt16(truncatingIfNeeded: last)
        }
    }

    private func rows(of target: CounterPage, next: UInt64) -> Rows {
        let last = target.rowCount &- 1
        // SAFETY: last is inside the page, if there is a row.
        let group = unsafe last < 0 ? ~next & groupMask : target.order[last] & groupMask
        // A group that is not that of the next row, where there is no last one.
        let none = last < 0 && group == next & groupMask
        return unsafe Rows(
            order: target.order, groupMask: groupMask, droppedDay: droppedDay, last: last,
            group: none ? ~group : group)
    }

    private func placeOne(_ target: CounterPage) {
        // SAFETY: there is an input, and one that was entered has row < rowCount.
        var input = unsafe inputs[0]
        var rows = unsafe rows(of: target, next: input.order[input.row])
        while unsafe input.row < input.rowCount {
            let next = unsafe input.order[input.row]
            if unsafe rows.isFull(for: next) { break }
            unsafe input.places[input.row] = rows.place(next)
            unsafe input.row &+= 1
        }
        unsafe inputs[0] = input
        unsafe target.rowCount = rows.last &+ 1
    }

    /// Without a branch on which of the two is next: it would often be mispredicted.
    private func placeTwo(_ target: CounterPage) {
        // SAFETY: there are two inputs, with row < rowCount. A place is written for both and stays for
        // the one whose row was taken.
        var (a, b) = unsafe (inputs[0], inputs[1])
        var rows = unsafe rows(of: target, next: min(a.order[a.row], b.order[b.row]))
        while unsafe a.row < a.rowCount && b.row < b.rowCount {
            let (first, second) = unsafe (a.order[a.row], b.order[b.row])
            let next = min(first, second)
            if unsafe rows.isFull(for: next) { break }
            let place = unsafe rows.place(next)
            unsafe a.places[a.row] = place
            unsafe b.places[b.row] = place
            unsafe a.row &+= first <= second ? 1 : 0
            unsafe b.row &+= second <= first ? 1 : 0
        }
        unsafe (inputs[0], inputs[1]) = (a, b)
        unsafe target.rowCount = rows.last &+ 1
    }

    /// Where several inputs have the next row it is placed for all of them in one look at each; where one has it alone, so
    /// are its rows up to the next of another.
    private func placeMany(_ target: CounterPage) {
        let (inputs, count) = unsafe (inputs, inputCount)
        var next = unsafe Self.next(of: inputs, count)
        // SAFETY: `next` gives an input with row < rowCount.
        var rows = unsafe rows(of: target, next: next.order)
        defer { unsafe target.rowCount = rows.last &+ 1 }
        while unsafe !rows.isFull(for: next.order) {
            if next.order == next.limit {
                let place = unsafe rows.place(next.order)
                if unsafe Self.takeAll(next.order, place, of: inputs, count) { return }
            } else {
                let (order, rowCount) = unsafe (
                    inputs[next.place].order, inputs[next.place].rowCount
                )
                var row = unsafe inputs[next.place].row
                var isFull = false
                repeat {
                    unsafe inputs[next.place].places[row] = rows.place(order[row])
                    row &+= 1
                    isFull = unsafe row == rowCount || rows.isFull(for: order[row])
                } while unsafe !isFull && order[row] < next.limit
                unsafe inputs[next.place].row = row
                if isFull { return }
            }
            next = unsafe Self.next(of: inputs, count)
        }
    }

    /// Places the next row of the inputs where it is this one, without a branch on which these are.
    /// - Returns: whether one of them has ended.
    @inline(__always)
    private static func takeAll(
        _ order: UInt64, _ place: UInt16, of inputs: UnsafeMutablePointer<Input>, _ count: Int
    ) -> Bool {
        var hasEnded = false
        for i in 0..<count {
            // SAFETY: inputs have row < rowCount. A place is written for all, and stays for those that are taken.
            let row = unsafe inputs[i].row
            unsafe inputs[i].places[row] = place
            let after = unsafe row &+ (inputs[i].order[row] == order ? 1 : 0)
            unsafe inputs[i].row = after
            unsafe hasEnded = hasEnded || after == inputs[i].rowCount
        }
        return hasEnded
    }

    /// The input with the smallest next row, that row, and the smallest next row of the others.
    @inline(__always)
    private static func next(
        of inputs: UnsafeMutablePointer<Input>, _ count: Int
    ) -> (place: Int, order: UInt64, limit: UInt64) {
        var (place, smallest, limit) = (0, UInt64.max, UInt64.max)
        for i in 0..<count {
            // SAFETY: inputs have row < rowCount.
            let order = unsafe inputs[i].order[inputs[i].row]
            limit = min(limit, max(smallest, order))
            place = order < smallest ? i : place
            smallest = min(smallest, order)
        }
        return (place, smallest, limit)
    }
}

// MARK: Sums

extension PageMerge {
    /// Adds the rows that have been placed.
    /// - Returns: a place in the order whose sum does not fit.
    private func addPlaced(to target: CounterPage, from oldRowCount: Int) -> UInt64? {
        for i in 0..<inputCount {
            // SAFETY: i < inputCount.
            unsafe target.open(inputs[i].nonzero)
        }
        zero(target, from: oldRowCount)
        for i in 0..<inputCount {
            // SAFETY: i < inputCount; rows up to `row` have been placed.
            let input = unsafe inputs[i]
            unsafe inputs[i].start = inputs[i].row
            guard unsafe input.start < input.row else { continue }
            let isRun = unsafe isRun(input)
            var rest = unsafe input.nonzero
            while let column = rest.popFirst() {
                let sums = unsafe target.values + column &* CounterPage.columnStride
                let fits =
                    unsafe isRun
                    ? input.addRun(column, to: sums) : input.addRows(column, to: sums)
                if fits { continue }
                let high = CounterColumn(rawValue: column)?.high
                if let high { target.open(CounterColumnSet([high])) }
                let highs = unsafe high.map {
                    unsafe target.values + $0.rawValue &* CounterPage.columnStride
                }
                if let order = unsafe input.carry(column, sums, highs) { return order }
            }
        }
        return nil
    }

    /// Sets the target's new rows to 0.
    private func zero(_ target: CounterPage, from oldRowCount: Int) {
        var rest = target.nonzero
        while let column = rest.popFirst() {
            // SAFETY: the rows are inside the page.
            unsafe (target.values + column &* CounterPage.columnStride + oldRowCount).update(
                repeating: 0, count: target.rowCount &- oldRowCount)
        }
    }

    /// Whether the rows placed are one after the other in the target, too. Places ascend; with days
    /// dropped and several inputs some may be equal and others be left out.
    private func isRun(_ input: Input) -> Bool {
        guard !dropsDays || inputCount == 1 else { return false }
        let (first, last) = unsafe (input.places[input.start], input.places[input.row &- 1])
        let count = unsafe input.row &- input.start
        return Int(last &- first) == count &- 1
    }
}

extension PageMerge.Input {
    /// The first row placed, in a column.
    private func source(_ column: Int) -> UnsafePointer<UInt64> {
        unsafe values + column &* CounterPage.columnStride + start
    }

    /// Adds a column of the rows placed, which are one after the other in `sums`.
    /// - Returns: whether all sums fit.
    @inline(__always)
    fileprivate func addRun(_ column: Int, to sums: UnsafeMutablePointer<UInt64>) -> Bool {
        // SAFETY: the rows are inside both pages.
        unsafe ColumnAddition.add(
            source(column), count: row &- start, to: sums + Int(places[start]))
    }

    /// Adds a column of the rows placed.
    /// - Returns: whether all sums fit.
    @inline(__always)
    fileprivate func addRows(_ column: Int, to sums: UnsafeMutablePointer<UInt64>) -> Bool {
        // SAFETY: places of placed rows are inside the target.
        unsafe ColumnAddition.add(
            source(column), count: row &- start, at: UnsafePointer(places + start), to: sums)
    }

    /// Carries what did not fit into the high halves.
    /// - Returns: the row whose addition does not fit all the same.
    fileprivate func carry(
        _ column: Int, _ sums: UnsafeMutablePointer<UInt64>, _ highs: UnsafeMutablePointer<UInt64>?
    ) -> UInt64? {
        // SAFETY: as above.
        unsafe ColumnAddition.carry(
            source(column), count: row &- start, sums: sums, highs: highs
        ) { unsafe Int(places[start &+ $0]) }.map { unsafe order[start &+ $0] }
    }
}
