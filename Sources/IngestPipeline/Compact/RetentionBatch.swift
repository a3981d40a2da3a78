// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestCounting
import IngestFormat
import IngestStorage

/// The oldest sealed segments that have to go, gathered one by one: their counters, and their ledgers summed.
///
/// A segment of which no footer can be read is taken along with the next one that has one: what it held is in
/// the runs, and nothing attests it any more.
///
/// **Cost** The footers' counters in memory, at most about `footerByteCountMax`; a ledger of one footer's size.
struct RetentionBatch<Files: FileSystem> {
    private let files: Files
    private let directory: DirectoryID
    private let excessByteCount: UInt64
    private var age: RetentionAge?
    /// Whether the next segment has to go and no run has its counters yet.
    private(set) var waitsForMerge = false
    /// How many segments have to go, of which no footer can be read too, and their bytes.
    private(set) var segmentCount = 0
    private var goingByteCount: UInt64 = 0
    private var tableByteCount = 0
    private var isClosed = false
    /// Since the last footer.
    private var unreadable: [Unreadable] = []
    private var firstSegment: SegmentNumber

    /// Of the footers so far; `nil` before the first.
    private(set) var sums: ExpiredSums?
    private(set) var ledger = LedgerSum()
    private(set) var counters: [RunReader<Files>] = []
    /// Segments before the last footer that are there and damaged.
    private(set) var damaged: [SegmentNumber] = []

    /// When the last block of a segment was committed.
    struct CommitTime {
        let segment: SegmentNumber
        let microseconds: Int64
    }

    /// Of the segment whose footer was needed to know; kept from look to look.
    private(set) var newest: CommitTime?

    private struct Unreadable {
        let number: SegmentNumber
        let isThere: Bool
    }

    private static var footerCountMax: UInt32 { 64 }
    private static var footerByteCountMax: Int { 64 << 20 }

    /// - Parameters:
    ///   - excessByteCount: segments go until they have so many bytes.
    ///   - age: segments go that are older; `nil` = none.
    ///   - newest: `newest` of the batch before.
    init(
        after manifest: Manifest, excessByteCount: UInt64, age: RetentionAge?, newest: CommitTime?,
        in files: Files
    ) {
        self.newest = newest
        self.files = files
        directory = manifest.directory
        firstSegment = manifest.lastExpired.next
        self.excessByteCount = excessByteCount
        self.age = age
    }

    /// Takes the next segment, if there is one that has to go and there is room for it. The last sealed segment stays,
    /// whatever its age: its footer has the windows of the senders.
    ///
    /// - Parameter manifest: a generation with the same segments, and perhaps more.
    /// - Returns: whether there may be another one.
    /// **Errors** `newerFormat`, `io`; what is missing or damaged is none.
    mutating func takeNext(of manifest: Manifest) throws(StorageError) -> Bool {
        guard !isClosed, segmentCount + 1 < manifest.sealed.count,
            (sums?.footerCount ?? 0) < Self.footerCountMax,
            tableByteCount < Self.footerByteCountMax
        else { return false }
        let entry = manifest.sealed[segmentCount]
        let isDue = goingByteCount < excessByteCount
        guard isDue || mayBeOld(entry) else { return false }
        let found = try read(entry)
        if case .footer(let footer, _) = found, !isDue {
            newest = CommitTime(segment: entry.number, microseconds: footer.lastCommitTime)
            guard mayBeOld(entry) else { return false }
        }
        if entry.number > manifest.mergedEnd.segment {
            waitsForMerge = true
            return false
        }
        segmentCount += 1
        goingByteCount &+= entry.byteCount
        switch found {
        case .missing: unreadable.append(Unreadable(number: entry.number, isThere: false))
        case .damaged: unreadable.append(Unreadable(number: entry.number, isThere: true))
        case .footer(let footer, let next): try add(footer, entry, next)
        }
        return true
    }

    /// Whether the segment's last commit is old, or not known. Events say of themselves when they were, and history may be
    /// loaded: what counts is how long the rows have been here.
    private mutating func mayBeOld(_ entry: SealedSegment) -> Bool {
        guard age != nil else { return false }
        guard let newest, newest.segment == entry.number else { return true }
        return age?.isOld(newest.microseconds) == true
    }

    private mutating func add(
        _ footer: SegmentFooter, _ entry: SealedSegment, _ next: LogAnchor
    ) throws(StorageError) {
        let one = ExpiredSums(
            footer, from: firstSegment, missingCount: UInt32(unreadable.count),
            byteCount: entry.byteCount, nextCommitEpoch: next.commitEpoch)
        if let sums {
            guard let joined = sums.joined(with: one) else {
                isClosed = true
                return
            }
            self.sums = joined
        } else {
            sums = one
        }
        firstSegment = entry.number.next
        damaged += unreadable.filter(\.isThere).map(\.number)
        unreadable = []
        ledger.add(
            footer.ledger, countMax: Limits.segmentSenderCountMax,
            rangeCountMax: Limits.segmentSequenceRangeCountMax)
        tableByteCount += footer.rewardDays.pages.count
        counters.append(
            try RunReader.openFooter(of: entry, directory: directory, in: files).rewardDays)
    }

    // MARK: Footers

