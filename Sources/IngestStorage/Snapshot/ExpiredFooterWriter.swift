// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestFormat

/// Folded footers → their file, some pages a turn, in constant memory but for the ledger. Owned by one stage.
///
/// The file has a temporary name until `finish`; who gives it up calls `abandon`.
package struct ExpiredFooterWriter<Files: FileSystem, Rows: CounterPageSource>: ~Copyable {
    private let files: Files
    private let temporaryName: FileName
    private let sums: ExpiredSums
    private let ledger: ExpiredLedger
    private var rows: Rows
    private var recorder: WriteRecorder<Files.File>
    private var encoder = CounterTableEncoder(hasDay: true)
    private let page = CounterPage()
    private var offset = UInt64(ExpiredHeader.byteCount)
    /// Up to where the file is durable.
    private var settledOffset: UInt64 = 0
    private var index = CounterPageIndex()
    private var hasAllPages = false

    /// What is written in one go before it is synced.
    private static var settledByteCount: UInt64 { 4 << 20 }

    /// - Parameters:
    ///   - number: one that no file has, so that the temporary name is free.
    ///   - rows: the sums of the counters by (key, day).
    package init(
        _ number: FileNumber, of sums: ExpiredSums, ledger: ExpiredLedger, rows: Rows,
        in files: Files
    ) throws(StorageError) {
        self.files = files
        self.sums = sums
        self.ledger = ledger
        self.rows = rows
        temporaryName = .expired(number)
        recorder = try DurableFile.begin(temporaryName, in: files)
    }

    /// Writes the next pages.
    ///
    /// - Returns: whether all are written.
    /// **Errors** Any: the file is to be abandoned.
    /// **Cost** About 100 ns a row; every 4 MiB a sync and reading them back.
    package mutating func write(
        pageCountMax: Int
    ) throws(RunWriteError<Rows.Failure>) -> Bool {
        if hasAllPages { return true }
        for _ in 0..<pageCountMax {
            let hasMore: Bool
            do { hasMore = try rows.nextPage(into: page) } catch { throw .source(error) }
            if hasMore { encoder.append(contentsOf: page) } else { return try endPages() }
        }
        try append(encoder.takePages())
        return false
    }

    private mutating func endPages() throws(RunWriteError<Rows.Failure>) -> Bool {
        let rest = encoder.finish()
        try append(rest.pages)
        index = rest.index
        hasAllPages = true
        return true
    }

    private mutating func append(_ bytes: [UInt8]) throws(RunWriteError<Rows.Failure>) {
        do throws(StorageError) {
            try put(bytes)
            guard offset - settledOffset >= Self.settledByteCount else { return }
            try recorder.settle()
            settledOffset = offset
        } catch { throw .storage(error) }
    }

    private mutating func put(_ bytes: [UInt8]) throws(StorageError) {
        if bytes.isEmpty { return }
        try recorder.write(bytes, at: offset)
        offset += UInt64(bytes.count)
    }

    /// Ends the file and gives it its name. Its bytes are durable at return; its name is after the next
    /// `ManifestStore.publish`.
    ///
    /// - Precondition: `write` has said that all pages are written.
    /// - Parameter number: the next to be given in `manifest`, which may not be the one that it was begun with.
    /// **Errors** As `DurableFile`; the file is to be abandoned.
    package mutating func finish(
        _ number: FileNumber, for manifest: Manifest
    ) throws(StorageError) -> ExpiredEntry {
        precondition(hasAllPages, "incomplete pages")
        let header = ExpiredHeader(
            fileNumber: number, directory: manifest.directory, sums: sums,
            generation: manifest.generation, createdAt: manifest.createdAt, index: index,
            ledger: ledger)
        let head = header.encode()
        try put(index.encode())
        try put(ledger.bytes)
        try recorder.write(head, at: 0)
        // What a reader will make of it.
        let entry = try StorageError.decoding(recorder.file.path) { () throws(FormatError) in
            try ExpiredHeader.decode(head, fileNumber: number).entry
        }
        try DurableFile.end(&recorder, of: temporaryName, as: .expired(number), in: files)
        return entry
    }

    /// Removes what was written so far; what cannot be removed the next start removes.
    package consuming func abandon() {
        try? files.unlink(FileName.temporary(temporaryName).text)
    }
}
