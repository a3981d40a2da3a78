// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query

/// The bytes of one encoded block: what the encoder fills and the segment writer writes. Owned by one
/// stage at a time; handed from the commit stage to the sync stage and back.
///
/// **Layout** The sections are encoded in place from a fixed byte on; the header, whose length is known
/// only then, ends where they begin.
/// **Cost** Address space for the largest block, taken once; only what blocks have filled is resident.
@safe package final class BlockBuffer: @unchecked Sendable {
    // `@unchecked Sendable`: one owner at a time, handed over through a queue, which orders the accesses.

    /// Where the sections begin: room for the header with an entry for every kind of section.
    static let bodyOffset =
        BlockLayout.headerByteCountMin
        + BlockLayout.sectionEntryByteCount * BlockSectionKind.allCases.count
    static let capacity =
        bodyOffset + Limits.blockByteCountMax + BlockLayout.alignment + BitPacking.slackByteCount

    let base: UnsafeMutableRawPointer
    /// Of the block in `base`; the encoder's to set.
    var range = 0..<0

    package init() {
        unsafe base = .allocate(byteCount: Self.capacity, alignment: 64)
    }

    deinit { unsafe base.deallocate() }

    package var byteCount: Int { range.count }

    /// The block. Valid until the next encode into this buffer.
    package var bytes: UnsafeRawBufferPointer {
        // SAFETY: the encoder keeps the range within the capacity and wrote all of it.
        unsafe UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count)
    }

    /// The block as an array, for tests and tools.
    package var copy: [UInt8] { unsafe Array(bytes) }
}
