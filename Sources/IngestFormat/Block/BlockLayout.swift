// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// The fixed places of a block: docs/format/block.md has the same tables, and a test compares them.
package enum BlockLayout {
    /// `IGB1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3142_4749
    package static let version: UInt16 = 1
    package static let headerByteCountMin = 136
    /// Of any version, so that a length can be believed enough to check the checksum behind it.
    package static let headerByteCountMax = 4096
    package static let sectionEntryByteCount = 16
    /// Of a block that is committed: a write of the next one touches no sector of a disk that it is in.
    package static let commitAlignment = 4096
    /// Of a rewritten one, and of all sections together.
    package static let alignment = 8

    /// Of which a block's length is a multiple.
    static func alignment(of context: BlockContext) -> Int {
        context.rewritten == nil ? commitAlignment : alignment
    }

    package enum Header {
        package static let magic = FormatField("magic", 0, 4)
        package static let version = FormatField("version", 4, 2)
        package static let headerByteCount = FormatField("header byte count", 6, 2)
        package static let byteCount = FormatField("byte count", 8, 4)
        package static let headerChecksum = FormatField("header checksum", 12, 4)
        package static let previousChecksum = FormatField("previous checksum", 16, 4)
        package static let segment = FormatField("segment", 20, 4)
        package static let directory = FormatField("directory", 24, 8)
        package static let blockOrdinal = FormatField("block ordinal", 32, 4)
        package static let rowCount = FormatField("row count", 36, 4)
        package static let commitEpoch = FormatField("commit epoch", 40, 8)
        package static let minTimestamp = FormatField("min timestamp", 48, 8)
        package static let maxTimestamp = FormatField("max timestamp", 56, 8)
        package static let admissionTime = FormatField("admission time", 64, 8)
        package static let firstName = FormatField("first name", 72, 4)
        package static let nameCount = FormatField("name count", 76, 4)
        package static let firstKey = FormatField("first key", 80, 4)
        package static let keyCount = FormatField("key count", 84, 4)
        package static let shard = FormatField("shard", 88, 2)
        package static let policyVersion = FormatField("policy version", 90, 2)
        package static let sectionCount = FormatField("section count", 92, 2)
        package static let commitCount = FormatField("commit count", 94, 2)
        package static let eventHashCount = FormatField("event hash count", 96, 4)
        package static let sessionCount = FormatField("session count", 100, 4)
        package static let measuredCount = FormatField("measured count", 104, 4)
        package static let moneyCount = FormatField("money count", 108, 4)
        package static let ledgerEntryCount = FormatField("ledger entry count", 112, 4)
        package static let lastChecksum = FormatField("last checksum", 116, 4)
        package static let lastAdmissionTime = FormatField("last admission time", 120, 8)
        package static let zoneVersion = FormatField("zone version", 128, 4)
        package static let rewardHashCount = FormatField("reward hash count", 132, 4)

        package static let fields = [
            magic, version, headerByteCount, byteCount, headerChecksum, previousChecksum, segment,
            directory, blockOrdinal, rowCount, commitEpoch, minTimestamp, maxTimestamp,
            admissionTime, firstName, nameCount, firstKey, keyCount, shard, policyVersion,
            sectionCount, commitCount, eventHashCount, sessionCount, measuredCount, moneyCount,
            ledgerEntryCount, lastChecksum, lastAdmissionTime, zoneVersion, rewardHashCount,
        ]
    }

    /// One entry of the section table, from its own first byte.
    package enum Section {
        package static let kind = FormatField("kind", 0, 2)
        package static let encoding = FormatField("encoding", 2, 1)
        package static let parameter = FormatField("parameter", 3, 1)
        package static let rawByteCount = FormatField("raw byte count", 4, 4)
        package static let byteCount = FormatField("byte count", 8, 4)
        package static let checksum = FormatField("checksum", 12, 4)

        package static let fields = [kind, encoding, parameter, rawByteCount, byteCount, checksum]
    }

    /// The checksum of the header and section table: all but the checksum's own four bytes.
    /// - Parameter header: `headerByteCount` bytes.
    static func headerChecksum(_ header: UnsafeRawBufferPointer) -> UInt32 {
        let field = Header.headerChecksum
        // SAFETY: a header has at least headerByteCountMin bytes, beyond this field.
        let before = unsafe UnsafeRawBufferPointer(rebasing: header[..<field.offset])
        let after = unsafe UnsafeRawBufferPointer(rebasing: header[field.end...])
        return unsafe Checksum.crc32c(after, seed: Checksum.crc32c(before))
    }
}

