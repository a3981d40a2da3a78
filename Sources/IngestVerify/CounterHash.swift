// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters. The rule of what counts where is written here
// a second time, from docs/format/run.md, on purpose.
import CIngestLinux
import IngestFormat

/// The sum of all counters of a table, each times a weight of its row and a weight of its column, modulo the
/// prime 2^61 − 1. Rows of the log, footers and runs that say the same counters have the same one.
struct Fingerprint: Sendable, Equatable {
    fileprivate(set) var value: UInt64 = 0
    /// Whether no row is without a counter or of a day that there is not, and no counter is so large that a sum of some
    /// could not fit (those of money have 128 bits): else the rows are to be looked at one by one.
    fileprivate(set) var isPlain = true

    mutating func add(_ other: Fingerprint) {
        value = CounterHash.reduced(UInt128(value) &+ UInt128(other.value))
        isPlain = isPlain && other.isPlain
    }
}

/// A table's fingerprint, and those of what it comes to when it is folded.
struct Fingerprints: Sendable {
    var rows = Fingerprint()
    /// Summed over days.
    var rewards = Fingerprint()
    /// Summed over the keys of a business.
    var days = Fingerprint()

    mutating func add(_ other: Fingerprints) {
        rows.add(other.rows)
        rewards.add(other.rewards)
        days.add(other.days)
    }
}

/// The weights of fingerprints. They are drawn anew by each process, so that counters that differ, wherever and by whatever,
/// have the same fingerprint with a chance of about 2^-55, and nobody can make such. The high halves of sums of money
/// weigh 2^64 as much as the low ones, so that it does not matter where a sum was carried; and columns of later releases
/// weigh as any other.
///
/// **Cost** 512 KiB. 1.5 ns a row of the log, whatever the number of keys; 5 to 10 ns a row of a table.
/// **Source** Carter, Wegman, *Universal Classes of Hash Functions*, 1979, for the sums; rows are too many to store their
/// weights: they come from a keyed mixing function, as in Steele, Lea, Flood, *Fast splittable pseudorandom number
/// generators*, 2014.
@safe struct CounterHash: Sendable {
    private static let modulus: UInt64 = 1 << 61 - 1
    /// Above it, a counter is looked at by itself.
    private static let plainCounterMax: UInt64 = 1 << 56
    /// How many products a sum of 128 bits takes.
    static let productCount = 32

    /// Drawn once in a process: who wrote a file cannot have known it.
    static let drawn = CounterHash()

    private let seed = UInt64.random(in: 0...UInt64.max)
    private let factors = (
        UInt64.random(in: 0...UInt64.max) | 1, UInt64.random(in: 0...UInt64.max) | 1
    )
    /// By id of a column; below 2^59.
    private let columns: [UInt64]
    /// Those whose sums have 128 bits.
    private static let wide = CounterColumnSet(CounterColumn.allCases.filter { $0.high != nil })
    /// By attributes: the weights of the columns to which a row adds one; 0 of attributes that no row may have.
    let attributes: [UInt64]

    private init() {
        var columns = (0..<CounterColumnSet.idCount).map { _ in UInt64.random(in: 1..<1 << 56) }
        // 2^64 is 2^3 by the modulus.
        for column in CounterColumn.allCases {
            if let high = column.high { columns[high.rawValue] = columns[column.rawValue] << 3 }
        }
        self.columns = columns
        attributes = CountedColumns.ofAttributes.map { counted in
            var (rest, weight) = (counted, UInt64(0))
            while let column = rest.popFirst() { weight += columns[column] }
            return weight
        }
    }

    /// The weight of a row, below 2^61.
    /// - Parameter order: as `CounterPage.order`.
    @inline(__always)
    func weight(_ order: UInt64) -> UInt64 {
        let word = order ^ seed
        let once = (word ^ word &>> 32) &* factors.0
        let twice = (once ^ once &>> 29) &* factors.1
        return (twice ^ twice &>> 32) &>> 3
    }

    /// What stands in the place of the order of an attributed row, wherever the attribution lies in a list.
    /// - Parameter order: that its key and day would have.
    @inline(__always)
    func order(_ order: UInt64, attributedTo pair: UInt64) -> UInt64 {
        order ^ (weight(pair ^ factors.1) &* factors.0 | 1)
    }

