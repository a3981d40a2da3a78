import IngestFormat
import TestSupport
import Testing

private let field = NamesRun.Header.layout

struct NamesRunTests {
    private static func read(_ bytes: [UInt8]) throws {
        _ = try DecodedNames(bytes)
    }

    private static func encoder(_ name: UInt32, _ key: UInt32) -> NamesRunEncoder {
        NamesRunEncoder(
            fileNumber: FileNumber(rawValue: 5), directory: ManifestExample.directory,
            firstName: NameOrdinal(rawValue: name), firstKey: KeyOrdinal(rawValue: key),
            generation: Generation(rawValue: 1), createdAt: 0)
    }

    @Test func `names and keys come back, and what was lost is a gap`() throws {
        let (bytes, entry) = ManifestExample.namesRun()
        let run = try DecodedNames(
            bytes, directory: ManifestExample.directory, fileNumber: FileNumber(rawValue: 34))
        #expect(run.names.map { String(decoding: $0, as: UTF8.self) } == ManifestExample.names)
        #expect(run.keys == ManifestExample.keys)
        #expect(run.header.entry == entry)
        #expect(entry.byteCount == UInt64(bytes.count))
        #expect(entry.names == 1..<7)
        #expect(entry.keys == 0..<3)
    }

    @Test(arguments: [
        (0, 0), (1, 0), (0, 1), (32, 1), (255, 2), (256, 3), (257, 1_023), (1_024, 1_024),
        (1_025, 3_000), (5_000, 10),
    ])
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
        var encoder = Self.encoder(700, 30)
        for name in names { encoder.append(name: name[...]) }
        for key in keys { encoder.append(key: key) }
        let (bytes, entry) = encoder.finish()
        let run = try DecodedNames(bytes)
        #expect(entry.names == 700..<700 + UInt32(nameCount))
        #expect(entry.keys == 30..<30 + UInt32(keyCount))
        #expect(run.names == names)
        #expect(run.keys == keys)
    }

    @Test func `names are in the order of their bytes, whatever these are`() throws {
        let names: [[UInt8]] = [
            [255], [0], [0, 0], [], [97], [97, 0], [97, 0, 0, 0, 0, 0, 0, 0, 0], [97, 1], [],
            Array("reward-0001".utf8), Array("reward-00011".utf8), Array("reward-0000".utf8),
            [UInt8](repeating: 120, count: 128), [UInt8](repeating: 120, count: 127),
            [UInt8](repeating: 120, count: 127) + [0], [97, 0, 0, 0, 0, 0, 0, 0],
        ]
        var fresh = FreshNames(
            firstName: NameOrdinal(rawValue: 1), firstKey: KeyOrdinal(rawValue: 0))
        for name in names { fresh.append(name: name[...]) }
        fresh.sort()
        let batch = NameBatch()
        var place = 0
        let hasNames = fresh.readNames(from: &place, into: batch)
        #expect(hasNames)
        let expected = names.enumerated().sorted { a, b in
            a.element == b.element
                ? a.offset < b.offset : a.element.lexicographicallyPrecedes(b.element)
        }
        #expect((0..<batch.count).map { batch.name($0) } == expected.map(\.element))
        #expect(
            (0..<batch.count).map { batch.ordinal($0).rawValue }
                == expected.map { UInt32($0.offset + 1) })
        let hasMore = fresh.readNames(from: &place, into: batch)
        #expect(!hasMore)
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func `names of blocks are taken where they belong, others where none has them`(
        seed: UInt64
    ) {
        var random = SeededRandom(seed: seed)
        // Blocks from before the range to behind it, with gaps of names that were lost; some have keys alone.
        var blocks: [NamesOfBlock] = []
        var expected: [UInt32: [UInt8]] = [:]
        let range = 100..<200 as Range<UInt32>
        var first = 80 + UInt32.random(in: 0..<40, using: &random)
        while first < 220 {
            var names = NewNames()
            for ordinal in first..<first + UInt32.random(in: 0..<9, using: &random) {
                let name = Array("block-\(ordinal)".utf8)
                name.withUnsafeBytes { names.append($0.bytes) }
                expected[ordinal] = name
            }
            blocks.append(
                NamesOfBlock(
                    firstName: NameOrdinal(rawValue: first), names: names,
                    firstKey: KeyOrdinal(rawValue: 0), keys: []))
            first += UInt32(names.count) + [0, 0, 3].randomElement(using: &random)!
        }
        let fresh = FreshNames(of: blocks, names: range, keys: 0..<0) {
            // Every tenth is in none.
            $0 % 10 == 0 ? [] : Array("lost".utf8)[...]
        }
        #expect(fresh.names == range)
        let batch = NameBatch()
        var (place, found) = (0, [UInt32: [UInt8]]())
        while fresh.readNames(from: &place, into: batch) {
            for place in 0..<batch.count {
                found[batch.ordinal(place).rawValue] = Array(batch.name(place))
            }
        }
        for ordinal in range {
            let other = ordinal % 10 == 0 ? [] : Array("lost".utf8)
            #expect(found[ordinal] == expected[ordinal] ?? other)
        }
    }

    @Test func `a name and its key take at most 48 bytes`() {
        var random = SeededRandom(seed: 48)
        var encoder = Self.encoder(1, 0)
        let count: UInt32 = 100_000
        for i in 0..<count {
            // Of 40 bytes that have nothing in common.
            encoder.append(
                name: (0..<40).map { _ in UInt8.random(in: 97...122, using: &random) }[...])
            encoder.append(
                key: RewardKey(
                    reward: NameOrdinal(rawValue: 1 + i),
                    business: NameOrdinal(rawValue: 1 + i % 97)
                ))
        }
        #expect(encoder.finish().bytes.count <= 48 * Int(count))
    }

    @Test func `every flipped bit and every cut is seen`() {
        let (bytes, _) = ManifestExample.namesRun()
        #expect(Damage.unseenFlips(bytes, Self.read) == [])
        #expect(Damage.unseenCuts(bytes, Self.read) == [])
        #expect(Damage.error { try Self.read(bytes + [0]) }?.summary == "corrupt file byte count")
    }

    @Test(arguments: [
        (field.magic, 1, "notThisFile magic"),
        (field.version, 2, "newerFormat version"),
        (field.directory, 1, "notThisFile directory"),
        (field.fileNumber, 1, "notThisFile file number"),
        (field.firstName, 0, "corrupt first name"),
        (field.firstName, 8, "corrupt first name"),
        (field.nextName, UInt64(UInt32.max), "corrupt next name"),
        (field.nextName, 2_000, "corrupt file byte count"),
        (field.nextKey, UInt64(UInt32.max), "corrupt next key"),
        (field.firstKey, 4, "corrupt first key"),
        (field.firstKey, 1, "corrupt first"),
        (field.pageIndexOffset, 100, "corrupt page index offset"),
        (field.fileByteCount, 100, "corrupt file byte count"),
        (field.pageIndexChecksum, 100, "corrupt page index checksum"),
        (field.reserved, 1, "corrupt reserved"),
        (field.reservedEnd, 1, "corrupt reserved end"),
        // A name and a key less than their pages hold.
        (field.nextName, 6, "corrupt column values"),
        (field.nextKey, 2, "corrupt page byte count"),
    ])
    func `a header field that cannot be is refused although the checksum fits`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let bytes = ManifestExample.namesRun().bytes.with(field, value).sealed(128)
        let error = Damage.error {
            _ = try DecodedNames(
                bytes, directory: ManifestExample.directory,
                fileNumber: FileNumber(rawValue: 34))
        }
        #expect(error?.summary == expected)
    }

    @Test(arguments: NamesPageKind.allCases)
    func `a page that is not what the others say is refused although the checksums fit`(
        kind: NamesPageKind
    ) throws {
        // The example's pages: names are (lost 2), business-1, iOS, reward-1, reward-2, é.
        let cases: [(NamesPageKind, ([UInt8]) -> [UInt8], String)] = [
            (.names, { $0 + [1] }, "corrupt name bytes"),
            (.names, { $0.dropLast() }, "torn name bytes"),
            // The columns: ordinals in 5 bytes, shared 0, 0, 0, 0, 7, 0 from 5 on, rests from 10 on.
            (.names, { $0.setting(6, to: 1) }, "corrupt shared byte count"),
            (.names, { $0[..<11] + [200, 1] + $0[12...] }, "corrupt name byte count"),
            (.names, { $0.setting(1, to: 0) }, "corrupt name ordinal"),
            (.names, { $0.setting($0.count - 2, to: 0) }, "corrupt name order"),
            (.names, { $0.setting(0, to: 33) }, "corrupt column form"),
            (.names, { _ in [0x80, 0, 1, 1, 0, 0, 1] }, "corrupt column form"),
            (.names, { _ in [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x10] }, "corrupt column base"),
            (.names, { _ in [1, 0, 0, 0] }, "torn column base"),
            (.names, { Array($0[..<3]) }, "torn column values"),
            (.names, { Array($0[..<5]) }, "torn column form"),
            (.ranks, { $0.setting(2, to: $0[2] ^ 1) }, "corrupt rank"),
            (.ranks, { $0.setting(1, to: 9) }, "corrupt pair"),
            (
                .ranks, { $0.setting($0.count - 1, to: $0[$0.count - 1] | 0x80) },
                "corrupt column values"
            ),
            (.ranks, { $0 + [0] }, "corrupt page byte count"),
            // A key of one name, and of a name that cannot be.
            (.keys, { _ in Self.columns([1, 0, 4], [0, 0, 3]) }, "corrupt key"),
            (.keys, { _ in Self.columns([1, 0, 4], [3, 3, 3]) }, "corrupt key"),
            (.keys, { _ in Self.columns([1, 0, 1 << 30], [3, 0, 3]) }, "corrupt key"),
            (.rewards, { _ in Self.columns([0, 4, 1], [1, 2, 0]) }, "corrupt pair order"),
            (.rewards, { _ in Self.columns([0, 1, 4], [1, 0, 3]) }, "corrupt pair"),
            (.rewards, { _ in Self.columns([0, 1, 3], [1, 0, 2]) }, "corrupt reward"),
            (.rewards, { _ in Self.columns([0, 1, 4], [1, 0, 0]) }, "corrupt reward"),
        ]
        #expect(NamesPageKind.allCases.count == 4)
        try Self.read(NamesImage(ManifestExample.namesRun().bytes).bytes)
        for (place, (_, damage, expected)) in cases.filter({ $0.0 == kind }).enumerated() {
            var image = NamesImage(ManifestExample.namesRun().bytes)
            image.pages[kind.rawValue] = damage(image.pages[kind.rawValue])
            let error = Damage.error { try Self.read(image.bytes) }
            #expect(error?.summary == expected, "\(kind) \(place)")
        }
    }

    @Test func `an index entry that cannot be is refused although the checksums fit`() {
        typealias Entry = NamesLayout.PageEntry
        let cases: [(Int, FormatField, UInt64, String)] = [
            (0, Entry.pageByteCount, 1 << 30, "corrupt page byte count"),
            (3, Entry.pageByteCount, 1, "corrupt page byte count"),
            (0, Entry.checksum, 1, "corrupt page checksum"),
            (0, Entry.first, 1, "corrupt first names"),
            (0, Entry.first, 129, "corrupt first"),
            (1, Entry.first, 2, "corrupt first"),
            (2, Entry.first, 1, "corrupt first"),
            (3, Entry.first, 1, "corrupt first"),
        ]
        for (page, field, value, expected) in cases {
            var image = NamesImage(ManifestExample.namesRun().bytes)
            image.alterEntry = (page, field, value)
            #expect(Damage.error { try Self.read(image.bytes) }?.summary == expected, "\(page)")
        }
    }

    /// Two columns of 32-bit values, made by hand.
    private static func columns(_ first: [UInt32], _ second: [UInt32]) -> [UInt8] {
        [first, second].flatMap { values in
            [32, 0]
                + values.flatMap { value in
                    (0..<4).map { UInt8(truncatingIfNeeded: value >> UInt32(8 * $0)) }
                }
        }
    }
}

