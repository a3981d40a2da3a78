// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

import IngestFormat

/// A part of the table of reward-days, for its attributed rows.
package struct AttributedPart {
    let attributions: AttributionList
    /// Gives the rows of some places of the list, a page at a time, under their keys in the part.
    let forEachPage:
        (Range<Int>, (CounterPage) throws(ReaderError) -> Void) throws(ReaderError) -> Void

    /// - Parameters:
    ///   - makeCursor: of rows with these keys, which are `CounterKeys.attributed`.
    ///   - next: the cursor's next page; `false` at the end.
    init<Cursor>(
        _ attributions: AttributionList,
        makeCursor: @escaping (ClosedRange<UInt32>) -> Cursor,
        next: @escaping (inout Cursor, CounterPage) throws(ReaderError) -> Bool
    ) {
        self.attributions = attributions
        forEachPage = { (places, body) throws(ReaderError) in
            guard let keys = CounterKeys.attributed(places) else { return }
            let page = CounterPage()
            var cursor = makeCursor(keys)
            while try next(&cursor, page) { try body(page) }
        }
    }
}

/// Counters by (reward, business, campaign, source): keys are gone through in the order in which they are shown; when
/// enough rows have gathered they are folded, in one pass over the counters of keys and one over attributed rows, and given.
///
/// What a key has without campaign and source is what its attributions leave of its counters: these events are counted
/// under their key alone.
///
/// **Cost** The attributions of the cut, 12 bytes each, and 8 for each of a part; their names; `Limits.queryRowCountMax` rows
/// of 232 bytes; 4 bytes a key. 60 to 100 ns a row that is read, in as many passes as there are times so many rows.
struct CampaignListing {
    /// A row that is being folded.
    private struct Entry {
        let attribution: Attribution
        var counters = CounterRow()
        /// Of the row without campaign and source: how many attributed ones of its key follow.
        var attributedCount = 0
    }

    private static var none: UInt32 { .max }

    private let query: CounterQuery
    private let days: DayRange
    private let parts: [AttributedPart]
    private let attributions: AttributionList
    /// By part and place in its list: the place among `attributions`.
    private let places: [[UInt32]]
    private let names: AttributionNames
    private var entries: [Entry] = []
    /// The texts of the keys at hand, and how many entries each has.
    private var keys: [(reward: [UInt8], business: [UInt8], entryCount: Int)] = []
    /// By key, and by place among `attributions`: the entry, if it is of this range.
    private var entryOfKey: [UInt32]
    private var entryOfPlace: [UInt32]

    init(
        _ query: CounterQuery, _ parts: [AttributedPart], _ days: DayRange
    ) throws(ReaderError) {
        (self.query, self.parts, self.days) = (query, parts, days)
        (attributions, places) = AttributionList.merged(parts.map(\.attributions))
        if let last = attributions.entries.last, last.key >= query.names.nextKey {
            throw .impossibleRow
        }
        names = try AttributionNames(of: attributions, query.names)
        entryOfKey = Array(repeating: Self.none, count: Int(query.names.nextKey))
        entryOfPlace = Array(repeating: Self.none, count: attributions.count)
    }

    /// Enters a key; gives the rows that have gathered where they are enough.
    /// - Returns: `false` if no more rows are wanted.
    mutating func enter(
        _ key: UInt32, reward: [UInt8], business: [UInt8], _ body: CampaignRow.Body
    ) throws(ReaderError) -> Bool {
        let its = attributions.places(ofKeys: key...key)
        if entries.count + its.count >= query.rowCountMax && !entries.isEmpty {
            guard try give(body) else { return false }
        }
        entryOfKey[Int(key)] = UInt32(entries.count)
        entries.append(
            Entry(
                attribution: Attribution(key: key, campaign: 0, source: 0),
                attributedCount: its.count))
        let sorted = its.sorted {
            names.precedes(attributions.entries[$0], attributions.entries[$1])
        }
        for place in sorted {
            entryOfPlace[place] = UInt32(entries.count)
            entries.append(Entry(attribution: attributions.entries[place]))
        }
        keys.append((reward, business, its.count + 1))
        return true
    }

