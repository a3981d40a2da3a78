// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// What the fixed headers and trailers of all files but blocks have in common, checked in one place.
///
/// **Layout** magic u32 and version u16 at the start, CRC-32C of all before it in the last 4 bytes. A later
/// version keeps these places, so that an older reader can tell a newer file from a damaged one.
package enum FileEnvelope {
    /// The version that all files are written in.
    package static let version: UInt16 = 1
    package static let magicField = FormatField("magic", 0, 4)
    package static let versionField = FormatField("version", 4, 2)

    package static let checksumByteCount = 4

    /// The checksum field of an image of `byteCount` bytes.
    package static func checksumField(_ byteCount: Int) -> FormatField {
        FormatField("checksum", byteCount - checksumByteCount, checksumByteCount)
    }

    /// Begins an image with magic and version.
    static func begin(_ magic: UInt32, _ byteCount: Int) -> FieldWriter {
        var writer = FieldWriter(capacity: byteCount)
        writer.begin(byteCount)
        writer.put(magic, magicField)
        writer.put(version, versionField)
        return writer
    }

    /// Ends an image that was begun: the checksum of all before it, as the last four bytes.
    static func finish(_ writer: inout FieldWriter) -> [UInt8] {
        let byteCount = writer.bytes.count
        let checksum = Checksum.crc32c(writer.bytes.dropLast(4))
        var bytes = writer.bytes
        for i in 0..<4 {
            bytes[byteCount - 4 + i] = UInt8(truncatingIfNeeded: checksum >> UInt32(8 * i))
        }
        return bytes
    }

    /// Checks length, magic, checksum and version, and begins the image.
    /// - Parameter byteCount: of the image; more bytes may follow.
    /// **Errors** `torn` if there are fewer; `notThisFile` for another magic; `corrupt` for a wrong
    /// checksum; `newerFormat` for a version that only a later release can have written.
    static func open(
        _ bytes: [UInt8], magic: UInt32, byteCount: Int
    ) throws(FormatError) -> FieldReader {
        var reader = FieldReader(bytes)
        try reader.begin(byteCount)
        try reader.identify(magicField, magic)
        let field = checksumField(byteCount)
        let computed = Checksum.crc32c(bytes[..<field.offset])
        try reader.expect(field, computed)
        let found = reader.u16(versionField)
        guard found <= version else {
            throw .newerFormat("version", at: 4, got: found, expected: .atMost(version))
        }
        try reader.expect(versionField, version)
        return reader
    }
}
