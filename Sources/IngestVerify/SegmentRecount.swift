// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import IngestFormat
import IngestStorage

/// What the rows and blocks of one segment come to, and what was found wrong in it: made by one worker without
/// a look at any other segment, then joined to the log in its order (`LogRecount`).
struct SegmentRecount: Sendable {
    /// What became of the segment as a whole.
    enum Outcome: Sendable {
        case counted
        /// There is no file, and must be one.
        case missing
        /// There is no file and need be none: the log ends before it.
        case absent
        /// It could not be read for a reason that is not in its bytes.
        case failed(StorageError)
    }

    let number: SegmentNumber
    var outcome = Outcome.counted
    var report = VerifyReport()
    /// Behind its last block, or what its footer says of that; `nil` if it was not read to its end.
    var end: LogPosition?
    /// What its header, or else its first block, says of the log before, and where that stands in the file.
    private(set) var start: (anchor: LogAnchor, offset: UInt64)?
    /// What the log goes on with behind what has been read; `nil` where that is not known.
    var next: LogAnchor?
    /// Whether blocks were lost behind the last one: the next segment's header then holds the checksum of a block that
    /// is no more.
    var endsInLoss = false
    /// Whether a block before here could not be read, or is not there.
    private(set) var isBroken = false
    /// Whether all blocks that it has could be read.
    private(set) var isWhole = true
    private(set) var names: [IntroducedNames] = []
    private(set) var ledger = LedgerRecount()
    /// What its blocks add up to.
    var totals: TotalsRecount { TotalsRecount(ledger, rowCount: report.rowCount) }
    /// The rows that the runs must be made of: the footer's, where blocks say the same or cannot all be read, else those
    /// of the blocks; `nil` where they are not known.
    var rows: RowSource?
    /// The footer's counters by business and day; `nil` without a sound footer.
    var days: RowSource?
    /// The footer's counters held against those of the blocks, and where it begins.
    var footerDifferences: (list: DifferenceList, offset: UInt64)?
    /// The windows that the footer hands on; `nil` without a sound footer.
    var footerWindows: WindowRecount.Stored?
    /// Of how many events the rows are recorded as lost, at most; `nil` if none are, 2^64 − 1 where that is not known.
    var lostRowCount: UInt64?
    /// Whether it is all that it ever was.
    var isUnharmed: Bool { isWhole && !isBroken && lostRowCount == nil }
    /// Whether anything was read that the log goes on from, or is known to be missing.
    var isTouched: Bool { start != nil || next != nil || isBroken }
    var file: String { FileName.segment(number).text }

    init(_ number: SegmentNumber) { self.number = number }

    mutating func begin(_ header: SegmentHeader) {
        let anchor = LogAnchor(startOf: header)
        (start, next) = ((anchor, 0), anchor)
    }

    /// Notes that the block to come, or more than that, is not there to be counted.
    /// - Parameter isRecorded: whether its segment says so.
    mutating func breakChain(isRecorded: Bool = false) {
        (next, isBroken) = (nil, true)
        if !isRecorded { isWhole = false }
    }

    /// Adds a decoded block: the links to the one before, names, ledger, and what came of its rows.
    mutating func add(
        _ block: DecodedBlock, _ outcome: RowCount.Outcome, hash: KeyedHash, at offset: UInt64
    ) {
        let (header, anchor) = (block.header, LogAnchor(before: block.header))
        if start == nil && !isBroken { start = (anchor, offset) }
        report.hold(anchor, follows: next, in: file, at: offset)
        next = LogAnchor(after: header)
        if block.names.count > 0 || !block.keys.isEmpty {
            names.append(IntroducedNames(block, offset: offset, hash: hash))
        }
        ledger.add(block.ledger, at: header.summary.ledgerTime)
        report.rowCount += UInt64(header.rowCount)
        report.blockCount += 1
        let balance = EventBalance.held(block.ledger, outcome.verdicts).map {
            ("\($0.what) in the block's ledger", $0.got, $0.expected)
        }
        report.hold(
            balance + [("rows that cannot be", outcome.senselessCount, 0)], .difference, in: file,
            at: offset)
    }
}

extension VerifyReport {
    /// Reports in what a block, or a segment's header, does not go on from what came before it.
    /// - Parameter expected: `nil` where that is not known.
    mutating func hold(
        _ found: LogAnchor, follows expected: LogAnchor?, endsInLoss: Bool = false,
        in file: String, at offset: UInt64
    ) {
        guard let expected, found != expected else { return }
        hold(
            [
                (
                    "checksum of the block before", found.previousChecksum,
                    endsInLoss ? nil : expected.previousChecksum
                ), ("first name", found.nextName, expected.nextName),
                ("first key", found.nextKey, expected.nextKey),
                // Epochs may be left out, and never come again.
                (
                    "commit epoch", found.commitEpoch,
                    max(found.commitEpoch, expected.commitEpoch)
                ),
            ], in: file, at: offset)
    }
}

/// What a worker needs for one segment after the other.
///
/// **Cost** About 6 MiB, the largest block, and what `RowCount` says.
final class ScanMemory {
    let rows = BlockRows()
    let decoder = BlockDecoder()
    let buffer = ReadBuffer()
    let page = CounterPage()
    let count: RowCount
    let hash: CounterHash
    /// Of names, in this process.
    let names: KeyedHash

    init(_ hash: CounterHash, names: KeyedHash) {
        (self.hash, self.names) = (hash, names)
        count = RowCount(hash)
    }

    /// Decodes the block whose bytes are in the buffer, and counts its rows.
    func countBlock(
        at place: BlockPlace
    ) throws(FormatError) -> (DecodedBlock, RowCount.Outcome) {
        // Event hashes are any 64 bits: there is nothing in them to check but their checksum.
        let block = try buffer.withBytes { (bytes) throws(FormatError) in
            try decoder.decode(
                bytes, at: place, wanted: .all.subtracting(.eventHash), checksRest: true,
                into: rows)
        }
        let header = block.header
        let outcome = count.count(
            rows, times: (header.minTimestamp, header.maxTimestamp),
            commits: block.commits)
        return (block, outcome)
    }
}
