// packet → decode → ring → admit → [block] → [segment] → compaction → snapshot → [query]

/// A list of ledger entries as bytes, the same in blocks, in footers and in expired runs.
///
/// **Layout** Entries in ascending order of their key, each: kind u8; for framed senders sender u64 and
/// epoch u64; packet counts; event counts; flags as a varint and what they say is there; for framed senders the
/// sequence ranges, and the checks of their packets.
/// *Counts*: a varint whose bit `i` says that count `i` is not zero, then those counts as
/// varints. *Flags* (`Flags`): first and last time seen (u64, then a varint of their distance); for framed
/// senders start, floor, announced, missing count and key id of the `WindowDelta` as varints, and four without a value.
/// *Ranges*: a varint of how many, then for each two varints: its start less the smallest that it could be
/// (0 for the first, the end of the one before + 2 for the others), and its length less 1. *Checks*, where a flag says
/// so: a u16 for each sequence. Varints have their shortest form.
package enum LedgerCodec {
    /// The most bytes of an entry without its ranges, and of one range.
    package static let entryByteCountMax =
        1 + 16 + 3 + 10 * PacketResult.allCases.count + 2 + 10 * Verdict.allCases.count
        + 2 + 18 + 4 * 10 + 3 + 3
    package static let rangeByteCountMax = 20
    package static let checkByteCount = MemoryLayout<UInt16>.size

    enum Flags {
        static let seen: UInt64 = 1
        static let start: UInt64 = 2
        static let floor: UInt64 = 4
        static let announced: UInt64 = 8
        static let missing: UInt64 = 16
        static let asksForAcks: UInt64 = 32
        static let asksForNone: UInt64 = 64
        static let expired: UInt64 = 128
        static let key: UInt64 = 256
        static let checks: UInt64 = 512
    }

    /// Appends `entries`, sorted if they are not. Their keys are distinct; ranges are as `LedgerEntry`
    /// says.
    package static func encode(_ entries: [LedgerEntry], into writer: inout ByteWriter) {
        let isSorted = zip(entries, entries.dropFirst()).allSatisfy { $0.key < $1.key }
        for entry in isSorted ? entries : entries.sorted(by: { $0.key < $1.key }) {
            writer.append(u8: entry.key.kind.rawValue)
            if entry.key.kind == .framed {
                writer.append(u64: entry.key.sender.rawValue)
                writer.append(u64: entry.key.epoch.rawValue)
            }
            encode(counts: entry.packets, into: &writer)
            encode(counts: entry.events, into: &writer)
            encode(entry.seen, entry.window, hasChecks: !entry.checks.isEmpty, into: &writer)
            if entry.key.kind == .framed { encode(ranges: entry.sequences, into: &writer) }
            for check in entry.checks { writer.append(u16: check) }
        }
    }

    /// Reads `entryCount` entries with at most `rangeCountMax` ranges together.
    /// - Parameter offset: of the reader's first byte, for errors.
    package static func decode(
        _ reader: inout ByteReader, entryCount: Int, rangeCountMax: Int, at offset: Int = 0
    ) throws(FormatError) -> [LedgerEntry] {
        var entries: [LedgerEntry] = []
        // An entry has at least 3 bytes, so a false count takes no memory.
        entries.reserveCapacity(min(entryCount, reader.remainingByteCount / 3))
        var rangesLeft = rangeCountMax
        for _ in 0..<entryCount {
            var source = SectionReader(reader: reader, section: "ledger", start: offset)
            var entry = LedgerEntry(key: try source.key())
            if let last = entries.last, last.key >= entry.key {
                throw source.fault("order of senders", got: entry.key.sender.rawValue)
            }
            try source.counts("packet counts", into: &entry.packets)
            try source.counts("event counts", into: &entry.events)
            let hasChecks = try source.window(into: &entry)
            if entry.key.kind == .framed {
                entry.sequences = try source.ranges(countMax: rangesLeft)
                rangesLeft -= entry.sequences.count
            }
            if hasChecks { entry.checks = try source.checks(of: entry.sequences) }
            reader = source.reader
            entries.append(entry)
        }
        return entries
    }

    /// Reads the entries of a list that fills `bytes`.
    /// **Errors** `corrupt` also for bytes behind the last entry.
    static func decode(
        whole bytes: [UInt8], entryCount: Int, rangeCountMax: Int
    ) throws(FormatError) -> [LedgerEntry] {
        try ByteReader.reading(bytes) { (reader) throws(FormatError) in
            let entries = try decode(
                &reader, entryCount: entryCount, rangeCountMax: rangeCountMax)
            guard reader.isAtEnd else {
                throw .corrupt(
                    "ledger byte count", at: reader.offset, got: bytes.count,
                    expected: .exactly(reader.offset))
            }
            return entries
        }
    }

    private static func encode(counts: [UInt64], into writer: inout ByteWriter) {
        var mask: UInt64 = 0
        for (index, count) in counts.enumerated() where count != 0 { mask |= 1 << UInt64(index) }
        writer.append(varint: mask)
        for count in counts where count != 0 { writer.append(varint: count) }
    }

    private static func encode(
        _ seen: ClosedRange<Int64>?, _ window: WindowDelta, hasChecks: Bool,
        into writer: inout ByteWriter
    ) {
        var flags: UInt64 = seen == nil ? 0 : Flags.seen
        if window.start != nil { flags |= Flags.start }
        if window.floor != nil { flags |= Flags.floor }
        if window.announced != nil { flags |= Flags.announced }
        if window.missingCount != 0 { flags |= Flags.missing }
        if let asks = window.asksForAcks { flags |= asks ? Flags.asksForAcks : Flags.asksForNone }
        if window.isExpired { flags |= Flags.expired }
        if window.keyID != 0 { flags |= Flags.key }
        if hasChecks { flags |= Flags.checks }
        writer.append(varint: flags)
        if let seen {
            writer.append(u64: UInt64(bitPattern: seen.lowerBound))
            writer.append(varint: UInt64(bitPattern: seen.upperBound &- seen.lowerBound))
        }
        for value in [window.start, window.floor, window.announced] {
            if let value { writer.append(varint: value) }
        }
        if window.missingCount != 0 { writer.append(varint: window.missingCount) }
        if window.keyID != 0 { writer.append(varint: UInt64(window.keyID)) }
    }

    private static func encode(ranges: [ClosedRange<UInt64>], into writer: inout ByteWriter) {
        writer.append(varint: UInt64(ranges.count))
        var least: UInt64 = 0
        for (index, range) in ranges.enumerated() {
            precondition(range.lowerBound >= least, "ranges are ascending and not adjacent")
            writer.append(varint: range.lowerBound - least)
            writer.append(varint: range.upperBound - range.lowerBound)
            if index + 1 < ranges.count { least = range.upperBound + 2 }
        }
    }
}

