// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import IngestFormat

/// One run of a counter table in its file: header and page index in memory, pages on demand. Held by one
/// reader; the file stays readable after it was unlinked.
///
/// **Cost** 20 bytes a page of 1024 rows; one pread a page.
package struct RunReader<Files: FileSystem> {
    package let header: RunHeader
    package let index: CounterPageIndex
    private let file: Files.File

    /// Opens a run that a manifest names, checks header and index.
    ///
    /// **Errors** `notFound`: the manifest is no longer the newest, read that again. `corrupt`: another
    /// file than the manifest means, or damaged.
    package init(
        _ entry: RunEntry, directory: DirectoryID? = nil, in files: Files
    ) throws(StorageError) {
        let file = try files.open(entry.fileName.text, .read)
        try file.check(byteCount: entry.byteCount, max: UInt64(Limits.runByteCountMax))
        let head = try file.readArray(at: 0, byteCount: RunHeader.byteCount)
        let header = try StorageError.decoding(file.path) { () throws(FormatError) in
            try RunHeader.decode(
                head, directory: directory, table: entry.table, fileNumber: entry.fileNumber)
        }
        guard header.entry == entry else {
            throw .corrupt(
                path: file.path, offset: 0, detail: "not the run that the manifest means")
        }
        let bytes = try file.readArray(
            at: header.pageIndexOffset, byteCount: header.pageIndexByteCount)
        index = try StorageError.decoding(file.path, at: header.pageIndexOffset) {
            () throws(FormatError) in try header.decodeIndex(bytes)
        }
        self.header = header
        self.file = file
    }

    /// Reads, checks and decodes one page.
    /// - Parameter number: an index of `index.entries`.
    package func read(
        page number: Int, into page: CounterPage, buffer: ReadBuffer
    ) throws(StorageError) {
        let entry = index.entries[number]
        let offset = UInt64(RunHeader.byteCount) + UInt64(entry.offset)
        try buffer.read(file, at: offset, byteCount: entry.byteCount)
        try StorageError.decoding(file.path, at: offset) { () throws(FormatError) in
            try buffer.withBytes { (bytes) throws(FormatError) in
                // SAFETY: the bytes stay where they are inside the closure.
                try unsafe bytes.withUnsafeBytes { (bytes) throws(FormatError) in
                    try unsafe page.decode(bytes, entry: entry, hasDay: header.table.hasDay)
                }
            }
        }
    }

    /// The whole table in memory, pages still coded and not yet checked: their decoder does that.
    package func readTable() throws(StorageError) -> CounterTable {
        let byteCount = Int(header.pageIndexOffset) - RunHeader.byteCount
        let pages = try file.readArray(at: UInt64(RunHeader.byteCount), byteCount: byteCount)
        return CounterTable(hasDay: header.table.hasDay, pages: pages, index: index)
    }

    /// All rows in order, page by page, in constant memory.
    package func makeCursor() -> Cursor { Cursor(run: self) }

    package struct Cursor: CounterPageSource {
        private let run: RunReader
        private let buffer = ReadBuffer()
        private var next = 0

        fileprivate init(run: RunReader) { self.run = run }

        package mutating func nextPage(into page: CounterPage) throws(StorageError) -> Bool {
            page.removeAll()
            guard next < run.index.entries.count else { return false }
            try run.read(page: next, into: page, buffer: buffer)
            next += 1
            return true
        }
    }
}
