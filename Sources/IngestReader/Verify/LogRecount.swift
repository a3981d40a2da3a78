// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// The state of a recount as it goes through the log, segment after segment: what the rows add up to, what
/// the next segment must begin with, and what was found wrong. Owned by one `verify`, on its caller's thread.
struct LogRecount {
    /// What a manifest says of the log at its cut.
    struct ShardClaim {
        /// The manifest.
        let file: String
        let state: ShardState
    }

    /// Up to here the newest manifest's runs cover the log.
    let cut: LogPosition
    private(set) var chain = Chain.start
    /// By cut; taken out once that has been passed.
    private var claims: [LogPosition: [ShardClaim]] = [:]
    var names: RecountNames
    var report: VerifyReport
    /// Counters of everything up to the cut.
    private(set) var total = TallyTotal()
    /// Whether `total` lacks rows because a block could not be read, or the cut was not found.
    var isTotalComplete: Bool { !lacksRows && claims[cut] == nil }
    private var lacksRows = false
    /// Counters of the stretches that runs cover which the newest manifest does not name.
    private(set) var spans: SpanTallies
    /// Where the last segment ended.
    private(set) var end = LogPosition.start
    /// Counters of the segment at hand up to its last stop.
    private var prefix = TallyStack()
    /// Of how many events of a segment the rows are recorded as lost; 2^64 − 1 where that is not known.
    private var lostRowCounts: [SegmentNumber: UInt64] = [:]
    /// What the segments before the one at hand add up to; `nil` where not all their rows can be read, or some
    /// are recorded as lost: then a manifest may have counted more.
    private var totals: TotalsRecount? = TotalsRecount()
    var windows = WindowRecount()
    /// Revenue and spend that these segments counted; at most 2^64 − 1.
    private var moneyMicros: UInt64 = 0

    /// - Parameters:
    ///   - newest: what the newest manifest says.
    ///   - older: what older ones say that are still there.
    init(
        newest: ShardClaim, older: [ShardClaim], spans: [LogSpan], names: RecountNames,
        report: VerifyReport
    ) {
        cut = newest.state.cut
        self.names = names
        self.report = report
        self.spans = SpanTallies(spans)
        for claim in [newest] + older { claims[claim.state.cut, default: []].append(claim) }
        check(claimsAt: .start, chain)
    }

    // MARK: Expired segments

    /// Adds the counters and sums of an expired stretch, which begins where the last one ended.
    mutating func add(attested tally: Tally, _ attested: TotalsRecount, of sums: ExpiredSums) {
        total.add(tally)
        spans.add(tally, of: sums.span)
        totals?.add(attested)
        moneyMicros = moneyMicros.saturatingSum(tally.moneyMicros)
        chain = Chain(
            previousChecksum: sums.lastBlockChecksum, nextName: sums.nextName,
            nextKey: sums.nextKey, commitEpoch: sums.commitEpoch, endEpoch: sums.commitEpoch)
        go(to: sums.span.end)
        report.attestedRowCount = report.attestedRowCount.saturatingSum(sums.rowCount)
    }

    /// Takes an expired stretch of which nothing can be read.
    mutating func missExpired(_ entry: ExpiredEntry) {
        chain = .unknown
        totals = nil
        windows.forget()
        lacksRows = true
        go(to: entry.span.end)
    }

    private mutating func go(to position: LogPosition) {
        end = position
        report.cut = max(report.cut, position.cut)
        report.lastExpiredSegment = position.segment.rawValue
        check(claimsAt: position, chain)
        // What older manifests say of cuts before cannot be known any more.
        for cut in Array(claims.keys) where cut < position { claims[cut] = nil }
    }

    /// Notes that rows of a segment are lost, which may have been counted when they were there.
    mutating func addLost(_ rowCount: UInt64, of segment: SegmentNumber) {
        lostRowCounts[segment] = (lostRowCounts[segment] ?? 0).saturatingSum(rowCount)
        totals = nil
    }

    // MARK: Segments

