// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query

/// Rows, new names, new keys and ledger entries → the bytes of one block. Owned by the commit stage and
/// used on its queue; the same input gives the same bytes.
///
/// **Cost** About 12 ns an event (docs/format/block.md has the figures), nothing allocated once its memory
/// is warm.
@safe package final class BlockEncoder {
    private let columns = ColumnEncoder()
    private let compressor = LZ4Compressor()
    private var ledgerBytes = ByteWriter()
    /// What compression tries; only what it fills is resident.
    private let trial: UnsafeMutableRawPointer
    /// One half of the new keys at a time.
    private let keyHalf: UnsafeMutablePointer<UInt32>

    package init() {
        unsafe trial = .allocate(byteCount: Limits.blockByteCountMax, alignment: 64)
        unsafe keyHalf = .allocate(capacity: Limits.blockKeyCountMax)
    }

    deinit {
        unsafe trial.deallocate()
        unsafe keyHalf.deallocate()
    }

    /// Encodes one block into `buffer`, over what it held.
    ///
    /// The caller closes a block before a count passes its limit (`Limits.blockEventCountMax`,
    /// `blockNameCountMax`, `blockKeyCountMax`, `blockSenderCountMax`, `blockSequenceRangeCountMax`); with
    /// all of them at their limits the block still fits. Rows have valid attributes, and as many sparse
    /// values as these say.
    /// - Parameter commits: those that the context says were rewritten.
    package func encode(
        rows: BlockRows, names: NewNames, keys: [RewardKey], ledger: [LedgerEntry],
        context: BlockContext, commits: BlockCommits = BlockCommits(), into buffer: BlockBuffer
    ) -> BlockSummary {
        requireLimits(rows: rows, names: names, keys: keys, ledger: ledger)
        precondition(commits.count == Int(context.rewritten?.count ?? 0))
        var sink = unsafe SectionSink(base: buffer.base, trial: trial, compressor: compressor)
        unsafe encodeNames(names, to: &sink)
        unsafe encodeKeys(keys, to: &sink)
        unsafe encodeLedger(ledger, to: &sink)
        unsafe encodeCommits(commits, to: &sink)
        let times = unsafe rows.rowCount > 0 ? encodeDense(rows, to: &sink) : 0...0
        unsafe encodeSparse(rows, to: &sink)
        buffer.range = unsafe sink.finish(alignment: BlockLayout.alignment(of: context))

        var header = unsafe BlockHeader(
            context: context,
            headerByteCount: BlockLayout.headerByteCountMin
                + sink.sectionCount * BlockLayout.sectionEntryByteCount,
            byteCount: buffer.byteCount, headerChecksum: 0, rowCount: rows.rowCount,
            minTimestamp: times.lowerBound, maxTimestamp: times.upperBound,
            nameCount: names.count, keyCount: keys.count, eventHashCount: rows.eventHashCount,
            sessionCount: rows.sessionCount, rewardHashCount: rows.rewardHashCount,
            measuredCount: rows.measuredCount,
            moneyCount: rows.moneyCount,
            ledgerEntryCount: ledger.count, sectionCount: sink.sectionCount)
        unsafe header.write(to: buffer.base + buffer.range.lowerBound)
        return header.summary
    }

    private func requireLimits(
        rows: BlockRows, names: NewNames, keys: [RewardKey], ledger: [LedgerEntry]
    ) {
        precondition(rows.rowCount <= Limits.blockEventCountMax)
        precondition(names.count <= Limits.blockNameCountMax)
        precondition(keys.count <= Limits.blockKeyCountMax)
        precondition(ledger.count <= Limits.blockSenderCountMax)
        let rangeCount = ledger.reduce(0) { $0 + $1.sequences.count }
        precondition(rangeCount <= Limits.blockSequenceRangeCountMax)
        let tally = unsafe AttributeTally(rows.attributes, count: rows.rowCount)
        precondition(
            tally.areAllValid && tally.eventHashCount == rows.eventHashCount
                && tally.sessionCount == rows.sessionCount
                && tally.overflowCount == rows.rewardHashCount
                && tally.measuredCount == rows.measuredCount && tally.moneyCount == rows.moneyCount,
            "attributes and sparse columns of the block's rows do not agree")
    }

    private func encodeNames(_ names: NewNames, to sink: inout SectionSink) {
        guard names.count > 0 else { return }
        let target = unsafe sink.target
        var start: UInt32 = 0
        for (index, end) in names.ends.enumerated() {
            // SAFETY: a byte for each of at most blockNameCountMax names.
            unsafe target.storeBytes(
                of: UInt8(truncatingIfNeeded: end &- start), toByteOffset: index, as: UInt8.self)
            start = end
        }
        unsafe names.bytes.withUnsafeBytes { bytes in
            // SAFETY: at most blockNameCountMax × nameByteCountMax bytes.
            unsafe (target + names.count).copyMemory(
                from: bytes.baseAddress!, byteCount: bytes.count)
        }
        unsafe sink.close(
            .names, SectionEncoding(.raw), rawByteCount: names.count + names.bytes.count,
            content: .text)
    }

    private func encodeKeys(_ keys: [RewardKey], to sink: inout SectionSink) {
        guard !keys.isEmpty else { return }
        // SAFETY: at most blockKeyCountMax keys, for which the half has room.
        for (index, key) in keys.enumerated() { unsafe keyHalf[index] = key.reward.rawValue }
        unsafe column(.keyRewards, keyHalf, keys.count, [.patch], to: &sink)
        for (index, key) in keys.enumerated() { unsafe keyHalf[index] = key.business.rawValue }
        unsafe column(.keyBusinesses, keyHalf, keys.count, [.dictionary], to: &sink)
    }

    private func encodeLedger(_ ledger: [LedgerEntry], to sink: inout SectionSink) {
        guard !ledger.isEmpty else { return }
        ledgerBytes.removeAll()
        LedgerCodec.encode(ledger, into: &ledgerBytes)
        let byteCount = ledgerBytes.byteCount
        unsafe ledgerBytes.bytes.withUnsafeBytes { bytes in
            // SAFETY: the limits on senders and ranges bound these bytes, which the buffer has room for.
            unsafe sink.target.copyMemory(from: bytes.baseAddress!, byteCount: bytes.count)
        }
        unsafe sink.close(
            .ledger, SectionEncoding(.raw), rawByteCount: byteCount, content: .text)
    }

    private func encodeCommits(_ commits: BlockCommits, to sink: inout SectionSink) {
        let count = commits.count
        if count == 0 { return }
        unsafe commits.rowCounts.withUnsafeBufferPointer {
            _ = unsafe column(.commitRows, $0.baseAddress!, count, [.dictionary], to: &sink)
        }
        unsafe commits.admissionTimes.withUnsafeBufferPointer {
            _ = unsafe column(.commitTimes, $0.baseAddress!, count, [.scale, .patch], to: &sink)
        }
        unsafe commits.policyVersions.withUnsafeBufferPointer {
            _ = unsafe column(.commitPolicies, $0.baseAddress!, count, [.dictionary], to: &sink)
        }
        unsafe commits.zoneVersions.withUnsafeBufferPointer {
            _ = unsafe column(.commitZones, $0.baseAddress!, count, [.dictionary], to: &sink)
        }
    }

    /// - Returns: the least and the greatest time.
    private func encodeDense(
        _ rows: BlockRows, to sink: inout SectionSink
    ) -> ClosedRange<Int64> {
        let count = rows.rowCount
        unsafe column(.attributes, rows.attributes, count, [.dictionary], to: &sink)
        unsafe column(.key, rows.key, count, [.dictionary], to: &sink)
        let times = unsafe column(
            .timestamp, rows.timestamp, count, [.scale, .patch], to: &sink)
        unsafe column(.day, rows.day, count, [.dictionary, .patch], to: &sink)
        unsafe attribution(.platform, rows.platform, count, to: &sink)
        unsafe attribution(.campaign, rows.campaign, count, to: &sink)
        unsafe attribution(.source, rows.source, count, to: &sink)
        return times
    }

    private func encodeSparse(_ rows: BlockRows, to sink: inout SectionSink) {
        unsafe hashes(.eventHash, rows.eventHash, rows.eventHashCount, to: &sink)
        if rows.sessionCount > 0 {
            // SAFETY: one pseudonym a row at most, which the buffer has room for, with two bytes behind the last.
            unsafe SessionPseudonym.pack(rows.session, count: rows.sessionCount, to: sink.target)
            unsafe sink.close(
                .session, SectionEncoding(.raw),
                rawByteCount: rows.sessionCount * SessionPseudonym.byteCount, content: nil)
        }
        if rows.measuredCount > 0 {
            let count = rows.measuredCount
            unsafe column(.visible, rows.visible, count, [.scale, .dictionary], to: &sink)
            unsafe column(.duration, rows.duration, count, [.scale, .patch], to: &sink)
        }
        if rows.moneyCount > 0 {
            let (count, trials) = (rows.moneyCount, [.scale, .dictionary, .patch] as ColumnTrials)
            unsafe column(.revenue, rows.revenue, count, trials, to: &sink)
            unsafe column(.spend, rows.spend, count, trials, to: &sink)
        }
        unsafe hashes(.rewardHash, rows.rewardHash, rows.rewardHashCount, to: &sink)
    }

    private func hashes(
        _ kind: BlockSectionKind, _ source: UnsafeMutablePointer<UInt64>, _ count: Int,
        to sink: inout SectionSink
    ) {
        if count == 0 { return }
        let byteCount = count * MemoryLayout<UInt64>.size
        // SAFETY: one hash a row at most, which the buffer has room for. Little-endian as in memory.
        unsafe sink.target.copyMemory(from: source, byteCount: byteCount)
        unsafe sink.close(kind, SectionEncoding(.raw), rawByteCount: byteCount, content: nil)
    }

    /// A column of names; left out where no row has one.
    private func attribution(
        _ kind: BlockSectionKind, _ source: UnsafeMutablePointer<UInt32>, _ count: Int,
        to sink: inout SectionSink
    ) {
        // SAFETY: count values are there.
        let isAbsent = unsafe UnsafeBufferPointer(start: source, count: count).allSatisfy {
            $0 == 0
        }
        if !isAbsent { unsafe column(kind, source, count, [.dictionary], to: &sink) }
    }

    @discardableResult
    private func column<Value: FixedWidthInteger & BitwiseCopyable>(
        _ kind: BlockSectionKind, _ source: UnsafePointer<Value>, _ count: Int,
        _ trials: ColumnTrials, to sink: inout SectionSink
    ) -> ClosedRange<Int64> {
        let column = unsafe columns.encode(
            source, count: count, trials: trials, to: sink.target)
        unsafe sink.close(
            kind, column.encoding, parameter: column.parameter, rawByteCount: column.byteCount,
            content: .column)
        return column.range
    }
}

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
    mutating func finish(alignment: Int) -> Range<Int> {
        let tableByteCount = unsafe sectionCount * BlockLayout.sectionEntryByteCount
        let tableOffset = BlockBuffer.bodyOffset - tableByteCount
        // SAFETY: both places are inside the buffer, before the first section; they may overlap.
        unsafe (base + tableOffset).copyMemory(
            from: base + BlockLayout.headerByteCountMin, byteCount: tableByteCount)
        let start = tableOffset - BlockLayout.headerByteCountMin
        let end = unsafe start + (offset - start + alignment - 1) / alignment * alignment
        // SAFETY: the buffer has room for the padding after the longest sections.
        unsafe (base + offset).initializeMemory(
            as: UInt8.self, repeating: 0, count: end - offset)
        return start..<end
    }
}