    /// Folds the rows entered, and gives them, those without events left out; none are entered then.
    /// - Returns: `false` if no more rows are wanted.
    mutating func give(_ body: CampaignRow.Body) throws(ReaderError) -> Bool {
        try foldKeys()
        try foldAttributed()
        defer {
            entries.removeAll(keepingCapacity: true)
            keys.removeAll(keepingCapacity: true)
        }
        var place = 0
        for key in keys {
            try subtractAttributed(at: place)
            for entry in entries[place..<place + key.entryCount]
            where entry.counters != CounterRow() {
                let row = CampaignRow(
                    id: key.reward, business: key.business,
                    campaign: names.text(entry.attribution.campaign),
                    source: names.text(entry.attribution.source),
                    isOverflow: entry.attribution.isOverflow, counters: entry.counters)
                guard body(row) else { return false }
            }
            place += key.entryCount
        }
        return true
    }

    // MARK: Folding

    private mutating func add(
        _ row: Int, of page: CounterPage, to entry: UInt32
    ) throws(ReaderError) {
        guard entry != Self.none, try days.admits(page.day(row)) else { return }
        guard entries[Int(entry)].counters.add(page.counters(row)) else { throw .overflow }
    }

    private mutating func foldKeys() throws(ReaderError) {
        var ordinals: [UInt32] = []
        for entry in entries where entry.attribution.pair == 0 {
            ordinals.append(entry.attribution.key)
        }
        guard let first = ordinals.min(), let last = ordinals.max() else { return }
        let table = days.isBounded ? TableKind.rewardDays : .rewards
        try query.forEachPage(of: table, keys: first...last) { (page) throws(ReaderError) in
            for row in 0..<page.rowCount {
                guard page.key(row) < entryOfKey.count else { throw .impossibleRow }
                let entry = entryOfKey[Int(page.key(row))]
                if table == .rewards && entry != Self.none {
                    let counters = page.counters(row)
                    guard entries[Int(entry)].counters.add(counters) else { throw .overflow }
                } else {
                    try add(row, of: page, to: entry)
                }
            }
        }
        for key in ordinals { entryOfKey[Int(key)] = Self.none }
    }

    private mutating func foldAttributed() throws(ReaderError) {
        for (part, itsPlaces) in zip(parts, places) {
            guard let first = itsPlaces.firstIndex(where: { entryOfPlace[Int($0)] != Self.none }),
                let last = itsPlaces.lastIndex(where: { entryOfPlace[Int($0)] != Self.none })
            else { continue }
            try part.forEachPage(first..<last + 1) { (page) throws(ReaderError) in
                for row in 0..<page.rowCount {
                    let place = Int(page.key(row) - CounterKeys.firstAttributed)
                    try add(row, of: page, to: entryOfPlace[Int(itsPlaces[place])])
                }
            }
        }
        for place in entryOfPlace.indices { entryOfPlace[place] = Self.none }
    }

    /// Takes what is attributed from the counters of a key.
    private mutating func subtractAttributed(at place: Int) throws(ReaderError) {
        for other in place + 1..<place + 1 + entries[place].attributedCount {
            guard entries[place].counters.subtract(entries[other].counters) else {
                throw .attributedTooMuch
            }
        }
    }
}

/// The names of campaigns and sources of some attributions, as they are shown, and their order.
///
/// **Cost** That of `NameSource.texts`.
private struct AttributionNames {
    private var texts: [UInt32: (rank: Int, text: [UInt8])] = [:]

