// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]
import IngestFormat
import IngestStorage

/// Checks one segment file byte by byte and recounts its rows, without a look at any other.
///
/// A segment with a sound footer is read by its index, and its footer and what the manifest says of it are held against
/// what the blocks add up to; one without is read from block to block (`LiveSegmentScan`).
struct SegmentScan<Files: FileSystem>: Sendable {
    let files: Files
    let directory: DirectoryID
    let segment: Target<Files>.Segment
    let meter: WorkMeter
    /// Lets a write that is under way come to its end.
    let pause: @Sendable () -> Void

    var number: SegmentNumber { segment.number }
    var name: String { FileName.segment(number).text }
    /// What the manifest says of it; `nil` if that does not call it sealed.
    var entry: SealedSegment? { segment.entry }

    func run(_ memory: ScanMemory) -> SegmentRecount {
        var recount = SegmentRecount(number, isBeforeCut: segment.isBeforeCut)
        memory.count.removeAll()
        do throws(StorageError) {
            try check(try files.open(name, .read), memory, &recount)
        } catch {
            if error.isOfData {
                recount.report.add(Finding(error, file: name, what: "segment"))
                recount.breakChain()
                recount.lacksRows = true
            } else if case .notFound = error {
                recount.outcome = segment.mayBeAbsent ? .absent : .missing
            } else {
                recount.outcome = .failed(error)
            }
        }
        return recount
    }

    private func check(
        _ file: Files.File, _ memory: ScanMemory, _ recount: inout SegmentRecount
    ) throws(StorageError) {
        try readHeader(file, &recount)
        if let footer = try readFooter(file, &recount) {
            return try checkSealed(file, footer, memory, &recount)
        }
        memory.count.removeAll(keepsRows: segment.isCovered)
        let end = try LiveSegmentScan(segment: self, file: file).run(memory, &recount)
        if entry != nil {
            // The footer was reported; what the blocks say is all there is.
            recount.lacksRows = true
            recount.isWhole = false
        }
        recount.close(at: LogPosition(segment: number, blockCount: end))
        if recount.isWhole { recount.rows = memory.rows(of: number) }
    }

    private func readHeader(
        _ file: Files.File, _ recount: inout SegmentRecount
    ) throws(StorageError) {
        let bytes = try file.readArray(at: 0, byteCount: SegmentHeader.byteCount)
        do throws(FormatError) {
            recount.begin(
                try SegmentHeader.decode(bytes, directory: directory, segment: number))
        } catch {
            // A segment that is being created has no header yet, or part of one, and no block.
            let isUnfinished =
                bytes.count < SegmentHeader.byteCount || bytes.allSatisfy { $0 == 0 }
            if isUnfinished && segment.mayBeAbsent { return }
            recount.report.add(Finding(error, file: name, what: "header"))
        }
    }

    // MARK: Footer

    struct Footer {
        let footer: SegmentFooter
        let trailer: SegmentTrailer
        /// Where the pages of its reward-days and of its days begin in the file.
        let rewardDaysOffset: UInt64
        let daysOffset: UInt64
        var offset: UInt64 { trailer.footerOffset }
    }

    /// The footer, if there is one that can be believed; of a sealed segment, else, a finding.
    func readFooter(
        _ file: Files.File, _ recount: inout SegmentRecount
    ) throws(StorageError) -> Footer? {
        let byteCount = try file.byteCount()
        let trailerOffset = byteCount &- UInt64(SegmentTrailer.byteCount)
        guard byteCount >= UInt64(SegmentHeader.byteCount + SegmentTrailer.byteCount) else {
            if entry != nil {
                recount.report.add(.corruption, "the file ends early", in: name, at: byteCount)
            }
            return nil
        }
        let end = try file.readArray(at: trailerOffset, byteCount: SegmentTrailer.byteCount)
        let trailer: SegmentTrailer
        do throws(FormatError) {
            trailer = try SegmentTrailer.decode(
                end, fileByteCount: byteCount, directory: directory, segment: number)
        } catch {
            if entry != nil {
                recount.report.add(
                    Finding(error, file: name, offset: trailerOffset, what: "trailer"))
            }
            return nil
        }
        let bytes = try file.readArray(
            at: trailer.footerOffset, byteCount: Int(trailer.footerByteCount))
        do throws(FormatError) {
            let footer = try SegmentFooter.decode(bytes, trailer: trailer)
            let tables = try FooterTables(head: bytes, trailer: trailer)
            return Footer(
                footer: footer, trailer: trailer,
                rewardDaysOffset: try tables.pagesRange(FooterTables.rewardDays).lowerBound,
                daysOffset: try tables.pagesRange(FooterTables.days).lowerBound)
        } catch {
            // Its end may have reached the disk and its beginning not.
            if entry == nil, try TailJudge.isTornFooter(file, from: trailer.footerOffset) {
                return nil
            }
            recount.report.add(
                Finding(error, file: name, offset: trailer.footerOffset, what: "footer"))
            return nil
        }
    }

