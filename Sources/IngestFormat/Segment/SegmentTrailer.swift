// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

/// The last bytes of a sealed segment file: where its footer is.
///
/// **Layout** docs/format/segment.md. Fixed 64 bytes at the very end of the file.
package struct SegmentTrailer: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .magic, .version, .reserved(2), .id("segment", \.segment, in: 1...UInt64(UInt32.max)),
        .int("footer checksum", \.footerChecksum), .id("directory", \.directory),
        .int(
            "footer offset", \.footerOffset,
            in: UInt64(SegmentHeader.byteCount)...UInt64(Limits.segmentByteCountMax)),
        .int(
            "footer byte count", \.footerByteCount,
            in: UInt64(SegmentFooter.layout.byteCount + 4)...UInt64(Limits.footerByteCountMax)),
        .reserved(20, "reserved end"), .checksum)
    package static let byteCount = layout.byteCount
    /// `IGT1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3154_4749

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

    package func encode() -> [UInt8] { Self.layout.encode(self, magic: Self.magic) }

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
        let reader = try layout.open(bytes, magic: magic)
        try reader.identify(layout.directory, directory?.rawValue)
        try reader.identify(layout.segment, segment?.rawValue)
        let trailer = try layout.load(
            reader,
            into: SegmentTrailer(
                directory: DirectoryID(rawValue: 0), segment: SegmentNumber(rawValue: 1),
                footerOffset: 0, footerByteCount: 0, footerChecksum: 0))
        guard trailer.fileByteCount == fileByteCount else {
            throw reader.corrupt(
                layout.footerByteCount,
                .exactly(fileByteCount &- trailer.footerOffset &- UInt64(byteCount)))
        }
        return trailer
    }
}
