// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query

import CIngestLinux
import IngestFormat

/// The buffers that one receive call fills, used again and again. Owned by the receive queue.
///
/// A buffer holds a datagram, or a run of datagrams of one size that the kernel coalesced (UDP_GRO).
///
/// **Cost** `capacity` × 67,072 bytes, mapped once; only the pages that datagrams reach are ever touched.
@safe package struct PacketBatch: ~Copyable {
    /// What one buffer takes. The kernel coalesces up to 64 KiB: with less room it would cut runs off.
    package static let bufferByteCount = 1 << 16
    /// From one buffer to the next. More than the buffer, and no power of two: the starts of the buffers,
    /// the only part that small datagrams touch, would else fall on the same sets of the L1 and L2 caches.
    static let bufferStride = bufferByteCount + 1536
    /// See `receiveBenchmark`: beyond 32 buffers a batch no longer fits the second-level cache.
    package static let defaultCapacity = 32

    package let capacity: Int
    /// Bytes of each buffer that may be filled.
    package let byteCountMax: Int
    /// Buffers filled by the last call, from 0 on.
    package var count = 0
    /// `capacity` of them; `bytes` is set, the rest is what the last call said.
    let datagrams: UnsafeMutablePointer<ingest_datagram>
    private let pages: UnsafeMutableRawPointer

    /// `byteCountMax` below the default makes the kernel cut longer datagrams off, as a test may want.
    /// `nil` when there is no memory.
    package init?(
        capacity: Int = defaultCapacity, byteCountMax: Int = bufferByteCount
    ) {
        precondition(capacity > 0 && byteCountMax > 0 && byteCountMax <= Self.bufferByteCount)
        guard let pages = unsafe ingest_pages_map(capacity * Self.bufferStride) else { return nil }
        // SAFETY: `pages` holds capacity × bufferStride bytes; each buffer lies inside. The datagrams are
        // initialised here, one for each buffer.
        unsafe self.pages = pages
        unsafe datagrams = .allocate(capacity: capacity)
        self.capacity = capacity
        self.byteCountMax = byteCountMax
        for i in 0..<capacity {
            var datagram = unsafe ingest_datagram()
            unsafe datagram.bytes = (pages + i * Self.bufferStride).assumingMemoryBound(
                to: UInt8.self)
            unsafe (datagrams + i).initialize(to: datagram)
        }
    }

    deinit {
        unsafe datagrams.deallocate()
        unsafe ingest_pages_unmap(pages, capacity * Self.bufferStride)
    }

    /// Datagrams received by the last call, those of a coalesced run each by itself.
    package var datagramCount: Int {
        var sum = 0
        for index in 0..<count {
            // SAFETY: index < count ≤ capacity.
            let (bytes, segment) = unsafe (
                Int(datagrams[index].byte_count), Int(max(1, datagrams[index].segment_byte_count))
            )
            sum += max(1, (bytes + segment - 1) / segment)
        }
        return sum
    }

    /// Where the datagrams of buffer `index` came from.
    package func source(_ index: Int) -> SocketAddress {
        precondition(index < capacity)
        return unsafe SocketAddress(datagrams[index].source)
    }
}
