// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The first bytes of a run: which table, of which stretch of the log, and what its index must sum to.
///
/// **Layout** docs/format/run.md. Fixed 128 bytes; then the pages, then the page index to the file's end.
package struct RunHeader: Hashable, Sendable {
    package static let byteCount = CounterLayout.RunHeader.byteCount
    package static let magic = CounterLayout.RunHeader.magicNumber

    /// Never `names`.
    package let table: TableKind
    package let fileNumber: FileNumber
    package let directory: DirectoryID
    package let span: LogSpan
    package let rowCount: UInt64
    package let pageCount: Int
    package let pageIndexOffset: UInt64
    /// CRC-32C of the page index, which holds that of each page.
    package let pageIndexChecksum: UInt32
    /// Generation and time that it was made for; microseconds since 1970 UTC.
    package let generation: Generation
    package let createdAt: Int64

    package var pageIndexByteCount: Int { pageCount * CounterPageIndex.Entry.byteCount }
    /// Of the whole file.
    package var fileByteCount: UInt64 { pageIndexOffset + UInt64(pageIndexByteCount) }

    /// The header of a run whose pages have all been encoded.
    package init(
        table: TableKind, fileNumber: FileNumber, directory: DirectoryID, span: LogSpan,
        generation: Generation, createdAt: Int64, index: CounterPageIndex
    ) {
        precondition(table != .names)
        self.table = table
        self.fileNumber = fileNumber
        self.directory = directory
        self.span = span
        rowCount = UInt64(index.rowCount)
        pageCount = index.entries.count
        pageIndexOffset = UInt64(Self.byteCount + index.pagesByteCount)
        pageIndexChecksum = Checksum.crc32c(index.encode())
        self.generation = generation
        self.createdAt = createdAt
    }

    private typealias Field = CounterLayout.RunHeader

    package func encode() -> [UInt8] {
        var writer = FileEnvelope.begin(Field.magicNumber, Field.byteCount)
        writer.put(table.rawValue, Field.table)
        writer.put(CounterRow.columnCount, Field.columnCount)
        writer.put(span.firstSegment.rawValue, Field.firstSegment)
        writer.put(span.end.segment.rawValue, Field.lastSegment)
        writer.put(span.end.blockCount, Field.lastBlockCount)
        writer.put(directory.rawValue, Field.directory)
        writer.put(fileNumber.rawValue, Field.fileNumber)
        writer.put(generation.rawValue, Field.generation)
        writer.put(createdAt, Field.createdAt)
        writer.put(rowCount, Field.rowCount)
        writer.put(fileByteCount, Field.fileByteCount)
        writer.put(pageIndexOffset, Field.pageIndexOffset)
        writer.put(pageCount, Field.pageCount)
        writer.put(pageIndexChecksum, Field.pageIndexChecksum)
        return FileEnvelope.finish(&writer)
    }

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
        let reader = try FileEnvelope.open(
            bytes, magic: Field.magicNumber, byteCount: Field.byteCount)
        try reader.identify(Field.directory, directory?.rawValue)
        try reader.identify(Field.fileNumber, fileNumber?.rawValue)
        try reader.identify(Field.table, table?.rawValue)
        try reader.expect(Field.columnCount, CounterRow.columnCount)
        try reader.expectZeros(Field.fields)
        let header = try RunHeader(reader)
        try reader.expect(Field.fileByteCount, header.fileByteCount)
        return header
    }

    private init(_ reader: FieldReader) throws(FormatError) {
        let tables = UInt64(TableKind.rewards.rawValue)...UInt64(TableKind.rewardDays.rawValue)
        let raw = UInt8(try reader.load(Field.table, in: tables))
        guard let table = TableKind(rawValue: raw) else {
            throw reader.corrupt(Field.table, .atMost(tables.upperBound))
        }
        self.table = table
        directory = DirectoryID(rawValue: reader.load(Field.directory))
        fileNumber = FileNumber(rawValue: try reader.load(Field.fileNumber, in: 1...UInt64.max))
        span = try reader.span(
            Field.firstSegment, last: Field.lastSegment, blockCount: Field.lastBlockCount)
        generation = Generation(rawValue: reader.load(Field.generation))
        createdAt = reader.i64(Field.createdAt)
        pageIndexOffset = try reader.load(
            Field.pageIndexOffset, in: UInt64(Self.byteCount)...UInt64(Limits.runByteCountMax))
        rowCount = try reader.load(Field.rowCount, in: 0...UInt64(Limits.runRowCountMax))
        let pagesByteCount = pageIndexOffset - UInt64(Self.byteCount)
        let pageCountMax = min(rowCount, pagesByteCount / UInt64(CounterPage.byteCountMin))
        pageCount = Int(try reader.load(Field.pageCount, in: 0...pageCountMax))
        pageIndexChecksum = reader.u32(Field.pageIndexChecksum)
    }

    /// Checks and decodes the page index that follows the pages.
    /// - Parameter bytes: `pageIndexByteCount` bytes from `pageIndexOffset` on.
    /// **Errors** those of `CounterPageIndex.decode`; offsets are from the file's first byte.
    package func decodeIndex(_ bytes: [UInt8]) throws(FormatError) -> CounterPageIndex {
        try CounterPageIndex.decode(
            bytes, pageCount: pageCount, checksum: pageIndexChecksum, at: pageIndexOffset,
            pagesOffset: Self.byteCount, rowCount: Int(rowCount))
    }

    /// What the manifest keeps of the run.
    package var entry: RunEntry {
        RunEntry(
            table: table, fileNumber: fileNumber, byteCount: fileByteCount, checksum: checksum,
            span: span, rowCount: rowCount)
    }
}

/// A whole run in memory ⇄ its bytes: for small runs, tests and tools. Larger ones are written and read
/// page by page.
package struct Run: Hashable, Sendable {
    package let header: RunHeader
    package let counters: CounterTable

    package init(header: RunHeader, counters: CounterTable) {
        self.header = header
        self.counters = counters
    }

    package func encode() -> [UInt8] {
        header.encode() + counters.pages + counters.index.encode()
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
        let index = try header.decodeIndex(Array(bytes[indexStart...]))
        return Run(
            header: header,
            counters: CounterTable(
                hasDay: header.table.hasDay, pages: Array(bytes[RunHeader.byteCount..<indexStart]),
                index: index))
    }
}