    private func checkSealed(
        _ file: Files.File, _ footer: Footer, _ memory: ScanMemory,
        _ recount: inout SegmentRecount
    ) throws(StorageError) {
        if let entry { compare(entry, footer, &recount) }
        try countBlocks(file, footer, memory, &recount)
        let isWhole = recount.isWhole
        recount.footerWindows = .init(windows: footer.footer.windows, offset: footer.offset)
        reportLost(footer, &recount)
        for gap in footer.footer.gaps(footerOffset: footer.offset) {
            try checkZeros(file, gap, &recount)
        }
        endChain(footer, &recount, isWhole: isWhole)
        recount.close(at: LogPosition(segment: number, blockCount: footer.footer.blockCount))
        func source(_ kind: TableKind, _ table: CounterTable, _ offset: UInt64) -> RowSource {
            let span = LogSpan(firstSegment: number, end: footer.footer.end)
            return RowSource(
                RunReader<Files>(
                    kind, of: span, table.index, directory, pagesAt: offset, in: file),
                name: .segment(number))
        }
        var rows = source(.rewardDays, footer.footer.rewardDays, footer.rewardDaysOffset)
        recount.rows = rows
        recount.days = source(.days, footer.footer.days, footer.daysOffset)
        guard isWhole else { return }
        do throws(StorageError) {
            let found = try fingerprint(of: rows, memory)
            rows.fingerprint = found
            recount.rows = rows
            if found != memory.count.fingerprint {
                try compareRows(rows, file, footer, memory, &recount)
            }
        } catch {
            guard error.isOfData else { throw error }
            recount.report.add(Finding(error, file: name, what: "counters of the footer"))
            recount.rows = try countAgain(file, footer, memory)
        }
        compareSums(footer, &recount)
    }

    /// The manifest against the footer.
    private func compare(
        _ entry: SealedSegment, _ footer: Footer, _ recount: inout SegmentRecount
    ) {
        let found = footer.footer.entry(trailer: footer.trailer)
        recount.report.hold(
            [
                (
                    "footer checksum in the manifest", found.footerChecksum, entry.footerChecksum
                ),
                ("byte count in the manifest", found.byteCount, entry.byteCount),
            ], in: name, at: footer.offset)
        if found != entry && found.footerChecksum == entry.footerChecksum {
            recount.report.add(
                .difference, "what the manifest keeps of the segment", in: name, at: footer.offset,
                got: "\(entry)", expected: "\(found)")
        }
    }

    // MARK: Blocks

    /// Counts all blocks of the index.
    private func countBlocks(
        _ file: Files.File, _ footer: Footer, _ memory: ScanMemory,
        _ recount: inout SegmentRecount
    ) throws(StorageError) {
        var next: UInt32 = 0
        for entry in footer.footer.blocks {
            if meter.isStopped { break }
            if entry.ordinal != next {
                checkGap(next..<entry.ordinal, entry.offset, footer, &recount)
            }
            next = entry.ordinal &+ 1
            try memory.buffer.read(file, at: entry.offset, byteCount: entry.summary.byteCount)
            let header = count(memory, at: entry.offset, ordinal: entry.ordinal, &recount)
            guard let header else {
                recount.isWhole = false
                recount.breakChain()
                continue
            }
            if header.summary != entry.summary {
                recount.report.add(
                    .difference, "block \(entry.ordinal) in the index", in: name, at: footer.offset,
                    got: "\(entry.summary)", expected: "\(header.summary)")
            }
        }
        if meter.isStopped {
            recount.isWhole = false
            return
        }
        if next != footer.footer.blockCount {
            checkGap(next..<max(next, footer.footer.blockCount), footer.offset, footer, &recount)
        }
    }

    /// Counts the block whose bytes are in the buffer.
    /// - Returns: its header; `nil` if it cannot be read, which has been reported.
    func count(
        _ memory: ScanMemory, at offset: UInt64, ordinal: UInt32, _ recount: inout SegmentRecount
    ) -> BlockHeader? {
        let place = BlockPlace(directory: directory, segment: number, blockOrdinal: ordinal)
        do throws(FormatError) {
            let (block, outcome) = try memory.countBlock(at: place)
            recount.add(
                block, outcome, hash: memory.names, at: offset,
                moneyMicros: memory.count.moneyMicros
            )
            meter.add(byteCount: memory.buffer.byteCount)
            return block.header
        } catch {
            recount.report.add(Finding(error, file: name, offset: offset, what: "block"))
            return nil
        }
    }

    /// Ordinals that no block has: each must be recorded as lost.
    private func checkGap(
        _ ordinals: Range<UInt32>, _ offset: UInt64, _ footer: Footer,
        _ recount: inout SegmentRecount
    ) {
        recount.breakChain()
        let lost = footer.footer.lost.reduce(UInt64(0)) { sum, range in
            let lower = max(range.firstBlock, ordinals.lowerBound)
            let upper = min(range.firstBlock &+ range.blockCount, ordinals.upperBound)
            return sum + UInt64(upper > lower ? upper - lower : 0)
        }
        if lost < UInt64(ordinals.count) {
            recount.report.add(
                .corruption, "blocks missing and not recorded as lost", in: name, at: offset,
                got: "next block \(ordinals.upperBound)", expected: "block \(ordinals.lowerBound)")
        }
    }

