// packet → decode → ring → admit → block → [segment → compaction] → snapshot → query
import IngestFormat

/// A segment that has just been sealed, by the compact stage or by recovery: all that the next generation
/// needs of it, so that nothing has to be read back.
package struct SealedSegmentFile: Sendable {
    package let footer: SegmentFooter
    /// What the manifest keeps of it.
    package let entry: SealedSegment
    /// The names and keys that it introduced, by block.
    package let names: [NamesOfBlock]

    package init(footer: SegmentFooter, entry: SealedSegment, names: [NamesOfBlock]) {
        self.footer = footer
        self.entry = entry
        self.names = names
    }
}
