// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

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
    var part: BlockSections {
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
