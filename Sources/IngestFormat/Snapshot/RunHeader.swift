// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The first bytes of a run: which table, of which stretch of the log, and what its index must sum to.
///
/// **Layout** docs/format/run.md. Fixed 128 bytes; then the pages, the page index, and metadata to the file's end.
package struct RunHeader: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .magic, .version, .id("table", \.table, in: RunEntry.tables),
        .reserved(1),
        .id("first segment", \.span.firstSegment), .id("last segment", \.span.end.segment),
        .id("directory", \.directory), .id("file number", \.fileNumber, in: 1...UInt64.max),
        .id("generation", \.generation), .int("created at", \.createdAt),
        .int("row count", \.rowCount, in: 0...UInt64(Limits.runRowCountMax)),
        .derived("file byte count", 8, \.fileByteCount),
        .int(
            "page index offset", \.pageIndexOffset,
            in: UInt64(byteCount)...UInt64(Limits.runByteCountMax)),
        .int("page count", \.storedPageCount), .int("page index checksum", \.pageIndexChecksum),
        .int("last block count", \.span.end.blockCount),
        .int("metadata byte count", \.metadata.byteCount),
        .int("metadata raw byte count", \.metadata.rawByteCount),
        .int("metadata checksum", \.metadata.checksum),
        .id("metadata encoding", \.metadata.encoding, in: 0...1), .reserved(27, "reserved end"),
        .checksum)
    package static let byteCount = 128
    /// `IGR1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3152_4749

    /// Never `names`.
    package private(set) var table: TableKind
    package private(set) var fileNumber: FileNumber
    package private(set) var directory: DirectoryID
    package private(set) var span: LogSpan
    package private(set) var rowCount: UInt64
    private var storedPageCount: UInt32
    package var pageCount: Int { Int(storedPageCount) }
    package private(set) var pageIndexOffset: UInt64
    /// CRC-32C of the page index, which holds that of each page.
    package private(set) var pageIndexChecksum: UInt32
    /// Generation and time that it was made for; microseconds since 1970 UTC.
    package private(set) var generation: Generation
    package private(set) var createdAt: Int64

    private var metadata: StoredSection.Place

    package var pageIndexByteCount: Int { pageCount * CounterPageIndex.Entry.byteCount }
    package var metadataOffset: UInt64 { pageIndexOffset + UInt64(pageIndexByteCount) }
    /// 0 where a run has none.
    package var metadataByteCount: Int { Int(metadata.byteCount) }
    /// Of the whole file.
    package var fileByteCount: UInt64 { metadataOffset + UInt64(metadata.byteCount) }

    /// The header of a run whose pages have all been encoded.
    package init(
        table: TableKind, fileNumber: FileNumber, directory: DirectoryID, span: LogSpan,
        generation: Generation, createdAt: Int64, index: CounterPageIndex,
        metadata: RunMetadata = RunMetadata()
    ) {
        precondition(!table.isNames)
        self.metadata = metadata.place
        self.table = table
        self.fileNumber = fileNumber
        self.directory = directory
        self.span = span
        rowCount = UInt64(index.rowCount)
        storedPageCount = UInt32(index.entries.count)
        pageIndexOffset = UInt64(Self.byteCount + index.pagesByteCount)
        pageIndexChecksum = Checksum.crc32c(index.encode())
        self.generation = generation
        self.createdAt = createdAt
    }

    package func encode() -> [UInt8] { Self.layout.encode(self, magic: Self.magic) }

    /// The checksum at the header's end, and so, by the index, of the whole file: what the manifest holds.
    package var checksum: UInt32 { Checksum.crc32c(encode().dropLast(4)) }

    /// Checks and decodes the first 128 bytes of a run; more may follow.
    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - table, fileNumber: those in the file's name; `nil` = any.
    /// **Errors** as `FileEnvelope.open`; `notThisFile` for another directory, table or number; `corrupt`
    /// for counts and offsets that do not fit each other or are over their limit.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, table: TableKind? = nil,
        fileNumber: FileNumber? = nil
    ) throws(FormatError) -> RunHeader {
        let reader = try layout.openRun(bytes, magic: magic, directory, table, fileNumber)
        let header = try layout.load(reader, into: blank)
        _ = try reader.span(
            layout.firstSegment, last: layout.lastSegment, blockCount: layout.lastBlockCount)
        let pagesByteCount = header.pageIndexOffset - UInt64(byteCount)
        let pageCountMax = min(header.rowCount, pagesByteCount / UInt64(CounterPage.byteCountMin))
        _ = try reader.load(layout.pageCount, in: 0...pageCountMax)
        _ = try reader.load(
            layout.metadataByteCount, in: 0...UInt64(Limits.footerByteCountMax))
        _ = try reader.load(
            layout.metadataRawByteCount,
            in: header.metadata.encoding.rawByteCounts(
                ofStored: header.metadataByteCount, max: Limits.footerByteCountMax))
        try reader.expect(layout.fileByteCount, header.fileByteCount)
        return header
    }

    private static let blank = RunHeader(
        table: .rewards, fileNumber: FileNumber(rawValue: 1), directory: DirectoryID(rawValue: 0),
        span: LogSpan(firstSegment: SegmentNumber(rawValue: 1), end: .start),
        generation: Generation(rawValue: 0), createdAt: 0, index: CounterPageIndex())

    /// Checks and decodes the page index that follows the pages.
    /// - Parameter bytes: `pageIndexByteCount` bytes from `pageIndexOffset` on.
    /// **Errors** those of `CounterPageIndex.decode`; offsets are from the file's first byte.
    package func decodeIndex(_ bytes: [UInt8]) throws(FormatError) -> CounterPageIndex {
        try CounterPageIndex.decode(
            bytes, pageCount: pageCount, checksum: pageIndexChecksum, at: pageIndexOffset,
            pagesOffset: Self.byteCount, rowCount: Int(rowCount))
    }

    /// Checks the metadata that follow the page index.
    /// - Parameter bytes: `metadataByteCount` bytes from `metadataOffset` on.
    /// **Errors** `torn`, `corrupt`; offsets are from the file's first byte.
    package func decodeMetadata(_ bytes: [UInt8]) throws(FormatError) -> [UInt8] {
        let offset = Int(clamping: metadataOffset)
        guard bytes.count == metadataByteCount else {
            throw .torn("metadata", at: offset, available: bytes.count, needed: metadataByteCount)
        }
        let computed = Checksum.crc32c(bytes)
        guard computed == metadata.checksum else {
            throw .corrupt(
                "metadata checksum", at: offset, got: computed,
                expected: .exactly(metadata.checksum))
        }
        return try StoredSection.restore(
            bytes[...], metadata, at: offset)
    }

    /// What the manifest keeps of the run.
    package var entry: RunEntry {
        RunEntry(
            table: table, fileNumber: fileNumber, byteCount: fileByteCount, checksum: checksum,
            span: span, rowCount: rowCount)
    }
}

