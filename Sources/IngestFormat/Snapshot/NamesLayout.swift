// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The fixed places of a names run: docs/format/names.md has the same tables, and a test compares them.
package enum NamesLayout {
    /// Names of one page: a look-up reads one page of a run that does not have the name.
    package static let namePageCapacity = 256
    /// Ranks, keys and rewards of one page. All but the last page of each kind are full.
    package static let pairPageCapacity = 1024

    /// One entry of the page index: the pages of `NamesPageKind.allCases`, kind by kind.
    package enum PageEntry {
        package static let byteCount = 12
        package static let pageByteCount = FormatField("page byte count", 0, 4)
        package static let checksum = FormatField("checksum", 4, 4)
        package static let first = FormatField("first", 8, 4)

        package static let fields = [pageByteCount, checksum, first]
    }
}

/// The kinds of pages of a names run, in the order in which they lie in the file: by text, by ordinal, by reward.
package enum NamesPageKind: Int, CaseIterable, Sendable {
    /// The names in bytewise order, each with its ordinal.
    case names
    /// The place of each name in that order, by ordinal.
    case ranks
    /// The names of each key, by ordinal.
    case keys
    /// The reward of each key and its ordinal, in the order of the rewards.
    case rewards

    /// Items of one page.
    package var capacity: Int {
        self == .names ? NamesLayout.namePageCapacity : NamesLayout.pairPageCapacity
    }

    /// Packed columns of a page.
    var columnCount: Int {
        switch self {
        case .names: 3
        case .ranks: 1
        case .keys, .rewards: 2
        }
    }

    /// What a page of `capacity` items takes at most.
    package var byteCountMax: Int {
        let columns = columnCount * PackedColumn.byteCountMax(capacity)
        return self == .names ? columns + capacity * Limits.nameByteCountMax : columns
    }
}
