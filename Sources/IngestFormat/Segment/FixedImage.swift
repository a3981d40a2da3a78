// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// The shape that all fixed-size headers and trailers of files share, checked in one place.
///
/// **Layout** magic (4 bytes), version u16, fields, zeros, CRC-32C of all before it in the last 4 bytes.
/// A later version keeps magic, version and checksum where they are, so that an older reader can tell a
/// newer file from a damaged one.
package enum FixedImage {
    /// The version that all files are written in.
    package static let version: UInt16 = 1

    /// Starts an image: magic and version.
    static func begin(_ magic: UInt32, capacity: Int) -> ByteWriter {
        var writer = ByteWriter(capacity: capacity)
        writer.append(u32: magic)
        writer.append(u16: version)
        return writer
    }

    /// Ends an image of `byteCount` bytes: zeros, then the checksum of all before it.
    static func finish(_ writer: inout ByteWriter, byteCount: Int) -> [UInt8] {
        writer.append(zeroCount: byteCount - 4 - writer.byteCount)
        writer.append(u32: Checksum.crc32c(writer.bytes))
        return writer.bytes
    }

    /// Checks length, magic, checksum and version of an image.
    ///
    /// **Errors** `torn` if shorter than `byteCount`; `notThisFile` for another magic; `corrupt` for a
    /// wrong checksum; `newerFormat` for a version that only a later release can have written.
    static func check(
        _ bytes: ArraySlice<UInt8>, magic: UInt32, byteCount: Int
    ) throws(FormatError) {
        guard bytes.count >= byteCount else {
            throw .torn("byte count", at: 0, available: bytes.count, needed: byteCount)
        }
        let image = bytes.prefix(byteCount)
        let found = load(image, at: 0)
        guard found == magic else {
            throw .notThisFile("magic", at: 0, got: found, expected: .exactly(magic))
        }
        let stored = load(image, at: byteCount - 4)
        let computed = Checksum.crc32c(image.dropLast(4))
        guard stored == computed else {
            throw .corrupt("checksum", at: byteCount - 4, got: stored, expected: .exactly(computed))
        }
        let foundVersion = UInt16(truncatingIfNeeded: load(image, at: 4))
        guard foundVersion <= version else {
            throw .newerFormat("version", at: 4, got: foundVersion, expected: .atMost(version))
        }
        guard foundVersion == version else {
            throw .corrupt("version", at: 4, got: foundVersion, expected: .exactly(version))
        }
    }

    /// The little-endian u32 at `offset`, which lies inside.
    static func load(_ bytes: ArraySlice<UInt8>, at offset: Int) -> UInt32 {
        let start = bytes.startIndex + offset
        return UInt32(bytes[start]) | UInt32(bytes[start + 1]) << 8
            | UInt32(bytes[start + 2]) << 16 | UInt32(bytes[start + 3]) << 24
    }

    /// Magics are four ASCII letters, first letter in the lowest byte.
    static func magic(_ text: StaticString) -> UInt32 {
        var value: UInt32 = 0
        for (i, scalar) in "\(text)".unicodeScalars.prefix(4).enumerated() {
            value |= scalar.value << (8 * UInt32(i))
        }
        return value
    }
}
