import IngestFormat
import TestSupport
import Testing

/// A TZif file from its parts; those that are not set are sound.
private struct ZoneImage {
    var magic = "TZif"
    var version = UInt8(ascii: "2")
    var times: [Int64] = []
    var types: [UInt8] = []
    var offsets: [Int32] = [0]
    var designations = Array("LMT\0".utf8)
    var leapCount: UInt32 = 0
    var indicatorCount: UInt32 = 0
    /// Takes the place of the count of this number.
    var falseCount: (place: Int, count: UInt32)?
    var footer = "\nUTC0\n"

    private func header(_ isFirst: Bool) -> [UInt8] {
        var counts: [UInt32] =
            isFirst
            ? [0, 0, 0, 0, 1, 1]
            : [
                indicatorCount, 0, leapCount, UInt32(times.count), UInt32(offsets.count),
                UInt32(designations.count),
            ]
        if let falseCount, !isFirst { counts[falseCount.place] = falseCount.count }
        return Array(magic.utf8) + [version] + [UInt8](repeating: 0, count: 15)
            + counts.flatMap { Self.bytes($0) }
    }

    private static func bytes<Value: FixedWidthInteger>(_ value: Value) -> [UInt8] {
        (0..<MemoryLayout<Value>.size).reversed().map {
            UInt8(truncatingIfNeeded: value >> (8 * $0))
        }
    }

    var bytes: [UInt8] {
        header(true) + [0, 0, 0, 0, 0, 0, 0] + header(false) + times.flatMap { Self.bytes($0) }
            + types + offsets.flatMap { Self.bytes($0) + [0, 0] } + designations
            + [UInt8](repeating: 0, count: Int(leapCount) * 12 + Int(indicatorCount))
            + Array(footer.utf8)
    }

    func decoded() throws(FormatError) -> ZoneOffsets { try ZoneFile.decode(bytes) }
}

struct ZoneFileTests {
    private func day(_ seconds: Int64, _ zone: ZoneOffsets) -> Int32 {
        zone.day(of: seconds * 1_000_000).day
    }

    @Test func `transitions become changes of offset from 1970 on`() throws {
        var image = ZoneImage()
        (image.times, image.types) = ([-5_000, 100, 200, 300, 1 << 40], [1, 2, 2, 0, 1])
        image.offsets = [0, 3_600, -7_200]
        let zone = try image.decoded()
        // The one before 1970 is the first offset, one that changes nothing is none, and one after 2262 cannot show.
        #expect(zone.initialOffsetSeconds == 3_600)
        #expect(zone.changes.map(\.start) == [100_000_000, 300_000_000])
        #expect(zone.changes.map(\.offsetSeconds) == [-7_200, 0])
    }

    @Test func `without a transition the first type holds from the beginning`() throws {
        var image = ZoneImage()
        image.offsets = [19_800]
        image.footer = "\n<+0530>-5:30\n"
        let zone = try image.decoded()
        #expect(zone.initialOffsetSeconds == 19_800 && zone.changes.isEmpty)
    }