/// Reads and writes fields of a header in place.
@unsafe struct FieldBytes {
    let base: UnsafeMutableRawPointer

    /// Writes the low bytes of `value`.
    func put(_ value: some FixedWidthInteger, _ field: FormatField) {
        let bits = UInt64(truncatingIfNeeded: value)
        for i in 0..<field.byteCount {
            // SAFETY: the caller's memory has room for the header that the field is one of.
            unsafe base.storeBytes(
                of: UInt8(truncatingIfNeeded: bits >> UInt64(8 * i)),
                toByteOffset: field.offset + i, as: UInt8.self)
        }
    }
}

extension FormatField {
    /// The field's value, zero-extended; at most 8 bytes.
    /// - Parameter base: of the header; all of the field is there.
    @inline(__always)
    func load(_ base: UnsafeRawPointer) -> UInt64 {
        var bits: UInt64 = 0
        for i in 0..<byteCount {
            // SAFETY: the caller checked that the header is all there.
            let byte = unsafe base.load(fromByteOffset: offset + i, as: UInt8.self)
            bits |= UInt64(byte) << UInt64(8 * i)
        }
        return bits
    }
}

/// The kinds of section that a block may have. Raw values are on disk; sections lie in their order.
package enum BlockSectionKind: UInt16, Sendable, CaseIterable {
    case names = 1
    case keyRewards = 2
    case keyBusinesses = 3
    case ledger = 4
    /// Of a rewritten block, for each of its commits: rows, admission time, policy version, zone version.
    case commitRows = 5
    case commitTimes = 6
    case commitPolicies = 7
    case commitZones = 8

    case attributes = 16
    case key = 17
    case timestamp = 18
    case day = 19
    case platform = 20
    case campaign = 21
    case source = 22
    case eventHash = 23
    /// The 48-bit pseudonym of rows with a session.
    case session = 24
    case visible = 25
    case duration = 26
    case revenue = 27
    case spend = 28
    /// The hash of the reward of rows that are counted under their business's `(other)`.
    case rewardHash = 29

    /// As in the format page, and in errors.
    package var name: String {
        switch self {
        case .names: "names"
        case .keyRewards: "key rewards"
        case .keyBusinesses: "key businesses"
        case .ledger: "ledger"
        case .commitRows: "commit rows"
        case .commitTimes: "commit times"
        case .commitPolicies: "commit policies"
        case .commitZones: "commit zones"
        case .attributes: "attributes"
        case .key: "key"
        case .timestamp: "timestamp"
        case .day: "day"
        case .platform: "platform"
        case .campaign: "campaign"
        case .source: "source"
        case .eventHash: "event hash"
        case .session: "session"
        case .visible: "visible"
        case .duration: "duration"
        case .revenue: "revenue"
        case .spend: "spend"
        case .rewardHash: "reward hash"
        }
    }

    /// The part of `BlockSections` that asks for it.
    package var part: BlockSections {
        switch self {
        case .names, .keyRewards, .keyBusinesses: .dictionary
        case .ledger: .ledger
        case .commitRows, .commitTimes, .commitPolicies, .commitZones: .commits
        case .attributes: .attributes
        case .key: .key
        case .timestamp: .timestamp
        case .day: .day
        case .platform: .platform
        case .campaign, .source: .attribution
        case .eventHash: .eventHash
        case .session: .session
        case .rewardHash: .rewardHash
        case .visible, .duration: .viewability
        case .revenue, .spend: .money
        }
    }
}

