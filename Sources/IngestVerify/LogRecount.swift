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
    /// What the log goes on with; `nil` where what came before cannot be believed, or is not known.
    private var next: LogAnchor? = LogAnchor(cutOf: ShardState())
    /// Whether blocks were lost just before: as `SegmentRecount`.
    private var endsInLoss = false
    /// By cut; taken out once that has been passed.
    private var claims: [LogPosition: [ShardClaim]] = [:]
    var names: LogNames
    var report: VerifyReport
    /// The rows of each part of the log, in its order, whole segments each; `nil` where not all of them are known.
    private var parts: [(span: LogSpan, rows: RowSource?, days: RowSource?)] = []
    /// Of how many events of a segment the rows are recorded as lost; 2^64 − 1 where that is not known.
    private var lostRowCounts: [SegmentNumber: UInt64] = [:]
    /// What the segments before the one at hand add up to; `nil` where not all their rows can be read, or some
    /// are recorded as lost: then a manifest may have counted more.
    private var totals: TotalsRecount? = TotalsRecount()
    private var windows = WindowRecount()
    /// Whether a segment was not there when it was its turn.
    private(set) var hasMissed = false

    /// - Parameters:
    ///   - manifest: the newest.
    ///   - older: what older ones say that are still there.
    init(_ manifest: Manifest, older: [ShardClaim], names: LogNames, report: VerifyReport) {
        (cut, self.names, self.report) = (manifest.cut, names, report)
        let file = FileName.manifest(manifest.generation).text
        for claim in [ShardClaim(file: file, state: manifest.shard)] + older {
            claims[claim.state.cut, default: []].append(claim)
        }
        checkClaims(at: .start)
    }

    /// Notes that rows of a segment are lost, which may have been counted when they were there.
    private mutating func addLost(_ rowCount: UInt64, of segment: SegmentNumber) {
        lostRowCounts[segment] = (lostRowCounts[segment] ?? 0).saturatingSum(rowCount)
        totals = nil
    }

    // MARK: Rows

    /// The rows of a stretch of the log; `nil` where they are not all known.
    func rows(of span: LogSpan) -> [RowSource]? {
        var (found, next): ([RowSource], SegmentNumber) = ([], span.firstSegment)
        for part in parts where part.span.firstSegment == next && next <= span.lastSegment {
            guard part.span.end <= span.end, let rows = part.rows else { return nil }
            found.append(rows)
            next = part.span.lastSegment.next
        }
        return next == span.lastSegment.next && parts.contains { $0.span.end == span.end }
            ? found : nil
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

    // MARK: Segments

    /// Takes what the next expired stretch of the log left.
    mutating func add(_ entry: ExpiredEntry, _ outcome: ExpiredOutcome?) {
        report.lastExpiredSegment = entry.span.lastSegment.rawValue
        var totals: TotalsRecount?
        next = nil
        if let outcome, let segments = outcome.segments {
            let span = entry.span
            report.append(outcome.report)
            for range in segments.lost {
                report.add(
                    .evidenceLost,
                    "\(range.text), of segment \(range.segment.rawValue), which has expired",
                    in: outcome.file.text)
                addLost(range.rowCount ?? .max, of: range.segment)
            }
            if segments.missingCount > 0 {
                addLost(.max, of: span.lastSegment)
                report.add(
                    .evidenceLost,
                    "\(segments.missingCount) segments without a footer, missing when they "
                        + "expired: their counters cannot be checked", in: outcome.file.text)
            }
            let hasLosses = lostRowCounts.keys.contains { span.contains($0) }
            windows.add(
                trusted: outcome.ledger, hasLosses: hasLosses, in: outcome.file.text, &report)
            next = LogAnchor(
                commitEpoch: segments.nextCommitEpoch,
                previousChecksum: segments.lastBlockChecksum, nextName: segments.nextName,
                nextKey: segments.nextKey)
            report.trustedRowCount = report.trustedRowCount.saturatingSum(segments.rowCount)
            totals = outcome.totals
        } else {
            windows.forget()
        }
        pass(entry.span, totals, rows: outcome?.rows)
        // What older manifests say of cuts before cannot be known any more.
        claims = claims.filter { $0.key >= entry.span.end }
    }

    /// Takes a segment that is not there and must be.
    /// - Parameters:
    ///   - boundary: the last segment that has expired by now, where that explains it.
    ///   - isCorruption: else it may have expired since.
    mutating func miss(
        _ segment: SegmentRecount, boundary: SegmentNumber?, isCorruption: Bool
    ) {
        if let boundary {
            report.add(
                .note,
                "the rows expired while verify ran and were not recounted: retention has moved the "
                    + "boundary to segment \(boundary.rawValue), run verify again", in: segment.file
            )
        } else {
            report.add(
                isCorruption ? .corruption : .note, "the segment is missing", in: segment.file)
        }
        hasMissed = true
        (next, totals) = (nil, nil)
        windows.forget()
    }

    /// Joins the next segment to the log: what it says of the log before it, what was found in it, the names that it
    /// introduced, and what manifests say of the places in it.
    mutating func add(_ segment: SegmentRecount) {
        if let (anchor, offset) = segment.start {
            report.hold(
                anchor, follows: next, endsInLoss: endsInLoss, in: segment.file, at: offset)
        }
        report.append(segment.report)
        if let lost = segment.lostRowCount { addLost(lost, of: segment.number) }
        for block in segment.names { enter(block, in: segment) }
        if let (list, offset) = segment.footerDifferences {
            report.add(list, in: segment.file, at: offset, of: "footer", .rewardDays, names)
        }
        if segment.isTouched { (next, endsInLoss) = (segment.next, segment.endsInLoss) }
        windows.add(segment, &report)
        if !segment.isUnharmed { totals = nil }
        guard let end = segment.end else { return }
        pass(
            LogSpan(firstSegment: segment.number, end: end),
            segment.isUnharmed ? segment.totals : nil, rows: segment.rows,
            days: segment.days)
    }

    /// Goes on behind a part of the log.
    /// - Parameter sums: what it adds up to; `nil` where that is not known.
    private mutating func pass(
        _ span: LogSpan, _ sums: TotalsRecount?, rows: RowSource?,
        days: RowSource? = nil
    ) {
        parts.append((span, rows, days))
        report.end = max(report.end, span.end)
        if let sums { totals?.add(sums) } else { totals = nil }
        checkClaims(at: span.end)
    }

    private mutating func enter(_ block: IntroducedNames, in segment: SegmentRecount) {
        let changed = names.enter(block, of: segment.number)
        let all = changed.names.map { (NameKind.name, $0) } + changed.keys.map { (.key, $0) }
        for (kind, ordinal) in all {
            report.add(
                .difference, "\(kind) \(ordinal)", in: segment.file, at: block.offset,
                got: names.describe(kind, ordinal), expected: "the one given before")
        }
    }

    // MARK: Manifests

    /// Holds what manifests say of the log up to a place against the recount, as far as that is known.
    private mutating func checkClaims(at position: LogPosition) {
        // A manifest may have been written while the lost blocks were there.
        let known = endsInLoss ? nil : next
        for claim in claims.removeValue(forKey: position) ?? [] {
            let (state, anchor) = (claim.state, LogAnchor(cutOf: claim.state))
            report.hold(
                [
                    (
                        "checksum of the last block before the cut", anchor.previousChecksum,
                        known?.previousChecksum
                    ), ("next name at the cut", anchor.nextName, next?.nextName),
                    ("next key at the cut", anchor.nextKey, next?.nextKey),
                    ("commit epoch at the cut", anchor.commitEpoch, known?.commitEpoch),
                ], in: claim.file)
            guard let totals else { continue }
            report.hold(
                totals.held(state.totals).map {
                    ("\($0.what) of all sealed segments", $0.got, $0.expected)
                },
                .difference, in: claim.file)
        }
    }

    /// Whether the newest manifest's cut was found in the log.
    var hasCut: Bool { claims[cut] == nil }

    /// Reports what the log must have and has not, when all of it has been read.
    /// - Parameter bound: everything before it was durable when `verify` began.
    mutating func checkEnd(_ bound: LogPosition) {
        if report.corruptionCount > 0 || hasMissed { return }
        if let claim = claims[cut]?.first {
            report.add(
                .corruption, "no block ends at the cut", in: claim.file, got: cut.text,
                expected: report.end.text)
        } else if bound > report.end {
            report.add(
                .corruption, "the log ends before it", in: FileName.durableMark.text,
                got: bound.text, expected: "at most \(report.end.text)")
        }
    }
}
