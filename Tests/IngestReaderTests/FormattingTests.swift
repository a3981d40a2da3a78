import Foundation
import IngestFormat
import IngestReader
import IngestStorage
import TestSupport
import Testing

@testable import IngestReaderTool

@Suite struct FormattingTests {
    static func counters(_ values: [CounterColumn: UInt64]) -> Counters {
        var row = CounterRow()
        for (column, value) in values { row[column] = value }
        return Counters(row)
    }

    static let rows = [
        RewardRow(
            id: "a,\"b\"\n\u{1b}[2J", businessID: "shop", businessCount: 1,
            counters: counters([
                .impressions: 20_000, .clicks: 80, .revenueMicros: 12_500_000,
                .undeterminedImpressions: 20_000,
            ])),
        RewardRow(
            id: "r-日本", businessID: "b\\c", businessCount: 12,
            counters: counters([.clicks: 3, .refusedClicks: 4, .spendMicros: 1])),
    ]

    static func list(_ format: OutputFormat, _ rows: [RewardRow], cut: Cut? = nil) throws -> String
    {
        try written { output in
            try RowFormatter(format: format, cut: cut, output: output)
                .list(given(rows))
        }
    }

    static func given<Row: OutputRow>(_ rows: [Row]) -> Rows<[Row]> {
        { try $0(rows) }
    }