/// The bytes of one encoded block: what the encoder fills and the segment writer writes. Owned by one
/// stage at a time; handed from the commit stage to the sync stage and back.
///
/// **Layout** The sections are encoded in place from a fixed byte on; the header, whose length is known
/// only then, ends where they begin.
/// **Cost** Address space for the largest block, taken once; only what blocks have filled is resident.
@safe package final class BlockBuffer: @unchecked Sendable {
    // `@unchecked Sendable`: one owner at a time, handed over through a queue, which orders the accesses.

    /// Where the sections begin: room for the header with an entry for every kind of section.
    static let bodyOffset =
        BlockLayout.headerByteCountMin
        + BlockLayout.sectionEntryByteCount * BlockSectionKind.allCases.count
    package static let capacity =
        bodyOffset + Limits.blockByteCountMax + BlockLayout.commitAlignment
        + BitPacking.slackByteCount

    let base: UnsafeMutableRawPointer
    /// Of the block in `base`; the encoder's to set.
    var range = 0..<0

    package init() {
        unsafe base = .allocate(byteCount: Self.capacity, alignment: 64)
    }

    deinit { unsafe base.deallocate() }

    package var byteCount: Int { range.count }

    /// The block. Valid until the next encode into this buffer.
    package var bytes: UnsafeRawBufferPointer {
        // SAFETY: the encoder keeps the range within the capacity and wrote all of it.
        unsafe UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count)
    }

    /// The block as an array, for tests and tools.
    package var copy: [UInt8] { unsafe Array(bytes) }
}
