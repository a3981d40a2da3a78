// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

extension SegmentFooter {
    /// The footer's head; the section table follows, then the checksum of both, then the sections.
    package static let layout = Layout<Self>(
        .magic, .version,
        .derived("section count", 2) { _ in UInt64(Section.allCases.count) },
        .id("segment", \.segment), .int("header checksum", \.headerChecksum),
        .id("directory", \.directory), .int("sealed at", \.sealedAt),
        .int("row count", \.rowCount, in: 0...UInt64(Limits.segmentRowCountMax)),
        .int("min timestamp", \.minTimestamp), .int("max timestamp", \.maxTimestamp),
        .int("commit epoch", \.commitEpoch), .int("last block checksum", \.lastBlockChecksum),
        .int("block count", \.blockCount, in: 0...UInt64(Limits.segmentBlockCountMax)),
        .range("first name", "next name", \.names, max: Limits.nameCountMax + 1),
        .range("first key", "next key", \.keys, max: Limits.keyCountMax),
        .derived("block entry count", 4) { UInt64($0.blocks.count) },
        .derived("key day count", 4) { UInt64($0.rewardDays.rowCount) },
        .derived("page count", 4) { UInt64($0.rewardDays.index.entries.count) },
        .derived("ledger entry count", 4) { UInt64($0.ledger.count) },
        .derived("lost range count", 4) { UInt64($0.lost.count) },
        .derived("day row count", 4) { UInt64($0.days.rowCount) },
        .derived("day page count", 4) { UInt64($0.days.index.entries.count) },
        .reserved(4), .int("ids complete since", \.idsCompleteSince))
    /// `IGF1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3146_4749
}

/// The places of a line of the footer's section of blocks: docs/format/segment.md has the same table, and a test
/// compares them. There are too many of these lines for a `Layout`.
package enum SegmentLayout {
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