/// The parts of an entry.
extension SectionReader {
    fileprivate mutating func key() throws(FormatError) -> SenderKey {
        let raw = try u8("sender kind")
        guard let kind = SenderKind(rawValue: raw) else {
            throw .corrupt(
                "\(section): sender kind", at: start + reader.offset - 1, got: raw,
                expected: .atMost(SenderKind.unidentified.rawValue))
        }
        guard kind == .framed else {
            return SenderKey(
                kind: kind, sender: SenderID(rawValue: 0), epoch: SenderEpoch(rawValue: 0))
        }
        return SenderKey(
            kind: kind, sender: SenderID(rawValue: try u64("sender")),
            epoch: SenderEpoch(rawValue: try u64("epoch")))
    }

    fileprivate mutating func counts(_ part: String, into counts: inout [UInt64])
        throws(FormatError)
    {
        let mask = try varint(part)
        guard mask >> UInt64(counts.count) == 0 else { throw fault("\(part): mask", got: mask) }
        for index in 0..<counts.count where mask >> UInt64(index) & 1 != 0 {
            counts[index] = try varint(part)
            guard counts[index] != 0 else { throw fault("\(part): zero", got: 0, expected: 1) }
        }
    }

    /// - Returns: whether checks follow the ranges.
    fileprivate mutating func window(into entry: inout LedgerEntry) throws(FormatError) -> Bool {
        typealias Flags = LedgerCodec.Flags
        let flags = try varint("flags", max: 2 * Flags.checks - 1)
        let both = Flags.asksForAcks | Flags.asksForNone
        guard entry.key.kind == .framed || flags & ~Flags.seen == 0, flags & both != both else {
            throw fault("flags", got: UInt64(flags))
        }
        if flags & Flags.seen != 0 { entry.seen = try seen() }
        if flags & Flags.start != 0 {
            entry.window.start = try varint("start", max: Limits.sequenceMax + 1)
        }
        if flags & Flags.floor != 0 {
            entry.window.floor = try varint("floor", max: Limits.sequenceMax + 1)
        }
        if flags & Flags.announced != 0 {
            entry.window.announced = try varint("announced", max: Limits.sequenceMax + 1)
        }
        if flags & Flags.missing != 0 {
            entry.window.missingCount = try varint("missing count")
            guard entry.window.missingCount != 0 else {
                throw fault("missing count: zero", got: 0, expected: 1)
            }
        }
        if flags & Flags.key != 0 {
            entry.window.keyID = UInt16(try varint("key id", max: UInt64(UInt16.max)))
            guard flags & Flags.start != 0, entry.window.keyID != 0 else {
                throw fault("key id", got: flags)
            }
        }
        if flags & both != 0 { entry.window.asksForAcks = flags & Flags.asksForAcks != 0 }
        entry.window.isExpired = flags & Flags.expired != 0
        return flags & Flags.checks != 0
    }

    private mutating func seen() throws(FormatError) -> ClosedRange<Int64> {
        let first = try u64("time seen")
        let distance = try varint("time seen")
        let least = Int64(bitPattern: first)
        let last = least &+ Int64(bitPattern: distance)
        guard last >= least else { throw fault("time seen", got: distance) }
        return least...last
    }

    fileprivate mutating func checks(
        of ranges: [ClosedRange<UInt64>]
    ) throws(FormatError) -> [UInt16] {
        var count: UInt64 = 0
        for range in ranges {
            count = count.saturatingSum((range.upperBound - range.lowerBound).saturatingSum(1))
        }
        let left = UInt64(reader.remainingByteCount / LedgerCodec.checkByteCount)
        guard count > 0, count <= min(left, UInt64(Limits.blockCheckCountMax)) else {
            throw fault("check count", got: count)
        }
        var checks: [UInt16] = []
        checks.reserveCapacity(Int(count))
        for _ in 0..<count { checks.append(try u16("check")) }
        return checks
    }

    fileprivate mutating func ranges(countMax: Int) throws(FormatError) -> [ClosedRange<UInt64>] {
        let count = try self.count("range count", max: countMax, leastByteCount: 2)
        var ranges: [ClosedRange<UInt64>] = []
        ranges.reserveCapacity(count)
        var least: UInt64 = 0
        for index in 0..<count {
            let (start, far) = least.addingReportingOverflow(try varint("range start"))
            let (end, long) = start.addingReportingOverflow(try varint("range length"))
            if far || long { throw fault("range beyond 64 bits", got: start) }
            ranges.append(start...end)
            if index + 1 < count {
                let (next, last) = end.addingReportingOverflow(2)
                if last { throw fault("range beyond 64 bits", got: end) }
                least = next
            }
        }
        return ranges
    }
}
