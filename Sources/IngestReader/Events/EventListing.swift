// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// Rows of blocks → events with their names. Owned by one query.
///
/// **Cost** Less than a microsecond a row whose names were just used, 6 for one whose were not (with CSV, at 632,248
/// rewards in random order); the memory of a block's rows and of `EventNames`.
struct EventListing {
    /// All that an event shows, and the hash of its id, which it does not.
    private static let wanted: BlockSections = [
        .attributes, .key, .timestamp, .day, .platform, .attribution, .eventHash, .viewability,
        .money, .rewardHash, .commits,
    ]

    private let selection: EventSelection
    private var names: EventNames
    private let decoder = BlockDecoder()
    private let rows = BlockRows()
    private var event = EventRow()

    init(_ source: any NameSource, _ selection: EventSelection = EventSelection()) {
        self.selection = selection
        names = EventNames(source)
    }

    /// Gives the events of one block that are asked for; `false` where `body` ended the listing.
    /// - Parameter path: of the directory, for messages.
    mutating func give(
        _ header: BlockHeader, _ buffer: ReadBuffer, path: String, _ body: EventRow.Body
    ) throws(ReaderError) -> Bool {
        let segment = header.context.segment
        let commits: BlockCommits
        do throws(FormatError) {
            let found = try buffer.withBytes { (bytes) throws(FormatError) -> BlockCommits? in
                if let keys = selection.keys, selection.timestamps == nil {
                    _ = try decoder.decode(bytes, wanted: [.key, .day], into: rows)
                    guard rows.hasRow(of: keys, on: selection.days) else { return nil }
                }
                return try decoder.decode(bytes, wanted: Self.wanted, into: rows).commits
            }
            guard let found else { return true }
            commits = found
        } catch {
            throw ReaderError(error, path: "\(path)/\(FileName.segment(segment).text)")
        }
        event.segment = segment.rawValue
        var (hashCount, measuredCount, moneyCount, overflowCount) = (0, 0, 0, 0)
        var (commit, commitStart, commitEnd) = (-1, 0, 0)
        for row in 0..<rows.rowCount {
            while row >= commitEnd {
                commit += 1
                commitStart = commitEnd
                commitEnd += Int(commits.rowCounts[commit])
                event.block = header.context.blockOrdinal &+ UInt32(commit)
                event.admissionTime = commits.admissionTimes[commit]
            }
            let (hash, measured, money) = (hashCount, measuredCount, moneyCount)
            let overflow = overflowCount
            // SAFETY: the row is below rowCount, of which all columns were decoded.
            event.attributes = RowAttributes(rawValue: unsafe rows.attributes[row])
            if event.attributes.hasEventID { hashCount += 1 }
            if event.attributes.isMeasured { measuredCount += 1 }
            if event.attributes.hasMoney { moneyCount += 1 }
            if event.attributes.isOverflow { overflowCount += 1 }
            guard try isWanted(row) else { continue }
            event.row = row - commitStart
            try read(row, hash: hash, measured: measured, money: money)
            // SAFETY: as in `read`.
            event.rewardHash = event.attributes.isOverflow ? unsafe rows.rewardHash[overflow] : 0
            guard body(event) else { return false }
        }
        return true
    }

    /// Also looks up the names of a row's key.
    private mutating func isWanted(_ row: Int) throws(ReaderError) -> Bool {
        // SAFETY: as in `give`.
        event.day = unsafe rows.day[row]
        event.timestampMicroseconds = unsafe rows.timestamp[row]
        event.key = unsafe rows.key[row]
        guard
            try selection.days.admits(event.day)
                || selection.timestamps?.contains(event.timestampMicroseconds) == true
        else { return false }
        guard selection.keys?.contains(event.key) ?? true else { return false }
        try names.read(key: event.key, into: &event)
        return true
    }

    /// - Parameters: the row's places in the sparse columns, if it has values there.
    private mutating func read(
        _ row: Int, hash: Int, measured: Int, money: Int
    ) throws(ReaderError) {
        // SAFETY: as in `give`; the sparse columns are as long as the attributes say, which the decoder held
        // against the block's counts.
        event.platformText = try names.text(of: unsafe rows.platform[row])
        event.campaignText = try names.text(of: unsafe rows.campaign[row])
        event.sourceText = try names.text(of: unsafe rows.source[row])
        event.isCampaignOverflow = unsafe rows.campaign[row] == Attribution.other
        event.eventHash = event.attributes.hasEventID ? unsafe rows.eventHash[hash] : 0
        let (isMeasured, hasMoney) = (event.attributes.isMeasured, event.attributes.hasMoney)
        event.visible = isMeasured ? unsafe rows.visible[measured] : 0
        event.duration = isMeasured ? unsafe rows.duration[measured] : 0
        // The decoder takes none below 0.
        event.revenueMicros = hasMoney ? UInt64(clamping: unsafe rows.revenue[money]) : 0
        event.spendMicros = hasMoney ? UInt64(clamping: unsafe rows.spend[money]) : 0
    }
}

/// The names of the events that were listed last.
///
/// **Cost** Up to 131,072 keys with the names of their rewards: about 12 MB.
private struct EventNames {
    private struct Slot {
        var key = UInt32.max
        var reward: [UInt8] = []
        var business: [UInt8] = []
    }

