// packet → decode → ring → [admit] → block → [segment] → compaction → snapshot → [query]

/// The window of one sender epoch as the log has it.
package struct SenderWindow: Hashable, Sendable {
    /// Sequences below belong to nobody: the window was opened here.
    package let start: UInt64
    /// Of the tag under which it was opened: whose quota it is of. 0 = none.
    package let keyID: UInt16
    package private(set) var sequences: SequenceWindow
    private var checks: SequenceChecks
    /// Whether the sender's packets ask for acks; `nil` until its first batch came.
    package var asksForAcks: Bool?
    /// Admission time of the last block with an entry of this sender, µs since 1970.
    package var lastSeen: Int64
    /// Of its packets, by `Verdict`, indexed by its raw value.
    package private(set) var events = [UInt64](repeating: 0, count: Verdict.allCases.count)
    private var told: UInt64 = 0

    package init(start: UInt64, keyID: UInt16 = 0, lastSeen: Int64) {
        self.start = start
        self.keyID = keyID
        sequences = SequenceWindow(floor: start)
        checks = SequenceChecks(start: start)
        self.lastSeen = lastSeen
    }

    /// `nil` if the entry does not say where the window begins.
    fileprivate init?(openedBy entry: LedgerEntry, at time: Int64) {
        guard let start = entry.windowStart else { return nil }
        self.init(start: start, keyID: entry.window.keyID, lastSeen: time)
    }

    /// One more than the highest sequence known of, from a packet or from a heartbeat.
    package var announced: UInt64 { max(told, sequences.end) }

    /// Notes that a heartbeat told of all sequences below `end`.
    package mutating func announce(_ end: UInt64) {
        told = max(told, min(end, Limits.sequenceMax + 1))
    }

    /// Sequences announced that are not final: they may still come.
    package var openCount: UInt64 { announced - sequences.floor - sequences.arrivedAboveFloorCount }

    /// Sequences that were announced since it was opened.
    package var announcedCount: UInt64 { announced - start }

    /// Places for checks, of 2 bytes.
    package var checkPlaceCount: Int { checks.count }

    /// Notes that an open sequence was consumed.
    ///
    /// - Parameters:
    ///   - check: 16 bits of its packet's bytes, not 0.
    ///   - room: places for checks that it may take.
    /// - Returns: whether there was a place for the check; if not, `keep` may have one made.
    @discardableResult @inline(__always)
    package mutating func accept(_ sequence: UInt64, check: UInt16, room: Int) -> Bool {
        sequences.insert(sequence)
        return checks.set(check, of: sequence, in: sequences, room: room)
    }

    /// Notes the check of a sequence that was consumed.
    /// - Parameter room: places for checks that it may take.
    package mutating func keep(check: UInt16, of sequence: UInt64, room: Int) {
        checks.set(check, of: sequence, in: sequences, room: room)
    }

    /// Whether a sequence that arrived came with other bytes then; where that is not known any more, not.
    package func isConflict(_ sequence: UInt64, check: UInt16) -> Bool {
        checks.check(of: sequence, in: sequences).map { $0 != check } ?? false
    }

    /// Adds events of its packets, by `Verdict`.
    package mutating func add(events more: [UInt64]) {
        for code in events.indices where more[code] > 0 {
            events[code] = events[code].saturatingSum(more[code])
        }
    }

    /// Takes the floor up: what has not arrived below it is missing.
    /// - Returns: how many sequences that are.
    package mutating func raise(to floor: UInt64) -> UInt64 { sequences.raise(to: floor) }

    /// Whether both say the same, whoever told them of the last sequences, and however many checks they have.
    package static func == (a: Self, b: Self) -> Bool {
        a.start == b.start && a.keyID == b.keyID && a.announced == b.announced
            && a.asksForAcks == b.asksForAcks
            && a.lastSeen == b.lastSeen && a.events == b.events && a.sequences == b.sequences
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(start)
        hasher.combine(announced)
        hasher.combine(sequences)
    }

    /// Adds what a block, or a segment, says of this sender epoch.
    fileprivate mutating func apply(_ entry: LedgerEntry, at time: Int64, room: Int = 0) {
        let placeCount = checkPlaceCount + room
        sequences.replay(entry.sequences, floor: entry.window.floor ?? 0)
        // What came without checks has the places of what came before it.
        if entry.checks.isEmpty && !entry.sequences.isEmpty {
            checks = SequenceChecks(start: start)
        }
        var next = entry.checks.startIndex
        for range in entry.sequences where next < entry.checks.endIndex {
            for sequence in range {
                checks.set(
                    entry.checks[next], of: sequence, in: sequences,
                    room: placeCount - checkPlaceCount)
                next += 1
            }
        }
        add(events: entry.events)
        announce(entry.window.announced ?? 0)
        asksForAcks = asksForAcks ?? entry.window.asksForAcks
        lastSeen = max(lastSeen, time)
    }
}

