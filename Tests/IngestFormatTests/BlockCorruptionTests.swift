import IngestFormat
import TestSupport
import Testing

@Suite struct BlockCorruptionTests {
    private typealias Header = BlockLayout.Header
    private typealias Section = BlockLayout.Section
    private let decoder = BlockDecoder()
    private let rows = BlockRows()

    private func refusal(
        _ bytes: [UInt8], at place: BlockPlace = .anywhere
    ) -> (Refusal, FormatFault)? {
        Refusal.of { () throws(FormatError) in
            _ = try decoder.decode(bytes.span.bytes, at: place, into: rows)
        }
    }

    @Test func `Every flipped bit of a block is found, by decoding and by checking alone`() {
        let good = BlockImage().bytes
        for bit in 0..<8 * good.count {
            var bytes = good
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            let decoded = refusal(bytes)
            #expect(decoded?.0 == .corrupt, "bit \(bit)")
            let checked = Refusal.of { () throws(FormatError) in
                _ = try decoder.check(bytes.span.bytes)
            }
            #expect(checked?.0 == .corrupt, "bit \(bit)")
        }
    }

    @Test func `A block cut at any byte is torn, and says how many bytes there should be`() {
        let good = BlockImage().bytes
        for count in 0..<good.count {
            let cut = refusal(Array(good[..<count]))
            #expect(cut?.0 == .torn, "\(count) bytes")
            #expect(cut?.1.got == UInt64(count))
        }
        #expect(refusal(good) == nil)
        #expect(refusal(good + [1, 2, 3]) == nil)
    }

    @Test func `Room that was never written is torn, not corrupt`() {
        #expect(refusal(Array(repeating: 0, count: 4096))?.0 == .torn)
        var bytes: [UInt8] = Array(repeating: 0, count: 4096)
        bytes[127] = 1
        #expect(refusal(bytes)?.0 == .corrupt)
    }

    @Test func `The header can be read where the sections are not there`() throws {
        let image = BlockImage()
        let end = Int(image[Header.headerByteCount])
        let (exact, short) = (Array(image.bytes[..<end]), Array(image.bytes[..<(end - 1)]))
        let header = try decoder.header(exact.span.bytes)
        #expect(header.byteCount == image.bytes.count)
        #expect(end <= BlockDecoder.headerByteCountMax)
        #expect(throws: FormatError.self) { try decoder.header(short.span.bytes) }
    }

    // MARK: Fields of the header, with checksums that are right

    struct Damage: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var refusal = Refusal.corrupt
        let make: @Sendable (inout BlockImage) -> Void

