// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
// Part of `verify`: shares no code with the windows of the daemon.
import IngestFormat

/// The window of one sender epoch: a floor, below which all is final, and what arrived above it.
struct WindowState: Sendable {
    private var start: UInt64
    /// Of the tag under which it was opened.
    fileprivate private(set) var keyID: UInt16
    private var floor: UInt64
    /// Above the floor, which has not arrived.
    private var arrived = RangeSet()
    private var arrivedCount: UInt64 = 0
    private var missingCount: UInt64 = 0
    /// The lowest are forgotten, a footer's before these.
    private var missing = RangeSet()
    private var told: UInt64 = 0
    private var asksForAcks: Bool?
    private var lastSeen: Int64
    /// Of its packets, by `Verdict`.
    private var events = [UInt64](repeating: 0, count: Verdict.allCases.count)

    private static var missingRangeCountMax: Int { Limits.windowMissingRangeCountMax }
    private static var reach: UInt64 { UInt64(Limits.windowSequenceCountMax) }

    fileprivate init(start: UInt64, keyID: UInt16) {
        (self.start, self.keyID, floor, lastSeen) = (start, keyID, start, .min)
    }

    /// As a footer has it.
    fileprivate init(_ stored: SenderWindow) {
        let sequences = stored.sequences
        keyID = stored.keyID
        (start, floor, told) = (stored.start, sequences.floor, stored.announced)
        (arrivedCount, missingCount) = (sequences.arrivedCount, sequences.missingCount)
        missing = RangeSet(sequences.missing)
        (asksForAcks, lastSeen, events) = (stored.asksForAcks, stored.lastSeen, stored.events)
        for next in stride(from: sequences.floor, to: sequences.end, by: 64) {
            let word = sequences.word(from: next)
            for bit in 0..<UInt64(64) where word >> bit & 1 != 0 {
                arrived.insert(next + bit...next + bit)
            }
        }
    }

    /// One more than the highest sequence known of, from a packet or from a heartbeat.
    var announced: UInt64 { max(told, arrived.ranges.last.map { $0.upperBound + 1 } ?? floor) }
    /// Sequences that were announced since it was opened.
    var announcedCount: UInt64 { announced - start }
    /// Sequences announced that are not final.
    var openCount: UInt64 { announced - floor - arrived.count }

    /// Takes it on by what some entries say.
    fileprivate mutating func apply(
        _ sum: LedgerRecount.WindowSum, _ sequences: [ClosedRange<UInt64>]
    ) {
        for range in sequences { insert(range) }
        raise(to: sum.delta.floor ?? 0)
        told = max(told, min(sum.delta.announced ?? 0, Limits.sequenceMax + 1))
        asksForAcks = asksForAcks ?? sum.delta.asksForAcks
        lastSeen = max(lastSeen, sum.seen?.upperBound ?? 0)
        for code in events.indices { events[code] = events[code].saturatingSum(sum.events[code]) }
    }

    /// Notes that sequences arrived. What a window cannot reach above its floor takes the floor up.
    private mutating func insert(_ range: ClosedRange<UInt64>) {
        let (lower, upper) = (
            max(range.lowerBound, floor), min(range.upperBound, Limits.sequenceMax)
        )
        guard lower <= upper else { return }
        let known = arrived.count
        arrived.insert(lower...upper)
        arrivedCount += arrived.count - known
        raise(to: floor)
        if upper >= floor, upper - floor >= Self.reach { raise(to: upper - Self.reach + 1) }
    }

    /// Takes the floor up: what has not arrived below it is missing. Then it stands behind all that arrived in a row.
    private mutating func raise(to newFloor: UInt64) {
        let newFloor = min(newFloor, Limits.sequenceMax + 1)
        var passed = 0
        for range in arrived.ranges {
            if range.lowerBound > max(newFloor, floor) { break }
            lose(upTo: range.lowerBound)
            floor = range.upperBound + 1
            passed += 1
        }
        arrived.removeFirst(passed)
        lose(upTo: newFloor)
    }

    private mutating func lose(upTo newFloor: UInt64) {
        guard floor < newFloor else { return }
        missing.insert(floor...newFloor - 1)
        missingCount += newFloor - floor
        floor = newFloor
        if missing.ranges.count > 3 * Self.missingRangeCountMax {
            missing.removeFirst(Self.missingRangeCountMax)
        }
    }

    /// Whether a footer's window says the same. Of the missing ranges it has the newest, at least half of those that it
    /// may have.
    fileprivate func isStored(as stored: WindowState) -> Bool {
        let (known, found) = (missing.ranges, stored.missing.ranges)
        return start == stored.start && keyID == stored.keyID && floor == stored.floor
            && announced == stored.announced
            && arrived == stored.arrived && arrivedCount == stored.arrivedCount
            && missingCount == stored.missingCount && asksForAcks == stored.asksForAcks
            && lastSeen == stored.lastSeen && events == stored.events
            && known.suffix(found.count).elementsEqual(found)
            && found.count >= min(known.count, Self.missingRangeCountMax / 2)
    }

