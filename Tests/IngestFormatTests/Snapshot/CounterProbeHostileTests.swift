import TestSupport
import Testing

@testable import IngestFormat

/// What a point query and a projection do with pages that are not what was written.
struct CounterProbeHostileTests {
    /// Whether the table's first page gives rows to a point and to a projection, as the decoder judges it.
    private static func table(
        _ bytes: [UInt8], like table: CounterTable, isResealed: Bool
    ) throws -> CounterTable {
        let old = table.index.encode()
        var index = old
        if isResealed {
            index = old.with(
                CounterLayout.PageEntry.checksum, UInt64(Checksum.crc32c(bytes)), at: 0)
        }
        index = index.with(CounterLayout.PageEntry.pageByteCount, UInt64(bytes.count), at: 0)
        return CounterTable(
            hasDay: table.hasDay, pages: bytes,
            index: try CounterPageIndex.decode(
                index, pagesByteCount: bytes.count, rowCount: table.rowCount))
    }

    private static func rows(_ table: CounterTable) throws -> [UInt32: [CounterDayRow]] {
        var rows: [UInt32: [CounterDayRow]] = [:]
        for (place, counters) in try CounterModel(table.makeCursor()).sorted {
            rows[place.key, default: []].append(
                CounterDayRow(day: place.day, counters: CounterRow(counters)))
        }
        return rows
    }

    @Test(arguments: [true, false])
    func `every flipped bit and every cut is seen by a point and by a projection`(
        hasDay: Bool
    ) throws {
        let table = CounterTableTests.model(40, hasDay: hasDay, seed: 61).table(hasDay: hasDay)
        let key = table.index.entries[0].firstKey
        let point = { (bytes: [UInt8]) in
            _ = try Self.table(bytes, like: table, isResealed: false).rows(
                of: CounterPoint(key: key))
        }
        let projection = { (bytes: [UInt8]) in
            var cursor = try Self.table(bytes, like: table, isResealed: false).makeCursor(
                columns: CounterColumnSet([.clicks]))
            _ = try cursor.nextPage(into: CounterPage())
        }
        try point(table.pages)
        try projection(table.pages)
        #expect(Damage.unseenFlips(table.pages, point) == [])
        #expect(Damage.unseenCuts(table.pages, point) == [])
        #expect(Damage.unseenFlips(table.pages, projection) == [])
        #expect(Damage.unseenCuts(table.pages, projection) == [])
    }

    /// Where a whole decoder takes a page, points and projections give the same rows; where they give rows
    /// of one that it does not take, what they did not read is what is wrong.
    @Test(arguments: [true, false])
    func `damaged pages under a right checksum never trap, and what is given is what was decoded`(
        hasDay: Bool
    ) throws {
        var random = SeededRandom(seed: 62)
        let table = CounterTableTests.model(200, hasDay: hasDay, seed: 63).table(hasDay: hasDay)
        let keys = try Array(Self.rows(table).keys).sorted()
        var (taken, refused, differences) = (0, 0, 0)
        for _ in 0..<1_500 {
            var bytes = table.pages
            for _ in 0..<Int.random(in: 1...2, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = random.next().asByte
            }
            let damaged = try Self.table(bytes, like: table, isResealed: true)
            let whole = try? Self.rows(damaged)
            for _ in 0..<6 {
                let key = keys.randomElement(using: &random)!
                let found = try? damaged.rows(of: CounterPoint(key: key))
                if found == nil { refused += 1 } else { taken += 1 }
                // A point may read around the damage; it may not refuse or differ where a decoder does
                // not.
                if let whole, found != whole[key] ?? [] { differences += 1 }
            }
        }
        #expect(differences == 0)
        #expect(taken > 500)
        #expect(refused > 500)
    }

    /// Columns behind the keys that no encoder writes, on a page of four rows: the first of two counters.
    private static let badColumns: [(String, [UInt8])] = [
        ("corrupt column form", [65, 0]),
        ("corrupt column form", [0x80 | 64, 0, 1, 1]),
        ("corrupt patch count", [0x80, 0, 0, 1]),
        ("corrupt patch count", [0x80, 0, 4, 1]),
        ("corrupt patch width", [0x80, 0, 1, 0]),
        ("corrupt patch width", [0x80, 0, 1, 65]),
        ("corrupt patch width", [0x80 | 60, 0, 1, 5]),
        ("corrupt patches", [0x80, 0, 1, 1, 4, 0, 1]),
        ("corrupt patches", [0x80, 0, 2, 1, 2, 0x04, 0, 3]),
        ("corrupt patches", [0x80, 0, 1, 1, 2, 0, 0]),
        ("corrupt patch places", [0x80, 0, 1, 1, 2, 4, 1]),
        ("corrupt patch values", [0x80, 0, 1, 1, 2, 0, 3]),
        ("corrupt column values", [1, 0, 0x10]),
        ("torn column base", [0, 0x80, 0]),
        (
            "corrupt column value",
            [1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0x0F]
        ),
    ]