    /// Takes a segment that is not there and must be.
    /// - Parameter isCorruption: else it may have expired since.
    mutating func miss(_ segment: SegmentRecount, isCorruption: Bool) {
        report.add(
            Finding(
                isCorruption ? .corruption : .note, file: segment.file,
                what: "the segment is missing"))
        chain = .unknown
        totals = nil
        windows.forget()
        if segment.number <= cut.segment { lacksRows = true }
    }

    /// Takes what a segment says of the log before it, what was found in it, and the names that it introduced.
    mutating func begin(_ segment: SegmentRecount) {
        prefix = TallyStack()
        if let opening = segment.header ?? segment.firstBlock {
            chain.check(opening, in: segment.file, &report)
        }
        if let opening = segment.firstBlock {
            chain.checkEpoch(opening, in: segment.file, &report)
        }
        report.append(segment.report)
        if segment.lostRowCount > 0 { lostRowCounts[segment.number] = segment.lostRowCount }
        for block in segment.names { enter(block, in: segment.file) }
        if let comparison = segment.footerComparison {
            add(
                comparison.differences, in: segment.file, at: comparison.offset, of: "footer",
                table: .rewardDays)
        }
    }

    /// Of how many events of a stretch the rows are recorded as lost, at most: it may have counted them before.
    func lostRowCount(in span: LogSpan) -> UInt64 {
        lostRowCounts.reduce(0) { sum, lost in
            lost.key >= span.firstSegment && lost.key <= span.lastSegment
                ? sum.saturatingSum(lost.value) : sum
        }
    }

    /// Whether parts of a stretch are recorded as lost.
    func hasLosses(in span: LogSpan) -> Bool {
        lostRowCounts.keys.contains { $0 >= span.firstSegment && $0 <= span.lastSegment }
    }

    /// Goes on to a stop in the segment that was begun.
    mutating func pass(_ stop: SegmentRecount.Stop, of segment: SegmentRecount) {
        let position = LogPosition(segment: segment.number, blockCount: stop.blockCount)
        prefix.add(stop.part)
        if position == cut && !segment.isBeforeCut {
            total.add(prefix.sum)
            if !stop.isWhole { lacksRows = true }
        }
        guard let chain = stop.chain else { return }
        check(
            claimsAt: position, segment.isBroken ? chain : chain.inheriting(self.chain),
            inside: Inside(
                totals: stop.isWhole && segment.isUnharmed ? stop.totals : nil,
                moneyMicros: prefix.moneyMicros))
    }

    /// The counters of a span that ends at a stop that was just passed; `nil` if they are not known.
    func tally(of span: LogSpan, at stop: SegmentRecount.Stop) -> Tally? {
        stop.isWhole ? spans.tally(of: span, with: prefix.sum) : nil
    }

    /// Ends the segment that was begun.
    mutating func finish(_ segment: SegmentRecount) {
        prefix = TallyStack()
        if segment.hasChain {
            chain = segment.isBroken ? segment.chain : segment.chain.inheriting(chain)
        }
        windows.add(segment, &report)
        let counters = segment.counters
        if segment.isBeforeCut && (segment.lacksRows || counters == nil) { lacksRows = true }
        guard let end = segment.end else { return }
        self.end = end
        report.cut = max(report.cut, end.cut)
        if let counters {
            spans.add(counters, ofSegmentEndingAt: end)
            if segment.isBeforeCut { total.add(counters) }
        } else {
            spans.forget(segment.number)
        }
        if segment.isUnharmed {
            totals?.add(segment.totals)
            moneyMicros = moneyMicros.saturatingSum(segment.tally.moneyMicros)
        } else {
            totals = nil
        }
        check(claimsAt: end, chain)
    }

    // MARK: Manifests

    /// What is known of the segment at hand up to a stop in it.
    private struct Inside {
        /// `nil` where not all rows before the stop can be read.
        let totals: TotalsRecount?
        let moneyMicros: UInt64
    }

    /// - Parameter inside: up to the position, if that lies in the segment at hand, or is its end.
    private mutating func check(
        claimsAt position: LogPosition, _ chain: Chain, inside: Inside? = nil
    ) {
        for claim in claims.removeValue(forKey: position) ?? [] {
            let (file, state) = (claim.file, claim.state)
            for (got, expected, what) in [
                (
                    state.lastBlockChecksum, chain.previousChecksum,
                    "checksum of the last block before"
                ),
                (state.nextName, chain.nextName, "next name at"),
                (state.nextKey, chain.nextKey, "next key at"),
            ] {
                report.expect(got, expected, "\(what) the cut", in: file, at: nil)
            }
            report.expect(
                state.commitEpoch, chain.endEpoch, "commit epoch at the cut", in: file, at: nil)
            checkSums(claim, inside)
        }
    }