extension LedgerEntry {
    /// Where the sender's window begins if it was not open before. Where the block that opened it was lost, that is
    /// a window below the first sequence that is left, so that what is still on its way is not taken for what has come.
    package var windowStart: UInt64? {
        if let start = window.start { return start }
        guard let first = sequences.first?.lowerBound else { return nil }
        return first - min(first, UInt64(Limits.windowSequenceCountMax) - 1)
    }
}

/// What the windows of all keys have of something that has a bound, and those of each key, which has a part of its own.
package struct KeyShares: Sendable {
    private let countMax: Int
    package private(set) var count = 0
    private var ofKeys: [UInt16: Int] = [:]

    package init(countMax: Int) { self.countMax = countMax }

    /// How many more the windows of a key may have; those without a key all that is left. Below 0 where a log that was made
    /// under other bounds has more.
    package func room(of keyID: UInt16) -> Int {
        let left = countMax - count
        if keyID == 0 { return left }
        return min(left, countMax / Limits.windowPartOfKey - ofKeys[keyID, default: 0])
    }

    package mutating func add(_ added: Int, of keyID: UInt16) {
        if added == 0 { return }
        count += added
        if keyID == 0 { return }
        let sum = ofKeys[keyID, default: 0] + added
        ofKeys[keyID] = sum == 0 ? nil : sum
    }
}

/// The windows of all sender epochs, as the log up to some block has them: a footer holds them, the
/// ledger entries of the blocks behind it take them on.
package struct SenderWindows: Hashable, Sendable {
    /// Open windows, by framed sender key.
    package private(set) var open: [SenderKey: SenderWindow] = [:]
    package private(set) var expired = ExpiredEpochs()
    private var checkPlaces = KeyShares(countMax: Limits.checkPlaceCountMax)

    package init() {}

    /// Of the senders of a segment, the windows that were open before it, as far as its own footer tells: where they begin,
    /// and no sequences.
    package init(before footer: SegmentFooter) {
        for entry in footer.ledger where entry.window.start == nil {
            guard let window = footer.windows.open[entry.key] else { continue }
            open[entry.key] = SenderWindow(start: window.start, keyID: window.keyID, lastSeen: .min)
        }
    }

    /// Of all open windows together.
    package var checkPlaceCount: Int { checkPlaces.count }

    /// Whether both say the same, however many checks they have.
    package static func == (a: Self, b: Self) -> Bool {
        a.open == b.open && a.expired == b.expired
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(open) }

    /// Takes the windows on by the entries of one block, or by the sums of one segment.
    ///
    /// - Parameter time: the block's admission time; of sums `nil`, they have their own.
    package mutating func apply(_ entries: [LedgerEntry], at time: Int64? = nil) {
        for entry in entries where entry.key.kind == .framed && entry.key != .others {
            apply(entry, at: time ?? entry.seen?.upperBound ?? 0)
        }
    }

    private mutating func apply(_ entry: LedgerEntry, at time: Int64) {
        if entry.window.isExpired {
            let window = open.removeValue(forKey: entry.key)
            if let window { checkPlaces.add(-window.checkPlaceCount, of: window.keyID) }
            return expired.add(entry.key, of: window?.keyID ?? entry.window.keyID)
        }
        if open[entry.key] == nil { open[entry.key] = SenderWindow(openedBy: entry, at: time) }
        guard let (keyID, before) = open[entry.key].map({ ($0.keyID, $0.checkPlaceCount) }) else {
            return
        }
        open[entry.key]?.apply(entry, at: time, room: checkPlaces.room(of: keyID))
        checkPlaces.add((open[entry.key]?.checkPlaceCount ?? 0) - before, of: keyID)
    }
}