    @Test(arguments: badColumns.indices)
    func `a point in a column that no encoder writes is refused`(index: Int) {
        let (expected, column) = Self.badColumns[index]
        // Key differences of 1: keys 10 to 13, of which 12 is the row that the patches are for.
        let bytes = [0, 1, 5, 0, 0, 0] + column + [0, 1]
        let error = Self.pointError(bytes, key: 12, hasDay: false)
        #expect(error?.summary == expected)
    }

    @Test(arguments: badColumns.indices)
    func `a column that is not asked for is passed over, or its head refused`(index: Int) {
        let (_, column) = Self.badColumns[index]
        let bytes = [0, 1, 5, 0, 0, 0] + column + [0, 1]
        let entry = Self.entry(bytes, firstDay: 0)
        let page = CounterPage()
        let error = Damage.error {
            try page.decode(bytes[...], entry: entry, hasDay: false, columns: [.init([.clicks])])
        }
        #expect(error != nil || (0..<4).allSatisfy { page.value(.clicks, $0) == 0 })
    }

    /// Keys and days that cannot be, on a page of four rows that begins with key 10.
    @Test(
        arguments: [
            ("corrupt key order", [0, 0], nil, 10),
            ("corrupt key order", [0, 0], nil, 11),
            ("corrupt key", [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F], nil, 10),
            ("corrupt key order", [0, 0], [0, 7], 10),
            ("corrupt first day", [0, 0], [0x02, 5, 0b1110_0100], 10),
            ("corrupt key", [0, 0], [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F], 10),
        ] as [(String, [UInt8], [UInt8]?, UInt32)])
    func `a point on a page whose keys or days cannot be is refused`(
        expected: String, keys: [UInt8], days: [UInt8]?, key: UInt32
    ) {
        let bytes = keys + (days ?? []) + [UInt8](repeating: 0, count: 42)
        #expect(Self.pointError(bytes, key: key, hasDay: days != nil)?.summary == expected)
    }

    @Test func `bytes behind the last column are refused by a point`() {
        let bytes = [0, 1] + [UInt8](repeating: 0, count: 43)
        let error = Self.pointError(bytes, key: 12, hasDay: false)
        #expect(error?.summary == "corrupt page byte count")
    }

    @Test func `a page that reaches into the next one is refused by a point`() throws {
        var model = CounterModel()
        for day in 0..<3_000 as Range<Int32> { model.add(1, .clicks, .init(key: 4, day: day)) }
        let table = model.table(hasDay: true)
        let index = table.index.encode().with(CounterLayout.PageEntry.firstDay, 1_023, at: 20)
        let damaged = CounterTable(
            hasDay: true, pages: table.pages,
            index: try CounterPageIndex.decode(
                index, pagesByteCount: table.pages.count, rowCount: 3_000))
        #expect(try table.rows(of: CounterPoint(key: 4)).count == 3_000)
        let error = Damage.error { _ = try damaged.rows(of: CounterPoint(key: 4)) }
        #expect(error?.summary == "corrupt key order")
    }

    private static func entry(_ bytes: [UInt8], firstDay: Int32) -> CounterPageIndex.Entry {
        CounterPageIndex.Entry(
            firstKey: 10, firstDay: firstDay, rowCount: 4, byteCount: bytes.count,
            checksum: Checksum.crc32c(bytes))
    }

    private static func pointError(_ bytes: [UInt8], key: UInt32, hasDay: Bool) -> FormatError? {
        Damage.error {
            let encoded = [UInt8](repeating: 0, count: 20)
                .with(CounterLayout.PageEntry.firstKey, 10, at: 0)
                .with(CounterLayout.PageEntry.rowCount, 4, at: 0)
                .with(CounterLayout.PageEntry.pageByteCount, UInt64(bytes.count), at: 0)
                .with(CounterLayout.PageEntry.checksum, UInt64(Checksum.crc32c(bytes)), at: 0)
            let table = CounterTable(
                hasDay: hasDay, pages: bytes,
                index: try CounterPageIndex.decode(
                    encoded, pagesByteCount: bytes.count, rowCount: 4))
            _ = try table.rows(of: CounterPoint(key: key))
        }
    }
}

extension UInt64 {
    fileprivate var asByte: UInt8 { UInt8(truncatingIfNeeded: self >> 24) }
}