    /// Holds what a manifest says that the log adds up to against the recount, where that knows all rows.
    private mutating func checkSums(_ claim: ShardClaim, _ inside: Inside?) {
        guard var sealed = totals else { return }
        var money = moneyMicros
        if let inside {
            guard let totals = inside.totals else { return }
            sealed.add(totals)
            money = money.saturatingSum(inside.moneyMicros)
        }
        func expect(_ what: String, _ found: (what: String, got: String, expected: String)?) {
            guard let found else { return }
            report.add(
                Finding(
                    .difference, file: claim.file, what: "\(found.what) of \(what)",
                    got: found.got, expected: found.expected))
        }
        expect("all sealed segments", sealed.difference(from: claim.state.totals))
        let found = claim.state.sealedMoneyMicros
        expect("all sealed segments", found == money ? nil : ("money", "\(found)", "\(money)"))
    }

    /// Reports the newest manifest's cut if the log has been read and does not have it.
    mutating func reportMissingCut() {
        guard let claim = claims[cut]?.first, report.corruptionCount == 0 else { return }
        report.add(
            Finding(
                .corruption, file: claim.file, what: "no block ends at the cut",
                got: cut.cut.text, expected: report.cut.text))
    }

    // MARK: Names

    private mutating func enter(_ block: NewNamesOfBlock, in file: String) {
        let changed = names.enter(block, of: file)
        for ordinal in changed.names {
            report.add(
                Finding(
                    .difference, file: file, offset: block.offset, what: "name \(ordinal)",
                    got: names.describe(name: ordinal), expected: "the one given before"))
        }
        for ordinal in changed.keys {
            report.add(
                Finding(
                    .difference, file: file, offset: block.offset, what: "key \(ordinal)",
                    got: names.describe(key: ordinal), expected: "the one given before"))
        }
    }

    /// Reports differences of counters.
    mutating func add(
        _ differences: DifferenceList, in file: String, at offset: UInt64?, of source: String,
        table: TableKind
    ) {
        for difference in differences.first {
            report.add(
                Finding(
                    difference, file: file, offset: offset, of: source,
                    hasDay: table != .rewards
                ) { item in
                    table == .days
                        ? "business \(names.describe(name: item))" : names.describe(key: item)
                })
        }
        report.add(unlisted: .difference, count: differences.count - differences.first.count)
    }
}

extension Chain {
    /// With the epochs of the chain before it where it has none: no block was read since.
    fileprivate func inheriting(_ before: Chain) -> Chain {
        var chain = self
        chain.commitEpoch = commitEpoch ?? before.commitEpoch
        chain.endEpoch = endEpoch ?? before.endEpoch
        return chain
    }
}

extension Cut {
    var text: String { "segment \(segment) block \(block)" }
}

extension Finding {
    /// What a decoder said of the bytes at `offset` of a file.
    init(_ error: FormatError, file: String, offset: UInt64 = 0, what: String) {
        let kind: String
        switch error {
        case .torn: kind = "torn"
        case .corrupt: kind = "corrupt"
        case .newerFormat: kind = "of a newer format"
        case .notThisFile: kind = "not what belongs here"
        }
        self.init(
            .corruption, file: file, offset: offset &+ UInt64(max(0, error.fault.offset)),
            what: "\(what) \(kind): \(error.fault.field)", got: error.fault.gotText,
            expected: error.fault.expectedText)
    }

    init(_ error: StorageError, file: String, what: String) {
        switch error {
        case .corrupt(_, let offset, let detail):
            self.init(.corruption, file: file, offset: offset, what: "\(what): \(detail)")
        case .overLimit(_, let detail):
            self.init(.corruption, file: file, what: "\(what) over a limit: \(detail)")
        default: self.init(.corruption, file: file, what: "\(what): \(error)")
        }
    }
}
