// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]
// The header in and out of bytes. Reading believes nothing: the order of the checks is that of the
// format page, each made before what stands behind it is looked at.

extension BlockHeader {
    private typealias Field = BlockLayout.Header

    /// Writes the header in front of the section table, which is there already, and takes the checksum
    /// of both.
    mutating func write(to base: UnsafeMutableRawPointer) {
        let bytes = unsafe FieldBytes(base: base)
        unsafe bytes.put(BlockLayout.magic, Field.magic)
        unsafe bytes.put(BlockLayout.version, Field.version)
        unsafe bytes.put(headerByteCount, Field.headerByteCount)
        unsafe bytes.put(byteCount, Field.byteCount)
        unsafe bytes.put(context.previousChecksum, Field.previousChecksum)
        unsafe bytes.put(context.segment.rawValue, Field.segment)
        unsafe bytes.put(context.directory.rawValue, Field.directory)
        unsafe bytes.put(context.blockOrdinal, Field.blockOrdinal)
        unsafe bytes.put(rowCount, Field.rowCount)
        unsafe bytes.put(context.commitEpoch, Field.commitEpoch)
        unsafe bytes.put(minTimestamp, Field.minTimestamp)
        unsafe bytes.put(maxTimestamp, Field.maxTimestamp)
        unsafe bytes.put(context.admissionTime, Field.admissionTime)
        unsafe bytes.put(context.firstName.rawValue, Field.firstName)
        unsafe bytes.put(nameCount, Field.nameCount)
        unsafe bytes.put(context.firstKey.rawValue, Field.firstKey)
        unsafe bytes.put(keyCount, Field.keyCount)
        unsafe bytes.put(context.shard, Field.shard)
        unsafe bytes.put(context.policyVersion, Field.policyVersion)
        unsafe bytes.put(sectionCount, Field.sectionCount)
        unsafe bytes.put(context.rewritten?.count ?? 0, Field.commitCount)
        unsafe bytes.put(eventHashCount, Field.eventHashCount)
        unsafe bytes.put(sessionCount, Field.sessionCount)
        unsafe bytes.put(measuredCount, Field.measuredCount)
        unsafe bytes.put(moneyCount, Field.moneyCount)
        unsafe bytes.put(ledgerEntryCount, Field.ledgerEntryCount)
        unsafe bytes.put(context.rewritten?.lastChecksum ?? 0, Field.lastChecksum)
        unsafe bytes.put(context.rewritten?.lastAdmissionTime ?? 0, Field.lastAdmissionTime)
        unsafe bytes.put(context.zoneVersion, Field.zoneVersion)
        unsafe bytes.put(rewardHashCount, Field.rewardHashCount)
        // SAFETY: header and table are headerByteCount bytes from base.
        headerChecksum = unsafe BlockLayout.headerChecksum(
            UnsafeRawBufferPointer(start: base, count: headerByteCount))
        unsafe bytes.put(headerChecksum, Field.headerChecksum)
    }