    fileprivate var text: String {
        let ranges = missing.count == 0 ? "" : " with \(missing.ranges.suffix(3))"
        let kind = asksForAcks.map { $0 ? "asks for acks" : "asks for no acks" } ?? "undecided"
        return
            "start \(start) of key \(keyID), floor \(floor), announced \(announced), \(arrivedCount) received, "
            + "\(missingCount) missing\(ranges), last seen \(lastSeen), \(kind), events \(events)"
    }
}

/// The windows of all senders as `verify` goes through the log: made again from the ledgers of the blocks, held
/// against those in each footer, and, sender by sender, against the law of packets. Owned by one `verify`, on its
/// caller's thread.
///
/// Where a part of the log cannot be read, nothing is known until the next footer says it; what it says is believed
/// then, and so is the one after it, and no third: a footer that was made again behind the lost part has less than those
/// that were written when it was there.
///
/// **Cost** Some 100 ns a sender of a segment, and an open window of a footer; memory for all windows.
struct WindowRecount {
    /// A footer's windows, and where it begins in its file.
    struct Stored: Sendable {
        let windows: SenderWindows
        let offset: UInt64
    }

    /// Behind the segment at hand; `nil` where they are not known.
    private var open: [SenderKey: WindowState]? = [:]
    /// By key and sender: the newest epoch that was closed. Of a sender that a footer does not have any more, none is newer
    /// than the key's watermark.
    private var closed: [UInt16: ClosedEpochs] = [:]
    /// Whether no part of the log so far was lost: then each window has been seen opening.
    private var isWhole = true
    /// Whether the windows are only what the first footer behind a lost part says.
    private var isBelieved = false

    // MARK: Going on

    /// Goes on through an expired stretch of the log.
    /// - Parameter hasLosses: whether parts of it were lost before.
    mutating func add(
        trusted ledger: LedgerRecount, hasLosses: Bool, in file: String,
        _ report: inout VerifyReport
    ) {
        if hasLosses { return forget() }
        add(ledger, in: file, checksLaw: true, &report)
        // Of senders without an entry of their own, and of closed windows without a line, the order is gone.
        let isFolded = closed.contains {
            $0.value.watermark != 0 || $0.value.isFull(of: $0.key, among: closed.count)
        }
        if ledger.sums[.others] != nil || isFolded { forget() }
    }

    /// Goes on through a segment whose ledgers were all read.
    mutating func add(_ segment: SegmentRecount, _ report: inout VerifyReport) {
        guard segment.isWhole else { return forget(segment.footerWindows) }
        // A block that is gone may have opened a window, or have had what others count on.
        if !segment.isUnharmed { isWhole = false }
        add(segment.ledger, in: segment.file, checksLaw: !segment.isBroken && !isBelieved, &report)
        guard let stored = segment.footerWindows else { return }
        if open == nil {
            believe(stored.windows)
        } else if isBelieved {
            var differences = VerifyReport()
            compare(stored, in: segment.file, &differences)
            if !differences.isSound { believe(stored.windows) }
            isBelieved = false
        } else {
            compare(stored, in: segment.file, &report)
            compareChecks(of: stored, with: segment, &report)
        }
        // Those behind may have been written while the lost blocks were there.
        if segment.lostRowCount != nil { open = nil }
    }

    /// Goes on behind a part of the log that cannot be read.
    mutating func forget(_ stored: Stored? = nil) {
        open = nil
        if let stored { believe(stored.windows) }
        isWhole = false
    }

    private mutating func believe(_ stored: SenderWindows) {
        open = stored.open.mapValues { WindowState($0) }
        closed = stored.expired.ofKeys.mapValues { ClosedEpochs($0) }
        isBelieved = true
    }

    // MARK: The law of packets

    private mutating func add(
        _ ledger: LedgerRecount, in file: String, checksLaw: Bool, _ report: inout VerifyReport
    ) {
        guard var open = open.take() else { return }
        for key in ledger.sums.keys.sorted() {
            guard key.kind == .framed, key != .others, let sum = ledger.sums[key] else { continue }
            let before = open[key]
            let after = takeOn(&open, key, sum)
            if checksLaw { checkLaw(key, sum, before, after, in: file, &report) }
        }
        self.open = open
    }

    /// - Returns: the window behind all entries, also where they close it.
    private mutating func takeOn(
        _ open: inout [SenderKey: WindowState], _ key: SenderKey, _ sum: LedgerRecount.Sum
    ) -> WindowState? {
        var window = open[key]
        if sum.lead.seen != nil { window?.apply(sum.lead, []) }
        var after = window
        if sum.lead.delta.isExpired { window = nil }
        if let begin = sum.begin {
            var state = window ?? WindowState(start: begin, keyID: sum.rest.delta.keyID)
            state.apply(sum.rest, sum.sequences.ranges)
            (window, after) = (state, state)
        }
        open[key] = sum.window.delta.isExpired ? nil : window
        if sum.window.delta.isExpired {
            let (sender, epoch) = (key.sender.rawValue, key.epoch.rawValue)
            let keyID = after?.keyID ?? sum.window.delta.keyID
            let last = closed[keyID, default: ClosedEpochs()].epochs[sender] ?? 0
            closed[keyID, default: ClosedEpochs()].epochs[sender] = max(last, epoch)
        }
        return after
    }