    private enum Found {
        case missing
        case damaged
        /// - Parameter next: what the log goes on with behind the segment.
        case footer(SegmentFooter, next: LogAnchor)
    }

    private func read(_ entry: SealedSegment) throws(StorageError) -> Found {
        do {
            let reader = try SegmentReader(entry.number, directory: directory, in: files)
            let footer = try reader.readFooter(of: entry)
            try check(footer.rewardDays, path: reader.file.path)
            return .footer(footer, next: reader.anchor(behind: footer))
        } catch {
            switch error {
            case .notFound: return .missing
            case .corrupt: return .damaged
            default: throw error
            }
        }
    }

    /// So that no page is found bad in the middle of the fold.
    private func check(_ table: CounterTable, path: String) throws(StorageError) {
        let page = CounterPage()
        var cursor = table.makeCursor()
        try StorageError.decoding(path) { () throws(FormatError) in
            while try cursor.nextPage(into: page) {}
        }
    }
}

extension SegmentFooter {
    /// Microseconds since 1970; of a segment without blocks, its seal.
    fileprivate var lastCommitTime: Int64 { blocks.last?.summary.admissionTime ?? sealedAt }
}

/// A batch of expired segments on its way into a file, together with the newest files of expired footers where
/// those span no more segments: they are folded like runs (`CompactionPlan`). Some pages a turn.
struct RetentionFold<Files: FileSystem>: ~Copyable {
    private var writer: ExpiredFooterWriter<Files, CounterMerge<RunReader<Files>.Cursor>>
    /// Of the batch alone.
    let sums: ExpiredSums
    private let damaged: [SegmentNumber]
    private let files: Files

    /// About 5 ms.
    private static var turnPageCount: Int { 64 }

    /// - Parameter sums: the batch's.
    /// **Errors** `corrupt` with the path of a file of expired footers that cannot be read.
    init(
        _ batch: RetentionBatch<Files>, _ sums: ExpiredSums, into manifest: Manifest,
        in files: Files
    ) throws(PipelineError) {
        let plan = CompactionPlan(
            runs: manifest.expired.map { Int($0.span.segmentCount) },
            newSegmentCount: Int(sums.span.segmentCount))
        var (rows, ledger) = (batch.counters, batch.ledger)
        var whole: ExpiredSums? = sums
        do {
            for entry in manifest.expired.suffix(plan.mergedRunCount).reversed() {
                let older = try ExpiredFooterReader(
                    entry, directory: manifest.directory, in: files)
                whole = whole.flatMap { older.header.sums.joined(with: $0) }
                rows.append(older.counters)
                ledger.add(
                    try older.readLedger(), countMax: Limits.segmentSenderCountMax,
                    rangeCountMax: Limits.segmentSequenceRangeCountMax)
            }
            guard let whole else { throw PipelineError.inconsistent("expired segments with a gap") }
            writer = try ExpiredFooterWriter(
                manifest.nextFileNumber, of: whole, ledger: ExpiredLedger(ledger.entries()),
                rows: CounterMerge(rows.map { $0.makeCursor() }), in: files)
        } catch let error as PipelineError {
            throw error
        } catch let error as StorageError {
            throw .storage(error)
        } catch {
            throw .inconsistent("\(error)")
        }
        self.sums = sums
        self.files = files
        damaged = batch.damaged
    }

    /// Folds some more pages.
    /// - Returns: whether all of them are written.
    mutating func step() throws(RetentionFailure) -> Bool {
        do { return try writer.write(pageCountMax: Self.turnPageCount) } catch {
            switch error {
            case .storage(let error): throw .file(error)
            case .source(let error): throw .source(.merging(error))
            }
        }
    }

    /// Ends the file, and puts damaged segments aside: nobody deletes them for that.
    /// - Parameter next: the generation that will name it.
    mutating func finish(for next: Manifest) throws(RetentionFailure) -> ExpiredEntry {
        let entry: ExpiredEntry
        do { entry = try writer.finish(next.nextFileNumber, for: next) } catch {
            throw .file(error)
        }
        do {
            for number in damaged {
                _ = try AsideDirectory(of: files).take(FileName.segment(number).text)
            }
        } catch {
            // Nobody names the file.
            if error.shortage != nil { try? files.unlink(entry.fileName.text) }
            throw .publish(.storage(error))
        }
        return entry
    }

    consuming func abandon() { writer.abandon() }
}

/// Why a fold cannot go on.
enum RetentionFailure: Error {
    /// What is folded could not be read.
    case source(PipelineError)
    /// Its own file could not be written, made durable or read back.
    case file(StorageError)
    /// The generation could not be published.
    case publish(PipelineError)

    /// Whether another file may do: the pages of this one cannot be trusted any more.
    var isWorthANewFile: Bool {
        switch self {
        case .file(.durabilityLost), .file(.corrupt), .file(.io): true
        default: false
        }
    }
}

extension PipelineError {
    /// Why rows cannot be put together. A run that cannot be read is a damaged file, and says which.
    fileprivate static func merging(_ error: CounterMergeError<StorageError>) -> PipelineError {
        if case .source(let error) = error { return .storage(error) }
        return .inconsistent("counters cannot be merged: \(error)")
    }
}
