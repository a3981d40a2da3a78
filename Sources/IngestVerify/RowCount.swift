// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
// Part of `verify`: shares no code with what folds and merges counters.
import IngestFormat
import IngestStorage

/// The rows of one segment as they are counted again: their fingerprint, and, where asked for, the rows themselves.
/// Owned by one thread.
///
/// **Cost** 2 to 3 ns a row. With the rows some 200 ns a row, and about 300 bytes for each key and day.
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
        var (moneyRow, total) = (0, UInt128(fingerprint.value))
        for row in 0..<rows.rowCount {
            let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
            defer { if attributes.hasMoney { moneyRow += 1 } }
            let pair = unsafe UInt64(rows.campaign[row]) &<< 32 | UInt64(rows.source[row])
            if pair == 0 { continue }
            let order = unsafe CounterPage.order(key: rows.key[row], day: rows.day[row])
            var own = hash.attributes[Int(attributes.rawValue)]
            if attributes.hasMoney, attributes.verdict == .counted {
                own &+= hash.money(rows.money(moneyRow))
            }
            total &+= UInt128(hash.weight(hash.order(order, attributedTo: pair))) &* UInt128(own)
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
                    var own = unsafe weights[Int(bits)]
                    senselessCount &+= own == 0 ? 1 : 0
                    let verdict = Int(bits &>> 2 & 15)
                    unsafe span[unchecked: (row & 3) &<< 4 | verdict] &+= 1
                    if bits & RowAttributes.money != 0 {
                        if verdict == 0 { own &+= hash.money(rows.money(moneyRow)) }
                        moneyRow &+= 1
                    }
                    let weight = unsafe hash.weight(UInt64(keys[row]) &<< 32 | day(row))
                    total &+= UInt128(weight) &* UInt128(own)
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
        // What was refused from far away, by the clock or before it, belongs to the day on which it came.
        switch unsafe RowAttributes(rawValue: rows.attributes[row]).verdict {
        case .tooOld, .tooEarly, .noConsent: return isPossible(day, at: clock)
        default: return false
        }
    }

    /// Whether it can have been the day at that time somewhere.
    private static func isPossible(_ day: Int32, at time: Int64) -> Bool {
        let passed = time &- Int64(day) &* dayLength &+ dayLength
        return UInt64(bitPattern: passed) < UInt64(3 * dayLength)
    }
}

extension BlockRows {
    /// The amounts of one of the rows that have money.
    /// - Parameter place: among them, in order.
    @inline(__always)
    func money(_ place: Int) -> (revenueMicros: UInt64, spendMicros: UInt64) {
        // SAFETY: as in `RowCount.count`.
        unsafe (UInt64(clamping: revenue[place]), UInt64(clamping: spend[place]))
    }
}

/// Whose counters a row has.
struct RowPlace: Hashable, Comparable, Sendable {
    /// Of the key and the day, or of the business and the day.
    let order: UInt64
    /// Campaign and source, if it is an attributed row's; else 0.
    var pair: UInt64 = 0

    var item: UInt32 { UInt32(order >> 32) }
    var day: Int32 { CounterPage.day(ofOrder: order) }

