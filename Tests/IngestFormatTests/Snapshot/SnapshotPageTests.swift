import Foundation
import IngestFormat
import TestSupport
import Testing

/// The format pages against the code, and those of segments, runs, names, manifests and the mark against the golden files.
struct SnapshotPageTests {
    private typealias Table = (
        page: String, heading: String, fields: [FormatField], byteCount: Int
    )

    private static let tables: [Table] = [
        ("block", "Header", BlockLayout.Header.fields, BlockLayout.headerByteCountMin),
        ("block", "Section table", BlockLayout.Section.fields, BlockLayout.sectionEntryByteCount),
        table("segment", "Header", SegmentHeader.layout),
        table("segment", "Footer", SegmentFooter.layout),
        table("segment", "Section table", SegmentFooter.SectionTable.Entry.layout),
        ("segment", "Blocks", SegmentLayout.Block.fields, SegmentLayout.Block.byteCount),
        table("segment", "Lost ranges", LostRange.layout),
        table("segment", "Trailer", SegmentTrailer.layout),
        table("run", "Metadata of an expired run", ExpiredSegments.layout),
        table("run", "Metadata of a reward-days run", SealedSegments.layout),
        table("run", "Header", RunHeader.layout),
        ("run", "Page index", CounterLayout.PageEntry.fields, CounterLayout.PageEntry.byteCount),
        table("names", "Header", NamesRun.Header.layout),
        ("names", "Page index", NamesLayout.PageEntry.fields, NamesLayout.PageEntry.byteCount),
        table("manifest", "Head", Manifest.layout),
        table("manifest", "Shard", ShardState.layout),
        table("manifest", "Totals", LogTotals.layout),
        table("manifest", "Sealed segment", SealedSegment.layout),
        table("manifest", "Run", RunEntry.layout),
        table("manifest", "Names run", NamesRunEntry.layout),
        table("manifest", "Lost range", LostRange.layout),
        table("manifest", "Unclean stop", UncleanStop.layout),
        table("durable-mark", "File", DurableMark.layout),
        table("session-keys", "File", SessionKeys.layout),
    ]

    private static func table<Value>(
        _ page: String, _ heading: String, _ layout: Layout<Value>
    ) -> Table {
        (page, heading, layout.fields, layout.byteCount)
    }

    @Test(arguments: Self.tables.indices)
    func `a page's table of fields is the code's, without gap or overlap`(index: Int) throws {
        let (page, heading, fields, byteCount) = Self.tables[index]
        #expect(try FormatPage(page).fields(under: heading) == fields, "\(page), \(heading)")
        #expect(fields.first?.offset == 0 && fields.last?.end == byteCount)
        #expect(zip(fields, fields.dropFirst()).allSatisfy { $0.end == $1.offset })
    }

