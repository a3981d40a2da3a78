// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// Checks a segment that has a sound footer: every block that the index names, the zeros between them, and
/// that footer and manifest say what the blocks add up to.
struct SealedSegmentCheck<Files: FileSystem>: Sendable {
    let segment: SegmentCheck<Files>
    let footer: SegmentFooter
    let trailer: SegmentTrailer
    let file: Files.File

    private var name: String { segment.name }
    private var footerOffset: UInt64 { trailer.footerOffset }

    func run(_ thread: RecountThread, _ recount: inout SegmentRecount) throws(StorageError) {
        if let entry = segment.entry { compare(entry, &recount) }
        try countBlocks(thread, &recount)
        let isWhole = recount.isWhole
        recount.footerWindows = .init(windows: footer.windows, offset: footerOffset)
        reportLost(&recount)
        try checkGaps(&recount)
        endChain(&recount, isWhole: isWhole)
        recount.close(at: LogPosition(segment: segment.number, blockCount: footer.blockCount))
        if isWhole {
            compareCounters(&recount)
            compareSums(&recount)
        } else {
            recount.footerTally = table(&recount)
        }
    }

    /// The manifest against the footer.
    private func compare(_ entry: SealedSegment, _ recount: inout SegmentRecount) {
        let found = footer.entry(trailer: trailer)
        recount.report.expect(
            found.footerChecksum, entry.footerChecksum, "footer checksum in the manifest", in: name,
            at: footerOffset)
        recount.report.expect(
            found.byteCount, entry.byteCount, "byte count in the manifest", in: name, at: nil)
        if found != entry && found.footerChecksum == entry.footerChecksum {
            recount.report.add(
                Finding(
                    .difference, file: name, offset: footerOffset,
                    what: "what the manifest keeps of the segment", got: "\(entry)",
                    expected: "\(found)"))
        }
    }

    /// Counts all blocks of the index, in stretches that several threads may take.
    private func countBlocks(
        _ thread: RecountThread, _ recount: inout SegmentRecount
    ) throws(StorageError) {
        let work = StretchWork(
            footer.blocks.map { .init(ordinal: $0.ordinal, rowCount: $0.summary.rowCount) },
            of: recount, rowCount: segment.stretchRowCount
        ) { [self] (blocks, memory, stretch) throws(StorageError) in
            try count(blocks, memory, &stretch)
        }
        try work.run(thread, &recount)
        let end = footer.blocks.last.map { $0.ordinal &+ 1 } ?? 0
        if end != footer.blockCount {
            checkGap(from: end, to: footer.blockCount, at: footerOffset, &recount)
        }
        if segment.meter.isStopped { recount.isWhole = false }
    }

    /// Counts some blocks of the index.
    private func count(
        _ blocks: Range<Int>, _ memory: RecountMemory, _ recount: inout SegmentRecount
    ) throws(StorageError) {
        for index in blocks {
            if segment.meter.isStopped { return }
            let entry = footer.blocks[index]
            let ordinal = index == 0 ? 0 : footer.blocks[index - 1].ordinal &+ 1
            if entry.ordinal != ordinal {
                checkGap(from: ordinal, to: entry.ordinal, at: entry.offset, &recount)
            }
            try memory.buffer.read(file, at: entry.offset, byteCount: entry.summary.byteCount)
            let header = segment.countBuffered(
                at: entry.offset, ordinal: entry.ordinal, memory, &recount)
            guard let header else {
                recount.isWhole = false
                recount.breakChain()
                continue
            }
            if header.summary != entry.summary {
                recount.report.add(
                    Finding(
                        .difference, file: name, offset: footerOffset,
                        what: "block \(entry.ordinal) in the index", got: "\(entry.summary)",
                        expected: "\(header.summary)"))
            }
        }
    }

    /// Ordinals that no block has: each must be recorded as lost.
    private func checkGap(
        from first: UInt32, to end: UInt32, at offset: UInt64, _ recount: inout SegmentRecount
    ) {
        recount.breakChain()
        let lost = footer.lost.reduce(UInt64(0)) { sum, range in
            let lower = max(range.firstBlock, first)
            let upper = min(range.firstBlock &+ range.blockCount, end)
            return sum + UInt64(upper > lower ? upper - lower : 0)
        }
        if end < first || lost < UInt64(end - first) {
            recount.report.add(
                Finding(
                    .corruption, file: name, offset: offset,
                    what: "blocks missing and not recorded as lost", got: "next block \(end)",
                    expected: "block \(first)"))
        }
    }

