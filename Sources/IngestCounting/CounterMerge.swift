// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
import IngestFormat

/// Why rows could not be put together.
package enum CounterMergeError<Failure: Error>: Error {
    /// A source failed.
    case source(Failure)
    /// The sum of a counter does not fit 64 bits, or one of money 128.
    case overflow(key: UInt32, day: Int32)
    /// `keys` has no entry for this key.
    case unknownKey(UInt32)
}

extension CounterMergeError: Equatable where Failure: Equatable {}
extension CounterMergeError: Sendable where Failure: Sendable {}

/// Sorted sources of the same kind of table → one, rows of equal (key, day) summed; or, without days, those of
/// equal keys: then sources may be of reward-days and of rewards alike, and what comes is rewards.
///
/// **Cost** One page a source. About 10 ns a row where sources overlap; where the next rows of all other
/// sources come later, rows are copied a column at a time.
package struct CounterMerge<Source: CounterPageSource>: CounterPageSource {
    private var sources: [Source]
    private let merge: PageMerge
    /// The sources whose page has been used up.
    private var waiting: [Int]

    /// - Parameters:
    ///   - sources: any number; their order does not matter.
    ///   - dropsDays: rows of a key are summed over all days, and their day is 0.
    package init(_ sources: [Source], dropsDays: Bool = false) {
        self.sources = sources
        merge = PageMerge(inputCount: sources.count, dropsDays: dropsDays)
        waiting = Array(sources.indices)
    }

    /// **Errors** `source`, as the source's own; `overflow`. The merge is of no use afterwards.
    package mutating func nextPage(
        into page: CounterPage
    ) throws(CounterMergeError<Source.Failure>) -> Bool {
        page.removeAll()
        while true {
            while let input = waiting.popLast() { try refill(input) }
            switch merge.run(into: page) {
            case .usedUp(let input): waiting.append(input)
            case .isFull: return true
            case .isAtEnd: return page.rowCount > 0
            case .overflow(let order):
                throw .overflow(
                    key: UInt32(truncatingIfNeeded: order >> 32),
                    day: CounterPage.day(ofOrder: order))
            }
        }
    }

    private mutating func refill(_ input: Int) throws(CounterMergeError<Source.Failure>) {
        do {
            if try sources[input].nextPage(into: merge.page(input)) { merge.enter(input) }
        } catch {
            throw .source(error)
        }
    }
}