        init(
            _ what: String, _ refusal: Refusal = .corrupt,
            _ make: @escaping @Sendable (inout BlockImage) -> Void
        ) {
            testDescription = what
            self.refusal = refusal
            self.make = make
        }
    }

    /// Where the example was written, so that every field of its place is compared.
    private var place: BlockPlace {
        let context = BlockContent.example.context
        return BlockPlace(
            directory: context.directory, segment: context.segment,
            blockOrdinal: context.blockOrdinal, previousChecksum: context.previousChecksum)
    }

    static let headerDamages: [Damage] = [
        Damage("magic") { $0[Header.magic] ^= 0x20 },
        Damage("version 0") { $0[Header.version] = 0 },
        Damage("version 2", .newerFormat) { $0[Header.version] = 2 },
        Damage("version 65535", .newerFormat) { $0[Header.version] = 65_535 },
        Damage("header byte count 0") { $0[Header.headerByteCount] = 0 },
        Damage("header byte count + 8") { $0[Header.headerByteCount] += 8 },
        Damage("header byte count - 16") { $0[Header.headerByteCount] -= 16 },
        Damage("header byte count + 1") { $0[Header.headerByteCount] += 1 },
        Damage("header byte count 65528") { $0[Header.headerByteCount] = 65_528 },
        Damage("byte count + 8") {
            $0[Header.byteCount] += 8
            $0.bytes += Array(repeating: 0, count: 8)
        },
        Damage("byte count - 8") { $0[Header.byteCount] -= 8 },
        Damage("byte count + 1") { $0[Header.byteCount] += 1 },
        Damage("byte count 0") { $0[Header.byteCount] = 0 },
        Damage("byte count of 4 GiB") { $0[Header.byteCount] = 0xffff_fff8 },
        Damage("previous checksum") { $0[Header.previousChecksum] ^= 1 },
        Damage("segment", .notThisFile) { $0[Header.segment] += 1 },
        Damage("directory", .notThisFile) { $0[Header.directory] ^= 1 << 63 },
        Damage("block ordinal", .notThisFile) { $0[Header.blockOrdinal] -= 1 },
        Damage("row count + 1") { $0[Header.rowCount] += 1 },
        Damage("row count - 1") { $0[Header.rowCount] -= 1 },
        Damage("row count 0") { $0[Header.rowCount] = 0 },
        Damage("row count over its limit") { $0[Header.rowCount] = 65_537 },
        Damage("row count of 4 G") { $0[Header.rowCount] = 0xffff_ffff },
        Damage("min timestamp - 1") { $0[Header.minTimestamp] -= 1 },
        Damage("min timestamp + 1") { $0[Header.minTimestamp] += 1 },
        Damage("max timestamp - 1") { $0[Header.maxTimestamp] -= 1 },
        Damage("max timestamp + 1") { $0[Header.maxTimestamp] += 1 },
        Damage("min timestamp over max") { $0[Header.minTimestamp] = $0[Header.maxTimestamp] + 1 },
        Damage("max timestamp negative") { $0[Header.maxTimestamp] = 1 << 63 },
        Damage("first name 0") { $0[Header.firstName] = 0 },
        Damage("first name over its limit") { $0[Header.firstName] = UInt64(Limits.nameCountMax) },
        Damage("name count + 1") { $0[Header.nameCount] += 1 },
        Damage("name count - 1") { $0[Header.nameCount] -= 1 },
        Damage("name count over its limit") {
            $0[Header.nameCount] = UInt64(Limits.blockNameCountMax) + 1
        },
        Damage("first key over its limit") { $0[Header.firstKey] = UInt64(Limits.keyCountMax) },
        Damage("key count + 1, so that none is named") { $0[Header.keyCount] = 0 },
        Damage("key count over its limit") {
            $0[Header.keyCount] = UInt64(Limits.blockKeyCountMax) + 1
        },
        Damage("section count + 1") { $0[Header.sectionCount] += 1 },
        Damage("section count - 1") { $0[Header.sectionCount] -= 1 },
        Damage("section count 65535") { $0[Header.sectionCount] = 65_535 },
        Damage("section count - 1, with its entry") {
            $0[Header.sectionCount] -= 1
            $0[Header.headerByteCount] -= 16
        },
        Damage("commit count 1") { $0[Header.commitCount] = 1 },
        Damage("event hash count + 1") { $0[Header.eventHashCount] += 1 },
        Damage("event hash count - 1") { $0[Header.eventHashCount] -= 1 },
        Damage("event hash count over the rows") { $0[Header.eventHashCount] = 5 },
        Damage("session count") { $0[Header.sessionCount] = 1 },
        Damage("session count + 1") { $0[Header.sessionCount] += 1 },
        Damage("session count over the rows") { $0[Header.sessionCount] = 5 },
        Damage("measured count + 1") { $0[Header.measuredCount] += 1 },
        Damage("measured count 0") { $0[Header.measuredCount] = 0 },
        Damage("money count + 1") { $0[Header.moneyCount] += 1 },
        Damage("money count 0") { $0[Header.moneyCount] = 0 },
        Damage("ledger entry count + 1") { $0[Header.ledgerEntryCount] += 1 },
        Damage("ledger entry count 0") { $0[Header.ledgerEntryCount] = 0 },
        Damage("ledger entry count over its limit") {
            $0[Header.ledgerEntryCount] = UInt64(Limits.blockSenderCountMax) + 1
        },
        Damage("last checksum") { $0[Header.lastChecksum] = 1 },
        Damage("last admission time") { $0[Header.lastAdmissionTime] = 1 << 63 },
        Damage("reward hash count") { $0[Header.rewardHashCount] = 1 },
        Damage("reward hash count over the rows") { $0[Header.rewardHashCount] = 5 },
    ]

    @Test(arguments: headerDamages)
    func `A damaged header with right checksums is refused`(damage: Damage) {
        var image = BlockImage()
        damage.make(&image)
        image.fixHeaderChecksum()
        let found = refusal(image.bytes, at: place)
        #expect(found?.0 == damage.refusal, "\(String(describing: found))")
    }

    static let rewrittenDamages: [Damage] = [
        Damage("commit count + 1") { $0[Header.commitCount] += 1 },
        Damage("commit count - 1") { $0[Header.commitCount] -= 1 },
        Damage("commit count 0") { $0[Header.commitCount] = 0 },
        Damage("admission time") { $0[Header.admissionTime] += 1 },
        Damage("policy version") { $0[Header.policyVersion] += 1 },
        Damage("zone version") { $0[Header.zoneVersion] += 1 },
        Damage("last admission time") { $0[Header.lastAdmissionTime] += 1 },
        Damage("row count + 1") { $0[Header.rowCount] += 1 },
        Damage("byte count of a commit") {
            $0[Header.byteCount] = 4096
            $0.bytes += Array(repeating: 0, count: 4096 - $0.bytes.count)
        },
        Damage("rows of the commits") { $0[.commitRows] = $0[.commitRows].map { $0 ^ 1 }[...] },
    ]

    @Test(arguments: rewrittenDamages)
    func `A damaged header of a rewritten block is refused`(damage: Damage) {
        var image = BlockImage(.rewritten)
        #expect(refusal(image.bytes, at: place) == nil)
        damage.make(&image)
        image.fixChecksums()
        #expect(refusal(image.bytes, at: place)?.0 == damage.refusal)
    }

    @Test func `Every field of the header is damaged above, or only its checksum can vouch for it`()
    {
        let untold: Set = [
            Header.headerChecksum, Header.commitEpoch, Header.admissionTime, Header.shard,
            Header.policyVersion, Header.zoneVersion,
        ]
        for field in Header.fields where !untold.contains(field) {
            #expect(
                Self.headerDamages.contains { $0.testDescription.hasPrefix(field.name) },
                "\(field.name)")
        }
    }

    // MARK: Entries of the section table

    static let entryDamages: [Damage] = [
        Damage("an unknown kind") { $0[.spend, Section.kind] = 99 },
        Damage("the reserved kind of sessions") { $0[.visible, Section.kind] = 24 },
        Damage("the reserved kind of windows") { $0[.ledger, Section.kind] = 5 },
        Damage("a kind twice") { $0[.day, Section.kind] = 18 },
        Damage("kinds in another order") {
            $0[.revenue, Section.kind] = 99
            $0[.spend, Section.kind] = 27
            $0[BlockSectionKind.revenue, Section.kind] = 28
        },
        Damage("an unknown form") { $0[.key, Section.encoding] = 5 },
        Damage("raw for a column") { $0[.timestamp, Section.encoding] = 0 },
        Damage("another form") { $0[.timestamp, Section.encoding] = 3 },
        Damage("an exponent of 7") { $0[.timestamp, Section.encoding] |= 7 << 4 },
        Damage("another exponent") { $0[.timestamp, Section.encoding] ^= 1 << 4 },
        Damage("an exponent for one value") { $0[.day, Section.encoding] |= 1 << 4 },
        Damage("compressed that is not") { $0[.timestamp, Section.encoding] |= 0x80 },
        Damage("packed for raw hashes") { $0[.eventHash, Section.encoding] = 2 },
        Damage("compressed hashes") { $0[.eventHash, Section.encoding] = 0x80 },
        Damage("a width less") { $0[.timestamp, Section.parameter] -= 1 },
        Damage("a width more") { $0[.timestamp, Section.parameter] += 1 },
        Damage("a width of 0") { $0[.timestamp, Section.parameter] = 0 },
        Damage("a width of 65") { $0[.timestamp, Section.parameter] = 65 },
        Damage("a width of 255") { $0[.timestamp, Section.parameter] = 255 },
        Damage("a parameter for one value") { $0[.day, Section.parameter] = 1 },
        Damage("a parameter for names") { $0[.names, Section.parameter] = 1 },
        Damage("raw byte count + 1") { $0[.timestamp, Section.rawByteCount] += 1 },
        Damage("raw byte count of 4 GiB") { $0[.timestamp, Section.rawByteCount] = 0xffff_ffff },
        Damage("byte count + 1") { $0[.timestamp, Section.byteCount] += 1 },
        Damage("byte count 0") { $0[.timestamp, Section.byteCount] = 0 },
        Damage("byte count of 4 GiB") { $0[.timestamp, Section.byteCount] = 0xffff_ffff },
        Damage("a byte moved to the next section") {
            $0[.timestamp, Section.byteCount] -= 1
            $0[.timestamp, Section.rawByteCount] -= 1
            $0[.day, Section.byteCount] += 1
            $0[.day, Section.rawByteCount] += 1
        },
        Damage("padding") { $0.bytes[$0.bytes.count - 1] = 1 },
    ]

    @Test(arguments: entryDamages)
    func `A damaged section table with right checksums is refused`(damage: Damage) {
        var image = BlockImage()
        damage.make(&image)
        image.fixChecksums()
        #expect(refusal(image.bytes)?.0 == .corrupt)
    }

    @Test func `The example's last byte is padding, or the test of it would be none`() {
        #expect(BlockImage().range(.spend)!.upperBound < BlockImage().bytes.count)
    }

    // MARK: Values

    static let valueDamages: [Damage] = [
        Damage("an empty name") { $0[.names][$0[.names].startIndex] = 0 },
        Damage("a name too long") { $0[.names][$0[.names].startIndex] = 129 },
        Damage("lengths that do not add up") { $0[.names][$0[.names].startIndex] += 1 },
        Damage("a key of a reward to come") { $0.setBase(.keyRewards, 4) },
        Damage("a key of no reward") { $0.setBase(.keyRewards, 0) },
        Damage("a key of a business to come") { $0.setBase(.keyBusinesses, .max) },
        Damage("an unknown kind of sender") { $0[.ledger][$0[.ledger].startIndex] = 4 },
        Damage("a key to come") { $0.setBase(.key, 1) },
        Damage("a negative key") { $0.setBase(.key, -1) },
        Damage("times before the least") { $0.setBase(.timestamp, 0) },
        Damage("a day beyond 32 bits") { $0.setBase(.day, 1 << 31) },
        Damage("a day later than any time") { $0.setBase(.day, 106_653) },
        Damage("a day earlier than any time") { $0.setBase(.day, -2) },
        Damage("a platform to come") { $0.setBase(.platform, 4) },
        Damage("a visible share over 100 %") { $0.setBase(.visible, 1_000_001) },
        Damage("a duration over 32 bits") { $0.setBase(.duration, 1 << 32) },
        Damage("negative money") { $0.setBase(.revenue, -1) },
        Damage("money over its limit") { $0.setBase(.revenue, Limits.moneyMicrosMax + 1) },
    ]

    @Test(arguments: valueDamages)
    func `A value out of its range is refused, with right checksums`(damage: Damage) {
        var image = BlockImage()
        damage.make(&image)
        image.fixChecksums()
        #expect(refusal(image.bytes)?.0 == .corrupt)
    }

    @Test func `An attribution column of nothing but none is refused`() {
        var content = BlockContent.example
        for i in content.rows.indices { content.rows[i].platform = 3 }
        var image = BlockImage(content)
        #expect(refusal(image.bytes) == nil)
        image.setBase(.platform, 0)
        image.fixChecksums()
        #expect(refusal(image.bytes)?.0 == .corrupt)
    }

    @Test(arguments: [0x0000, 0x0031, 0x0035, 0x003d, 0x1801] as [UInt16])
    func `Attributes that no row may have are refused`(bits: UInt16) {
        #expect(!RowAttributes(rawValue: bits).isValid)
        var content = BlockContent()
        content.context.firstKey = KeyOrdinal(rawValue: 1)
        content.rows = [Row(), Row()]
        var image = BlockImage(content)
        image.setBase(.attributes, Int64(bits))
        image.fixChecksums()
        #expect(refusal(image.bytes)?.0 == .corrupt)
    }

    @Test func `An error names field, place, what was there and what was expected`() throws {
        var image = BlockImage()
        image[Header.rowCount] = 70_000
        image.fixHeaderChecksum()
        let found = try #require(refusal(image.bytes))
        #expect(found.1 == FormatFault("row count", at: 36, got: 70_000, expected: .atMost(65_536)))
        #expect(
            FormatError.corrupt(found.1).moved(by: 64).description
                == "corrupt: row count at offset 100: got 0x11170, expected at most 0x10000")
    }
}

extension BlockImage {
    /// Overwrites the base of a column.
    mutating func setBase(_ kind: BlockSectionKind, _ value: Int64) {
        if let place = range(kind)?.lowerBound { bytes.put(value, at: place) }
    }
}
