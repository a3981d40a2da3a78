// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query

/// The bytes of one encoded block: what the encoder fills and the segment writer writes. Owned by one
/// stage at a time; handed from the commit stage to the sync stage and back.
///
/// **Cost** Address space for the largest block, taken once; only what blocks have filled is resident.
@safe package final class BlockBuffer: @unchecked Sendable {
    // `@unchecked Sendable`: one owner at a time, handed over through a queue, which orders the accesses.

    /// Header with a full section table, all sections, padding.
    package static let capacity =
        128 + 16 * Limits.blockSectionCountMax + Limits.blockByteCountMax + 8

    package let base: UnsafeMutableRawPointer
    package internal(set) var byteCount = 0

    package init() {
        unsafe base = .allocate(byteCount: Self.capacity, alignment: 64)
    }

    deinit { unsafe base.deallocate() }

    /// The block. Valid until the next encode into this buffer.
    package var bytes: UnsafeRawBufferPointer {
        // SAFETY: byteCount ≤ capacity, kept so by the encoder, and all of them were written.
        unsafe UnsafeRawBufferPointer(start: base, count: byteCount)
    }

    /// The block as an array, for tests and tools.
    package var copy: [UInt8] { unsafe Array(bytes) }
}
