// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

/// What bytes in an unsealed segment are that are no whole block. The one place where *torn* and *bad* are
/// told apart (docs/durability.md).
enum DamageVerdict: Equatable {
    /// Blocks that were durable are missing here: a gap in the ordinals, reported as lost.
    case lost
    /// The write that a crash cut off: never durable, never acked. Cut, and kept aside.
    case torn
    /// No block can have been here: a footer that was not finished, or bytes that belong to nobody.
    case remnant

    /// - Parameters:
    ///   - missingBlockCount: ordinals that were given and of which no block was found here.
    ///   - isFollowed: whether a sound block or segment header lies further on in the log. A block is
    ///     written, and a segment begun, only after the block before was synced: what is followed was durable.
    ///   - isBelowBound: whether the durable mark or the manifest's cut lies behind the first missing block.
    ///   - isFooter: whether the bytes begin as a footer does.
    init(missingBlockCount: UInt32, isFollowed: Bool, isBelowBound: Bool, isFooter: Bool) {
        if isFollowed || isBelowBound {
            self = missingBlockCount > 0 ? .lost : .remnant
        } else {
            self = isFooter ? .remnant : .torn
        }
    }
}
