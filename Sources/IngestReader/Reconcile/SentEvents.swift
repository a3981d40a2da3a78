// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// The lines of one part, by what they are: how many of each, and how many rows of each verdict the log has for them.
///
/// A row that does not have all that its event had is held against the lines that are equal in the rest: `Telling`. Rows that
/// tell more take lines first.
struct SentEvents {
    struct Event {
        let identity: EventIdentity
        /// Of the first such line.
        fileprivate(set) var lineOffset: UInt64
        var count: UInt64 = 1
        /// Those that tell all.
        fileprivate var rows = Counts(repeating: 0)

        fileprivate init(_ record: InlineArray<8, UInt64>) {
            identity = EventIdentity(record, isMarked: record[7] & SentEvents.mark != 0)
            lineOffset = record[7] & ~SentEvents.mark
        }

        /// Takes rows for its lines, the counted ones first.
        fileprivate mutating func take(from rows: inout Counts) -> Counts {
            var taken = Counts(repeating: 0)
            for verdict in rows.indices {
                taken[verdict] = min(rows[verdict], count)
                rows[verdict] -= taken[verdict]
                count -= taken[verdict]
            }
            return taken
        }
    }

    /// What rows tell of their events, beside what all do.
    private struct Telling: Hashable {
        var hasID = true
        var hasMark = true
        var hasCampaign = true
        var hasPlatform = true

        /// In the order in which rows take lines.
        static let inOrder: [Telling] = {
            var all: [Telling] = []
            for hasPlatform in [true, false] {
                for hasCampaign in [true, false] {
                    for (hasID, hasMark) in [(true, true), (true, false), (false, false)] {
                        all.append(
                            Telling(
                                hasID: hasID, hasMark: hasMark, hasCampaign: hasCampaign,
                                hasPlatform: hasPlatform))
                    }
                }
            }
            return all
        }()

        var hasAllButPlatform: Bool { hasID && hasMark && hasCampaign }
    }

    /// What rows that do not tell all have in common with their lines.
    private struct Common: Hashable {
        /// Of the first line that is equal but for names, id and mark.
        let first: Int
        let names: UInt64
        let id: UInt64
        let isMarked: Bool

        init(_ first: Int, _ event: EventIdentity, _ telling: Telling) {
            let campaign = event.names & .max >> 32
            self.first = first
            // Whether there is a campaign or a source is told all the same.
            names =
                (telling.hasPlatform ? event.names & .max << 32 : 0)
                | (telling.hasCampaign ? campaign : min(1, campaign))
            id = telling.hasID ? event.id : 0
            isMarked = telling.hasMark && event.isMarked
        }
    }

    /// By verdict: rows; after `match` those that are of a line, and were not taken yet.
    fileprivate typealias Counts = InlineArray<13, UInt64>

    /// In the last word of the record of a line whose event is marked, above its place.
    static var mark: UInt64 { 1 << 63 }

    private let mayLackPlatforms: Bool
    private var events: [Event] = []
    /// Those that do not.
    private var rows: [Telling: [Common: Counts]] = [:]
    /// With how many events equal ones are brought together again.
    private var mergesAt = mergeCountMin
    static var mergeCountMin: Int { 1 << 12 }

    /// Lines are held one by one up to as many as there are different ones, and `mergeCountMin`.
    var heldCount: Int { events.count }

    /// - Parameter mayLackPlatforms: whether rows without a platform may be of events that had one.
    init(mayLackPlatforms: Bool = false) { self.mayLackPlatforms = mayLackPlatforms }

    mutating func append(_ record: InlineArray<8, UInt64>) {
        events.append(Event(record))
        guard events.count >= mergesAt else { return }
        sort()
        mergesAt = max(Self.mergeCountMin, 2 * events.count)
    }

