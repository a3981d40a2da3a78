import TestSupport
import Testing

@testable import IngestFormat

struct CounterTableTests {
    /// Tables of many shapes: one row, full pages, popular keys, rare counters, the largest values.
    static func model(_ rowCount: Int, hasDay: Bool, seed: UInt64) -> CounterModel {
        var random = SeededRandom(seed: seed)
        var model = CounterModel()
        var key = UInt32.random(in: 0...5, using: &random)
        var day: Int32 = hasDay ? -3 : 0
        for _ in 0..<rowCount {
            let place = CounterModel.Place(key: key, day: day)
            model.add(counters(&random), place)
            if hasDay && Bool.random(using: &random) {
                day += Int32.random(in: 1...40, using: &random)
            } else {
                key += UInt32.random(in: 1...3, using: &random)
                day = hasDay ? Int32.random(in: -9...9, using: &random) : 0
            }
        }
        return model
    }

    private static func counters(_ random: inout SeededRandom) -> [UInt64] {
        CounterColumn.allCases.map { column in
            switch Int.random(in: 0..<40, using: &random) {
            case 0: UInt64.random(in: 0...UInt64.max, using: &random)
            case 1...3: UInt64.random(in: 0...1 << 20, using: &random)
            case 4...20: column.rawValue < 6 ? UInt64.random(in: 0...90, using: &random) : 0
            default: 0
            }
        }
    }

    @Test(arguments: [0, 1, 2, 7, 1_023, 1_024, 1_025, 3_000], [true, false])
    func `a table comes back as it was written`(rowCount: Int, hasDay: Bool) throws {
        let model = Self.model(rowCount, hasDay: hasDay, seed: UInt64(rowCount))
        let table = model.table(hasDay: hasDay)
        #expect(table.rowCount == rowCount)
        #expect(table.index.entries.count == (rowCount + 1_023) / 1_024)
        #expect(try CounterModel(table.makeCursor()) == model)
        let index = try CounterPageIndex.decode(
            table.index.encode(), pagesByteCount: table.pages.count, rowCount: rowCount)
        #expect(index == table.index)
    }

    @Test(arguments: [1, 3] as [UInt32], [Int32.min, 0, 20_000])
    func `rows of one day come back, whether keys are left out or not`(step: UInt32, day: Int32)
        throws
    {
        var model = CounterModel()
        for key in 0..<2_500 as Range<UInt32> {
            // Now and then another step, so that those of a page are not all the same.
            let other = step > 1 && key % 700 == 9 ? 1 as UInt32 : 0
            model.add(UInt64(key) + 1, .clicks, .init(key: 7 + key * step + other, day: day))
        }
        let table = model.table(hasDay: true)
        #expect(try CounterModel(table.makeCursor()) == model)
        let point = CounterPoint(key: 7 + 1_500 * step)
        #expect(try table.rows(of: point).map(\.day) == [day])
    }

    @Test(
        arguments: [
            [0], [.max], [0, .max], [5, 5, 5], [.max, .max], [1, 2, 3, 1 << 63],
            [1 << 63, 0, 0, 0, 0, 0, 0, 0, 0, 0], Array(0...63).map { 1 << $0 },
            Array(repeating: 7, count: 1_000) + [1 << 40],
            (0..<1_024).map { $0 % 97 == 0 ? 1 << ($0 % 60) : $0 % 8 },
        ] as [[UInt64]])
    func `a column of any values comes back`(values: [UInt64]) throws {
        var model = CounterModel()
        for (i, value) in values.enumerated() {
            model.add(value, .revenueMicros, .init(key: UInt32(i) * 77, day: 0))
        }
        #expect(try CounterModel(model.table(hasDay: false).makeCursor()) == model)
    }

