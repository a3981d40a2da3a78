// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → query
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
