// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import CIngestLinux

/// The names of the dictionary, each once, with what is known of it. Owned by the `NameDictionary`; append-only:
/// nothing is moved or freed before it.
///
/// **Layout** Chunks of 4 MiB, in huge pages where they can be had. A record is a `NameRecord` of 13 bytes, the name
/// behind it, and up to 3 bytes to a multiple of 4; a record never spans two chunks. Its *place* is
/// `chunk << 20 | offset / 4`, never 0.
/// **Units** 32 bytes for a name of 16 to 19 bytes, 56 for one of 40.
@safe struct NameRecords: ~Copyable {
    static let unitByteCount = 4
    private static let chunkShift: UInt32 = 20
    private static let chunkByteCount = unitByteCount << 20
    /// A chunk's first line is left alone, so that no place is 0.
    private static let firstOffset = 64

    private var chunks: [UnsafeMutableRawPointer] = unsafe []
    /// Whether a chunk is mapped, or came from the allocator.
    private var isMapped: [Bool] = []
    private var used = NameRecords.chunkByteCount

    deinit {
        for index in unsafe chunks.indices {
            if isMapped[index] {
                unsafe ingest_pages_unmap(chunks[index], Self.chunkByteCount)
            } else {
                unsafe chunks[index].deallocate()
            }
        }
    }

    /// Bytes of address space.
    var byteCount: Int { isMapped.count * Self.chunkByteCount }

    /// Adds a name of 1 to 128 bytes and returns its place.
    mutating func append(
        _ record: NameRecord, _ bytes: UnsafeRawPointer, _ byteCount: Int
    ) -> UInt32 {
        let recordByteCount = NameRecord.nameOffset + byteCount
        if used + recordByteCount > Self.chunkByteCount { addChunk() }
        let offset = used
        // SAFETY: the record is inside the last chunk, by the check above, and its place is a multiple of 4.
        unsafe (chunks[chunks.count - 1] + offset).withMemoryRebound(
            to: NameRecord.self, capacity: 1
        ) { unsafe $0.pointee = record }
        unsafe (chunks[chunks.count - 1] + offset + NameRecord.nameOffset)
            .copyMemory(from: bytes, byteCount: byteCount)
        used = (offset + recordByteCount + Self.unitByteCount - 1) & ~(Self.unitByteCount - 1)
        return UInt32(truncatingIfNeeded: isMapped.count - 1) << Self.chunkShift
            | UInt32(truncatingIfNeeded: offset / Self.unitByteCount)
    }

    private mutating func addChunk() {
        let pages = unsafe ingest_pages_map(Self.chunkByteCount)
        isMapped.append(unsafe pages != nil)
        unsafe chunks.append(
            pages ?? .allocate(byteCount: Self.chunkByteCount, alignment: 64))
        used = Self.firstOffset
    }

    /// The record at a place that `append` returned.
    @inline(__always)
    func pointer(at place: UInt32) -> UnsafeMutablePointer<NameRecord> {
        let offset = Int(place & (1 << Self.chunkShift - 1)) * Self.unitByteCount
        // SAFETY: places come from `append` only, and chunks are never freed while this lives.
        return unsafe (chunks[Int(place >> Self.chunkShift)] + offset)
            .assumingMemoryBound(to: NameRecord.self)
    }
}

/// What is known of a name, in front of its bytes.
struct NameRecord: BitwiseCopyable {
    let ordinal: UInt32
    /// 0 = it is no reward yet.
    var firstBusiness: UInt32 = 0
    var firstKey: UInt32 = 0
    let byteCount: UInt8

    static let nameOffset = 13
}