    @Test func `a constant column costs two bytes, a rare value little more, zeros nothing`() throws
    {
        var model = CounterModel()
        for key in 0..<UInt32(1_024) { model.add(1, .clicks, .init(key: key, day: 0)) }
        // Dense keys, the ids, one column.
        #expect(model.table(hasDay: false).pages.count == 2 + 4 + 2)
        model.add(1_000_000, .revenueMicros, .init(key: 500, day: 0))
        #expect(model.table(hasDay: false).pages.count <= 2 + 4 + 2 + 10)
    }

    /// What a column of these values takes at a width, by docs/format/run.md.
    private static func byteCount(_ values: [UInt64], width: Int) -> Int {
        let base = values.min()!
        func bits(_ value: UInt64) -> Int { 64 - value.leadingZeroBitCount }
        let patches = values.filter { bits($0 - base) > width }
        let head = 1 + max(1, (bits(base) + 6) / 7)
        let low = (values.count * width + 7) / 8
        if patches.isEmpty { return head + low }
        let high = patches.map { bits($0 - base) }.max()! - width
        return head + low + (patches.count < 128 ? 1 : 2) + 1 + (patches.count * 10 + 7) / 8
            + (patches.count * high + 7) / 8
    }

    @Test(arguments: 0..<60)
    func `a column takes as few bytes as with the best of all widths`(seed: Int) throws {
        var random = SeededRandom(seed: UInt64(seed))
        let popularity = UInt64.random(in: 0...63, using: &random)
        let count = [3, 100, 1_024][seed % 3]
        let values = (0..<count).map { _ in
            random.next() % 8 == 0
                ? random.next() >> UInt64.random(in: popularity...63, using: &random)
                : random.next() >> UInt64.random(in: 50...63, using: &random)
        }
        var model = CounterModel()
        for (key, value) in values.enumerated() {
            model.add(value, .spendMicros, .init(key: UInt32(key), day: 0))
        }
        let table = model.table(hasDay: false)
        let best = (0...64).map { Self.byteCount(values, width: $0) }.min()!
        // Keys and ids; the plan allows for more than the parts of the head take.
        #expect(table.pages.count - 2 - 4 <= best + 5)
        #expect(try CounterModel(table.makeCursor()) == model)
    }

    @Test func `the pages of a key are found by the index`() throws {
        let model = Self.model(5_000, hasDay: true, seed: 9)
        let table = model.table(hasDay: true)
        let greatest = model.sorted.last!.place.key
        var expected: [UInt32: [(Int32, [UInt64])]] = [:]
        for (place, counters) in model.sorted {
            expected[place.key, default: []].append((place.day, counters))
        }
        let wrong = try (0...greatest + 2).filter { key in
            let found = try table.rows(of: CounterPoint(key: key))
            let wanted = expected[key] ?? []
            return found.map(\.day) != wanted.map(\.0)
                || found.map(\.counters) != wanted.map { CounterRow($0.1) }
                || table.index.pages(ofKeys: key...key).count > 2
        }
        #expect(wrong == [])
    }

    @Test func `rows and pages can be appended in turns, and pages be taken before the end`() throws
    {
        let model = Self.model(4_000, hasDay: true, seed: 3)
        let whole = model.table(hasDay: true)
        var encoder = CounterTableEncoder(hasDay: true)
        var pages: [UInt8] = []
        let sorted = model.sorted
        for start in stride(from: 0, to: sorted.count, by: 700) {
            let part = sorted[start..<min(start + 700, sorted.count)]
            if start % 1_400 == 0 {
                for (place, counters) in part {
                    encoder.append(
                        key: place.key, day: place.day, counters: CounterRow(counters))
                }
            } else {
                var partial = CounterModel()
                for (place, counters) in part { partial.add(counters, place) }
                try encoder.append(contentsOf: partial.table(hasDay: true).makeCursor())
            }
            pages += encoder.takePages()
        }
        let rest = encoder.finish()
        #expect(pages + rest.pages == whole.pages)
        #expect(rest.index == whole.index)
    }

