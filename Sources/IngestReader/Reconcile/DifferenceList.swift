// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestRules
import IngestStorage

/// A reward-day on which a file and the log differ.
package struct ReconciledDay: Sendable, Equatable {
    package internal(set) var reward: [UInt8] = []
    package internal(set) var business: [UInt8] = []
    package let day: Int32
    package let missingCount: UInt64
    package let unexpectedCount: UInt64

    /// A day without names and counts.
    package init() { self.init(DifferenceGroup(day: 0)) }

    init(_ group: DifferenceGroup) {
        day = group.day
        (missingCount, unexpectedCount) = (group.missingCount, group.unexpectedCount)
    }
}

extension ReconciledDay: Comparable {
    package static func < (a: Self, b: Self) -> Bool {
        if a.reward != b.reward { return a.reward.lexicographicallyPrecedes(b.reward) }
        if a.business != b.business { return a.business.lexicographicallyPrecedes(b.business) }
        return a.day < b.day
    }
}

/// The same before it has names: a key or a line that has them.
struct DifferenceGroup {
    let day: Int32
    var missingCount: UInt64 = 0
    var unexpectedCount: UInt64 = 0
    var key: UInt32?
    var lineOffset: UInt64 = 0
}

/// What differs, by reward, business and day. Owned by one reconciliation.
final class DifferenceList<Scratch: FileSystem> {
    private struct Place: Hashable {
        let reward: UInt64
        let business: UInt64
        let day: Int32
    }

    private static var partCount: Int { 64 }
    /// Of a group with its names.
    private static var groupByteCount: Int { 512 }

    private let spill: Spill<Scratch>
    private let byteCountMax: Int

    init(byteCountMax: Int, in scratch: Scratch) {
        self.byteCountMax = byteCountMax
        spill = Spill(partCount: Self.partCount, byteCountMax: byteCountMax, in: scratch)
    }

    func addMissing(
        _ count: UInt64, business: UInt64, reward: UInt64, day: Int32, lineOffset: UInt64
    ) throws(ReaderError) {
        try add(reward, business, day, [count, 0, lineOffset])
    }

    func addUnexpected(
        business: UInt64, reward: UInt64, day: Int32, key: UInt32
    ) throws(ReaderError) {
        try add(reward, business, day, [0, 1, UInt64(key)])
    }

    private func add(
        _ reward: UInt64, _ business: UInt64, _ day: Int32, _ rest: InlineArray<3, UInt64>
    ) throws(ReaderError) {
        let dayBits = UInt64(bitPattern: Int64(day))
        let hash = SplitMix.finish(SplitMix.finish(business ^ dayBits) ^ reward)
        try spill.append(
            [reward, business, dayBits, rest[0], rest[1], rest[2], 0, 0], hash: hash)
    }

    /// Gives the groups, all at once if they fit the memory, else in parts.
    func forEachGroup(_ body: ([DifferenceGroup]) throws -> Void) throws {
        let areFew = spill.recordCount <= UInt64(byteCountMax / Self.groupByteCount)
        var groups: [Place: DifferenceGroup] = [:]
        for part in 0..<Self.partCount {
            try spill.forEach(in: part) { (record) throws(ReaderError) in
                let day = Int32(truncatingIfNeeded: record[2])
                let place = Place(reward: record[0], business: record[1], day: day)
                var group = groups[place] ?? DifferenceGroup(day: day)
                group.missingCount += record[3]
                group.unexpectedCount += record[4]
                if record[4] > 0 {
                    group.key = UInt32(truncatingIfNeeded: record[5])
                } else {
                    group.lineOffset = record[5]
                }
                groups[place] = group
            }
            if areFew { continue }
            try body(Array(groups.values))
            groups.removeAll(keepingCapacity: true)
        }
        if !groups.isEmpty { try body(Array(groups.values)) }
    }
}

/// The refusals that stand in the ledger alone, since names of the event or their combination were not known
/// (docs/counting.md, *Conservation*): as many lines without a row may be of these. Owned by one reconciliation.
///
/// A line may be one if the rules of a segment refuse it whatever the time, or if these are not known to this day,
/// so that it cannot have counted, and the reason can be its own: the clock refuses times that lie far from when senders with
/// such refusals were heard of, rates those of sessions, the others those with ids. One that was refused for its time or
/// its rate, before its names were known, is not. Many a line may be one for several reasons: which reason it is given is
/// decided when all lines are known, so that as many as can be are of some refusal.
struct LedgerRefusals {
    /// Reasons for which a line may have been refused, a bit each by `Verdict.rawValue`.
    typealias Reasons = UInt16

