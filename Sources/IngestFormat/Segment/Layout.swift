// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

/// The fields of a record of fixed length, one behind the other: name, type, and where the value is in the record. The one
/// table from which encoder, decoder, `inspect` and the check of docs/format go.
///
/// **Cost** About 100 ns a field either way: for headers and the manifest, not for blocks and packets.
@dynamicMemberLookup
package struct Layout<Record: Sendable>: Sendable {
    /// One or two fields of one value.
    package struct Part: Sendable {
        let names: [String]
        let byteCount: Int
        let put: @Sendable (Record, [FormatField], inout FieldWriter) -> Void
        let load: @Sendable (inout Record, [FormatField], FieldReader) throws(FormatError) -> Void
    }

    package let byteCount: Int
    package let fields: [FormatField]
    private let parts: [(part: Part, fields: [FormatField])]

    package init(_ parts: Part...) {
        var end = 0
        self.parts = parts.map { part in
            let fields = part.names.map { name in
                defer { end += part.byteCount }
                return FormatField(name, end, part.byteCount)
            }
            return (part, fields)
        }
        fields = self.parts.flatMap(\.fields)
        byteCount = end
    }

    /// The field of a name in camel case.
    package subscript(dynamicMember member: String) -> FormatField {
        let index = fields.firstIndex { Self.isName($0.name, inCamelCase: member) } ?? fields.count
        precondition(index < fields.count, "no field \(member)")
        return fields[index]
    }

    /// Byte by byte: by `Character` it took 7 % of the time of a test suite that opens many files.
    private static func isName(_ name: String, inCamelCase member: String) -> Bool {
        var rest = name.utf8.makeIterator()
        for byte in member.utf8 {
            let isCapital = (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
            if isCapital && rest.next() != UInt8(ascii: " ") { return false }
            if rest.next() != (isCapital ? byte | 0x20 : byte) { return false }
        }
        return rest.next() == nil
    }

    /// Appends the record's image.
    func append(_ record: Record, to writer: inout FieldWriter) {
        writer.begin(byteCount)
        put(record, to: &writer)
    }

    /// Puts the record into the image that was begun last.
    func put(_ record: Record, to writer: inout FieldWriter) {
        for (part, fields) in parts { part.put(record, fields, &writer) }
    }

    /// The record of the next image.
    /// - Parameter blank: any record; all that the table names is replaced.
    func next(_ reader: inout FieldReader, into blank: Record) throws(FormatError) -> Record {
        try reader.begin(byteCount)
        return try load(reader, into: blank)
    }

    /// The record of the image that was begun last.
    /// **Errors** `corrupt` for a value out of its range, and for reserved bytes that are not zero.
    func load(_ reader: FieldReader, into blank: Record) throws(FormatError) -> Record {
        try reader.expectZeros(fields)
        var record = blank
        for (part, fields) in parts { try part.load(&record, fields, reader) }
        return record
    }

    /// The record whose image `bytes` begins with.
    /// **Errors** `torn`, `corrupt`; magic, checksum and what is derived are the caller's to check.
    package func record(at bytes: [UInt8], into blank: Record) throws(FormatError) -> Record {
        var reader = FieldReader(bytes)
        return try next(&reader, into: blank)
    }

    /// The record's image by itself.
    package func image(of record: Record) -> [UInt8] {
        var writer = FieldWriter()
        append(record, to: &writer)
        return writer.bytes
    }

    /// The names and values of all fields of an image but the reserved ones, as they are stored.
    package func values(in image: [UInt8]) -> [(name: String, value: UInt64)] {
        var reader = FieldReader(image)
        do { try reader.begin(byteCount) } catch { return [] }
        return fields.filter { !$0.isReserved && $0.byteCount <= 8 }
            .map { ($0.name, reader.load($0)) }
    }
}

extension Layout.Part {
    /// An integer, as long as its type is.
    package static func int<Value: FixedWidthInteger & Sendable>(
        _ name: String, _ path: any WritableKeyPath<Record, Value> & Sendable,
        in range: ClosedRange<UInt64> = 0...UInt64.max
    ) -> Self {
        Self(names: [name], byteCount: MemoryLayout<Value>.size) { record, fields, writer in
            writer.put(record[keyPath: path], fields[0])
        } load: { (record, fields, reader) throws(FormatError) in
            record[keyPath: path] = Value(
                truncatingIfNeeded: try reader.load(fields[0], in: range))
        }
    }

    /// An integer that has a type of its own.
    package static func id<ID: RawRepresentable & Sendable>(
        _ name: String, _ path: any WritableKeyPath<Record, ID> & Sendable,
        in range: ClosedRange<UInt64> = 0...UInt64.max
    ) -> Self where ID.RawValue: FixedWidthInteger {
        Self(names: [name], byteCount: MemoryLayout<ID.RawValue>.size) { record, fields, writer in
            writer.put(record[keyPath: path].rawValue, fields[0])
        } load: { (record, fields, reader) throws(FormatError) in
            let raw = ID.RawValue(truncatingIfNeeded: try reader.load(fields[0], in: range))
            guard let value = ID(rawValue: raw) else {
                throw reader.corrupt(fields[0], .atMost(range.upperBound))
            }
            record[keyPath: path] = value
        }
    }

    /// A range of ordinals in two fields: the first, and the one behind the last.
    package static func range(
        _ first: String, _ next: String,
        _ path: any WritableKeyPath<Record, Range<UInt32>> & Sendable, max: Int
    ) -> Self {
        Self(names: [first, next], byteCount: 4) { record, fields, writer in
            writer.put(record[keyPath: path].lowerBound, fields[0])
            writer.put(record[keyPath: path].upperBound, fields[1])
        } load: { (record, fields, reader) throws(FormatError) in
            record[keyPath: path] = try reader.range(fields[0], fields[1], max: max)
        }
    }

    /// Bytes of a fixed number.
    package static func bytes(
        _ name: String, _ path: any WritableKeyPath<Record, [UInt8]> & Sendable, _ byteCount: Int
    ) -> Self {
        Self(names: [name], byteCount: byteCount) { record, fields, writer in
            writer.put(bytes: record[keyPath: path], fields[0])
        } load: { (record, fields, reader) throws(FormatError) in
            record[keyPath: path] = reader.array(fields[0])
        }
    }

    /// Counts by code, with room for further codes, whose counts are 0.
    package static func counts(
        _ name: String, _ path: any WritableKeyPath<Record, [UInt64]> & Sendable, room: Int
    ) -> Self {
        Self(names: [name], byteCount: 8 * room) { record, fields, writer in
            for (code, count) in record[keyPath: path].enumerated() {
                writer.put(count, FormatField(name, fields[0].offset + 8 * code, 8))
            }
        } load: { (record, fields, reader) throws(FormatError) in
            for code in 0..<room {
                let place = FormatField(name, fields[0].offset + 8 * code, 8)
                if code < record[keyPath: path].count {
                    record[keyPath: path][code] = reader.load(place)
                } else {
                    try reader.expect(place, 0)
                }
            }
        }
    }

    /// What follows from other fields; the decoder of the record checks it.
    package static func derived(
        _ name: String, _ byteCount: Int, _ value: @escaping @Sendable (Record) -> UInt64
    ) -> Self {
        Self(names: [name], byteCount: byteCount) { record, fields, writer in
            writer.put(value(record), fields[0])
        } load: { (_, _, _) throws(FormatError) in
        }
    }

    /// Zeros. - Parameter name: begins with "reserved".
    package static func reserved(_ byteCount: Int, _ name: String = "reserved") -> Self {
        derived(name, byteCount) { _ in 0 }
    }

    /// A field of the envelope, which `FileEnvelope` writes and checks.
    private static func envelope(_ field: FormatField) -> Self {
        Self(names: [field.name], byteCount: field.byteCount) { _, _, _ in
        } load: { (_, _, _) throws(FormatError) in
        }
    }
    package static var magic: Self { envelope(FileEnvelope.magicField) }
    package static var version: Self { envelope(FileEnvelope.versionField) }
    package static var checksum: Self { envelope(FileEnvelope.checksumField(4)) }
}

extension Layout {
    /// The image of a header, with magic, version and checksum.
    func encode(_ record: Record, magic: UInt32) -> [UInt8] {
        var writer = FileEnvelope.begin(magic, byteCount)
        put(record, to: &writer)
        return FileEnvelope.finish(&writer)
    }

    /// Begins a header that may be followed by more; identities are checked before anything else is.
    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - others: what else tells whose file it is; `nil` = any.
    func open(
        _ bytes: [UInt8], magic: UInt32, of directory: DirectoryID?,
        _ others: (FormatField, UInt64?)...
    ) throws(FormatError) -> FieldReader {
        let reader = try FileEnvelope.open(bytes, magic: magic, byteCount: byteCount)
        try reader.identify(self.directory, directory?.rawValue)
        for (field, value) in others { try reader.identify(field, value) }
        return reader
    }
}

/// What the fixed headers and trailers of all files but blocks have in common, checked in one place.
///
/// **Layout** magic u32 and version u16 at the start, CRC-32C of all before it in the last 4 bytes. A later
/// version keeps these places, so that an older reader can tell a newer file from a damaged one.
package enum FileEnvelope {
    /// The version that all files are written in.
    package static let version: UInt16 = 1
    package static let magicField = FormatField("magic", 0, 4)
    package static let versionField = FormatField("version", 4, 2)

    package static let checksumByteCount = 4

    /// The checksum field of an image of `byteCount` bytes.
    package static func checksumField(_ byteCount: Int) -> FormatField {
        FormatField("checksum", byteCount - checksumByteCount, checksumByteCount)
    }

    /// Begins an image with magic and version.
    static func begin(_ magic: UInt32, _ byteCount: Int) -> FieldWriter {
        var writer = FieldWriter(capacity: byteCount)
        writer.begin(byteCount)
        writer.put(magic, magicField)
        writer.put(version, versionField)
        return writer
    }

    /// Ends an image that was begun: the checksum of all before it, as the last four bytes.
    static func finish(_ writer: inout FieldWriter) -> [UInt8] {
        let byteCount = writer.bytes.count
        let checksum = Checksum.crc32c(writer.bytes.dropLast(4))
        var bytes = writer.bytes
        for i in 0..<4 {
            bytes[byteCount - 4 + i] = UInt8(truncatingIfNeeded: checksum >> UInt32(8 * i))
        }
        return bytes
    }

    /// Checks length, magic, checksum and version, and begins the image.
    /// - Parameter byteCount: of the image; more bytes may follow.
    /// **Errors** `torn` if there are fewer; `notThisFile` for another magic; `corrupt` for a wrong
    /// checksum; `newerFormat` for a version that only a later release can have written.
    static func open(
        _ bytes: [UInt8], magic: UInt32, byteCount: Int
    ) throws(FormatError) -> FieldReader {
        var reader = FieldReader(bytes)
        try reader.begin(byteCount)
        try reader.identify(magicField, magic)
        let field = checksumField(byteCount)
        let computed = Checksum.crc32c(bytes[..<field.offset])
        try reader.expect(field, computed)
        let found = reader.u16(versionField)
        guard found <= version else {
            throw .newerFormat("version", at: 4, got: found, expected: .atMost(version))
        }
        try reader.expect(versionField, version)
        return reader
    }
}
