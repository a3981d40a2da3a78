import IngestFormat
import TestSupport
import Testing

private let field = RunHeader.layout

struct RunTests {
    private static let run = ManifestExample.run

    /// All that a reader checks of a run.
    private static func read(_ bytes: [UInt8]) throws {
        let run = try Run.decode(bytes)
        _ = try CounterModel(run.counters.makeCursor())
    }

    @Test func `a run comes back as it was written`() throws {
        let bytes = Self.run.encode()
        let found = try Run.decode(
            bytes, directory: ManifestExample.directory, table: .rewardDays,
            fileNumber: FileNumber(rawValue: 33))
        #expect(found == Self.run)
        #expect(found.header.fileByteCount == UInt64(bytes.count))
        var model = CounterModel()
        model.add(SegmentExample.rows)
        #expect(try CounterModel(found.counters.makeCursor()) == model)
    }

    @Test(arguments: TableKind.counterTables, [0, 1, 5_000])
    func `runs of every table and size come back`(table: TableKind, rowCount: Int) throws {
        let model = CounterTableTests.model(rowCount, hasDay: table.hasDay, seed: 4)
        let counters = model.table(hasDay: table.hasDay)
        let header = RunHeader(
            table: table, fileNumber: FileNumber(rawValue: .max),
            directory: ManifestExample.directory, span: ManifestExample.span,
            generation: Generation(rawValue: .max), createdAt: .min, index: counters.index)
        let run = Run(header: header, counters: counters)
        let found = try Run.decode(run.encode())
        #expect(found == run)
        #expect(try CounterModel(found.counters.makeCursor()) == model)
        #expect(found.header.entry == header.entry)
        #expect(header.entry.checksum == Checksum.crc32c(header.encode()[..<124]))
    }

    @Test func `every flipped bit and every cut of a run is seen`() {
        let bytes = Self.run.encode()
        #expect(Damage.unseenFlips(bytes, Self.read) == [])
        #expect(Damage.unseenCuts(bytes, Self.read) == [])
        #expect(Damage.error { try Self.read(bytes + [0]) }?.summary == "corrupt file byte count")
    }

    @Test(arguments: [
        (field.magic, 1, "notThisFile magic"),
        (field.version, 2, "newerFormat version"),
        (field.version, 0, "corrupt version"),
        (field.table, 1, "notThisFile table"),
        (field.directory, 1, "notThisFile directory"),
        (field.fileNumber, 1, "notThisFile file number"),
        (field.firstSegment, 0, "corrupt first segment"),
        (field.firstSegment, 8, "corrupt first segment"),
        (field.lastSegment, 0, "corrupt last segment"),
        (field.lastBlockCount, 1 << 20, "corrupt last block count"),
        (field.rowCount, UInt64.max, "corrupt row count"),
        (field.rowCount, 4, "corrupt row count"),
        (field.pageCount, 4, "corrupt page count"),
        (field.pageIndexOffset, 100, "corrupt page index offset"),
        (field.pageIndexOffset, UInt64.max, "corrupt page index offset"),
        (field.fileByteCount, 5, "corrupt file byte count"),
        (field.pageIndexChecksum, 5, "corrupt page index checksum"),
        (field.metadataByteCount, 1, "corrupt metadata raw byte count"),
        (field.metadataByteCount, UInt64(UInt32.max), "corrupt metadata byte count"),
        (field.metadataRawByteCount, 1, "corrupt metadata raw byte count"),
        (field.metadataEncoding, 2, "corrupt metadata encoding"),
        (field.reserved, 1, "corrupt reserved"),
        (field.reservedEnd, 1, "corrupt reserved end"),
    ])
    func `a header field that cannot be is refused although the checksum fits`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let bytes = Self.run.encode().with(field, value).sealed(128)
        let error = Damage.error {
            _ = try Run.decode(
                bytes, directory: ManifestExample.directory, table: .rewardDays,
                fileNumber: FileNumber(rawValue: 33))
        }
        #expect(error?.summary == expected)
    }

    @Test(arguments: [0, 5, 255] as [UInt64])
    func `a table that no run holds is refused`(table: UInt64) {
        let bytes = Self.run.encode().with(field.table, table).sealed(128)
        #expect(Damage.error { try Self.read(bytes) }?.summary == "corrupt table")
    }
}