    /// What the money of one row adds to its weight.
    @inline(__always)
    func money(_ amounts: (revenueMicros: UInt64, spendMicros: UInt64)) -> UInt64 {
        let (revenue, spend) = (
            columns[CounterColumn.revenueMicros.rawValue],
            columns[CounterColumn.spendMicros.rawValue]
        )
        return Self.reduced(
            UInt128(amounts.revenueMicros) &* UInt128(revenue)
                &+ UInt128(amounts.spendMicros) &* UInt128(spend))
    }

    @inline(__always)
    static func reduced(_ sum: UInt128) -> UInt64 {
        let once = (sum & UInt128(modulus)) &+ sum &>> 61
        let twice =
            UInt64(truncatingIfNeeded: once) & modulus &+ UInt64(truncatingIfNeeded: once &>> 61)
        return twice >= modulus ? twice &- modulus : twice
    }

    /// A fingerprint that goes on from one by some products.
    @inline(__always)
    func fingerprint(_ sum: UInt128) -> Fingerprint { Fingerprint(value: Self.reduced(sum)) }

    /// Adds the rows of a page.
    /// - Parameters:
    ///   - attributions: whose rows they are; `nil` of keys.
    ///   - folds: whether also to what the rows come to when they are folded: those of attributions are in none of that.
    ///   - business: of a key.
    func add(
        _ page: CounterPage, of attributions: AttributionList?, to prints: inout Fingerprints,
        folds: Bool,
        business: (UInt32) -> UInt32
    ) {
        unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 2 * CounterPage.capacity) {
            room in
            let low = room.baseAddress!
            // SAFETY, here and below: a page has at most its capacity of rows, and columns are columnStride long.
            let high = unsafe low + CounterPage.capacity
            let isPlain = unsafe sum(page, low, high)
            // At most 2^61: none but what is all zero becomes 0, and as many products fit as of reduced ones. The modulus
            // itself stays: a row of money alone may come to it by no event that there is.
            for row in 0..<page.rowCount {
                let (a, b) = unsafe (low[row], high[row])
                let sum = a & Self.modulus &+ a &>> 61 &+ b &>> 31 &+ (b &<< 30) & Self.modulus
                unsafe low[row] = sum & Self.modulus &+ sum &>> 61
            }
            prints.rows.isPlain = unsafe prints.rows.isPlain && isPlain && areCounted(page, low)
            if let entries = attributions?.entries {
                return unsafe sum(page, low, into: &prints.rows) { place in
                    let entry = entries[Int(place &>> 32) - Int(CounterKeys.firstAttributed)]
                    return order(
                        UInt64(entry.key) &<< 32 | place & 0xFFFF_FFFF, attributedTo: entry.pair)
                }
            }
            unsafe sum(page, low, into: &prints.rows) { $0 }
            if !folds { return }
            unsafe sum(page, low, into: &prints.rewards) {
                $0 & ~0xFFFF_FFFF | CounterPage.order(key: 0, day: 0)
            }
            var known: (key: UInt64, business: UInt64) = (.max, 0)
            unsafe sum(page, low, into: &prints.days) { order in
                if order &>> 32 != known.key {
                    known.key = order &>> 32
                    known.business = UInt64(business(UInt32(truncatingIfNeeded: known.key))) &<< 32
                }
                return known.business | order & 0xFFFF_FFFF
            }
        }
    }

    /// Whether each row has a counter, and is of a day that there is.
    private func areCounted(_ page: CounterPage, _ counters: UnsafePointer<UInt64>) -> Bool {
        let days = Limits.businessDays
        let least = CounterPage.order(key: 0, day: days.lowerBound)
        let reach = CounterPage.order(key: 0, day: days.upperBound) - least
        // Differences of numbers below 2^63 have the top bit where they are negative: one test for all rows.
        var bits: UInt64 = 0
        for row in 0..<page.rowCount {
            let distance = unsafe page.order[row] & 0xFFFF_FFFF &- least
            unsafe bits |= (counters[row] &- 1) | distance | (reach &- distance)
        }
        return bits &>> 63 == 0
    }

    /// Adds the counters of each row times the weight of the row, at the place that it is moved to.
    @inline(__always)
    private func sum(
        _ page: CounterPage, _ counters: UnsafePointer<UInt64>, into print: inout Fingerprint,
        _ place: (UInt64) -> UInt64
    ) {
        let orders = unsafe page.order
        var row = 0
        while row < page.rowCount {
            let end = min(row &+ Self.productCount, page.rowCount)
            var total = UInt128(print.value)
            while row < end {
                let product = unsafe UInt128(weight(place(orders[row]))) &* UInt128(counters[row])
                total &+= product
                row &+= 1
            }
            print.value = Self.reduced(total)
        }
    }

    /// The counters of each row times the weights of their columns, as low + high × 2^30.
    /// - Returns: whether no counter is too large.
    private func sum(
        _ page: CounterPage, _ low: UnsafeMutablePointer<UInt64>,
        _ high: UnsafeMutablePointer<UInt64>
    ) -> Bool {
        let count = page.rowCount
        unsafe low.update(repeating: 0, count: count)
        unsafe high.update(repeating: 0, count: count)
        var (rest, isPlain) = (page.nonzero, true)
        while let column = rest.popFirst() {
            let values = unsafe page.values + column &* CounterPage.columnStride
            let weight = columns[column]
            // None of its values is large.
            if unsafe ingest_column_weigh(values, count, weight, low, high) { continue }
            var bits: UInt64 = 0
            for row in 0..<count {
                let value = unsafe values[row]
                bits |= value
                let product = Self.reduced(UInt128(value) &* UInt128(weight))
                unsafe low[row] &+= product & (Self.half - 1)
                unsafe high[row] &+= product &>> 30
            }
            let isWide = Self.wide.contains(CounterColumnSet(rawValue: 1 << UInt32(column)))
            isPlain = isPlain && (isWide || bits < Self.plainCounterMax)
        }
        return isPlain
    }

    private static let half: UInt64 = 1 << 30
}