    static func written(_ body: (OutputBuffer) throws -> Void) throws -> String {
        var bytes: [UInt8] = []
        let output = OutputBuffer { bytes += $0 }
        try body(output)
        try output.flush()
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("A table of few rows asks for them once, of many twice, and looks the same")
    func tablePasses() throws {
        let max = TableListing<[RewardRow]>.keptRowCountMax
        for (count, passes) in [(0, 1), (3, 1), (max, 1), (max + 1, 2)] {
            var calls = 0
            let text = try Self.written { output in
                let formatter = RowFormatter(format: .table, cut: nil, output: output)
                let listed = try formatter.list { body in
                    calls += 1
                    for row in 0..<count {
                        try body([
                            RewardRow(
                                id: "r", businessID: "b", businessCount: row,
                                counters: Self.counters([:]))
                        ])
                    }
                }
                #expect(listed == count)
            }
            #expect(calls == passes, "\(count) rows")
            let lines = text.split(separator: "\n")
            #expect(lines.count == count + 3)
            #expect(count == 0 || Set(lines.map(\.utf8.count)).count == 1)
            for (row, line) in lines.dropFirst().prefix(count).enumerated() {
                #expect(line.split(separator: " ")[2] == "\(row)")
            }
        }
    }

    @Test("The columns are those of the contract, in its order")
    func columns() {
        #expect(
            RewardRow.columns.map(\.name) == [
                "id", "businessId", "businessCount", "impressions", "clicks", "redemptions", "ctr",
                "revenue", "spend", "viewableImpressions", "undeterminedImpressions",
                "notViewableImpressions", "measuredRate", "viewableRate", "grossImpressions",
                "invalidImpressions", "duplicateImpressions", "conflictImpressions",
                "refusedImpressions", "grossClicks",
                "invalidClicks", "duplicateClicks", "conflictClicks", "refusedClicks",
                "grossRedemptions", "invalidRedemptions", "duplicateRedemptions",
                "conflictRedemptions", "refusedRedemptions", "uncheckedEvents",
                "orphanClicks", "orphanRedemptions", "overflowEvents",
            ])
        #expect(DayRow.columns.map(\.name).prefix(3) == ["id", "businessId", "date"])
        #expect(RewardDayRow.columns.map(\.name).prefix(3) == ["id", "businessId", "date"])
        for row in Self.rows { #expect(row.cells.count == RewardRow.columns.count) }
    }

    @Test("NDJSON is one object a line with only the escapes that JSON asks for")
    func ndjson() throws {
        let lines = try Self.list(.ndjson, Self.rows).split(
            separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 3 && lines[2].isEmpty)
        let start = [
            #"{"id":"a,\"b\"\n\u001b[2J","businessId":"shop","businessCount":1,"#,
            #""impressions":20000,"clicks":80,"redemptions":0,"ctr":0.0040,"#,
            #""revenue":"12.50","spend":"0.00","viewableImpressions":0,"#,
            #""undeterminedImpressions":20000,"notViewableImpressions":0,"#,
            #""measuredRate":0.0000,"viewableRate":null,"grossImpressions":20000,"#,
        ].joined()
        #expect(lines[0].hasPrefix(start))
        #expect(
            lines[1].hasPrefix(
                #"{"id":"r-日本","businessId":"b\\c","businessCount":12,"impressions":0,"clicks":3,"#
                    + #""redemptions":0,"ctr":null,"#))
        #expect(
            lines[1].contains(#""grossClicks":7,"#) && lines[1].hasSuffix(#""overflowEvents":0}"#))
    }

    @Test("Foundation reads JSON back as it was meant, with and without the cut")
    func jsonReadsBack() throws {
        for cut in [nil, Cut(segment: 3, block: 9)] {
            let text = try Self.list(.json, Self.rows, cut: cut)
            let array = try #require(
                JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[String: Any]])
            #expect(array.map { $0["id"] as? String } == Self.rows.map(\.id))
            #expect(array[0]["revenue"] as? String == "12.50")
            #expect(array[1]["ctr"] is NSNull)
            let read = array[0]["cut"] as? [String: Int]
            #expect(read == (cut == nil ? nil : ["segment": 3, "block": 9]))
        }
        #expect(try Self.list(.json, []) == "[]\n")
        #expect(try Self.list(.ndjson, []) == "")
    }

    /// Texts and days that a row before had are copied; bytes are copied many at a time. A row alone has none of that.
    @Test("Rows one after the other are what each of them is alone, whatever was written before")
    func rowsAfterRows() throws {
        var rows: [RewardDayRow] = []
        for place in 0..<600 {
            var row = ListedRow()
            row.id = Array("r,\"\u{e9}\(String(repeating: "x", count: place / 4 % 80))".utf8)
            row.business = Array(repeating: UInt8(ascii: "b"), count: place / 9 % 40)
            // Of the same slot among the days that are kept.
            row.day = [20_000, 20_064, 20_001, 20_000, -1, 20_001][place % 6]
            row.counters[.impressions] = UInt64(place)
            row.counters[.revenueMicros] = UInt64(place) << 50
            rows.append(RewardDayRow(row))
        }
        for format in [OutputFormat.ndjson, .csv] {
            func text(_ rows: [RewardDayRow]) throws -> String {
                try Self.written { output in
                    try RowFormatter(format: format, cut: nil, output: output)
                        .list(Self.given(rows))
                }
            }
            let header = try text([])
            let alone = try rows.map { String(try text([$0]).dropFirst(header.count)) }
            #expect(try text(rows) == header + alone.joined())
        }
    }

    @Test("A part of an array is put whatever its size, where it is, and what room there was")
    func parts() {
        let bytes = (0..<200).map { UInt8($0) }
        for capacity in [1, 31, 32, 33, 64, 1_000] {
            for count in [0, 1, 15, 16, 17, 31, 32, 33, 64] {
                for start in [0, 1, 167, 168, 169, 200 - count] where start + count <= 200 {
                    let put = OutputBuffer.bytes(capacity: capacity) { output in
                        for _ in 0..<3 { output.put(bytes, start..<start + count) }
                    }
                    let wanted = Array(bytes[start..<start + count])
                    #expect(put == wanted + wanted + wanted, "\(capacity) \(count) \(start)")
                }
            }
        }
    }

    @Test("Every control character and quote in an id survives JSON")
    func jsonEscapes() throws {
        for value in 0..<0x300 {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = "x\(Character(scalar))y"
            let bytes = OutputBuffer.bytes {
                ValueText.json.put([Field("k", .text(text))], to: $0)
            }
            let read = try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: String]
            #expect(read?["k"]?.unicodeScalars.elementsEqual(text.unicodeScalars) == true)
            #expect(!bytes.contains { $0 < 0x20 })
        }
    }

