// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
// Part of `verify`: shares no code with what folds counters.
import CIngestLinux
import IngestFormat

/// The rows of one segment, counted by (key, day). Owned by one thread; read by others when it is finished.
///
/// **Layout** Of a day with many rows a *slab*: for each key 32 numbers of 8 bits, one a lane, in half a cache line; a
/// number that wraps is noted as a *carry*, which stands for 256. Rows of other days are summed one by one.
///
/// **Cost** 32 bytes a key and day with many rows, 16 more with money, 512 MiB at most; some 100 bytes a place of other
/// days. 2 to 5 ns a row, some 100 ns on a day without a slab.
@safe final class RowCount: @unchecked Sendable {
    /// Items are ordinals of keys or of names.
    static let itemCountMax = max(Limits.keyCountMax, Limits.nameCountMax + 1)
    private static let slabByteCountMax = 512 << 20
    private static let dayLength: Int64 = 86_400_000_000

    struct Outcome {
        /// Rows by verdict, by its raw value.
        var verdicts = [UInt64](repeating: 0, count: 16)
        /// Rows whose attributes name no type or no verdict, or of a day on which it was nowhere the row's time.
        var senselessCount = 0
    }

    private let keyCount: Int
    private let slabCountMax: Int
    /// By day.
    private var slabs: [Slab] = []
    /// Slabs that wait for the next segment, all zeros.
    private var free: [Slab] = []
    /// Rows of days without a slab, and how many there are of a day.
    private let others = RowSums()
    private var otherRowCounts: [Int32: Int] = [:]
    /// Behind the greatest key.
    private(set) var keyEnd: UInt32 = 0
    /// All revenue and spend; at most 2^64 − 1.
    private(set) var moneyMicros: UInt64 = 0
    private let laneOf: UnsafeMutablePointer<UInt8>
    /// Rows by verdict in four parts, so that one popular verdict does not make each row wait for the last.
    private let verdicts: UnsafeMutablePointer<UInt32>

    /// - Parameter keyCount: of the directory, about.
    init(keyCount: Int) {
        self.keyCount = min(max(keyCount, 1), Self.itemCountMax)
        slabCountMax = max(1, Self.slabByteCountMax / (self.keyCount * Lane.count))
        unsafe laneOf = .allocate(capacity: 1 << 16)
        unsafe laneOf.update(from: Lane.ofAttributes, count: 1 << 16)
        unsafe verdicts = .allocate(capacity: 64)
    }

    deinit {
        unsafe laneOf.deallocate()
        unsafe verdicts.deallocate()
    }

    /// Empties it for the next segment; the memory stays.
    func removeAll() {
        for slab in slabs { slab.clear(keyEnd: Int(keyEnd)) }
        free += slabs
        slabs.removeAll()
        others.removeAll()
        otherRowCounts.removeAll()
        (keyEnd, moneyMicros) = (0, 0)
    }

    // MARK: Rows

    /// Counts all rows of a decoded block.
    /// - Parameters:
    ///   - rows: the columns attributes, key, timestamp, day, revenue and spend are read.
    ///   - times: the least and the greatest of them.
    ///   - admissionTime: of the block.
    func count(
        _ rows: BlockRows, times: (least: Int64, greatest: Int64), admissionTime: Int64
    ) -> Outcome {
        var outcome = Outcome()
        let clock = min(max(admissionTime, 0), Limits.timestampMicrosecondsMax)
        let sure = Self.sureDays(times)
        var place = (row: 0, money: 0)
        unsafe verdicts.update(repeating: 0, count: 64)
        while place.row < rows.rowCount {
            // SAFETY: a decoder filled rowCount elements of the dense columns.
            let day = unsafe rows.day[place.row]
            if sure.contains(day), let slab = slab(of: day) {
                countPlain(rows, &place, day, slab)
                if place.row == rows.rowCount { break }
            }
            countAny(rows, &place, sure, clock, &outcome)
        }
        for index in 0..<64 { outcome.verdicts[index & 15] += unsafe UInt64(verdicts[index]) }
        return outcome
    }

    /// The days that it was somewhere at every time of the block: offsets from UTC are below a day.
    private static func sureDays(
        _ times: (least: Int64, greatest: Int64)
    ) -> ClosedRange<Int32> {
        func day(_ time: Int64) -> Int64 {
            time / dayLength - (time % dayLength < 0 ? 1 : 0)
        }
        let low = max(day(times.greatest) - 1, Int64(Limits.businessDays.lowerBound))
        let high = min(day(times.least) + 1, Int64(Limits.businessDays.upperBound))
        // No row is surely of a day where the block's times are further apart.
        return low <= high ? Int32(low)...Int32(high) : Int32.max...Int32.max
    }

