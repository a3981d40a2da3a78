import Foundation
import IngestFormat
import TestSupport
import Testing

/// docs/format/block.md against the code, and both against the golden files.
@Suite struct BlockPageTests {
    private let page: FormatPage

    init() throws { page = try FormatPage("block") }

    @Test func `The page's sections are the code's`() {
        let rows = page.table(under: "Sections").map {
            "\($0["section"] ?? "") \($0["kind"] ?? "")"
        }
        #expect(rows == BlockSectionKind.allCases.map { "\($0.name) \($0.rawValue)" })
    }

    @Test func `The page's forms are the code's`() {
        let rows = page.table(under: "Forms").map { "\($0["form"] ?? "") \($0["code"] ?? "")" }
        #expect(rows == ColumnForm.allCases.map { "\($0) \($0.rawValue)" })
    }

    @Test func `The page's attribute bits are the code's`() {
        let flags = page.table(under: "Attributes").compactMap { row in Int(row["bits"] ?? "") }
        let bits = [
            RowAttributes.measured, RowAttributes.overflow, 1 << 10, RowAttributes.eventID,
            RowAttributes.session, RowAttributes.money,
        ]
        #expect(flags == bits.map(\.trailingZeroBitCount))
    }

    @Test func `The worked example is the golden file, byte for byte, and so is what is encoded`()
        throws
    {
        let golden = try Repository.fixture("v1/block.bin")
        let shown = page.hex(under: "Worked example")
        #expect(shown + [UInt8](repeating: 0, count: 4096 - shown.count) == golden)
        #expect(BlockContent.example.encoded() == golden)
        #expect(try BlockDecoder().decode(golden) == BlockContent.example)
    }

    /// Its bytes are those of one version of LZ4; another may find other ones for the same rows, but has
    /// to read these.
    @Test func `A golden block with compressed sections is still read`() throws {
        let golden = try Repository.fixture("v1/block-lz4.bin")
        let sections = try BlockDecoder().sections(golden.span.bytes)
        #expect(sections.filter(\.encoding.isCompressed).count >= 3)
        #expect(try BlockDecoder().decode(golden) == BlockContent.compressible)
    }
}
