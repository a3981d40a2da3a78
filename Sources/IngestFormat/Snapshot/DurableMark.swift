// packet → decode → ring → admit → [block] → [segment] → compaction → snapshot → [query]

/// How far the log is durable: one u64, stored at once after an `fdatasync` returned and loaded at once by
/// readers. Always a valid lower bound.
///
/// **Layout** docs/format/durable-mark.md. The value: segment number in bits 63–32, block count in bits
/// 31–12, a CRC-12 of those 52 bits in bits 11–0. The file: 64 bytes of which only the value ever changes.
package struct DurableMark: Hashable, Sendable {
    package static let layout = Layout<Self>(
        .magic, .version, .reserved(2), .id("directory", \.directory),
        // Aligned, so that one store or one write of 8 bytes is never torn.
        .derived("position", 8) { _ in 0 }, .reserved(36, "reserved end"), .checksum)
    /// `IGP1` as its bytes lie in the file.
    package static let magic: UInt32 = 0x3150_4749

    /// Byte count of the file.
    package static let byteCount = layout.byteCount
    /// Offset of the value in the file.
    package static let valueOffset = layout.position.offset

    package var directory: DirectoryID
    package var position: LogPosition

    package init(directory: DirectoryID, position: LogPosition) {
        self.directory = directory
        self.position = position
    }

    /// The image of the whole file.
    package func encode() -> [UInt8] {
        // The checksum is that of the image with the value as zeros, so it never changes.
        var writer = FieldWriter(image: Self.layout.encode(self, magic: Self.magic))
        writer.put(Self.value(of: position), Self.layout.position)
        return writer.bytes
    }

    /// Checks and decodes the file.
    ///
    /// **Errors** as `FileEnvelope.open` (the checksum is over the image with the value as zeros);
    /// `notThisFile` for another directory; `corrupt` for a value with a wrong bit. The caller goes on
    /// without a mark: the manifest and the log itself give a lower bound too.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil
    ) throws(FormatError) -> DurableMark {
        var constant = FieldWriter(image: bytes)
        if bytes.count >= byteCount { constant.put(0, layout.position) }
        let reader = try layout.open(constant.bytes, magic: magic, of: directory)
        var mark = try layout.load(
            reader, into: DurableMark(directory: DirectoryID(rawValue: 0), position: .start))
        var live = FieldReader(bytes)
        try live.begin(byteCount)
        let value = live.load(layout.position)
        guard let position = position(of: value) else {
            throw live.corrupt(layout.position, .exactly(value & ~0xFFF | check(value & ~0xFFF)))
        }
        mark.position = position
        return mark
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