    private func reportLost(_ recount: inout SegmentRecount) {
        recount.hasLosses = !footer.lost.isEmpty
        recount.lostRowCount = footer.lost.reduce(0) { $0.saturatingSum($1.rowCount ?? .max) }
        if segment.entry != nil && footer.lost != segment.segment.lost {
            recount.report.add(
                Finding(
                    .difference, file: name, offset: footerOffset,
                    what: "lost ranges of the segment in the manifest",
                    got: "\(segment.segment.lost)", expected: "\(footer.lost)"))
        }
        for range in footer.lost {
            let count = range.rowCount.map { "\($0) events" } ?? "an unknown number of events"
            recount.report.add(
                Finding(
                    .evidenceLost, file: name, offset: range.offset,
                    what:
                        "\(count) in \(range.blockCount) blocks from block \(range.firstBlock) on, "
                        + "\(range.byteCount) bytes"))
        }
    }

    private func checkGaps(_ recount: inout SegmentRecount) throws(StorageError) {
        for gap in footer.gaps(footerOffset: footerOffset) {
            try segment.checkZeros(file, gap, &recount)
        }
    }

    // MARK: Footer against blocks

    /// The footer's counters, for want of blocks.
    private func table(_ recount: inout SegmentRecount) -> Tally? {
        var builder = TallyBuilder(capacity: 0)
        let page = CounterPage()
        var cursor = footer.counters.makeCursor()
        do throws(FormatError) {
            while try cursor.nextPage(into: page) {
                for row in 0..<page.rowCount {
                    guard page.key(row) < Tally.itemCountMax else {
                        throw .corrupt(
                            "key", at: 0, got: page.key(row),
                            expected: .atMost(Tally.itemCountMax - 1))
                    }
                    builder.append(
                        CheckedRow(counters: page.counters(row)),
                        at: Tally.Place(item: page.key(row), day: page.day(row)))
                }
            }
            return builder.finish()
        } catch {
            report(error, &recount)
            return nil
        }
    }

    private func report(_ error: FormatError, _ recount: inout SegmentRecount) {
        recount.report.add(
            Finding(error, file: name, offset: footerOffset, what: "counters of the footer"))
    }

    private func compareCounters(_ recount: inout SegmentRecount) {
        let comparison = TallyComparison.run(
            { [footer.counters.makeCursor()] }, to: .init(tally: recount.tally))
        if let failure = comparison.failures.first { return report(failure.error, &recount) }
        recount.footerComparison = .init(
            offset: footerOffset, differences: comparison.differences)
    }

    private func compareSums(_ recount: inout SegmentRecount) {
        let rowCount = recount.rowCount
        let minTimestamp = rowCount == 0 ? 0 : recount.minTimestamp
        let maxTimestamp = rowCount == 0 ? 0 : recount.maxTimestamp
        for (what, got, expected) in [
            ("rows", "\(footer.rowCount)", "\(rowCount)"),
            ("least event time", "\(footer.minTimestamp)", "\(minTimestamp)"),
            ("greatest event time", "\(footer.maxTimestamp)", "\(maxTimestamp)"),
        ] where got != expected {
            recount.report.add(
                Finding(
                    .difference, file: name, offset: footerOffset, what: "\(what) in the footer",
                    got: got, expected: expected))
        }
        if let found = recount.ledger.difference(from: footer.ledger) {
            recount.report.add(
                Finding(
                    .difference, file: name, offset: footerOffset, what: found.what,
                    got: found.got, expected: found.expected))
        }
    }

    /// What the footer hands on to the next segment.
    private func endChain(_ recount: inout SegmentRecount, isWhole: Bool) {
        if isWhole && footer.lost.isEmpty {
            let chain = recount.chain
            recount.report.expect(
                footer.lastBlockChecksum, chain.previousChecksum,
                "last block's checksum in the footer",
                in: name, at: footerOffset)
            recount.report.expect(
                footer.names.upperBound, chain.nextName, "next name in the footer", in: name,
                at: footerOffset)
            recount.report.expect(
                footer.keys.upperBound, chain.nextKey, "next key in the footer", in: name,
                at: footerOffset)
        }
        recount.end(
            with: Chain(
                previousChecksum: footer.lastBlockChecksum, nextName: footer.names.upperBound,
                nextKey: footer.keys.upperBound, commitEpoch: recount.chain.commitEpoch,
                endEpoch: footer.commitEpoch,
                endsInLoss: footer.lost.contains {
                    $0.firstBlock &+ $0.blockCount == footer.blockCount
                }))
    }
}
