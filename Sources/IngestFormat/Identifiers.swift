// packet → decode → ring → admit → block → segment → compaction → snapshot → query
// The ids that travel along the whole path. Each is a type of its own, so that an ordinal can never be
// passed where a sequence is meant; all are plain integers in memory and on disk. Inlinable, because they
// are made and unwrapped per event in other modules.

/// The sender's own 64-bit id. 0 is refused on the wire: plain datagrams are stored under it.
@frozen public struct SenderID: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt64
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// One start of a sender: `unix_milliseconds << 20 | 20 random bits`, greater at each start.
@frozen public struct SenderEpoch: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt64
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// The number of a batch packet within its sender epoch: from 0, +1 each.
@frozen public struct PacketSequence: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt64
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// A name (reward, business, campaign, source or platform) as its number in the directory's one
/// append-only dictionary. 0 means "no name"; the first name given is 1.
@frozen
public struct NameOrdinal: RawRepresentable, Hashable, Sendable, BitwiseCopyable, Comparable {
    public let rawValue: UInt32
    @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
    public static let none = NameOrdinal(rawValue: 0)
    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// A *reward key*, the pair (reward, business), as its number in the directory's append-only list of
/// keys. The first key given is 0, so that counters can be dense arrays.
@frozen
public struct KeyOrdinal: RawRepresentable, Hashable, Sendable, BitwiseCopyable, Comparable {
    public let rawValue: UInt32
    @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// The pair of names behind a `KeyOrdinal`.
@frozen public struct RewardKey: Hashable, Sendable, BitwiseCopyable {
    public let reward: NameOrdinal
    public let business: NameOrdinal
    @inlinable public init(reward: NameOrdinal, business: NameOrdinal) {
        self.reward = reward
        self.business = business
    }
}

/// The number of a segment in the log: from 1, +1 each, never reused.
@frozen
public struct SegmentNumber: RawRepresentable, Hashable, Sendable, BitwiseCopyable, Comparable {
    public let rawValue: UInt32
    @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
    /// The number after this one.
    public var next: SegmentNumber { SegmentNumber(rawValue: rawValue &+ 1) }
}

/// A place in the log between two blocks: `blockCount` blocks of `segment` lie before it, and all of
/// every segment with a lower number.
///
/// `(segment: 0, blockCount: 0)` is the start of the log, before the first segment.
public struct LogPosition: Hashable, Sendable, BitwiseCopyable, Comparable {
    public internal(set) var segment: SegmentNumber
    public internal(set) var blockCount: UInt32
    public init(segment: SegmentNumber, blockCount: UInt32) {
        self.segment = segment
        self.blockCount = blockCount
    }
    public static let start = LogPosition(segment: SegmentNumber(rawValue: 0), blockCount: 0)
    @inlinable public static func < (a: Self, b: Self) -> Bool {
        (a.segment, a.blockCount) < (b.segment, b.blockCount)
    }
    package var text: String { "segment \(segment.rawValue) block \(blockCount)" }
}

/// The random identity of a data directory, made once and written in every file of it, so that a file
/// of another directory is never taken for one of this.
@frozen public struct DirectoryID: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt64
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
}