    /// Brings equal ones together. To be called after the last line.
    mutating func sort() {
        events.sort { $0.identity.order < $1.identity.order }
        var count = 0
        for place in events.indices {
            if count > 0, events[count - 1].identity.order == events[place].identity.order {
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

    /// The first place from `order` on, if what is there has the same base.
    private func firstPlace(from order: EventIdentity.Order) -> Int? {
        let place = events.indices.firstPlace { events[$0].identity.order >= order }
        guard place < events.count, events[place].identity.base == (order.0, order.1) else {
            return nil
        }
        return place
    }

    /// Refused for consent, a row has no id; consent and clock come before the mark.
    private func telling(of row: RowPlace, names: UInt64) -> Telling {
        let (isConsent, isClock) = (
            row.verdict == .noConsent, row.verdict == .tooOld || row.verdict == .tooEarly
        )
        return Telling(
            hasID: !isConsent, hasMark: !isConsent && !isClock, hasCampaign: !row.hidesCampaign,
            hasPlatform: hasPlatform(names))
    }

    private func hasPlatform(_ names: UInt64) -> Bool { !mayLackPlatforms || names >> 32 != 0 }

    /// Where the lines are that are equal to a row in all.
    private func place(of row: EventIdentity) -> Int? {
        guard let place = firstPlace(from: row.order), events[place].identity.order == row.order
        else { return nil }
        return place
    }

    /// Does something with the count of the rows that are like one of the log, where lines may be of these.
    /// - Parameter body: `false` where it is to be called with the next such count.
    private mutating func withCount(
        of record: InlineArray<8, UInt64>, _ body: (inout UInt64) -> Bool
    ) -> Bool {
        let row = RowPlace(word: record[7])
        let verdict = Int(row.verdict.rawValue)
        let identity = EventIdentity(record, isMarked: row.isMarked)
        let telling = telling(of: row, names: identity.names)
        // One without a platform is of a line without before it is of any.
        if telling.hasAllButPlatform, let place = place(of: identity),
            body(&events[place].rows[verdict])
        {
            return true
        }
        let start: EventIdentity.Order = (identity.base.0, identity.base.1, 0, 0, 0)
        guard telling != Telling(), let first = firstPlace(from: start) else { return false }
        let common = Common(first, identity, telling)
        return body(
            &rows[telling, default: [:]][common, default: Counts(repeating: 0)][verdict])
    }

    /// Notes a row of the log.
    mutating func add(row record: InlineArray<8, UInt64>) {
        _ = withCount(of: record) { count in
            count += 1
            return true
        }
    }

    /// Decides how many rows of each verdict are of a line. To be called after the last row.
    mutating func match() {
        let withoutPlatform = Telling(hasPlatform: false)
        var first = 0
        for place in events.indices {
            if events[place].identity.base != events[first].identity.base { first = place }
            var (event, left) = (events[place], events[place].rows)
            event.rows = event.take(from: &left)
            events[place] = event
            if hasPlatform(event.identity.names) { continue }
            // There may be more without a platform than lines without.
            let common = Common(first, event.identity, withoutPlatform)
            for verdict in left.indices where left[verdict] > 0 {
                rows[withoutPlatform, default: [:]][common, default: Counts(repeating: 0)][
                    verdict] += left[verdict]
            }
        }
        for telling in Telling.inOrder {
            if let left = rows.removeValue(forKey: telling) { rows[telling] = match(left, telling) }
        }
    }

    /// Gives rows to lines that are left over, in one pass over these.
    /// - Returns: those that are of a line.
    private mutating func match(
        _ rows: [Common: Counts], _ telling: Telling
    ) -> [Common: Counts] {
        var (left, matched) = (rows, [Common: Counts]())
        var first = 0
        for place in events.indices {
            let event = events[place]
            if event.identity.base != events[first].identity.base { first = place }
            let common = Common(first, event.identity, telling)
            guard event.count > 0, var rows = left[common] else { continue }
            let taken = events[place].take(from: &rows)
            left[common] = rows
            for verdict in taken.indices where taken[verdict] > 0 {
                matched[common, default: Counts(repeating: 0)][verdict] += taken[verdict]
            }
        }
        return matched
    }

    /// Whether a row is of a line: each of them once.
    mutating func take(row record: InlineArray<8, UInt64>) -> Bool {
        withCount(of: record) { count in
            guard count > 0 else { return false }
            count -= 1
            return true
        }
    }

    /// The lines that no row is of.
    var left: some Sequence<Event> { events.lazy.filter { $0.count > 0 } }
}

/// The lines of a text file, from any place on, each as bytes without its newline.
///
/// **Cost** 1 MiB, and the longest line up to its limit: of a longer one only so much is given as shows that it is.
struct TextLines<File: StorageFile> {
    /// Of one read.
    private static var chunkByteCount: Int { 1 << 20 }
    private static var shortChunkByteCount: Int { 4 << 10 }
    /// One byte more than an event may have.
    private static var lineByteCountMax: Int { Limits.packetByteCountMax + 1 }

    let file: File

    /// Gives the lines from `offset` on, with the place of each; the last one also without a newline.
    /// - Parameter body: `false` ends it.
    func forEach(
        from start: UInt64 = 0, chunkByteCount: Int = Self.chunkByteCount,
        _ body: (UInt64, ArraySlice<UInt8>) throws(ReaderError) -> Bool
    ) throws(ReaderError) {
        var (offset, lineStart) = (start, start)
        // What is there of a line that goes on in the next chunk.
        var beginning: [UInt8] = []
        while true {
            let chunk = try ReaderError.reading { () throws(StorageError) in
                try file.readArray(at: offset, byteCount: chunkByteCount)
            }
            if chunk.isEmpty { break }
            var rest = chunk[...]
            while let end = rest.firstIndex(of: 0x0A) {
                var line = rest[..<end]
                if !beginning.isEmpty {
                    Self.add(line, to: &beginning)
                    line = beginning[...]
                }
                guard try body(lineStart, line) else { return }
                beginning.removeAll(keepingCapacity: true)
                lineStart = offset + UInt64(end) + 1
                rest = rest[(end + 1)...]
            }
            Self.add(rest, to: &beginning)
            offset += UInt64(chunk.count)
        }
        if !beginning.isEmpty { _ = try body(lineStart, beginning[...]) }
    }

    /// Gives the line at `offset`, as above.
    func give(
        lineAt offset: UInt64, _ body: (ArraySlice<UInt8>) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        try forEach(from: offset, chunkByteCount: Self.shortChunkByteCount) {
            (_, line) throws(ReaderError) in
            try body(line)
            return false
        }
    }

    private static func add(_ more: ArraySlice<UInt8>, to line: inout [UInt8]) {
        line += more.prefix(lineByteCountMax - line.count)
    }
}

/// The most that can flow through a small network, by Edmonds and Karp: along a shortest path that has room, as long as
/// there is one.
struct MaximumFlow {
    private let nodeCount: Int
    private var room: [UInt64]

    init(nodeCount: Int) {
        self.nodeCount = nodeCount
        room = Array(repeating: 0, count: nodeCount * nodeCount)
    }

    /// How much can still flow from one node to another.
    subscript(from: Int, to: Int) -> UInt64 {
        get { room[from * nodeCount + to] }
        set { room[from * nodeCount + to] = newValue }
    }

    mutating func run(from source: Int, to sink: Int) {
        while let path = path(from: source, to: sink) {
            let edges = Array(zip(path, path.dropFirst()))
            let amount = edges.reduce(UInt64.max) { min($0, self[$1.0, $1.1]) }
            for (from, to) in edges {
                self[from, to] -= amount
                self[to, from] += amount
            }
        }
    }

    /// The nodes of a shortest path with room.
    private func path(from source: Int, to sink: Int) -> [Int]? {
        var origins = [Int?](repeating: nil, count: nodeCount)
        origins[source] = source
        var reached = [source]
        var next = 0
        while origins[sink] == nil, next < reached.count {
            let node = reached[next]
            next += 1
            for other in 0..<nodeCount where origins[other] == nil && self[node, other] > 0 {
                origins[other] = node
                reached.append(other)
            }
        }
        guard origins[sink] != nil else { return nil }
        var path = [sink]
        while let last = path.last, last != source, let origin = origins[last] {
            path.append(origin)
        }
        return path.reversed()
    }
}
