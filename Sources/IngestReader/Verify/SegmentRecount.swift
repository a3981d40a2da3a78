// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import IngestCounting
import IngestFormat

/// What the rows and blocks of one segment come to, and what was found wrong in it: made by one worker without
/// a look at any other segment, then joined to the log in its order (`LogRecount`).
///
/// **Cost** The counters of the segment (`Tally`), those of each part that ends at a stop once more, and the names
/// that it introduced.
struct SegmentRecount: Sendable {
    /// What became of the segment as a whole.
    enum Outcome: Sendable {
        case counted
        /// There is no file, and must be one.
        case missing
        /// There is no file and need be none: the log ends before it.
        case absent
        /// It could not be read for a reason that is not in its bytes.
        case failed(ReaderError)
    }

    /// The state at the end of a block at which a run or a cut ends, or behind the place of one that is not there.
    struct Stop: Sendable {
        let blockCount: UInt32
        /// `nil` if no block ends here.
        let chain: Chain?
        /// Where in the file the last block before it ends; `nil` if none is known to.
        let endOffset: UInt64?
        /// What the segment's blocks before it add up to.
        let totals: TotalsRecount
        /// The counters since the stop before.
        let part: Tally
        /// Whether all blocks before it could be read, and none is recorded as lost.
        let isWhole: Bool
    }

    /// The footer's counters held against those of the blocks.
    struct FooterComparison: Sendable {
        let offset: UInt64
        let differences: DifferenceList
    }

    let number: SegmentNumber
    /// Whether the newest manifest's cut lies behind it; else it lies in it, at one of its blocks, or before it.
    let isBeforeCut: Bool
    var outcome = Outcome.counted
    var report = VerifyReport()
    /// Behind its last block, or what its footer says of that; `nil` if it was not read to its end.
    private(set) var end: LogPosition?
    var rowCount: UInt64 { report.rowCount }
    private(set) var minTimestamp = Int64.max
    private(set) var maxTimestamp = Int64.min

    /// What header and first block say of the log before; `nil` if they cannot be read.
    private(set) var header: Chain.Opening?
    private(set) var firstBlock: Chain.Opening?
    /// Behind what has been read; meaningful if `hasChain`.
    private(set) var chain = Chain.unknown
    /// Whether anything was read that the log goes on from, or is known to be missing.
    private(set) var hasChain = false
    /// Whether something before here could not be read.
    private(set) var isBroken = false
    private(set) var names: [NewNamesOfBlock] = []
    private(set) var ledger = LedgerRecount()
    /// What its blocks add up to.
    private(set) var totals = TotalsRecount()
    /// Behind the last block that was counted: its end in the file, and the next ordinal.
    private var lastEnd: (offset: UInt64, blockCount: UInt32)?

    private(set) var stops: [Stop] = []
    /// Where there is still to be one; ascending.
    private(set) var stopsToCome: ArraySlice<UInt32>
    /// Counters since the last stop.
    private var part = Part()
    /// Counters between the stops to come, where they are known beforehand.
    private var partsToCome: ArraySlice<Tally> = []
    /// Counters of all blocks; known after `close`.
    private(set) var tally = Tally()
    /// The footer's counters, in place of those of blocks that could not all be read.
    var footerTally: Tally?
    var footerComparison: FooterComparison?
    /// The windows that the footer hands on; `nil` without a sound footer.
    var footerWindows: WindowRecount.Stored?
    /// Whether all its blocks could be read.
    var isWhole = true
    /// Whether rows of it are in no counters that are known here.
    var lacksRows = false
    /// Whether some of its blocks are recorded as lost.
    var hasLosses = false
    /// Of how many events the rows are, at most; 2^64 − 1 where that is not known.
    var lostRowCount: UInt64 = 0
    /// Whether it is all that it ever was.
    var isUnharmed: Bool { isWhole && !lacksRows && !isBroken && !hasLosses }

    /// - Parameter stops: block counts, ascending, each once.
    init(_ number: SegmentNumber, isBeforeCut: Bool, stops: [UInt32]) {
        self.number = number
        self.isBeforeCut = isBeforeCut
        stopsToCome = stops[...]
    }

    /// The counters of all its rows; `nil` if they are not known.
    var counters: Tally? { isWhole ? tally : footerTally }

    var file: String { FileName.segment(number).text }

    // MARK: Header and footer

    mutating func begin(_ header: SegmentHeader) {
        self.header = Chain.Opening(header)
        chain = Chain(
            previousChecksum: header.previousChecksum, nextName: header.firstName.rawValue,
            nextKey: header.firstKey.rawValue)
        hasChain = true
    }

    /// Notes that the block to come, or more than that, is not there to be counted.
    mutating func breakChain() {
        chain = .unknown
        hasChain = true
        isBroken = true
    }

    /// Ends the blocks of a segment that has a sound footer.
    mutating func end(with chain: Chain) {
        self.chain = chain
        hasChain = true
    }

    /// Ends the segment.
    mutating func close(at position: LogPosition) {
        report.segmentCount += 1
        end = position
        closeStops(through: position.blockCount, isBlockEnd: false)
        tally = Tally.sum(of: [part.finish()] + stops.map(\.part))
    }