    /// Reasons whose rows have counters together, and these.
    static let outcomes: [(reasons: [Verdict], columns: [CounterColumn])] = [
        ([.notViewable], [.notViewableImpressions]),
        ([.invalidTraffic], [.invalidImpressions, .invalidClicks, .invalidRedemptions]),
        ([.conflict], [.conflictImpressions, .conflictClicks, .conflictRedemptions]),
        (
            [.undetermined, .tooOld, .tooEarly, .outsideWindow, .noConsent],
            [.refusedImpressions, .refusedClicks, .refusedRedemptions]
        ),
    ]

    /// The columns of the counters that are asked for.
    static var columns: CounterColumnSet { CounterColumnSet(outcomes.flatMap(\.columns)) }

    /// By reason: those that may have no row.
    private var counts: [Verdict: UInt64]
    /// By outcome: those that have none, of which there may be fewer.
    private var rowless: [UInt64]
    private let policies: [CountingPolicy]
    /// Event times that the clock may have refused; `nil` where any may be, since nobody knows the policies any more,
    /// and where each refusal has its row.
    private var times: ClockTimes?
    private let mayHaveSessions: Bool

    /// - Parameters:
    ///   - totals: of the log.
    ///   - rows: the counters of all its rows.
    ///   - rowCounts: rows of the log by verdict, of the days and businesses of the file.
    ///   - policies: of its segments that are there.
    ///   - hasExpired: whether there were others, under policies that nobody knows any more.
    ///   - optedOutCount: lines of the file that are in the ledger for that.
    ///   - ledger: gives that of its senders; asked only where a refusal has no row, and nothing has expired.
    init(
        _ totals: LogTotals, _ rows: CounterRow, _ rowCounts: [Verdict: UInt64],
        _ policies: Set<CountingPolicy>, hasExpired: Bool, optedOutCount: UInt64,
        ledger: () throws(ReaderError) -> [LedgerRow]
    ) throws(ReaderError) {
        mayHaveSessions = hasExpired || policies.contains(where: \.sessions.isOn)
        var all = Verdict.counts(totals.events).filter {
            $0.key.isRefusal || $0.key == .conflict
        }
        // Nobody but those who opted out is refused for consent where events whose consent is not set count.
        let isOptOut = !hasExpired && policies.allSatisfy(\.countsConsentNotSet)
        let never: [Verdict] = [.malformed, .wrongBusiness] + (isOptOut ? [.noConsent] : [])
        for verdict in never { all.removeValue(forKey: verdict) }
        let optedOut = min(optedOutCount, all[.noConsent] ?? 0)
        all[.noConsent]? -= optedOut
        rowless = Self.outcomes.map { [all] outcome in
            let count = outcome.reasons.reduce(UInt64(0)) { $0.saturatingSum(all[$1] ?? 0) }
            let rowCount = outcome.columns.reduce(UInt64(0)) { $0.saturatingSum(rows[$1]) }
            return count - min(count, rowCount)
        }
        for (verdict, count) in all { all[verdict] = count - min(count, rowCounts[verdict] ?? 0) }
        counts = all
        self.policies = policies.map { policy in
            var policy = policy
            (policy.ageMicrosecondsMax, policy.leadMicrosecondsMax) = (nil, .max)
            return policy
        }
        if !isEmpty && !hasExpired { times = try ClockTimes(policies, ledger()) }
    }

    var isEmpty: Bool { rowless.allSatisfy { $0 == 0 } }

    /// Event times by what the clock makes of them, µs since 1970.
    private struct ClockTimes {
        /// Below the first and above the second it may have refused an event, by when senders with such refusals were heard of.
        var refused = (before: Int64.min, after: Int64.max)
        /// There it refused any, whenever it was admitted: by when any sender was heard of.
        var impossible = (before: Int64.min, after: Int64.max)

