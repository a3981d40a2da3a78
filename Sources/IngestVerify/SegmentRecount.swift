// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import IngestFormat
import IngestStorage

/// What the next block or segment of the log must begin with; `nil` where what came before cannot be believed, or
/// is not known.
struct Chain: Sendable, Equatable {
    var previousChecksum: UInt32?
    var nextName: UInt32?
    var nextKey: UInt32?
    /// Of the last block.
    var commitEpoch: UInt64?
    /// What a manifest says of the epoch where its cut is here: that of the last block; behind a segment
    /// without blocks, that of its header.
    var endEpoch: UInt64?
    /// Whether blocks were lost behind the last one: the next segment's header then holds the checksum
    /// of a block that is no more.
    var endsInLoss = false

    static let unknown = Chain()
    /// Before the first segment.
    static let start = Chain(previousChecksum: 0, nextName: 1, nextKey: 0, endEpoch: 0)

    /// Reports in what a block or a segment's header does not go on from here.
    func check(_ opening: Opening, in file: String, _ report: inout VerifyReport) {
        report.hold(
            [
                (
                    "checksum of the block before", opening.previousChecksum,
                    endsInLoss ? nil : previousChecksum
                ),
                ("first name", opening.firstName, nextName),
                ("first key", opening.firstKey, nextKey),
            ], in: file, at: opening.offset)
    }

    /// Reports a block whose commit epoch does not come after the last one's.
    func checkEpoch(_ opening: Opening, in file: String, _ report: inout VerifyReport) {
        guard let epoch = opening.commitEpoch, let last = commitEpoch, epoch <= last else { return }
        report.add(
            .corruption, "commit epoch", in: file, at: opening.offset, got: "\(epoch)",
            expected: "more than \(last)")
    }

    /// With the epochs of the chain before it where it has none: no block was read since.
    func inheriting(_ before: Chain) -> Chain {
        var chain = self
        chain.commitEpoch = commitEpoch ?? before.commitEpoch
        chain.endEpoch = endEpoch ?? before.endEpoch
        return chain
    }

    /// What a block or a segment's header says of the log before it.
    struct Opening: Sendable {
        let previousChecksum: UInt32
        let firstName: UInt32
        let firstKey: UInt32
        /// Of a block.
        var commitEpoch: UInt64?
        /// In the file.
        let offset: UInt64
    }
}

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
    /// Whether the newest manifest's cut lies behind it; else it lies in it, at one of its blocks, or before it.
    let isBeforeCut: Bool
    var outcome = Outcome.counted
    var report = VerifyReport()
    /// Behind its last block, or what its footer says of that; `nil` if it was not read to its end.
    private(set) var end: LogPosition?
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
    private(set) var names: [IntroducedNames] = []
    private(set) var ledger = LedgerRecount()
    /// What its blocks add up to.
    var totals: TotalsRecount { TotalsRecount(ledger, rowCount: report.rowCount) }
    var moneyMicros: UInt64 = 0
    /// The rows that the runs must be made of: the footer's, where blocks say the same or cannot all be read, else those
    /// of the blocks; `nil` where they are not known.
    var rows: RowSource?
    /// The footer's counters by business and day; `nil` without a sound footer.
    var days: RowSource?
    /// The footer's counters held against those of the blocks, and where it begins.
    var footerDifferences: (list: DifferenceList, offset: UInt64)?
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
    var file: String { FileName.segment(number).text }

    init(_ number: SegmentNumber, isBeforeCut: Bool) {
        self.number = number
        self.isBeforeCut = isBeforeCut
    }

    mutating func begin(_ header: SegmentHeader) {
        chain = Chain(
            previousChecksum: header.previousChecksum, nextName: header.firstName.rawValue,
            nextKey: header.firstKey.rawValue)
        self.header = .init(
            previousChecksum: header.previousChecksum, firstName: header.firstName.rawValue,
            firstKey: header.firstKey.rawValue, offset: 0)
        hasChain = true
    }

    /// Notes that the block to come, or more than that, is not there to be counted.
    mutating func breakChain() {
        chain = .unknown
        hasChain = true
        isBroken = true
    }

    /// Notes that rows are missing from here on.
    mutating func miss() {
        breakChain()
        isWhole = false
        lacksRows = true
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
    }

    /// Adds a decoded block: the links to the one before, names, ledger, and what came of its rows.
    mutating func add(
        _ block: DecodedBlock, _ outcome: RowCount.Outcome, hash: KeyedHash, at offset: UInt64,
        moneyMicros: UInt64
    ) {
        let (header, context) = (block.header, block.header.context)
        check(header, at: offset)
        if block.names.count > 0 || !block.keys.isEmpty {
            names.append(IntroducedNames(block, offset: offset, hash: hash))
        }
        ledger.add(block.ledger, at: context.admissionTime)
        self.moneyMicros = moneyMicros
        report.rowCount += UInt64(header.rowCount)
        report.blockCount += 1
        if header.rowCount > 0 {
            minTimestamp = min(minTimestamp, header.minTimestamp)
            maxTimestamp = max(maxTimestamp, header.maxTimestamp)
        }
        for found in EventBalance.differences(between: block.ledger, and: outcome.verdicts) {
            report.add(
                .difference, "\(found.what) in the block's ledger", in: file, at: offset,
                got: "\(found.got)",
                expected: "\(found.expected)")
        }
        if outcome.senselessCount > 0 {
            report.add(
                .difference, "rows that cannot be", in: file, at: offset,
                got: "\(outcome.senselessCount)",
                expected: "0")
        }
    }

    private mutating func check(_ header: BlockHeader, at offset: UInt64) {
        let context = header.context
        let opening = Chain.Opening(
            previousChecksum: context.previousChecksum, firstName: context.firstName.rawValue,
            firstKey: context.firstKey.rawValue, commitEpoch: context.commitEpoch, offset: offset)
        if firstBlock == nil && !isBroken { firstBlock = opening }
        chain.check(opening, in: file, &report)
        chain.checkEpoch(opening, in: file, &report)
        chain = Chain(
            previousChecksum: header.headerChecksum, nextName: header.nextName.rawValue,
            nextKey: header.nextKey.rawValue, commitEpoch: context.commitEpoch,
            endEpoch: context.commitEpoch)
        hasChain = true
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
            admissionTime: header.context.admissionTime)
        return (block, outcome)
    }

    /// The rows that were counted, if they were kept.
    func rows(of number: SegmentNumber) -> RowSource? {
        guard var rows = count.rows else { return nil }
        rows.finish()
        var source = RowSource(rows, name: .segment(number))
        source.fingerprint = count.fingerprint
        return source
    }
}
