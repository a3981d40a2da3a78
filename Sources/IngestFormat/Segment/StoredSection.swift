// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// A stretch of bytes as it is stored: as it is, or as an LZ4 block where that saves a twentieth.
struct StoredSection {
    enum Encoding: UInt8, Sendable {
        case plain = 0
        case lz4 = 1

        /// How many bytes `stored` ones can have been: LZ4 cannot expand by more than 255 to 1.
        func rawByteCounts(ofStored stored: Int, max: Int) -> ClosedRange<UInt64> {
            let least = UInt64(stored)
            return self == .plain
                ? least...least : least...Swift.max(least, UInt64(min(255 * stored, max)))
        }
    }

    /// What a header says of such a stretch behind it.
    struct Place: Hashable, Sendable {
        var encoding = Encoding.plain
        var byteCount: UInt32 = 0
        var rawByteCount: UInt32 = 0
        /// CRC-32C of the stored bytes.
        var checksum: UInt32 = 0
    }

    var place: Place {
        Place(
            encoding: encoding, byteCount: UInt32(bytes.count), rawByteCount: UInt32(rawByteCount),
            checksum: Checksum.crc32c(bytes))
    }

    /// Shorter ones are stored as they are: there is nothing to win, and their bytes are the same with
    /// every version of LZ4.
    static let compressedByteCountMin = 512

    var encoding: Encoding
    var rawByteCount: Int
    var bytes: [UInt8]

    /// - Parameter isCompressible: `false` for what is packed already.
    init(_ raw: [UInt8], compressor: LZ4Compressor, isCompressible: Bool = true) {
        rawByteCount = raw.count
        encoding = .plain
        bytes = raw
        guard isCompressible, raw.count >= Self.compressedByteCountMin,
            let compressed = Self.compress(raw, compressor)
        else { return }
        encoding = .lz4
        bytes = compressed
    }

    private static func compress(_ raw: [UInt8], _ compressor: LZ4Compressor) -> [UInt8]? {
        var isSmaller = false
        // SAFETY: both buffers are valid inside their closures; the target has room for raw.count.
        let target = unsafe [UInt8](unsafeUninitializedCapacity: raw.count) { target, count in
            unsafe raw.withUnsafeBytes { source in
                guard let from = source.baseAddress, let to = target.baseAddress else { return }
                if let written = unsafe compressor.compress(
                    from, byteCount: raw.count, as: .text, to: to)
                {
                    isSmaller = true
                    count = written
                }
            }
        }
        return isSmaller ? target : nil
    }

    /// The bytes before they were stored.
    /// - Parameters:
    ///   - stored: exactly the section; its checksum has been checked.
    ///   - place: its raw byte count has been held against a limit.
    /// **Errors** `corrupt` if they do not come to `rawByteCount` bytes.
    static func restore(
        _ stored: ArraySlice<UInt8>, _ place: Place, at offset: Int
    ) throws(FormatError) -> [UInt8] {
        let rawByteCount = Int(place.rawByteCount)
        guard place.encoding == .lz4 else {
            guard stored.count == rawByteCount else {
                throw .corrupt(
                    "raw byte count", at: offset, got: rawByteCount,
                    expected: .exactly(stored.count))
            }
            return Array(stored)
        }
        var isWhole = false
        // SAFETY: both buffers are valid inside their closures; the target has room for rawByteCount,
        // and all of it is written where the decompressor says so.
        let raw = unsafe [UInt8](unsafeUninitializedCapacity: rawByteCount) { target, count in
            unsafe stored.withUnsafeBytes { source in
                guard let from = source.baseAddress, let to = target.baseAddress else { return }
                isWhole = unsafe LZ4Decompressor.decompress(
                    from, byteCount: stored.count, to: to, exactByteCount: rawByteCount)
                count = isWhole ? rawByteCount : 0
            }
        }
        guard isWhole else {
            throw .corrupt("LZ4 block", at: offset, got: 0, expected: .exactly(rawByteCount))
        }
        return raw
    }
}
