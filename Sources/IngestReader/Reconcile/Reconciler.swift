// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// What a reconciliation found. Lines = malformed + optedOut + counted + repeated + refused + missing + otherDays.
package struct Reconciliation: Sendable, Equatable {
    /// Lines of the file, without blank ones.
    package var lineCount: UInt64 = 0
    package var malformedCount: UInt64 = 0
    /// Events of users who opted out: they are never stored, and nothing is looked for.
    package var optedOutCount: UInt64 = 0
    /// Of lines that have a row: by its verdict. Of refusals and conflicts also those in the ledger alone, by their reason.
    package var byVerdict: [Verdict: UInt64] = [:]
    /// How many of these are in the ledger alone.
    package var withoutRowCount: UInt64 = 0
    /// In the file, not in the log.
    package var missingCount: UInt64 = 0
    /// In the log on a business-day of the file, not in the file.
    package var unexpectedCount: UInt64 = 0
    /// Lines of days that were not asked for.
    package var otherDaysCount: UInt64 = 0
    /// The first malformed lines, by their numbers from 1.
    package var malformed: [(line: UInt64, reason: String)] = []

    package var hasDifferences: Bool { malformedCount + missingCount + unexpectedCount > 0 }

    package static func == (a: Self, b: Self) -> Bool {
        a.lineCount == b.lineCount && a.malformedCount == b.malformedCount
            && a.optedOutCount == b.optedOutCount && a.byVerdict == b.byVerdict
            && a.missingCount == b.missingCount && a.unexpectedCount == b.unexpectedCount
            && a.otherDaysCount == b.otherDaysCount && a.withoutRowCount == b.withoutRowCount
    }
}

