// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

/// The first bytes of a segment file: whose it is, and where its log goes on from.
///
/// **Layout** docs/format/segment.md. Fixed 128 bytes; the first block follows at once.
package struct SegmentHeader: Hashable, Sendable {
    package static let byteCount = SegmentLayout.Header.byteCount
    package static let magic = SegmentLayout.Header.magicNumber

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

    private typealias Field = SegmentLayout.Header

    package func encode() -> [UInt8] {
        var writer = FileEnvelope.begin(Field.magicNumber, Field.byteCount)
        writer.put(shard, Field.shard)
        writer.put(segment.rawValue, Field.segment)
        writer.put(previousChecksum, Field.previousChecksum)
        writer.put(directory.rawValue, Field.directory)
        writer.put(createdAt, Field.createdAt)
        writer.put(commitEpoch, Field.commitEpoch)
        writer.put(firstName.rawValue, Field.firstName)
        writer.put(firstKey.rawValue, Field.firstKey)
        return FileEnvelope.finish(&writer)
    }

    /// Checks and decodes the first 128 bytes of a segment file; more may follow.
    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - segment: the number in the file's name; `nil` = any.
    /// **Errors** as `FileEnvelope.open`; `notThisFile` for another directory or number; `corrupt` for an
    /// ordinal beyond its limit.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, segment: SegmentNumber? = nil
    ) throws(FormatError) -> SegmentHeader {
        let reader = try FileEnvelope.open(
            bytes, magic: Field.magicNumber, byteCount: Field.byteCount)
        try reader.identify(Field.directory, directory?.rawValue)
        try reader.identify(Field.segment, segment?.rawValue)
        try reader.expectZeros(Field.fields)
        return SegmentHeader(
            directory: DirectoryID(rawValue: reader.load(Field.directory)),
            shard: reader.u16(Field.shard),
            segment: SegmentNumber(
                rawValue: UInt32(try reader.load(Field.segment, in: 1...UInt64(UInt32.max)))),
            createdAt: reader.i64(Field.createdAt),
            previousChecksum: reader.u32(Field.previousChecksum),
            firstName: NameOrdinal(
                rawValue: UInt32(try reader.load(Field.firstName, in: Limits.nextNames))),
            firstKey: KeyOrdinal(
                rawValue: UInt32(try reader.load(Field.firstKey, in: Limits.nextKeys))),
            commitEpoch: reader.load(Field.commitEpoch))
    }
}

extension Limits {
    /// What the next ordinal to be given can be: one beyond the last at most.
    static let nextNames: ClosedRange<UInt64> = 1...UInt64(nameCountMax) + 1
    static let nextKeys: ClosedRange<UInt64> = 0...UInt64(keyCountMax)
}
