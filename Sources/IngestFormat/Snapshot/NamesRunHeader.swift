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
        package static let layout = Layout<Self>(
            .magic, .version, .id("table", \.table, in: NamesRunEntry.tables), .reserved(1),
            .range("first name", "next name", \.names, max: Limits.nameCountMax + 1),
            .id("directory", \.directory), .id("file number", \.fileNumber, in: 1...UInt64.max),
            .id("generation", \.generation), .int("created at", \.createdAt),
            .range("first key", "next key", \.keys, max: Limits.keyCountMax),
            .derived("file byte count", 8, \.fileByteCount),
            .int(
                "page index offset", \.pageIndexOffset,
                in: UInt64(byteCount)...UInt64(Limits.namesRunByteCountMax)),
            .int("page index checksum", \.pageIndexChecksum), .reserved(48, "reserved end"),
            .checksum)
        package static let byteCount = 128
        /// `IGN1` as its bytes lie in the file.
        package static let magic: UInt32 = 0x314E_4749

        package internal(set) var table = TableKind.names
        package internal(set) var fileNumber: FileNumber
        package internal(set) var directory: DirectoryID
        package internal(set) var names: Range<UInt32>
        package internal(set) var keys: Range<UInt32>
        /// Generation and time that it was made for; microseconds since 1970 UTC.
        package internal(set) var generation: Generation
        package internal(set) var createdAt: Int64
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
                table: table, fileNumber: fileNumber, byteCount: fileByteCount, checksum: checksum,
                names: names,
                keys: keys)
        }

        package func encode() -> [UInt8] { Self.layout.encode(self, magic: Self.magic) }

        /// Checks and decodes the first 128 bytes of a names run; more may follow.
        /// **Errors** as `FileEnvelope.open`; `notThisFile` for another directory, table or number; `corrupt` for
        /// ranges and offsets that do not fit each other or are over their limit.
        package static func decode(
            _ bytes: [UInt8], directory: DirectoryID? = nil, table: TableKind? = nil,
            fileNumber: FileNumber? = nil
        ) throws(FormatError) -> Header {
            let reader = try layout.open(bytes, magic: magic)
            try reader.identify(layout.directory, directory?.rawValue)
            try reader.identify(layout.fileNumber, fileNumber?.rawValue)
            try reader.identify(layout.table, table?.rawValue)
            _ = try reader.load(layout.firstName, in: Limits.nextNames)
            var header = try layout.load(
                reader,
                into: Header(
                    fileNumber: FileNumber(rawValue: 1), directory: DirectoryID(rawValue: 0),
                    names: 1..<1, keys: 0..<0, generation: Generation(rawValue: 0), createdAt: 0))
            let least = UInt64(header.pageEntriesByteCount)
            let most = least + UInt64(header.pageCount(.names) * Limits.nameByteCountMax)
            let end = try reader.load(
                layout.fileByteCount,
                in: header.pageIndexOffset + least...header.pageIndexOffset + most)
            header.pageIndexByteCount = Int(end - header.pageIndexOffset)
            return header
        }
    }
}
