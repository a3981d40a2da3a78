// packet → decode → ring → [admit] → [block] → segment → compaction → snapshot → query

/// Pseudonyms of sessions as blocks store them: 48 bits of a keyed hash, 6 bytes each, back to back. They do not compress.
enum SessionPseudonym {
    static let byteCount = 6

    /// Writes the low 48 bits of `count` pseudonyms.
    ///
    /// SAFETY (caller): `target` has room for 6 × `count` bytes and two more.
    @unsafe static func pack(
        _ source: UnsafePointer<UInt64>, count: Int, to target: UnsafeMutableRawPointer
    ) {
        for index in 0..<count {
            // SAFETY: as above. The upper two bytes are written over by the next one.
            unsafe target.storeBytes(
                of: source[index].littleEndian, toByteOffset: index &* byteCount, as: UInt64.self)
        }
    }

    /// Reads the pseudonyms that the bytes hold.
    ///
    /// SAFETY (caller): `target` has room for as many values.
    @unsafe static func unpack(
        _ bytes: UnsafeRawBufferPointer, to target: UnsafeMutablePointer<UInt64>
    ) {
        for index in 0..<bytes.count / byteCount {
            let place = index &* byteCount
            // SAFETY: six bytes are there from `place` on.
            let low = unsafe UInt64(
                bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self).littleEndian)
            let high = unsafe UInt64(
                bytes.loadUnaligned(fromByteOffset: place &+ 4, as: UInt16.self).littleEndian)
            unsafe target[index] = high &<< 32 | low
        }
    }
}
