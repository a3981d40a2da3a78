import IngestFormat
import Testing

struct NamesRunTests {
    private typealias Field = NamesLayout.Header

    private static func read(_ bytes: [UInt8]) throws { _ = try NamesRun.decode(bytes) }

    private static func names(_ run: NamesRun) -> [String] {
        run.names.map { String(decoding: run.name(NameOrdinal(rawValue: $0)), as: UTF8.self) }
    }

    private static func keys(_ run: NamesRun) -> [RewardKey?] {
        run.keys.map { run.key(KeyOrdinal(rawValue: $0)) }
    }

    @Test func `names and keys come back, and what was lost is a gap`() throws {
        let (bytes, entry) = ManifestExample.namesRun()
        let run = try NamesRun.decode(
            bytes, directory: ManifestExample.directory, fileNumber: FileNumber(rawValue: 34))
        #expect(Self.names(run) == ManifestExample.names)
        #expect(Self.keys(run) == ManifestExample.keys)
        #expect(run.header.entry == entry)
        #expect(entry.byteCount == UInt64(bytes.count))
        #expect(entry.names == 1..<7)
        #expect(entry.keys == 0..<3)
        #expect(NamesRun.lostText(2) == "(lost:2)")
    }

    @Test(arguments: [(0, 0), (1, 0), (0, 1), (1_024, 1_024), (1_025, 3_000), (5_000, 10)])
    func `runs of every size come back`(nameCount: Int, keyCount: Int) throws {
        var random = SeededRandom(seed: UInt64(nameCount))
        let names = (0..<nameCount).map { place in
            place % 50 == 7
                ? []
                : (0..<Int.random(in: 1...128, using: &random)).map { _ in
                    UInt8.random(in: 97...100, using: &random)
                }
        }
        let keys = (0..<keyCount).map { place -> RewardKey? in
            place % 30 == 5
                ? nil
                : RewardKey(
                    reward: NameOrdinal(rawValue: UInt32.random(in: 1...9_000, using: &random)),
                    business: NameOrdinal(rawValue: UInt32.random(in: 1...90, using: &random)))
        }
        var encoder = NamesRunEncoder(
            fileNumber: FileNumber(rawValue: 1), directory: ManifestExample.directory,
            firstName: NameOrdinal(rawValue: 700), firstKey: KeyOrdinal(rawValue: 30),
            generation: Generation(rawValue: 1), createdAt: 0)
        for name in names { encoder.append(name: name[...]) }
        for key in keys { encoder.append(key: key) }
        let (bytes, entry) = encoder.finish()
        let run = try NamesRun.decode(bytes)
        #expect(entry.names == 700..<700 + UInt32(nameCount))
        #expect(entry.keys == 30..<30 + UInt32(keyCount))
        #expect(run.names.map { Array(run.name(NameOrdinal(rawValue: $0))) } == names)
        #expect(Self.keys(run) == keys)
    }

    @Test func `two runs that touch become one that is as if it had been written at once`() throws {
        func encoder(_ name: UInt32, _ key: UInt32) -> NamesRunEncoder {
            NamesRunEncoder(
                fileNumber: FileNumber(rawValue: 5), directory: ManifestExample.directory,
                firstName: NameOrdinal(rawValue: name), firstKey: KeyOrdinal(rawValue: key),
                generation: Generation(rawValue: 1), createdAt: 0)
        }
        func fill(_ encoder: inout NamesRunEncoder, _ range: Range<Int>) {
            for i in range { encoder.append(name: Array("name-\(i)".utf8)[...]) }
            for i in range where i % 2 == 0 {
                encoder.append(key: ManifestExample.keys[i % 3])
            }
        }
        var whole = encoder(1, 0)
        fill(&whole, 0..<2_000)
        fill(&whole, 2_000..<3_000)
        var first = encoder(1, 0)
        fill(&first, 0..<2_000)
        var second = encoder(2_001, 1_000)
        fill(&second, 2_000..<3_000)
        var joined = encoder(1, 0)
        joined.append(contentsOf: try NamesRun.decode(first.finish().bytes))
        joined.append(contentsOf: try NamesRun.decode(second.finish().bytes))
        #expect(joined.finish().bytes == whole.finish().bytes)
    }

    @Test func `every flipped bit and every cut is seen`() {
        let (bytes, _) = ManifestExample.namesRun()
        #expect(Damage.unseenFlips(bytes, Self.read) == [])
        #expect(Damage.unseenCuts(bytes, Self.read) == [])
        #expect(Damage.error { try Self.read(bytes + [0]) }?.summary == "corrupt file byte count")
    }

