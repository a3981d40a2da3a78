// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

/// The last bytes of a sealed segment file: where its footer is.
///
/// **Layout** docs/format/segment.md. Fixed 64 bytes at the very end of the file.
package struct SegmentTrailer: Hashable, Sendable {
    package static let byteCount = SegmentLayout.Trailer.byteCount
    package static let magic = SegmentLayout.Trailer.magicNumber

    package var directory: DirectoryID
    package var segment: SegmentNumber
    /// Where the footer begins in the file; it ends where the trailer begins.
    package var footerOffset: UInt64
    package var footerByteCount: UInt64
    /// CRC-32C of the footer's head and section table, and so, by the sections' own, of all of it.
    package var footerChecksum: UInt32

    package init(
        directory: DirectoryID, segment: SegmentNumber, footerOffset: UInt64,
        footerByteCount: UInt64, footerChecksum: UInt32
    ) {
        self.directory = directory
        self.segment = segment
        self.footerOffset = footerOffset
        self.footerByteCount = footerByteCount
        self.footerChecksum = footerChecksum
    }

    /// Byte count of the file that this trailer ends.
    package var fileByteCount: UInt64 { footerOffset + footerByteCount + UInt64(Self.byteCount) }

    private typealias Field = SegmentLayout.Trailer

    package func encode() -> [UInt8] {
        var writer = FileEnvelope.begin(Field.magicNumber, Field.byteCount)
        writer.put(segment.rawValue, Field.segment)
        writer.put(footerChecksum, Field.footerChecksum)
        writer.put(directory.rawValue, Field.directory)
        writer.put(footerOffset, Field.footerOffset)
        writer.put(footerByteCount, Field.footerByteCount)
        return FileEnvelope.finish(&writer)
    }

    /// Checks and decodes the last 64 bytes of a segment file.
    /// - Parameters:
    ///   - fileByteCount: of the whole file: footer and trailer must end exactly there.
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - segment: the number in the file's name; `nil` = any.
    /// **Errors** as `FileEnvelope.open`: `notThisFile` for its magic means that there is no trailer, which
    /// is what an unsealed segment looks like; `corrupt` if the footer would not fill the file's end.
    package static func decode(
        _ bytes: [UInt8], fileByteCount: UInt64, directory: DirectoryID? = nil,
        segment: SegmentNumber? = nil
    ) throws(FormatError) -> SegmentTrailer {
        let reader = try FileEnvelope.open(
            bytes, magic: Field.magicNumber, byteCount: Field.byteCount)
        try reader.identify(Field.directory, directory?.rawValue)
        try reader.identify(Field.segment, segment?.rawValue)
        try reader.expectZeros(Field.fields)
        let offset = try reader.load(
            Field.footerOffset,
            in: UInt64(SegmentHeader.byteCount)...UInt64(Limits.segmentByteCountMax))
        let byteCount = try reader.load(
            Field.footerByteCount,
            in: UInt64(SegmentLayout.Footer.byteCount + 4)...UInt64(Limits.footerByteCountMax))
        guard offset + byteCount + UInt64(Self.byteCount) == fileByteCount else {
            throw reader.corrupt(
                Field.footerByteCount,
                .exactly(fileByteCount &- offset &- UInt64(Self.byteCount)))
        }
        return SegmentTrailer(
            directory: DirectoryID(rawValue: reader.load(Field.directory)),
            segment: SegmentNumber(
                rawValue: UInt32(try reader.load(Field.segment, in: 1...UInt64(UInt32.max)))),
            footerOffset: offset, footerByteCount: byteCount,
            footerChecksum: reader.u32(Field.footerChecksum))
    }
}
