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
    private static let chunkCountMax = 1 << (32 - Int(chunkShift))
    private static let chunkByteCount = unitByteCount << 20
    /// A chunk's first line is left alone, so that no place is 0.
    private static let firstOffset = 64

    let chunks = unsafe Chunks(first: .allocate(capacity: chunkCountMax))
    private var memory: [ZeroedTable<UInt8>] = []
    private var used = NameRecords.chunkByteCount

    /// Where the chunks are: plain data, for a look-up that must not copy the rest.
    @safe struct Chunks: BitwiseCopyable {
        fileprivate let first: UnsafeMutablePointer<UnsafeMutableRawPointer>

        /// The record at a place that `append` returned.
        @inline(__always)
        func pointer(at place: UInt32) -> UnsafeMutablePointer<NameRecord> {
            let offset = Int(place & (1 << chunkShift - 1)) * unitByteCount
            // SAFETY: places come from `append` only, and chunks are never freed while the records live.
            return unsafe (first[Int(place >> chunkShift)] + offset)
                .assumingMemoryBound(to: NameRecord.self)
        }

        /// Whether the name at a place is this one.
        @inline(__always)
        func holds(_ bytes: UnsafeRawPointer, _ byteCount: Int, at place: UInt32) -> Bool {
            let record = unsafe pointer(at: place)
            guard unsafe Int(record.pointee.byteCount) == byteCount else { return false }
            // SAFETY: a record's bytes follow it, as many as it says.
            return unsafe ingest_equal(
                UnsafeRawPointer(record) + NameRecord.nameOffset, bytes, byteCount)
        }
    }

    deinit {
        for chunk in memory { chunk.free() }
        unsafe chunks.first.deallocate()
    }

    /// Bytes of address space.
    var byteCount: Int { memory.count * Self.chunkByteCount }

    /// Adds a name of 1 to 128 bytes and returns its place.
    mutating func append(
        _ record: NameRecord, _ bytes: UnsafeRawPointer, _ byteCount: Int
    ) -> UInt32 {
        let recordByteCount = NameRecord.nameOffset + byteCount
        if used + recordByteCount > Self.chunkByteCount { addChunk() }
        let offset = used
        let place =
            UInt32(truncatingIfNeeded: memory.count - 1) << Self.chunkShift
            | UInt32(truncatingIfNeeded: offset / Self.unitByteCount)
        // SAFETY: the record is inside the last chunk, by the check above, and its place is a multiple of 4.
        let new = unsafe chunks.pointer(at: place)
        unsafe new.initialize(to: record)
        unsafe (UnsafeMutableRawPointer(new) + NameRecord.nameOffset)
            .copyMemory(from: bytes, byteCount: byteCount)
        used = (offset + recordByteCount + Self.unitByteCount - 1) & ~(Self.unitByteCount - 1)
        return place
    }

    private mutating func addChunk() {
        precondition(memory.count < Self.chunkCountMax)
        let chunk = ZeroedTable<UInt8>(capacity: Self.chunkByteCount)
        unsafe (chunks.first + memory.count).initialize(to: UnsafeMutableRawPointer(chunk.base))
        memory.append(chunk)
        used = Self.firstOffset
    }
}

/// What is known of a name, in front of its bytes.
struct NameRecord: BitwiseCopyable {
    let ordinal: UInt32
    /// Keys of it as a business, without the one for all others.
    var keyCount: UInt32 = 0
    /// As a reward: the ordinal of the business of its first key; 0 = it has none.
    var owner: UInt32 = 0
    let byteCount: UInt8

    static let nameOffset = 13
}