// MARK: Bytes

extension SenderWindows {
    /// The section of a footer: docs/format/segment.md.
    ///
    /// **Layout** The expired epochs without a key, as `ExpiredEpochs.OfKey.encode`; a varint of how many windows, each as
    /// `SenderWindow.encode`, ascending by (sender, epoch); those of keys, as `ExpiredEpochs.encodeKeys`.
    package func encode(into writer: inout ByteWriter) {
        (expired.ofKeys[0] ?? ExpiredEpochs.OfKey()).encode(into: &writer)
        writer.append(varint: UInt64(open.count))
        for (key, window) in open.sorted(by: { $0.key < $1.key }) {
            writer.append(u64: key.sender.rawValue)
            writer.append(u64: key.epoch.rawValue)
            window.encode(into: &writer)
        }
        expired.encodeKeys(into: &writer)
    }

    /// Reads a section that fills `bytes`.
    /// **Errors** `corrupt`.
    package static func decode(_ bytes: [UInt8]) throws(FormatError) -> SenderWindows {
        try ByteReader.reading(bytes) { (reader) throws(FormatError) in
            var source = SectionReader(reader: reader, section: "windows")
            var windows = SenderWindows()
            windows.expired = try ExpiredEpochs(withoutKey: &source)
            let count = try source.count(
                "window count", max: Limits.windowCountMax, leastByteCount: 30)
            windows.open.reserveCapacity(count)
            var last: SenderKey?
            for _ in 0..<count {
                let key = SenderKey(
                    kind: .framed, sender: SenderID(rawValue: try source.u64("sender")),
                    epoch: SenderEpoch(rawValue: try source.u64("epoch")))
                if let last, last >= key { throw source.fault("order", got: key.sender.rawValue) }
                let window = try SenderWindow(&source)
                windows.open[key] = window
                windows.checkPlaces.add(window.checkPlaceCount, of: window.keyID)
                guard windows.checkPlaceCount <= Limits.checkPlaceCountMax else {
                    throw source.fault("checks", got: UInt64(windows.checkPlaceCount))
                }
                last = key
            }
            if !source.reader.isAtEnd { try windows.expired.decodeKeys(&source) }
            guard source.reader.isAtEnd else {
                throw source.fault(
                    "bytes behind the last", got: UInt64(source.reader.remainingByteCount))
            }
            return windows
        }
    }
}

extension SenderWindow {
    private static let asks: UInt8 = 1
    private static let decided: UInt8 = 2
    private static let hasKey: UInt8 = 4
    private static let hasChecks: UInt8 = 8
    private static let hasEvents: UInt8 = 16

    /// **Layout** Flags u8 (bit 0 asks for acks, bit 1 decided, bit 2 key id, bit 3 checks, bit 4 events); last seen u64; key
    /// id, if there is one, start, floor − start, announced − floor, missing count, as varints; a varint of how many missing
    /// ranges are known, each two varints, what lies between it and the floor or the range behind it, less 1 between
    /// ranges, and its length less 1, from the highest range down; a varint of how many words, then these, u64: bit i of
    /// word w says that sequence floor + 64 w + i arrived. The last word is not 0. With bit 3, `SequenceChecks.encode`. With bit
    /// 4 a varint of how many verdicts, then events of each, by raw value, as varints; the last is not 0.
    fileprivate func encode(into writer: inout ByteWriter) {
        let hasChecks = checks.count > 0
        let verdictCount = (events.lastIndex { $0 > 0 } ?? -1) + 1
        writer.append(
            u8: (asksForAcks == true ? Self.asks : 0) | (asksForAcks == nil ? 0 : Self.decided)
                | (keyID == 0 ? 0 : Self.hasKey) | (hasChecks ? Self.hasChecks : 0)
                | (verdictCount > 0 ? Self.hasEvents : 0))
        writer.append(u64: UInt64(bitPattern: lastSeen))
        let floor = sequences.floor
        if keyID != 0 { writer.append(varint: UInt64(keyID)) }
        writer.append(varint: start)
        writer.append(varint: floor - start)
        writer.append(varint: announced - floor)
        writer.append(varint: sequences.missingCount)
        writer.append(varint: UInt64(sequences.missing.count))
        var above = floor
        for range in sequences.missing.reversed() {
            writer.append(varint: above - 1 - range.upperBound)
            writer.append(varint: range.upperBound - range.lowerBound)
            above = range.lowerBound - (range.lowerBound > 0 ? 1 : 0)
        }
        var words: [UInt64] = []
        var next = floor
        while next < sequences.end {
            words.append(sequences.word(from: next))
            next += 64
        }
        while words.last == 0 { words.removeLast() }
        writer.append(varint: UInt64(words.count))
        for word in words { writer.append(u64: word) }
        if hasChecks { checks.encode(into: &writer) }
        guard verdictCount > 0 else { return }
        writer.append(varint: UInt64(verdictCount))
        for count in events[..<verdictCount] { writer.append(varint: count) }
    }

