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
    var names: LogNames
    var report: VerifyReport
    /// The rows of each part of the log, in its order, whole segments each; `nil` where not all of them are known.
    private(set) var parts: [(span: LogSpan, rows: RowSource?, days: RowSource?)] = []
    /// Of how many events of a segment the rows are recorded as lost; 2^64 − 1 where that is not known.
    private var lostRowCounts: [SegmentNumber: UInt64] = [:]
    /// What the segments before the one at hand add up to; `nil` where not all their rows can be read, or some
    /// are recorded as lost: then a manifest may have counted more.
    private var totals: TotalsRecount? = TotalsRecount()
    /// Revenue and spend that these segments counted; at most 2^64 − 1.
    private var moneyMicros: UInt64 = 0
    private var windows = WindowRecount()

    /// - Parameters:
    ///   - newest: what the newest manifest says.
    ///   - older: what older ones say that are still there.
    init(newest: ShardClaim, older: [ShardClaim], names: LogNames, report: VerifyReport) {
        cut = newest.state.cut
        self.names = names
        self.report = report
        for claim in [newest] + older { claims[claim.state.cut, default: []].append(claim) }
        check(claimsAt: .start, chain)
    }

    // MARK: Rows

    /// The rows of a stretch of the log; `nil` where they are not all known.
    func rows(of span: LogSpan) -> [RowSource]? {
        var (found, next): ([RowSource], SegmentNumber) = ([], span.firstSegment)
        for part in parts where part.span.firstSegment == next && next <= span.lastSegment {
            if part.span.end.segment == span.lastSegment && part.span.end != span.end { return nil }
            guard part.span.lastSegment <= span.lastSegment, let rows = part.rows else {
                return nil
            }
            found.append(rows)
            next = part.span.lastSegment.next
        }
        return next == span.lastSegment.next ? found : nil
    }

    /// What the footers of a stretch of segments say by business and day, as far as they can be read.
    func days(of span: LogSpan) -> [RowSource] {
        parts.filter { $0.span.firstSegment >= span.firstSegment && $0.span.end <= span.end }
            .compactMap(\.days)
    }

    /// Of how many events of a stretch the rows are recorded as lost, at most: it may have counted them before.
    func lostRowCount(in span: LogSpan) -> UInt64 {
        lostRowCounts.reduce(0) { sum, lost in
            lost.key >= span.firstSegment && lost.key <= span.lastSegment
                ? sum.saturatingSum(lost.value) : sum
        }
    }

    // MARK: Expired segments

    /// Takes what the next expired stretch of the log attests.
    mutating func add(_ entry: ExpiredEntry, _ outcome: ExpiredOutcome?) {
        defer {
            report.lastExpiredSegment = entry.span.lastSegment.rawValue
            report.end = max(report.end, entry.span.end)
            check(claimsAt: entry.span.end, chain)
            // What older manifests say of cuts before cannot be known any more.
            for cut in Array(claims.keys) where cut < entry.span.end { claims[cut] = nil }
        }
        parts.append((entry.span, outcome?.rows, nil))
        guard let outcome, let sums = outcome.segments else {
            chain = .unknown
            totals = nil
            windows.forget()
            return
        }
        report.append(outcome.report)
        for range in sums.lost {
            report.add(
                .evidenceLost,
                "\(range.rowCountText) in \(range.blockCount) blocks from block "
                    + "\(range.firstBlock) of segment \(range.segment.rawValue) on, "
                    + "which has expired", in: outcome.file.text)
            addLost(range.rowCount ?? .max, of: range.segment)
        }
        if sums.missingCount > 0 {
            addLost(.max, of: entry.span.lastSegment)
            report.add(
                .evidenceLost,
                "\(sums.missingCount) segments without a footer, missing when they "
                    + "expired: their counters cannot be checked", in: outcome.file.text)
        }
        let hasLosses = lostRowCounts.keys.contains {
            $0 >= entry.span.firstSegment && $0 <= entry.span.lastSegment
        }
        windows.add(
            trusted: outcome.ledger, hasLosses: hasLosses, in: outcome.file.text, &report)
        totals?.add(outcome.totals)
        moneyMicros = moneyMicros.saturatingSum(outcome.moneyMicros)
        chain = Chain(
            previousChecksum: sums.lastBlockChecksum, nextName: sums.nextName,
            nextKey: sums.nextKey, commitEpoch: sums.commitEpoch, endEpoch: sums.commitEpoch)
        report.trustedRowCount = report.trustedRowCount.saturatingSum(sums.rowCount)
    }

    /// Notes that rows of a segment are lost, which may have been counted when they were there.
    private mutating func addLost(_ rowCount: UInt64, of segment: SegmentNumber) {
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
    }

    /// Joins the next segment to the log: what it says of the log before it, what was found in it, the names that it
    /// introduced, and what manifests say of the places in it.
    mutating func add(_ segment: SegmentRecount) {
        if let opening = segment.header ?? segment.firstBlock {
            chain.check(opening, in: segment.file, &report)
        }
        if let opening = segment.firstBlock {
            chain.checkEpoch(opening, in: segment.file, &report)
        }
        report.append(segment.report)
        if segment.lostRowCount > 0 { lostRowCounts[segment.number] = segment.lostRowCount }
        for block in segment.names { enter(block, in: segment.number) }
        if let (list, offset) = segment.footerDifferences {
            report.add(list, in: segment.file, at: offset, of: "footer", .rewardDays, names)
        }
        if segment.hasChain {
            chain = segment.isBroken ? segment.chain : segment.chain.inheriting(chain)
        }
        windows.add(segment, &report)
        finish(segment)
    }

    private mutating func finish(_ segment: SegmentRecount) {
        guard let end = segment.end else { return }
        report.end = max(report.end, end)
        parts.append(
            (LogSpan(firstSegment: segment.number, end: end), segment.rows, segment.days))
        if segment.isUnharmed {
            totals?.add(segment.totals)
            moneyMicros = moneyMicros.saturatingSum(segment.moneyMicros)
        } else {
            totals = nil
        }
        check(claimsAt: end, chain)
    }

    private mutating func enter(_ block: IntroducedNames, in segment: SegmentNumber) {
        let file = FileName.segment(segment).text
        let changed = names.enter(block, of: segment)
        for ordinal in changed.names {
            report.add(
                .difference, "name \(ordinal)", in: file, at: block.offset,
                got: names.describe(name: ordinal),
                expected: "the one given before")
        }
        for ordinal in changed.keys {
            report.add(
                .difference, "key \(ordinal)", in: file, at: block.offset,
                got: names.describe(key: ordinal),
                expected: "the one given before")
        }
    }

    // MARK: Manifests

    private mutating func check(claimsAt position: LogPosition, _ chain: Chain) {
        var chain = chain
        // A manifest may have been written while the lost blocks were there.
        if chain.endsInLoss { (chain.previousChecksum, chain.endEpoch) = (nil, nil) }
        for claim in claims.removeValue(forKey: position) ?? [] {
            let (file, state) = (claim.file, claim.state)
            report.hold(
                [
                    (
                        "checksum of the last block before the cut", state.lastBlockChecksum,
                        chain.previousChecksum
                    ),
                    ("next name at the cut", state.nextName, chain.nextName),
                    ("next key at the cut", state.nextKey, chain.nextKey),
                    ("commit epoch at the cut", state.commitEpoch, chain.endEpoch),
                ], in: file)
            checkSums(claim)
        }
    }

    /// Holds what a manifest says that the log adds up to against the recount, where that knows all rows.
    private mutating func checkSums(_ claim: ShardClaim) {
        guard let totals else { return }
        let (found, money) = (claim.state.sealedMoneyMicros, moneyMicros)
        let differences: [Difference?] = [
            totals.difference(from: claim.state.totals),
            found == money ? nil : ("money", "\(found)", "\(money)"),
        ]
        for case let difference? in differences {
            report.add(
                .difference, "\(difference.what) of all sealed segments", in: claim.file,
                got: difference.got, expected: difference.expected)
        }
    }

    /// Whether the newest manifest's cut was found in the log.
    var hasCut: Bool { claims[cut] == nil }

    /// Reports what the log must have and has not, when all of it has been read.
    /// - Parameter bound: everything before it was durable when `verify` began.
    mutating func checkEnd(_ bound: LogPosition) {
        if let claim = claims[cut]?.first, report.corruptionCount == 0 {
            report.add(
                .corruption, "no block ends at the cut", in: claim.file, got: cut.text,
                expected: report.end.text)
        }
        if bound > report.end && report.corruptionCount == 0 {
            report.add(
                .corruption, "the log ends before it", in: FileName.durableMark.text,
                got: bound.text,
                expected: "at most \(report.end.text)")
        }
    }
}