/// The columns to which a row adds one: the rule of docs/format/run.md, by the row's attributes.
enum CountedColumns {
    /// Empty for attributes that no row may have.
    static let ofAttributes: [CounterColumnSet] = (0...UInt16.max).map {
        CounterColumnSet(columns(RowAttributes(rawValue: $0)))
    }

    private static func columns(_ attributes: RowAttributes) -> [CounterColumn] {
        guard attributes.isValid, let type = attributes.type, let verdict = attributes.verdict
        else { return [] }
        /// The column of the type, of three that follow each other.
        func own(_ first: CounterColumn) -> CounterColumn {
            CounterColumn(rawValue: first.rawValue + Int(type.rawValue) - 1) ?? first
        }
        let isUndetermined = type == .impression && !attributes.isMeasured
        switch verdict {
        case .counted:
            return [own(.impressions)] + marks(of: type, attributes, isUndetermined)
        case .notViewable where type == .impression: return [.notViewableImpressions]
        case .invalidTraffic: return [own(.invalidImpressions)]
        case .duplicate, .sessionRepeat: return [own(.duplicateImpressions)]
        case .conflict: return [own(.conflictImpressions)]
        case .undetermined where isUndetermined:
            return [.refusedImpressions, .undeterminedImpressions]
        default: return [own(.refusedImpressions)]
        }
    }

    /// What a counted row adds to besides.
    private static func marks(
        of type: EventType, _ attributes: RowAttributes, _ isUndetermined: Bool
    ) -> [CounterColumn] {
        var columns: [CounterColumn] = []
        switch type {
        case .impression:
            columns.append(isUndetermined ? .undeterminedImpressions : .viewableImpressions)
        case .click: if attributes.isOrphan { columns.append(.orphanClicks) }
        case .redemption: if attributes.isOrphan { columns.append(.orphanRedemptions) }
        }
        if attributes.isUnchecked { columns.append(.uncheckedEvents) }
        if attributes.isOverflow { columns.append(.overflowEvents) }
        return columns
    }
}