    /// Reports the first byte of a range that is not zero.
    private func checkZeros(
        _ file: Files.File, _ range: Range<UInt64>, _ recount: inout SegmentRecount
    ) throws(StorageError) {
        var offset = range.lowerBound
        while offset < range.upperBound {
            let count = Int(min(range.upperBound - offset, 1 << 20))
            let bytes = try file.readArray(at: offset, byteCount: count)
            if let index = bytes.firstIndex(where: { $0 != 0 }) {
                recount.report.add(
                    .corruption, "a byte between blocks", in: name, at: offset + UInt64(index),
                    got: "\(bytes[index])", expected: "0")
                return
            }
            if bytes.count < count { return }
            offset += UInt64(count)
        }
    }

    // MARK: Footer against blocks

    private func reportLost(_ footer: Footer, _ recount: inout SegmentRecount) {
        let lost = footer.footer.lost
        recount.hasLosses = !lost.isEmpty
        recount.lostRowCount = lost.reduce(0) { $0.saturatingSum($1.rowCount ?? .max) }
        if entry != nil && lost != segment.lost {
            recount.report.add(
                .difference, "lost ranges of the segment in the manifest", in: name,
                at: footer.offset,
                got: "\(segment.lost)", expected: "\(lost)")
        }
        for range in lost {
            recount.report.add(
                .evidenceLost,
                "\(range.rowCountText) in \(range.blockCount) blocks from block "
                    + "\(range.firstBlock) on, \(range.byteCount) bytes", in: name, at: range.offset
            )
        }
    }

    private func fingerprint(
        of rows: RowSource, _ memory: ScanMemory
    ) throws(StorageError) -> Fingerprint {
        var prints = Fingerprints()
        try rows.read(0...UInt32.max, memory.page) {
            memory.hash.add($0, to: &prints, folds: false) { _ in 0 }
        }
        return prints.rows
    }

    /// The rows themselves, of a segment that was counted and whose footer says otherwise.
    private func countAgain(
        _ file: Files.File, _ footer: Footer, _ memory: ScanMemory
    ) throws(StorageError) -> RowSource? {
        var recount = SegmentRecount(number, isBeforeCut: segment.isBeforeCut)
        memory.count.removeAll(keepsRows: true)
        try countBlocks(file, footer, memory, &recount)
        return recount.isWhole ? memory.rows(of: number) : nil
    }

    private func compareRows(
        _ rows: RowSource, _ file: Files.File, _ footer: Footer, _ memory: ScanMemory,
        _ recount: inout SegmentRecount
    ) throws(StorageError) {
        guard let counted = try countAgain(file, footer, memory) else { return }
        let list = try TableCheck.compare(rows, to: counted)
        if list.count == 0 { return }
        recount.footerDifferences = (list, footer.offset)
        recount.rows = counted
    }

    private func compareSums(_ footer: Footer, _ recount: inout SegmentRecount) {
        let (found, rowCount) = (footer.footer, recount.report.rowCount)
        let times =
            rowCount == 0 ? (0, 0) : (recount.minTimestamp, recount.maxTimestamp)
        recount.report.hold(
            [
                ("rows in the footer", found.rowCount, rowCount),
                ("least event time in the footer", found.minTimestamp, times.0),
                ("greatest event time in the footer", found.maxTimestamp, times.1),
            ], .difference, in: name, at: footer.offset)
        if let difference = recount.ledger.difference(from: found.ledger) {
            recount.report.add(
                .difference, difference.what, in: name, at: footer.offset, got: difference.got,
                expected: difference.expected)
        }
    }

    /// What the footer hands on to the next segment.
    private func endChain(_ found: Footer, _ recount: inout SegmentRecount, isWhole: Bool) {
        let (footer, chain) = (found.footer, recount.chain)
        if isWhole && footer.lost.isEmpty {
            recount.report.hold(
                [
                    (
                        "last block's checksum in the footer", footer.lastBlockChecksum,
                        chain.previousChecksum
                    ),
                    ("next name in the footer", footer.names.upperBound, chain.nextName),
                    ("next key in the footer", footer.keys.upperBound, chain.nextKey),
                ], in: name, at: found.offset)
        }
        recount.end(
            with: Chain(
                previousChecksum: footer.lastBlockChecksum, nextName: footer.names.upperBound,
                nextKey: footer.keys.upperBound, commitEpoch: chain.commitEpoch,
                endEpoch: footer.commitEpoch,
                endsInLoss: footer.lost.contains {
                    $0.firstBlock &+ $0.blockCount == footer.blockCount
                }))
    }
}
