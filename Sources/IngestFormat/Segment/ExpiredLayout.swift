// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// The fixed places of expired footers: docs/format/expired.md has the same table, and a test compares them.
package enum ExpiredLayout {
    package enum Header {
        package static let byteCount = 192
        /// `IGE1` as its bytes lie in the file.
        package static let magicNumber: UInt32 = 0x3145_4749

        package static let magic = FileEnvelope.magicField
        package static let version = FileEnvelope.versionField
        package static let columnCount = FormatField("column count", 6, 1)
        package static let ledgerEncoding = FormatField("ledger encoding", 7, 1)
        package static let firstSegment = FormatField("first segment", 8, 4)
        package static let lastSegment = FormatField("last segment", 12, 4)
        package static let directory = FormatField("directory", 16, 8)
        package static let fileNumber = FormatField("file number", 24, 8)
        package static let generation = FormatField("generation", 32, 8)
        package static let createdAt = FormatField("created at", 40, 8)
        package static let lastBlockCount = FormatField("last block count", 48, 4)
        package static let lastBlockChecksum = FormatField("last block checksum", 52, 4)
        package static let commitEpoch = FormatField("commit epoch", 56, 8)
        package static let nextCommitEpoch = FormatField("next commit epoch", 64, 8)
        package static let nextName = FormatField("next name", 72, 4)
        package static let nextKey = FormatField("next key", 76, 4)
        package static let footerCount = FormatField("footer count", 80, 4)
        package static let missingCount = FormatField("missing count", 84, 4)
        package static let logByteCount = FormatField("log byte count", 88, 8)
        package static let rowCount = FormatField("row count", 96, 8)
        package static let minTimestamp = FormatField("min timestamp", 104, 8)
        package static let maxTimestamp = FormatField("max timestamp", 112, 8)
        package static let keyDayCount = FormatField("key day count", 120, 8)
        package static let pageIndexOffset = FormatField("page index offset", 128, 8)
        package static let pageCount = FormatField("page count", 136, 4)
        package static let pageIndexChecksum = FormatField("page index checksum", 140, 4)
        package static let fileByteCount = FormatField("file byte count", 144, 8)
        package static let ledgerEntryCount = FormatField("ledger entry count", 152, 4)
        package static let ledgerRawByteCount = FormatField("ledger raw byte count", 156, 4)
        package static let ledgerByteCount = FormatField("ledger byte count", 160, 4)
        package static let ledgerChecksum = FormatField("ledger checksum", 164, 4)
        package static let reserved = FormatField("reserved", 168, 20)
        package static let checksum = FileEnvelope.checksumField(byteCount)

        package static let fields = [
            magic, version, columnCount, ledgerEncoding, firstSegment, lastSegment, directory,
            fileNumber, generation, createdAt, lastBlockCount, lastBlockChecksum, commitEpoch,
            nextCommitEpoch, nextName, nextKey, footerCount, missingCount, logByteCount, rowCount,
            minTimestamp, maxTimestamp, keyDayCount, pageIndexOffset, pageCount,
            pageIndexChecksum, fileByteCount, ledgerEntryCount, ledgerRawByteCount,
            ledgerByteCount, ledgerChecksum, reserved, checksum,
        ]
    }
}
