import IngestFormat
import TestSupport
import Testing

private let head = SegmentHeader.layout
private let tail = SegmentTrailer.layout

/// Header and trailer of a segment: the fixed parts.
struct SegmentEnvelopeTests {
    static let header = SegmentHeader(
        directory: DirectoryID(rawValue: 0x0102_0304_0506_0708), shard: 0,
        segment: SegmentNumber(rawValue: 42), createdAt: 1_795_000_000_000_000,
        previousChecksum: 0xDEAD_BEEF, firstName: NameOrdinal(rawValue: 17),
        firstKey: KeyOrdinal(rawValue: 5), commitEpoch: 99_000)

    private static let trailer = SegmentTrailer(
        directory: header.directory, segment: header.segment, footerOffset: 65_536,
        footerByteCount: 4_096, footerChecksum: 0xCAFE_F00D)

    private static func decodeTrailer(_ bytes: [UInt8]) throws -> SegmentTrailer {
        try SegmentTrailer.decode(bytes, fileByteCount: trailer.fileByteCount)
    }

    @Test func `header and trailer come back as they were written`() throws {
        let bytes = Self.header.encode()
        #expect(bytes.count == 192)
        #expect(
            try SegmentHeader.decode(
                bytes + [1, 2, 3], directory: Self.header.directory, segment: Self.header.segment)
                == Self.header)
        #expect(Self.trailer.encode().count == 64)
        #expect(try Self.decodeTrailer(Self.trailer.encode()) == Self.trailer)
        #expect(Self.trailer.fileByteCount == 65_536 + 4_096 + 64)
    }

    @Test func `every flipped bit and every cut is seen`() {
        let header = Self.header.encode()
        #expect(Damage.unseenFlips(header) { _ = try SegmentHeader.decode($0) } == [])
        #expect(Damage.unseenCuts(header) { _ = try SegmentHeader.decode($0) } == [])
        let trailer = Self.trailer.encode()
        #expect(Damage.unseenFlips(trailer) { _ = try Self.decodeTrailer($0) } == [])
        #expect(Damage.unseenCuts(trailer) { _ = try Self.decodeTrailer($0) } == [])
    }

    @Test(arguments: [
        (head.magic, 0x1234, "notThisFile magic"),
        (head.version, 2, "newerFormat version"),
        (head.version, 0, "corrupt version"),
        (head.segment, 0, "corrupt segment"),
        (head.segment, 43, "notThisFile segment"),
        (head.directory, 1, "notThisFile directory"),
        (head.firstName, 0, "corrupt first name"),
        (head.firstName, UInt64(Limits.nameCountMax) + 2, "corrupt first name"),
        (head.firstKey, UInt64(Limits.keyCountMax) + 1, "corrupt first key"),
        (head.reserved, 1, "corrupt reserved"),
        (head.policyFlags, 16, "corrupt policy flags"),
        (head.ageMax, 1 << 63, "corrupt age max"),
    ])
    func `a header field that cannot be is refused although the checksum fits`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let bytes = Self.header.encode().with(field, value).sealed(SegmentHeader.byteCount)
        let error = Damage.error {
            let segment = value == 0 ? nil : SegmentNumber(rawValue: 42)
            _ = try SegmentHeader.decode(
                bytes, directory: Self.header.directory, segment: segment)
        }
        #expect(error?.summary == expected)
    }

    @Test(arguments: [
        (tail.magic, 0x1234, "notThisFile magic"),
        (tail.version, 9, "newerFormat version"),
        (tail.segment, 1, "notThisFile segment"),
        (tail.directory, 1, "notThisFile directory"),
        (tail.footerOffset, 127, "corrupt footer offset"),
        (tail.footerOffset, UInt64.max, "corrupt footer offset"),
        (tail.footerByteCount, 4_095, "corrupt footer byte count"),
        (tail.footerByteCount, UInt64.max - 65_535, "corrupt footer byte count"),
        (tail.reserved, 1, "corrupt reserved"),
        (tail.reservedEnd, 1, "corrupt reserved end"),
    ])
    func `a trailer field that cannot be is refused although the checksum fits`(
        field: FormatField, value: UInt64, expected: String
    ) {
        let bytes = Self.trailer.encode().with(field, value).sealed(64)
        let error = Damage.error {
            _ = try SegmentTrailer.decode(
                bytes, fileByteCount: Self.trailer.fileByteCount,
                directory: Self.header.directory, segment: Self.header.segment)
        }
        #expect(error?.summary == expected)
    }

    @Test func `a trailer is held against the file's length`() {
        for byteCount in [0, 63, 64, 192, Self.trailer.fileByteCount - 1, .max] as [UInt64] {
            let error = Damage.error {
                _ = try SegmentTrailer.decode(Self.trailer.encode(), fileByteCount: byteCount)
            }
            #expect(error?.summary == "corrupt footer byte count")
        }
    }
}
