// packet → decode → ring → [admit] → [block] → segment → [compaction] → snapshot → [query]

/// The rows of one block in memory, as columns: what admission appends to, the encoder reads, the
/// decoder fills, and every fold of counters reads. Owned by one stage at a time.
///
/// **Layout** One array a column. *Dense* columns have an element a row. *Sparse* columns have an element
/// only for rows whose attribute bit says so, in row order: event hashes (`eventID`), viewability
/// (`measured`), money (`money`).
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
    package let visible: UnsafeMutablePointer<UInt32>
    package let duration: UnsafeMutablePointer<UInt32>
    package let revenue: UnsafeMutablePointer<Int64>
    package let spend: UnsafeMutablePointer<Int64>

    /// The counts as one value, so that a writer can keep them in registers and set them once a packet,
    /// or take back the rows of a packet that did not fit.
    package var mark = Mark()

    package var rowCount: Int {
        get { mark.row }
        set { mark.row = newValue }
    }
    package var eventHashCount: Int {
        get { mark.eventHash }
        set { mark.eventHash = newValue }
    }
    package var measuredCount: Int {
        get { mark.measured }
        set { mark.measured = newValue }
    }
    package var moneyCount: Int {
        get { mark.money }
        set { mark.money = newValue }
    }

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
        unsafe visible.deallocate()
        unsafe duration.deallocate()
        unsafe revenue.deallocate()
        unsafe spend.deallocate()
    }

    /// How far each group of columns is filled.
    package struct Mark: BitwiseCopyable, Sendable {
        package var row = 0
        package var eventHash = 0
        package var measured = 0
        package var money = 0
        /// All revenue and spend, micros; kept by admission alone.
        package var moneyMicros: UInt64 = 0
        package init() {}
    }

    /// Empties the block; the memory stays.
    package func removeAll() { mark = Mark() }

    /// Whether a row has the key. Reads the column of keys.
    ///
    /// **Cost** A tenth of a nanosecond a row.
    package func contains(key wanted: UInt32) -> Bool {
        var isThere = false
        // SAFETY: rowCount keys are filled. All are looked at: so several are in one step.
        for row in 0..<rowCount { isThere = unsafe key[row] == wanted || isThere }
        return isThere
    }

    /// Keeps the rows of one key, under the key 0, with the columns that counters are folded from.
    package func keepRows(ofKey wanted: UInt32) {
        var (kept, money, keptMoney) = (0, 0, 0)
        for row in 0..<rowCount {
            // SAFETY: rowCount values are filled, and moneyCount amounts, one for each row that says so, by the decoder;
            // no more are kept than were gone through.
            let hasMoney = unsafe RowAttributes(rawValue: attributes[row]).hasMoney
            if unsafe key[row] == wanted {
                unsafe key[kept] = 0
                unsafe day[kept] = day[row]
                unsafe attributes[kept] = attributes[row]
                if hasMoney {
                    unsafe revenue[keptMoney] = revenue[money]
                    unsafe spend[keptMoney] = spend[money]
                    keptMoney += 1
                }
                kept += 1
            }
            if hasMoney { money += 1 }
        }
        mark = Mark()
        (rowCount, moneyCount) = (kept, keptMoney)
    }
}
