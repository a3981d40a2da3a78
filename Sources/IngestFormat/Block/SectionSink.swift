// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query

/// Where an encoder stands in a block buffer: sections are made in place at `target` and closed one by
/// one; the table grows in front of them; the header comes last.
@unsafe struct SectionSink {
    private let base: UnsafeMutableRawPointer
    private let trial: UnsafeMutableRawPointer
    private let compressor: LZ4Compressor
    private var offset = BlockBuffer.bodyOffset
    private(set) var sectionCount = 0

    /// - Parameter trial: memory of a section's greatest length, for what compression tries.
    init(
        base: UnsafeMutableRawPointer, trial: UnsafeMutableRawPointer, compressor: LZ4Compressor
    ) {
        unsafe self.base = base
        unsafe self.trial = trial
        unsafe self.compressor = compressor
    }

    /// Where the next section is to be made.
    var target: UnsafeMutableRawPointer { unsafe base + offset }

    /// Ends the section of `rawByteCount` bytes at `target`: LZ4 where it pays, checksum, table entry.
    /// - Parameter content: `nil` for what never pays.
    mutating func close(
        _ kind: BlockSectionKind, _ encoding: SectionEncoding, parameter: Int = 0,
        rawByteCount: Int, content: LZ4Compressor.Content?
    ) {
        let target = unsafe target
        var encoding = encoding
        var byteCount = rawByteCount
        if let content,
            let compressed = unsafe compressor.compress(
                target, byteCount: rawByteCount, as: content, to: trial)
        {
            // SAFETY: the compressed bytes are fewer than those they replace.
            unsafe target.copyMemory(from: trial, byteCount: compressed)
            encoding = encoding.compressed
            byteCount = compressed
        }
        let stored = unsafe UnsafeRawBufferPointer(start: target, count: byteCount)
        // The table is moved to its place when the number of sections is known.
        let entry = unsafe FieldBytes(
            base: base + BlockLayout.headerByteCountMin
                + sectionCount * BlockLayout.sectionEntryByteCount)
        unsafe entry.put(kind.rawValue, BlockLayout.Section.kind)
        unsafe entry.put(encoding.rawValue, BlockLayout.Section.encoding)
        unsafe entry.put(parameter, BlockLayout.Section.parameter)
        unsafe entry.put(rawByteCount, BlockLayout.Section.rawByteCount)
        unsafe entry.put(byteCount, BlockLayout.Section.byteCount)
        unsafe entry.put(Checksum.crc32c(stored), BlockLayout.Section.checksum)
        unsafe sectionCount += 1
        unsafe offset += byteCount
    }

    /// Pads the last section and moves the table up to the first.
    /// - Returns: the range of the block in the buffer; its header is still to be written.
    mutating func finish() -> Range<Int> {
        let tableByteCount = unsafe sectionCount * BlockLayout.sectionEntryByteCount
        let tableOffset = BlockBuffer.bodyOffset - tableByteCount
        // SAFETY: both places are inside the buffer, before the first section; they may overlap.
        unsafe (base + tableOffset).copyMemory(
            from: base + BlockLayout.headerByteCountMin, byteCount: tableByteCount)
        let start = tableOffset - BlockLayout.headerByteCountMin
        while unsafe (offset - start) % BlockLayout.alignment != 0 {
            // SAFETY: the buffer has room for the padding after the longest sections.
            unsafe base.storeBytes(of: 0, toByteOffset: offset, as: UInt8.self)
            unsafe offset += 1
        }
        return unsafe start..<offset
    }
}