    @Test func `the sections, tables and columns of the pages are the code's`() throws {
        let sections = try FormatPage("segment").table(under: "Sections")
        #expect(
            sections.map { "\($0["kind"] ?? "")" }
                == SegmentFooter.Section.allCases.map { "\($0.rawValue)" })
        let tables = try FormatPage("run").table(under: "Tables")
        #expect(
            tables.map { "\($0["table"] ?? "") \($0["code"] ?? "") \($0["day"] ?? "")" }
                == TableKind.allCases.filter { !$0.isNames }.map {
                    "\($0.name) \($0.rawValue) \($0.hasDay ? "yes" : "no")"
                })
        let columns = try FormatPage("run").table(under: "Columns")
        #expect(
            columns.map { "\($0["column"] ?? "") \($0["counter"] ?? "")" }
                == CounterColumn.allCases.map { "\($0.rawValue) \($0)" })
        let names = try FormatPage("directory").table(under: "Names").compactMap { $0["example"] }
        #expect(names.count >= 8)
        for name in names { #expect(FileName(name)?.text == name) }
    }

    private static let limits: [String: Int] = [
        "blockEventCountMax": Limits.blockEventCountMax,
        "blockNameCountMax": Limits.blockNameCountMax,
        "blockKeyCountMax": Limits.blockKeyCountMax,
        "blockSenderCountMax": Limits.blockSenderCountMax,
        "blockSequenceRangeCountMax": Limits.blockSequenceRangeCountMax,
        "blockCheckCountMax": Limits.blockCheckCountMax,
        "blockSectionCountMax": Limits.blockSectionCountMax,
        "blockCommitCountMax": Limits.blockCommitCountMax,
        "blockByteCountMax": Limits.blockByteCountMax,
        "segmentByteCountMin": Limits.segmentByteCountMin,
        "segmentByteCountMax": Limits.segmentByteCountMax,
        "segmentBlockCountMax": Limits.segmentBlockCountMax,
        "segmentRowCountMax": Limits.segmentRowCountMax,
        "segmentKeyDayCountMax": Limits.segmentKeyDayCountMax,
        "segmentSenderCountMax": Limits.segmentSenderCountMax,
        "segmentSequenceRangeCountMax": Limits.segmentSequenceRangeCountMax,
        "segmentLostRangeCountMax": Limits.segmentLostRangeCountMax,
        "footerByteCountMax": Limits.footerByteCountMax,
        "rollRowCount": Limits.rollRowCount,
        "rewriteRowCountMax": Limits.rewriteRowCountMax,
        "rollBlockCount": Limits.rollBlockCount,
        "rollNameByteCount": Limits.rollNameByteCount,
        "rollSenderCount": Limits.rollSenderCount,
        "rollSequenceRangeCount": Limits.rollSequenceRangeCount,
        "rollMoneyMicros": Int(Limits.rollMoneyMicros),
        "windowCountMax": Limits.windowCountMax,
        "windowSequenceCountMax": Limits.windowSequenceCountMax,
        "windowCheckCountMax": Limits.windowCheckCountMax,
        "checkPlaceCountMax": Limits.checkPlaceCountMax,
        "windowMissingRangeCountMax": Limits.windowMissingRangeCountMax,
        "expiredEpochCountMax": Limits.expiredEpochCountMax,
        "expiredEpochOfKeyCountMax": Limits.expiredEpochOfKeyCountMax,
        "sequenceMax": Int(Limits.sequenceMax),
        "runCountMax": Limits.runCountMax,
        "runPageRowCountMax": Limits.runPageRowCountMax,
        "runByteCountMax": Limits.runByteCountMax,
        "runRowCountMax": Limits.runRowCountMax,
        "namesRunByteCountMax": Limits.namesRunByteCountMax,
        "nameByteCountMax": Limits.nameByteCountMax,
        "nameCountMax": Limits.nameCountMax,
        "keyCountMax": Limits.keyCountMax,
        "manifestByteCountMax": Limits.manifestByteCountMax,
        "manifestLevel0CountMax": Limits.manifestLevel0CountMax,
        "manifestNamesRunCountMax": Limits.manifestNamesRunCountMax,
        "manifestLostRangeCountMax": Limits.manifestLostRangeCountMax,
        "manifestUncleanStopCountMax": Limits.manifestUncleanStopCountMax,
    ]

    @Test func `the limits of the pages are the code's, and none is on no page`() throws {
        var found: Set<String> = []
        for name in ["block", "segment", "run", "names", "manifest"] {
            let rows = try FormatPage(name).table(under: "Limits")
            #expect(!rows.isEmpty, "\(name)")
            for row in rows {
                let limit = row["limit"] ?? ""
                #expect(Int(row["value"] ?? "") == Self.limits[limit], "\(row)")
                found.insert(limit)
            }
        }
        #expect(found == Set(Self.limits.keys))
    }

    private static let block: [UInt8]? = try? Repository.fixture("v1/block.bin")

    @Test func `the worked segment is the golden file, and so is what is encoded`() throws {
        let golden = try Repository.fixture("v1/segment.bin")
        let block = try #require(Self.block)
        #expect(try GoldenFiles.segmentFile(block) == golden)
        let page = try FormatPage("segment")
        #expect(
            page.hex(under: "Worked example: header") == Array(golden[..<SegmentHeader.byteCount]))
        #expect(page.hex(under: "Worked example: footer and trailer") == Array(golden[12_288...]))
        let trailer = try SegmentTrailer.decode(
            Array(golden.suffix(64)), fileByteCount: UInt64(golden.count),
            directory: GoldenFiles.directory, segment: GoldenFiles.segment)
        #expect(
            try SegmentFooter.decode(Array(golden[12_288..<golden.count - 64]), trailer: trailer)
                == GoldenFiles.footer(block))
        #expect(try SegmentHeader.decode(golden) == GoldenFiles.header)
    }

    @Test func `the worked run is the golden file, and so is what is encoded`() throws {
        let golden = try Repository.fixture("v1/reward-days.bin")
        let run = try GoldenFiles.run(try #require(Self.block))
        #expect(run.encode() == golden)
        #expect(try FormatPage("run").hex(under: "Worked example") == golden)
        #expect(try Run.decode(golden) == run)
    }

    @Test func `the worked expired run is the golden file, and so is what is encoded`() throws {
        let golden = try Repository.fixture("v1/expired.bin")
        let run = try GoldenFiles.expired(try #require(Self.block))
        #expect(run.encode() == golden)
        #expect(try FormatPage("run").hex(under: "Worked example: an expired run") == golden)
        #expect(try Run.decode(golden, directory: GoldenFiles.directory) == run)
    }

    @Test func `the worked names run is the golden file, and so is what is encoded`() throws {
        let golden = try Repository.fixture("v1/names.bin")
        #expect(GoldenFiles.namesRun().bytes == golden)
        #expect(try FormatPage("names").hex(under: "Worked example") == golden)
        let run = try DecodedNames(golden)
        #expect(run.header.entry == GoldenFiles.namesRun().entry)
    }

    @Test func `a golden names run of several pages a kind is what is encoded`() throws {
        let golden = try Repository.fixture("v1/names-pages.bin")
        #expect(GoldenFiles.longNamesRun() == golden)
        let names = try DecodedNames(golden)
        #expect(names.header.names == 1..<1_201)
        #expect(names.names[1_199] == Array("reward-1200".utf8))
        #expect(names.header.keys == 0..<1_100)
    }

    @Test func `the worked manifest is the golden file, and so is what is encoded`() throws {
        let golden = try Repository.fixture("v1/manifest.bin")
        let manifest = try GoldenFiles.manifest(try #require(Self.block))
        #expect(manifest.encode() == golden)
        #expect(try FormatPage("manifest").hex(under: "Worked example") == golden)
        #expect(try Manifest.decode(golden) == manifest)
    }

    @Test func `the worked mark is the golden file, and so is what is encoded`() throws {
        let golden = try Repository.fixture("v1/durable-mark.bin")
        #expect(GoldenFiles.mark.encode() == golden)
        #expect(try FormatPage("durable-mark").hex(under: "Worked example") == golden)
        #expect(try DurableMark.decode(golden) == GoldenFiles.mark)
    }

    /// Their bytes are those of one version of LZ4; another may find other ones, but has to read these.
    @Test func `golden files with compressed parts are still read`() throws {
        let footer = try Repository.fixture("v1/footer-lz4.bin")
        let trailer = try SegmentTrailer.decode(
            Array(footer.suffix(64)), fileByteCount: 55_296 + UInt64(footer.count))
        let decoded = try SegmentFooter.decode(Array(footer.dropLast(64)), trailer: trailer)
        #expect(decoded == GoldenFiles.longFooter)
        #expect(footer.count < 4_000)
    }
}
