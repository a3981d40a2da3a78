// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import IngestFormat

/// One sorted part of a counter table in its file, a run or the table of a level-0 footer: header and page index in
/// memory, pages on demand. Held by one reader; the file stays readable after it was unlinked.
///
/// **Cost** 20 bytes a page of 1024 rows; one pread a page.
package struct RunReader<Files: FileSystem>: Sendable {
    package let header: RunHeader
    package let index: CounterPageIndex
    fileprivate let file: Files.File
    /// Where the first page begins in the file.
    fileprivate let pagesOffset: UInt64
    /// Of a table of a footer.
    private let footer: FooterTables?

    /// Opens a run that a manifest names, checks header and index.
    ///
    /// **Errors** `notFound`: the manifest is no longer the newest, read that again. `corrupt`: another
    /// file than the manifest means, or damaged.
    package init(
        _ entry: RunEntry, directory: DirectoryID? = nil, in files: Files
    ) throws(StorageError) {
        try self.init(entry, directory: directory, try files.open(entry.fileName.text, .read))
    }

    /// A run in a file that was opened before.
    package init(
        _ entry: RunEntry, directory: DirectoryID?, _ file: Files.File
    ) throws(StorageError) {
        try file.check(byteCount: entry.byteCount, max: UInt64(Limits.runByteCountMax))
        let head = try file.readArray(at: 0, byteCount: RunHeader.byteCount)
        let header = try StorageError.decoding(file.path) { () throws(FormatError) in
            try RunHeader.decode(
                head, directory: directory, table: entry.table, fileNumber: entry.fileNumber)
        }
        guard header.entry == entry else {
            throw .corrupt(
                path: file.path, offset: 0, detail: "run does not match its manifest entry")
        }
        try file.checkIndex(of: header)
        let bytes = try file.readArray(
            at: header.pageIndexOffset, byteCount: header.pageIndexByteCount)
        index = try StorageError.decoding(file.path, at: header.pageIndexOffset) {
            () throws(FormatError) in try header.decodeIndex(bytes)
        }
        self.header = header
        self.file = file
        pagesOffset = UInt64(RunHeader.byteCount)
        footer = nil
    }

    /// The tables of a sealed segment, which lie in its footer as they do in runs: read without the rest of it.
    ///
    /// **Errors** `notFound`; `corrupt` for another segment than the manifest means, or a damaged one.
    /// **Cost** Three small reads, and the page indexes.
    package static func openFooter(
        of entry: SealedSegment, directory: DirectoryID, in files: Files
    ) throws(StorageError) -> (rewardDays: RunReader, days: RunReader) {
        let file = try files.open(FileName.segment(entry.number).text, .read)
        try file.check(byteCount: entry.byteCount, max: .max)
        let trailer = try SegmentFooterFile.readTrailer(
            file, number: entry.number, directory: directory)
        guard trailer.footerChecksum == entry.footerChecksum else {
            throw .corrupt(
                path: file.path, offset: trailer.footerOffset,
                detail: "footer does not match its manifest entry")
        }
        return try openFooter(trailer, directory, in: file)
    }

    /// As above, of a segment that is open.
    package static func openFooter(
        _ trailer: SegmentTrailer, _ directory: DirectoryID, in file: Files.File
    ) throws(StorageError) -> (rewardDays: RunReader, days: RunReader) {
        let head = try file.readArray(
            at: trailer.footerOffset,
            byteCount: min(
                Int(trailer.footerByteCount), SegmentFooter.SectionTable.headByteCountMax))
        let tables = try StorageError.decoding(file.path, at: trailer.footerOffset) {
            () throws(FormatError) in try FooterTables(head: head, trailer: trailer)
        }
        return (
            try RunReader(FooterTables.rewardDays, of: tables, directory, in: file),
            try RunReader(FooterTables.days, of: tables, directory, in: file)
        )
    }

    private init(
        _ part: FooterTables.Part, of tables: FooterTables, _ directory: DirectoryID,
        in file: Files.File
    ) throws(StorageError) {
        let (pages, place): (Range<UInt64>, Range<UInt64>)
        do { (pages, place) = (try tables.pagesRange(part), try tables.indexRange(part)) } catch {
            throw StorageError(path: file.path, error)
        }
        let stored = try file.readArray(at: place.lowerBound, byteCount: place.count)
        index = try StorageError.decoding(file.path, at: place.lowerBound) {
            () throws(FormatError) in try tables.decodeIndex(part, stored)
        }
        header = RunHeader(
            table: part.table, fileNumber: FileNumber(rawValue: 0), directory: directory,
            span: LogSpan(firstSegment: tables.end.segment, end: tables.end),
            generation: Generation(rawValue: 0), createdAt: 0, index: index)
        self.file = file
        pagesOffset = pages.lowerBound
        footer = tables
    }

    /// Reads, checks and decodes one page.
    /// - Parameter number: an index of `index.entries`.
    package func read(
        page number: Int, into page: CounterPage, buffer: ReadBuffer
    ) throws(StorageError) {
        try unsafe withBytes(ofPage: number, buffer) { (bytes, entry) throws(FormatError) in
            // SAFETY: the bytes stay where they are inside the closure.
            try unsafe page.decode(bytes, entry: entry, hasDay: header.table.hasDay)
        }
    }

    /// Reads one page as it is stored.
    @inline(__always)
    private func withBytes(
        ofPage number: Int, _ buffer: ReadBuffer,
        _ body: (UnsafeRawBufferPointer, CounterPageIndex.Entry) throws(FormatError) -> Void
    ) throws(StorageError) {
        let entry = index.entries[number]
        let offset = pagesOffset + UInt64(entry.offset)
        try buffer.read(file, at: offset, byteCount: entry.byteCount)
        try StorageError.decoding(file.path, at: offset) { () throws(FormatError) in
            try buffer.withBytes { (bytes) throws(FormatError) in
                // SAFETY: the bytes stay where they are inside the closure.
                try unsafe bytes.withUnsafeBytes { (bytes) throws(FormatError) in
                    try unsafe body(bytes, entry)
                }
            }
        }
    }

    /// What the run says beside its rows; empty for most tables.
    /// **Errors** `corrupt` if it is not what was written.
    package func readMetadata() throws(StorageError) -> [UInt8] {
        let bytes = try file.readArray(
            at: header.metadataOffset, byteCount: header.metadataByteCount)
        return try StorageError.decoding(file.path) { () throws(FormatError) in
            try header.decodeMetadata(bytes)
        }
    }

    /// What an expired run says of its segments.
    ///
    /// **Errors** `corrupt` if it is not what was written.
    /// **Cost** Memory of a footer's ledger, at most.
    package func readExpired() throws(StorageError) -> ExpiredSegments {
        let bytes = try readMetadata()
        return try StorageError.decoding(path, at: header.metadataOffset) {
            () throws(FormatError) in try ExpiredSegments.decode(bytes, of: header.span)
        }
    }

    /// The sealed segments that a reward-days run covers.
    ///
    /// **Errors** `corrupt` if they are not what was written.
    package func readSegments() throws(StorageError) -> SealedSegments {
        let bytes = try readMetadata()
        return try StorageError.decoding(path, at: header.metadataOffset) {
            () throws(FormatError) in try SealedSegments.decode(bytes, of: header.span)
        }
    }

    /// The attributions of the attributed rows; none of tables that have no such rows.
    ///
    /// **Errors** `corrupt` if they are not what was written.
    /// **Cost** A read; that of `AttributionList`.
    package func readAttributions() throws(StorageError) -> AttributionList {
        switch header.table {
        case .rewardDays where footer == nil: return try readSegments().attributions
        case .expired: return try readExpired().attributions
        case .rewardDays: break
        default: return AttributionList()
        }
        guard let footer else { return AttributionList() }
        let place: Range<UInt64>
        do { place = try footer.attributionsRange() } catch {
            throw StorageError(path: file.path, error)
        }
        let stored = try file.readArray(at: place.lowerBound, byteCount: place.count)
        return try StorageError.decoding(file.path, at: place.lowerBound) {
            () throws(FormatError) in try footer.decodeAttributions(stored)
        }
    }

    /// Checks the checksum of every page, and its keys.
    ///
    /// **Cost** Reads the table.
    func checkPages() throws(StorageError) {
        let page = CounterPage()
        var pages = makeCursor(columns: CounterColumnSet())
        while try pages.nextPage(into: page) {}
    }

    package var path: String { file.path }
    /// Whether it is a file of its own, not the table of a footer.
    var isFile: Bool { header.fileNumber.rawValue > 0 }

    /// The rows of a point, by day: one read for each page that may hold such, in nearly every case one.
    ///
    /// - Parameter buffer: for the bytes of a page.
    /// **Errors** `corrupt` for a page that is not what was written.
    /// **Cost** 2–3 µs in memory: most of it the read, the checksum of the page and its keys. Nothing is
    /// decoded but what is asked for.
    package func rows(
        of point: CounterPoint, buffer: ReadBuffer
    ) throws(StorageError) -> [CounterDayRow] {
        var found: [CounterDayRow] = []
        let hasDay = header.table.hasDay
        for number in index.pages(of: point, hasDay: hasDay) {
            try unsafe withBytes(ofPage: number, buffer) { (bytes, _) throws(FormatError) in
                // SAFETY: the bytes stay where they are inside the closure.
                try unsafe index.read(point, on: number, of: bytes, hasDay: hasDay, into: &found)
            }
        }
        return found
    }

    /// The rows in order, page by page, in constant memory.
    /// - Parameters:
    ///   - columns: those that pages have; the others are passed over.
    ///   - keys: rows of other keys are left out, and pages without these keys are not read.
    package func makeCursor(
        columns: CounterColumnSet = .all, keys: ClosedRange<UInt32> = 0...UInt32.max
    ) -> Cursor {
        Cursor(Pages(self), columns: columns, keys: keys)
    }

    package typealias Cursor = CodedPageCursor<Pages>

    /// The pages of the run as a cursor takes them.
    package struct Pages: CodedPages {
        private let run: RunReader
        private let window = PageWindow()
        package var index: CounterPageIndex { run.index }

        fileprivate init(_ run: RunReader) { self.run = run }

        package func decode(
            _ number: Int, until end: Int, columns: CounterColumnSet, into page: CounterPage
        ) throws(StorageError) {
            try window.decode(number, of: run, until: end, columns, into: page)
        }
    }

    /// The coded pages around where a cursor stands: many are read at once, as a read costs as much as
    /// decoding a page. A class, so that copies of a cursor agree on what it holds.
    private final class PageWindow {
        private static var byteCountMax: Int { 128 << 10 }
        private let buffer = ReadBuffer(capacity: 4 << 10)
        private var pages = 0..<0

        /// Decodes one page; where it is not here, it and those after it, before `end`, are read.
        func decode(
            _ number: Int, of run: RunReader, until end: Int, _ columns: CounterColumnSet,
            into page: CounterPage
        ) throws(StorageError) {
            page.removeAll()
            if !pages.contains(number) { try read(number..<end, of: run) }
            let entry = run.index.entries[number]
            let start = entry.offset - run.index.entries[pages.lowerBound].offset
            let offset = run.pagesOffset + UInt64(entry.offset)
            try StorageError.decoding(run.file.path, at: offset) { () throws(FormatError) in
                try buffer.withBytes { (bytes) throws(FormatError) in
                    // SAFETY: the bytes stay where they are inside the closure; the slice is held to
                    // what was read.
                    try unsafe bytes.withUnsafeBytes { (bytes) throws(FormatError) in
                        let first = min(start, bytes.count)
                        let last = min(start + entry.byteCount, bytes.count)
                        try unsafe page.decode(
                            UnsafeRawBufferPointer(rebasing: bytes[first..<last]), entry: entry,
                            hasDay: run.header.table.hasDay, columns: columns)
                    }
                }
            }
        }

        private func read(_ wanted: Range<Int>, of run: RunReader) throws(StorageError) {
            pages = 0..<0
            let entries = run.index.entries
            let start = entries[wanted.lowerBound].offset
            var end = wanted.lowerBound + 1
            while end < wanted.upperBound,
                entries[end].offset + entries[end].byteCount - start <= Self.byteCountMax
            {
                end += 1
            }
            let last = entries[end - 1]
            try buffer.read(
                run.file, at: run.pagesOffset + UInt64(start),
                byteCount: last.offset + last.byteCount - start)
            pages = wanted.lowerBound..<end
        }
    }
}

extension StorageFile {
    private static var windowByteCount: Int { 64 << 10 }

    /// Checks the page index a window at a time, before memory is taken for all of it.
    fileprivate func checkIndex(of header: RunHeader) throws(StorageError) {
        var checksum = Checksum.crc32c([UInt8]())
        var done = 0
        while done < header.pageIndexByteCount {
            let count = min(Self.windowByteCount, header.pageIndexByteCount - done)
            let bytes = try readArray(
                at: header.pageIndexOffset + UInt64(done), byteCount: count)
            guard bytes.count == count else { break }
            checksum = Checksum.crc32c(bytes, seed: checksum)
            done += count
        }
        guard checksum == header.pageIndexChecksum else {
            throw .corrupt(
                path: path, offset: header.pageIndexOffset,
                detail: "page index checksum: got \(checksum), expected \(header.pageIndexChecksum)"
            )
        }
    }
}
