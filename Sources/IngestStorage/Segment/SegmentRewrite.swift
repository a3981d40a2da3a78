// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestCounting
import IngestFormat

/// Puts the rows of a segment of small blocks into full ones when it is sealed: at a low rate each commit is a block of a
/// few rows, padded to a sector of the disk, and a start would read all of them.
///
/// The new file has the same rows in the same order, and every commit keeps its ordinal, its time and its place in the
/// chain (`RewrittenCommits`), so that no position of the log and no reader's cut moves. It is counted again as it is
/// written, and must come to the footer that the live segment had.
///
/// **Cost** Each block read and decoded once, about 10 µs; each row encoded and counted once more, about 40 ns. 20 MiB
/// while it runs.
package struct SegmentRewrite<Files: FileSystem>: ~Copyable {
    private let file: Files.File
    private let directory: DirectoryID
    /// Of the live segment.
    private let footer: SegmentFooter
    private let decoder = BlockDecoder()
    private let encoder = BlockEncoder()
    private let encoded = BlockBuffer()
    /// Those of the block that was read last, and of the one that was made of several.
    private let rows = BlockRows()
    private let madeRows = BlockRows()
    /// What the ledgers of the blocks make of the windows that were open before the segment, of which no more is known here
    /// than where they begin.
    private var windows: SenderWindows
    private var pending = PendingBlock()

    /// Whether a segment is better rewritten.
    package static func pays(_ footer: SegmentFooter) -> Bool {
        let count = UInt64(footer.blocks.count)
        return count > 1 && footer.rowCount < count * UInt64(Limits.rewriteRowCountMax)
    }

    /// Writes the segment anew, with its footer, and gives it its name; the rename is durable after the next
    /// `syncDirectory`.
    ///
    /// - Parameters:
    ///   - footer: of the live segment, as it would be sealed; all its blocks are durable.
    ///   - keys: the names of every key, by ordinal.
    /// - Returns: the footer of the new file, and its trailer.
    /// **Errors** After any the file is as it was: it can be sealed as it stands. `corrupt` also where the rows, counted
    /// again, do not come to the footer.
    package static func run(
        _ footer: SegmentFooter, keys: [RewardKey], in files: Files
    ) throws(StorageError) -> (footer: SegmentFooter, trailer: SegmentTrailer) {
        try DurableFile.write(.segment(footer.segment), in: files) {
            (recorder) throws(StorageError) in
            let reader = try SegmentReader(footer.segment, directory: footer.directory, in: files)
            var rewrite = SegmentRewrite(reader.file, footer)
            return try rewrite.write(reader, keys, to: &recorder)
        }
    }

    private init(_ file: Files.File, _ footer: SegmentFooter) {
        (self.file, self.footer, directory) = (file, footer, footer.directory)
        windows = SenderWindows(before: footer)
    }

    private mutating func write(
        _ reader: SegmentReader<Files>, _ keys: [RewardKey],
        to recorder: inout WriteRecorder<Files.File>
    ) throws(StorageError) -> (footer: SegmentFooter, trailer: SegmentTrailer) {
        var segment = SegmentAccumulator(
            header: reader.header, counters: SegmentCounters(),
            windows: windows)
        try recorder.write(reader.header.encode(), at: 0)
        let buffer = ReadBuffer()
        for entry in footer.blocks {
            _ = try reader.read(entry, into: buffer)
            let block = try buffer.withBytes { (bytes) throws(StorageError) in
                try decode(bytes, at: entry.offset, into: rows)
            }
            windows.apply(block.ledger, at: block.header.summary.ledgerTime)
            if !pending.takes(block, rows) { try flush(to: &recorder, &segment) }
            pending.add(block, rows)
        }
        try flush(to: &recorder, &segment)
        let footer = try self.footer(of: segment, keys)
        let (bytes, trailer) = footer.encode(at: segment.endOffset)
        try recorder.write(bytes, at: segment.endOffset)
        return (footer, trailer)
    }

    private func decode(
        _ bytes: RawSpan, at offset: UInt64, into rows: BlockRows
    ) throws(StorageError) -> DecodedBlock {
        try StorageError.decoding(file.path, at: offset) { () throws(FormatError) in
            try decoder.decode(bytes, wanted: .all, into: rows)
        }
    }

    /// Writes what has been gathered as one block, and counts it as a reader will find it.
    private mutating func flush(
        to recorder: inout WriteRecorder<Files.File>, _ segment: inout SegmentAccumulator
    ) throws(StorageError) {
        guard let context = pending.context else { return }
        let offset = segment.endOffset
        let summary = encoder.encode(
            rows: pending.rows, names: pending.names, keys: pending.keys,
            ledger: pending.ledger.entries, context: context, commits: pending.commits,
            into: encoded)
        // SAFETY: the buffer lives, and is not encoded into, while the span is used.
        let bytes = unsafe RawSpan(_unsafeBytes: encoded.bytes)
        let block = try decode(bytes, at: offset, into: madeRows)
        let outcome = segment.add(
            summary, ordinal: context.blockOrdinal, offset: offset, rows: madeRows,
            names: block.names, keys: block.keys, ledger: block.ledger)
        guard outcome == .folded, block.header.summary == summary,
            block.commits == pending.commits, madeRows.hasSameRows(as: pending.rows)
        else { throw different(offset) }
        pending.removeAll()
        try recorder.write(bytes, at: offset)
    }

    /// The footer of the new file: that of the live segment but for the index of blocks.
    private func footer(
        of segment: borrowing SegmentAccumulator, _ keys: [RewardKey]
    ) throws(StorageError) -> SegmentFooter {
        var counted: SegmentFooter
        do { counted = try segment.footer(sealedAt: footer.sealedAt, keys: keys) } catch {
            throw different(0)
        }
        counted.idsCompleteSince = footer.idsCompleteSince
        // The entries of the made blocks do to the windows what those of the blocks did.
        guard segment.windows == windows else { throw different(0) }
        counted.windows = footer.windows
        var expected = footer
        expected.blocks = counted.blocks
        guard counted == expected else { throw different(0) }
        return counted
    }

    private func different(_ offset: UInt64) -> StorageError {
        .corrupt(
            path: file.path, offset: offset,
            detail: "its rows, counted again, do not come to its counters")
    }
}

