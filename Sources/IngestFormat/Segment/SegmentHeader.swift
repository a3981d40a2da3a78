// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

/// The first bytes of a segment file: whose it is, and where its log goes on from.
///
/// **Layout** docs/format/segment.md. Fixed 128 bytes; the first block follows at once.
package struct SegmentHeader: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .magic, .version, .int("shard", \.shard),
        .id("segment", \.segment, in: 1...UInt64(UInt32.max)),
        .int("previous checksum", \.previousChecksum), .id("directory", \.directory),
        .int("created at", \.createdAt), .int("commit epoch", \.commitEpoch),
        .id("first name", \.firstName, in: Limits.nextNames),
        .id("first key", \.firstKey, in: Limits.nextKeys), .reserved(76), .checksum)
    package static let byteCount = layout.byteCount
    /// `IGS1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3153_4749

    package var directory: DirectoryID
    package var shard: UInt16
    /// From 1.
    package var segment: SegmentNumber
    /// Microseconds since 1970 UTC.
    package var createdAt: Int64
    /// `BlockSummary.headerChecksum` of the last block before this segment; 0 if there is none.
    package var previousChecksum: UInt32
    /// The ordinals that the first block begins with.
    package var firstName: NameOrdinal
    package var firstKey: KeyOrdinal
    /// The commit epoch of the first block.
    package var commitEpoch: UInt64

    package init(
        directory: DirectoryID, shard: UInt16 = 0, segment: SegmentNumber, createdAt: Int64,
        previousChecksum: UInt32, firstName: NameOrdinal, firstKey: KeyOrdinal, commitEpoch: UInt64
    ) {
        self.directory = directory
        self.shard = shard
        self.segment = segment
        self.createdAt = createdAt
        self.previousChecksum = previousChecksum
        self.firstName = firstName
        self.firstKey = firstKey
        self.commitEpoch = commitEpoch
    }

    package func encode() -> [UInt8] { Self.layout.encode(self, magic: Self.magic) }

    /// Checks and decodes the first 128 bytes of a segment file; more may follow.
    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - segment: the number in the file's name; `nil` = any.
    /// **Errors** as `FileEnvelope.open`; `notThisFile` for another directory or number; `corrupt` for an
    /// ordinal beyond its limit.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, segment: SegmentNumber? = nil
    ) throws(FormatError) -> SegmentHeader {
        let reader = try layout.open(bytes, magic: magic)
        try reader.identify(layout.directory, directory?.rawValue)
        try reader.identify(layout.segment, segment?.rawValue)
        return try layout.load(reader, into: blank)
    }

    private static let blank = SegmentHeader(
        directory: DirectoryID(rawValue: 0), segment: SegmentNumber(rawValue: 1), createdAt: 0,
        previousChecksum: 0, firstName: .none, firstKey: KeyOrdinal(rawValue: 0), commitEpoch: 0)
}

extension Limits {
    /// What the next ordinal to be given can be: one beyond the last at most.
    static let nextNames: ClosedRange<UInt64> = 1...UInt64(nameCountMax) + 1
    static let nextKeys: ClosedRange<UInt64> = 0...UInt64(keyCountMax)
}
