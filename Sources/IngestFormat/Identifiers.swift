// packet → decode → ring → admit → block → segment → compaction → snapshot → query
// The ids that travel along the whole path. Each is a type of its own, so that an ordinal can never be
// passed where a sequence is meant; all are plain integers in memory and on disk. Inlinable, because they
// are made and unwrapped per event in other modules.

/// The sender's own 64-bit id. 0 is refused on the wire: plain datagrams are stored under it.
@frozen package struct SenderID: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    package let rawValue: UInt64
    @inlinable package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// One start of a sender: `unix_milliseconds << 20 | 20 random bits`, greater at each start.
@frozen package struct SenderEpoch: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    package let rawValue: UInt64
    @inlinable package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// The number of a batch packet within its sender epoch: from 0, +1 each.
@frozen package struct PacketSequence: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    package let rawValue: UInt64
    @inlinable package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// A name (reward, business, campaign, source or platform) as its number in the directory's one
/// append-only dictionary. 0 means "no name"; the first name given is 1.
@frozen
package struct NameOrdinal: RawRepresentable, Hashable, Sendable, BitwiseCopyable, Comparable {
    package let rawValue: UInt32
    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }
    package static let none = NameOrdinal(rawValue: 0)
    @inlinable package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// A *reward key*, the pair (reward, business), as its number in the directory's append-only list of
/// keys. The first key given is 0, so that counters can be dense arrays.
@frozen
package struct KeyOrdinal: RawRepresentable, Hashable, Sendable, BitwiseCopyable, Comparable {
    package let rawValue: UInt32
    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// The pair of names behind a `KeyOrdinal`.
@frozen package struct RewardKey: Hashable, Sendable, BitwiseCopyable {
    package let reward: NameOrdinal
    package let business: NameOrdinal
    @inlinable package init(reward: NameOrdinal, business: NameOrdinal) {
        self.reward = reward
        self.business = business
    }
}

/// The number of a segment in the log: from 1, +1 each, never reused.
@frozen
package struct SegmentNumber: RawRepresentable, Hashable, Sendable, BitwiseCopyable, Comparable {
    package let rawValue: UInt32
    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
    /// The number after this one.
    package var next: SegmentNumber { SegmentNumber(rawValue: rawValue &+ 1) }
}

/// A place in the log between two blocks: `blockCount` blocks of `segment` lie before it, and all of
/// every segment with a lower number.
///
/// `(segment: 0, blockCount: 0)` is the start of the log, before the first segment.
package struct LogPosition: Hashable, Sendable, BitwiseCopyable, Comparable {
    package let segment: SegmentNumber
    package let blockCount: UInt32
    package init(segment: SegmentNumber, blockCount: UInt32) {
        self.segment = segment
        self.blockCount = blockCount
    }
    package static let start = LogPosition(segment: SegmentNumber(rawValue: 0), blockCount: 0)
    @inlinable package static func < (a: Self, b: Self) -> Bool {
        (a.segment, a.blockCount) < (b.segment, b.blockCount)
    }
}

/// The random identity of a data directory, made once and written in every file of it, so that a file
/// of another directory is never taken for one of this.
@frozen package struct DirectoryID: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    package let rawValue: UInt64
    @inlinable package init(rawValue: UInt64) { self.rawValue = rawValue }
}
