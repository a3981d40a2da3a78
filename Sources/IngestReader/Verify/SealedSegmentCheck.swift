// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// Checks a segment that has a sound footer: every block that the index names, the zeros between them, and
/// that footer and manifest say what the blocks add up to.
struct SealedSegmentCheck<Files: FileSystem> {
    let segment: SegmentCheck<Files>
    let footer: SegmentFooter
    let trailer: SegmentTrailer
    let file: Files.File

    private var name: String { segment.name }
    private var footerOffset: UInt64 { trailer.footerOffset }

    func run(
        _ header: SegmentHeader?, _ recount: inout LogRecount
    ) throws(StorageError) {
        if let entry = segment.entry { compare(entry, &recount) }
        let isWhole = try countBlocks(&recount)
        reportLost(&recount)
        try checkGaps(&recount)
        let position = LogPosition(segment: segment.number, blockCount: footer.blockCount)
        let counters = table(&recount)
        if isWhole {
            compareCounters(counters, &recount)
            compareSums(&recount)
        }
        endChain(&recount, isWhole: isWhole)
        recount.endSegment(at: position, counters: isWhole ? nil : counters)
    }

    /// The manifest against the footer.
    private func compare(_ entry: SealedSegment, _ recount: inout LogRecount) {
        var found = footer.entry(trailer: trailer)
        found.state = entry.state
        recount.expect(
            found.footerChecksum, entry.footerChecksum, "footer checksum in the manifest", in: name,
            at: footerOffset)
        recount.expect(
            found.byteCount, entry.byteCount, "byte count in the manifest", in: name, at: nil)
        if found != entry && found.footerChecksum == entry.footerChecksum {
            recount.report.add(
                Finding(
                    .difference, file: name, offset: footerOffset,
                    what: "what the manifest keeps of the segment", got: "\(entry)",
                    expected: "\(found)"))
        }
    }

    /// - Returns: whether all blocks of the index could be counted.
    private func countBlocks(_ recount: inout LogRecount) throws(StorageError) -> Bool {
        var isWhole = true
        var ordinal: UInt32 = 0
        for entry in footer.blocks {
            if entry.ordinal != ordinal {
                checkGap(from: ordinal, to: entry.ordinal, at: entry.offset, &recount)
            }
            ordinal = entry.ordinal &+ 1
            try segment.buffer.read(file, at: entry.offset, byteCount: entry.summary.byteCount)
            let header = segment.countBuffered(
                at: entry.offset, ordinal: entry.ordinal, &recount)
            if let header {
                if header.summary != entry.summary {
                    recount.report.add(
                        Finding(
                            .difference, file: name, offset: footerOffset,
                            what: "block \(entry.ordinal) in the index", got: "\(entry.summary)",
                            expected: "\(header.summary)"))
                }
            } else {
                isWhole = false
                recount.breakChain()
            }
        }
        if ordinal != footer.blockCount {
            checkGap(from: ordinal, to: footer.blockCount, at: footerOffset, &recount)
        }
        return isWhole
    }

    /// Ordinals that no block has: each must be recorded as lost.
    private func checkGap(
        from first: UInt32, to end: UInt32, at offset: UInt64, _ recount: inout LogRecount
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

    private func reportLost(_ recount: inout LogRecount) {
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

    private func checkGaps(_ recount: inout LogRecount) throws(StorageError) {
        for gap in footer.gaps(footerOffset: footerOffset) {
            try segment.checkZeros(file, gap, &recount)
        }
    }

    // MARK: Footer against blocks

    /// The footer's counters by what the names say.
    private func table(_ recount: inout LogRecount) -> Tally {
        var tally = Tally()
        let page = CounterPage()
        var cursor = footer.counters.makeCursor()
        do throws(FormatError) {
            while try cursor.nextPage(into: page) {
                for row in 0..<page.rowCount {
                    tally.add(
                        page.counters(row), item: recount.names.pair(ofKey: page.key(row)),
                        day: page.day(row))
                }
            }
        } catch {
            recount.report.add(
                Finding(error, file: name, offset: footerOffset, what: "counters of the footer"))
        }
        return tally
    }

    private func compareCounters(_ found: Tally, _ recount: inout LogRecount) {
        let names = recount.names
        var findings: [Finding] = []
        recount.segmentTally.differences(from: found) { difference in
            findings.append(
                Finding(difference, file: name, offset: footerOffset, of: "footer") {
                    names.describe(pair: $0)
                })
        }
        for finding in findings { recount.report.add(finding) }
    }

    private func compareSums(_ recount: inout LogRecount) {
        let rowCount = recount.segmentRowCount
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
        if let found = recount.segmentLedger.difference(from: footer.ledger) {
            recount.report.add(
                Finding(
                    .difference, file: name, offset: footerOffset, what: found.what,
                    got: found.got, expected: found.expected))
        }
    }

    /// What the footer hands on to the next segment.
    private func endChain(_ recount: inout LogRecount, isWhole: Bool) {
        if isWhole && footer.lost.isEmpty {
            let chain = recount.chain
            recount.expect(
                footer.lastBlockChecksum, chain.previousChecksum,
                "last block's checksum in the footer",
                in: name, at: footerOffset)
            recount.expect(
                footer.names.upperBound, chain.nextName, "next name in the footer", in: name,
                at: footerOffset)
            recount.expect(
                footer.keys.upperBound, chain.nextKey, "next key in the footer", in: name,
                at: footerOffset)
        }
        recount.chain = LogRecount.Chain(
            previousChecksum: footer.lastBlockChecksum, nextName: footer.names.upperBound,
            nextKey: footer.keys.upperBound, commitEpoch: recount.chain.commitEpoch,
            endEpoch: footer.commitEpoch,
            endsInLoss: footer.lost.contains {
                $0.firstBlock &+ $0.blockCount == footer.blockCount
            })
    }
}
