import IngestFormat
import Testing

struct BytesTests {
    @Test func `The first place of a range for which something holds is found, wherever that is`() {
        for range in [0..<0, 3..<3, 0..<1, 5..<12, 0..<100] {
            for first in range.lowerBound...range.upperBound {
                #expect(range.firstPlace { $0 >= first } == first)
            }
        }
    }

    @Test func `What the writer wrote the reader reads, in little-endian order`() {
        var writer = ByteWriter()
        writer.append(u8: 0x01)
        writer.append(bytes: [2, 3])
        writer.append(u32: 0x0706_0504)
        writer.append(u64: 0x0F0E_0D0C_0B0A_0908)
        writer.append(bytes: [9, 9])
        writer.append(zeroCount: 3)
        #expect(Array(writer.bytes[..<15]) == [UInt8](1...15))
        ByteReader.reading(writer.bytes) { reader in
            #expect(reader.readU8() == 0x01)
            #expect(reader.readArray(6) == [2, 3, 4, 5, 6, 7])
            #expect(reader.readU64() == 0x0F0E_0D0C_0B0A_0908)
            #expect(reader.readArray(2) == [9, 9])
            #expect(reader.skipZeros(4) == false)
            #expect(reader.skipZeros(3) == true)
            #expect(reader.isAtEnd)
        }
    }

    @Test func `A read past the end is nil and moves nothing`() {
        ByteReader.reading([1, 2, 3]) { reader in
            #expect(reader.readU64() == nil)
            #expect(reader.readArray(4) == nil)
            #expect(reader.readArray(-1) == nil)
            #expect(reader.skipZeros(1) == false)
            #expect(reader.seek(to: 4) == false)
            #expect(reader.seek(to: -1) == false)
            #expect(reader.offset == 0)
            #expect(reader.readU8() == 1)
            #expect(reader.seek(to: 3) == true)
            #expect(reader.readU8() == nil)
            #expect(reader.readVarint() == nil)
        }
    }

    @Test(arguments: [
        0, 1, 127, 128, 16_383, 16_384, UInt64(UInt32.max), UInt64(Int64.max), UInt64.max,
    ])
    func `A varint comes back`(value: UInt64) {
        var writer = ByteWriter()
        writer.append(varint: value)
        ByteReader.reading(writer.bytes) { reader in
            #expect(reader.readVarint() == value)
            #expect(reader.isAtEnd)
        }
        for end in 0..<writer.byteCount {
            ByteReader.reading(Array(writer.bytes[..<end])) { reader in
                #expect(reader.readVarint() == nil)
                #expect(reader.offset == 0)
            }
        }
    }

    @Test(
        arguments: [
            [0x80, 0x00],
            [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02],
            [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
        ] as [[UInt8]])
    func `A varint that is longer than it need be, or than 64 bits, is refused`(bytes: [UInt8]) {
        ByteReader.reading(bytes) { reader in #expect(reader.readVarint() == nil) }
    }

    @Test func `A patch writes over what was appended`() {
        var writer = ByteWriter()
        writer.append(zeroCount: 3)
        writer.patch(u8: 7, at: 1)
        #expect(writer.bytes == [0, 7, 0])
    }
}
