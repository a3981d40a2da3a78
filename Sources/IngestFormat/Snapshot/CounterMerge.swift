// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]

/// Why rows could not be put together.
package enum CounterMergeError<Failure: Error>: Error {
    /// A source failed.
    case source(Failure)
    /// The sum of a counter does not fit 64 bits.
    case overflow(key: UInt32, day: Int32)
    /// `keys` has no entry for this key.
    case unknownKey(UInt32)
}

extension CounterMergeError: Equatable where Failure: Equatable {}
extension CounterMergeError: Sendable where Failure: Sendable {}

/// Sorted sources of the same kind of table → one, rows of equal (key, day) summed.
///
/// **Cost** One page a source; a compare a row and source; where the next rows of all other sources come
/// later, rows are copied a column at a time.
package struct CounterMerge<Source: CounterPageSource>: CounterPageSource {
    private var inputs: [CounterPageReader<Source>]

    /// - Parameter sources: any number; their order does not matter.
    package init(_ sources: [Source]) { inputs = sources.map { CounterPageReader($0) } }

    /// **Errors** `source`, as the source's own; `overflow`. The merge is of no use afterwards.
    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        page.removeAll()
        for i in inputs.indices where inputs[i].needsPage {
            try inputs[i].advance()
        }
        inputs.removeAll { $0.isAtEnd }
        while !inputs.isEmpty {
            let (first, limit) = nextInput()
            let order = inputs[first].order
            if page.rowCount > 0, page.order(uncheckedAt: page.rowCount - 1) == order {
                try inputs[first].addRow(toLastOf: page)
            } else if page.rowCount == CounterPage.capacity {
                return true
            } else {
                inputs[first].copyRows(below: limit, to: page)
            }
            if inputs[first].needsPage {
                try inputs[first].advance()
                if inputs[first].isAtEnd { inputs.remove(at: first) }
            }
        }
        return page.rowCount > 0
    }

    /// The input with the smallest next row, and the smallest next row of the others.
    private func nextInput() -> (index: Int, limit: UInt64) {
        var index = 0
        var smallest = UInt64.max
        var limit = UInt64.max
        for i in inputs.indices {
            let order = inputs[i].order
            if order < smallest || i == 0 {
                limit = i == 0 ? UInt64.max : smallest
                smallest = order
                index = i
            } else {
                limit = min(limit, order)
            }
        }
        return (index, limit)
    }
}

/// A source, the page it gave last, and the next row in it.
struct CounterPageReader<Source: CounterPageSource> {
    private var source: Source
    let page = CounterPage()
    private(set) var row = 0
    private(set) var isAtEnd = false

    init(_ source: Source) { self.source = source }

    /// Whether all rows of the page have been taken, and there may be another.
    var needsPage: Bool { row == page.rowCount && !isAtEnd }
    /// The next row's order; not at the end.
    var order: UInt64 { page.order(uncheckedAt: row) }

    /// Takes the source's next page.
    mutating func advance() throws(CounterMergeError<Source.Failure>) {
        do {
            isAtEnd = try !source.nextPage(into: page)
            row = 0
        } catch {
            throw .source(error)
        }
    }

    /// Adds the next row to the last one of `target`, and passes it.
    mutating func addRow(
        toLastOf target: CounterPage
    ) throws(CounterMergeError<Source.Failure>) {
        guard target.addToLast(row, of: page) else {
            throw .overflow(key: page.key(row), day: page.day(row))
        }
        row += 1
    }

    /// Appends the next row, and those after it that lie below `limit`, while there is room; passes them.
    mutating func copyRows(below limit: UInt64, to target: CounterPage) {
        var end = row + 1
        while end < page.rowCount, page.order(uncheckedAt: end) < limit { end += 1 }
        row += target.append(row..<end, of: page)
    }

    /// Appends the next row, and those after it as long as each is of another key, while there is room,
    /// all without their days; passes them.
    mutating func copyKeys(to target: CounterPage) {
        var end = row + 1
        while end < page.rowCount, page.key(end) != page.key(end - 1) { end += 1 }
        let taken = target.append(row..<end, of: page)
        target.dropDays(ofLast: taken)
        row += taken
    }
}
