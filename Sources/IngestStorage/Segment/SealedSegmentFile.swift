// packet → decode → ring → admit → block → [segment → compaction] → snapshot → query
import IngestFormat

/// A segment that has just been sealed, by the compact stage or by recovery: all that the next generation
/// needs of it, so that nothing has to be read back.
package struct SealedSegmentFile: Sendable {
    package let footer: SegmentFooter
    /// What the manifest keeps of it.
    package let entry: SealedSegment
    /// The names and keys that it introduced, by block; those that a generation has already may be missing.
    package var names: [NamesOfBlock]
    /// What is added to the live runs in place of the footer's counters, where blocks that those runs cover
    /// were lost: events that were shown stay counted (docs/durability.md). `nil` everywhere else.
    package let remainder: SegmentRemainder?

    package init(
        footer: SegmentFooter, entry: SealedSegment, names: [NamesOfBlock],
        remainder: SegmentRemainder? = nil
    ) {
        self.footer = footer
        self.entry = entry
        self.names = names
        self.remainder = remainder
    }
}

/// What the blocks of a segment add up to that lie behind the cut of the newest manifest.
package struct SegmentRemainder: Sendable {
    /// By (key, day).
    package let counters: CounterTable
    package let totals: LogTotals
}
