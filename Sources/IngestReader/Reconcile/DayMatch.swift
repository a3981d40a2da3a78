// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// What a line of a sender's file and a row of the log have in common if they are one event: all that the log keeps of
/// it, names and id as the directory's keyed hashes.
struct EventIdentity {
    /// 128 bits over all fields but id and names: type, consent, format, reward, business, time, viewability, amounts.
    let base: (UInt64, UInt64)
    /// The upper half over the platform, the lower over campaign and source; 0 where there is none.
    let names: UInt64
    /// Whether its sender marked it as invalid traffic; of a row, whether the log says so.
    let isMarked: Bool
    /// `KeyedHash.event`; 0 where the event has no id, and in rows that were refused for their consent, which keep none.
    let id: UInt64
    /// As it is shown: of rows beyond the limit of their business's rewards that of `(other)`.
    let reward: UInt64
    let business: UInt64
    let timestamp: Int64

    /// - Parameter bytes: that the event's offsets point into.
    init(_ event: EventDescriptor, in bytes: [UInt8], _ hash: KeyedHash) {
        let start = Int(event.rewardOffset)
        let isMeasured = event.flags & EventDescriptor.Flags.isMeasured != 0
        let hasID = event.flags & EventDescriptor.Flags.hasEventID != 0
        let reward = hash.name(Array(bytes[start..<start + Int(event.rewardByteCount)]))
        self.init(
            kind: (event.type, event.consent, event.format),
            viewability: isMeasured
                ? (event.visiblePartsPerMillion, event.durationMilliseconds) : nil,
            reward: reward, shownAs: reward, business: event.businessHash,
            timestamp: event.timestampMicroseconds,
            money: (UInt64(event.revenueMicros), UInt64(event.spendMicros)),
            names: (event.platformHash, event.campaignHash, event.sourceHash),
            id: hasID ? PacketRow(event).eventHash : 0,
            isMarked: event.flags & EventDescriptor.Flags.isInvalidTraffic != 0)
    }

    init(_ row: EventRow, _ hash: KeyedHash) {
        func name(_ text: [UInt8]) -> UInt64 { text.isEmpty ? 0 : hash.name(text) }
        let shown = hash.name(row.rewardText)
        self.init(
            kind: (row.kind.rawValue, row.consent.rawValue, row.format.rawValue),
            viewability: row.attributes.isMeasured ? (row.visible, row.duration) : nil,
            reward: row.isOverflow ? row.rewardHash : shown, shownAs: shown,
            business: hash.name(row.businessText),
            timestamp: row.timestampMicroseconds, money: (row.revenueMicros, row.spendMicros),
            names: (name(row.platformText), name(row.campaignText), name(row.sourceText)),
            id: row.eventHash, isMarked: row.invalidTrafficRule == .sender)
    }

    private init(
        kind: (type: UInt8, consent: UInt8, format: UInt8),
        viewability: (visible: UInt32, duration: UInt32)?, reward: UInt64,
        shownAs shownReward: UInt64, business: UInt64, timestamp: Int64,
        money: (revenue: UInt64, spend: UInt64),
        names: (platform: UInt64, campaign: UInt64, source: UInt64), id: UInt64,
        isMarked: Bool
    ) {
        let bits =
            UInt64(kind.type) | UInt64(kind.consent) << 8 | UInt64(kind.format) << 16
            | (viewability == nil ? 0 : 1 << 24)
        let measured = viewability.map { UInt64($0.visible) << 32 | UInt64($0.duration) } ?? 0
        let words: InlineArray<7, UInt64> = [
            reward, business, UInt64(bitPattern: timestamp), bits, measured, money.revenue,
            money.spend,
        ]
        // Names first: their hashes are keyed, so that nobody can choose the numbers behind them to collide.
        var (low, high): (UInt64, UInt64) = (0, 0x9E37_79B9_7F4A_7C15)
        for place in words.indices {
            low = SplitMix.finish(low ^ words[place])
            high = SplitMix.finish((high &+ words[place]) &* 0xD605_1BB3_35AC_5F1D)
        }
        base = (low, high)
        let pair = SplitMix.finish(names.campaign) ^ names.source
        let attribution = names.campaign | names.source == 0 ? 0 : SplitMix.finish(pair)
        self.names = Self.half(names.platform) << 32 | Self.half(attribution)
        self.isMarked = isMarked
        self.id = id
        self.reward = shownReward
        self.business = business
        self.timestamp = timestamp
    }

    /// - Returns: 0 of 0 alone.
    private static func half(_ hash: UInt64) -> UInt64 { hash == 0 ? 0 : max(1, hash >> 32) }

