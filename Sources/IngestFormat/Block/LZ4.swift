// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]
import CLZ4

/// LZ4 blocks, into memory of a known size both ways. Owns the compressor's state, so that nothing is
/// allocated a call.
@safe final class LZ4Compressor {
    /// Below this a section is left as it is: nothing to win.
    static let byteCountMin = 64
    /// A section longer than two of these is compressed only if a piece of this length pays.
    static let sampleByteCount = 2048

    /// How fast LZ4 gives up on bytes that do not repeat. Text is new names, rare and worth the search;
    /// on packed columns 4 costs 1 % of the bytes and saves a quarter of the time of a block.
    enum Content: Int32 {
        case text = 1
        case column = 4
    }

    private let state: UnsafeMutableRawPointer

    init() {
        unsafe state = .allocate(byteCount: Int(LZ4_sizeofState()), alignment: 16)
    }

    deinit { unsafe state.deallocate() }

    /// Compresses where that saves at least a twentieth.
    /// - Parameter target: room for `byteCount` bytes.
    /// - Returns: the compressed byte count, or `nil` where it does not pay.
    func compress(
        _ source: UnsafeRawPointer, byteCount: Int, as content: Content = .text,
        to target: UnsafeMutableRawPointer
    ) -> Int? {
        guard byteCount >= Self.byteCountMin else { return nil }
        if byteCount > 2 * Self.sampleByteCount {
            // The middle, because the beginning holds a column's fixed part and dictionary.
            let sample = unsafe source + (byteCount - Self.sampleByteCount) / 2
            let paid = unsafe run(
                sample, byteCount: Self.sampleByteCount, speed: content.rawValue, to: target)
            guard paid != nil else { return nil }
        }
        return unsafe run(source, byteCount: byteCount, speed: content.rawValue, to: target)
    }

    private func run(
        _ source: UnsafeRawPointer, byteCount: Int, speed: Int32,
        to target: UnsafeMutableRawPointer
    ) -> Int? {
        // SAFETY: reads exactly byteCount bytes; writes at most the room given, which is less.
        let written = unsafe LZ4_compress_fast_extState(
            state, source.assumingMemoryBound(to: CChar.self),
            target.assumingMemoryBound(to: CChar.self), Int32(truncatingIfNeeded: byteCount),
            Int32(truncatingIfNeeded: byteCount - max(1, byteCount / 20)), speed)
        return written > 0 ? Int(written) : nil
    }
}

enum LZ4Decompressor {
    /// Whether `source` is a whole LZ4 block of exactly `exactByteCount` bytes, which then are in
    /// `target`. Both counts are below 2^31, held by `Limits.blockByteCountMax`.
    static func decompress(
        _ source: UnsafeRawPointer, byteCount: Int, to target: UnsafeMutableRawPointer,
        exactByteCount: Int
    ) -> Bool {
        // SAFETY: LZ4_decompress_safe stays inside both sizes, whatever the bytes say.
        let written = unsafe LZ4_decompress_safe(
            source.assumingMemoryBound(to: CChar.self),
            target.assumingMemoryBound(to: CChar.self), Int32(truncatingIfNeeded: byteCount),
            Int32(truncatingIfNeeded: exactByteCount))
        return Int(written) == exactByteCount
    }
}
