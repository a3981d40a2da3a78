// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import IngestFormat

/// Why a run was not written.
package enum RunWriteError<Failure: Error>: Error {
    case storage(StorageError)
    /// The rows could not be had.
    case source(Failure)
}

/// Sorted rows → the file of a run, in constant memory.
package enum RunWriter {
    /// Writes a run of all rows that `makeRows` gives.
    ///
    /// Its bytes are durable at return; its name is after the next `ManifestStore.publish`.
    /// - Parameter makeRows: called again, for the same rows, if the first file had to be given up.
    package static func write<Files: FileSystem, Source: CounterPageSource>(
        _ table: TableKind, number: FileNumber, of span: LogSpan, for manifest: Manifest,
        metadata: RunMetadata = RunMetadata(), in files: Files, rows makeRows: () -> Source
    ) throws(RunWriteError<Source.Failure>) -> RunEntry {
        var failure: Source.Failure?
        do {
            return try DurableFile.write(.run(table, number), in: files) {
                (recorder) throws(StorageError) in
                failure = nil
                let index = try writePages(table, makeRows(), to: &recorder, &failure)
                return try finish(
                    RunHeader(
                        table: table, fileNumber: number, directory: manifest.directory, span: span,
                        generation: manifest.generation, createdAt: manifest.createdAt,
                        index: index, metadata: metadata), index, metadata, &recorder)
            }
        } catch {
            throw failure.map { .source($0) } ?? .storage(error)
        }
    }

    /// Writes what is around the pages.
    private static func finish<File: StorageFile>(
        _ header: RunHeader, _ index: CounterPageIndex, _ metadata: RunMetadata,
        _ recorder: inout WriteRecorder<File>
    ) throws(StorageError) -> RunEntry {
        let head = header.encode()
        // What no reader takes must not be relied on.
        try StorageError.decoding(recorder.file.path) { () throws(FormatError) in
            let raw = try header.decodeMetadata(metadata.bytes)
            switch header.table {
            case _ where raw.isEmpty: break
            case .expired: _ = try ExpiredSegments.decode(raw, of: header.span)
            case .rewardDays: _ = try SealedSegments.decode(raw, of: header.span)
            default: break
            }
        }
        try recorder.write(index.encode() + metadata.bytes, at: header.pageIndexOffset)
        try recorder.write(head, at: 0)
        // What a reader will make of it, with the checksums that the encoded bytes have.
        return try StorageError.decoding(recorder.file.path) { () throws(FormatError) in
            try RunHeader.decode(head).entry
        }
    }

    private static func writePages<File: StorageFile, Source: CounterPageSource>(
        _ table: TableKind, _ rows: Source, to recorder: inout WriteRecorder<File>,
        _ failure: inout Source.Failure?
    ) throws(StorageError) -> CounterPageIndex {
        var rows = rows
        var encoder = CounterTableEncoder(hasDay: table.hasDay)
        let page = CounterPage()
        var offset = UInt64(RunHeader.byteCount)
        while true {
            do { guard try rows.nextPage(into: page) else { break } } catch {
                failure = error
                throw .overLimit(path: recorder.file.path, detail: "the rows could not be read")
            }
            encoder.append(contentsOf: page)
            try write(encoder.takePages(), to: &recorder, at: &offset)
        }
        let rest = encoder.finish()
        try write(rest.pages, to: &recorder, at: &offset)
        return rest.index
    }

    private static func write<File: StorageFile>(
        _ bytes: [UInt8], to recorder: inout WriteRecorder<File>, at offset: inout UInt64
    ) throws(StorageError) {
        if bytes.isEmpty { return }
        try recorder.write(bytes, at: offset)
        offset += UInt64(bytes.count)
    }
}

