// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// What the commit stage knows of a block before its rows are encoded.
package struct BlockContext: Hashable, Sendable {
    package var directory: DirectoryID
    package var shard: UInt16
    package var segment: SegmentNumber
    /// Place of the block in its segment, from 0.
    package var blockOrdinal: UInt32
    /// Count of group commits of this directory, growing by one a block.
    package var commitEpoch: UInt64
    /// `BlockSummary.headerChecksum` of the block before, over segments too; 0 for a directory's first.
    package var previousChecksum: UInt32
    /// The wall clock that all events of the block were judged by. Microseconds since 1970 UTC.
    package var admissionTime: Int64
    package var policyVersion: UInt16
    /// What the block's first new name, and key, is numbered; also the next to be given if it has none.
    package var firstName: NameOrdinal
    package var firstKey: KeyOrdinal

    package init(
        directory: DirectoryID, shard: UInt16 = 0, segment: SegmentNumber, blockOrdinal: UInt32,
        commitEpoch: UInt64, previousChecksum: UInt32, admissionTime: Int64, policyVersion: UInt16,
        firstName: NameOrdinal, firstKey: KeyOrdinal
    ) {
        self.directory = directory
        self.shard = shard
        self.segment = segment
        self.blockOrdinal = blockOrdinal
        self.commitEpoch = commitEpoch
        self.previousChecksum = previousChecksum
        self.admissionTime = admissionTime
        self.policyVersion = policyVersion
        self.firstName = firstName
        self.firstKey = firstKey
    }
}

/// Where a reader expects a block to be from. Fields that are `nil` are not compared.
package struct BlockPlace: Hashable, Sendable {
    package var directory: DirectoryID?
    package var segment: SegmentNumber?
    package var blockOrdinal: UInt32?
    package var previousChecksum: UInt32?

    package init(
        directory: DirectoryID? = nil, segment: SegmentNumber? = nil, blockOrdinal: UInt32? = nil,
        previousChecksum: UInt32? = nil
    ) {
        self.directory = directory
        self.segment = segment
        self.blockOrdinal = blockOrdinal
        self.previousChecksum = previousChecksum
    }

    package static let anywhere = BlockPlace()
}

/// The fixed part of a block's header, checked.
package struct BlockHeader: Hashable, Sendable {
    package var context: BlockContext
    /// Fixed part + section table.
    package var headerByteCount: Int
    /// The whole block with its final padding; a multiple of 8.
    package var byteCount: Int
    /// CRC-32C of the header and the section table, and so, by the sections' own, of the whole block.
    package var headerChecksum: UInt32
    package var rowCount: Int
    /// Of the rows' event times; both 0 in a block without rows. Microseconds since 1970 UTC.
    package var minTimestamp: Int64
    package var maxTimestamp: Int64
    package var nameCount: Int
    package var keyCount: Int
    /// How many rows have an event id, viewability, money.
    package var eventHashCount: Int
    package var measuredCount: Int
    package var moneyCount: Int
    package var ledgerEntryCount: Int
    package var sectionCount: Int

    /// The ordinals that the next block begins with.
    package var nextName: NameOrdinal {
        NameOrdinal(rawValue: context.firstName.rawValue &+ UInt32(truncatingIfNeeded: nameCount))
    }
    package var nextKey: KeyOrdinal {
        KeyOrdinal(rawValue: context.firstKey.rawValue &+ UInt32(truncatingIfNeeded: keyCount))
    }

    package var summary: BlockSummary {
        BlockSummary(
            byteCount: byteCount, headerChecksum: headerChecksum, rowCount: rowCount,
            minTimestamp: minTimestamp, maxTimestamp: maxTimestamp,
            firstName: context.firstName, nameCount: nameCount,
            firstKey: context.firstKey, keyCount: keyCount,
            eventHashCount: eventHashCount, ledgerEntryCount: ledgerEntryCount,
            commitEpoch: context.commitEpoch, admissionTime: context.admissionTime)
    }
}

/// What a block index keeps of a block.
package struct BlockSummary: Hashable, Sendable {
    package var byteCount: Int
    /// The next block's `previousChecksum`.
    package var headerChecksum: UInt32
    package var rowCount: Int
    package var minTimestamp: Int64
    package var maxTimestamp: Int64
    package var firstName: NameOrdinal
    package var nameCount: Int
    package var firstKey: KeyOrdinal
    package var keyCount: Int
    package var eventHashCount: Int
    package var ledgerEntryCount: Int
    package var commitEpoch: UInt64
    package var admissionTime: Int64

    package init(
        byteCount: Int, headerChecksum: UInt32, rowCount: Int, minTimestamp: Int64,
        maxTimestamp: Int64, firstName: NameOrdinal, nameCount: Int, firstKey: KeyOrdinal,
        keyCount: Int, eventHashCount: Int, ledgerEntryCount: Int, commitEpoch: UInt64,
        admissionTime: Int64
    ) {
        self.byteCount = byteCount
        self.headerChecksum = headerChecksum
        self.rowCount = rowCount
        self.minTimestamp = minTimestamp
        self.maxTimestamp = maxTimestamp
        self.firstName = firstName
        self.nameCount = nameCount
        self.firstKey = firstKey
        self.keyCount = keyCount
        self.eventHashCount = eventHashCount
        self.ledgerEntryCount = ledgerEntryCount
        self.commitEpoch = commitEpoch
        self.admissionTime = admissionTime
    }
}