        init(_ policies: Set<CountingPolicy>, _ ledger: [LedgerRow]) {
            var (lastOld, firstEarly, first, last) = (Int64.min, Int64.max, Int64.max, Int64.min)
            for row in ledger {
                let seen = (
                    first: row.firstSeenMicroseconds ?? .min, last: row.lastSeenMicroseconds ?? .max
                )
                (first, last) = (min(first, seen.first), max(last, seen.last))
                if row.eventsRefused[.tooOld] ?? 0 > 0 { lastOld = max(lastOld, seen.last) }
                if row.eventsRefused[.tooEarly] ?? 0 > 0 {
                    firstEarly = min(firstEarly, seen.first)
                }
            }
            let ages = policies.compactMap(\.ageMicrosecondsMax)
            if let least = ages.min(), let most = ages.max() {
                refused.before = Self.moved(lastOld, by: -least)
                if ages.count == policies.count {
                    impossible.before = Self.moved(first, by: -most)
                }
            }
            let leads = policies.map(\.leadMicrosecondsMax)
            refused.after = Self.moved(firstEarly, by: leads.min() ?? 0)
            impossible.after = Self.moved(last, by: leads.max() ?? 0)
        }

        /// A time that is not known stays so.
        private static func moved(_ time: Int64, by distance: Int64) -> Int64 {
            if time == .min || time == .max { return time }
            let sum = time.addingReportingOverflow(distance)
            return !sum.overflow ? sum.partialValue : distance < 0 ? .min : .max
        }
    }

    /// The reasons beside those of `policies` for which an event can have been refused.
    private func furtherReasons(_ event: PacketRow) -> [Verdict] {
        let time = event.timestampMicroseconds
        var reasons: [Verdict] = []
        if times.map({ time < $0.refused.before }) ?? true || time == 0 { reasons.append(.tooOld) }
        if times.map({ time > $0.refused.after }) ?? true { reasons.append(.tooEarly) }
        if event.sessionByteCount > 0 && mayHaveSessions { reasons.append(.invalidTraffic) }
        if event.flags & EventDescriptor.Flags.hasEventID != 0 {
            reasons += [.outsideWindow, .conflict]
        }
        return reasons
    }

    /// For which reasons a line without a row may be of these refusals; 0 = it is none.
    ///
    /// - Parameter areNamesKnown: whether the log has all of its names and their combination.
    func reasons(
        of event: EventDescriptor, areNamesKnown: () throws(ReaderError) -> Bool
    ) throws(ReaderError) -> Reasons {
        let row = PacketRow(event)
        let judged = JudgedEvent(row)
        var reasons = policies.map {
            $0.verdict(on: judged, admissionTime: event.timestampMicroseconds)
        }.filter(\.isRefusal)
        if let times {
            let time = event.timestampMicroseconds
            if time < times.impossible.before { reasons.append(.tooOld) }
            if time > times.impossible.after { reasons.append(.tooEarly) }
        }
        if reasons.isEmpty, try areNamesKnown() { return 0 }
        // What the rules come to earlier or later may have refused it all the same.
        reasons += furtherReasons(row)
        return reasons.reduce(0) { $0 | 1 << $1.rawValue }
    }

    /// How many lines are refusals, and for which reasons: as many as there can be in all, by a maximum flow (Edmonds and
    /// Karp) from groups of lines to the reasons that they may have, and on to the outcomes, each bounded by what the ledger has.
    ///
    /// - Parameters:
    ///   - lineCounts: lines, by the reasons that each of them may have.
    ///   - others: lines of days that are not compared, which the ledger has too: what can be theirs is not the others'.
    /// **Cost** 512 groups at most; for each pair of a group and a reason, about, a pass over all pairs of nodes.
    func shares(
        of lineCounts: [Reasons: UInt64], after others: [Reasons: UInt64] = [:]
    ) -> [Reasons: [(reason: Verdict, count: UInt64)]] {
        let groups = others.sorted { $0.key < $1.key } + lineCounts.sorted { $0.key < $1.key }
        let places = Self.outcomes.indices.flatMap { outcome in
            Self.outcomes[outcome].reasons.map { (reason: $0, outcome: outcome) }
        }
        let (source, firstGroup) = (0, 1)
        let firstPlace = firstGroup + groups.count
        let firstOutcome = firstPlace + places.count
        let sink = firstOutcome + Self.outcomes.count
        var flow = MaximumFlow(nodeCount: sink + 1)
        for (group, node) in zip(groups, firstGroup...) {
            for (place, at) in zip(places, firstPlace...)
            where group.key >> place.reason.rawValue & 1 != 0 {
                flow[node, at] = group.value
            }
        }
        for (place, at) in zip(places, firstPlace...) {
            flow[at, firstOutcome + place.outcome] = counts[place.reason] ?? 0
        }
        for (outcome, count) in rowless.enumerated() { flow[firstOutcome + outcome, sink] = count }
        // What has flowed may take another way later, and is never taken back.
        for part in [0..<others.count, others.count..<groups.count] {
            for index in part { flow[source, firstGroup + index] = groups[index].value }
            flow.run(from: source, to: sink)
        }
        var shares: [Reasons: [(reason: Verdict, count: UInt64)]] = [:]
        for index in others.count..<groups.count {
            // What has flowed is what can flow back.
            shares[groups[index].key] = zip(places, firstPlace...).map { place, at in
                (place.reason, flow[at, firstGroup + index])
            }.filter { $0.count > 0 }
        }
        return shares
    }
}

