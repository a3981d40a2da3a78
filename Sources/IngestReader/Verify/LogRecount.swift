// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// The state of a recount as it goes through the log, segment after segment: what the rows add up to, what
/// the next block must be, and what was found wrong. Owned by one `verify`.
struct LogRecount {
    /// What the next block or segment must begin with; `nil` where the one before cannot be believed.
    struct Chain {
        var previousChecksum: UInt32? = 0
        var nextName: UInt32? = 1
        var nextKey: UInt32? = 0
        /// Of the last block.
        var commitEpoch: UInt64?
        /// What a manifest says of the epoch where its cut is here: that of the last block; behind a segment
        /// without blocks, that of its header.
        var endEpoch: UInt64? = 0
        /// Whether blocks were lost behind the last one: the next segment's header then holds the checksum
        /// of a block that is no more.
        var endsInLoss = false

        mutating func forget() {
            self = Chain(
                previousChecksum: nil, nextName: nil, nextKey: nil, commitEpoch: nil, endEpoch: nil)
        }
    }

    let directory: DirectoryID
    /// Up to here runs cover the log.
    let cut: LogPosition
    var chain = Chain()
    /// As the chain was at the cut; `nil` if no block ends there.
    private(set) var chainAtCut: Chain?
    var names = RecountNames()
    var report = VerifyReport()
    /// Counters of everything up to the cut.
    private(set) var total = Tally()
    /// Whether `total` lacks rows because a block could not be read.
    var isTotalComplete = true
    /// Counters of the stretches that runs cover which the newest manifest does not name.
    var spans: SpanTallies
    /// Where the last segment ended.
    private(set) var end = LogPosition.start

    // The segment at hand.
    private var isSegmentBeforeCut = false
    /// Whether all its blocks could be read.
    var isSegmentWhole = true
    /// Whether all its blocks so far could be read, and none is recorded as lost.
    private var isPrefixWhole = true
    var segmentTally = Tally()
    var segmentLedger = LedgerRecount()
    private(set) var segmentRowCount: UInt64 = 0
    private(set) var minTimestamp = Int64.max
    private(set) var maxTimestamp = Int64.min

    private var rowRecount = RowRecount()
    private let rows = BlockRows()
    private let decoder = BlockDecoder()

    init(directory: DirectoryID, cut: LogPosition, spans: [LogSpan]) {
        self.directory = directory
        self.cut = cut
        self.spans = SpanTallies(spans)
        if cut == .start { chainAtCut = chain }
    }

    /// - Parameter isBeforeCut: whether the whole segment lies before the cut; else the cut is in it, at one
    ///   of its blocks, or before it.
    mutating func beginSegment(isBeforeCut: Bool) {
        isSegmentBeforeCut = isBeforeCut
        isSegmentWhole = true
        isPrefixWhole = true
        spans.beginSegment()
        segmentTally.removeAll()
        segmentLedger = LedgerRecount()
        segmentRowCount = 0
        minTimestamp = .max
        maxTimestamp = .min
    }

    /// Notes that the block to come, or more than that, is not there to be counted.
    mutating func breakChain() {
        chain.forget()
        isPrefixWhole = false
    }

    /// Ends a segment that ends at `position`.
    /// - Parameter counters: what to take for its counters where not all of its blocks could be read.
    mutating func endSegment(at position: LogPosition, counters: Tally? = nil) {
        report.cut = max(report.cut, position.cut)
        report.segmentCount += 1
        end = position
        // Taken, not copied: the counters of a segment are as large as those of a directory can be.
        let taken = counters ?? segmentTally
        segmentTally.removeAll()
        spans.add(taken, ofSegmentEndingAt: position, isWhole: isSegmentWhole || counters != nil)
        guard isSegmentBeforeCut else { return }
        if total.places.isEmpty { total = taken } else { total.add(taken) }
        chainAtCut = chain
    }

