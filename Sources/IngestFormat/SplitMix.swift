// packet → decode → ring → [admit] → block → segment → [compaction] → snapshot → query

/// The finish of SplitMix64.
package enum SplitMix {
    /// Every bit of `bits` reaches every bit of the result; one to one.
    ///
    /// With a secret among the bits (`bits ^ seed`) nobody outside can choose values that meet in a table.
    /// **Cost** 2 ns.
    @inlinable @inline(__always)
    package static func finish(_ bits: UInt64) -> UInt64 {
        var mixed = bits
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
