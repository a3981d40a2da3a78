// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
import IngestFormat

/// The folded footers of expired segments in their file: header and page index in memory, counters page by
/// page, the ledger when it is asked for. Held by one reader; the file stays readable after it was unlinked.
///
/// **Cost** 20 bytes a page of 1024 rows.
package struct ExpiredFooterReader<Files: FileSystem>: Sendable {
    package let header: ExpiredHeader
    /// By (key, day), as a reward-days run has them. Its header is made up from this file's.
    package let counters: RunReader<Files>
    private let file: Files.File

    /// Opens a file that a manifest names, checks header and page index.
    ///
    /// **Errors** `notFound`: the manifest is no longer the newest, read that again. `corrupt`: another
    /// file than the manifest means, or damaged.
    package init(
        _ entry: ExpiredEntry, directory: DirectoryID? = nil, in files: Files
    ) throws(StorageError) {
        let file = try files.open(entry.fileName.text, .read)
        try file.check(byteCount: entry.byteCount, max: UInt64(Limits.runByteCountMax))
        let header = try Self.readHeader(of: file, entry.fileNumber, directory)
        guard header.entry == entry else {
            throw .corrupt(
                path: file.path, offset: 0, detail: "file does not match its manifest entry")
        }
        let bytes = try file.readArray(
            at: header.pageIndexOffset, byteCount: header.pageIndexByteCount)
        let index = try StorageError.decoding(file.path) { () throws(FormatError) in
            try header.decodeIndex(bytes)
        }
        self.header = header
        self.file = file
        counters = RunReader(of: header, index, in: file)
    }

    /// What each sender added to the expired stretch, by sender key.
    ///
    /// **Errors** `corrupt` if it is not what was written.
    /// **Cost** Memory of a footer's ledger, at most.
    package func readLedger() throws(StorageError) -> [LedgerEntry] {
        let bytes = try file.readArray(at: header.ledgerOffset, byteCount: header.ledgerByteCount)
        return try StorageError.decoding(file.path) { () throws(FormatError) in
            try header.decodeLedger(bytes)
        }
    }

    /// The header alone, of a file that no manifest need name.
    package static func readHeader(
        _ number: FileNumber, _ directory: DirectoryID?, in files: Files
    ) throws(StorageError) -> ExpiredHeader {
        try readHeader(
            of: try files.open(FileName.expired(number).text, .read), number, directory)
    }

    private static func readHeader(
        of file: Files.File, _ number: FileNumber, _ directory: DirectoryID?
    ) throws(StorageError) -> ExpiredHeader {
        let head = try file.readArray(at: 0, byteCount: ExpiredHeader.byteCount)
        return try StorageError.decoding(file.path) { () throws(FormatError) in
            try ExpiredHeader.decode(head, directory: directory, fileNumber: number)
        }
    }
}
