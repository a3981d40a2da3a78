// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

import IngestFormat
import IngestStorage

/// Bytes of the sections of one kind, over all blocks of a segment.
private struct SectionTotal {
    var count = 0
    var rawByteCount = 0
    var byteCount = 0
    /// By how they are encoded.
    var encodings: [String: Int] = [:]

    mutating func add(_ entry: BlockSectionEntry) {
        count += 1
        rawByteCount += entry.rawByteCount
        byteCount += entry.byteCount
        encodings[entry.encoding.text, default: 0] += 1
    }

    var text: String {
        let forms = encodings.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { "\($0.key) × \($0.value)" }.joined(separator: ", ")
        return "\(byteCount) of \(rawByteCount) bytes in \(count) sections: \(forms)"
    }
}

extension SectionEncoding {
    fileprivate var text: String {
        let form = form.map { "\($0)" } ?? "form \(rawValue & 15)"
        return form + (exponent > 0 ? " × 10^\(exponent)" : "") + (isCompressed ? " + lz4" : "")
    }
}

extension Inspector {
    mutating func describeSegment(
        _ file: Files.File, byteCount: UInt64
    ) throws(StorageError) {
        let header = try describeHeader(file)
        let sealed = try describeFooter(file, byteCount: byteCount)
        if let header, let footer = sealed?.footer, footer.headerChecksum != header.checksum {
            bad("the footer is of another header: checksum \(Self.hex(footer.headerChecksum))")
        }
        try describeBlocks(file, footer: sealed?.footer)
        if let (footer, trailer) = sealed {
            describe(footer, trailer)
            try describeSections(file, trailer)
            describeCounters(footer)
            cannotSee("names (they are in names runs and in the blocks that introduced them)")
        } else {
            line("unsealed", "no footer: a daemon is writing it, or did not end cleanly")
            cannotSee("how much of it is durable: see durable-mark")
        }
        cannotSee("whether counters are what the rows say: ingest-reader verify recounts them")
    }

    private mutating func describeHeader(
        _ file: Files.File
    ) throws(StorageError) -> SegmentHeader? {
        let bytes = try file.readArray(at: 0, byteCount: SegmentHeader.byteCount)
        let number: SegmentNumber?
        if case .segment(let meantNumber)? = meant { number = meantNumber } else { number = nil }
        let header = decoding("header", at: 0) { () throws(FormatError) in
            try SegmentHeader.decode(bytes, segment: number)
        }
        guard let header else { return nil }
        let gap = UInt64(SegmentHeader.byteCount)..<SegmentLayout.blocksOffset
        let gapEnd = min(try file.byteCount(), gap.upperBound)
        let end = try file.endOfContent(in: gap.lowerBound..<max(gap.lowerBound, gapEnd))
        if end > gap.lowerBound { bad("bytes between header and blocks at offset \(end - 1)") }
        line("header", "segment \(header.segment.rawValue), shard \(header.shard)")
        indented(Self.text(header.encode(), SegmentHeader.layout))
        return header
    }

    // MARK: Blocks

    private mutating func describeBlocks(
        _ file: Files.File, footer: SegmentFooter?
    ) throws(StorageError) {
        var totals: [BlockSectionKind: SectionTotal] = [:]
        let buffer = ReadBuffer()
        if let footer {
            for entry in footer.blocks {
                try buffer.read(file, at: entry.offset, byteCount: entry.summary.byteCount)
                describeBuffered(at: entry.offset, buffer, &totals)
            }
        } else {
            var walk = BlockWalk(file, place: .anywhere)
            while true {
                let (offset, ordinal) = (walk.offset, walk.ordinal)
                walk.resume(at: offset, ordinal: ordinal)
                let step = try walk.next(into: buffer)
                guard case .block = step else {
                    describeEnd(step, at: offset)
                    break
                }
                describeBuffered(at: offset, buffer, &totals)
            }
        }
        for kind in BlockSectionKind.allCases {
            guard let total = totals[kind] else { continue }
            line("sections", "\(kind.name): \(total.text)")
        }
    }

    private mutating func describeEnd(_ step: BlockWalk<Files.File>.Step, at offset: UInt64) {
        switch step {
        case .nothing, .block: line("end", "no block from offset \(offset) on")
        case .damaged(_, let error), .unreadable(let error):
            bad("no block at offset \(offset): \(error)")
        }
    }

    private mutating func describeBuffered(
        at offset: UInt64, _ buffer: ReadBuffer,
        _ totals: inout [BlockSectionKind: SectionTotal]
    ) {
        let decoder = BlockDecoder()
        let block = decoding("block", at: offset) { () throws(FormatError) in
            try buffer.withBytes { (bytes) throws(FormatError) in
                (header: try decoder.check(bytes), sections: try decoder.sections(bytes))
            }
        }
        guard let block else { return }
        describe(block.header, at: offset)
        for entry in block.sections {
            totals[entry.kind, default: SectionTotal()].add(entry)
            indented(
                "\(entry.kind.name) at +\(entry.offset): \(entry.encoding.text), parameter "
                    + "\(entry.parameter), \(entry.byteCount) of \(entry.rawByteCount) bytes")
        }
    }

