// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import IngestFormat
import IngestStorage

/// Checks one segment file byte by byte and recounts its rows, without a look at any other.
///
/// The blocks of a segment with a sound footer are those of its index, and its footer and what the manifest says of it
/// are held against what they add up to; those of any other are what a survey of the file finds, and a daemon may be
/// writing to it. Either way each is decoded and counted, and what lies between two must be zeros, or recorded as lost.
struct SegmentScan<Files: FileSystem> {
    private typealias Survey = SegmentSurvey<Files>

    let files: Files
    let directory: DirectoryID
    let segment: Target<Files>.Segment
    let memory: ScanMemory
    let meter: WorkMeter
    /// Lets a write that is under way come to its end.
    let pause: @Sendable () -> Void
    private var recount: SegmentRecount
    /// `nil` if it could not be read.
    private var header: SegmentHeader?

    private var number: SegmentNumber { segment.number }
    private var name: String { recount.file }

    init(
        _ segment: Target<Files>.Segment, of directory: DirectoryID, in files: Files,
        _ memory: ScanMemory, _ meter: WorkMeter, pause: @escaping @Sendable () -> Void
    ) {
        (self.files, self.directory, self.segment) = (files, directory, segment)
        (self.memory, self.meter, self.pause) = (memory, meter, pause)
        recount = SegmentRecount(segment.number)
    }

    consuming func run() -> SegmentRecount {
        memory.count.removeAll()
        do throws(StorageError) {
            let file = try files.open(name, .read)
            try readHeader(file)
            if let (footer, trailer) = try readFooter(file) {
                try checkSealed(file, footer, trailer)
            } else {
                try checkUnsealed(file)
            }
        } catch {
            if error.isOfData {
                recount.report.add(error, "segment")
                recount.breakChain()
            } else if case .notFound = error {
                recount.outcome = segment.mayBeAbsent ? .absent : .missing
            } else {
                recount.outcome = .failed(error)
            }
        }
        return recount
    }

    private mutating func readHeader(_ file: Files.File) throws(StorageError) {
        do {
            let header = try SegmentReader<Files>.readHeader(file, number, directory)
            self.header = header
            recount.begin(header)
        } catch {
            guard error.isOfData else { throw error }
            // A segment that is being created has no header yet, or part of one, and no block.
            try memory.buffer.readAround(file, at: 0, byteCount: SegmentHeader.byteCount)
            let isUnfinished =
                memory.buffer.byteCount < SegmentHeader.byteCount || memory.buffer.isZero
            if isUnfinished && segment.mayBeAbsent { return }
            recount.report.add(error, "header")
        }
    }

    /// The footer, if there is one that can be believed; else a finding, where there must be one or it is damaged.
    private mutating func readFooter(
        _ file: Files.File
    ) throws(StorageError) -> (footer: SegmentFooter, trailer: SegmentTrailer)? {
        var start: UInt64?
        do {
            start = try SegmentFooterFile.readTrailer(file, number: number, directory: directory)
                .footerOffset
            return try SegmentFooterFile.read(file, number: number, directory: directory)
        } catch {
            guard error.isOfData else { throw error }
            if segment.entry == nil {
                guard let start else { return nil }
                // Its end may have reached the disk and its beginning not.
                if case .torn? = try TailJudge.judge(file, from: start, .footer) { return nil }
            }
            recount.report.add(error, "footer")
            return nil
        }
    }

    // MARK: Blocks

    /// What is known of the blocks of the segment.
    private struct Index {
        let blocks: [BlockIndexEntry]
        /// Ordinals that were given, or must have been.
        let blockCount: UInt32
        /// Where blocks end; `nil` = behind the last.
        var end: UInt64?
        var lost: [LostRange] = []
    }

    private mutating func countBlocks(
        _ file: Files.File, _ index: Index
    ) throws(StorageError) {
        var (next, end): (UInt32, UInt64) = (0, UInt64(SegmentHeader.byteCount))
        for entry in index.blocks {
            if meter.isStopped { return recount.breakChain() }
            try checkGap(
                file, end..<max(end, entry.offset), next..<max(next, entry.ordinal), index.lost)
            (next, end) = (entry.endOrdinal, max(end, entry.end))
            try memory.buffer.readAround(
                file, at: entry.offset, byteCount: entry.summary.byteCount)
            count(entry)
        }
        try checkGap(
            file, end..<max(end, index.end ?? end), next..<max(next, index.blockCount), index.lost)
        recount.report.segmentCount += 1
        recount.end = LogPosition(segment: number, blockCount: max(next, index.blockCount))
    }

    /// Counts the block whose bytes are in the buffer.
    private mutating func count(_ entry: BlockIndexEntry) {
        let place = BlockPlace(
            directory: directory, segment: number, blockOrdinal: entry.ordinal)
        do throws(FormatError) {
            let (block, outcome) = try memory.countBlock(at: place)
            recount.add(block, outcome, hash: memory.names, at: entry.offset)
            meter.add(byteCount: memory.buffer.byteCount)
            recount.report.hold(
                [("block \(entry.ordinal) in the index", entry.summary, block.header.summary)],
                .difference, in: name, at: entry.offset)
        } catch {
            let error =
                memory.buffer.hole ?? StorageError(path: name, offset: entry.offset, error)
            recount.report.add(
                error, "block \(entry.ordinal), \(entry.summary.rowCount) events")
            recount.breakChain()
        }
    }

