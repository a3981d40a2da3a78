// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// What events of a reward key are attributed to: a campaign and a source, one of which may be none.
public struct Attribution: Hashable, Comparable, Sendable, BitwiseCopyable {
    public let key: UInt32
    /// Name ordinals; 0 = none, `other` = beyond the bound on attributions.
    public let campaign: UInt32
    public let source: UInt32

    /// The ordinal of no name: what stands for those beyond the bound, shown as `(other)`.
    @inlinable package static var other: UInt32 { .max }

    @inlinable public init(key: UInt32, campaign: UInt32, source: UInt32) {
        (self.key, self.campaign, self.source) = (key, campaign, source)
    }

    /// Whether it stands for those beyond the bound.
    package var isOverflow: Bool { campaign == Self.other || source == Self.other }
    /// Campaign and source as one integer.
    package var pair: UInt64 { UInt64(campaign) << 32 | UInt64(source) }

    public static func < (a: Self, b: Self) -> Bool {
        a.key == b.key ? a.pair < b.pair : a.key < b.key
    }
}

/// The keys of rows in a counter table. In `reward-days` and `expired` those of attributions follow those of rewards.
package enum CounterKeys {
    /// The first key of an attributed row: its distance from here is the place of its attribution in the table's list.
    @inlinable package static var firstAttributed: UInt32 { 1 << 31 }
    /// Of rewards; and of businesses in `days`.
    @inlinable package static var rewards: ClosedRange<UInt32> { 0...firstAttributed - 1 }
    package static var all: ClosedRange<UInt32> { 0...UInt32.max }

    /// The keys of some places of a list.
    package static func attributed(_ places: Range<Int>) -> ClosedRange<UInt32>? {
        places.isEmpty
            ? nil
            : firstAttributed
                + UInt32(places.lowerBound)...firstAttributed + UInt32(places.upperBound - 1)
    }
}

/// The attributions of a part of the `reward-days` table, ascending, each once: what the keys of its attributed rows mean.
///
/// **Layout** docs/format/run.md: three varints each.
/// **Cost** 12 bytes each in memory, 4 to 6 in a file; 5 ns each to decode, by calculation.
package struct AttributionList: Hashable, Sendable {
    package private(set) var entries: [Attribution] = []

    /// None.
    package init() {}

    /// - Precondition: `entries` ascend, each once.
    package init(sorted entries: [Attribution]) { self.entries = entries }

    package var count: Int { entries.count }

    /// The places of the attributions of some reward keys.
    ///
    /// **Cost** Two binary searches.
    package func places(ofKeys keys: ClosedRange<UInt32>) -> Range<Int> {
        let first = entries.indices.firstPlace { entries[$0].key >= keys.lowerBound }
        let end = entries.indices.firstPlace { entries[$0].key > keys.upperBound }
        return first..<max(first, end)
    }

    /// **Cost** A binary search.
    package func contains(_ attribution: Attribution) -> Bool {
        let place = entries.indices.firstPlace { entries[$0] >= attribution }
        return place < entries.count && entries[place] == attribution
    }

    // MARK: Several lists

    /// All attributions of some lists, and the place in it of each of theirs.
    ///
    /// **Cost** A comparison a list for each of theirs, twice the logarithm of how many lists there are.
    package static func merged(
        _ lists: [AttributionList]
    ) -> (all: AttributionList, places: [[UInt32]]) {
        let all = union(lists[...])
        let places = lists.map { list in
            var next = 0
            return list.entries.map { entry in
                while all.entries[next] < entry { next += 1 }
                return UInt32(next)
            }
        }
        return (all, places)
    }

    private static func union(_ lists: ArraySlice<AttributionList>) -> AttributionList {
        guard lists.count > 1 else { return lists.first ?? AttributionList() }
        let middle = lists.startIndex + lists.count / 2
        let (a, b) = (union(lists[..<middle]).entries, union(lists[middle...]).entries)
        if a.isEmpty || b.isEmpty { return AttributionList(sorted: a + b) }
        var all: [Attribution] = []
        all.reserveCapacity(max(a.count, b.count))
        var (i, j) = (0, 0)
        while i < a.count && j < b.count {
            let (first, second) = (a[i], b[j])
            all.append(second < first ? second : first)
            if first <= second { i += 1 }
            if second <= first { j += 1 }
        }
        all += a[i...]
        all += b[j...]
        return AttributionList(sorted: all)
    }
}

