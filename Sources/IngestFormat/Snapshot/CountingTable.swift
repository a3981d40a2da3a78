// packet → decode → ring → admit → block → segment → [compaction] → snapshot → query

/// `CountingRule` as tables for the loop over rows: attributes → class → what to add.
///
/// The columns are split by how often rows add to them: eight *hot* ones are added as one vector, the
/// *rare* ones have a lane each in a line of their own. Every class adds to at most one rare column.
///
/// **Cost** 1 KiB for the classes and 1 KiB for what they add; both stay in the first-level cache.
@safe final class CountingTable {
    static let hotColumns: [CounterColumn] = [
        .impressions, .viewableImpressions, .undeterminedImpressions, .clicks, .redemptions,
        .uncheckedEvents, .notViewableImpressions, .duplicateImpressions,
    ]
    static let rareColumns: [CounterColumn] = [
        .invalidImpressions, .invalidClicks, .invalidRedemptions, .duplicateClicks,
        .duplicateRedemptions, .conflictImpressions, .conflictClicks, .conflictRedemptions,
        .refusedImpressions, .refusedClicks, .refusedRedemptions,
    ]
    static let hotCount = 8
    static let rareCount = 11
    static let noLane: UInt8 = 0xFF

    /// What one class of rows adds.
    struct Class: Equatable {
        var hot: SIMD8<UInt32> = SIMD8(repeating: 0)
        /// Place in `rareColumns`, or `noLane`.
        var rareLane = CountingTable.noLane
    }

    private static let indexCount = 1 << 10
    private static let classCountMax = 32

    /// Class by `index(attributes)`.
    let classes: UnsafeMutablePointer<UInt8>
    /// What rows of a class add to the hot columns, and which rare one.
    let hot: UnsafeMutablePointer<SIMD8<UInt32>>
    let rareLanes: UnsafeMutablePointer<UInt8>

    init() {
        unsafe classes = .allocate(capacity: Self.indexCount)
        unsafe hot = .allocate(capacity: Self.classCountMax)
        unsafe rareLanes = .allocate(capacity: Self.classCountMax)
        var known: [Class] = []
        for index in 0..<Self.indexCount {
            let found = Self.addition(CountingRule.columns(of: Self.attributes(index)))
            let place = known.firstIndex(of: found) ?? known.count
            if place == known.count { known.append(found) }
            precondition(place < Self.classCountMax)
            // SAFETY: index < indexCount, place < classCountMax, 32 and so a u8.
            unsafe classes[index] = UInt8(place)
            unsafe hot[place] = found.hot
            unsafe rareLanes[place] = found.rareLane
        }
    }

    deinit {
        unsafe classes.deallocate()
        unsafe hot.deallocate()
        unsafe rareLanes.deallocate()
    }

    /// What the rule looks at (type, verdict, measured, event id, session, outside the window), moved
    /// together to ten bits.
    @inline(__always)
    static func index(_ attributes: UInt16) -> Int {
        Int(attributes & 0x3F | attributes >> 4 & 0x1C0 | attributes >> 6 & 0x200)
    }

    /// Attributes of that index, with the first consent and format.
    private static func attributes(_ index: Int) -> RowAttributes {
        let bits = UInt16(index)
        return RowAttributes(rawValue: bits & 0x3F | (bits & 0x1C0) << 4 | (bits & 0x200) << 6)
    }

    private static func addition(_ columns: [CounterColumn]) -> Class {
        var found = Class()
        for column in columns {
            if let lane = hotColumns.firstIndex(of: column) {
                found.hot[lane] = 1
            } else if let lane = rareColumns.firstIndex(of: column) {
                precondition(found.rareLane == noLane)
                found.rareLane = UInt8(lane)
            }
        }
        return found
    }
}
