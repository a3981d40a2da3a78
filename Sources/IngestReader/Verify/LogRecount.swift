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
    private(set) var total = Tally()
    /// Whether `total` lacks rows because a block could not be read, or the cut was not found.
    var isTotalComplete: Bool { !lacksRows && claims[cut] == nil }
    private var lacksRows = false
    /// Counters of the stretches that runs cover which the newest manifest does not name.
    private(set) var spans: SpanTallies
    /// Where the last segment ended.
    private(set) var end = LogPosition.start
    /// Counters of the segment at hand up to its last stop.
    private var prefix = Tally()

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

    // MARK: Segments

    /// Takes a segment that is not there and must be.
    mutating func miss(_ segment: SegmentRecount) {
        report.add(
            Finding(.corruption, file: segment.file, what: "the segment is missing"))
        chain = .unknown
        if segment.number <= cut.segment { lacksRows = true }
    }

    /// Takes what a segment says of the log before it, what was found in it, and the names that it introduced.
    mutating func begin(_ segment: SegmentRecount) {
        prefix = Tally()
        if let opening = segment.header ?? segment.firstBlock {
            chain.check(opening, in: segment.file, &report)
        }
        if let opening = segment.firstBlock {
            chain.checkEpoch(opening, in: segment.file, &report)
        }
        report.append(segment.report)
        for block in segment.names { enter(block, in: segment.file) }
        if let comparison = segment.footerComparison {
            add(
                comparison.differences, in: segment.file, at: comparison.offset, of: "footer",
                table: .rewardDays)
        }
    }

    /// Goes on to a stop in the segment that was begun.
    mutating func pass(_ stop: SegmentRecount.Stop, of segment: SegmentRecount) {
        let position = LogPosition(segment: segment.number, blockCount: stop.blockCount)
        prefix.add(stop.part)
        if position == cut && !segment.isBeforeCut {
            total.add(prefix)
            if !stop.isWhole { lacksRows = true }
        }
        guard let chain = stop.chain else { return }
        check(claimsAt: position, segment.isBroken ? chain : chain.inheriting(self.chain))
    }

    /// The counters of a span that ends at a stop that was just passed; `nil` if they are not known.
    func tally(of span: LogSpan, at stop: SegmentRecount.Stop) -> Tally? {
        stop.isWhole ? spans.tally(of: span, with: prefix) : nil
    }

    /// Ends the segment that was begun.
    mutating func finish(_ segment: SegmentRecount) {
        prefix = Tally()
        if segment.hasChain {
            chain = segment.isBroken ? segment.chain : segment.chain.inheriting(chain)
        }
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
        check(claimsAt: end, chain)
    }

    // MARK: Manifests

    private mutating func check(claimsAt position: LogPosition, _ chain: Chain) {
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
        }
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

    private mutating func enter(_ block: SegmentRecount.NewNamesOfBlock, in file: String) {
        let content = block.content
        func given(_ what: String, _ ordinal: UInt32, _ other: UInt32) -> Finding {
            Finding(
                .difference, file: file, offset: block.offset, what: "\(what) given twice",
                got: "ordinal \(ordinal)", expected: "ordinal \(other)")
        }
        content.names.forEach(from: content.firstName) { name, range in
            let ordinal = name.rawValue
            if let other = names.enter(name: ordinal, content.names.bytes[range]) {
                report.add(given("name \(names.describe(name: ordinal))", ordinal, other))
            }
        }
        var key = content.firstKey.rawValue
        for pair in content.keys {
            if let other = names.enter(key: key, pair) {
                report.add(given(names.describe(key: key), key, other))
            }
            key &+= 1
        }
    }

    /// Reports differences of counters.
    mutating func add(
        _ differences: DifferenceList, in file: String, at offset: UInt64?, of source: String,
        table: TableKind
    ) {
        for difference in differences.first {
            report.add(
                Finding(difference, file: file, offset: offset, of: source) { item in
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
