// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Names and keys of a range of ordinals in a file of their own, so that they outlive their segments: one sorted table
/// with three orders, by text, by ordinal and by reward.
///
/// **Layout** docs/format/names.md: a fixed header of 128 bytes, pages of four kinds, the page index. A name of no
/// bytes and a key without names stand for ordinals that were lost with their block.
package enum NamesRun {
    /// What is shown for a name or key that was lost with its block.
    package static func lostText(_ ordinal: UInt32) -> String { "(lost:\(ordinal))" }

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
        /// Entries, and the first names of the pages of names.
        package internal(set) var pageIndexByteCount = 0

        /// Items of all pages of a kind.
        package func itemCount(_ kind: NamesPageKind) -> Int {
            switch kind {
            case .names, .ranks: names.count
            case .keys, .rewards: keys.count
            }
        }
        package func pageCount(_ kind: NamesPageKind) -> Int {
            (itemCount(kind) + kind.capacity - 1) / kind.capacity
        }
        /// Items of a page, `page` counted from the first of its kind.
        package func itemCount(_ kind: NamesPageKind, page: Int) -> Int {
            min(kind.capacity, itemCount(kind) - page * kind.capacity)
        }
        /// Of the page index, less the first names.
        var pageEntriesByteCount: Int {
            NamesPageKind.allCases.reduce(0) { $0 + pageCount($1) }
                * NamesLayout.PageEntry.byteCount
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
            var header = Header(
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
                    in: UInt64(Field.byteCount)...UInt64(Limits.namesRunByteCountMax)),
                pageIndexChecksum: reader.u32(Field.pageIndexChecksum))
            let least = UInt64(header.pageEntriesByteCount)
            let most = least + UInt64(header.pageCount(.names) * Limits.nameByteCountMax)
            let end = try reader.load(
                Field.fileByteCount,
                in: header.pageIndexOffset + least...header.pageIndexOffset + most)
            header.pageIndexByteCount = Int(end - header.pageIndexOffset)
            return header
        }
    }
}