    /// Holds what was announced against what was received, what is missing and what may still come: over a stretch,
    /// what was open before it comes to the announced.
    private func checkLaw(
        _ key: SenderKey, _ sum: LedgerRecount.Sum, _ before: WindowState?, _ after: WindowState?,
        in file: String, _ report: inout VerifyReport
    ) {
        let (received, delta) = (sum.consumedCount, sum.window.delta)
        if before == nil && (sum.begin == nil || sum.rest.delta.start != sum.begin) {
            if isWhole && (received > 0 || delta != WindowDelta()) {
                report.add(
                    .difference, "packets of \(key) before its window", in: file,
                    got: "\(received) received", expected: "a start")
            }
            return
        }
        guard let after else { return }
        let openBefore = before?.openCount ?? 0
        let announced = after.announcedCount &- (before?.announcedCount ?? 0)
        let sums = [received, delta.missingCount, after.openCount].reduce(UInt64(0)) {
            $0.saturatingSum($1)
        }
        if openBefore.saturatingSum(announced) == sums { return }
        let lead = openBefore > 0 ? "\(openBefore) open before + " : ""
        report.add(
            .difference, "packets of \(key) do not add up", in: file,
            got: "\(lead)\(announced) announced",
            expected: "\(received) received + \(delta.missingCount) missing "
                + "+ \(after.openCount) open")
    }

    // MARK: Footers

    private mutating func compare(
        _ stored: Stored, in file: String, _ report: inout VerifyReport
    ) {
        guard let open else { return }
        let found = stored.windows.open
        for key in Set(open.keys).union(found.keys).sorted() {
            let (got, expected) = (found[key].map { WindowState($0) }, open[key])
            if let got, let expected, expected.isStored(as: got) { continue }
            report.add(
                .difference, "window of \(key) in the footer", in: file, at: stored.offset,
                got: got?.text ?? "none", expected: expected?.text ?? "none")
        }
        compare(stored.windows.expired, at: stored.offset, in: file, &report)
    }

    /// A footer may lack checks of packets, but has none that is another than the block's.
    private func compareChecks(
        of stored: Stored, with segment: SegmentRecount, _ report: inout VerifyReport
    ) {
        for (key, sum) in segment.ledger.sums {
            guard let window = stored.windows.open[key] else { continue }
            let wrong = sum.checks.first { window.isConflict($0.sequence, check: $0.check) }
            guard let wrong else { continue }
            report.add(
                .difference, "check of sequence \(wrong.sequence) of \(key) in the footer",
                in: segment.file, at: stored.offset, got: "another",
                expected: "\(wrong.check)")
        }
    }

    /// Where a key has too many senders, those of the oldest epochs are folded into one epoch for all.
    private mutating func compare(
        _ stored: ExpiredEpochs, at offset: UInt64, in file: String, _ report: inout VerifyReport
    ) {
        let found = stored.ofKeys.mapValues { ClosedEpochs($0) }
        for keyID in Set(found.keys).union(closed.keys).sorted() {
            let (got, expected) = (
                found[keyID] ?? ClosedEpochs(), closed[keyID] ?? ClosedEpochs()
            )
            if expected.isStored(as: got, of: keyID, among: closed.count) {
                closed[keyID] = got
                continue
            }
            report.add(
                .difference, "closed epochs of key \(keyID) in the footer", in: file, at: offset,
                got: got.text, expected: expected.text)
        }
    }
}

/// The closed epochs of the senders of one key.
private struct ClosedEpochs: Sendable {
    var epochs: [UInt64: UInt64] = [:]
    /// Of senders that are not there none is newer.
    var watermark: UInt64 = 0

    init() {}

    init(_ stored: ExpiredEpochs.OfKey) {
        (epochs, watermark) = (stored.epochs, stored.watermark)
    }

    /// - Parameter keyCount: keys that have any; when they were folded there may have been fewer.
    func isFull(of keyID: UInt16, among keyCount: Int) -> Bool {
        epochs.count > ExpiredEpochs.countMax(of: keyID, keyCount: keyCount)
    }

    func isStored(as stored: ClosedEpochs, of keyID: UInt16, among keyCount: Int) -> Bool {
        let isFolded = stored.watermark > watermark && isFull(of: keyID, among: keyCount)
        return stored.epochs.allSatisfy { epochs[$0.key] == $0.value }
            && epochs.allSatisfy { stored.epochs[$0.key] != nil || $0.value <= stored.watermark }
            && (stored.watermark == watermark || isFolded)
    }

    var text: String { "\(epochs.count) senders, all others up to \(watermark)" }
}