/// Names runs that follow each other, and the names behind them that are in no run yet → one names run. The stored
/// orders are merged, never sorted again.
///
/// **Cost** A page an input and kind, 4 bytes a name for the ranks, and a few hundred KiB to write; 300 to
/// 400 ns a name with its key, read back from the disk included.
package enum NamesRunWriter {
    /// Writes a run of all names and keys of `runs` and `fresh`.
    ///
    /// Its bytes are durable at return; its name is after the next `ManifestStore.publish`.
    /// - Parameters:
    ///   - runs: each goes on where the one before ends.
    ///   - fresh: sorted; goes on where the last run ends.
    ///   - manifest: the generation that the run is made for.
    /// **Errors** `corrupt` with the path of a run that cannot be merged; those of writing.
    package static func write<Files: FileSystem>(
        _ number: FileNumber, of table: TableKind = .names,
        merging runs: [NamesRunReader<Files>], and fresh: FreshNames, for manifest: Manifest,
        in files: Files
    ) throws(StorageError) -> NamesRunEntry {
        for (run, next) in zip(runs, runs.dropFirst()) {
            precondition(run.names.upperBound == next.names.lowerBound)
            precondition(run.keys.upperBound == next.keys.lowerBound)
        }
        precondition(runs.last.map { $0.names.upperBound == fresh.firstName } ?? true)
        precondition(runs.last.map { $0.keys.upperBound == fresh.firstKey } ?? true)
        return try DurableFile.write(.run(table, number), in: files) {
            (recorder) throws(StorageError) in
            let builder = NamesRunBuilder(
                table: table, fileNumber: number, directory: manifest.directory,
                names: (runs.first?.names.lowerBound ?? fresh.firstName)..<fresh.names.upperBound,
                keys: (runs.first?.keys.lowerBound ?? fresh.firstKey)..<fresh.keyRange.upperBound,
                generation: manifest.generation, createdAt: manifest.createdAt)
            var pages = NamesPageSink(builder: builder)
            try pages.writeNames(runs.map(Self.names) + [Self.names(fresh)], to: &recorder)
            try pages.writeKeys(
                runs.map { Self.pairs(.keys, $0) } + [Self.pairs(.keys, fresh)], to: &recorder)
            try pages.writeRewards(
                runs.map { Self.pairs(.rewards, $0) } + [Self.pairs(.rewards, fresh)],
                to: &recorder)
            return try pages.finish(&recorder)
        }
    }

    fileprivate typealias Names = PageMerge<NameBatch, StorageError>
    fileprivate typealias Pairs = PageMerge<PairBatch, StorageError>

    private static func names<Files>(_ run: NamesRunReader<Files>) -> Names.Source {
        var cursor = run.makeNameCursor()
        return { (batch) throws(StorageError) in try cursor.nextNames(into: batch) }
    }

    private static func names(_ fresh: FreshNames) -> Names.Source {
        var place = 0
        return { fresh.readNames(from: &place, into: $0) }
    }

    private static func pairs<Files>(
        _ kind: NamesPageKind, _ run: NamesRunReader<Files>
    ) -> Pairs.Source {
        var cursor = run.makePairCursor(kind)
        return { (batch) throws(StorageError) in try cursor.nextPairs(into: batch) }
    }

    private static func pairs(_ kind: NamesPageKind, _ fresh: FreshNames) -> Pairs.Source {
        var place = 0
        return { fresh.readPairs(kind, from: &place, into: $0) }
    }
}

/// Pages of a run on their way to its file.
private struct NamesPageSink {
    /// Bytes that are put together before they are written.
    private static let writeByteCount = 256 << 10

    var builder: NamesRunBuilder
    private var offset = UInt64(NamesRun.Header.byteCount)

    init(builder: NamesRunBuilder) { self.builder = builder }

    mutating func writeNames<File>(
        _ sources: [NamesRunWriter.Names.Source], to recorder: inout WriteRecorder<File>
    ) throws(StorageError) {
        let page = NameBatch()
        try write(page, of: sources, to: &recorder) { $0.appendNames(page) }
    }

    /// Writes a page each time that the sources have filled one.
    /// - Parameter append: `false` where the page cannot stand behind those before it.
    private mutating func write<Batch: MergeableBatch, File>(
        _ page: Batch, of sources: [PageMerge<Batch, StorageError>.Source],
        to recorder: inout WriteRecorder<File>, _ append: (inout NamesRunBuilder) -> Bool
    ) throws(StorageError) {
        var merge = PageMerge<Batch, StorageError>(sources)
        while try merge.next(into: page) {
            guard append(&builder) else {
                throw .corrupt(
                    path: recorder.file.path, offset: 0,
                    detail: "duplicate or foreign name in the merged runs")
            }
            try write(to: &recorder)
        }
    }

    /// Keys follow each other as the sources do.
    mutating func writeKeys<File>(
        _ sources: [NamesRunWriter.Pairs.Source], to recorder: inout WriteRecorder<File>
    ) throws(StorageError) {
        let (batch, page) = (PairBatch(), PairBatch())
        for source in sources {
            while try source(batch) {
                for place in 0..<batch.count {
                    page.append(batch[place])
                    guard page.count == page.capacity else { continue }
                    builder.appendPairs(page)
                    page.removeAll()
                }
                try write(to: &recorder)
            }
        }
        if page.count > 0 { builder.appendPairs(page) }
    }

    mutating func writeRewards<File>(
        _ sources: [NamesRunWriter.Pairs.Source], to recorder: inout WriteRecorder<File>
    ) throws(StorageError) {
        let page = PairBatch()
        try write(page, of: sources, to: &recorder) {
            $0.appendPairs(page)
            return true
        }
    }

    mutating func finish<File>(
        _ recorder: inout WriteRecorder<File>
    ) throws(StorageError) -> NamesRunEntry {
        try write(to: &recorder, isLast: true)
        let (header, index) = builder.finish()
        if !index.isEmpty { try recorder.write(index, at: offset) }
        try recorder.write(header.encode(), at: 0)
        return header.entry
    }

    /// Writes what has been put together, once it is much.
    private mutating func write<File>(
        to recorder: inout WriteRecorder<File>, isLast: Bool = false
    ) throws(StorageError) {
        guard builder.waitingByteCount >= (isLast ? 1 : Self.writeByteCount) else { return }
        let bytes = builder.takeBytes()
        try recorder.write(bytes, at: offset)
        offset += UInt64(bytes.count)
    }
}
