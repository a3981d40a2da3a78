// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]
// The sections of a checked block, one function a kind of content.

extension BlockDecoder {
    func decodeRows(
        _ block: BlockView, wanted: BlockSections, into rows: BlockRows
    ) throws(FormatError) {
        let header = unsafe block.header
        let count = header.rowCount
        if !wanted.isDisjoint(with: [.attributes, .sparse]) {
            try unsafe attributes(block, into: rows)
        }
        if wanted.contains(.key) {
            let last = Int64(header.nextKey.rawValue) - 1
            try unsafe column(.key, block, count, max: last, into: rows.key)
        }
        if wanted.contains(.timestamp) { try unsafe timestamps(block, into: rows) }
        if wanted.contains(.day) {
            try unsafe column(
                .day, block, count, min: Int64(Limits.businessDays.lowerBound),
                max: Int64(Limits.businessDays.upperBound), into: rows.day)
        }
        if wanted.contains(.attribution) {
            try unsafe attribution(.platform, block, into: rows.platform)
            try unsafe attribution(.campaign, block, into: rows.campaign)
            try unsafe attribution(.source, block, into: rows.source)
        }
        try unsafe decodeSparse(block, wanted: wanted, into: rows)
        rows.rowCount = count
        rows.eventHashCount = header.eventHashCount
        rows.measuredCount = header.measuredCount
        rows.moneyCount = header.moneyCount
    }

    private func decodeSparse(
        _ block: BlockView, wanted: BlockSections, into rows: BlockRows
    ) throws(FormatError) {
        let header = unsafe block.header
        if wanted.contains(.eventHash), let entry = unsafe block.table.entry(.eventHash) {
            let bytes = try unsafe content(entry, of: block)
            // SAFETY: the table holds exactly 8 × eventHashCount bytes, at most one hash a row.
            unsafe UnsafeMutableRawPointer(rows.eventHash).copyMemory(
                from: bytes.baseAddress!, byteCount: bytes.count)
        }
        if wanted.contains(.viewability) {
            let count = header.measuredCount
            try unsafe column(
                .visible, block, count, max: Int64(Limits.visiblePartsPerMillionMax),
                into: rows.visible)
            try unsafe column(
                .duration, block, count, max: Int64(UInt32.max), into: rows.duration)
        }
        if wanted.contains(.money) {
            let (count, max) = (header.moneyCount, Limits.moneyMicrosMax)
            try unsafe column(.revenue, block, count, max: max, into: rows.revenue)
            try unsafe column(.spend, block, count, max: max, into: rows.spend)
        }
    }

    /// The attributes, and with them that the header's counts of sparse values are right.
    private func attributes(_ block: BlockView, into rows: BlockRows) throws(FormatError) {
        let header = unsafe block.header
        let count = header.rowCount
        guard let entry = unsafe block.table.entry(.attributes) else { return }
        try unsafe column(.attributes, block, count, max: Int64(UInt16.max), into: rows.attributes)
        let tally = unsafe AttributeTally(rows.attributes, count: count)
        if !tally.areAllValid {
            // SAFETY: count attributes were decoded.
            let bad = unsafe UnsafeBufferPointer(start: rows.attributes, count: count).first {
                !RowAttributes(rawValue: $0).isValid
            }
            throw .corrupt(
                "attributes: value", at: entry.offset, got: bad ?? 0, expected: .exactly(0))
        }
        typealias Field = BlockLayout.Header
        try require(Field.eventHashCount, header.eventHashCount, is: tally.eventHashCount)
        try require(Field.measuredCount, header.measuredCount, is: tally.measuredCount)
        try require(Field.moneyCount, header.moneyCount, is: tally.moneyCount)
    }

    private func require(
        _ field: FormatField, _ got: Int, is expected: Int
    ) throws(FormatError) {
        if got != expected { throw .corrupt(field, got: got, expected: .exactly(expected)) }
    }

    /// The times, and with them that the header's are their least and greatest.
    private func timestamps(_ block: BlockView, into rows: BlockRows) throws(FormatError) {
        let header = unsafe block.header
        guard header.rowCount > 0 else { return }
        let range = try unsafe column(
            .timestamp, block, header.rowCount, min: header.minTimestamp,
            max: header.maxTimestamp, into: rows.timestamp)
        if range.lowerBound != header.minTimestamp {
            throw .corrupt(
                BlockLayout.Header.minTimestamp, got: header.minTimestamp,
                expected: .exactly(range.lowerBound))
        }
        if range.upperBound != header.maxTimestamp {
            throw .corrupt(
                BlockLayout.Header.maxTimestamp, got: header.maxTimestamp,
                expected: .exactly(range.upperBound))
        }
    }

