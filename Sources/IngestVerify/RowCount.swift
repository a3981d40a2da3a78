// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.
import IngestFormat

/// The rows of one segment as they are counted again: their fingerprint, and, where asked for, the rows themselves.
/// Owned by one thread.
///
/// **Cost** 2 to 3 ns a row. With the rows 8 bytes a row of the last `unsortedCountMax`, and 16 for each
/// key, day and kind of row, which takes some 100 ns a row.
@safe final class RowCount {
    private static let dayLength: Int64 = 86_400_000_000

    struct Outcome {
        /// Rows by verdict, by its raw value.
        var verdicts = [UInt64](repeating: 0, count: 16)
        /// Rows whose attributes name no type or no verdict, or of a day on which it was nowhere the row's time.
        var senselessCount = 0
    }

    private let hash: CounterHash
    private(set) var fingerprint = Fingerprint()
    /// All revenue and spend; at most 2^64 − 1.
    private(set) var moneyMicros: UInt64 = 0
    /// `nil` where nobody asked for them.
    private(set) var rows: CountedRows?

    init(_ hash: CounterHash) { self.hash = hash }

    /// Empties it for the next segment.
    func removeAll(keepsRows: Bool = false) {
        (fingerprint, moneyMicros, rows) = (Fingerprint(), 0, keepsRows ? CountedRows() : nil)
    }

    /// Counts all rows of a decoded block.
    /// - Parameters:
    ///   - rows: the columns attributes, key, timestamp, day, revenue and spend are read.
    ///   - times: the least and the greatest of them.
    ///   - admissionTime: of the block.
    func count(
        _ rows: BlockRows, times: (least: Int64, greatest: Int64), admissionTime: Int64
    ) -> Outcome {
        var outcome = Outcome()
        guard rows.rowCount > 0 else { return outcome }
        // SAFETY, here and below: a decoder filled rowCount elements of the dense columns, and as many of money as
        // there are rows with the bit.
        var days = unsafe rows.day[0]...rows.day[0]
        for row in 0..<rows.rowCount {
            let day = unsafe rows.day[row]
            days = min(days.lowerBound, day)...max(days.upperBound, day)
        }
        if !Self.areAllSure(days, times) {
            let clock = min(max(admissionTime, 0), Limits.timestampMicrosecondsMax)
            for row in 0..<rows.rowCount where !Self.isPossible(rows, row, clock) {
                outcome.senselessCount += 1
            }
        }
        if days.lowerBound == days.upperBound {
            let day = CounterPage.order(key: 0, day: days.lowerBound)
            sum(rows, &outcome) { _ in day }
        } else {
            sum(rows, &outcome) { row in unsafe CounterPage.order(key: 0, day: rows.day[row]) }
        }
        self.rows?.add(rows)
        return outcome
    }

    /// - Parameter day: of a row, as it stands in an order.
    @inline(__always)
    private func sum(_ rows: BlockRows, _ outcome: inout Outcome, day: (Int) -> UInt64) {
        let (keys, attributes) = unsafe (UnsafePointer(rows.key), UnsafePointer(rows.attributes))
        let (hash, count) = (hash, rows.rowCount)
        var (row, moneyRow, money) = (0, 0, UInt64(0))
        var (senselessCount, total) = (0, UInt128(fingerprint.value))
        // Rows by verdict in four parts, so that one popular verdict does not make each row wait for the last.
        var verdicts = InlineArray<64, UInt32>(repeating: 0)
        var span = verdicts.mutableSpan
        unsafe hash.attributes.withUnsafeBufferPointer { weights in
            while row < count {
                let end = min(row &+ CounterHash.productCount, count)
                while row < end {
                    let bits = unsafe attributes[row]
                    let own = unsafe weights[Int(bits)]
                    let weight = unsafe hash.weight(UInt64(keys[row]) &<< 32 | day(row))
                    total &+= UInt128(weight) &* UInt128(own)
                    senselessCount &+= own == 0 ? 1 : 0
                    let verdict = Int(bits &>> 2 & 15)
                    unsafe span[unchecked: (row & 3) &<< 4 | verdict] &+= 1
                    if bits & RowAttributes.money != 0 {
                        if verdict == 0 {
                            let amounts = unsafe (
                                UInt64(clamping: rows.revenue[moneyRow]),
                                UInt64(clamping: rows.spend[moneyRow])
                            )
                            money = money.saturatingSum(amounts.0).saturatingSum(amounts.1)
                            let product =
                                UInt128(weight) &* UInt128(hash.money(amounts.0, amounts.1))
                            total = UInt128(CounterHash.reduced(total)) &+ product
                        }
                        moneyRow &+= 1
                    }
                    row &+= 1
                }
                total = UInt128(CounterHash.reduced(total))
            }
        }
        fingerprint = hash.fingerprint(total)
        moneyMicros = moneyMicros.saturatingSum(money)
        outcome.senselessCount += senselessCount
        for index in 0..<64 { outcome.verdicts[index & 15] += UInt64(verdicts[index]) }
    }

    // MARK: Days

    /// Whether it was each of these days somewhere at every time of the block: offsets from UTC are below a day.
    private static func areAllSure(
        _ days: ClosedRange<Int32>, _ times: (least: Int64, greatest: Int64)
    ) -> Bool {
        func day(_ time: Int64) -> Int64 { time / dayLength - (time % dayLength < 0 ? 1 : 0) }
        return Int64(days.lowerBound) >= day(times.greatest) - 1
            && Int64(days.upperBound) <= day(times.least) + 1
            && Limits.businessDays.contains(days.lowerBound)
            && Limits.businessDays.contains(days.upperBound)
    }

