// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestCounting
import IngestFormat

/// Carries out recovery's plans, one segment after the other. Owns the memory for it.
struct SegmentRebuild<Files: FileSystem> {
    let files: Files
    let directory: DirectoryID
    let now: Int64
    private let buffer = ReadBuffer()
    private let decoder = BlockDecoder()
    private let rows = BlockRows()
    private let counters = SegmentCounters()

    init(files: Files, directory: DirectoryID, now: Int64) {
        self.files = files
        self.directory = directory
        self.now = now
    }

    /// What goes into the new file.
    private struct Contents {
        var kept: [(offset: UInt64, header: BlockHeader)] = []
        var aside: [Range<UInt64>] = []
        var footer: SegmentFooter
        var footerOffset: UInt64
        var names: [NamesOfBlock]

        mutating func add(_ block: DecodedBlock) {
            if block.names.count == 0 && block.keys.isEmpty { return }
            names.append(
                NamesOfBlock(
                    firstName: block.header.context.firstName, names: block.names,
                    firstKey: block.header.context.firstKey, keys: block.keys))
        }
    }

    /// Seals a segment by copy under its own number.
    /// - Parameter windows: as the segment before left them.
    func seal(
        _ plan: SegmentPlan<Files>, windows: SenderWindows
    ) throws(StorageError) -> RecoveredSegment {
        let file = plan.survey.path == nil ? nil : try plan.survey.open(in: files)
        let contents: Contents
        if let intact = plan.intact {
            contents = try gather(intact.footer, at: intact.offset, of: plan.survey, file)
        } else {
            contents = try gather(plan, file, windows)
        }
        if let over = contents.footer.countOverLimit {
            throw .corrupt(
                path: plan.survey.path ?? files.path, offset: 0,
                detail: "\(over.name) of \(over.count), a footer holds \(over.max)")
        }
        let aside = try putAside(contents.aside, of: plan.survey, file)
        let trailer = try copy(plan, file, contents)
        let sealed = SealedSegmentFile(
            footer: contents.footer, entry: contents.footer.entry(trailer: trailer),
            names: contents.names)
        return RecoveredSegment(file: sealed, torn: plan.torn, aside: aside)
    }

    private func copy(
        _ plan: SegmentPlan<Files>, _ file: Files.File?, _ contents: Contents
    ) throws(StorageError) -> SegmentTrailer {
        let (footerBytes, trailer) = contents.footer.encode(at: contents.footerOffset)
        try DurableFile.write(.segment(plan.survey.number), in: files) {
            (recorder) throws(StorageError) in
            try recorder.file.allocate(to: trailer.fileByteCount)
            try recorder.write(plan.header.encode(), at: 0)
            for block in contents.kept {
                try copy(block.offset, block.header, of: file, to: &recorder)
            }
            try recorder.write(footerBytes, at: contents.footerOffset)
        }
        try files.syncDirectory()
        return trailer
    }

    /// Removes a segment file in which nothing was ever durable.
    /// - Returns: the copies of what was in it.
    func drop(_ plan: SegmentPlan<Files>) throws(StorageError) -> [String] {
        let survey = plan.survey
        var ranges = plan.aside
        let file = try survey.open(in: files)
        if survey.header == nil {
            // A header that was not finished, or was never one of ours.
            let head = 0..<UInt64(SegmentHeader.byteCount)
            let end = try file.endOfContent(in: head)
            if end > 0 { ranges.insert(0..<end, at: 0) }
        }
        let aside = try putAside(ranges, of: survey, file)
        try files.unlink(FileName.segment(survey.number).text)
        try files.syncDirectory()
        return aside
    }

    private func putAside(
        _ ranges: [Range<UInt64>], of survey: SegmentSurvey<Files>, _ file: Files.File?
    ) throws(StorageError) -> [String] {
        guard let file, ranges.contains(where: { !$0.isEmpty }) else { return [] }
        let aside = try AsideDirectory(of: files)
        var names: [String] = []
        for range in ranges where !range.isEmpty {
            let name = "\(FileName.segment(survey.number).text).at-\(range.lowerBound)"
            names.append(try aside.copy(range, of: file, as: name))
        }
        return names
    }

    // MARK: Contents

    /// A file that is as its footer says is copied with that footer.
    private func gather(
        _ footer: SegmentFooter, at footerOffset: UInt64, of survey: SegmentSurvey<Files>,
        _ file: Files.File?
    ) throws(StorageError) -> Contents {
        var contents = Contents(footer: footer, footerOffset: footerOffset, names: [])
        for case .block(let offset, let header) in survey.pieces {
            contents.kept.append((offset, header))
            if let block = try decode(offset, header, of: file, wanted: .dictionary) {
                contents.add(block)
            }
        }
        return contents
    }

    /// Everything that can be counted, and a footer that says so.
    private func gather(
        _ plan: SegmentPlan<Files>, _ file: Files.File?, _ windows: SenderWindows
    ) throws(StorageError) -> Contents {
        counters.removeAll()
        var segment = SegmentAccumulator(
            header: plan.header, counters: counters, windows: windows)
        var kept: [(offset: UInt64, header: BlockHeader)] = []
        var aside = plan.aside
        for step in plan.steps {
            switch step {
            case .lose(let lost): segment.add(lost)
            case .keep(let offset, let header):
                if try add(offset, header, of: file, to: &segment) {
                    kept.append((offset, header))
                } else {
                    // Sound bytes that no encoder of ours makes: as a bad block.
                    let range = offset..<offset + UInt64(header.byteCount)
                    segment.add(SegmentPlan<Files>.lost(header, at: range))
                    aside.append(range)
                }
            }
        }
        let footer = segment.footer(sealedAt: plan.survey.footer?.sealedAt ?? now)
        return Contents(
            kept: kept, aside: aside, footer: footer, footerOffset: segment.endOffset,
            names: segment.names)
    }

    private func add(
        _ offset: UInt64, _ header: BlockHeader, of file: Files.File?,
        to segment: inout SegmentAccumulator
    ) throws(StorageError) -> Bool {
        guard let block = try decode(offset, header, of: file, wanted: .all) else { return false }
        let outcome = segment.add(
            header.summary, ordinal: header.context.blockOrdinal, offset: offset, rows: rows,
            names: block.names, keys: block.keys, ledger: block.ledger)
        return outcome == .folded
    }

    /// Reads and decodes a block of the survey; `nil` if it is not what its checksums promise.
    private func decode(
        _ offset: UInt64, _ header: BlockHeader, of file: Files.File?,
        wanted: BlockSections
    ) throws(StorageError) -> DecodedBlock? {
        guard let file else { return nil }
        try buffer.read(file, at: offset, byteCount: header.byteCount)
        return buffer.withBytes { bytes in
            try? decoder.decode(bytes, wanted: wanted, into: rows)
        }
    }

    private func copy(
        _ offset: UInt64, _ header: BlockHeader, of file: Files.File?,
        to recorder: inout WriteRecorder<Files.File>
    ) throws(StorageError) {
        guard let file else { return }
        try buffer.read(file, at: offset, byteCount: header.byteCount)
        try buffer.withBytes { (bytes) throws(StorageError) in
            let found = try StorageError.decoding(file.path, at: offset) { () throws(FormatError) in
                try decoder.check(bytes)
            }
            guard found == header else {
                throw .corrupt(path: file.path, offset: offset, detail: "changed while it was read")
            }
            try recorder.write(bytes, at: offset)
        }
    }
}