    private static let slotCount = 1 << 17

    private let source: any NameSource
    private let nextName: UInt32
    private let nextKey: UInt32
    private var slots = [Slot](repeating: Slot(), count: Self.slotCount)
    private var shown: ShownNames

    init(_ source: any NameSource) {
        self.source = source
        nextName = source.nextName
        nextKey = source.nextKey
        shown = ShownNames(source)
    }

    /// Sets the names of a row's key.
    mutating func read(key: UInt32, into event: inout EventRow) throws(ReaderError) {
        let place = Int(key) % Self.slotCount
        if slots[place].key != key { slots[place] = try slot(of: key) }
        event.rewardText = slots[place].reward
        event.businessText = slots[place].business
    }

    private mutating func slot(of key: UInt32) throws(ReaderError) -> Slot {
        guard key < nextKey else { throw .impossibleRow }
        let pair = try source.names(of: KeyOrdinal(rawValue: key))
        let name =
            pair.reward == .none ? LostText.bytes(key) : try source.shownBytes(of: pair.reward)
        return Slot(
            key: key, reward: name, business: try shown.bytes(of: pair.business.rawValue))
    }

    /// The text of an attribution; empty where there is none.
    mutating func text(of ordinal: UInt32) throws(ReaderError) -> [UInt8] {
        if ordinal == 0 { return [] }
        if ordinal == Attribution.other { return Attribution.otherText }
        guard ordinal < nextName else { throw .impossibleRow }
        return try shown.bytes(of: ordinal)
    }
}

extension Snapshot {
    package func forEachEvent(
        _ query: EventsQuery, _ body: EventRow.Body
    ) throws(ReaderError) {
        var left = query.limit ?? .max
        if left <= 0 { return }
        func limited(_ event: EventRow) -> Bool {
            left -= 1
            return body(event) && left > 0
        }
        let selection = EventSelection(
            days: query.days, keys: try WantedKeys(query, in: self))
        try forEachEvent(in: selection, limited)
    }

    package func forEachEvent(
        in selection: EventSelection, _ body: EventRow.Body
    ) throws(ReaderError) {
        let (days, keys) = (selection.days, selection.keys)
        if let keys, keys.isEmpty { return }
        var listing = EventListing(makeNames(), selection)
        // Events that were refused from far away have the day of their admission, all others that of their time.
        let blocks = try CutBlocks(of: self) { block in
            block.rowCount > 0 && keys?.mayBeIn(block) ?? true
                && (days.mayHold(timestamps: block.minTimestamp, block.maxTimestamp)
                    || days.mayHold(timestamps: block.admissionTime, block.lastAdmissionTime))
        }
        let mayHold = { (entry: SealedSegment) in
            entry.rowCount > 0
                && (days.mayHold(timestamps: entry.minTimestamp, entry.maxTimestamp)
                    || days.mayHoldRefused(timestamps: entry.minTimestamp, entry.maxTimestamp))
        }
        try blocks.forEach(whereSealed: mayHold, with: keys?.points) {
            (header, buffer) throws(ReaderError) in
            try listing.give(header, buffer, path: files.path, body)
        }
    }

    package func eventCount() throws(ReaderError) -> UInt64 {
        let manifest = try ReaderError.reading { () throws(StorageError) in try whole() }
        return manifest.sealed.reduce(tail.rowCount) { $0.saturatingSum($1.rowCount) }
    }
}

extension BlockRows {
    /// Whether a row of the columns of keys and days, which were decoded, is of these.
    fileprivate func hasRow(of keys: WantedKeys, on days: DayRange) -> Bool {
        for row in 0..<rowCount {
            // SAFETY: row < rowCount, of which both columns have values.
            if keys.contains(unsafe key[row]), days.contains(unsafe day[row]) { return true }
        }
        return false
    }
}

extension DayRange {
    /// Whether rows of these event times can be of a day of the range. The zones of the world are less than a
    /// day away from UTC, so a row's day is that of its time in UTC, or the one before or after.
    /// **Units** microseconds since 1970 UTC, any values.
    func mayHold(timestamps first: Int64, _ last: Int64) -> Bool {
        let firstDay = Self.day(of: first) - 1
        let lastDay = Self.day(of: last) + 1
        return lastDay >= Int64(from?.dayNumber ?? .min) && firstDay <= Int64(to?.dayNumber ?? .max)
    }

    /// Whether rows of these event times may have been refused from so far away
    /// (`Limits.refusedDayDistanceMicrosecondsMax`) that they belong to the day of their admission, which may be one of the
    /// range: their times are then at least that far from it, but for a day on each side.
    func mayHoldRefused(timestamps first: Int64, _ last: Int64) -> Bool {
        let distance = Limits.refusedDayDistanceMicrosecondsMax / TimeText.dayMicroseconds - 2
        return Self.day(of: first) <= Int64(to?.dayNumber ?? .max) - distance
            || Self.day(of: last) >= Int64(from?.dayNumber ?? .min) + distance
    }

    /// The day in UTC.
    static func day(of timestamp: Int64) -> Int64 {
        let (day, rest) = timestamp.quotientAndRemainder(dividingBy: TimeText.dayMicroseconds)
        return rest < 0 ? day - 1 : day
    }
}