    init(of list: AttributionList, _ names: any NameSource) throws(ReaderError) {
        var ordinals: Set<UInt32> = []
        for entry in list.entries {
            ordinals.insert(entry.campaign)
            ordinals.insert(entry.source)
        }
        ordinals.subtract([0, Attribution.other])
        if let last = ordinals.max(), last >= names.nextName { throw .impossibleRow }
        var found = try names.texts(of: ordinals.sorted())
        let other = Attribution.otherText
        let place = found.firstIndex { NameOrder.precedes(other, $0.text) == true } ?? found.count
        found.insert((Attribution.other, other), at: place)
        var rank = 0
        for (place, name) in found.enumerated() {
            // A campaign may be called as those beyond the bound are shown, or as a lost one.
            if place == 0 || found[place - 1].text != name.text { rank += 1 }
            texts[name.ordinal] = (rank, name.text)
        }
    }

    /// `nil` for none.
    func text(_ ordinal: UInt32) -> [UInt8]? { texts[ordinal]?.text }

    func precedes(_ a: Attribution, _ b: Attribution) -> Bool {
        func ranks(_ entry: Attribution) -> (Int, Int, UInt64) {
            (texts[entry.campaign]?.rank ?? 0, texts[entry.source]?.rank ?? 0, entry.pair)
        }
        return ranks(a) < ranks(b)
    }
}

extension CounterRow {
    /// Takes `other` away column by column; `false`, with nothing changed, if a sum would be below 0.
    package mutating func subtract(_ other: CounterRow) -> Bool {
        var rest = self
        for column in CounterColumn.allCases where !column.isHigh {
            let (left, isBelow) = sum(column).subtractingReportingOverflow(other.sum(column))
            if isBelow { return false }
            rest[column] = UInt64(truncatingIfNeeded: left)
            if let high = column.high { rest[high] = UInt64(truncatingIfNeeded: left >> 64) }
        }
        self = rest
        return true
    }
}

extension CampaignsQuery {
    /// Gives the rows, bytewise by reward, then business, then campaign and source, none before any.
    ///
    /// **Cost** Of one reward: that of its rows, and of the attributions of the cut. Of all: a pass over the names in their
    /// stored order, and that of `CampaignListing`.
    func forEachRow(
        in query: CounterQuery, _ parts: [AttributedPart], _ body: CampaignRow.Body
    ) throws(ReaderError) {
        guard case .some(let wanted) = try query.ordinal(ofBusiness: business) else { return }
        var listing = try CampaignListing(query, parts, days)
        if let reward {
            var keys: [(key: UInt32, business: [UInt8])] = []
            for key in try query.keys(ofReward: reward) {
                let pair = try query.names.names(of: key)
                if let wanted, wanted != pair.business { continue }
                keys.append((key.rawValue, try query.names.shownBytes(of: pair.business)))
            }
            var sorted = keys
            for (index, rank) in NameOrder.ranks(of: keys.map(\.business)).enumerated() {
                sorted[Int(rank)] = keys[index]
            }
            for key in sorted {
                let goesOn = try listing.enter(
                    key.key, reward: Array(reward.utf8), business: key.business, body)
                guard goesOn else { return }
            }
            _ = try listing.give(body)
            return
        }
        let groups = try KeyGroups(query.names, business: wanted)
        let businesses = BusinessOrder(query.names)
        var shown = ShownNames(query.names)
        var walk = try groups.walk(query.names)
        while try walk.next() {
            if groups.places(ofGroup: walk.number).isEmpty { continue }
            var name: [UInt8] = []
            walk.appendName(to: &name)
            let goesOn = try groups.forEachKey(ofGroup: walk.number, by: businesses) {
                (key) throws(ReaderError) in
                let business = try shown.bytes(of: groups.businessOfKey[Int(key)])
                return try listing.enter(key, reward: name, business: business, body)
            }
            guard goesOn else { return }
        }
        _ = try listing.give(body)
    }
}

extension Attribution {
    /// What stands for campaigns and sources beyond the bound.
    package static let otherText = Array("(other)".utf8)
}