    // MARK: Stretches

    /// Counters that grow.
    private struct Part {
        var known = Tally()
        /// Rows that are not in `known`.
        var gather: RowGather?

        mutating func finish() -> Tally {
            let tally = gather.map { Tally.sum(known, $0.finish()) } ?? known
            self = Part()
            return tally
        }
    }

    /// Counts from now on into this one.
    mutating func lend(_ gather: RowGather) { part.gather = gather }

    /// What the rows since the last stop were counted into, and nothing else was.
    mutating func takeGather() -> RowGather? {
        let gather = part.gather
        part = Part()
        return gather
    }

    /// Takes the counters of the stretches to come, up to each stop to come and behind the last.
    mutating func expect(_ parts: [Tally]) {
        partsToCome = parts[...]
        part.known = partsToCome.popFirst() ?? Tally()
    }

    /// Adds a stretch of blocks, before the next stop, of which the counters were expected.
    /// - Parameter ordinal: of its first block.
    mutating func append(_ stretch: SegmentRecount, from ordinal: UInt32) {
        closeStops(through: ordinal, isBlockEnd: false)
        if let opening = stretch.firstBlock {
            if firstBlock == nil && !isBroken { firstBlock = opening }
            chain.check(opening, in: file, &report)
            chain.checkEpoch(opening, in: file, &report)
        }
        report.append(stretch.report)
        names += stretch.names
        ledger.add(stretch.ledger)
        totals.add(stretch.totals)
        minTimestamp = min(minTimestamp, stretch.minTimestamp)
        maxTimestamp = max(maxTimestamp, stretch.maxTimestamp)
        if stretch.hasChain { (chain, hasChain) = (stretch.chain, true) }
        isBroken = isBroken || stretch.isBroken
        isWhole = isWhole && stretch.isWhole
        if let end = stretch.lastEnd {
            lastEnd = end
            closeStops(through: end.blockCount, isBlockEnd: true)
        }
    }

    // MARK: Blocks

    /// Adds a decoded block: the links to the one before, names, ledger, rows.
    mutating func add(_ block: DecodedBlock, _ memory: RecountMemory, at offset: UInt64) {
        closeStops(through: block.header.context.blockOrdinal, isBlockEnd: false)
        check(block.header, at: offset)
        if block.names.count > 0 || !block.keys.isEmpty {
            let context = block.header.context
            names.append(
                NewNamesOfBlock(
                    offset: offset, firstName: context.firstName, names: block.names,
                    firstKey: context.firstKey, keys: block.keys, hash: memory.hash))
        }
        count(block, memory, at: offset)
        report.blockCount += 1
        let next = block.header.context.blockOrdinal &+ 1
        lastEnd = (offset &+ UInt64(block.header.byteCount), next)
        closeStops(through: next, isBlockEnd: true)
    }

    private mutating func check(_ header: BlockHeader, at offset: UInt64) {
        let opening = Chain.Opening(header, at: offset)
        if firstBlock == nil && !isBroken { firstBlock = opening }
        chain.check(opening, in: file, &report)
        chain.checkEpoch(opening, in: file, &report)
        chain = Chain(after: header)
        hasChain = true
    }

    private mutating func count(
        _ block: DecodedBlock, _ memory: RecountMemory, at offset: UInt64
    ) {
        let rows = memory.rows
        let gather = part.gather ?? memory.gathers.take()
        part.gather = gather
        let outcome = memory.recount.count(
            rows, admissionTime: block.header.context.admissionTime, into: gather)
        ledger.add(block.ledger, at: block.header.context.admissionTime)
        totals.add(block.ledger, rowCount: UInt64(rows.rowCount))
        report.rowCount += UInt64(rows.rowCount)
        if rows.rowCount > 0 {
            minTimestamp = min(minTimestamp, block.header.minTimestamp)
            maxTimestamp = max(maxTimestamp, block.header.maxTimestamp)
        }
        for found in EventBalance.differences(between: block.ledger, and: outcome.verdicts) {
            report.add(
                Finding(
                    .difference, file: file, offset: offset,
                    what: "\(found.what) in the block's ledger", got: "\(found.got)",
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

    // MARK: Stops

    /// Takes the stops up to `blockCount`, at which the last block ended, or which a place without a block passes.
    private mutating func closeStops(through blockCount: UInt32, isBlockEnd: Bool) {
        while let next = stopsToCome.first, next <= blockCount {
            stopsToCome.removeFirst()
            // Without blocks before it, the segment's header is what the log goes on from.
            let isEnd = next == blockCount && (isBlockEnd || next == 0)
            stops.append(
                Stop(
                    blockCount: next, chain: isEnd && hasChain ? chain : nil,
                    endOffset: lastEnd?.blockCount == next ? lastEnd?.offset : nil, totals: totals,
                    part: part.finish(), isWhole: !isBroken && (isEnd || next == blockCount)))
            part.known = partsToCome.popFirst() ?? Tally()
        }
    }
}
