// packet → decode → ring → admit → [block] → [segment] → compaction → snapshot → [query]

/// How far the log is durable: one u64, stored at once after an `fdatasync` returned and loaded at once by
/// readers. Always a valid lower bound.
///
/// **Layout** docs/format/durable-mark.md. The value: segment number in bits 63–32, block count in bits
/// 31–12, a CRC-12 of those 52 bits in bits 11–0. The file: 64 bytes of which only the value ever changes.
package struct DurableMark: Hashable, Sendable {
    /// Byte count of the file.
    package static let byteCount = 64
    /// Offset of the value in the file: aligned, so that one store or one 8-byte write is never torn.
    package static let valueOffset = 16
    package static let magic: UInt32 = 0x3150_4749  // "IGP1"

    package var directory: DirectoryID
    package var position: LogPosition

    package init(directory: DirectoryID, position: LogPosition) {
        self.directory = directory
        self.position = position
    }

    /// The image of the whole file.
    package func encode() -> [UInt8] {
        var writer = FixedImage.begin(Self.magic, capacity: Self.byteCount)
        writer.append(u16: 0)
        writer.append(u64: directory.rawValue)
        writer.append(u64: 0)
        var image = FixedImage.finish(&writer, byteCount: Self.byteCount)
        let value = Self.value(of: position)
        for i in 0..<8 {
            image[Self.valueOffset + i] = UInt8(truncatingIfNeeded: value >> (8 * UInt64(i)))
        }
        return image
    }

    /// Checks and decodes the file.
    ///
    /// **Errors** as `FixedImage.check` (the checksum is over the image with the value as zeros);
    /// `notThisFile` for another directory; `corrupt` for a value with a wrong bit. The caller goes on
    /// without a mark: the manifest and the log itself give a lower bound too.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil
    ) throws(FormatError) -> DurableMark {
        var constant = bytes
        var value: UInt64 = 0
        if bytes.count >= byteCount {
            for i in 0..<8 {
                value |= UInt64(bytes[valueOffset + i]) << (8 * UInt64(i))
                constant[valueOffset + i] = 0
            }
        }
        try FixedImage.check(constant[...], magic: magic, byteCount: byteCount)
        let owner = try FieldReader.reading(constant) { (reader) throws(FormatError) in
            try reader.skip(6)
            try reader.zeros("reserved", upTo: 8)
            let owner = try reader.directory("directory id", expected: directory)
            try reader.zeros("reserved", upTo: byteCount - 4)
            return owner
        }
        guard let position = position(of: value) else {
            throw .corrupt(
                "position", at: valueOffset, got: value,
                expected: .exactly(value & ~0xFFF | check(value & ~0xFFF)))
        }
        return DurableMark(directory: owner, position: position)
    }

    /// The value to store for a position.
    /// - Parameter position: block count at most `Limits.segmentBlockCountMax`.
    package static func value(of position: LogPosition) -> UInt64 {
        precondition(position.blockCount <= Limits.segmentBlockCountMax)
        let content = UInt64(position.segment.rawValue) << 32 | UInt64(position.blockCount) << 12
        return content | check(content)
    }

    /// The position that a loaded value names; `nil` if up to four bits of it are wrong.
    package static func position(of value: UInt64) -> LogPosition? {
        guard value & 0xFFF == check(value & ~0xFFF) else { return nil }
        return LogPosition(
            segment: SegmentNumber(rawValue: UInt32(truncatingIfNeeded: value >> 32)),
            blockCount: UInt32(truncatingIfNeeded: value >> 12) & 0xF_FFFF)
    }

    /// CRC-12 of the upper 52 bits by the polynomial 0x75D: of all 12-bit ones the best at 64 bits, any
    /// four wrong bits are seen (found by search, held by a test). The start value makes 0 invalid.
    private static func check(_ content: UInt64) -> UInt64 {
        var rest: UInt64 = 0xA5C
        for bit in stride(from: UInt64(63), through: 12, by: -1) {
            let top = rest >> 11 & 1 ^ content >> bit & 1
            rest = (rest << 1 ^ (top == 1 ? 0x75D : 0)) & 0xFFF
        }
        return rest
    }
}