    static func < (a: Self, b: Self) -> Bool { (a.order, a.pair) < (b.order, b.pair) }
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
    /// - Parameter open: gives it once more, where a file for each source would be too many.
    init<Files>(
        _ run: RunReader<Files>, name: FileName,
        open: @escaping @Sendable () throws(StorageError) -> RunReader<Files>
    ) throws(StorageError) {
        let list = try run.readAttributions()
        self.init(run.index, name) { (items, page, body) throws(StorageError) in
            let run = try open()
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

/// The counters of each key and day: of a segment whose footer says otherwise. Rows with a campaign or a source are
/// counted under their key, and again under their attribution.
@safe struct CountedRows: Sendable {
    private var sums: [RowPlace: CounterRow] = [:]

    /// Adds the rows of a decoded block; those whose attributes or days cannot be are left out.
    mutating func add(_ rows: BlockRows) {
        var moneyRow = 0
        for row in 0..<rows.rowCount {
            // SAFETY: a decoder filled rowCount elements, and as many of money as have the bit.
            let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
            defer { if attributes.hasMoney { moneyRow += 1 } }
            let (order, day) = unsafe (
                CounterPage.order(key: rows.key[row], day: rows.day[row]), rows.day[row]
            )
            let columns = CountedColumns.ofAttributes[Int(attributes.rawValue)]
            guard !columns.isEmpty, Limits.businessDays.contains(day) else { continue }
            let money =
                attributes.hasMoney && attributes.verdict == .counted
                ? rows.money(moneyRow) : (0, 0)
            sums[RowPlace(order: order), default: CounterRow()].count(columns, money)
            guard rows.mark.isAttributed else { continue }
            let pair = unsafe UInt64(rows.campaign[row]) << 32 | UInt64(rows.source[row])
            if pair == 0 { continue }
            sums[RowPlace(order: order, pair: pair), default: CounterRow()].count(columns, money)
        }
    }

    /// All rows, by key and day, and the attributions of those behind.
    func table() -> (table: CounterTable, attributions: AttributionList) {
        var encoder = CounterTableEncoder(hasDay: true)
        for (place, sum) in sums.sorted(by: { $0.key < $1.key }) where place.pair == 0 {
            encoder.append(key: place.item, day: place.day, counters: sum)
        }
        var entries: [Attribution] = []
        let attributed = sums.filter { $0.key.pair != 0 }.sorted {
            ($0.key.attribution, $0.key.order) < ($1.key.attribution, $1.key.order)
        }
        for (place, sum) in attributed {
            if entries.last != place.attribution { entries.append(place.attribution) }
            let key = CounterKeys.firstAttributed + UInt32(entries.count - 1)
            encoder.append(key: key, day: place.day, counters: sum)
        }
        return (encoder.finish(), AttributionList(sorted: entries))
    }
}

extension RowPlace {
    fileprivate var attribution: Attribution {
        Attribution(
            key: item, campaign: UInt32(pair >> 32), source: UInt32(truncatingIfNeeded: pair))
    }
}

extension CounterRow {
    /// Adds a row of the log. A segment's money fits 64 bits (docs/decisions/0024-money-sums.md).
    fileprivate mutating func count(
        _ columns: CounterColumnSet, _ money: (revenueMicros: UInt64, spendMicros: UInt64)
    ) {
        var rest = columns
        while let column = rest.popFirst() { values[column] += 1 }
        self[.revenueMicros] = self[.revenueMicros].saturatingSum(money.revenueMicros)
        self[.spendMicros] = self[.spendMicros].saturatingSum(money.spendMicros)
    }
}

/// Counters of some rows, summed, each in 128 bits.
struct CounterSum: Equatable {
    /// Those that have a sum: the high halves of others are a part of theirs.
    static let columns = CounterColumn.allCases.filter { !$0.isHigh }

    /// By column.
    private var sums = InlineArray<26, UInt128>(repeating: 0)

    private(set) subscript(_ column: CounterColumn) -> UInt128 {
        get { sums[column.rawValue] }
        set { sums[column.rawValue] = newValue }
    }

    mutating func add(_ row: CounterRow) {
        for column in Self.columns {
            let (sum, overflow) = self[column].addingReportingOverflow(row.sum(column))
            self[column] = overflow ? .max : sum
        }
    }

    /// Whether a row can have the sum of a column.
    func fits(_ column: CounterColumn) -> Bool {
        self[column] < (column.high == nil ? 1 << 64 : .max)
    }

    var fits: Bool { Self.columns.allSatisfy { fits($0) } }

    /// Takes from others what this lacks of some sums, as far as they have it.
    mutating func take(upTo wanted: CounterSum, from others: inout CounterSum) {
        for column in Self.columns where wanted[column] > self[column] {
            let part = min(others[column], wanted[column] - self[column])
            self[column] += part
            others[column] -= part
        }
    }

    /// How many events are counted.
    var grossRowCount: UInt64 {
        Self.columns.reduce(0) { $1.isOfGross ? $0.saturatingSum(UInt64(clamping: self[$1])) : $0 }
    }

    static func == (a: Self, b: Self) -> Bool { columns.allSatisfy { a[$0] == b[$0] } }
}

extension CounterColumn {
    /// Whether every row is counted in exactly one such column.
    var isOfGross: Bool {
        switch self {
        case .viewableImpressions, .undeterminedImpressions, .uncheckedEvents, .revenueMicros,
            .spendMicros, .revenueMicrosHigh, .spendMicrosHigh, .orphanClicks, .orphanRedemptions,
            .overflowEvents:
            false
        default: true
        }
    }
}