/// A names run of one page a kind, taken apart and put together again with all checksums set right.
private struct NamesImage {
    private let header: [UInt8]
    private let firsts: [UInt64]
    private let firstNames: [UInt8]
    var pages: [[UInt8]] = []
    var alterEntry: (page: Int, field: FormatField, value: UInt64)?

    init(_ file: [UInt8]) {
        typealias Entry = NamesLayout.PageEntry
        header = Array(file[..<128])
        let count = NamesPageKind.allCases.count
        var entry = Int(header.number(field.pageIndexOffset))
        var offset = 128
        var firsts: [UInt64] = []
        for _ in 0..<count {
            let image = Array(file[entry..<entry + Entry.byteCount])
            let end = offset + Int(image.number(Entry.pageByteCount))
            pages.append(Array(file[offset..<end]))
            firsts.append(image.number(Entry.first))
            offset = end
            entry += Entry.byteCount
        }
        self.firsts = firsts
        firstNames = Array(file[entry...])
    }

    var bytes: [UInt8] {
        typealias Entry = NamesLayout.PageEntry
        var index: [UInt8] = []
        for (place, page) in pages.enumerated() {
            var entry = [UInt8](repeating: 0, count: Entry.byteCount)
                .with(Entry.pageByteCount, UInt64(page.count))
                .with(Entry.checksum, UInt64(Checksum.crc32c(page)))
                .with(Entry.first, firsts[place])
            if let alterEntry, alterEntry.page == place {
                entry = entry.with(alterEntry.field, alterEntry.value)
            }
            index += entry
        }
        index += firstNames
        let body = pages.flatMap { $0 }
        let head =
            header
            .with(field.pageIndexOffset, UInt64(128 + body.count))
            .with(field.fileByteCount, UInt64(128 + body.count + index.count))
            .with(field.pageIndexChecksum, UInt64(Checksum.crc32c(index)))
            .sealed(128)
        return head + body + index
    }
}

extension [UInt8] {
    fileprivate func setting(_ place: Int, to value: UInt8) -> [UInt8] {
        var copy = self
        copy[place] = value
        return copy
    }
}