    @Test func `the rule of the footer begins after the last transition`() throws {
        var image = ZoneImage()
        // 2036-10-26T01:00Z, the last one of many files.
        (image.times, image.types, image.offsets) = ([2_108_595_600], [0], [3_600])
        image.footer = "\nCET-1CEST,M3.5.0,M10.5.0/3\n"
        let zone = try image.decoded()
        #expect(zone.initialOffsetSeconds == 3_600)
        // 2037-03-29T01:00Z and 2037-10-25T01:00Z.
        #expect(
            zone.changes.prefix(2).map(\.start) == [2_121_901_200_000_000, 2_140_045_200_000_000])
        #expect(zone.changes.count == 2 * (2262 - 2037))
        image.footer = "\n\n"
        #expect(try image.decoded().changes.isEmpty)
    }

    /// The first days of daylight-saving time and of standard time in 2026 and 2028, by instant.
    @Test(arguments: [
        ("CET-1CEST,M3.5.0,M10.5.0/3", 1_774_746_000, 1_792_890_000),
        ("EST5EDT,M3.2.0,M11.1.0", 1_772_953_200, 1_793_512_800),
        ("<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", 1_774_746_000, 1_792_890_000),
        ("AEST-10AEDT,M10.1.0,M4.1.0/3", 1_791_043_200, 1_775_318_400),
        ("<+01>-1<+02>,J60/0,J61/0", 1_772_319_600, 1_772_402_400),
        ("<+01>-1<+02>,59/0,60/0", 1_772_319_600, 1_772_402_400),
        ("IST-2IDT,M3.4.4/26,M10.5.0", 1_774_569_600, 1_792_882_800),
    ])
    func `a rule gives the instants of each year`(
        text: String, start: Int64, end: Int64
    ) throws {
        var image = ZoneImage()
        image.footer = "\n\(text)\n"
        let changes = try image.decoded().changes
        #expect(changes.contains { $0.start == start * 1_000_000 }, "start of \(text)")
        #expect(changes.contains { $0.start == end * 1_000_000 }, "end of \(text)")
    }

    @Test func `daylight-saving time that ends when it begins lasts all year`() throws {
        var image = ZoneImage()
        image.footer = "\nXXX3EDT4,0/0,J365/23\n"
        let zone = try image.decoded()
        #expect(zone.changes.isEmpty && zone.initialOffsetSeconds == -4 * 3_600)
    }

    @Test(arguments: [
        "", "C-1", "CET", "CET-25", "CET-24:30", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1:60",
        "CET-1CEST,M0.5.0,M10.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.0.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,J0,M10.5.0",
        "CET-1CEST,J366,M10.5.0", "CET-1CEST,366,M10.5.0", "CET-1CEST,M3.5.0/168,M10.5.0",
        "CET-1CEST,M3.5.0,M10.5.0,", "CET-1CEST,M3.5.0,M10.5.0/3x", "<CET-1", "CET--1",
        "CET-24CEST,M3.5.0,M10.5.0", "CET-99999999999999999999",
    ])
    func `a TZ string that is none is refused`(text: String) {
        var image = ZoneImage()
        image.footer = "\n\(text)\n"
        let isRefused = (try? image.decoded()) == nil
        #expect(isRefused == !text.isEmpty)
    }

    private static let damages: [(String, String, @Sendable (inout ZoneImage) -> Void)] = [
        ("magic", "not what was expected here: magic", { $0.magic = "TZiF" }),
        ("version 1", "corrupt: version", { $0.version = 0 }),
        ("a leap second", "corrupt: leap second count", { $0.leapCount = 1 }),
        ("types that are not there", "torn: data block", { $0.falseCount = (4, 1 << 30) }),
        ("no types", "corrupt: type count", { $0.falseCount = (4, 0) }),
        ("no designation", "corrupt: designation byte count", { $0.falseCount = (5, 0) }),
        ("times that are not there", "torn: data block", { $0.falseCount = (3, .max) }),
        (
            "indicators for some types", "corrupt: UT indicator count",
            {
                $0.offsets = [0, 1]
                $0.indicatorCount = 1
            }
        ),
        (
            "a type that is not there", "corrupt: type of a transition",
            {
                ($0.times, $0.types) = ([5], [1])
            }
        ),
        (
            "times that do not ascend", "corrupt: order of transition times",
            {
                ($0.times, $0.types) = ([5, 5], [0, 0])
            }
        ),
        ("an offset of more than a day", "corrupt: offset from UTC", { $0.offsets = [86_401] }),
        ("the least offset", "corrupt: offset from UTC", { $0.offsets = [.min] }),
        ("no line feed before the footer", "corrupt: footer", { $0.footer = "UTC0\n" }),
        ("no line feed behind the footer", "torn: footer", { $0.footer = "\nUTC0" }),
    ]

    @Test(arguments: damages.indices)
    func `a damaged file is refused and named`(index: Int) {
        let (name, message, damage) = Self.damages[index]
        var image = ZoneImage()
        #expect(throws: Never.self) { try image.decoded() }
        damage(&image)
        let error = #expect(throws: FormatError.self) { try image.decoded() }
        #expect(
            error?.description.hasPrefix(message) == true, "\(name): \(error?.description ?? "")")
    }

    @Test func `no prefix and no changed byte of a file traps`() {
        var image = ZoneImage()
        (image.times, image.types) = ([-(1 << 59), 100, 1 << 62], [0, 1, 0])
        image.offsets = [-1_800, 86_400]
        image.footer = "\nCET-1CEST,M3.5.0,M10.5.0/3\n"
        let bytes = image.bytes
        for count in bytes.indices {
            #expect(throws: FormatError.self) { try ZoneFile.decode(Array(bytes[..<count])) }
        }
        var random = SeededRandom(seed: 5)
        for place in bytes.indices {
            for value in [0, 0xff, 0x7f, 0x80, UInt8(random.below(256))] {
                var damaged = bytes
                damaged[place] = value
                guard let zone = try? ZoneFile.decode(damaged) else { continue }
                for instant in [0, 1, Limits.timestampMicrosecondsMax] {
                    #expect(zone.day(of: instant).contains(instant))
                }
            }
        }
    }
}

