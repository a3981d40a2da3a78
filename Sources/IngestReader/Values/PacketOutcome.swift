// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// What became of a datagram; raw values are the names that ledger and metrics use. In the order of their codes.
public enum PacketOutcome: String, Sendable, CaseIterable {
    case accepted, resend
    case badLength = "bad_length"
    case badMagic = "bad_magic"
    case badCRC = "bad_crc"
    case badTag = "bad_tag"
    case unauthenticated, truncated, malformed
    case badKind = "bad_kind"
    case oldEpoch = "old_epoch"
    case belowFloor = "below_floor"
    case farJump = "far_jump"
    case sequenceConflict = "sequence_conflict"
    case shed
}

extension CaseIterable where Self: Hashable {
    /// Those that there are.
    /// - Parameter byCode: a count for each case, in their order.
    static func counts(_ byCode: [UInt64]) -> [Self: UInt64] {
        Dictionary(uniqueKeysWithValues: zip(allCases, byCode).filter { $1 > 0 })
    }
}
