// [packet] → decode → ring → admit → [block] → [segment] → compaction → [snapshot] → query
import CIngestLinux

/// CRC-32C (Castagnoli), the one checksum of the wire and of every file.
///
/// **Cost** 1,400 bytes about 40 ns with the SSE4.2 instruction, three lanes at a time; tables elsewhere.
/// **Source** RFC 3720 appendix B.4 (test vectors); the method is described in `checksum.c`.
package enum Checksum {
    /// The CRC of `bytes`, going on from `seed`: `crc32c(b, seed: crc32c(a))` is that of a followed by b.
    package static func crc32c(_ bytes: UnsafeRawBufferPointer, seed: UInt32 = 0) -> UInt32 {
        // SAFETY: the C function reads exactly `count` bytes from the base.
        unsafe ingest_crc32c(seed, bytes.baseAddress, bytes.count)
    }

    package static func crc32c(_ bytes: [UInt8], seed: UInt32 = 0) -> UInt32 {
        // SAFETY: the buffer is valid inside the closure.
        unsafe bytes.withUnsafeBytes { unsafe crc32c($0, seed: seed) }
    }

    package static func crc32c(_ bytes: ArraySlice<UInt8>, seed: UInt32 = 0) -> UInt32 {
        // SAFETY: the buffer is valid inside the closure.
        unsafe bytes.withUnsafeBytes { unsafe crc32c($0, seed: seed) }
    }

    package static func crc32c(_ bytes: RawSpan, seed: UInt32 = 0) -> UInt32 {
        // SAFETY: the buffer is valid inside the closure.
        unsafe bytes.withUnsafeBytes { unsafe crc32c($0, seed: seed) }
    }
}
