// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// What the commit stage knows of a block before its rows are encoded.
package struct BlockContext: Hashable, Sendable {
    package var directory: DirectoryID
    package var shard: UInt16
    package var segment: SegmentNumber
    /// Place of the block's (first) commit in its segment, from 0.
    package var blockOrdinal: UInt32
    /// Count of group commits of this directory, growing by one a block.
    package var commitEpoch: UInt64
    /// `BlockSummary.headerChecksum` of the block before, over segments too; 0 for a directory's first.
    package var previousChecksum: UInt32
    /// The wall clock that all events of the block were judged by. Microseconds since 1970 UTC.
    package var admissionTime: Int64
    package var policyVersion: UInt16
    /// What the days of the rows were made from: a checksum of all time zones in force; 0 = UTC alone.
    package var zoneVersion: UInt32
    /// What the block's first new name, and key, is numbered; also the next to be given if it has none.
    package var firstName: NameOrdinal
    package var firstKey: KeyOrdinal
    /// What was committed in its place; `nil` for a block as it was committed.
    package var rewritten: RewrittenCommits?

    package init(
        directory: DirectoryID, shard: UInt16 = 0, segment: SegmentNumber, blockOrdinal: UInt32,
        commitEpoch: UInt64, previousChecksum: UInt32, admissionTime: Int64, policyVersion: UInt16,
        zoneVersion: UInt32 = 0, firstName: NameOrdinal, firstKey: KeyOrdinal,
        rewritten: RewrittenCommits? = nil
    ) {
        self.directory = directory
        self.shard = shard
        self.segment = segment
        self.blockOrdinal = blockOrdinal
        self.commitEpoch = commitEpoch
        self.previousChecksum = previousChecksum
        self.admissionTime = admissionTime
        self.policyVersion = policyVersion
        self.zoneVersion = zoneVersion
        self.firstName = firstName
        self.firstKey = firstKey
        self.rewritten = rewritten
    }
}

/// Of a block that was made at sealing from several small ones: it stands for all their commits, and what follows
/// it in the log still names the last of them.
package struct RewrittenCommits: Hashable, Sendable {
    /// 1 ... `Limits.blockCommitCountMax`, from the block's ordinal and commit epoch on, without a gap.
    package var count: UInt32
    /// Of the last one, µs since 1970; the first one's is the block's.
    package var lastAdmissionTime: Int64
    /// Header checksum of the last one as it was committed.
    package var lastChecksum: UInt32
}

extension RewrittenCommits {
    /// All from the block `first` to `last`.
    package init(from first: BlockHeader, to last: BlockHeader) {
        self.init(
            count: last.endOrdinal - first.context.blockOrdinal,
            lastAdmissionTime: last.lastAdmissionTime, lastChecksum: last.chainChecksum)
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
    /// The whole block with its final padding; a multiple of 4,096, or of 8 if it was rewritten.
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
    package var sessionCount: Int
    /// How many rows are of rewards beyond the limit of their business.
    package var rewardHashCount: Int
    package var measuredCount: Int
    package var moneyCount: Int
    package var ledgerEntryCount: Int
    package var sectionCount: Int

    /// Of the commit behind the block's.
    package var endOrdinal: UInt32 { context.blockOrdinal &+ commitCount }
    package var commitCount: UInt32 { context.rewritten?.count ?? 1 }
    /// Of its last commit.
    package var lastAdmissionTime: Int64 { summary.lastAdmissionTime }
    /// The next block's `previousChecksum`.
    package var chainChecksum: UInt32 { context.rewritten?.lastChecksum ?? headerChecksum }

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
            commitEpoch: context.commitEpoch, admissionTime: context.admissionTime,
            rewritten: context.rewritten)
    }
}

/// What a block index keeps of a block.
package struct BlockSummary: Hashable, Sendable {
    package var byteCount: Int
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
    /// Of its first commit.
    package var commitEpoch: UInt64
    package var admissionTime: Int64
    package var rewritten: RewrittenCommits?

    package init(
        byteCount: Int, headerChecksum: UInt32, rowCount: Int, minTimestamp: Int64,
        maxTimestamp: Int64, firstName: NameOrdinal, nameCount: Int, firstKey: KeyOrdinal,
        keyCount: Int, eventHashCount: Int, ledgerEntryCount: Int, commitEpoch: UInt64,
        admissionTime: Int64, rewritten: RewrittenCommits? = nil
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
        self.rewritten = rewritten
    }

    package var commitCount: UInt32 { rewritten?.count ?? 1 }
    /// Of its last commit.
    package var lastAdmissionTime: Int64 { rewritten?.lastAdmissionTime ?? admissionTime }
    /// When the senders in its ledger were seen; `nil` for a rewritten block, whose entries say it each.
    package var ledgerTime: Int64? { rewritten == nil ? admissionTime : nil }
    package var lastCommitEpoch: UInt64 { commitEpoch &+ UInt64(commitCount) &- 1 }
    /// The next block's `previousChecksum`.
    package var chainChecksum: UInt32 { rewritten?.lastChecksum ?? headerChecksum }
}

/// The commits that a block holds, in their order: one for a block as it was committed.
package struct BlockCommits: Hashable, Sendable {
    package private(set) var rowCounts: [UInt32] = []
    package private(set) var admissionTimes: [Int64] = []
    package private(set) var policyVersions: [UInt16] = []
    package private(set) var zoneVersions: [UInt32] = []

    package init() {}

    init(
        rowCounts: [UInt32], admissionTimes: [Int64], policyVersions: [UInt16],
        zoneVersions: [UInt32]
    ) {
        (self.rowCounts, self.admissionTimes) = (rowCounts, admissionTimes)
        (self.policyVersions, self.zoneVersions) = (policyVersions, zoneVersions)
    }

    package var count: Int { rowCounts.count }

    package mutating func append(
        rowCount: Int, admissionTime: Int64, policyVersion: UInt16, zoneVersion: UInt32 = 0
    ) {
        rowCounts.append(UInt32(rowCount))
        admissionTimes.append(admissionTime)
        policyVersions.append(policyVersion)
        zoneVersions.append(zoneVersion)
    }

    package mutating func append(_ more: BlockCommits) {
        rowCounts += more.rowCounts
        admissionTimes += more.admissionTimes
        policyVersions += more.policyVersions
        zoneVersions += more.zoneVersions
    }

    package mutating func removeAll() {
        rowCounts.removeAll(keepingCapacity: true)
        admissionTimes.removeAll(keepingCapacity: true)
        policyVersions.removeAll(keepingCapacity: true)
        zoneVersions.removeAll(keepingCapacity: true)
    }

    /// Calls `body` with the place of each commit in the block and with its rows.
    package func forEach<Failure: Error>(
        _ body: (_ place: Int, _ rows: Range<Int>) throws(Failure) -> Void
    ) throws(Failure) {
        var row = 0
        for place in rowCounts.indices {
            let end = row + Int(rowCounts[place])
            try body(place, row..<end)
            row = end
        }
    }
}
