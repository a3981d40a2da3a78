// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// The first bytes of expired footers: which stretch of the log they are of, what it added up to, and what
/// pages and ledger behind them must sum to.
///
/// **Layout** docs/format/expired.md. Fixed 192 bytes; then the pages, the page index, the ledger.
package struct ExpiredHeader: Hashable, Sendable {
    package static let byteCount = ExpiredLayout.Header.byteCount
    package static let magic = ExpiredLayout.Header.magicNumber

    package let fileNumber: FileNumber
    package let directory: DirectoryID
    package let sums: ExpiredSums
    /// Generation and time that it was made for; microseconds since 1970 UTC.
    package let generation: Generation
    package let createdAt: Int64
    /// Rows of counters by (key, day), and the pages that they are on.
    package let keyDayCount: Int
    package let pageCount: Int
    package let pageIndexOffset: UInt64
    /// CRC-32C of the page index, which holds that of each page.
    package let pageIndexChecksum: UInt32
    private let ledger: ExpiredLedger.Place

    package var pageIndexByteCount: Int { pageCount * CounterPageIndex.Entry.byteCount }
    package var ledgerOffset: UInt64 { pageIndexOffset + UInt64(pageIndexByteCount) }
    package var ledgerByteCount: Int { ledger.byteCount }
    package var ledgerEntryCount: Int { ledger.entryCount }
    /// Of the whole file.
    package var fileByteCount: UInt64 { ledgerOffset + UInt64(ledger.byteCount) }

    package init(
        fileNumber: FileNumber, directory: DirectoryID, sums: ExpiredSums, generation: Generation,
        createdAt: Int64, index: CounterPageIndex, ledger: ExpiredLedger
    ) {
        self.fileNumber = fileNumber
        self.directory = directory
        self.sums = sums
        self.generation = generation
        self.createdAt = createdAt
        keyDayCount = index.rowCount
        pageCount = index.entries.count
        pageIndexOffset = UInt64(Self.byteCount + index.pagesByteCount)
        pageIndexChecksum = Checksum.crc32c(index.encode())
        self.ledger = ledger.place
    }

    private typealias Field = ExpiredLayout.Header

    package func encode() -> [UInt8] {
        var writer = FileEnvelope.begin(Field.magicNumber, Field.byteCount)
        writer.put(CounterRow.columnCount, Field.columnCount)
        writer.put(directory.rawValue, Field.directory)
        writer.put(fileNumber.rawValue, Field.fileNumber)
        writer.put(generation.rawValue, Field.generation)
        writer.put(createdAt, Field.createdAt)
        sums.put(to: &writer)
        writer.put(keyDayCount, Field.keyDayCount)
        writer.put(pageIndexOffset, Field.pageIndexOffset)
        writer.put(pageCount, Field.pageCount)
        writer.put(pageIndexChecksum, Field.pageIndexChecksum)
        writer.put(fileByteCount, Field.fileByteCount)
        ledger.put(to: &writer)
        return FileEnvelope.finish(&writer)
    }

    /// The checksum at the header's end, and so, by those in it, of the whole file: what the manifest holds.
    package var checksum: UInt32 { Checksum.crc32c(encode().dropLast(4)) }

    /// Checks and decodes the first 192 bytes; more may follow.
    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - fileNumber: that in the file's name; `nil` = any.
    /// **Errors** as `FileEnvelope.open`; `notThisFile` for another directory or number; `corrupt` for counts
    /// and offsets that do not fit each other or are over their limit.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, fileNumber: FileNumber? = nil
    ) throws(FormatError) -> ExpiredHeader {
        let reader = try FileEnvelope.open(
            bytes, magic: Field.magicNumber, byteCount: Field.byteCount)
        try reader.identify(Field.directory, directory?.rawValue)
        try reader.identify(Field.fileNumber, fileNumber?.rawValue)
        try reader.expect(Field.columnCount, CounterRow.columnCount)
        try reader.expectZeros(Field.fields)
        let header = try ExpiredHeader(reader)
        try reader.expect(Field.fileByteCount, header.fileByteCount)
        _ = try reader.load(Field.fileByteCount, in: 0...UInt64(Limits.runByteCountMax))
        return header
    }

    private init(_ reader: FieldReader) throws(FormatError) {
        directory = DirectoryID(rawValue: reader.load(Field.directory))
        fileNumber = FileNumber(rawValue: try reader.load(Field.fileNumber, in: 1...UInt64.max))
        generation = Generation(rawValue: reader.load(Field.generation))
        createdAt = reader.i64(Field.createdAt)
        sums = try ExpiredSums(reader)
        keyDayCount = try reader.count(Field.keyDayCount, max: Limits.runRowCountMax)
        // All pages but the last are full: the index is in proportion to the rows before memory is taken for it.
        let capacity = Limits.runPageRowCountMax
        pageCount = (keyDayCount + capacity - 1) / capacity
        try reader.expect(Field.pageCount, pageCount)
        pageIndexOffset = try reader.load(
            Field.pageIndexOffset, in: UInt64(Self.byteCount)...UInt64(Limits.runByteCountMax))
        pageIndexChecksum = reader.u32(Field.pageIndexChecksum)
        ledger = try ExpiredLedger.Place(reader)
    }

    /// Checks and decodes the page index that follows the pages.
    /// - Parameter bytes: `pageIndexByteCount` bytes from `pageIndexOffset` on.
    /// **Errors** those of `CounterPageIndex.decode`; offsets are from the file's first byte.
    package func decodeIndex(_ bytes: [UInt8]) throws(FormatError) -> CounterPageIndex {
        try CounterPageIndex.decode(
            bytes, pageCount: pageCount, checksum: pageIndexChecksum, at: pageIndexOffset,
            pagesOffset: Self.byteCount, rowCount: keyDayCount)
    }

    /// Checks and decodes the ledger that follows the page index: sums by sender key.
    /// - Parameter bytes: `ledgerByteCount` bytes from `ledgerOffset` on.
    /// **Errors** `torn`, `corrupt`; offsets are from the file's first byte.
    package func decodeLedger(_ bytes: [UInt8]) throws(FormatError) -> [LedgerEntry] {
        try ExpiredLedger.decode(bytes, ledger, at: Int(clamping: ledgerOffset))
    }

    /// What the manifest keeps of the file.
    package var entry: ExpiredEntry {
        ExpiredEntry(
            fileNumber: fileNumber, byteCount: fileByteCount, checksum: checksum, span: sums.span,
            missingCount: sums.missingCount, rowCount: sums.rowCount,
            minTimestamp: sums.minTimestamp, maxTimestamp: sums.maxTimestamp)
    }
}

