// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// The lines of one part, by what they are: how many of each, and how many rows of each verdict the log has for them.
///
/// Rows that were refused for their consent have no id: they are held against the lines that are equal but for that.
struct SentEvents {
    struct Event {
        let base: (UInt64, UInt64)
        let id: UInt64
        let timestamp: Int64
        let business: UInt64
        let reward: UInt64
        /// Of the first such line.
        let lineOffset: UInt64
        var count: UInt64 = 1
        /// By verdict: rows found; after `match` those that are of one of the lines, and were not taken yet.
        fileprivate var rows = InlineArray<13, UInt64>(repeating: 0)

        fileprivate init(_ record: InlineArray<7, UInt64>) {
            base = (record[0], record[1])
            id = record[2]
            timestamp = Int64(bitPattern: record[3])
            (business, reward, lineOffset) = (record[4], record[5], record[6])
        }

        fileprivate func isEqual(_ other: Event) -> Bool {
            base == other.base && id == other.id
        }

        fileprivate func precedes(_ base: (UInt64, UInt64), _ id: UInt64) -> Bool {
            (self.base.0, self.base.1, self.id) < (base.0, base.1, id)
        }
    }

    private var events: [Event] = []

    mutating func append(_ record: InlineArray<7, UInt64>) { events.append(Event(record)) }

    /// Brings equal ones together. To be called once, after the last line.
    mutating func sort() {
        events.sort { $0.precedes($1.base, $1.id) }
        var count = 0
        for place in events.indices {
            if count > 0, events[count - 1].isEqual(events[place]) {
                events[count - 1].count += 1
            } else {
                events[count] = events[place]
                count += 1
            }
        }
        events.removeLast(events.count - count)
    }

    /// Where a row's lines are; of one without an id for its consent the first that is equal but for the id.
    private func place(of record: InlineArray<7, UInt64>, _ verdict: Verdict) -> Int? {
        let base = (record[0], record[1])
        let id = verdict == .noConsent ? 0 : record[2]
        var (low, high) = (0, events.count)
        while low < high {
            let middle = (low + high) / 2
            if events[middle].precedes(base, id) { low = middle + 1 } else { high = middle }
        }
        guard low < events.count, events[low].base == base else { return nil }
        return verdict == .noConsent || events[low].id == id ? low : nil
    }

    /// Notes a row of the log.
    mutating func add(row record: InlineArray<7, UInt64>) {
        let verdict = RowPlace(word: record[6]).verdict
        guard let place = place(of: record, verdict) else { return }
        events[place].rows[Int(verdict.rawValue)] += 1
    }

    /// Decides how many rows of each verdict are of a line: the counted ones first. To be called after the last row.
    mutating func match() {
        let consent = Int(Verdict.noConsent.rawValue)
        var start = 0
        while start < events.count {
            // Rows of no consent stand with the first of those that differ in their ids alone.
            var (end, pool) = (start, events[start].rows[consent])
            while end < events.count, events[end].base == events[start].base {
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
    }

    /// Whether a row is of a line: each of them once.
    mutating func take(row record: InlineArray<7, UInt64>) -> Bool {
        let verdict = RowPlace(word: record[6]).verdict
        guard let place = place(of: record, verdict),
            events[place].rows[Int(verdict.rawValue)] > 0
        else { return false }
        events[place].rows[Int(verdict.rawValue)] -= 1
        return true
    }

    /// The lines that no row is of.
    var left: some Sequence<Event> { events.lazy.filter { $0.count > 0 } }
}