struct ZonesFileTests {
    @Test func `a file names zones of businesses, in any order of their dates`() throws {
        let file = try ZonesFile(
            Array(
                """
                # comment
                b-1 Europe/Berlin
                \tb-2  America/New_York from=2026-01-01\r
                b-2 Asia/Tokyo from=2020-02-29 # later

                b-2 UTC
                """.utf8))
        let rules = file.rules[Array("b-2".utf8)]
        #expect(rules?.map(\.zone) == ["UTC", "Asia/Tokyo", "America/New_York"])
        #expect(rules?.map(\.from) == [nil, 18_321, 20_454])
        #expect(file.rules[Array("b-1".utf8)]?.map(\.line) == [2])
        #expect(try ZonesFile([]).rules.isEmpty)
        let blank = try ZonesFile(Array("ACME%20Corp%25%23 Asia/Tokyo\n%23b UTC".utf8))
        #expect(
            blank.rules.keys.sorted { $0.count > $1.count }
                == ["ACME Corp%#", "#b"].map { Array($0.utf8) })
        let marked = try ZonesFile([0xEF, 0xBB, 0xBF] + Array("b-1 Asia/Tokyo\r\nb-2 UTC".utf8))
        #expect(marked.rules[Array("b-1".utf8)]?.map(\.line) == [1])
    }

    /// A business may have as many dates as there are: 100,000 took a minute where each was put in its place.
    @Test func `many dates of one business are in order, in whatever order they come`() throws {
        let days = (1...40_000).map { Int32($0 * 7_919 % 40_009) }
        let lines = days.map { "b Asia/Tokyo from=\(CivilDate.text($0))" }
        let file = try ZonesFile(Array(lines.joined(separator: "\n").utf8))
        #expect(file.rules[Array("b".utf8)]?.compactMap(\.from) == days.sorted())
    }

    @Test func `of several lines that break a rule the first one is named`() {
        for (text, line) in [
            ("b UTC\na UTC\na UTC\nb EST", 3), ("a UTC\nb EST\na UTC", 2),
            ("b UTC\na UTC\nb UTC\na UTC", 3), ("a UTC\nb UTC\nb UTC\na UTC", 3),
        ] {
            let error = #expect(throws: ZonesFileError.self) { try ZonesFile(Array(text.utf8)) }
            #expect(error?.line == line, "\(text)")
        }
    }

    @Test(arguments: [
        ("b", ZonesFileError.Fault.noZone), ("b UTC from=2026-01-01 x", .tooManyFields),
        (String(repeating: "b", count: 129) + " UTC", .business), ("b%2 UTC", .business),
        ("b%FF UTC", .business), ("b EST", .zone),
        ("b GMT+3", .zone), ("b ../../etc/passwd", .zone), ("b /etc/passwd", .zone),
        ("b Europe/../UTC", .zone), ("b right/UTC", .zone), ("b posix/Europe/Berlin", .zone),
        ("b Europe/", .zone), ("b Europe//Berlin", .zone), ("b UTC 2026-01-01", .date),
        ("b UTC from=2026-02-29", .date), ("b UTC from=1969-12-31", .date),
        ("b UTC from=2262-01-03", .date), ("b UTC from=", .date), ("a UTC", .repeated),
        ("a Asia/Tokyo from=2020-01-01", .repeated),
    ])
    func `a line that breaks a rule is named`(line: String, fault: ZonesFileError.Fault) {
        let text = "a Europe/Berlin\na UTC from=2020-01-01\n\(line)\n"
        let error = #expect(throws: ZonesFileError.self) { try ZonesFile(Array(text.utf8)) }
        #expect(error?.line == 3 && error?.fault == fault)
    }

    @Test func `bytes that are no UTF-8 are no business`() {
        let error = #expect(throws: ZonesFileError.self) {
            try ZonesFile([0xff] + Array(" UTC".utf8))
        }
        #expect(error?.fault == .business)
    }
}
