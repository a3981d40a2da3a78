// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Names and keys of a range of ordinals in a file of their own, so that they outlive their segments.
///
/// **Layout** docs/format/names.md: a fixed header of 128 bytes, pages of up to 1024 names, pages of up to
/// 1024 keys, the page index. A name of no bytes and a key without names stand for ordinals that were lost
/// with their block.
package struct NamesRun: Hashable, Sendable {
    package let header: Header
    package var names: Range<UInt32> { header.names }
    package var keys: Range<UInt32> { header.keys }
    private let nameBytes: [UInt8]
    /// End of each name in `nameBytes`; it starts where the one before ends.
    private let nameEnds: [UInt32]
    private let pairs: [RewardKey]

    /// The bytes of a name; empty for one that was lost.
    /// - Parameter ordinal: in `names`.
    package func name(_ ordinal: NameOrdinal) -> ArraySlice<UInt8> {
        precondition(names.contains(ordinal.rawValue))
        let place = Int(ordinal.rawValue - names.lowerBound)
        let start = place == 0 ? 0 : Int(nameEnds[place - 1])
        return nameBytes[start..<Int(nameEnds[place])]
    }

    /// The names of a key; `nil` for one that was lost.
    /// - Parameter ordinal: in `keys`.
    package func key(_ ordinal: KeyOrdinal) -> RewardKey? {
        precondition(keys.contains(ordinal.rawValue))
        let pair = pairs[Int(ordinal.rawValue - keys.lowerBound)]
        return pair.reward == .none ? nil : pair
    }

    /// What is shown for a name or key that was lost with its block.
    package static func lostText(_ ordinal: UInt32) -> String { "(lost:\(ordinal))" }

    /// Checks and decodes a whole names run.
    /// - Parameters:
    ///   - directory: the directory that the file lies in; `nil` = any.
    ///   - fileNumber: the one in the file's name; `nil` = any.
    /// **Errors** those of `Header.decode`; `torn` for fewer bytes than the header says; else `corrupt`.
    /// **Cost** The memory of the names, and 12 bytes a name or key.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, fileNumber: FileNumber? = nil
    ) throws(FormatError) -> NamesRun {
        let header = try Header.decode(bytes, directory: directory, fileNumber: fileNumber)
        let pages = try NamesPages(bytes, header: header)
        var nameBytes: [UInt8] = []
        var nameEnds: [UInt32] = []
        nameEnds.reserveCapacity(header.names.count)
        for page in 0..<header.namePageCount {
            try pages.appendNames(ofPage: page, to: &nameBytes, ends: &nameEnds)
        }
        var pairs: [RewardKey] = []
        pairs.reserveCapacity(header.keys.count)
        for page in 0..<header.keyPageCount {
            try pages.appendKeys(ofPage: page, to: &pairs)
        }
        return NamesRun(header: header, nameBytes: nameBytes, nameEnds: nameEnds, pairs: pairs)
    }
}

extension NamesRun {
    package struct Header: Hashable, Sendable {
        package static let byteCount = NamesLayout.Header.byteCount

        package let fileNumber: FileNumber
        package let directory: DirectoryID
        package let names: Range<UInt32>
        package let keys: Range<UInt32>
        /// Generation and time that it was made for; microseconds since 1970 UTC.
        package let generation: Generation
        package let createdAt: Int64
        package internal(set) var pageIndexOffset = UInt64(byteCount)
        /// CRC-32C of the page index, which holds that of each page.
        package internal(set) var pageIndexChecksum: UInt32 = 0

        package var namePageCount: Int { Self.pageCount(names.count) }
        package var keyPageCount: Int { Self.pageCount(keys.count) }
        package var pageIndexByteCount: Int {
            (namePageCount + keyPageCount) * NamesLayout.PageEntry.byteCount
        }
        /// Of the whole file.
        package var fileByteCount: UInt64 { pageIndexOffset + UInt64(pageIndexByteCount) }
        /// The checksum at the header's end, and so, by the index, of the whole file: what the manifest
        /// holds.
        package var checksum: UInt32 { Checksum.crc32c(encode().dropLast(4)) }

        package var entry: NamesRunEntry {
            NamesRunEntry(
                fileNumber: fileNumber, byteCount: fileByteCount, checksum: checksum, names: names,
                keys: keys)
        }

        private static func pageCount(_ count: Int) -> Int {
            (count + NamesLayout.pageCapacity - 1) / NamesLayout.pageCapacity
        }

        private typealias Field = NamesLayout.Header

        package func encode() -> [UInt8] {
            var writer = FileEnvelope.begin(Field.magicNumber, Field.byteCount)
            writer.put(names.lowerBound, Field.firstName)
            writer.put(names.upperBound, Field.nextName)
            writer.put(keys.lowerBound, Field.firstKey)
            writer.put(keys.upperBound, Field.nextKey)
            writer.put(directory.rawValue, Field.directory)
            writer.put(fileNumber.rawValue, Field.fileNumber)
            writer.put(generation.rawValue, Field.generation)
            writer.put(createdAt, Field.createdAt)
            writer.put(fileByteCount, Field.fileByteCount)
            writer.put(pageIndexOffset, Field.pageIndexOffset)
            writer.put(pageIndexChecksum, Field.pageIndexChecksum)
            return FileEnvelope.finish(&writer)
        }

        /// Checks and decodes the first 128 bytes of a names run; more may follow.
        /// **Errors** as `FileEnvelope.open`; `notThisFile` for another directory or number; `corrupt` for
        /// ranges and offsets that do not fit each other or are over their limit.
        package static func decode(
            _ bytes: [UInt8], directory: DirectoryID? = nil, fileNumber: FileNumber? = nil
        ) throws(FormatError) -> Header {
            let reader = try FileEnvelope.open(
                bytes, magic: Field.magicNumber, byteCount: Field.byteCount)
            try reader.identify(Field.directory, directory?.rawValue)
            try reader.identify(Field.fileNumber, fileNumber?.rawValue)
            try reader.expectZeros(Field.fields)
            _ = try reader.load(Field.firstName, in: Limits.nextNames)
            let header = Header(
                fileNumber: FileNumber(
                    rawValue: try reader.load(Field.fileNumber, in: 1...UInt64.max)),
                directory: DirectoryID(rawValue: reader.load(Field.directory)),
                names: try reader.range(
                    Field.firstName, Field.nextName, max: Limits.nameCountMax + 1),
                keys: try reader.range(Field.firstKey, Field.nextKey, max: Limits.keyCountMax),
                generation: Generation(rawValue: reader.load(Field.generation)),
                createdAt: reader.i64(Field.createdAt),
                pageIndexOffset: try reader.load(
                    Field.pageIndexOffset,
                    in: UInt64(Field.byteCount)...UInt64(Limits.runByteCountMax)),
                pageIndexChecksum: reader.u32(Field.pageIndexChecksum))
            try reader.expect(Field.fileByteCount, header.fileByteCount)
            return header
        }
    }
}