    @Test("CSV follows RFC 4180: header, CRLF, quotes where they are needed")
    func csv() throws {
        let text = try Self.list(.csv, Self.rows)
        #expect(text.hasPrefix("id,businessId,businessCount,impressions,clicks,redemptions,ctr,"))
        #expect(
            text.contains("\r\n\"a,\"\"b\"\"\n\u{1b}[2J\",shop,1,20000,80,0,0.0040,12.50,0.00,"))
        #expect(text.contains("\r\nr-日本,b\\c,12,0,3,0,,0.00,0.000001,"))
        #expect(text.hasSuffix("\r\n"))
        #expect(
            try Self.list(.csv, []) == RewardRow.columns.map(\.name).joined(separator: ",") + "\r\n"
        )
    }

    @Test("CSV for spreadsheets has an apostrophe before what one would run, and before no number")
    func safeCSV() {
        func text(_ cells: [Cell]) -> String {
            let bytes = OutputBuffer.bytes {
                ValueText.safeCSV.put(cells.map { Field("", $0) }, to: $0)
            }
            return String(decoding: bytes, as: UTF8.self)
        }
        #expect(
            text(["=1", "+1", "-1", "@a", "\tb", "\rc", "=\"x\",y", "a=1", ""].map(Cell.text))
                == "'=1,'+1,'-1,'@a,'\tb,\"'\rc\",\"'=\"\"x\"\",y\",a=1,")
        #expect(text([.number("-5"), .decimal("-0.5")]) == "-5,-0.5")
    }

    @Test("Lines for a terminal have nothing that it acts on, and JSON stays what it was")
    func terminalLines() throws {
        let name = "a\u{1b}\u{9b}2J\u{7f}\u{202e}\u{e0001}ü\t"
        let csv = TerminalText.escaped(Array("\(name),1\r\n".utf8), .csv)
        #expect(
            String(decoding: csv, as: UTF8.self)
                == #"a\u{1b}\u{9b}2J\u{7f}\u{202e}\u{e0001}ü\t,1"# + "\r\n")
        let line = OutputBuffer.bytes { ValueText.json.put([Field("k", .text(name))], to: $0) }
        let json = TerminalText.escaped(line, .ndjson)
        let text = String(decoding: json, as: UTF8.self)
        #expect(text == #"{"k":"a\u001b\u009b2J\u007f\u202e\udb40\udc01ü\t"}"#)
        let read = try JSONSerialization.jsonObject(with: Data(json)) as? [String: String]
        #expect(read?["k"] == name)
    }

    @Test("A table is aligned, has totals, and lets no control character through")
    func table() throws {
        let text = try Self.list(.table, Self.rows)
        let lines = text.split(separator: "\n")
        #expect(lines.count == 5)
        #expect(lines[4].hasPrefix("total of 2"))
        #expect(lines[4].contains("20000      83"))
        #expect(Set(lines.map { TerminalText.width(String($0)) }).count == 1)
        #expect(!text.contains("\u{1b}"))
        #expect(lines[1].hasPrefix(#"a,"b"\n\u{1b}[2J  shop  "#))
        #expect(!lines[0].contains("invalidImpressions"))
        #expect(lines[0].contains("undeterminedImpressions  grossClicks  refusedClicks"))
    }

    @Test(
        "measuredRate is of the impressions judged by viewability, viewableRate of the measured",
        arguments: [
            (0, 0, 0, nil, nil), (0, 0, 5, "0.0000", nil), (0, 4, 0, "1.0000", "0.0000"),
            (4, 0, 0, "1.0000", "1.0000"), (1, 2, 0, "1.0000", "0.3333"),
            (2, 1, 1, "0.7500", "0.6667"), (1, 1, 20_000, "0.0001", "0.5000"),
            (.max, .max, .max, "1.0000", "1.0000"),
        ] as [(UInt64, UInt64, UInt64, String?, String?)])
    func viewabilityRates(
        viewable: UInt64, notViewable: UInt64, undetermined: UInt64, measuredRate: String?,
        viewableRate: String?
    ) throws {
        let counters = Self.counters([
            .impressions: 100, .viewableImpressions: viewable,
            .notViewableImpressions: notViewable, .undeterminedImpressions: undetermined,
        ])
        #expect(counters.measuredRate?.description == measuredRate)
        #expect(counters.viewableRate?.description == viewableRate)
        let row = RewardRow(id: "r", businessID: "b", businessCount: 1, counters: counters)
        let text = try Self.list(.ndjson, [row])
        let expected =
            #""measuredRate":\#(measuredRate ?? "null"),"viewableRate":\#(viewableRate ?? "null"),"#
        #expect(text.contains(expected))
        let header = try #require(Self.list(.table, [row]).split(separator: "\n").first)
        let hasMeasured = viewable > 0 || notViewable > 0
        #expect(header.contains("measuredRate") == hasMeasured)
        #expect(header.contains("viewableRate") == (viewable > 0))
    }

    @Test("One answer in a table is a line for each value")
    func vertical() throws {
        let text = try Self.written { output in
            try RowFormatter(format: .table, cut: nil, output: output).one(Self.rows[0])
        }
        let lines = text.split(separator: "\n")
        #expect(lines.count == RewardRow.columns.count)
        #expect(lines[0] == "id                       a,\"b\"\\n\\u{1b}[2J")
        #expect(lines[6] == "ctr                      0.0040")
    }

    @Test("Text that turns the writing direction is escaped in a table")
    func bidirectional() {
        #expect(TerminalText.escaped("a\u{202E}b\u{7F}\u{9B}c") == "a\\u{202e}b\\u{7f}\\u{9b}c")
        #expect(TerminalText.escaped("plain ü 日") == "plain ü 日")
    }

    @Test("Rows are formatted in parts on all cores, and arrive as they do one by one")
    func pieces() throws {
        let rows = (0..<5_000).map {
            RewardRow(
                id: "r-\($0)", businessID: "b", businessCount: 1, counters: Self.counters([:]))
        }
        for format in [OutputFormat.csv, .json, .ndjson] {
            var pieces = 0
            var text: [UInt8] = []
            let output = OutputBuffer { bytes in
                pieces += 1
                text += bytes
            }
            try RowFormatter(format: format, cut: nil, output: output).list(Self.given(rows))
            try output.flush()
            #expect(pieces > 1)
            let oneByOne = try Self.written { output in
                try RowFormatter(format: format, cut: nil, output: output).list { body in
                    for row in rows { try body([row]) }
                }
            }
            #expect(String(decoding: text, as: UTF8.self) == oneByOne)
        }
    }

    @Test("Rows as bytes are those that cells make, in JSON and CSV, of every kind")
    func bytesAreCells() throws {
        var random = SeededRandom(seed: 5)
        let texts = [
            "", "plain", "a\"b\\c\n\u{1}", "x,y", "日本\r",
            String(repeating: "\u{2}", count: 128),
        ]
        let amounts: [UInt64] = [0, 1, 9, 10, 99, 1_000_000, 12_345_678, .max]
        for _ in 0..<300 {
            var row = ListedRow()
            row.id = Array(texts[Int(random.below(UInt64(texts.count)))].utf8)
            row.business = Array(texts[Int(random.below(UInt64(texts.count)))].utf8)
            row.businessCount = Int(random.below(3_000))
            row.day = Int32(random.below(30_000))
            for column in CounterColumn.allCases where random.below(2) == 0 {
                row.counters[column] = amounts[Int(random.below(UInt64(amounts.count)))]
            }
            try Self.expectCells(RewardRow(row))
            try Self.expectCells(DayRow(row))
            try Self.expectCells(RewardDayRow(row))
        }
    }

    static func expectCells<Row: OutputRow>(_ row: Row) throws {
        let names = Row.columns.map(\.name)
        let fields = zip(names, row.cells).map { Field($0, $1) }
        #expect(fields.count == names.count && row.cells.count == names.count)
        let json = OutputBuffer.bytes { ValueText.json.put(fields, to: $0) } + [0x0A]
        let csv = OutputBuffer.bytes {
            ValueText.putRecord(names, to: $0)
            ValueText.putRecord(row.cells.map(\.plainText), to: $0)
        }
        for (format, expected) in [(OutputFormat.ndjson, json), (.csv, csv)] {
            let text = try written { output in
                try RowFormatter(format: format, cut: nil, output: output)
                    .list(given([row]))
            }
            #expect(text == String(decoding: expected, as: UTF8.self))
        }
    }

    @Test("A write that fails ends the listing with its error")
    func writeFails() throws {
        struct Failed: Error {}
        let output = OutputBuffer { _ in throw Failed() }
        let row = RewardRow(
            id: "r", businessID: "b", businessCount: 1, counters: Self.counters([:]))
        var given = 0
        #expect(throws: Failed.self) {
            try RowFormatter(format: .ndjson, cut: nil, output: output).list {
                body in
                for _ in 0..<100_000 {
                    given += 1
                    try body([row])
                }
            }
        }
        #expect(given < 1_000)
    }
}