    fileprivate init(_ source: inout SectionReader) throws(FormatError) {
        let flags = try source.u8("flags")
        let known = Self.asks | Self.decided | Self.hasKey | Self.hasChecks | Self.hasEvents
        guard flags & ~known == 0,
            flags & (Self.asks | Self.decided) != Self.asks
        else {
            throw source.fault("flags", got: UInt64(flags))
        }
        lastSeen = Int64(bitPattern: try source.u64("last seen"))
        asksForAcks = flags & Self.decided == 0 ? nil : flags & Self.asks != 0
        keyID =
            flags & Self.hasKey == 0
            ? 0 : UInt16(try source.varint("key id", max: UInt64(UInt16.max)))
        guard (keyID == 0) == (flags & Self.hasKey == 0) else {
            throw source.fault("key id", got: 0)
        }
        start = try source.varint("start", max: Limits.sequenceMax + 1)
        let floor = start + (try source.varint("floor", max: Limits.sequenceMax + 1 - start))
        told = floor + (try source.varint("announced", max: Limits.sequenceMax + 1 - floor))
        let missingCount = try source.varint("missing count", max: floor - start)
        let missing = try Self.missing(&source, start: start, floor: floor)
        let listed = missing.reduce(UInt64(0)) { $0 + ($1.upperBound - $1.lowerBound + 1) }
        guard listed <= missingCount else { throw source.fault("missing ranges", got: listed) }
        let wordCount = try source.count(
            "word count", max: Limits.windowSequenceCountMax / 64, leastByteCount: 8)
        var words: [UInt64] = []
        for _ in 0..<wordCount { words.append(try source.u64("word")) }
        let top = UInt64(max(0, wordCount * 64 - (words.last?.leadingZeroBitCount ?? 0)))
        guard words.last != 0, words.first.map({ $0 & 1 }) != 1, top <= told - floor else {
            throw source.fault("words", got: words.last ?? 0)
        }
        sequences = SequenceWindow(
            floor: floor, arrivedBelowCount: floor - start - missingCount, missing: missing,
            missingCount: missingCount, words: words)
        checks =
            flags & Self.hasChecks == 0
            ? SequenceChecks(start: start) : try SequenceChecks(&source, start: start)
        if flags & Self.hasEvents != 0 { try readEvents(&source) }
    }

    private mutating func readEvents(_ source: inout SectionReader) throws(FormatError) {
        let count = try source.count("verdict count", max: events.count, leastByteCount: 1)
        for code in 0..<count { events[code] = try source.varint("events", max: .max) }
        guard count > 0, events[count - 1] > 0 else {
            throw source.fault("verdict count", got: UInt64(count))
        }
    }

    /// From the highest down in the bytes, ascending in memory.
    private static func missing(
        _ source: inout SectionReader, start: UInt64, floor: UInt64
    ) throws(FormatError) -> [ClosedRange<UInt64>] {
        let count = try source.count(
            "missing range count", max: Limits.windowMissingRangeCountMax, leastByteCount: 2)
        var ranges: [ClosedRange<UInt64>] = []
        var above = floor
        for _ in 0..<count {
            guard above > start else { throw source.fault("missing range", got: above) }
            let upper = above - 1 - (try source.varint("missing range", max: above - 1 - start))
            let lower = upper - (try source.varint("missing range length", max: upper - start))
            ranges.append(lower...upper)
            above = lower > 0 ? lower - 1 : 0
        }
        return ranges.reversed()
    }
}
