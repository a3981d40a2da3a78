// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

/// The fixed places of a segment's footer: docs/format/segment.md has the same tables,
/// and a test compares them.
package enum SegmentLayout {
    /// The footer's head; the section table follows, then the head's checksum, then the sections.
    package enum Footer {
        package static let byteCount = 128
        /// `IGF1` as its bytes lie in the file.
        package static let magicNumber: UInt32 = 0x3146_4749

        package static let magic = FileEnvelope.magicField
        package static let version = FileEnvelope.versionField
        package static let sectionCount = FormatField("section count", 6, 2)
        package static let segment = FormatField("segment", 8, 4)
        package static let headerChecksum = FormatField("header checksum", 12, 4)
        package static let directory = FormatField("directory", 16, 8)
        package static let sealedAt = FormatField("sealed at", 24, 8)
        package static let rowCount = FormatField("row count", 32, 8)
        package static let minTimestamp = FormatField("min timestamp", 40, 8)
        package static let maxTimestamp = FormatField("max timestamp", 48, 8)
        package static let commitEpoch = FormatField("commit epoch", 56, 8)
        package static let lastBlockChecksum = FormatField("last block checksum", 64, 4)
        package static let blockCount = FormatField("block count", 68, 4)
        package static let firstName = FormatField("first name", 72, 4)
        package static let nextName = FormatField("next name", 76, 4)
        package static let firstKey = FormatField("first key", 80, 4)
        package static let nextKey = FormatField("next key", 84, 4)
        package static let blockEntryCount = FormatField("block entry count", 88, 4)
        package static let keyDayCount = FormatField("key day count", 92, 4)
        package static let pageCount = FormatField("page count", 96, 4)
        package static let ledgerEntryCount = FormatField("ledger entry count", 100, 4)
        package static let lostRangeCount = FormatField("lost range count", 104, 4)
        package static let dayRowCount = FormatField("day row count", 108, 4)
        package static let dayPageCount = FormatField("day page count", 112, 4)
        package static let reserved = FormatField("reserved", 116, 4)
        package static let idsCompleteSince = FormatField("ids complete since", 120, 8)

        package static let fields = [
            magic, version, sectionCount, segment, headerChecksum, directory, sealedAt, rowCount,
            minTimestamp, maxTimestamp, commitEpoch, lastBlockChecksum, blockCount, firstName,
            nextName, firstKey, nextKey, blockEntryCount, keyDayCount, pageCount,
            ledgerEntryCount, lostRangeCount, dayRowCount, dayPageCount, reserved,
            idsCompleteSince,
        ]
    }

    /// One entry of the footer's section table.
    package enum Section {
        package static let byteCount = 16
        package static let kind = FormatField("kind", 0, 2)
        package static let encoding = FormatField("encoding", 2, 1)
        package static let reserved = FormatField("reserved", 3, 1)
        package static let rawByteCount = FormatField("raw byte count", 4, 4)
        package static let storedByteCount = FormatField("stored byte count", 8, 4)
        package static let checksum = FormatField("checksum", 12, 4)

        package static let fields = [
            kind, encoding, reserved, rawByteCount, storedByteCount, checksum,
        ]
    }

    /// One entry of the section of blocks.
    package enum Block {
        package static let byteCount = 80
        package static let offset = FormatField("offset", 0, 8)
        package static let ordinal = FormatField("ordinal", 8, 4)
        package static let blockByteCount = FormatField("block byte count", 12, 4)
        package static let headerChecksum = FormatField("header checksum", 16, 4)
        package static let rowCount = FormatField("row count", 20, 4)
        package static let minTimestamp = FormatField("min timestamp", 24, 8)
        package static let maxTimestamp = FormatField("max timestamp", 32, 8)
        package static let commitEpoch = FormatField("commit epoch", 40, 8)
        package static let admissionTime = FormatField("admission time", 48, 8)
        package static let firstName = FormatField("first name", 56, 4)
        package static let nameCount = FormatField("name count", 60, 4)
        package static let firstKey = FormatField("first key", 64, 4)
        package static let keyCount = FormatField("key count", 68, 4)
        package static let eventHashCount = FormatField("event hash count", 72, 4)
        package static let ledgerEntryCount = FormatField("ledger entry count", 76, 4)

        package static let fields = [
            offset, ordinal, blockByteCount, headerChecksum, rowCount, minTimestamp, maxTimestamp,
            commitEpoch, admissionTime, firstName, nameCount, firstKey, keyCount, eventHashCount,
            ledgerEntryCount,
        ]
    }
}
