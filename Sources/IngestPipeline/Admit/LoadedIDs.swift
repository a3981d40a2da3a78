// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage

/// Makes the dedup index at start: from the rows of the sealed segments, as far back as the window reaches.
///
/// **Cost** Header and footer of each segment of the window, and of its blocks the columns that say which ids were
/// counted; 130 to 150 ns an id in all, most of it for memory that is touched first.
struct LoadedIDs<Files: FileSystem>: ~Copyable {
    private let files: Files
    private let directory: DirectoryID
    private let policy: RepeatPolicy
    private var index: DedupIndex
    private var completeSince = Int64.min
    private let buffer = ReadBuffer()
    private let decoder = BlockDecoder()
    private let rows = BlockRows()

    private static var prefetchDistance: Int { 16 }

    init(_ policy: RepeatPolicy, of directory: DirectoryID, in files: Files) {
        self.files = files
        self.directory = directory
        self.policy = policy
        index = DedupIndex(
            keyCountMax: policy.keyCountMax, windowMicroseconds: policy.windowMicroseconds)
    }

    /// Enters the ids of the sealed segments in which claims that hold can be.
    ///
    /// **Errors** `io`, `newerFormat`. What is damaged is left out: repeats of its rows are not found, and what is older
    /// than the rows behind it counts as outside the window.
    mutating func load(_ manifest: Manifest) throws(PipelineError) {
        do throws(StorageError) {
            let reach = try reach(of: manifest)
            var isPartUnknown = reach.first > 0 || manifest.lastExpired.rawValue > 0
            for entry in manifest.sealed[reach.first...] {
                guard let (reader, footer) = try open(entry) else {
                    isPartUnknown = true
                    continue
                }
                // Everything before these blocks was committed before them.
                if isPartUnknown, let first = footer.blocks.first {
                    completeSince = max(completeSince, first.summary.admissionTime)
                    isPartUnknown = false
                }
                try load(reader, footer, from: reach.oldest)
            }
            if isPartUnknown { completeSince = max(completeSince, reach.newest) }
        } catch {
            throw .storage(error)
        }
    }

    /// Where to begin: claims of segments before the `first`, in the order of the manifest, and of blocks older than
    /// `oldest` hold no longer, since they are too old or since there are more than the index keeps behind them.
    private func reach(
        of manifest: Manifest
    ) throws(StorageError) -> (first: Int, oldest: Int64, newest: Int64) {
        var newest: Int64?
        var claimCount = 0
        // The index drops its oldest claims by 64ths of what it keeps.
        let claimCountMax = policy.keyCountMax + policy.keyCountMax / 32
        for (place, entry) in manifest.sealed.enumerated().reversed() {
            guard let footer = try open(entry)?.footer, let last = footer.blocks.last else {
                continue
            }
            let time = last.summary.admissionTime
            let oldest = (newest ?? time) &- policy.windowMicroseconds
            if time < oldest { return (place + 1, oldest, newest ?? time) }
            newest = newest ?? time
            claimCount += footer.claimCountMin
            if claimCount > claimCountMax { return (place, oldest, newest ?? time) }
        }
        return (0, (newest ?? 0) &- policy.windowMicroseconds, newest ?? .min)
    }

    consuming func finish() -> RepeatRule {
        RepeatRule(index, policy, completeSince: completeSince)
    }

    private func open(
        _ entry: SealedSegment
    ) throws(StorageError) -> (reader: SegmentReader<Files>, footer: SegmentFooter)? {
        try StorageError.readable { () throws(StorageError) in
            let reader = try SegmentReader(entry.number, directory: directory, in: files)
            return (reader, try reader.readFooter(of: entry))
        }
    }

    private mutating func load(
        _ reader: SegmentReader<Files>, _ footer: SegmentFooter, from oldest: Int64
    ) throws(StorageError) {
        for block in footer.blocks where block.summary.eventHashCount > 0 {
            let time = block.summary.admissionTime
            if time < oldest {
                completeSince = max(completeSince, time)
                continue
            }
            guard try decode(block, reader) else {
                completeSince = max(completeSince, time)
                continue
            }
            index.open(admissionTime: time)
            enterRows()
        }
        for lost in footer.lost where lost.rowCount != 0 {
            let behind = footer.blocks.first { $0.ordinal >= lost.firstBlock }
            completeSince = max(
                completeSince, behind?.summary.admissionTime ?? footer.sealedAt)
        }
    }

    private func decode(
        _ block: BlockIndexEntry, _ reader: SegmentReader<Files>
    ) throws(StorageError) -> Bool {
        let isDecoded = try StorageError.readable { () throws(StorageError) in
            _ = try reader.read(block, into: buffer)
            return buffer.withBytes { bytes in
                (try? decoder.decode(bytes, wanted: .identity, into: rows)) != nil
            }
        }
        return isDecoded ?? false
    }

    /// The counted rows of the block that was decoded.
    private mutating func enterRows() {
        // SAFETY, of all reads: the decoder has filled so many rows, and of the sparse columns so many values as the
        // attributes of the rows say.
        var (hash, money) = (0, 0)
        for row in 0..<rows.rowCount {
            let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
            let (revenue, spend) =
                unsafe attributes.hasMoney
                ? (rows.revenue[money], rows.spend[money]) : (0, 0)
            if attributes.hasMoney { money += 1 }
            guard attributes.hasEventID else { continue }
            let ahead = min(hash + Self.prefetchDistance, rows.eventHashCount - 1)
            unsafe index.prefetch(rows.eventHash[ahead])
            if attributes.verdict == .counted {
                let check = unsafe RepeatRule.check(
                    type: attributes.type?.rawValue ?? 0, key: rows.key[row], revenue: revenue,
                    spend: spend)
                _ = unsafe index.claim(rows.eventHash[hash], check: check)
            }
            hash += 1
        }
    }
}

extension SegmentFooter {
    /// Rows that are counted and have an id, at least: all that are counted but those that may lack one.
    fileprivate var claimCountMin: Int {
        let countedCount = ledger.reduce(0) { $0 + $1.events[Int(Verdict.counted.rawValue)] }
        let idCount = blocks.reduce(0) { $0 + UInt64($1.summary.eventHashCount) }
        return Int(clamping: countedCount + idCount - min(countedCount + idCount, rowCount))
    }
}
