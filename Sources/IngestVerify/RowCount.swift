// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters.
import IngestFormat
import IngestStorage

/// The rows of one segment as they are counted again: their fingerprint, and, where asked for, the rows themselves.
/// Owned by one thread.
///
/// **Cost** 2 to 3 ns a row. With the rows some 200 ns a row, and about 400 bytes for each key and day.
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
    /// `nil` where nobody asked for them.
    private(set) var rows: CountedRows?

    init(_ hash: CounterHash) { self.hash = hash }

    /// Empties it for the next segment.
    func removeAll(keepsRows: Bool = false) {
        (fingerprint, rows) = (Fingerprint(), keepsRows ? CountedRows() : nil)
    }

    /// Counts all rows of a decoded block.
    /// - Parameters:
    ///   - rows: the columns attributes, key, timestamp, day, revenue and spend are read.
    ///   - times: the least and the greatest of them.
    ///   - commits: which rows were admitted when.
    func count(
        _ rows: BlockRows, times: (least: Int64, greatest: Int64), commits: BlockCommits
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
            commits.forEach { (place, ownRows) in
                let time = commits.admissionTimes[place]
                let clock = min(max(time, 0), Limits.timestampMicrosecondsMax)
                for row in ownRows where !Self.isPossible(rows, row, clock) {
                    outcome.senselessCount += 1
                }
            }
        }
        if days.lowerBound == days.upperBound {
            let day = CounterPage.order(key: 0, day: days.lowerBound)
            sum(rows, &outcome) { _ in day }
        } else {
            sum(rows, &outcome) { row in unsafe CounterPage.order(key: 0, day: rows.day[row]) }
        }
        if rows.mark.isAttributed { sumAttributed(rows) }
        self.rows?.add(rows)
        return outcome
    }

    /// Adds the rows with a campaign or a source once more, as those of their attributions.
    private func sumAttributed(_ rows: BlockRows) {
        var (moneyRow, total) = (-1, UInt128(fingerprint.value))
        for row in 0..<rows.rowCount {
            let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
            if attributes.hasMoney { moneyRow += 1 }
            let pair = unsafe UInt64(rows.campaign[row]) &<< 32 | UInt64(rows.source[row])
            if pair == 0 { continue }
            let order = unsafe CounterPage.order(key: rows.key[row], day: rows.day[row])
            let weight = hash.weight(hash.order(order, attributedTo: pair))
            total &+= UInt128(weight) &* UInt128(hash.attributes[Int(attributes.rawValue)])
            if attributes.hasMoney, attributes.verdict == .counted {
                let amounts = unsafe (
                    UInt64(clamping: rows.revenue[moneyRow]),
                    UInt64(clamping: rows.spend[moneyRow])
                )
                total = UInt128(CounterHash.reduced(total))
                total &+= UInt128(weight) &* UInt128(hash.money(amounts.0, amounts.1))
            }
            total = UInt128(CounterHash.reduced(total))
        }
        fingerprint = hash.fingerprint(total)
    }

    /// - Parameter day: of a row, as it stands in an order.
    @inline(__always)
    private func sum(_ rows: BlockRows, _ outcome: inout Outcome, day: (Int) -> UInt64) {
        let (keys, attributes) = unsafe (UnsafePointer(rows.key), UnsafePointer(rows.attributes))
        let (hash, count) = (hash, rows.rowCount)
        var (row, moneyRow) = (0, 0)
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

/// How many rows there are of each key, day and kind, and their money: of a segment whose footer says otherwise. Rows with
/// a campaign or a source are counted under their key, and again under their attribution.
@safe struct CountedRows: Sendable {
    private struct Place: Hashable, Comparable {
        let attribution: Attribution
        let day: Int32

        static func < (a: Self, b: Self) -> Bool {
            a.attribution == b.attribution ? a.day < b.day : a.attribution < b.attribution
        }
    }

    private struct Sum {
        /// By lane.
        var counts = [UInt32](repeating: 0, count: Lane.count)
        /// Of counted rows.
        var revenue: UInt64 = 0
        var spend: UInt64 = 0

        var counters: CounterRow {
            var counters = CounterRow()
            for lane in counts.indices where counts[lane] > 0 {
                for column in Lane.columns[lane] { counters.values[column] += UInt64(counts[lane]) }
            }
            (counters[.revenueMicros], counters[.spendMicros]) = (revenue, spend)
            return counters
        }
    }

    /// Those of keys are of no campaign and no source.
    private var sums: [Place: Sum] = [:]

    /// Adds the rows of a decoded block; those whose attributes or days cannot be are left out.
    mutating func add(_ rows: BlockRows) {
        var moneyRow = -1
        for row in 0..<rows.rowCount {
            // SAFETY: a decoder filled rowCount elements, and as many of money as have the bit.
            let (key, day) = unsafe (rows.key[row], rows.day[row])
            let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
            if attributes.hasMoney { moneyRow += 1 }
            let lane = Lane.ofAttributes[Int(attributes.rawValue)]
            guard lane != Lane.none, Limits.businessDays.contains(day) else { continue }
            var amounts: (revenue: UInt64, spend: UInt64) = (0, 0)
            if attributes.hasMoney, attributes.verdict == .counted {
                amounts = unsafe (
                    UInt64(clamping: rows.revenue[moneyRow]),
                    UInt64(clamping: rows.spend[moneyRow])
                )
            }
            func add(_ campaign: UInt32, _ source: UInt32) {
                let attribution = Attribution(key: key, campaign: campaign, source: source)
                let place = Place(attribution: attribution, day: day)
                var sum = sums[place] ?? Sum()
                sum.counts[Int(lane)] += 1
                sum.revenue = sum.revenue.saturatingSum(amounts.revenue)
                sum.spend = sum.spend.saturatingSum(amounts.spend)
                sums[place] = sum
            }
            add(0, 0)
            guard rows.mark.isAttributed else { continue }
            let pair = unsafe (rows.campaign[row], rows.source[row])
            if pair != (0, 0) { add(pair.0, pair.1) }
        }
    }

    /// All rows, by key and day, and the attributions of those behind.
    func table() -> (table: CounterTable, attributions: AttributionList) {
        var encoder = CounterTableEncoder(hasDay: true)
        let places = sums.keys.sorted()
        func append(_ place: Place, as key: UInt32) {
            encoder.append(key: key, day: place.day, counters: (sums[place] ?? Sum()).counters)
        }
        for place in places where place.attribution.pair == 0 {
            append(place, as: place.attribution.key)
        }
        var entries: [Attribution] = []
        for place in places where place.attribution.pair != 0 {
            if entries.last != place.attribution { entries.append(place.attribution) }
            append(place, as: CounterKeys.firstAttributed + UInt32(entries.count - 1))
        }
        return (encoder.finish(), AttributionList(sorted: entries))
    }
}

/// Rows of counters by (item, day), wherever they are: in the footer of a segment, in a run, or
/// recounted in memory. Items are keys or businesses; behind the rows of some keys come those of their attributions.
struct RowSource: Sendable {
    /// Takes a page of rows of items, or of places in the list.
    typealias Body = (CounterPage, AttributionList?) -> Void
    /// Gives the rows of some items in order, page by page.
    typealias Read =
        @Sendable (ClosedRange<UInt32>, CounterPage, Body) throws(StorageError) -> Void

    /// The file.
    let name: FileName
    /// Where its pages begin, and how many rows each has: what windows are planned by.
    let pages: [(item: UInt32, rowCount: Int)]
    /// Of all rows, where it is known.
    var fingerprint: Fingerprint?
    let read: Read

    private init(_ index: CounterPageIndex, _ name: FileName, read: @escaping Read) {
        (self.name, self.read) = (name, read)
        pages = index.entries.filter { CounterKeys.rewards.contains($0.firstKey) }
            .map { (item: $0.firstKey, rowCount: $0.rowCount) }
    }

    /// A run, or the table of a segment's footer.
    /// **Errors** `corrupt` for attributions that cannot be read, and with these rows of others.
    init<Files>(_ run: RunReader<Files>, name: FileName) throws(StorageError) {
        let list = try run.readAttributions()
        self.init(run.index, name) { (items, page, body) throws(StorageError) in
            for part in Self.parts(items, list) {
                var cursor = run.makeCursor(keys: part.keys)
                while try cursor.nextPage(into: page) { body(page, part.list) }
            }
            if items.upperBound < .max { return }
            let unlisted = CounterKeys.firstAttributed + UInt32(list.count)
            var cursor = run.makeCursor(columns: [], keys: unlisted...UInt32.max)
            if try cursor.nextPage(into: page) {
                throw .corrupt(
                    path: run.path, offset: 0,
                    detail: "a row of an attribution that is not listed")
            }
        }
    }

    /// A table in memory.
    init(
        _ table: CounterTable, _ attributions: AttributionList, name: FileName,
        _ fingerprint: Fingerprint? = nil
    ) {
        self.init(table.index, name) { (items, page, body) throws(StorageError) in
            try StorageError.decoding(name.text) { () throws(FormatError) in
                for part in Self.parts(items, attributions) {
                    var cursor = table.makeCursor(keys: part.keys)
                    while try cursor.nextPage(into: page) { body(page, part.list) }
                }
            }
        }
        self.fingerprint = fingerprint
    }

    /// The rows of some items and those of their attributions, by the keys that they have in the table.
    private static func parts(
        _ items: ClosedRange<UInt32>, _ list: AttributionList
    ) -> [(keys: ClosedRange<UInt32>, list: AttributionList?)] {
        let attributed = CounterKeys.attributed(list.places(ofKeys: items))
        return [(items.clamped(to: CounterKeys.rewards), nil)]
            + (attributed.map { [($0, list)] } ?? [])
    }
}

extension CounterHash {
    /// The fingerprint of all rows.
    func fingerprint(
        of rows: RowSource, _ page: CounterPage
    ) throws(StorageError) -> Fingerprint {
        var prints = Fingerprints()
        try rows.read(CounterKeys.all, page) {
            add($0, of: $1, to: &prints, folds: false) { _ in 0 }
        }
        return prints.rows
    }
}

/// Counters of some rows, summed.
struct CounterSum: Equatable {
    private(set) var counters = CounterRow()
    /// A bit for each column whose sum did not fit, so that what stands there is not the sum.
    private(set) var overflows: UInt32 = 0

    mutating func add(_ other: CounterRow) {
        for column in 0..<CounterRow.columnCount where other.values[column] != 0 {
            let (sum, overflow) = counters.values[column].addingReportingOverflow(
                other.values[column])
            counters.values[column] = sum
            guard overflow else { continue }
            let high = CounterColumn(rawValue: column)?.high?.rawValue
            if let high, counters.values[high] < .max {
                counters.values[high] += 1
            } else {
                overflows |= 1 << UInt32(high ?? column)
            }
        }
    }

    func overflows(_ column: CounterColumn) -> Bool {
        overflows >> UInt32((column.high ?? column).rawValue) & 1 != 0
    }

    mutating func add(_ other: CounterSum) {
        add(other.counters)
        overflows |= other.overflows
    }

    /// Takes from others what this lacks of some sums, as far as they have it.
    mutating func take(upTo sums: CounterSum, from others: inout CounterSum) {
        for column in CounterColumn.allCases where !column.isHigh {
            let (own, wanted) = (counters.sum(column), sums.counters.sum(column))
            let left = others.counters.sum(column)
            let part = min(left, wanted > own ? wanted - own : 0)
            counters.set(own + part, column)
            others.counters.set(left - part, column)
        }
    }

    /// How many events are counted.
    var grossRowCount: UInt64 {
        CounterColumn.allCases.reduce(0) { $1.isOfGross ? $0.saturatingSum(counters[$1]) : $0 }
    }
}

extension CounterRow {
    fileprivate mutating func set(_ sum: UInt128, _ column: CounterColumn) {
        values[column.rawValue] = UInt64(truncatingIfNeeded: sum)
        if let high = column.high { values[high.rawValue] = UInt64(truncatingIfNeeded: sum >> 64) }
    }
}

extension CounterColumn {
    /// Whether every row is counted in exactly one such column.
    var isOfGross: Bool {
        switch self {
        case .viewableImpressions, .undeterminedImpressions, .uncheckedEvents, .revenueMicros,
            .spendMicros, .revenueMicrosHigh, .spendMicrosHigh:
            false
        default: true
        }
    }
}