    @Test func `every flipped bit and every cut of pages and index is seen`() throws {
        let table = Self.model(40, hasDay: true, seed: 21).table(hasDay: true)
        let index = Checksum.crc32c(table.index.encode())
        func read(pages: [UInt8], index bytes: [UInt8]) throws {
            // Who holds the index holds its checksum: a run's header, a footer's section table.
            guard Checksum.crc32c(bytes) == index else {
                throw FormatError.corrupt("index", at: 0, got: 0, expected: .exactly(index))
            }
            let copy = CounterTable(
                hasDay: true, pages: pages,
                index: try CounterPageIndex.decode(
                    bytes, pagesByteCount: pages.count, rowCount: table.rowCount))
            _ = try CounterModel(copy.makeCursor())
        }
        let indexBytes = table.index.encode()
        try read(pages: table.pages, index: indexBytes)
        #expect(Damage.unseenFlips(table.pages) { try read(pages: $0, index: indexBytes) } == [])
        #expect(Damage.unseenCuts(table.pages) { try read(pages: $0, index: indexBytes) } == [])
        #expect(Damage.unseenFlips(indexBytes) { try read(pages: table.pages, index: $0) } == [])
        #expect(Damage.unseenCuts(indexBytes) { try read(pages: table.pages, index: $0) } == [])
    }

