// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

// Images of fixed layouts, written and read field by field, as the tables of `FormatField` say.

/// Writes images one behind the other.
struct FieldWriter {
    private(set) var bytes: [UInt8] = []
    private var start = 0

    init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

    /// Goes on with an image that is there already.
    init(image: [UInt8]) { bytes = image }

    /// Begins an image of `byteCount` bytes, all of them zero, behind what is there.
    mutating func begin(_ byteCount: Int) {
        start = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: byteCount))
    }

    /// Writes a value's low bytes into a field of the image that was begun last.
    mutating func put(_ value: some FixedWidthInteger, _ field: FormatField) {
        let bits = UInt64(truncatingIfNeeded: value)
        for i in 0..<field.byteCount {
            bytes[start + field.offset + i] = UInt8(truncatingIfNeeded: bits >> UInt64(8 * i))
        }
    }

    /// Writes bytes into a field of their length.
    mutating func put(bytes more: [UInt8], _ field: FormatField) {
        precondition(more.count == field.byteCount)
        let place = start + field.offset
        bytes.replaceSubrange(place..<place + more.count, with: more)
    }

    /// Appends bytes that no table of fields describes.
    mutating func append(_ more: [UInt8]) { bytes.append(contentsOf: more) }
}

/// Reads the fields of images one behind the other, and throws where a value cannot be: a checksum tells
/// chance from intent, not sense from nonsense.
///
/// **Errors** `torn` where an image is not all there, `corrupt` where a value is out of its range,
/// `notThisFile` where an identity is another's; offsets are from the first byte of all.
struct FieldReader {
    let bytes: [UInt8]
    private(set) var start = 0
    private(set) var end = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Begins the image of `byteCount` bytes that lies behind the last one.
    mutating func begin(_ byteCount: Int) throws(FormatError) {
        guard byteCount <= bytes.count - end else {
            throw .torn("byte count", at: end, available: bytes.count, needed: end + byteCount)
        }
        start = end
        end += byteCount
    }

    /// The value of a field of the image that was begun last, zero-extended.
    func load(_ field: FormatField) -> UInt64 {
        precondition(field.byteCount <= 8 && field.end <= end - start)
        var bits: UInt64 = 0
        for i in 0..<field.byteCount {
            bits |= UInt64(bytes[start + field.offset + i]) << UInt64(8 * i)
        }
        return bits
    }

    func u16(_ field: FormatField) -> UInt16 { UInt16(truncatingIfNeeded: load(field)) }
    func u32(_ field: FormatField) -> UInt32 { UInt32(truncatingIfNeeded: load(field)) }
    func i64(_ field: FormatField) -> Int64 { Int64(bitPattern: load(field)) }

    func array(_ field: FormatField) -> [UInt8] {
        Array(bytes[start + field.offset..<start + field.end])
    }

    /// A value inside `range`.
    func load(
        _ field: FormatField, in range: ClosedRange<UInt64>
    ) throws(FormatError) -> UInt64 {
        let found = load(field)
        if found < range.lowerBound {
            throw corrupt(field, .atLeast(range.lowerBound))
        }
        if found > range.upperBound {
            throw corrupt(field, .atMost(range.upperBound))
        }
        return found
    }

    /// A count that is 0 … `max`: to be asked for before memory is taken for what it counts.
    func count(_ field: FormatField, max: Int) throws(FormatError) -> Int {
        Int(try load(field, in: 0...UInt64(max)))
    }

    /// A field that has one possible value.
    func expect(
        _ field: FormatField, _ value: some FixedWidthInteger
    ) throws(FormatError) {
        let wanted = UInt64(truncatingIfNeeded: value)
        if load(field) != wanted { throw corrupt(field, .exactly(wanted)) }
    }

    /// A field that says whose bytes these are; `nil` = anybody's.
    func identify(
        _ field: FormatField, _ value: (some FixedWidthInteger)?
    ) throws(FormatError) {
        guard let value, load(field) != UInt64(truncatingIfNeeded: value) else { return }
        throw .notThisFile(
            field.name, at: start + field.offset, got: load(field), expected: .exactly(value))
    }

    /// A range of ordinals from two fields, lower bound and end; both 0 … `max`, in order.
    func range(
        _ lower: FormatField, _ upper: FormatField, max: Int
    ) throws(FormatError) -> Range<UInt32> {
        let end = try load(upper, in: 0...UInt64(max))
        let first = try load(lower, in: 0...end)
        return UInt32(first)..<UInt32(end)
    }

    /// A stretch of the log from its first segment, its last one, and how many of that one's blocks.
    func span(
        _ first: FormatField, last: FormatField, blockCount: FormatField
    ) throws(FormatError) -> LogSpan {
        let end = try load(last, in: 1...UInt64(UInt32.max))
        let start = try load(first, in: 1...end)
        let blocks = try count(blockCount, max: Limits.segmentBlockCountMax)
        return LogSpan(
            firstSegment: SegmentNumber(rawValue: UInt32(start)),
            end: LogPosition(
                segment: SegmentNumber(rawValue: UInt32(end)), blockCount: UInt32(blocks)))
    }

    /// All reserved fields of a table, of any length: zero, or it is corrupt.
    func expectZeros(_ fields: [FormatField]) throws(FormatError) {
        for field in fields where field.isReserved {
            for place in start + field.offset..<start + field.end where bytes[place] != 0 {
                throw .corrupt(field.name, at: place, got: bytes[place], expected: .exactly(0))
            }
        }
    }

    func corrupt(_ field: FormatField, _ expected: FormatFault.Expectation) -> FormatError {
        .corrupt(field.name, at: start + field.offset, got: load(field), expected: expected)
    }
}

extension FormatField {
    /// Reserved fields are zero and are checked to be.
    var isReserved: Bool { name.hasPrefix("reserved") }
}

/// One fixed field of a header: where it stands and how many bytes it has. The tables of these are what
/// encoders and decoders go by, and what a test holds against the tables of `docs/format/*.md`.
package struct FormatField: Hashable, Sendable {
    package let name: String
    package let offset: Int
    package let byteCount: Int

    package init(_ name: String, _ offset: Int, _ byteCount: Int) {
        self.name = name
        self.offset = offset
        self.byteCount = byteCount
    }

    package var end: Int { offset + byteCount }
}
