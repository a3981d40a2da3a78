// packet → decode → ring → admit → block → segment → [compaction] → snapshot → [query]
import IngestFormat

/// The counters of a segment's rows with a campaign or a source, by (key, campaign, source, day). Owned by
/// `SegmentCounters`, which has the same rows among its own.
///
/// Attributions get numbers as they come, and their rows are folded as those of keys are, with the number in the place of
/// the key; in the table their numbers are places in the sorted list.
///
/// **Cost** 1 ns a row of a block with attribution, 25 to 40 ns for one that has some; 4 MiB, and for each attribution 76
/// bytes beside what `SegmentCounters` says.
package final class AttributedCounters {
    private let counters = SegmentCounters()
    /// The rows of a block that are attributed, with the numbers of their attributions as keys.
    private let rows = BlockRows()
    /// By number.
    private var attributions: [Attribution] = []
    /// Campaign and source → one more than the number of the pair.
    private var pairs = OrderTable(spread: 8)
    /// Key and number of a pair → one more than the number of the attribution.
    private var numbers = OrderTable()

    init() {}

    /// No more (attribution, day) pairs have been seen.
    var pairCountMax: Int { counters.pairCountMax }

    func removeAll() {
        counters.removeAll()
        attributions.removeAll(keepingCapacity: true)
        pairs.removeAll()
        numbers.removeAll()
    }

    /// Adds the attributed rows of a block, which has been folded and has room for them in `pairCountMax`.
    func add(_ block: BlockRows) {
        rows.removeAll()
        var (count, money, moneyCount) = (0, 0, 0)
        let (campaigns, sources) = unsafe (
            UnsafePointer(block.campaign), UnsafePointer(block.source)
        )
        // SAFETY: the block's columns have rowCount values, and as many amounts as rows say; no more are written than read.
        for row in 0..<block.rowCount {
            let attributes = unsafe block.attributes[row]
            let hasMoney = RowAttributes(rawValue: attributes).hasMoney
            if unsafe campaigns[row] | sources[row] != 0 {
                unsafe rows.key[count] = number(
                    of: Attribution(
                        key: block.key[row], campaign: campaigns[row], source: sources[row]))
                unsafe rows.day[count] = block.day[row]
                unsafe rows.attributes[count] = attributes
                if hasMoney {
                    unsafe rows.revenue[moneyCount] = block.revenue[money]
                    unsafe rows.spend[moneyCount] = block.spend[money]
                    moneyCount &+= 1
                }
                count &+= 1
            }
            money &+= hasMoney ? 1 : 0
        }
        (rows.mark.row, rows.mark.money) = (count, moneyCount)
        let outcome = counters.fold(rows)
        precondition(outcome == .folded, "rows of a block that was folded")
    }

    private func number(of attribution: Attribution) -> UInt32 {
        var pair = pairs.slot(of: attribution.pair)
        if pair == 0 {
            pair = UInt32(pairs.count + 1)
            pairs.insert(attribution.pair, slot: pair)
        }
        let order = UInt64(attribution.key) << 32 | UInt64(pair)
        let known = numbers.slot(of: order)
        if known != 0 { return known - 1 }
        attributions.append(attribution)
        numbers.insert(order, slot: UInt32(attributions.count))
        return UInt32(attributions.count - 1)
    }

    /// The rows as they lie in a table. Valid until the next `add` or `removeAll`.
    ///
    /// **Cost** Sorting the attributions; then 20 to 60 ns a row.
    func sorted() -> Rows { Rows(counters, attributions) }

    /// Gives the rows in the order of attributions and days.
    struct Rows: CounterPageSource {
        let list: AttributionList
        /// By place in the list.
        private let numbers: [UInt32]
        private let counters: SegmentCounters
        private var nextPlace = 0
        /// Slots of an attribution with several days, by day, of which `pendingPlace` is the next.
        private var pending: [UInt32] = []
        private var pendingPlace = 0

        fileprivate init(_ counters: SegmentCounters, _ attributions: [Attribution]) {
            self.counters = counters
            numbers = (0..<UInt32(attributions.count)).sorted {
                attributions[Int($0)] < attributions[Int($1)]
            }
            list = AttributionList(sorted: numbers.map { attributions[Int($0)] })
            counters.memory.reserveMoves()
        }

        mutating func nextPage(into page: CounterPage) throws(Never) -> Bool {
            counters.memory.beginPage(page)
            while page.rowCount < CounterPage.capacity {
                let first = page.rowCount
                if pendingPlace < pending.count {
                    counters.memory.appendRow(pending[pendingPlace], to: page)
                    pendingPlace += 1
                } else if nextPlace < numbers.count {
                    pending.removeAll(keepingCapacity: true)
                    pendingPlace = 0
                    var number = Int(numbers[nextPlace])
                    counters.memory.appendKeys(
                        from: &number, upTo: number + 1, to: page, several: &pending)
                    nextPlace += 1
                } else {
                    break
                }
                let key = CounterKeys.firstAttributed + UInt32(nextPlace - 1)
                for row in first..<page.rowCount { page.setKey(key, ofRow: row) }
            }
            return page.rowCount > 0
        }
    }
}

extension SegmentCounters {
    /// The counters of keys as a coded reward-days table.
    package func encodeTable() -> CounterTable { .encode(makeCursor()) }

    /// The counters of keys and of attributions as a coded reward-days table, and these attributions.
    package func encodeTableAndAttributions() -> (
        table: CounterTable, attributions: AttributionList
    ) {
        encodeTableAndAttributions(makeCursor())
    }

    /// - Parameter rows: those of `makeCursor`, on whatever way they come.
    func encodeTableAndAttributions<Rows: CounterPageSource>(
        _ rows: Rows
    ) throws(Rows.Failure) -> (table: CounterTable, attributions: AttributionList) {
        var encoder = CounterTableEncoder(hasDay: true)
        try encoder.append(contentsOf: rows)
        guard let attributed = attributed?.sorted() else {
            return (encoder.finish(), AttributionList())
        }
        encoder.append(contentsOf: attributed)
        return (encoder.finish(), attributed.list)
    }
}

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