    /// Reads and checks the fixed part; the section table is there and under the checksum, but not
    /// looked at.
    /// - Parameter bytes: from the block's first byte; may go on beyond the block.
    init(parsing bytes: UnsafeRawBufferPointer) throws(FormatError) {
        let base = try unsafe Self.checkEnvelope(bytes)
        let load = { (field: FormatField) in unsafe field.load(base) }
        context = BlockContext(
            directory: DirectoryID(rawValue: load(Field.directory)),
            shard: UInt16(load(Field.shard)),
            segment: SegmentNumber(rawValue: UInt32(load(Field.segment))),
            blockOrdinal: UInt32(load(Field.blockOrdinal)),
            commitEpoch: load(Field.commitEpoch),
            previousChecksum: UInt32(load(Field.previousChecksum)),
            admissionTime: Int64(bitPattern: load(Field.admissionTime)),
            policyVersion: UInt16(load(Field.policyVersion)),
            zoneVersion: UInt32(load(Field.zoneVersion)),
            firstName: NameOrdinal(rawValue: UInt32(load(Field.firstName))),
            firstKey: KeyOrdinal(rawValue: UInt32(load(Field.firstKey))),
            rewritten: RewrittenCommits(
                count: UInt32(load(Field.commitCount)),
                lastAdmissionTime: Int64(bitPattern: load(Field.lastAdmissionTime)),
                lastChecksum: UInt32(load(Field.lastChecksum))))
        if context.rewritten?.count == 0 { context.rewritten = nil }
        headerByteCount = Int(load(Field.headerByteCount))
        byteCount = Int(load(Field.byteCount))
        headerChecksum = UInt32(load(Field.headerChecksum))
        rowCount = Int(load(Field.rowCount))
        minTimestamp = Int64(bitPattern: load(Field.minTimestamp))
        maxTimestamp = Int64(bitPattern: load(Field.maxTimestamp))
        nameCount = Int(load(Field.nameCount))
        keyCount = Int(load(Field.keyCount))
        eventHashCount = Int(load(Field.eventHashCount))
        sessionCount = Int(load(Field.sessionCount))
        rewardHashCount = Int(load(Field.rewardHashCount))
        measuredCount = Int(load(Field.measuredCount))
        moneyCount = Int(load(Field.moneyCount))
        ledgerEntryCount = Int(load(Field.ledgerEntryCount))
        sectionCount = Int(load(Field.sectionCount))
        try unsafe Self.checkReserved(base)
        try checkCounts()
        try checkTimes()
    }

    /// Magic, length, checksum, version, in this order: what must hold in a block of any version.
    private static func checkEnvelope(
        _ bytes: UnsafeRawBufferPointer
    ) throws(FormatError) -> UnsafeRawPointer {
        guard let base = bytes.baseAddress, bytes.count >= BlockLayout.headerByteCountMin
        else {
            throw .torn(
                "header", at: 0, available: bytes.count,
                needed: BlockLayout.headerByteCountMin)
        }
        // SAFETY, of all loads below: the bytes of the fixed part are there.
        let magic = unsafe Field.magic.load(base)
        if magic != BlockLayout.magic {
            // SAFETY: the fixed part is there.
            let fixed = unsafe UnsafeRawBufferPointer(
                rebasing: bytes[..<BlockLayout.headerByteCountMin])
            if unsafe fixed.allSatisfy({ $0 == 0 }) {
                throw .torn("header of zeros", at: 0, available: 0, needed: fixed.count)
            }
            throw .corrupt(Field.magic, got: magic, expected: .exactly(BlockLayout.magic))
        }
        let byteCount = unsafe Int(Field.headerByteCount.load(base))
        guard byteCount >= BlockLayout.headerByteCountMin,
            byteCount <= BlockLayout.headerByteCountMax,
            byteCount % BlockLayout.alignment == 0
        else {
            throw .corrupt(
                Field.headerByteCount, got: byteCount,
                expected: .atMost(BlockLayout.headerByteCountMax))
        }
        let version = unsafe Field.version.load(base)
        if version == BlockLayout.version {
            // Before the bytes are asked for, so that a flipped bit in a length is not taken for a cut.
            let sectionCount = unsafe Int(Field.sectionCount.load(base))
            try requireExactly(
                Field.headerByteCount, UInt64(byteCount),
                UInt64(
                    BlockLayout.headerByteCountMin
                        + sectionCount * BlockLayout.sectionEntryByteCount))
        }
        guard bytes.count >= byteCount else {
            throw .torn("section table", at: 0, available: bytes.count, needed: byteCount)
        }
        let checksum = unsafe BlockLayout.headerChecksum(
            UnsafeRawBufferPointer(start: base, count: byteCount))
        let stored = unsafe Field.headerChecksum.load(base)
        guard checksum == stored else {
            throw .corrupt(Field.headerChecksum, got: checksum, expected: .exactly(stored))
        }
        if version > BlockLayout.version {
            throw .newerFormat(
                Field.version.name, at: Field.version.offset, got: version,
                expected: .atMost(BlockLayout.version))
        }
        try requireExactly(Field.version, version, UInt64(BlockLayout.version))
        return unsafe base
    }