    /// Looks at what lies before a block, or behind the last: ordinals that no block has must be recorded as lost, and
    /// bytes be zeros.
    private mutating func checkGap(
        _ file: Files.File, _ bytes: Range<UInt64>, _ ordinals: Range<UInt32>, _ lost: [LostRange]
    ) throws(StorageError) {
        let lostCount = lost.reduce(0) { sum, range in
            // A footer whose lost blocks pass its end is not read.
            let end = range.firstBlock &+ range.blockCount
            return sum + ordinals.clamped(to: range.firstBlock..<max(range.firstBlock, end)).count
        }
        if !ordinals.isEmpty { recount.breakChain(isRecorded: lostCount == ordinals.count) }
        let end = try file.endOfContent(in: bytes)
        if lostCount < ordinals.count {
            recount.report.add(
                .corruption, "blocks missing and not recorded as lost", in: name,
                at: bytes.lowerBound, got: "block \(ordinals.upperBound) next",
                expected: "block \(ordinals.lowerBound)")
        } else if end > bytes.lowerBound {
            recount.report.add(
                .corruption, "bytes between blocks", in: name, at: bytes.lowerBound,
                got: "\(end - bytes.lowerBound) bytes", expected: "zeros")
        }
    }

    // MARK: A footer

    private mutating func checkSealed(
        _ file: Files.File, _ footer: SegmentFooter, _ trailer: SegmentTrailer
    ) throws(StorageError) {
        let (entry, offset) = (footer.entry(trailer: trailer), trailer.footerOffset)
        if let known = segment.entry {
            let isOther =
                (known.footerChecksum, known.byteCount) != (entry.footerChecksum, entry.byteCount)
            recount.report.hold(
                [
                    ("what the manifest keeps of the segment", known, entry),
                    ("lost ranges of the segment in the manifest", segment.lost, footer.lost),
                ], isOther ? .corruption : .difference, in: name, at: offset)
        }
        recount.report.hold(
            [("header's checksum in the footer", footer.headerChecksum, header?.checksum)],
            in: name, at: offset)
        let index = Index(
            blocks: footer.blocks, blockCount: footer.blockCount, end: offset, lost: footer.lost)
        try countBlocks(file, index)
        recount.footerWindows = .init(windows: footer.windows, offset: offset)
        if !footer.lost.isEmpty {
            recount.lostRowCount = footer.lost.reduce(0) {
                $0.saturatingSum($1.rowCount ?? .max)
            }
        }
        for range in footer.lost {
            recount.report.add(.evidenceLost, range.text, in: name, at: range.offset)
        }
        endChain(footer, at: offset)
        let tables = try RunReader<Files>.openFooter(trailer, directory, in: file)
        let held = meter.mayHoldFile() ? tables : nil
        let open = { @Sendable [files, directory, name] () throws(StorageError) in
            if let held { return held }
            return try RunReader<Files>.openFooter(trailer, directory, in: files.open(name, .read))
        }
        recount.rows = try RowSource(tables.rewardDays, name: .segment(number)) {
            () throws(StorageError) in try open().rewardDays
        }
        recount.days = try RowSource(tables.days, name: .segment(number)) {
            () throws(StorageError) in try open().days
        }
        guard recount.isWhole, let rows = recount.rows else { return }
        // Rows, times and checksums are what its index says, or it is not read; and that is what the blocks say.
        recount.report.hold(
            recount.ledger.held(footer.ledger), .difference, in: name, at: offset)
        try compareRows(rows, file, index, at: offset)
    }

    /// What the footer hands on to the next segment.
    private mutating func endChain(_ footer: SegmentFooter, at offset: UInt64) {
        if let next = recount.next, recount.isUnharmed {
            recount.report.hold(
                [
                    (
                        "last block's checksum in the footer", footer.lastBlockChecksum,
                        next.previousChecksum
                    ), ("next name in the footer", footer.names.upperBound, next.nextName),
                    ("next key in the footer", footer.keys.upperBound, next.nextKey),
                ], in: name, at: offset)
        }
        recount.endsInLoss = footer.lost.contains {
            $0.firstBlock &+ $0.blockCount == footer.blockCount
        }
        let start = LogAnchor(
            commitEpoch: footer.commitEpoch, previousChecksum: 0, nextName: 0, nextKey: 0)
        recount.next = LogAnchor(after: footer, startingAt: recount.start?.anchor ?? start)
    }

