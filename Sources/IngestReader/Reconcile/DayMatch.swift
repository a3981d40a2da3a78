// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// Which business-days a file is of, and which rows on them it does not have. Owned by one reconciliation.
///
/// A business-day is the file's if a row of one of its lines is on it, or a line without a row belongs to it: by its time,
/// between two rows that the log has of the business on that day, else by its date in UTC. Rows that were refused from
/// far away are on the day of their admission (docs/counting.md, *Clock*); they do not make that a day of the file.
///
/// **Cost** 40 bytes for each business-day of the rows, in 64 parts; the buffers of three spills.
final class DayMatch<Scratch: FileSystem> {
    private struct Day: Hashable {
        let business: UInt64
        let day: Int32
    }

    private struct Interval {
        var first: Int64
        var last: Int64
        var isOfFile: Bool

        mutating func add(_ other: Interval) {
            first = min(first, other.first)
            last = max(last, other.last)
            isOfFile = isOfFile || other.isOfFile
        }
    }

    private static var partCount: Int { 64 }

    /// Business, day, first and last time, whether a line has a row on it.
    private let intervals: Spill<Scratch>
    /// Of lines without a row: business, reward, time, count, place, reason if it was refused, else 0.
    private let lines: Spill<Scratch>
    /// Of rows without a line: business, reward, place.
    private let rows: Spill<Scratch>
    private var recent: [Day: Interval] = [:]
    private let recentCountMax: Int

    init(byteCountMax: Int, in scratch: Scratch) {
        func spill() -> Spill<Scratch> {
            Spill(partCount: Self.partCount, byteCountMax: byteCountMax, in: scratch)
        }
        (intervals, lines, rows) = (spill(), spill(), spill())
        recentCountMax = max(16, byteCountMax / 128)
    }

    func add(
        row record: Spill<Scratch>.Record, _ place: RowPlace, isMatched: Bool
    ) throws(ReaderError) {
        let time = Int64(bitPattern: record[4])
        if abs(DayRange.day(of: time) - Int64(place.day)) <= 1 {
            let interval = Interval(first: time, last: time, isOfFile: isMatched)
            let day = Day(business: record[5], day: place.day)
            if recent[day]?.add(interval) == nil { recent[day] = interval }
            if recent.count > recentCountMax { try writeIntervals() }
        }
        if isMatched { return }
        try rows.append(
            [record[5], record[6], place.word, 0, 0, 0, 0, 0], hash: Self.hash(record[5]))
    }

    /// - Parameter reason: of a refusal that is in the ledger alone.
    func add(line event: SentEvents.Event, refusedAs reason: Verdict? = nil) throws(ReaderError) {
        try lines.append(
            [
                event.business, event.reward, UInt64(bitPattern: event.timestamp), event.count,
                event.lineOffset, UInt64(reason?.rawValue ?? 0), 0, 0,
            ], hash: Self.hash(event.business))
    }

    private static func hash(_ business: UInt64) -> UInt64 { SplitMix.finish(business) }

    private func writeIntervals() throws(ReaderError) {
        for (day, interval) in recent {
            try intervals.append(
                [
                    day.business, UInt64(bitPattern: Int64(day.day)),
                    UInt64(bitPattern: interval.first), UInt64(bitPattern: interval.last),
                    interval.isOfFile ? 1 : 0, 0, 0, 0,
                ], hash: Self.hash(day.business))
        }
        recent.removeAll(keepingCapacity: true)
    }

    /// Says of every line and row that is left what it is. To be called once, after the last of them.
    func finish(
        _ days: DayRange, _ found: inout Reconciliation, into differences: DifferenceList<Scratch>
    ) throws(ReaderError) {
        try writeIntervals()
        for part in 0..<Self.partCount {
            var known: [Day: Interval] = [:]
            try intervals.forEach(in: part) { (record) throws(ReaderError) in
                let day = Day(
                    business: record[0], day: Int32(truncatingIfNeeded: record[1]))
                let interval = Interval(
                    first: Int64(bitPattern: record[2]), last: Int64(bitPattern: record[3]),
                    isOfFile: record[4] != 0)
                if known[day]?.add(interval) == nil { known[day] = interval }
            }
            try lines.forEach(in: part) { (record) throws(ReaderError) in
                let time = Int64(bitPattern: record[2])
                let day = Self.day(of: time, record[0], known)
                guard days.contains(day) else {
                    found.otherDaysCount += record[3]
                    return
                }
                // Which day it is was not told by a row.
                let interval = Interval(first: .max, last: .min, isOfFile: true)
                let place = Day(business: record[0], day: day)
                if known[place]?.add(interval) == nil { known[place] = interval }
                if let reason = Verdict(rawValue: UInt8(record[5])), reason.isRefusal {
                    found.byVerdict[reason, default: 0] += record[3]
                    found.withoutRowCount += record[3]
                    return
                }
                found.missingCount += record[3]
                try differences.addMissing(
                    record[3], business: record[0], reward: record[1], day: day,
                    lineOffset: record[4])
            }
            try rows.forEach(in: part) { (record) throws(ReaderError) in
                let place = RowPlace(word: record[2])
                let day = Day(business: record[0], day: place.day)
                guard days.contains(place.day), known[day]?.isOfFile == true else { return }
                found.unexpectedCount += 1
                try differences.addUnexpected(
                    business: record[0], reward: record[1], day: place.day, key: place.key)
            }
        }
    }

    /// The day of a line: days follow each other, so that what is between two rows of one is of it.
    private static func day(
        of time: Int64, _ business: UInt64, _ known: [Day: Interval]
    ) -> Int32 {
        let date = Int32(clamping: DayRange.day(of: time))
        for day in [date, date - 1, date + 1] {
            if let interval = known[Day(business: business, day: day)],
                interval.first <= time, time <= interval.last
            {
                return day
            }
        }
        return date
    }
}