    @Test func `damaged pages under a right checksum never trap, and rows stay in order`() throws {
        var random = SeededRandom(seed: 8)
        let table = Self.model(300, hasDay: true, seed: 22).table(hasDay: true)
        let page = CounterPage()
        var refused = 0
        var areInOrder = true
        for _ in 0..<5_000 {
            var bytes = table.pages
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                bytes[place] = UInt8.random(in: 0...255, using: &random)
            }
            if Bool.random(using: &random) {
                bytes.removeLast(Int.random(in: 1..<bytes.count, using: &random))
            }
            var entry = table.index.entries[0]
            entry.byteCount = bytes.count
            entry.checksum = Checksum.crc32c(bytes)
            do {
                try page.decode(bytes[...], entry: entry, hasDay: true)
                for row in 1..<page.rowCount
                where (page.key(row - 1), page.day(row - 1)) >= (page.key(row), page.day(row)) {
                    areInOrder = false
                }
            } catch {
                refused += 1
                areInOrder = areInOrder && page.rowCount == 0
            }
        }
        #expect(areInOrder)
        #expect(refused > 1_000)
    }

    /// Bytes of a page of four rows whose columns are written by hand; each is wrong in one way.
    private static let badColumns: [(String, [UInt8], String)] = [
        ("width of 65", [65, 0], "corrupt column form"),
        ("patches beside a width of 64", [0x80 | 64, 0, 1, 1], "corrupt column form"),
        ("no patches where patches are said", [0x80, 0, 0, 1], "corrupt patch count"),
        ("as many patches as values", [0x80, 0, 4, 1], "corrupt patch count"),
        ("patch width 0", [0x80, 0, 1, 0], "corrupt patch width"),
        ("low and high bits of more than 64", [0x80 | 60, 0, 1, 5], "corrupt patch width"),
        ("patch beyond the rows", [0x80, 0, 1, 1, 4, 0, 1], "corrupt patches"),
        ("patches in the wrong order", [0x80, 0, 2, 1, 2, 0x04, 0, 3], "corrupt patches"),
        ("patch of nothing", [0x80, 0, 1, 1, 2, 0, 0], "corrupt patches"),
        ("bits behind the places", [0x80, 0, 1, 1, 2, 4, 1], "corrupt patch places"),
        ("bits behind the high bits", [0x80, 0, 1, 1, 2, 0, 3], "corrupt patch values"),
        ("bits behind the values", [1, 0, 0x10], "corrupt column values"),
        ("a varint that is too long", [0, 0x80, 0], "torn column base"),
        (
            "values beyond 64 bits",
            [1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0x0F],
            "corrupt column value"
        ),
    ]

    @Test(arguments: Self.badColumns.indices)
    func `a column that no encoder writes is refused`(index: Int) throws {
        let (name, column, expected) = Self.badColumns[index]
        // Key differences of 1; then the first of two counters is the bad one.
        let good: [UInt8] = [0, 1, 3, 0, 0, 0]
        let bytes = good + column + [0, 1]
        let error = Self.decodeError(bytes)
        #expect(error?.summary == expected, "\(name)")
    }

    @Test(
        arguments: [
            ("keys that stand still", [0, 0, 0, 0, 0, 0], "corrupt key order"),
            ("keys beyond 32 bits", [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0], "corrupt key"),
            ("bytes behind the last", [0, 1, 1, 0, 0, 0, 0, 1, 0], "corrupt page byte count"),
            ("bytes behind no columns", [0, 1, 0, 0, 0, 0, 0], "corrupt page byte count"),
            ("an end before the last", [0, 1, 3, 0, 0, 0, 0, 1, 0], "torn column base"),
            ("an end before the ids", [0, 1, 0, 0, 0], "torn column ids"),
            ("a column of zeros", [0, 1, 1, 0, 0, 0, 0, 0], "corrupt column form"),
        ] as [(String, [UInt8], String)])
    func `a page that no encoder writes is refused`(
        name: String, bytes: [UInt8], expected: String
    ) {
        #expect(Self.decodeError(bytes)?.summary == expected, "\(name)")
    }

    @Test func `a row after the last one that there can be is refused`() {
        let days: [UInt8] = [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]
        let bytes = [0, 0] + days + [0, 0, 0, 0]
        let entry = CounterPageIndex.Entry(
            firstKey: .max, firstDay: .max, rowCount: 2, byteCount: bytes.count,
            checksum: Checksum.crc32c(bytes))
        let error = Damage.error {
            try CounterPage().decode(bytes[...], entry: entry, hasDay: true)
        }
        #expect(error?.summary == "corrupt key order")
    }

    private static func decodeError(_ bytes: [UInt8]) -> FormatError? {
        let entry = CounterPageIndex.Entry(
            firstKey: 10, firstDay: 0, rowCount: 4, byteCount: bytes.count,
            checksum: Checksum.crc32c(bytes))
        return Damage.error { try CounterPage().decode(bytes[...], entry: entry, hasDay: false) }
    }

    /// A field of the second entry changed, and what is said to it.
    @Test(arguments: [
        (CounterLayout.PageEntry.firstKey, 0, "corrupt first key"),
        (CounterLayout.PageEntry.rowCount, 0, "corrupt row count"),
        (CounterLayout.PageEntry.rowCount, 1_025, "corrupt row count"),
        (CounterLayout.PageEntry.rowCount, 1_000, "corrupt row count"),
        (CounterLayout.PageEntry.pageByteCount, 0, "corrupt page byte count"),
        (CounterLayout.PageEntry.pageByteCount, 0xFFFF_FFFF, "corrupt page byte count"),
        (CounterLayout.PageEntry.pageByteCount, 50, "corrupt pages byte count"),
    ])
    func `an index entry that cannot be is refused`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let table = Self.model(3_000, hasDay: false, seed: 2).table(hasDay: false)
        let bytes = table.index.encode().with(field, value, at: 20)
        let error = Damage.error {
            _ = try CounterPageIndex.decode(
                bytes, pagesByteCount: table.pages.count, rowCount: 3_000)
        }
        #expect(error?.summary == expected)
    }

    @Test func `a page that reaches into the next one is refused`() throws {
        let table = Self.model(3_000, hasDay: false, seed: 2).table(hasDay: false)
        let bytes = table.index.encode().with(
            CounterLayout.PageEntry.firstKey, UInt64(table.index.entries[0].firstKey + 1), at: 20)
        let index = try CounterPageIndex.decode(
            bytes, pagesByteCount: table.pages.count, rowCount: 3_000)
        let damaged = CounterTable(hasDay: false, pages: table.pages, index: index)
        let error = Damage.error { _ = try CounterModel(damaged.makeCursor()) }
        #expect(error?.summary == "corrupt key order")
    }
}