// MARK: Bytes

extension AttributionList {
    func encode(into writer: inout ByteWriter) {
        var lastKey: UInt32 = 0
        for entry in entries {
            writer.append(varint: UInt64(entry.key - lastKey))
            // So that beyond the bound is one byte too.
            writer.append(varint: UInt64(entry.campaign &+ 1))
            writer.append(varint: UInt64(entry.source &+ 1))
            lastKey = entry.key
        }
    }

    package func encode() -> [UInt8] {
        var writer = ByteWriter()
        encode(into: &writer)
        return writer.bytes
    }

    /// A count of attributions, as a header says it: the bytes that are there bound it further.
    static var countMax: Int { Int(CounterKeys.firstAttributed) }

    /// Reads `count` attributions.
    /// - Parameters:
    ///   - nextKey, nextName: ordinals are below.
    ///   - start: where the reader's first byte lies, for errors.
    /// **Errors** `corrupt` for fewer bytes, an ordinal that was not given, an attribution of nothing, and where they do not
    /// ascend.
    static func decode(
        _ reader: inout ByteReader, count: Int, nextKey: UInt32 = UInt32(Limits.keyCountMax),
        nextName: UInt32 = UInt32(Limits.nameCountMax) + 1, at start: Int = 0
    ) throws(FormatError) -> AttributionList {
        var section = SectionReader(reader: reader, section: "attributions", start: start)
        guard count <= reader.remainingByteCount / 3 else {
            throw section.fault("attribution count", got: UInt64(count))
        }
        var list = AttributionList()
        list.entries.reserveCapacity(count)
        var last = Attribution(key: 0, campaign: 0, source: 0)
        for _ in 0..<count {
            let left = UInt64(nextKey) - min(UInt64(nextKey), UInt64(last.key) + 1)
            let key = last.key + UInt32(try section.varint("key", max: left))
            let campaign = UInt32(try section.varint("campaign", max: UInt64(nextName))) &- 1
            let source = UInt32(try section.varint("source", max: UInt64(nextName))) &- 1
            let entry = Attribution(key: key, campaign: campaign, source: source)
            // The first of key 0 comes behind that of nothing.
            guard last < entry, entry.pair != 0, key < nextKey else {
                throw section.fault("order of attributions", got: UInt64(key))
            }
            list.entries.append(entry)
            last = entry
        }
        reader = section.reader
        return list
    }

    /// Reads attributions that fill `bytes`, the end of a `part` of a file.
    /// **Errors** `corrupt` also for bytes behind the last one.
    static func decode(
        whole bytes: [UInt8], count: Int, nextKey: UInt32 = UInt32(Limits.keyCountMax),
        nextName: UInt32 = UInt32(Limits.nameCountMax) + 1, at start: Int = 0,
        of part: String = "attributions"
    ) throws(FormatError) -> AttributionList {
        try ByteReader.reading(bytes) { (reader) throws(FormatError) in
            let list = try decode(
                &reader, count: count, nextKey: nextKey, nextName: nextName, at: start)
            guard reader.isAtEnd else {
                throw .corrupt(
                    part, at: start + reader.offset, got: bytes.count,
                    expected: .exactly(reader.offset))
            }
            return list
        }
    }
}

extension CounterPage {
    /// Gives attributed rows the keys of other places; those of rewards stay.
    /// - Parameter places: by the place that a row has; ascending.
    /// - Returns: `false`, with some of them changed, for a place that is not there.
    package func renumberAttributed(_ places: [UInt32]) -> Bool {
        let first = firstRow(key: CounterKeys.firstAttributed, day: .min)
        for row in first..<max(first, rowCount) {
            let place = Int(key(row) - CounterKeys.firstAttributed)
            guard place < places.count else { return false }
            setKey(CounterKeys.firstAttributed + places[place], ofRow: row)
        }
        return true
    }

    /// Gives a row another key; the caller keeps the order.
    package func setKey(_ key: UInt32, ofRow row: Int) {
        precondition(row >= 0 && row < rowCount)
        // SAFETY: row < rowCount ≤ capacity.
        unsafe order[row] = UInt64(key) << 32 | order[row] & 0xFFFF_FFFF
    }
}