    /// Counts rows of one day into its slab, up to the first that is of another day, or has a key or attributes that
    /// cannot be.
    private func countPlain(
        _ rows: BlockRows, _ place: inout (row: Int, money: Int), _ day: Int32, _ slab: Slab
    ) {
        let (keys, days) = unsafe (UnsafePointer(rows.key), UnsafePointer(rows.day))
        let attributes = unsafe UnsafePointer(rows.attributes)
        let (base, lanes, verdicts) = unsafe (slab.lanes, laneOf, verdicts)
        let (count, keyCount) = (rows.rowCount, UInt32(slab.keyCount))
        var (row, moneyRow, greatest) = (place.row, place.money, keyEnd)
        // SAFETY: rows have rowCount elements, and as many of money as have the bit; there are 2^16 lanes and 64
        // verdicts; a key is below the slab's count; a prefetch reads nothing.
        while row < count {
            let bits = unsafe attributes[row]
            let (key, lane) = unsafe (keys[row], lanes[Int(bits)])
            guard unsafe days[row] == day, key < keyCount, lane < Lane.count else { break }
            unsafe ingest_prefetch(base + Int(keys[min(row &+ 24, count &- 1)]) &* Lane.count)
            let number = Int(key) &* Lane.count &+ Int(lane)
            let sum = unsafe base[number] &+ 1
            unsafe base[number] = sum
            if sum == 0 { slab.carries.append(UInt32(truncatingIfNeeded: number)) }
            greatest = max(greatest, key &+ 1)
            let verdict = Int(bits &>> 2 & 15)
            unsafe verdicts[(row & 3) &<< 4 | verdict] &+= 1
            if bits & RowAttributes.money != 0 {
                if verdict == 0 {
                    unsafe add(rows.revenue[moneyRow], rows.spend[moneyRow], key, day, to: slab)
                }
                moneyRow &+= 1
            }
            row &+= 1
        }
        (place.row, place.money, keyEnd) = (row, moneyRow, greatest)
    }

    /// Counts one row, whatever it is.
    private func countAny(
        _ rows: BlockRows, _ place: inout (row: Int, money: Int), _ sure: ClosedRange<Int32>,
        _ clock: Int64, _ outcome: inout Outcome
    ) {
        let row = place.row
        place.row += 1
        // SAFETY: a decoder filled rowCount elements of the dense columns, and as many of money as have the bit.
        let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
        let (key, day) = unsafe (rows.key[row], rows.day[row])
        let moneyRow = place.money
        if attributes.hasMoney { place.money += 1 }
        let lane = Lane.ofAttributes[Int(attributes.rawValue)]
        guard lane != Lane.none, let verdict = attributes.verdict, key < Self.itemCountMax,
            Limits.businessDays.contains(day)
        else {
            outcome.senselessCount += 1
            return
        }
        outcome.verdicts[Int(verdict.rawValue)] += 1
        keyEnd = max(keyEnd, key + 1)
        // What the clock refused from far away belongs to the day on which it came.
        let isRefused = verdict == .tooOld || verdict == .tooEarly
        if !sure.contains(day), unsafe !Self.isPossible(day, at: rows.timestamp[row]),
            !(isRefused && Self.isPossible(day, at: clock))
        {
            outcome.senselessCount += 1
        }
        let slab = add(key, day, Int(lane))
        guard attributes.hasMoney, verdict == .counted, moneyRow < rows.moneyCount else { return }
        unsafe add(rows.revenue[moneyRow], rows.spend[moneyRow], key, day, to: slab)
    }

    /// Whether it can have been the day at that time somewhere.
    private static func isPossible(_ day: Int32, at time: Int64) -> Bool {
        let passed = time &- Int64(day) &* dayLength &+ dayLength
        return UInt64(bitPattern: passed) < UInt64(3 * dayLength)
    }

    /// Counts a row.
    /// - Returns: the slab that it is in, if any.
    private func add(_ key: UInt32, _ day: Int32, _ lane: Int) -> Slab? {
        if let slab = slab(of: day), key < slab.keyCount {
            slab.add(Int(key) * Lane.count + lane)
            return slab
        }
        otherRowCounts[day, default: 0] += 1
        let slot = others.slot(of: RowSums.order(item: key, day: day))
        for column in Lane.columns[lane] { others.add(1, to: column, at: slot) }
        return nil
    }

    /// Adds the money of a counted row; decoders take no amount below 0.
    private func add(
        _ revenueMicros: Int64, _ spendMicros: Int64, _ key: UInt32, _ day: Int32, to slab: Slab?
    ) {
        let (revenue, spend) = (UInt64(clamping: revenueMicros), UInt64(clamping: spendMicros))
        moneyMicros = moneyMicros.saturatingSum(revenue).saturatingSum(spend)
        if let slab { return slab.add(revenue, spend, key) }
        let slot = others.slot(of: RowSums.order(item: key, day: day))
        others.add(revenue, to: CounterColumn.revenueMicros.rawValue, at: slot)
        others.add(spend, to: CounterColumn.spendMicros.rawValue, at: slot)
    }

    /// The slab of a day: of the first one at once, of others when they have enough rows to be worth one.
    private func slab(of day: Int32) -> Slab? {
        if let slab = slabs.first(where: { $0.day == day }) { return slab }
        let isWorthOne = slabs.isEmpty || otherRowCounts[day] ?? 0 > keyCount / 64
        guard isWorthOne, slabs.count < slabCountMax else { return nil }
        let slab = free.popLast() ?? Slab(keyCount: keyCount)
        slab.day = day
        slabs.insert(slab, at: slabs.firstIndex { $0.day > day } ?? slabs.count)
        return slab
    }