extension Layout {
    /// Begins the header of a run of any table; what is `nil` may be any.
    func openRun(
        _ bytes: [UInt8], magic: UInt32, _ directory: DirectoryID?, _ table: TableKind?,
        _ fileNumber: FileNumber?
    ) throws(FormatError) -> FieldReader {
        try open(
            bytes, magic: magic, of: directory, (self.fileNumber, fileNumber?.rawValue),
            (self.table, table.map { UInt64($0.rawValue) }))
    }
}

/// What a run says beside its rows, as it is stored behind the page index.
package struct RunMetadata: Hashable, Sendable {
    let place: StoredSection.Place
    package let bytes: [UInt8]

    /// **Cost** LZ4 of the bytes.
    package init(_ raw: [UInt8] = []) {
        let section = StoredSection(raw, compressor: LZ4Compressor())
        bytes = section.bytes
        place = section.place
    }
}

/// A whole run in memory ⇄ its bytes: for small runs, tests and tools. Larger ones are written and read
/// page by page.
package struct Run: Hashable, Sendable {
    package let header: RunHeader
    package let counters: CounterTable
    /// As they are stored.
    package let metadata: [UInt8]

    package init(header: RunHeader, counters: CounterTable, metadata: [UInt8] = []) {
        self.header = header
        self.counters = counters
        self.metadata = metadata
    }

    package func encode() -> [UInt8] {
        header.encode() + counters.pages + counters.index.encode() + metadata
    }

    /// Checks the header and the index; pages are checked when they are read.
    /// **Errors** those of `RunHeader.decode` and `decodeIndex`; `corrupt` for bytes after the end.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, table: TableKind? = nil,
        fileNumber: FileNumber? = nil
    ) throws(FormatError) -> Run {
        let header = try RunHeader.decode(
            bytes, directory: directory, table: table, fileNumber: fileNumber)
        guard UInt64(bytes.count) >= header.fileByteCount else {
            throw .torn(
                "file byte count", at: 0, available: bytes.count,
                needed: Int(header.fileByteCount))
        }
        guard UInt64(bytes.count) == header.fileByteCount else {
            throw .corrupt(
                "file byte count", at: 0, got: bytes.count, expected: .exactly(header.fileByteCount)
            )
        }
        let indexStart = Int(header.pageIndexOffset)
        let indexEnd = Int(header.metadataOffset)
        let index = try header.decodeIndex(Array(bytes[indexStart..<indexEnd]))
        return Run(
            header: header,
            counters: CounterTable(
                hasDay: header.table.hasDay, pages: Array(bytes[RunHeader.byteCount..<indexStart]),
                index: index), metadata: Array(bytes[indexEnd...]))
    }
}