/// Records of eight words, kept in parts that are read one by one: what does not fit its buffers is in a temporary file
/// without a name, which goes with the process. Owned by one reconciliation.
///
/// **Cost** The memory of the buffers, 16 bytes for each that was written, 64 bytes a record on disk.
final class Spill<Files: FileSystem> {
    typealias Record = InlineArray<8, UInt64>

    private static var recordByteCount: Int { 64 }

    private let files: Files
    private let bufferRecordCount: Int
    private var buffers: [[Record]]
    private var file: Files.File?
    private var byteCount: UInt64 = 0
    /// By part: what was written of it.
    private var chunks: [[(offset: UInt64, recordCount: Int)]]
    private(set) var recordCount: UInt64 = 0

    var partCount: Int { buffers.count }

    /// - Parameters:
    ///   - partCount: at least 1.
    ///   - byteCountMax: what all buffers may take.
    ///   - files: where the file is made.
    init(partCount: Int, byteCountMax: Int, in files: Files) {
        self.files = files
        bufferRecordCount = max(8, min(byteCountMax / partCount, 1 << 20) / Self.recordByteCount)
        buffers = Array(repeating: [], count: partCount)
        chunks = Array(repeating: [], count: partCount)
    }

    /// Adds a record to the part that its hash falls into.
    func append(_ record: Record, hash: UInt64) throws(ReaderError) {
        let part = Int(hash.multipliedFullWidth(by: UInt64(partCount)).high)
        buffers[part].append(record)
        recordCount += 1
        if buffers[part].count == bufferRecordCount { try write(part) }
    }

    private func write(_ part: Int) throws(ReaderError) {
        var writer = ByteWriter(capacity: bufferRecordCount * Self.recordByteCount)
        for record in buffers[part] {
            for word in record.indices { writer.append(u64: record[word]) }
        }
        try ReaderError.reading { () throws(StorageError) in
            if file == nil { file = try Self.makeFile(in: files) }
            try file?.write(writer.bytes, at: byteCount)
        }
        chunks[part].append((byteCount, buffers[part].count))
        byteCount += UInt64(writer.byteCount)
        buffers[part].removeAll(keepingCapacity: true)
    }

    private static func makeFile(in files: Files) throws(StorageError) -> Files.File {
        let name = "ingest-reader.\(String(UInt64.random(in: 0...UInt64.max), radix: 16)).tmp"
        let file = try files.create(name)
        try files.unlink(name)
        return file
    }

    /// Gives the records of a part in the order in which they were added.
    func forEach(
        in part: Int, _ body: (Record) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        if let file {
            for chunk in chunks[part] {
                let bytes = try ReaderError.reading { () throws(StorageError) in
                    try file.readArray(
                        at: chunk.offset, byteCount: chunk.recordCount * Self.recordByteCount)
                }
                try ByteReader.reading(bytes) { (reader) throws(ReaderError) in
                    for _ in 0..<chunk.recordCount {
                        var record = Record(repeating: 0)
                        for word in record.indices {
                            guard let value = reader.readU64() else { throw .cutScratch(file.path) }
                            record[word] = value
                        }
                        try body(record)
                    }
                }
            }
        }
        for record in buffers[part] { try body(record) }
    }
}

extension ReaderError {
    fileprivate static func cutScratch(_ path: String) -> ReaderError {
        ReaderError(
            kind: .io, what: "a temporary file is shorter than it was written", path: path,
            advice: "check the disk")
    }
}