    // MARK: Counters

    /// Puts in order what has to be; no rows are counted any more.
    func finish() {
        for slab in slabs { slab.carries.sort() }
        _ = others.sortedSlots()
    }

    /// Adds the counters of some keys, by key and day.
    func add(_ keys: ClosedRange<UInt32>, to sums: RowSums) {
        var rest = others.slots(of: keys)
        let end = UInt32(min(UInt64(keyEnd), UInt64(keys.upperBound) + 1))
        for key in min(keys.lowerBound, end)..<end {
            for slab in slabs {
                let order = RowSums.order(item: key, day: slab.day)
                while let slot = rest.first, others.order(slot) < order {
                    sums.add(others, slots: [slot])
                    rest.removeFirst()
                }
                slab.add(key, as: order, to: sums)
            }
        }
        sums.add(others, slots: rest)
        for slab in slabs { slab.addCarries(keys, to: sums) }
    }
}

/// The rows of one day by key and lane, as `RowCount` says.
@safe private final class Slab {
    let keyCount: Int
    var day: Int32 = 0
    let lanes: UnsafeMutablePointer<UInt8>
    /// Revenue and spend by key, if any row has money.
    private var money: UnsafeMutablePointer<UInt64>?
    /// Places that wrapped.
    var carries: [UInt32] = []

    init(keyCount: Int) {
        self.keyCount = keyCount
        unsafe lanes = .allocate(capacity: keyCount * Lane.count)
        unsafe lanes.initialize(repeating: 0, count: keyCount * Lane.count)
    }

    deinit {
        unsafe lanes.deallocate()
        unsafe money?.deallocate()
    }

    /// Makes it all zeros again. - Parameter keyEnd: behind the greatest key that was added.
    func clear(keyEnd: Int) {
        let end = min(keyEnd, keyCount)
        // SAFETY, here and below: keys are below keyCount.
        unsafe lanes.update(repeating: 0, count: end * Lane.count)
        unsafe money?.update(repeating: 0, count: 2 * end)
        carries.removeAll(keepingCapacity: true)
    }

    func add(_ place: Int) {
        precondition(place < keyCount * Lane.count)
        let number = unsafe lanes[place] &+ 1
        unsafe lanes[place] = number
        if number == 0 { carries.append(UInt32(truncatingIfNeeded: place)) }
    }

    func add(_ revenue: UInt64, _ spend: UInt64, _ key: UInt32) {
        precondition(key < keyCount)
        if unsafe money == nil {
            let made = UnsafeMutablePointer<UInt64>.allocate(capacity: 2 * keyCount)
            unsafe made.initialize(repeating: 0, count: 2 * keyCount)
            unsafe money = made
        }
        guard let pair = unsafe money.map({ unsafe $0 + 2 * Int(key) }) else { return }
        unsafe pair[0] = pair[0].saturatingSum(revenue)
        unsafe pair[1] = pair[1].saturatingSum(spend)
    }

    /// Adds the counters of a key, if it has any.
    @inline(__always)
    func add(_ key: UInt32, as order: UInt64, to sums: RowSums) {
        guard key < keyCount else { return }
        let line = unsafe UnsafeRawPointer(lanes + Int(key) * Lane.count)
        let words = unsafe line.loadUnaligned(as: SIMD4<UInt64>.self)
        let pair = unsafe money.map { unsafe ($0[2 * Int(key)], $0[2 * Int(key) + 1]) } ?? (0, 0)
        if words == SIMD4.zero && pair == (0, 0) { return }
        let slot = sums.slot(of: order)
        for index in 0..<4 {
            var word = words[index]
            while word != 0 {
                let shift = UInt64(word.trailingZeroBitCount) & ~7
                let number = word >> shift & 0xFF
                word &= ~(0xFF << shift)
                for column in Lane.columns[8 * index + Int(shift >> 3)] {
                    sums.add(number, to: column, at: slot)
                }
            }
        }
        sums.add(pair.0, to: CounterColumn.revenueMicros.rawValue, at: slot)
        sums.add(pair.1, to: CounterColumn.spendMicros.rawValue, at: slot)
    }

    /// Adds what wrapped of some keys.
    func addCarries(_ keys: ClosedRange<UInt32>, to sums: RowSums) {
        let first = UInt64(keys.lowerBound) * UInt64(Lane.count)
        let end = (UInt64(keys.upperBound) + 1) * UInt64(Lane.count)
        var (low, high) = (0, carries.count)
        while low < high {
            let middle = (low + high) / 2
            if UInt64(carries[middle]) < first { low = middle + 1 } else { high = middle }
        }
        for place in carries[low...] {
            if UInt64(place) >= end { break }
            let slot = sums.slot(of: RowSums.order(item: place / UInt32(Lane.count), day: day))
            for column in Lane.columns[Int(place) % Lane.count] {
                sums.add(256, to: column, at: slot)
            }
        }
    }
}