    private static func isPossible(_ rows: BlockRows, _ row: Int, _ clock: Int64) -> Bool {
        let (day, time) = unsafe (rows.day[row], rows.timestamp[row])
        guard Limits.businessDays.contains(day) else { return false }
        if isPossible(day, at: time) { return true }
        // What the clock refused from far away belongs to the day on which it came.
        let verdict = unsafe RowAttributes(rawValue: rows.attributes[row]).verdict
        return (verdict == .tooOld || verdict == .tooEarly) && isPossible(day, at: clock)
    }

    /// Whether it can have been the day at that time somewhere.
    private static func isPossible(_ day: Int32, at time: Int64) -> Bool {
        let passed = time &- Int64(day) &* dayLength &+ dayLength
        return UInt64(bitPattern: passed) < UInt64(3 * dayLength)
    }
}

/// How many rows there are of each key, day and kind, and their money.
@safe struct CountedRows: Sendable {
    /// Beyond so many, rows are sorted and those of a kind summed.
    var unsortedCountMax = 1 << 22
    /// A row is a word: key, day + 1, lane, from the highest bit on.
    private static let (keyShift, dayShift): (UInt64, UInt64) = (22, 5)

    private var unsorted: [UInt64] = []
    /// Each word once, ascending.
    private var words: [(word: UInt64, count: UInt64)] = []
    /// Of counted rows, by word without lane; ascending once `finish` was called.
    private var money: [(word: UInt64, revenue: UInt64, spend: UInt64)] = []

    private static func key(_ word: UInt64) -> UInt32 {
        UInt32(truncatingIfNeeded: word >> keyShift)
    }

    /// Adds the rows of a decoded block; those whose attributes or days cannot be are left out.
    mutating func add(_ rows: BlockRows) {
        var moneyRow = 0
        for row in 0..<rows.rowCount {
            // SAFETY: a decoder filled rowCount elements, and as many of money as have the bit.
            let (key, day) = unsafe (rows.key[row], rows.day[row])
            let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
            if attributes.hasMoney { moneyRow += 1 }
            let lane = Lane.ofAttributes[Int(attributes.rawValue)]
            guard lane != Lane.none, Limits.businessDays.contains(day) else { continue }
            let place = UInt64(key) << Self.keyShift | UInt64(Int64(day) + 1) << Self.dayShift
            unsorted.append(place | UInt64(lane))
            if attributes.hasMoney, attributes.verdict == .counted {
                let (revenue, spend) = unsafe (rows.revenue[moneyRow - 1], rows.spend[moneyRow - 1])
                money.append((place, UInt64(clamping: revenue), UInt64(clamping: spend)))
            }
        }
        if unsorted.count >= unsortedCountMax { sort() }
    }

    private mutating func sort() {
        unsorted.sort()
        var (merged, known) = ([(word: UInt64, count: UInt64)](), words[...])
        for word in unsorted {
            while let next = known.first, next.word <= word { merged.append(known.removeFirst()) }
            if let last = merged.indices.last, merged[last].word == word {
                merged[last].count += 1
            } else {
                merged.append((word, 1))
            }
        }
        words = merged + known
        unsorted.removeAll(keepingCapacity: true)
    }

    /// Ends it: no rows are added any more.
    mutating func finish() {
        sort()
        money.sort { $0.word < $1.word }
    }

    /// The first rows of as many pages as they fill at least.
    var pages: [(item: UInt32, rowCount: Int)] {
        stride(from: 0, to: words.count, by: CounterPage.capacity).map {
            (Self.key(words[$0].word), CounterPage.capacity)
        }
    }

    /// Gives the counters of some keys, by key and day, page by page.
    func read(_ keys: ClosedRange<UInt32>, _ page: CounterPage, _ body: (CounterPage) -> Void) {
        let first = UInt64(keys.lowerBound) << Self.keyShift
        var index = Self.count(words.count) { words[$0].word < first }
        var moneyIndex = Self.count(money.count) { money[$0].word < first }
        let laneMask: UInt64 = 1 << Self.dayShift - 1
        page.removeAll()
        while index < words.count, Self.key(words[index].word) <= keys.upperBound {
            let place = words[index].word & ~laneMask
            var counters = CounterRow()
            while index < words.count, words[index].word & ~laneMask == place {
                for column in Lane.columns[Int(words[index].word & laneMask)] {
                    counters.values[column] += words[index].count
                }
                index += 1
            }
            while moneyIndex < money.count, money[moneyIndex].word <= place {
                let (_, revenue, spend) = money[moneyIndex]
                counters[.revenueMicros] = counters[.revenueMicros].saturatingSum(revenue)
                counters[.spendMicros] = counters[.spendMicros].saturatingSum(spend)
                moneyIndex += 1
            }
            if page.rowCount == CounterPage.capacity {
                body(page)
                page.removeAll()
            }
            let day = Int32(truncatingIfNeeded: place >> Self.dayShift & 0x1_FFFF) - 1
            _ = page.append(key: Self.key(place), day: day, counters: counters)
        }
        if page.rowCount > 0 { body(page) }
    }

    /// How many of the first numbers are below, by binary search.
    private static func count(_ count: Int, _ isBelow: (Int) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if isBelow(middle) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