    /// What is kept of it while its part is waiting.
    /// - Parameter place: of the line or row, which says also whether it is marked.
    func record(_ place: UInt64) -> InlineArray<8, UInt64> {
        [base.0, base.1, names, id, UInt64(bitPattern: timestamp), business, reward, place]
    }

    init(_ record: InlineArray<8, UInt64>, isMarked: Bool) {
        base = (record[0], record[1])
        (names, id) = (record[2], record[3])
        timestamp = Int64(bitPattern: record[4])
        (business, reward) = (record[5], record[6])
        self.isMarked = isMarked
    }

    /// Equal where all is; marked ones and those without platform come first: fewer rows can be theirs.
    typealias Order = (UInt64, UInt64, UInt64, UInt64, Int)
    var order: Order { (base.0, base.1, names, id, isMarked ? 0 : 1) }
}

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
    /// Of lines without a row: business, reward, time, count, place, the reasons for which they may have been refused.
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

    /// - Parameter reasons: of refusals that are in the ledger alone.
    func add(
        line event: SentEvents.Event, reasons: LedgerRefusals.Reasons
    ) throws(ReaderError) {
        try lines.append(
            [
                event.identity.business, event.identity.reward,
                UInt64(bitPattern: event.identity.timestamp), event.count,
                event.lineOffset, UInt64(reasons), 0, 0,
            ], hash: Self.hash(event.identity.business))
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
        _ days: DayRange, _ refusals: LedgerRefusals, _ found: inout Reconciliation,
        into differences: DifferenceList<Scratch>
    ) throws(ReaderError) {
        try writeIntervals()
        var counts: [LedgerRefusals.Reasons: UInt64] = [:]
        var otherCounts: [LedgerRefusals.Reasons: UInt64] = [:]
        for part in 0..<Self.partCount where !refusals.isEmpty {
            let known = try readIntervals(in: part)
            try lines.forEach(in: part) { (record) throws(ReaderError) in
                let reasons = LedgerRefusals.Reasons(truncatingIfNeeded: record[5])
                if reasons == 0 { return }
                if days.contains(Self.day(ofLine: record, known)) {
                    counts[reasons, default: 0] += record[3]
                } else {
                    otherCounts[reasons, default: 0] += record[3]
                }
            }
        }
        var shares = refusals.shares(of: counts, after: otherCounts)
        for part in 0..<Self.partCount {
            var known = try readIntervals(in: part)
            try lines.forEach(in: part) { (record) throws(ReaderError) in
                let day = Self.day(ofLine: record, known)
                guard days.contains(day) else {
                    found.otherDaysCount += record[3]
                    return
                }
                // Which day it is was not told by a row.
                let interval = Interval(first: .max, last: .min, isOfFile: true)
                let place = Day(business: record[0], day: day)
                if known[place]?.add(interval) == nil { known[place] = interval }
                let reasons = LedgerRefusals.Reasons(truncatingIfNeeded: record[5])
                let count = found.takeRefused(record[3], from: &shares[reasons, default: []])
                if count == 0 { return }
                found.missingCount += count
                try differences.addMissing(
                    count, business: record[0], reward: record[1], day: day, lineOffset: record[4])
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

    private func readIntervals(in part: Int) throws(ReaderError) -> [Day: Interval] {
        var known: [Day: Interval] = [:]
        try intervals.forEach(in: part) { (record) throws(ReaderError) in
            let day = Day(business: record[0], day: Int32(truncatingIfNeeded: record[1]))
            let interval = Interval(
                first: Int64(bitPattern: record[2]), last: Int64(bitPattern: record[3]),
                isOfFile: record[4] != 0)
            if known[day]?.add(interval) == nil { known[day] = interval }
        }
        return known
    }

    /// The day of a line: days follow each other, so that what is between two rows of one is of it.
    private static func day(
        ofLine record: Spill<Scratch>.Record, _ known: [Day: Interval]
    ) -> Int32 {
        let (business, time) = (record[0], Int64(bitPattern: record[2]))
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

extension Reconciliation {
    /// Counts lines as refusals without a row, as far as there is a share for them.
    ///
    /// - Returns: the others.
    fileprivate mutating func takeRefused(
        _ lineCount: UInt64, from shares: inout [(reason: Verdict, count: UInt64)]
    ) -> UInt64 {
        var left = lineCount
        while left > 0, var share = shares.popLast() {
            let taken = min(left, share.count)
            byVerdict[share.reason, default: 0] += taken
            withoutRowCount += taken
            left -= taken
            share.count -= taken
            if share.count > 0 { shares.append(share) }
        }
        return left
    }
}