/// Which parts of a block a reader asks for. Of what it does not ask for, only the entry in the section
/// table is checked.
package struct BlockSections: OptionSet, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// New names and new keys.
    package static let dictionary = BlockSections(rawValue: 1 << 0)
    package static let ledger = BlockSections(rawValue: 1 << 1)
    package static let attributes = BlockSections(rawValue: 1 << 2)
    package static let key = BlockSections(rawValue: 1 << 3)
    package static let timestamp = BlockSections(rawValue: 1 << 4)
    package static let day = BlockSections(rawValue: 1 << 5)
    /// Campaign and source.
    package static let attribution = BlockSections(rawValue: 1 << 6)
    package static let eventHash = BlockSections(rawValue: 1 << 7)
    /// Visible share and duration.
    package static let viewability = BlockSections(rawValue: 1 << 8)
    /// Revenue and spend.
    package static let money = BlockSections(rawValue: 1 << 9)
    /// Where in a block each commit's rows are, and when these were admitted.
    package static let commits = BlockSections(rawValue: 1 << 10)
    package static let platform = BlockSections(rawValue: 1 << 11)

    /// Pseudonyms of sessions.
    package static let session = BlockSections(rawValue: 1 << 12)
    /// Hashes of rewards beyond the limit of their business.
    package static let rewardHash = BlockSections(rawValue: 1 << 13)

    /// What folding into counters of keys reads; with `attribution` into all.
    package static let counters: BlockSections = [.attributes, .key, .day, .money]
    /// What rebuilding the dedup index reads.
    package static let identity: BlockSections = [.attributes, .key, .eventHash, .money, .commits]
    package static let rows: BlockSections = [
        .attributes, .key, .timestamp, .day, .platform, .attribution, .eventHash, .session,
        .viewability, .money, .rewardHash,
    ]
    package static let all: BlockSections = [.rows, .dictionary, .ledger, .commits]

    /// The columns whose length only the attributes can vouch for.
    static let sparse: BlockSections = [.eventHash, .session, .viewability, .money, .rewardHash]
}

/// One entry of the section table, checked against the header.
package struct BlockSectionEntry: Hashable, Sendable {
    package var kind: BlockSectionKind
    package var encoding: SectionEncoding
    package var parameter: Int
    /// Before LZ4.
    package var rawByteCount: Int
    /// In the block.
    package var byteCount: Int
    package var checksum: UInt32
    /// From the block's first byte.
    package var offset: Int
}

extension BlockDecoder {
    /// The commits of a block: those that it was made of, or itself.
    func commits(_ block: BlockView) throws(FormatError) -> BlockCommits {
        let header = unsafe block.header
        var commits = BlockCommits()
        guard let rewritten = header.context.rewritten else {
            commits.append(
                rowCount: header.rowCount, admissionTime: header.context.admissionTime,
                policyVersion: header.context.policyVersion,
                zoneVersion: header.context.zoneVersion)
            return commits
        }
        let count = Int(rewritten.count)
        commits = BlockCommits(
            rowCounts: try unsafe array(.commitRows, block, count, in: 0...Int64(header.rowCount)),
            admissionTimes: try unsafe array(.commitTimes, block, count, in: .min ... .max),
            policyVersions: try unsafe array(.commitPolicies, block, count, in: 0...0xffff),
            zoneVersions: try unsafe array(.commitZones, block, count, in: 0...0xffff_ffff))
        typealias Field = BlockLayout.Header
        let rowCount = commits.rowCounts.reduce(0) { $0 + Int($1) }
        try require(Field.rowCount, header.rowCount, is: rowCount)
        let (context, times) = (header.context, commits.admissionTimes)
        try require(
            Field.policyVersion, Int(context.policyVersion), is: Int(commits.policyVersions[0]))
        try require(
            Field.zoneVersion, Int(context.zoneVersion), is: Int(commits.zoneVersions[0]))
        try require(Field.admissionTime, Int(context.admissionTime), is: Int(times[0]))
        try require(
            Field.lastAdmissionTime, Int(header.lastAdmissionTime), is: Int(times[count - 1]))
        return commits
    }

    private func array<Value: FixedWidthInteger & BitwiseCopyable>(
        _ kind: BlockSectionKind, _ block: BlockView, _ count: Int, in domain: ClosedRange<Int64>
    ) throws(FormatError) -> [Value] {
        let target = UnsafeMutablePointer<Value>.allocate(capacity: count)
        defer { unsafe target.deallocate() }
        try unsafe column(
            kind, block, count, min: domain.lowerBound, max: domain.upperBound, into: target)
        // SAFETY: count values were decoded; the section table has seen to it that the section is there.
        return unsafe Array(UnsafeBufferPointer(start: target, count: count))
    }
}
