// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The lines of one part, by what they are: how many of each, and how many rows of each verdict the log has for them.
///
/// Rows that were refused for their consent have no id: they are held against the lines that are equal but for that. Rows
/// beyond the bound of campaigns have neither campaign nor source: likewise, and platforms are not compared either.
struct SentEvents {
    struct Event {
        let base: (UInt64, UInt64)
        let names: UInt64
        let id: UInt64
        let timestamp: Int64
        let business: UInt64
        let reward: UInt64
        /// Of the first such line.
        fileprivate(set) var lineOffset: UInt64
        var count: UInt64 = 1
        /// By verdict: rows found; after `match` those that are of one of the lines, and were not taken yet.
        fileprivate var rows = InlineArray<13, UInt64>(repeating: 0)

        fileprivate init(_ record: InlineArray<8, UInt64>) {
            base = (record[0], record[1])
            (names, id) = (record[2], record[3])
            timestamp = Int64(bitPattern: record[4])
            (business, reward, lineOffset) = (record[5], record[6], record[7])
        }

        fileprivate func isEqual(_ other: Event) -> Bool {
            isEqualButForID(other) && id == other.id
        }

        fileprivate func isEqualButForID(_ other: Event) -> Bool {
            base == other.base && names == other.names
        }

        fileprivate func precedes(_ other: Event) -> Bool {
            precedes(other.base, other.names, other.id)
        }

        fileprivate func precedes(
            _ base: (UInt64, UInt64), _ names: UInt64, _ id: UInt64
        ) -> Bool {
            (self.base.0, self.base.1, self.names, self.id) < (base.0, base.1, names, id)
        }
    }

    /// Of rows with hidden names.
    private struct HiddenPlace: Hashable {
        /// Of the first line that is equal but for names and id.
        let first: Int
        let id: UInt64
    }

    private var events: [Event] = []
    /// Rows with hidden names, by what they have; after `match` those that are of a line, and were not taken yet. By verdict.
    private var hidden: [HiddenPlace: InlineArray<13, UInt64>] = [:]
    /// With how many events equal ones are brought together again.
    private var mergesAt = mergeCountMin
    static var mergeCountMin: Int { 1 << 12 }

    /// Lines are held one by one up to as many as there are different ones, and `mergeCountMin`.
    var heldCount: Int { events.count }

    mutating func append(_ record: InlineArray<8, UInt64>) {
        events.append(Event(record))
        guard events.count >= mergesAt else { return }
        sort()
        mergesAt = max(Self.mergeCountMin, 2 * events.count)
    }

    /// Brings equal ones together. To be called after the last line.
    mutating func sort() {
        events.sort { $0.precedes($1) }
        var count = 0
        for place in events.indices {
            if count > 0, events[count - 1].isEqual(events[place]) {
                events[count - 1].count += events[place].count
                events[count - 1].lineOffset = min(
                    events[count - 1].lineOffset, events[place].lineOffset)
            } else {
                events[count] = events[place]
                count += 1
            }
        }
        events.removeLast(events.count - count)
    }

    /// Where a row's lines are; of one without an id for its consent the first that is equal but for the id.
    private func place(of record: InlineArray<8, UInt64>, _ verdict: Verdict) -> Int? {
        let (base, names) = ((record[0], record[1]), record[2])
        let id = verdict == .noConsent ? 0 : record[3]
        let place = firstPlace(base, names, id)
        guard place < events.count, events[place].base == base, events[place].names == names
        else { return nil }
        return verdict == .noConsent || events[place].id == id ? place : nil
    }

    private func hiddenPlace(of record: InlineArray<8, UInt64>) -> HiddenPlace? {
        let base = (record[0], record[1])
        let first = firstPlace(base, 0, 0)
        guard first < events.count, events[first].base == base else { return nil }
        return HiddenPlace(first: first, id: record[3])
    }

    private func firstPlace(_ base: (UInt64, UInt64), _ names: UInt64, _ id: UInt64) -> Int {
        var (low, high) = (0, events.count)
        while low < high {
            let middle = (low + high) / 2
            if events[middle].precedes(base, names, id) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Notes a row of the log.
    mutating func add(row record: InlineArray<8, UInt64>) {
        let row = RowPlace(word: record[7])
        let verdict = Int(row.verdict.rawValue)
        if row.hasHiddenNames {
            guard let place = hiddenPlace(of: record) else { return }
            hidden[place, default: InlineArray(repeating: 0)][verdict] += 1
        } else if let place = place(of: record, row.verdict) {
            events[place].rows[verdict] += 1
        }
    }

    /// Decides how many rows of each verdict are of a line: the counted ones first. To be called after the last row.
    mutating func match() {
        let consent = Int(Verdict.noConsent.rawValue)
        var start = 0
        while start < events.count {
            // Rows of no consent stand with the first of those that differ in their ids alone.
            var (end, pool) = (start, events[start].rows[consent])
            while end < events.count, events[end].isEqualButForID(events[start]) {
                for verdict in events[end].rows.indices where verdict != consent {
                    let taken = min(events[end].rows[verdict], events[end].count)
                    events[end].rows[verdict] = taken
                    events[end].count -= taken
                }
                let taken = min(pool, events[end].count)
                events[end].count -= taken
                pool -= taken
                end += 1
            }
            events[start].rows[consent] -= pool
            start = end
        }
        if !hidden.isEmpty { matchHidden() }
    }

    /// Gives the rows with hidden names to lines that are left over, in one pass over these.
    private mutating func matchHidden() {
        var matched: [HiddenPlace: InlineArray<13, UInt64>] = [:]
        var first = 0
        for place in events.indices {
            if events[place].base != events[first].base { first = place }
            let key = HiddenPlace(first: first, id: events[place].id)
            guard events[place].count > 0, var rows = hidden[key] else { continue }
            var taken = matched[key] ?? InlineArray(repeating: 0)
            for verdict in rows.indices {
                let count = min(rows[verdict], events[place].count)
                events[place].count -= count
                rows[verdict] -= count
                taken[verdict] += count
            }
            hidden[key] = rows
            matched[key] = taken
        }
        hidden = matched
    }

    /// Whether a row is of a line: each of them once.
    mutating func take(row record: InlineArray<8, UInt64>) -> Bool {
        let row = RowPlace(word: record[7])
        let verdict = Int(row.verdict.rawValue)
        if row.hasHiddenNames {
            guard let place = hiddenPlace(of: record), hidden[place]?[verdict] ?? 0 > 0
            else { return false }
            hidden[place]?[verdict] -= 1
            return true
        }
        guard let place = place(of: record, row.verdict), events[place].rows[verdict] > 0
        else { return false }
        events[place].rows[verdict] -= 1
        return true
    }

    /// The lines that no row is of.
    var left: some Sequence<Event> { events.lazy.filter { $0.count > 0 } }
}
