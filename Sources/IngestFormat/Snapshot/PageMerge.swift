// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]

/// Merges the rows of pages; a page that has been used up is asked for again. The part of a merge that
/// knows nothing of where pages come from, so that its loop is compiled once, without generics.
///
/// **Cost** A compare a row and input; 21 additions where rows are summed.
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
    @unsafe private struct Input: BitwiseCopyable {
        var order: UnsafePointer<UInt64>
        var values: UnsafePointer<UInt64>
        var row: Int
        var rowCount: Int
        var number: Int
    }

    private let pages: [CounterPage]
    /// Those with rows left, in any order.
    private let inputs: UnsafeMutablePointer<Input>
    private var inputCount = 0
    private let dropsDays: Bool

    /// - Parameter dropsDays: rows of a key are summed over all days, and their day is 0.
    init(inputCount: Int, dropsDays: Bool) {
        pages = (0..<inputCount).map { _ in CounterPage() }
        unsafe inputs = .allocate(capacity: max(inputCount, 1))
        self.dropsDays = dropsDays
    }

    deinit { unsafe inputs.deallocate() }

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
            order: UnsafePointer(page.order), values: UnsafePointer(page.values), row: 0,
            rowCount: page.rowCount, number: number)
        inputCount += 1
    }

    /// Appends rows to `target` until something is needed.
    func run(into target: CounterPage) -> Step {
        let inputs = unsafe inputs
        for i in 0..<inputCount {
            // SAFETY: i < inputCount.
            let page = unsafe pages[inputs[i].number]
            target.columns.formIntersection(page.columns)
            target.open(page.nonzero)
        }
        while inputCount > 0 {
            let (place, limit) = nextInput()
            // SAFETY: place < inputCount; an input that was entered has row < rowCount.
            let input = unsafe inputs + place
            let order = unsafe input.pointee.order[input.pointee.row]
            if continuesLastRow(of: target, order) {
                let isSummed = unsafe target.addToLast(input.pointee.values + input.pointee.row)
                if !isSummed { return .overflow(order) }
                unsafe input.pointee.row &+= 1
            } else if target.rowCount == CounterPage.capacity {
                return .isFull
            } else {
                unsafe copyRows(below: limit, of: input, to: target)
            }
            if unsafe input.pointee.row == input.pointee.rowCount {
                let number = unsafe input.pointee.number
                inputCount &-= 1
                unsafe input.pointee = inputs[inputCount]
                return .usedUp(number)
            }
        }
        return .isAtEnd
    }

    /// The input with the smallest next row, and the smallest next row of the others.
    private func nextInput() -> (place: Int, limit: UInt64) {
        let inputs = unsafe inputs
        var place = 0
        // SAFETY: there is an input, and those below inputCount have a next row.
        var smallest = unsafe inputs[0].order[inputs[0].row]
        var limit = UInt64.max
        for i in 1..<max(inputCount, 1) {
            let order = unsafe inputs[i].order[inputs[i].row]
            if order < smallest {
                limit = smallest
                smallest = order
                place = i
            } else {
                limit = min(limit, order)
            }
        }
        return (place, limit)
    }

    @inline(__always)
    private func continuesLastRow(of target: CounterPage, _ order: UInt64) -> Bool {
        guard target.rowCount > 0 else { return false }
        // SAFETY: rowCount - 1 is inside the page.
        let last = unsafe target.order[target.rowCount &- 1]
        return dropsDays ? last >> 32 == order >> 32 : last == order
    }

    /// Appends the next row, and those after it that lie below `limit` and are not summed, while there is
    /// room.
    private func copyRows(
        below limit: UInt64, of input: UnsafeMutablePointer<Input>, to target: CounterPage
    ) {
        let source = unsafe input.pointee
        let room = CounterPage.capacity - target.rowCount
        let last = unsafe min(source.rowCount, source.row &+ room)
        var end = unsafe source.row &+ 1
        while end < last {
            // SAFETY: end < rowCount.
            let order = unsafe source.order[end]
            let isSummed = unsafe dropsDays && order >> 32 == source.order[end &- 1] >> 32
            if order >= limit || isSummed { break }
            end &+= 1
        }
        let count = unsafe end &- source.row
        unsafe target.append(
            count, order: source.order + source.row, values: source.values + source.row)
        if dropsDays { target.dropDays(ofLast: count) }
        unsafe input.pointee.row = end
    }
}