    @Test(arguments: [
        (Field.magic, 1, "notThisFile magic"),
        (Field.version, 2, "newerFormat version"),
        (Field.directory, 1, "notThisFile directory"),
        (Field.fileNumber, 1, "notThisFile file number"),
        (Field.firstName, 0, "corrupt first name"),
        (Field.firstName, 8, "corrupt first name"),
        (Field.nextName, UInt64(UInt32.max), "corrupt next name"),
        (Field.nextName, 2_000, "corrupt file byte count"),
        (Field.nextKey, UInt64(UInt32.max), "corrupt next key"),
        (Field.firstKey, 4, "corrupt first key"),
        (Field.pageIndexOffset, 100, "corrupt page index offset"),
        (Field.fileByteCount, 100, "corrupt file byte count"),
        (Field.pageIndexChecksum, 100, "corrupt page index checksum"),
        (Field.reserved, 1, "corrupt reserved"),
        (Field.reservedEnd, 1, "corrupt reserved end"),
        // A name less than its page holds.
        (Field.nextName, 6, "corrupt name bytes"),
        (Field.nextKey, 2, "corrupt column byte count"),
    ])
    func `a header field that cannot be is refused although the checksum fits`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let bytes = ManifestExample.namesRun().bytes.with(field, value).sealed(128)
        let error = Damage.error {
            _ = try NamesRun.decode(
                bytes, directory: ManifestExample.directory,
                fileNumber: FileNumber(rawValue: 34))
        }
        #expect(error?.summary == expected)
    }

    /// The example with its second page (the keys) or an index entry changed, all checksums set right.
    private static func rebuilt(
        page damage: (inout [UInt8]) -> Void, entry: ([UInt8]) -> [UInt8] = { $0 }
    ) -> [UInt8] {
        let (bytes, _) = ManifestExample.namesRun()
        let index = bytes.count - 32
        let namesEnd = 128 + Int(bytes[index + 8])
        var page = Array(bytes[namesEnd..<index])
        damage(&page)
        var second = Array(bytes[(index + 16)...])
        second = second.with(NamesLayout.PageEntry.rawByteCount, UInt64(page.count))
            .with(NamesLayout.PageEntry.storedByteCount, UInt64(page.count))
            .with(NamesLayout.PageEntry.checksum, UInt64(Checksum.crc32c(page)))
        let entries = Array(bytes[index..<index + 16]) + entry(second)
        let body = Array(bytes[128..<namesEnd]) + page
        let header = Array(bytes[..<128])
            .with(Field.pageIndexOffset, UInt64(128 + body.count))
            .with(Field.fileByteCount, UInt64(128 + body.count + entries.count))
            .with(Field.pageIndexChecksum, UInt64(Checksum.crc32c(entries)))
            .sealed(128)
        return header + body + entries
    }

    @Test func `a key of one name, or of a name that cannot be, is refused`() throws {
        try Self.read(Self.rebuilt(page: { _ in }))
        // Two columns of three values, by hand: rewards then businesses.
        let pages: [([UInt8], String?)] = [
            ([0, 1, 0, 3], nil),
            ([0, 0, 0, 3], "corrupt key"),
            ([0, 1, 0, 0], "corrupt key"),
            ([0, 0x81, 0x80, 0x80, 0x08, 0, 3], "corrupt key"),
            ([0, 1, 0, 3, 0], "corrupt column byte count"),
            ([0, 1], "torn column form"),
        ]
        for (page, expected) in pages {
            let bytes = Self.rebuilt(page: { $0 = page })
            #expect(Damage.error { try Self.read(bytes) }?.summary == expected)
        }
    }

    @Test(arguments: [
        (NamesLayout.PageEntry.encoding, 2, "corrupt encoding"),
        (NamesLayout.PageEntry.reserved, 1, "corrupt reserved"),
        (NamesLayout.PageEntry.rawByteCount, 1 << 30, "corrupt raw byte count"),
        (NamesLayout.PageEntry.rawByteCount, 50, "corrupt raw byte count"),
        (NamesLayout.PageEntry.storedByteCount, 1, "corrupt page index offset"),
        (NamesLayout.PageEntry.storedByteCount, 1 << 30, "corrupt stored byte count"),
        (NamesLayout.PageEntry.checksum, 1, "corrupt page checksum"),
        (NamesLayout.PageEntry.encoding, 1, "corrupt LZ4 block"),
    ])
    func `an index entry that cannot be is refused`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let bytes = Self.rebuilt(page: { _ in }, entry: { $0.with(field, value) })
        #expect(Damage.error { try Self.read(bytes) }?.summary == expected)
    }
}