    private func describe(_ header: BlockHeader, at offset: UInt64) {
        let context = header.context
        line(
            "block \(context.blockOrdinal)",
            "offset \(offset), \(header.byteCount) bytes, \(header.rowCount) rows, "
                + "\(header.nameCount) names from \(context.firstName.rawValue), "
                + "\(header.keyCount) keys from \(context.firstKey.rawValue), "
                + "\(header.ledgerEntryCount) ledger entries")
        if header.rowCount > 0 {
            indented(
                "events \(TimeText.utc(header.minTimestamp)) … \(TimeText.utc(header.maxTimestamp))"
            )
        }
        indented(
            "admitted \(TimeText.utc(context.admissionTime)) by policy \(context.policyVersion), "
                + "zones \(Self.hex(context.zoneVersion)), "
                + "commit epoch \(context.commitEpoch)")
        if let rewritten = context.rewritten {
            indented(
                "\(rewritten.count) commits rewritten, the last admitted "
                    + "\(TimeText.utc(rewritten.lastAdmissionTime)), its checksum "
                    + Self.hex(rewritten.lastChecksum))
        }
        indented(
            "checksum \(Self.hex(header.headerChecksum)), of the block before "
                + Self.hex(context.previousChecksum))
    }

    // MARK: Footer

    private mutating func describeFooter(
        _ file: Files.File, byteCount: UInt64
    ) throws(StorageError) -> (footer: SegmentFooter, trailer: SegmentTrailer)? {
        let trailerByteCount = UInt64(SegmentTrailer.byteCount)
        guard byteCount >= trailerByteCount + UInt64(SegmentHeader.byteCount) else { return nil }
        let end = try file.readArray(
            at: byteCount - trailerByteCount, byteCount: SegmentTrailer.byteCount)
        let trailer: SegmentTrailer
        do throws(FormatError) {
            trailer = try SegmentTrailer.decode(end, fileByteCount: byteCount)
        } catch {
            // Another magic is what an unsealed segment ends with.
            if case .notThisFile = error { return nil }
            bad("trailer at offset \(byteCount - trailerByteCount): \(error)")
            return nil
        }
        let bytes = try file.readArray(
            at: trailer.footerOffset, byteCount: Int(trailer.footerByteCount))
        let footer = decoding("footer", at: trailer.footerOffset) { () throws(FormatError) in
            try SegmentFooter.decode(bytes, trailer: trailer)
        }
        return footer.map { ($0, trailer) }
    }

    private func describe(_ footer: SegmentFooter, _ trailer: SegmentTrailer) {
        line(
            "footer",
            "offset \(trailer.footerOffset), \(trailer.footerByteCount) bytes, checksum "
                + Self.hex(trailer.footerChecksum))
        indented("sealed \(TimeText.utc(footer.sealedAt))")
        indented(
            "\(footer.blockCount) blocks, \(footer.rowCount) rows, names "
                + "\(footer.names.lowerBound) ..< \(footer.names.upperBound), keys "
                + "\(footer.keys.lowerBound) ..< \(footer.keys.upperBound)")
        if footer.rowCount > 0 {
            indented(
                "events \(TimeText.utc(footer.minTimestamp)) … \(TimeText.utc(footer.maxTimestamp))"
            )
        }
        for entry in footer.ledger { line("ledger", entry.text) }
        for range in footer.lost { line("lost", range.text) }
    }

    /// The footer's section table, entry by entry; the footer was decoded, so that it is sound.
    private func describeSections(
        _ file: Files.File, _ trailer: SegmentTrailer
    ) throws(StorageError) {
        let layout = SegmentFooter.SectionTable.Entry.layout
        let start = trailer.footerOffset + UInt64(SegmentFooter.layout.byteCount)
        let bytes = try file.readArray(
            at: start, byteCount: SegmentFooter.Section.allCases.count * layout.byteCount)
        for (place, section) in SegmentFooter.Section.allCases.enumerated() {
            let image = Array(bytes[place * layout.byteCount..<(place + 1) * layout.byteCount])
            indented("section \(section): \(Self.text(image, layout))")
        }
    }

    private mutating func describeCounters(_ footer: SegmentFooter) {
        for (name, table) in [("reward-days", footer.rewardDays), ("days", footer.days)] {
            line(name, "\(table.rowCount) rows in \(table.index.entries.count) pages")
            var cursor = table.makeCursor()
            let page = CounterPage()
            _ = decoding("\(name) of the footer", at: 0) { () throws(FormatError) in
                while try cursor.nextPage(into: page) {}
            }
        }
        line("attributions", "\(footer.attributions.count) of keys, campaigns and sources")
    }
}

extension LedgerEntry {
    var text: String {
        func counts(_ values: [UInt64], _ name: (Int) -> String?) -> String {
            let named = values.enumerated().filter { $0.element > 0 }
                .map { "\(name($0.offset) ?? "?") \($0.element)" }
            return named.isEmpty ? "none" : named.joined(separator: ", ")
        }
        let sender =
            key.kind == .framed
            ? "sender \(key.sender.rawValue) epoch \(key.epoch.rawValue)" : "\(key.kind)"
        return "\(sender): packets "
            + counts(packets) { PacketResult(rawValue: UInt8($0))?.name }
            + "; events " + counts(events) { Verdict(rawValue: UInt8($0))?.name }
            + (key.kind == .framed ? "; \(sequences.count) sequence ranges" : "")
    }
}

extension LostRange {
    var text: String {
        "segment \(segment.rawValue), \(blockCount) blocks from block \(firstBlock) on, \(byteCount) bytes "
            + "at offset \(offset), \(rowCount.map { "\($0)" } ?? "an unknown number of") rows, names "
            + "\(names.lowerBound) ..< \(names.upperBound), keys "
            + "\(keys.lowerBound) ..< \(keys.upperBound)"
    }
}