    /// Decodes, checks and counts one block.
    /// - Parameter offset: of the block in `file`.
    /// - Returns: its header; `nil` if it cannot be read, which has been reported.
    mutating func count(
        _ bytes: RawSpan, in file: String, at offset: UInt64, place: BlockPlace
    ) -> BlockHeader? {
        let block: DecodedBlock
        do throws(FormatError) {
            block = try decoder.decode(bytes, at: place, wanted: .all, into: rows)
        } catch {
            report.add(Finding(error, file: file, offset: offset, what: "block"))
            return nil
        }
        check(block.header, in: file, at: offset)
        enter(block, in: file, at: offset)
        count(block, in: file, at: offset)
        report.blockCount += 1
        let context = block.header.context
        let end = LogPosition(segment: context.segment, blockCount: context.blockOrdinal &+ 1)
        spans.end(at: end, in: segmentTally, isWhole: isPrefixWhole)
        if end == cut && !isSegmentBeforeCut {
            total.add(segmentTally)
            chainAtCut = chain
            if !isPrefixWhole { isTotalComplete = false }
        }
        return block.header
    }

    // MARK: One block

    private mutating func check(_ header: BlockHeader, in file: String, at offset: UInt64) {
        let context = header.context
        expect(
            context.previousChecksum, chain.previousChecksum, "checksum of the block before",
            in: file, at: offset)
        expect(context.firstName.rawValue, chain.nextName, "first name", in: file, at: offset)
        expect(context.firstKey.rawValue, chain.nextKey, "first key", in: file, at: offset)
        if let last = chain.commitEpoch, context.commitEpoch <= last {
            report.add(
                Finding(
                    .corruption, file: file, offset: offset, what: "commit epoch",
                    got: "\(context.commitEpoch)", expected: "more than \(last)"))
        }
        chain = Chain(
            previousChecksum: header.headerChecksum, nextName: header.nextName.rawValue,
            nextKey: header.nextKey.rawValue, commitEpoch: context.commitEpoch,
            endEpoch: context.commitEpoch)
    }

    mutating func expect<Value: Equatable>(
        _ got: Value, _ expected: Value?, _ what: String, in file: String, at offset: UInt64?
    ) {
        guard let expected, got != expected else { return }
        report.add(
            Finding(
                .corruption, file: file, offset: offset, what: what, got: "\(got)",
                expected: "\(expected)"))
    }

    private mutating func enter(_ block: DecodedBlock, in file: String, at offset: UInt64) {
        var ordinal = block.header.context.firstName.rawValue
        for index in 0..<block.names.count {
            let name = block.names.name(index)
            if let other = names.enter(name: ordinal, name) {
                report.add(
                    Finding(
                        .difference, file: file, offset: offset,
                        what: "name \(String(decoding: name, as: UTF8.self)) given twice",
                        got: "ordinal \(ordinal)", expected: "ordinal \(other)"))
            }
            ordinal &+= 1
        }
        var key = block.header.context.firstKey.rawValue
        for pair in block.keys {
            names.enter(key: key, pair)
            key &+= 1
        }
    }

    private mutating func count(_ block: DecodedBlock, in file: String, at offset: UInt64) {
        let outcome = rowRecount.count(rows, names: &names, into: &segmentTally)
        segmentLedger.add(block.ledger)
        segmentRowCount += UInt64(rows.rowCount)
        report.rowCount += UInt64(rows.rowCount)
        if rows.rowCount > 0 {
            minTimestamp = min(minTimestamp, block.header.minTimestamp)
            maxTimestamp = max(maxTimestamp, block.header.maxTimestamp)
        }
        for found in LedgerRecount.differences(between: block.ledger, and: outcome.verdicts) {
            report.add(
                Finding(
                    .difference, file: file, offset: offset,
                    what: "events \(found.what) in the block's ledger", got: "\(found.got)",
                    expected: "\(found.expected)"))
        }
        for (count, what) in [
            (outcome.optedOutCount, "rows of events that opted out"),
            (outcome.senselessCount, "rows that cannot be"),
        ] where count > 0 {
            report.add(
                Finding(
                    .difference, file: file, offset: offset, what: what, got: "\(count)",
                    expected: "0"))
        }
    }
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