/// Commits gathered for one block.
private struct PendingBlock: ~Copyable {
    let rows = BlockRows()
    private(set) var names = NewNames()
    private(set) var keys: [RewardKey] = []
    private(set) var ledger = LedgerSum()
    private(set) var commits = BlockCommits()
    private var first: BlockHeader?
    private var last: BlockHeader?
    private var senders: Set<SenderKey> = []
    private var sequenceRangeCount = 0
    private var money: UInt64 = 0

    /// Of the block as it stands; `nil` where nothing was added.
    var context: BlockContext? {
        guard let first, let last else { return nil }
        var context = first.context
        context.rewritten = RewrittenCommits(from: first, to: last)
        return context
    }

    /// Whether a block goes on where the last one ends, and both fit into one.
    ///
    /// The window of a sender begins in at most one of the commits, before all else of it: sums keep no order.
    func takes(_ block: borrowing DecodedBlock, _ more: BlockRows) -> Bool {
        guard let first, let last else { return true }
        let context = block.header.context
        let goesOn =
            context.blockOrdinal == last.endOrdinal
            && context.commitEpoch == last.context.commitEpoch &+ UInt64(last.commitCount)
            && context.previousChecksum == last.chainChecksum
            && context.firstName == last.nextName && context.firstKey == last.nextKey
        let newSenders = block.ledger.count { !senders.contains($0.key) }
        let ranges = block.ledger.reduce(0) { $0 + $1.sequences.count }
        let fits =
            rows.rowCount + more.rowCount <= Limits.blockEventCountMax
            && names.count + block.names.count <= Limits.blockNameCountMax
            && keys.count + block.keys.count <= Limits.blockKeyCountMax
            && senders.count + newSenders <= Limits.blockSenderCountMax
            && sequenceRangeCount + ranges <= Limits.blockSequenceRangeCountMax
            && Int(block.header.endOrdinal) - Int(first.context.blockOrdinal)
                <= Limits.blockCommitCountMax
            && money.saturatingSum(more.moneySum) < Limits.blockMoneyMicrosMax
        let isInOrder = block.ledger.allSatisfy {
            $0.window.start == nil && !$0.window.isExpired || !senders.contains($0.key)
        }
        return goesOn && fits && isInOrder
    }

    /// Adds a block that it `takes`.
    mutating func add(_ block: borrowing DecodedBlock, _ more: BlockRows) {
        first = first ?? block.header
        last = block.header
        rows.append(more)
        names.append(block.names)
        keys += block.keys
        commits.append(block.commits)
        ledger.add(block.ledger, at: block.header.summary.ledgerTime)
        for entry in block.ledger {
            senders.insert(entry.key)
            sequenceRangeCount += entry.sequences.count
        }
        money = money.saturatingSum(more.moneySum)
    }

    mutating func removeAll() {
        rows.removeAll()
        names.removeAll()
        keys.removeAll(keepingCapacity: true)
        ledger = LedgerSum()
        commits.removeAll()
        (first, last, money, sequenceRangeCount) = (nil, nil, 0, 0)
        senders.removeAll(keepingCapacity: true)
    }
}
