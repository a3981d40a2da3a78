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
    private(set) var counters: [CounterSource<Files>] = []
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
        segmentCount += 1
        goingByteCount &+= entry.byteCount
        switch found {
        case .missing: unreadable.append(Unreadable(number: entry.number, isThere: false))
        case .damaged: unreadable.append(Unreadable(number: entry.number, isThere: true))
        case .footer(let footer, let next): add(footer, entry, next)
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

    private mutating func add(_ footer: SegmentFooter, _ entry: SealedSegment, _ next: LogAnchor) {
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
        tableByteCount += footer.counters.pages.count
        counters.append(
            .table(
                footer.counters.makeCursor(),
                path: "\(files.path)/\(FileName.segment(entry.number).text)"))
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
            try check(footer.counters, path: reader.file.path)
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
