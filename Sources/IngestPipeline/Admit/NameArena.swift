// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query

/// Append-only bytes of the names that are too long for their dictionary entry. Owned by the
/// `NameDictionary`; nothing is moved or freed before it.
///
/// **Layout** Chunks of 1 MiB; an offset is `chunk << 20 | byte`. A name never spans two chunks.
@safe struct NameArena: ~Copyable {
    private static let chunkByteCount = 1 << 20
    private var chunks: [UnsafeMutableRawPointer] = unsafe []
    private var used = NameArena.chunkByteCount

    deinit {
        for index in unsafe chunks.indices { unsafe chunks[index].deallocate() }
    }

    /// Copies `byteCount` bytes (1 … 128) and returns their offset.
    mutating func append(_ bytes: UnsafeRawPointer, _ byteCount: Int) -> UInt64 {
        if used + byteCount > Self.chunkByteCount {
            unsafe chunks.append(.allocate(byteCount: Self.chunkByteCount, alignment: 16))
            used = 0
        }
        let offset = used
        // SAFETY: `offset + byteCount` is inside the last chunk, by the check above.
        unsafe (chunks[chunks.count - 1] + offset).copyMemory(from: bytes, byteCount: byteCount)
        used += byteCount
        return unsafe UInt64(chunks.count - 1) << 20 | UInt64(offset)
    }

    /// The bytes at an offset that `append` returned.
    func pointer(at offset: UInt64) -> UnsafeRawPointer {
        // SAFETY: offsets come from `append` only, and chunks are never freed while this lives.
        unsafe UnsafeRawPointer(chunks[Int(offset >> 20)] + Int(offset & 0xF_FFFF))
    }
}