extension ExpiredSums {
    private typealias Field = ExpiredLayout.Header

    fileprivate func put(to writer: inout FieldWriter) {
        writer.put(span.firstSegment.rawValue, Field.firstSegment)
        writer.put(span.end.segment.rawValue, Field.lastSegment)
        writer.put(span.end.blockCount, Field.lastBlockCount)
        writer.put(lastBlockChecksum, Field.lastBlockChecksum)
        writer.put(commitEpoch, Field.commitEpoch)
        writer.put(nextCommitEpoch, Field.nextCommitEpoch)
        writer.put(nextName, Field.nextName)
        writer.put(nextKey, Field.nextKey)
        writer.put(footerCount, Field.footerCount)
        writer.put(missingCount, Field.missingCount)
        writer.put(logByteCount, Field.logByteCount)
        writer.put(rowCount, Field.rowCount)
        writer.put(minTimestamp, Field.minTimestamp)
        writer.put(maxTimestamp, Field.maxTimestamp)
    }

    fileprivate init(_ reader: FieldReader) throws(FormatError) {
        span = try reader.span(
            Field.firstSegment, last: Field.lastSegment, blockCount: Field.lastBlockCount)
        lastBlockChecksum = reader.u32(Field.lastBlockChecksum)
        commitEpoch = reader.load(Field.commitEpoch)
        nextCommitEpoch = reader.load(Field.nextCommitEpoch)
        nextName = UInt32(try reader.load(Field.nextName, in: Limits.nextNames))
        nextKey = UInt32(try reader.load(Field.nextKey, in: Limits.nextKeys))
        // The last segment's footer is always among them.
        let segmentCount = span.segmentCount
        footerCount = UInt32(try reader.load(Field.footerCount, in: 1...segmentCount))
        missingCount = UInt32(
            try reader.load(Field.missingCount, in: 0...segmentCount - UInt64(footerCount)))
        logByteCount = reader.load(Field.logByteCount)
        rowCount = reader.load(Field.rowCount)
        minTimestamp = reader.i64(Field.minTimestamp)
        maxTimestamp = reader.i64(Field.maxTimestamp)
        guard rowCount > 0 || (minTimestamp, maxTimestamp) == (0, 0) else {
            throw reader.corrupt(Field.maxTimestamp, .exactly(0))
        }
        guard minTimestamp <= maxTimestamp else {
            throw reader.corrupt(Field.maxTimestamp, .atLeast(minTimestamp))
        }
    }
}