    /// Holds the counters of the footer against the rows: by fingerprint, and where that is another, one by one.
    private mutating func compareRows(
        _ rows: RowSource, _ file: Files.File, _ index: Index, at offset: UInt64
    ) throws(StorageError) {
        var (rows, isReadable) = (rows, true)
        do throws(StorageError) {
            rows.fingerprint = try memory.hash.fingerprint(of: rows, memory.page)
        } catch {
            guard error.isOfData else { throw error }
            recount.report.add(error, "counters of the footer")
            isReadable = false
        }
        recount.rows = rows
        if rows.fingerprint == memory.count.fingerprint { return }
        memory.count.removeAll(keepsRows: true)
        var scan = self
        scan.recount = SegmentRecount(number)
        try scan.countBlocks(file, index)
        let table = scan.recount.isWhole ? memory.count.rows?.table() : nil
        let counted = table.map {
            RowSource($0.table, $0.attributions, name: rows.name, memory.count.fingerprint)
        }
        if isReadable {
            guard let counted else { return }
            let check = TableCheck(
                tables: [.init(kind: .rewardDays, runs: [rows])], expected: [counted],
                business: { _ in 0 }, hash: memory.hash, workerCount: 1, meter: meter)
            let (outcomes, failures) = check.run { true }
            if let failure = failures.first { throw failure }
            if outcomes[0].differences.count == 0 { return }
            recount.footerDifferences = (outcomes[0].differences, offset)
        }
        recount.rows = counted
    }

    // MARK: No footer

    /// What looks like damage behind the durable blocks may be a write under way: it is looked at again.
    private static var attemptCount: Int { 4 }

    private mutating func checkUnsealed(_ file: Files.File) throws(StorageError) {
        var (pieces, tail, hole) = try look(at: file)
        for attempt in 1..<Self.attemptCount {
            // What a block follows is looked at once more: that was written only after this was synced.
            let isSure = attempt > 1 || pieces.allSatisfy(\.isBlock)
            if isSure && tail?.kind != .corruption { break }
            pause()
            (pieces, tail, hole) = try look(at: file)
        }
        try countBlocks(
            file, Index(blocks: pieces.compactMap(\.entry), blockCount: segment.durableBlockCount))
        if let hole, tail?.kind != .corruption { recount.report.add(hole, "block") }
        if let tail {
            recount.report.add(tail)
            if tail.kind == .corruption { recount.breakChain() }
        }
        // The footer of a sealed one was reported; what the blocks say is all there is.
        if segment.entry != nil { recount.breakChain() }
    }

    /// What is in the file, and what there is to say of what lies behind the last whole block: only where no block
    /// follows can it be a footer, or a write that did not finish. And of the first that the disk cannot read.
    private func look(
        at file: Files.File
    ) throws(StorageError) -> (pieces: [Survey.Piece], tail: Finding?, hole: StorageError?) {
        let survey = try Survey(number, directory: directory, of: file)
        var pieces = survey.pieces
        let ordinal = pieces.dropLast().last?.entry?.endOrdinal ?? 0
        // Behind a sealed segment's blocks is its footer, which was reported.
        guard let last = pieces.last, segment.entry == nil, ordinal >= segment.durableBlockCount
        else { return (pieces, nil, survey.hole) }
        let (offset, beginning): (UInt64, TailJudge.Beginning)
        switch last {
        case .block: return (pieces, nil, survey.hole)
        case .damaged(let start, let header):
            let before = pieces.dropLast().compactMap(\.entry).last?.endOrdinal ?? 0
            // It was begun when those before it were durable: they are missing.
            // So was a rewritten one before its file had its name.
            let wasDurable = header.context.rewritten != nil
            if header.context.blockOrdinal > before || wasDurable {
                return (pieces, nil, survey.hole)
            }
            (offset, beginning) = (start, .block(header))
            pieces.removeLast()
        case .unreadable(let range, let content):
            (offset, beginning) = (range.lowerBound, content == .footer ? .footer : .unknown)
        }
        let isFooter = if case .footer = beginning { true } else { false }
        let tail: Finding? =
            switch try TailJudge.judge(file, from: offset, beginning) {
            case nil: nil
            case .torn(let byteCount)? where isFooter || !segment.isFollowed:
                Finding(
                    .note, file: name, offset: offset,
                    what: "\(byteCount) bytes of \(isFooter ? "a footer" : "a block") that was not "
                        + "finished; nothing durable is in them")
            case .torn(let byteCount)?:
                Finding(
                    .corruption, file: name, offset: offset,
                    what: "\(byteCount) bytes that are no block, and the log goes on behind them")
            case .damage(let offset, let what)?:
                Finding(.corruption, file: name, offset: offset, what: what)
            }
        return (pieces, tail, survey.hole)
    }
}

extension SegmentSurvey.Piece {
    fileprivate var isBlock: Bool { if case .block = self { true } else { false } }

    /// Of the block, where its header can be believed.
    fileprivate var entry: BlockIndexEntry? {
        switch self {
        case .block(let offset, let header), .damaged(let offset, let header):
            BlockIndexEntry(
                ordinal: header.context.blockOrdinal, offset: offset, summary: header.summary)
        case .unreadable: nil
        }
    }
}

extension LostRange {
    /// How much is lost, for messages.
    var text: String {
        let rows = rowCount.map { "\($0) events" } ?? "an unknown number of events"
        return "\(rows) in \(blockCount) blocks from block \(firstBlock) on, \(byteCount) bytes"
    }
}
