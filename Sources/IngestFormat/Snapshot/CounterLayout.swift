// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// The fixed places of counter tables and of the runs that hold them: docs/format/run.md has the same
/// tables, and a test compares them.
package enum CounterLayout {
    /// One entry of a page index.
    package enum PageEntry {
        package static let byteCount = 20
        package static let firstKey = FormatField("first key", 0, 4)
        package static let firstDay = FormatField("first day", 4, 4)
        package static let rowCount = FormatField("row count", 8, 4)
        package static let pageByteCount = FormatField("page byte count", 12, 4)
        package static let checksum = FormatField("checksum", 16, 4)

        package static let fields = [firstKey, firstDay, rowCount, pageByteCount, checksum]
    }

    package enum RunHeader {
        package static let byteCount = 128
        /// `IGR1` as its bytes lie in the file.
        package static let magicNumber: UInt32 = 0x3152_4749

        package static let magic = FileEnvelope.magicField
        package static let version = FileEnvelope.versionField
        package static let table = FormatField("table", 6, 1)
        package static let columnCount = FormatField("column count", 7, 1)
        package static let firstSegment = FormatField("first segment", 8, 4)
        package static let lastSegment = FormatField("last segment", 12, 4)
        package static let directory = FormatField("directory", 16, 8)
        package static let fileNumber = FormatField("file number", 24, 8)
        package static let generation = FormatField("generation", 32, 8)
        package static let createdAt = FormatField("created at", 40, 8)
        package static let rowCount = FormatField("row count", 48, 8)
        package static let fileByteCount = FormatField("file byte count", 56, 8)
        package static let pageIndexOffset = FormatField("page index offset", 64, 8)
        package static let pageCount = FormatField("page count", 72, 4)
        package static let pageIndexChecksum = FormatField("page index checksum", 76, 4)
        package static let lastBlockCount = FormatField("last block count", 80, 4)
        package static let reserved = FormatField("reserved", 84, 40)
        package static let checksum = FileEnvelope.checksumField(byteCount)

        package static let fields = [
            magic, version, table, columnCount, firstSegment, lastSegment, directory, fileNumber,
            generation, createdAt, rowCount, fileByteCount, pageIndexOffset, pageCount,
            pageIndexChecksum, lastBlockCount, reserved, checksum,
        ]
    }
}