    /// A column of names: left out if and only if no row has one.
    private func attribution(
        _ kind: BlockSectionKind, _ block: BlockView, into target: UnsafeMutablePointer<UInt32>
    ) throws(FormatError) {
        let header = unsafe block.header
        guard let entry = unsafe block.table.entry(kind) else {
            // SAFETY: rows have room for rowCount values.
            unsafe target.update(repeating: 0, count: header.rowCount)
            return
        }
        let range = try unsafe column(
            kind, block, header.rowCount, max: Int64(header.nextName.rawValue) - 1, into: target)
        if range.upperBound == 0 {
            throw .corrupt("\(kind.name): value", at: entry.offset, got: 0, expected: .atLeast(1))
        }
    }

    func keys(_ block: BlockView) throws(FormatError) -> [RewardKey] {
        let header = unsafe block.header
        let count = header.keyCount
        guard count > 0 else { return [] }
        let last = Int64(header.nextName.rawValue) - 1
        let halves = UnsafeMutablePointer<UInt32>.allocate(capacity: 2 * count)
        defer { unsafe halves.deallocate() }
        try unsafe column(.keyRewards, block, count, min: 1, max: last, into: halves)
        // SAFETY: the second half of what was allocated.
        let businesses = unsafe halves + count
        try unsafe column(.keyBusinesses, block, count, min: 1, max: last, into: businesses)
        return (0..<count).map {
            // SAFETY: both halves were filled.
            unsafe RewardKey(
                reward: NameOrdinal(rawValue: halves[$0]),
                business: NameOrdinal(rawValue: businesses[$0]))
        }
    }

    func names(_ block: BlockView) throws(FormatError) -> NewNames {
        let count = unsafe block.header.nameCount
        guard let entry = unsafe block.table.entry(.names) else { return NewNames() }
        let bytes = try unsafe content(entry, of: block)
        var end = count
        for index in 0..<count {
            // SAFETY: the table holds at least two bytes a name.
            let length = unsafe Int(bytes[index])
            if length < 1 || length > Limits.nameByteCountMax {
                throw .corrupt(
                    "names: length", at: entry.offset, got: length,
                    expected: length < 1 ? .atLeast(1) : .atMost(Limits.nameByteCountMax))
            }
            end += length
        }
        guard end == entry.rawByteCount else {
            throw .corrupt(
                "names: sum of lengths", at: entry.offset, got: end,
                expected: .exactly(entry.rawByteCount))
        }
        // SAFETY: the lengths were checked to end where the bytes end.
        return unsafe NewNames(lengths: bytes[..<count], bytes: bytes[count...])
    }

    func ledger(_ block: BlockView) throws(FormatError) -> [LedgerEntry] {
        guard let entry = unsafe block.table.entry(.ledger) else { return [] }
        var reader = unsafe ByteReader(try content(entry, of: block))
        let entries = try LedgerCodec.decode(
            &reader, entryCount: unsafe block.header.ledgerEntryCount,
            rangeCountMax: Limits.blockSequenceRangeCountMax, at: entry.offset)
        guard reader.isAtEnd else {
            throw .corrupt(
                "ledger: bytes after the last entry", at: entry.offset,
                got: reader.remainingByteCount, expected: .exactly(0))
        }
        return entries
    }

    /// Decodes one column of `count` values, if it is there.
    /// - Returns: its least and greatest value; 0 … 0 if it is not there.
    @discardableResult
    private func column<Value: FixedWidthInteger & BitwiseCopyable>(
        _ kind: BlockSectionKind, _ block: BlockView, _ count: Int, min: Int64 = 0, max: Int64,
        into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> ClosedRange<Int64> {
        guard let entry = unsafe block.table.entry(kind) else { return 0...0 }
        let bytes = try unsafe content(entry, of: block)
        guard min <= max else {
            throw .corrupt(
                "\(kind.name): value", at: entry.offset, got: count, expected: .atMost(0))
        }
        let source = unsafe ColumnSource(
            bytes: bytes.baseAddress!, byteCount: bytes.count, encoding: entry.encoding,
            parameter: entry.parameter, count: count, domain: min...max, name: kind.name,
            offset: entry.offset)
        return try unsafe columns.decode(source, into: target)
    }
}