    private static func checkReserved(_ base: UnsafeRawPointer) throws(FormatError) {
        guard unsafe Field.commitCount.load(base) == 0 else { return }
        try unsafe requireExactly(Field.lastChecksum, Field.lastChecksum.load(base), 0)
        try unsafe requireExactly(Field.lastAdmissionTime, Field.lastAdmissionTime.load(base), 0)
    }

    private func checkCounts() throws(FormatError) {
        try Self.requireAtMost(Field.sectionCount, sectionCount, Limits.blockSectionCountMax)
        try Self.requireAtMost(Field.rowCount, rowCount, Limits.blockEventCountMax)
        try Self.requireAtMost(Field.eventHashCount, eventHashCount, rowCount)
        try Self.requireAtMost(Field.sessionCount, sessionCount, rowCount)
        try Self.requireAtMost(Field.rewardHashCount, rewardHashCount, rowCount)
        try Self.requireAtMost(Field.measuredCount, measuredCount, rowCount)
        try Self.requireAtMost(Field.moneyCount, moneyCount, rowCount)
        try Self.requireAtMost(
            Field.ledgerEntryCount, ledgerEntryCount, Limits.blockSenderCountMax)
        try Self.requireAtMost(Field.nameCount, nameCount, Limits.blockNameCountMax)
        try Self.requireAtMost(Field.keyCount, keyCount, Limits.blockKeyCountMax)
        let firstName = Int(context.firstName.rawValue)
        if firstName < 1 {
            throw .corrupt(Field.firstName, got: firstName, expected: .atLeast(1))
        }
        // Ordinals go from 1 to nameCountMax, keys from 0 to keyCountMax - 1.
        try Self.requireAtMost(
            Field.firstName, firstName, Limits.nameCountMax + 1 - nameCount)
        try Self.requireAtMost(
            Field.firstKey, Int(context.firstKey.rawValue), Limits.keyCountMax - keyCount)
    }

    private func checkTimes() throws(FormatError) {
        if rowCount == 0 {
            try Self.requireExactly(
                Field.minTimestamp, UInt64(bitPattern: minTimestamp), 0)
            try Self.requireExactly(
                Field.maxTimestamp, UInt64(bitPattern: maxTimestamp), 0)
        } else if maxTimestamp < minTimestamp {
            throw .corrupt(
                Field.maxTimestamp, got: maxTimestamp, expected: .atLeast(minTimestamp))
        }
    }

    /// Holds the header against where it was found.
    func check(at place: BlockPlace) throws(FormatError) {
        if let directory = place.directory, directory != context.directory {
            throw .notThisFile(
                Field.directory, got: context.directory.rawValue, expected: directory.rawValue)
        }
        if let segment = place.segment, segment != context.segment {
            throw .notThisFile(
                Field.segment, got: context.segment.rawValue, expected: segment.rawValue)
        }
        if let ordinal = place.blockOrdinal, ordinal != context.blockOrdinal {
            throw .notThisFile(Field.blockOrdinal, got: context.blockOrdinal, expected: ordinal)
        }
        if let checksum = place.previousChecksum, checksum != context.previousChecksum {
            throw .corrupt(
                Field.previousChecksum, got: context.previousChecksum,
                expected: .exactly(checksum))
        }
    }

    private static func requireExactly(
        _ field: FormatField, _ got: UInt64, _ expected: UInt64
    ) throws(FormatError) {
        if got != expected { throw .corrupt(field, got: got, expected: .exactly(expected)) }
    }

    private static func requireAtMost(
        _ field: FormatField, _ got: Int, _ max: Int
    ) throws(FormatError) {
        if got > max { throw .corrupt(field, got: got, expected: .atMost(max)) }
    }
}

extension FormatError {
    /// A fixed field, counted from the first byte of what was decoded.
    package static func corrupt(
        _ field: FormatField, got: some BinaryInteger, expected: FormatFault.Expectation
    ) -> FormatError {
        .corrupt(field.name, at: field.offset, got: got, expected: expected)
    }

    package static func notThisFile(
        _ field: FormatField, got: some BinaryInteger, expected: some BinaryInteger
    ) -> FormatError {
        .notThisFile(field.name, at: field.offset, got: got, expected: .exactly(expected))
    }
}
