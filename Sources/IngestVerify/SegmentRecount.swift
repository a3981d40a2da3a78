// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import Dispatch
import Glibc
import IngestFormat
import IngestStorage
import Synchronization

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

/// Pieces of work that several threads do side by side, and one caller takes in their order.
///
/// **Cost** One serial queue, and so one thread, a worker, while it runs. At most `workerCount + 1` pieces are at work
/// or wait to be taken: that bounds the memory, however large the first of them is.
package final class OrderedWork<Output: Sendable>: Sendable {
    private struct State {
        var next = 0
        var isStopped = false
        var finished: [Int: Output] = [:]
    }

    private let count: Int
    private let state = Mutex(State())
    /// A signal for each piece that may be begun.
    private let room = DispatchSemaphore(value: 0)
    /// A signal for each piece that is finished.
    private let finished = DispatchSemaphore(value: 0)
    private let running = DispatchGroup()

    private init(_ count: Int) { self.count = count }

    /// Does all pieces and takes what comes of them, in order.
    ///
    /// - Parameters:
    ///   - count: how many pieces.
    ///   - workerCount: how many threads.
    ///   - wait: called before each piece is taken and at least every 100 ms, on the caller's thread; `false` stops.
    ///   - makeWork: called once on each thread: what does a piece there.
    ///   - take: called on the caller's thread, with the piece.
    /// **Errors** those of `take`. At return no thread is at work any more.
    package static func run<Failure: Error>(
        _ count: Int, workerCount: Int, wait: () -> Bool = { true },
        makeWork: @escaping @Sendable () -> (Int) -> Output,
        take: (Int, Output) throws(Failure) -> Void
    ) throws(Failure) {
        let work = OrderedWork(count)
        let workerCount = max(1, min(workerCount, count))
        for _ in 0..<(count > 0 ? workerCount : 0) { work.start(makeWork) }
        defer {
            work.state.withLock { $0.isStopped = true }
            for _ in 0..<workerCount { work.room.signal() }
            work.running.wait()
        }
        work.room.signal()
        var index = 0
        while index < count, wait() {
            let output = work.state.withLock { $0.finished.removeValue(forKey: index) }
            if let output {
                try take(index, output)
                index += 1
                work.room.signal()
            } else {
                _ = work.finished.wait(timeout: .now() + .milliseconds(100))
            }
        }
    }

    private func start(_ makeWork: @escaping @Sendable () -> (Int) -> Output) {
        room.signal()
        running.enter()
        DispatchQueue(label: "ordered-work").async { [self] in
            let work = makeWork()
            while let index = next() {
                let output = work(index)
                state.withLock { $0.finished[index] = output }
                finished.signal()
            }
            running.leave()
        }
    }

    /// The piece to do next; waits until there is room for one. `nil` at the end.
    private func next() -> Int? {
        room.wait()
        return state.withLock { state in
            guard !state.isStopped, state.next < count else { return nil }
            state.next += 1
            return state.next - 1
        }
    }
}

/// How many threads the machine runs at a time. *The corresponding C function is sysconf(3).*
package var processorCount: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }
