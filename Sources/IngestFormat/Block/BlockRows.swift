// packet → decode → ring → [admit] → [block] → segment → [compaction] → snapshot → [query]
import CIngestLinux

/// The rows of one block in memory, as columns: what admission appends to, the encoder reads, the
/// decoder fills, and every fold of counters reads. Owned by one stage at a time.
///
/// **Layout** One array a column. *Dense* columns have an element a row. *Sparse* columns have an element
/// only for rows whose attribute bit says so, in row order: event hashes (`eventID`), pseudonyms of
/// sessions (`session`), rewards beyond the limit of their business (`overflow`), viewability (`measured`), money (`money`).
///
/// **Cost** About 4 MiB, taken once; appending allocates nothing.
@safe package final class BlockRows {
    package static let capacity = Limits.blockEventCountMax

    // Dense columns.
    package let key: UnsafeMutablePointer<UInt32>
    package let timestamp: UnsafeMutablePointer<Int64>
    /// Business day, days since 1970-01-01.
    package let day: UnsafeMutablePointer<Int32>
    package let attributes: UnsafeMutablePointer<UInt16>
    package let platform: UnsafeMutablePointer<UInt32>
    package let campaign: UnsafeMutablePointer<UInt32>
    package let source: UnsafeMutablePointer<UInt32>
    // Sparse columns.
    package let eventHash: UnsafeMutablePointer<UInt64>
    /// 48 bits of each.
    package let session: UnsafeMutablePointer<UInt64>
    /// Keyed hashes of names.
    package let rewardHash: UnsafeMutablePointer<UInt64>
    package let visible: UnsafeMutablePointer<UInt32>
    package let duration: UnsafeMutablePointer<UInt32>
    package let revenue: UnsafeMutablePointer<Int64>
    package let spend: UnsafeMutablePointer<Int64>

    /// The counts as one value, so that a writer can keep them in registers and set them once a packet,
    /// or take back the rows of a packet that did not fit.
    package var mark: Mark {
        // SAFETY: a block is one stage's at a time, and no access lasts longer than this.
        get { unsafe storedMark }
        set { unsafe storedMark = newValue }
    }
    @exclusivity(unchecked) private var storedMark = Mark()

    package var rowCount: Int { mark.row }
    package var eventHashCount: Int { mark.eventHash }
    package var sessionCount: Int { mark.session }
    package var rewardHashCount: Int { mark.rewardHash }
    package var measuredCount: Int { mark.measured }
    package var moneyCount: Int { mark.money }

    package init() {
        // SAFETY, of all uses: every column has room for `capacity` values, a sparse one as well, since it
        // has at most one a row; whoever appends or decodes holds its counts to that.
        unsafe key = .allocate(capacity: Self.capacity)
        unsafe timestamp = .allocate(capacity: Self.capacity)
        unsafe day = .allocate(capacity: Self.capacity)
        unsafe attributes = .allocate(capacity: Self.capacity)
        unsafe platform = .allocate(capacity: Self.capacity)
        unsafe campaign = .allocate(capacity: Self.capacity)
        unsafe source = .allocate(capacity: Self.capacity)
        unsafe eventHash = .allocate(capacity: Self.capacity)
        unsafe session = .allocate(capacity: Self.capacity)
        unsafe rewardHash = .allocate(capacity: Self.capacity)
        unsafe visible = .allocate(capacity: Self.capacity)
        unsafe duration = .allocate(capacity: Self.capacity)
        unsafe revenue = .allocate(capacity: Self.capacity)
        unsafe spend = .allocate(capacity: Self.capacity)
    }

    deinit {
        unsafe key.deallocate()
        unsafe timestamp.deallocate()
        unsafe day.deallocate()
        unsafe attributes.deallocate()
        unsafe platform.deallocate()
        unsafe campaign.deallocate()
        unsafe source.deallocate()
        unsafe eventHash.deallocate()
        unsafe session.deallocate()
        unsafe rewardHash.deallocate()
        unsafe visible.deallocate()
        unsafe duration.deallocate()
        unsafe revenue.deallocate()
        unsafe spend.deallocate()
    }

    /// How far each group of columns is filled.
    package struct Mark: BitwiseCopyable, Sendable {
        package var row = 0
        package var eventHash = 0
        package var session = 0
        package var rewardHash = 0
        package var measured = 0
        package var money = 0
        /// Whether a row may have a campaign or a source: else these columns are not looked at. Set by who fills them.
        package var isAttributed = false
        /// All revenue and spend, micros; kept by admission alone.
        package var moneyMicros: UInt64 = 0
        package init() {}
    }

    /// Empties the block; the memory stays.
    package func removeAll() { mark = Mark() }

    /// Adds all rows of another block; the caller has seen that there is room for them.
    package func append(_ other: BlockRows) {
        precondition(rowCount + other.rowCount <= Self.capacity)
        let (row, measured, money) = (rowCount, measuredCount, moneyCount)
        let (hash, session, reward) = (eventHashCount, sessionCount, rewardHashCount)
        // SAFETY: each column has room for `capacity` values, and no sparse one has more values than rows.
        unsafe (key + row).update(from: other.key, count: other.rowCount)
        unsafe (timestamp + row).update(from: other.timestamp, count: other.rowCount)
        unsafe (day + row).update(from: other.day, count: other.rowCount)
        unsafe (attributes + row).update(from: other.attributes, count: other.rowCount)
        unsafe (platform + row).update(from: other.platform, count: other.rowCount)
        unsafe (campaign + row).update(from: other.campaign, count: other.rowCount)
        unsafe (source + row).update(from: other.source, count: other.rowCount)
        unsafe (eventHash + hash).update(from: other.eventHash, count: other.eventHashCount)
        unsafe (self.session + session).update(from: other.session, count: other.sessionCount)
        unsafe (rewardHash + reward).update(from: other.rewardHash, count: other.rewardHashCount)
        unsafe (visible + measured).update(from: other.visible, count: other.measuredCount)
        unsafe (duration + measured).update(from: other.duration, count: other.measuredCount)
        unsafe (revenue + money).update(from: other.revenue, count: other.moneyCount)
        unsafe (spend + money).update(from: other.spend, count: other.moneyCount)
        mark.row += other.rowCount
        mark.eventHash += other.eventHashCount
        mark.session += other.sessionCount
        mark.rewardHash += other.rewardHashCount
        mark.measured += other.measuredCount
        mark.money += other.moneyCount
        mark.isAttributed = mark.isAttributed || other.mark.isAttributed
    }

    /// Whether both have the same rows in the same order, in all columns.
    package func hasSameRows(as other: BlockRows) -> Bool {
        func same<Value: BitwiseCopyable>(
            _ a: UnsafeMutablePointer<Value>, _ b: UnsafeMutablePointer<Value>, _ count: Int
        ) -> Bool {
            // SAFETY: count values of both are filled.
            unsafe UnsafeRawBufferPointer(UnsafeBufferPointer(start: a, count: count))
                .elementsEqual(UnsafeRawBufferPointer(UnsafeBufferPointer(start: b, count: count)))
        }
        guard rowCount == other.rowCount, eventHashCount == other.eventHashCount,
            sessionCount == other.sessionCount, rewardHashCount == other.rewardHashCount,
            measuredCount == other.measuredCount,
            moneyCount == other.moneyCount
        else { return false }
        return unsafe same(key, other.key, rowCount) && same(timestamp, other.timestamp, rowCount)
            && same(day, other.day, rowCount) && same(attributes, other.attributes, rowCount)
            && same(platform, other.platform, rowCount) && same(campaign, other.campaign, rowCount)
            && same(source, other.source, rowCount)
            && same(eventHash, other.eventHash, eventHashCount)
            && same(session, other.session, sessionCount)
            && same(rewardHash, other.rewardHash, rewardHashCount)
            && same(visible, other.visible, measuredCount)
            && same(duration, other.duration, measuredCount)
            && same(revenue, other.revenue, moneyCount) && same(spend, other.spend, moneyCount)
    }

    /// All revenue and spend; at the largest value where that is more.
    package var moneySum: UInt64 {
        var sum: UInt64 = 0
        for place in 0..<moneyCount {
            // SAFETY: moneyCount amounts are filled.
            let amounts = unsafe (UInt64(clamping: revenue[place]), UInt64(clamping: spend[place]))
            sum = sum.saturatingSum(amounts.0).saturatingSum(amounts.1)
        }
        return sum
    }

    /// The rows that have the key. Reads the column of keys.
    ///
    /// **Cost** A tenth of a nanosecond a row, where few have it.
    package func rows(ofKey wanted: UInt32) -> [Int] {
        var rows: [Int] = []
        var first = 0
        while first < rowCount {
            // SAFETY: `capacity` is a multiple of 16, so that 16 keys can be read; what lies behind the last row is left out.
            var found = unsafe ingest_numbers_scan(key + first, wanted)
            if rowCount &- first < 16 { found &= 1 &<< UInt32(rowCount &- first) &- 1 }
            while found != 0 {
                rows.append(first &+ found.trailingZeroBitCount)
                found &= found &- 1
            }
            first &+= 16
        }
        return rows
    }

    /// Keeps some rows, under the key 0, with the columns that their counters are folded from: without campaigns and sources.
    /// - Parameter wanted: ascending, of a block whose attributes, days and amounts are filled.
    package func keep(_ wanted: [Int]) {
        var (kept, money, keptMoney, counted) = (0, 0, 0, 0)
        let attributes = unsafe attributes
        for row in wanted {
            precondition(row >= counted && row < rowCount)
            // SAFETY: rowCount values are filled, and moneyCount amounts, one for each row that says so, by the decoder;
            // no more are kept than were gone through.
            // A range in a loop is checked at each step, which then is one by one.
            while counted < row {
                money &+= unsafe RowAttributes(rawValue: attributes[counted]).hasMoney ? 1 : 0
                counted &+= 1
            }
            unsafe key[kept] = 0
            unsafe day[kept] = day[row]
            unsafe attributes[kept] = attributes[row]
            if unsafe RowAttributes(rawValue: attributes[kept]).hasMoney {
                unsafe revenue[keptMoney] = revenue[money]
                unsafe spend[keptMoney] = spend[money]
                keptMoney += 1
            }
            kept += 1
        }
        mark = Mark()
        (mark.row, mark.money) = (kept, keptMoney)
    }
}
