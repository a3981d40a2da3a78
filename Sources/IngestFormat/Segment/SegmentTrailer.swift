// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

/// The last bytes of a sealed segment file: where its footer is.
///
/// **Layout** docs/format/segment.md. Fixed 64 bytes at the very end of the file.
package struct SegmentTrailer: Hashable, Sendable {
    package static let byteCount = 64
    package static let magic: UInt32 = 0x3154_4749  // "IGT1"

    package var directory: DirectoryID
    package var segment: SegmentNumber
    /// Where the footer begins in the file; it ends where the trailer begins.
    package var footerOffset: UInt64
    package var footerByteCount: UInt64
    /// `SegmentFooter.checksum`.
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

    package func encode() -> [UInt8] {
        var writer = FixedImage.begin(Self.magic, capacity: Self.byteCount)
        writer.append(u16: 0)
        writer.append(u32: segment.rawValue)
        writer.append(u32: footerChecksum)
        writer.append(u64: directory.rawValue)
        writer.append(u64: footerOffset)
        writer.append(u64: footerByteCount)
        return FixedImage.finish(&writer, byteCount: Self.byteCount)
    }

    /// Checks and decodes the last 64 bytes of a segment file.
    /// - Parameters:
    ///   - fileByteCount: of the whole file: footer and trailer must end exactly there.
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - segment: the number in the file's name; `nil` = any.
    /// **Errors** as `FixedImage.check`: `notThisFile` by its magic means that the file has no trailer,
    /// which is what an unsealed segment looks like; `corrupt` if the footer would lie outside the file.
    package static func decode(
        _ bytes: [UInt8], fileByteCount: UInt64, directory: DirectoryID? = nil,
        segment: SegmentNumber? = nil
    ) throws(FormatError) -> SegmentTrailer {
        try FixedImage.check(bytes[...], magic: magic, byteCount: byteCount)
        return try FieldReader.reading(bytes) { (reader) throws(FormatError) in
            try reader.skip(6)
            try reader.zeros("reserved", upTo: 8)
            let number = try reader.segment("segment number", expected: segment)
            let checksum = try reader.u32("footer checksum")
            let owner = try reader.directory("directory id", expected: directory)
            let room = fileByteCount &- UInt64(byteCount)
            let offset = try reader.u64(
                "footer offset", in: UInt64(SegmentHeader.byteCount)...max(room, 128))
            let count = try reader.u64(
                "footer byte count", in: 0...UInt64(Limits.footerByteCountMax))
            guard fileByteCount >= UInt64(byteCount), offset + count == room else {
                throw .corrupt(
                    "footer byte count", at: 32, got: count, expected: .exactly(room &- offset))
            }
            try reader.zeros("reserved", upTo: byteCount - 4)
            return SegmentTrailer(
                directory: owner, segment: number, footerOffset: offset, footerByteCount: count,
                footerChecksum: checksum)
        }
    }
}
