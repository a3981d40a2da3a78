// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

/// The first bytes of a segment file: whose it is, and where its log goes on from.
///
/// **Layout** docs/format/segment.md. Fixed 128 bytes; the first block follows at once.
package struct SegmentHeader: Hashable, Sendable {
    package static let byteCount = 128
    package static let magic: UInt32 = 0x3153_4749  // "IGS1"

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

    package func encode() -> [UInt8] {
        var writer = FixedImage.begin(Self.magic, capacity: Self.byteCount)
        writer.append(u16: shard)
        writer.append(u32: segment.rawValue)
        writer.append(u32: previousChecksum)
        writer.append(u64: directory.rawValue)
        writer.append(i64: createdAt)
        writer.append(u64: commitEpoch)
        writer.append(u32: firstName.rawValue)
        writer.append(u32: firstKey.rawValue)
        return FixedImage.finish(&writer, byteCount: Self.byteCount)
    }

    /// Checks and decodes the first 128 bytes of a segment file; more may follow.
    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - segment: the number in the file's name; `nil` = any.
    /// **Errors** as `FixedImage.check`; `notThisFile` for another directory or number.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, segment: SegmentNumber? = nil
    ) throws(FormatError) -> SegmentHeader {
        try FixedImage.check(bytes[...], magic: magic, byteCount: byteCount)
        return try FieldReader.reading(bytes) { (reader) throws(FormatError) in
            try reader.skip(6)
            let shard = try reader.u16("shard")
            let number = try reader.segment("segment number", expected: segment)
            let previousChecksum = try reader.u32("previous checksum")
            let owner = try reader.directory("directory id", expected: directory)
            let header = SegmentHeader(
                directory: owner, shard: shard, segment: number,
                createdAt: try reader.i64("created at"), previousChecksum: previousChecksum,
                firstName: NameOrdinal(rawValue: 0), firstKey: KeyOrdinal(rawValue: 0),
                commitEpoch: try reader.u64("commit epoch"))
            return try header.withOrdinals(&reader)
        }
    }

    private func withOrdinals(_ reader: inout FieldReader) throws(FormatError) -> SegmentHeader {
        var header = self
        header.firstName = NameOrdinal(
            rawValue: try reader.u32("first name", in: 1...UInt32(Limits.nameCountMax) + 1))
        header.firstKey = KeyOrdinal(
            rawValue: try reader.u32("first key", in: 0...UInt32(Limits.keyCountMax)))
        try reader.zeros("reserved", upTo: Self.byteCount - 4)
        return header
    }
}