/// Compares a sender's own file of the events that it sent with the log: as a multiset of what the log keeps of them.
///
/// Neither file nor log is held in memory: both become records of fixed size in parts by hash (`Spill`), which are
/// compared part by part. Rows are asked for that belong to a business of the file and to a day, or an event time, of it.
///
/// **Cost** Each line 2 µs, each row of these businesses and days 2 µs; about `memoryByteCountMax`, for files of up to a
/// thousand times that, a bit for each name and key, and 8 bytes for those of the tail; 64 bytes of temporary files a line
/// and a row.
package final class Reconciler<File: StorageFile, Scratch: FileSystem> {
    static var malformedListMax: Int { 10 }
    /// A line takes less than this many times its bytes while its part is compared.
    private static var memoryPerByte: UInt64 { 8 }
    private static var partCountMax: UInt64 { 1 << 13 }

    let source: any SnapshotSource
    let names: any NameSource
    let lines: TextLines<File>
    let days: DayRange
    let byteCountMax: Int
    let scratch: Scratch
    var found = Reconciliation()
    let differences: DifferenceList<Scratch>
    /// Of what the first pass has read.
    private var times: ClosedRange<Int64>?
    private let hasExpired: Bool
    private var businesses: OrdinalSet
    private var decoder: JSONLineDecoder
    /// Of names, by their hashes; `.none` of those that the log does not have.
    private var ordinals: [UInt64: NameOrdinal] = [:]
    /// Keys of rewards that were looked up; of such a reward also under no business.
    private var keys: [RewardKey: KeyOrdinal] = [:]
    /// All of the log; read when they are first asked for.
    private var attributions: AttributionList?

    /// - Parameters:
    ///   - file: JSON events, a line each, that can be read more than once.
    ///   - days: of which days to compare.
    ///   - memoryByteCountMax: about what it takes.
    ///   - scratch: where temporary files are made.
    package init(
        _ reader: IngestReader, with file: File, days: DayRange = .all,
        memoryByteCountMax: Int = 256 << 20, scratch: Scratch
    ) {
        source = reader.snapshot
        hasExpired = reader.hasExpiredRows
        names = source.makeNames()
        lines = TextLines(file: file)
        self.days = days
        byteCountMax = memoryByteCountMax
        self.scratch = scratch
        businesses = OrdinalSet(upTo: names.nextName)
        decoder = JSONLineDecoder(hash: source.hash)
        differences = DifferenceList(byteCountMax: memoryByteCountMax / 8, in: scratch)
    }

    /// Compares everything; to be called once.
    ///
    /// **Errors** Those of queries; `io` also where temporary files cannot be written.
    package func run() throws(ReaderError) -> Reconciliation {
        let fileByteCount = try ReaderError.reading { () throws(StorageError) in
            try lines.file.byteCount()
        }
        let needed = fileByteCount.multipliedReportingOverflow(by: Self.memoryPerByte)
        let partCount = Int(
            min(
                needed.overflow ? .max : needed.partialValue / UInt64(byteCountMax) + 1,
                Self.partCountMax))
        let sent = Spill(partCount: partCount, byteCountMax: byteCountMax / 8, in: scratch)
        try readLines(into: sent)
        let logged = Spill(partCount: partCount, byteCountMax: byteCountMax / 8, in: scratch)
        let rowCounts = try readRows(into: logged)
        let outcome = DayMatch(byteCountMax: byteCountMax / 8, in: scratch)
        let refusals = try LedgerRefusals(
            source.totals(), sumRows(), rowCounts, source.policies(),
            hasExpired: hasExpired, optedOutCount: found.optedOutCount, ledger: source.ledger)
        for part in 0..<partCount {
            try compare(sent, with: logged, part, refusals, into: outcome)
        }
        try outcome.finish(days, refusals, &found, into: differences)
        return found
    }

    /// The counters of all rows that tell which events of the ledger have none.
    private func sumRows() throws(ReaderError) -> CounterRow {
        var sums = CounterRow()
        try source.forEachPage(of: .days, LedgerRefusals.columns, 0...UInt32.max, names) {
            (page) throws(ReaderError) in
            for row in 0..<page.rowCount {
                guard sums.add(page.counters(row)) else { throw .overflow }
            }
        }
        return sums
    }

    // MARK: The two sides

    private func readLines(into sent: Spill<Scratch>) throws(ReaderError) {
        var number: UInt64 = 0
        try lines.forEach { (offset, line) throws(ReaderError) in
            number += 1
            if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) { return true }
            found.lineCount += 1
            if let refusal = decoder.decode(line.span) {
                note(refusal, number)
                return true
            }
            let event = decoder.event
            if event.consent == Consent.optOut.rawValue {
                found.optedOutCount += 1
                return true
            }
            let identity = EventIdentity(event, in: decoder.bytes, source.hash)
            try mark(identity, event, decoder.bytes)
            let place = offset | (identity.isMarked ? SentEvents.mark : 0)
            try sent.append(identity.record(place), hash: identity.base.0)
            return true
        }
    }

    private func note(_ refusal: JSONLineDecoder.Refusal, _ number: UInt64) {
        found.malformedCount += 1
        guard found.malformed.count < Self.malformedListMax else { return }
        switch refusal {
        case .tooLong(let max): found.malformed.append((number, "longer than \(max) bytes"))
        case .malformed(let reason): found.malformed.append((number, reason))
        }
    }

    /// Notes which rows may be of the event.
    private func mark(
        _ identity: EventIdentity, _ event: EventDescriptor, _ bytes: [UInt8]
    ) throws(ReaderError) {
        let time = identity.timestamp
        times = min(times?.lowerBound ?? time, time)...max(times?.upperBound ?? time, time)
        let business = try ordinal(
            identity.business, event.businessOffset, event.businessByteCount, bytes)
        // No row has one that the log does not have, but of lost names.
        if business != .none { businesses.insert(business.rawValue) }
    }

    /// The ordinal of a name of a line.
    private func ordinal(
        _ hash: UInt64, _ offset: UInt16, _ byteCount: UInt8, _ bytes: [UInt8]
    ) throws(ReaderError) -> NameOrdinal {
        if byteCount == 0 { return .none }
        if let known = ordinals[hash] { return known }
        let name = Array(bytes[Int(offset)..<Int(offset) + Int(byteCount)])
        let ordinal = try names.storedOrdinal(of: name) ?? .none
        if ordinals.count >= cacheCountMax { ordinals.removeAll(keepingCapacity: true) }
        ordinals[hash] = ordinal
        return ordinal
    }

    /// Of names and of keys; 32 bytes each, at most.
    private var cacheCountMax: Int { byteCountMax / 256 }

    /// - Returns: how many there are of each verdict.
    private func readRows(into logged: Spill<Scratch>) throws(ReaderError) -> [Verdict: UInt64] {
        guard let times, businesses.first != .max else { return [:] }
        let day = { (time: Int64) in Int32(clamping: DayRange.day(of: time)) }
        var selection = EventSelection()
        selection.days = DayRange(
            from: CivilDay(dayNumber: day(times.lowerBound) - 1),
            to: CivilDay(dayNumber: day(times.upperBound) + 1))
        selection.timestamps = times
        selection.keys = try WantedKeys(of: businesses, names)
        let hash = source.hash
        var failure: ReaderError?
        var counts: [Verdict: UInt64] = [:]
        try source.forEachEvent(in: selection) { row in
            counts[row.verdict, default: 0] += 1
            let identity = EventIdentity(row, hash)
            do throws(ReaderError) {
                try logged.append(
                    identity.record(RowPlace(row, isMarked: identity.isMarked).word),
                    hash: identity.base.0)
            } catch {
                failure = error
                return false
            }
            return true
        }
        if let failure { throw failure }
        return counts
    }

    // MARK: One part

    private func compare(
        _ sent: Spill<Scratch>, with logged: Spill<Scratch>, _ part: Int,
        _ refusals: LedgerRefusals, into outcome: DayMatch<Scratch>
    ) throws(ReaderError) {
        // Each platform that has been known has a name.
        var events = SentEvents(
            mayLackPlatforms: names.nextName > Limits.platformCountMax)
        try sent.forEach(in: part) { (record) throws(ReaderError) in events.append(record) }
        events.sort()
        try logged.forEach(in: part) { (record) throws(ReaderError) in events.add(row: record) }
        events.match()
        try logged.forEach(in: part) { (record) throws(ReaderError) in
            let place = RowPlace(word: record[7])
            let isMatched = events.take(row: record)
            if isMatched {
                if days.contains(place.day) {
                    found.byVerdict[place.verdict, default: 0] += 1
                } else {
                    found.otherDaysCount += 1
                }
            }
            try outcome.add(row: record, place, isMatched: isMatched)
        }
        for event in events.left {
            try outcome.add(line: event, reasons: try reasons(of: event, refusals))
        }
    }

    /// For which reasons a line without a row may be a refusal that is in the ledger alone.
    private func reasons(
        of event: SentEvents.Event, _ refusals: LedgerRefusals
    ) throws(ReaderError) -> LedgerRefusals.Reasons {
        if refusals.isEmpty { return 0 }
        try lines.give(lineAt: event.lineOffset) { _ = decoder.decode($0.span) }
        let (found, bytes) = (decoder.event, decoder.bytes)
        return try refusals.reasons(of: found) { () throws(ReaderError) in
            try areKnown(found, bytes, reward: event.identity.reward)
        }
    }

    /// Whether the log has all names of an event, the key of its reward, and their combination.
    /// - Parameter rewardHash: of the reward's name.
    private func areKnown(
        _ event: EventDescriptor, _ bytes: [UInt8], reward rewardHash: UInt64
    ) throws(ReaderError) -> Bool {
        var found: [NameOrdinal] = []
        for (hash, offset, byteCount) in [
            (event.platformHash, event.platformOffset, event.platformByteCount),
            (event.campaignHash, event.campaignOffset, event.campaignByteCount),
            (event.sourceHash, event.sourceOffset, event.sourceByteCount),
            (event.businessHash, event.businessOffset, event.businessByteCount),
            (rewardHash, event.rewardOffset, event.rewardByteCount),
        ] {
            found.append(try ordinal(hash, offset, byteCount, bytes))
            if byteCount > 0, found.last == NameOrdinal.none { return false }
        }
        let pair = RewardKey(reward: found[4], business: found[3])
        guard let key = try key(of: pair)?.rawValue else { return false }
        let attribution = Attribution(
            key: key, campaign: found[1].rawValue, source: found[2].rawValue)
        if attribution.pair == 0 { return true }
        let known: AttributionList
        if let attributions {
            known = attributions
        } else {
            known = AttributionList.merged(try source.attributedParts().map(\.attributions)).all
            attributions = known
        }
        return known.contains(attribution)
    }

    private func key(of pair: RewardKey) throws(ReaderError) -> KeyOrdinal? {
        let any = RewardKey(reward: pair.reward, business: .none)
        if keys[any] == nil {
            if keys.count >= cacheCountMax { keys.removeAll(keepingCapacity: true) }
            keys[any] = KeyOrdinal(rawValue: 0)
            for key in try names.keys(ofReward: pair.reward) {
                keys[try names.names(of: key)] = key
            }
        }
        return keys[pair]
    }

    // MARK: Differences

    /// Gives the reward-days that differ, bytewise by reward, business and date as far as they fit the memory together; to be
    /// called after `run`.
    package func forEachDifference(
        _ body: (ReconciledDay) throws -> Void
    ) throws {
        try differences.forEachGroup { groups in
            var rows: [ReconciledDay] = []
            for group in groups {
                var row = ReconciledDay(group)
                if let key = group.key {
                    let pair = try names.names(of: KeyOrdinal(rawValue: key))
                    row.reward =
                        pair.reward == .none
                        ? LostText.bytes(key) : try names.shownBytes(of: pair.reward)
                    row.business = try names.shownBytes(of: pair.business)
                } else {
                    try lines.give(lineAt: group.lineOffset) { line in
                        guard decoder.decode(line.span) == nil else { return }
                        let (event, bytes) = (decoder.event, decoder.bytes)
                        let (reward, business) = (
                            Int(event.rewardOffset), Int(event.businessOffset)
                        )
                        row.reward = Array(bytes[reward..<reward + Int(event.rewardByteCount)])
                        row.business = Array(
                            bytes[business..<business + Int(event.businessByteCount)])
                    }
                }
                rows.append(row)
            }
            rows.sort()
            for row in rows { try body(row) }
        }
    }
}

/// Where a row of the log stands, in one word: its key, its day, its verdict, whether its sender marked it, and whether its
/// campaign and source are hidden.
struct RowPlace {
    let word: UInt64

    init(word: UInt64) { self.word = word }

    init(_ row: EventRow, isMarked: Bool) {
        let day = UInt64(row.day - Limits.businessDays.lowerBound)
        word =
            UInt64(row.key) | day << 32 | UInt64(row.verdict.rawValue) << 56
            | (isMarked ? 1 << 62 : 0) | (row.isCampaignOverflow ? 1 << 63 : 0)
    }

    var key: UInt32 { UInt32(truncatingIfNeeded: word) }
    var day: Int32 {
        Int32(truncatingIfNeeded: word >> 32 & 0xFF_FFFF) + Limits.businessDays.lowerBound
    }
    var verdict: Verdict { Verdict(rawValue: UInt8(word >> 56 & 0x3F)) ?? .counted }
    var isMarked: Bool { word >> 62 & 1 != 0 }
    /// Beyond the bound of campaigns: the row has neither its campaign nor its source.
    var hidesCampaign: Bool { word >> 63 != 0 }
}
