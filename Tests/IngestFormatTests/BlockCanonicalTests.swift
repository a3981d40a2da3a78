import Testing

@testable import IngestFormat

/// A column has one form of bytes: all others for the same values are refused, each by a check of its own.
@Suite struct BlockCanonicalTests {
    /// The bytes of a column of up to 8 values, made by hand.
    private struct Column {
        var form: ColumnForm
        var exponent = 0
        var parameter: Int
        var count: Int
        var bytes: [UInt8]
        var domain: ClosedRange<Int64> = (.min)...(.max)

        /// The values, or the field that was refused.
        func decoded() -> ([Int64], String) {
            var values = [Int64](repeating: 0, count: count)
            let refused: String = bytes.withUnsafeBytes { buffer in
                values.withUnsafeMutableBufferPointer { target in
                    let source = ColumnSource(
                        bytes: buffer.baseAddress!, byteCount: buffer.count,
                        encoding: SectionEncoding(form, exponent: exponent), parameter: parameter,
                        count: count, domain: domain, name: "column", offset: 0)
                    do throws(FormatError) {
                        _ = try ColumnDecoder().decode(source, into: target.baseAddress!)
                        return ""
                    } catch {
                        return error.fault.field
                    }
                }
            }
            return (values, refused)
        }
    }

    private func bytes(_ value: Int64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: value >> Int64(8 * $0)) }
    }

    // 10, 11, 13: base 10, quotients 0, 1, 3 of two bits.
    private var packed: Column {
        Column(form: .packed, parameter: 2, count: 3, bytes: bytes(10) + [0b11_01_00])
    }

    // 10, 13, 10, 12: entries 0, 3, 2 of two bits, codes 0, 1, 0, 2.
    private var dictionary: Column {
        Column(
            form: .dictionary, parameter: 2, count: 4,
            bytes: bytes(10) + [3, 0, 2, 0, 0b10_11_00, 0b10_00_01_00])
    }

    // 10, 30, 31, 99: window at 20, codes 0, 0, 1, 0; exceptions 0 and 89 of 7 bits at 0 and 3.
    private var patched: Column {
        Column(
            form: .patched, parameter: 1, count: 4,
            bytes: bytes(10) + bytes(20) + [2, 0, 7, 0, 0, 0, 3, 0, 0x80, 0x2c, 0b0100])
    }

    @Test func `The columns made by hand are good`() {
        #expect(packed.decoded() == ([10, 11, 13], ""))
        #expect(dictionary.decoded() == ([10, 13, 10, 12], ""))
        #expect(patched.decoded() == ([10, 30, 31, 99], ""))
    }

    private func expect(
        _ column: Column, _ field: String, _ place: SourceLocation = #_sourceLocation,
        after change: (inout Column) -> Void
    ) {
        var column = column
        change(&column)
        #expect(column.decoded().1 == "column: \(field)", sourceLocation: place)
    }

    @Test func `A packed column in another form is refused`() {
        expect(packed, "padding bits") { $0.bytes[8] |= 0x40 }
        expect(packed, "least quotient") { $0.bytes[8] = 0b11_01_10 }
        expect(packed, "width") { $0.bytes[8] = 0b01_01_00 }
        expect(packed, "width") { $0.parameter = 0 }
        expect(packed, "width") { $0.parameter = 65 }
        expect(packed, "raw byte count") { $0.bytes.append(0) }
        expect(packed, "raw byte count") { $0.bytes.removeLast() }
        expect(packed, "raw byte count") { $0.bytes.removeLast(2) }
        expect(packed, "exponent of ten") { $0.exponent = 7 }
        expect(packed, "encoding") { $0.form = .raw }
    }

    @Test func `A constant in another form is refused`() {
        let constant = Column(form: .constant, parameter: 0, count: 3, bytes: bytes(7))
        #expect(constant.decoded() == ([7, 7, 7], ""))
        expect(constant, "parameter") { $0.parameter = 1 }
        expect(constant, "exponent of ten") { $0.exponent = 1 }
        expect(constant, "raw byte count") { $0.bytes.append(0) }
    }

    @Test func `A dictionary in another form is refused`() {
        expect(dictionary, "reserved") { $0.bytes[11] = 1 }
        expect(dictionary, "padding bits") { $0.bytes[12] |= 0x80 }
        expect(dictionary, "least quotient") { $0.bytes[12] = 0b10_11_01 }
        expect(dictionary, "entry width") { $0.bytes[12] = 0b01_01_00 }
        expect(dictionary, "entry width") { $0.bytes[10] = 33 }
        expect(dictionary, "entry width") { $0.bytes[10] = 0 }
        expect(dictionary, "entry count") { $0.bytes[8] = 5 }
        expect(dictionary, "entry count") { $0.bytes[8] = 1 }
        expect(dictionary, "entry count") { $0.count = 1 }
        expect(dictionary, "code width") { $0.parameter = 3 }
        expect(dictionary, "order of codes") { $0.bytes[13] = 0b01_00_10_00 }
        expect(dictionary, "entries in use") { $0.bytes[13] = 0b11_10_01_00 }
        expect(dictionary, "entries in use") { $0.bytes[13] = 0b01_00_01_00 }
        expect(dictionary, "raw byte count") { $0.bytes.removeLast(3) }
        var odd = dictionary
        odd.count = 3
        odd.bytes[13] = 0b10_01_00
        #expect(odd.decoded().1 == "")
        expect(odd, "padding bits") { $0.bytes[13] |= 0x40 }
    }

    @Test func `A patched column in another form is refused`() {
        expect(patched, "reserved") { $0.bytes[19] = 1 }
        expect(patched, "exception count") { $0.bytes[16] = 0 }
        expect(patched, "exception count") { $0.bytes[16] = 5 }
        expect(patched, "exception width") { $0.bytes[18] = 65 }
        expect(patched, "exception width") { $0.bytes[25] = 0x0c }
        expect(patched, "width") { $0.parameter = 64 }
        expect(patched, "width") { $0.bytes[26] = 0 }
        expect(patched, "padding bits") { $0.bytes[26] |= 0x10 }
        expect(patched, "padding bits") { $0.bytes[25] |= 0x80 }
        expect(patched, "position") { $0.bytes[22] = 0 }
        expect(patched, "position") { $0.bytes[22] = 4 }
        expect(patched, "position") { ($0.bytes[20], $0.bytes[22]) = (3, 0) }
        expect(patched, "code of an exception") { $0.bytes[22] = 2 }
        expect(patched, "codes of 0") { $0.bytes[26] = 0b0110 }
        expect(patched, "least quotient") { $0.bytes[24] |= 1 }
        expect(patched, "window") { for i in 8..<16 { $0.bytes[i] = 0xff } }
        expect(patched, "raw byte count") { $0.bytes.append(0) }
        expect(patched, "raw byte count") { $0.bytes.removeLast(8) }
    }

    @Test func `Values outside the domain are refused, also where their sum is beyond 64 bits`() {
        expect(packed, "value") { $0.domain = 11...20 }
        expect(packed, "value") { $0.domain = 0...12 }
        expect(packed, "value") { $0.domain = 0...9 }
        expect(packed, "value") { $0.bytes.replaceSubrange(0..<8, with: self.bytes(.max - 2)) }
        var wide = packed
        (wide.parameter, wide.count) = (64, 2)
        wide.bytes = bytes(.min) + bytes(0) + bytes(-1)
        #expect(wide.decoded() == ([.min, .max], ""))
        expect(wide, "value") { $0.exponent = 1 }
        expect(wide, "value") { $0.bytes[0] = 1 }
    }
}
