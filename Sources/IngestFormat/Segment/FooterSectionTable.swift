// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]

extension SegmentFooter {
    /// The sections of a footer whose head has been checked: in order, each under its checksum, and together
    /// exactly the rest of the footer. Made from the footer's first bytes, so that one section can be read alone.
    package struct SectionTable: Sendable {
        /// A line of the table.
        package struct Entry: Sendable {
            package static let layout = Layout<Self>(
                .int("kind", \.kind), .id("encoding", \.stored.encoding, in: 0...1), .reserved(1),
                .int("raw byte count", \.stored.rawByteCount),
                .int("stored byte count", \.stored.byteCount),
                .int("checksum", \.stored.checksum))

            var kind: UInt16
            var stored: StoredSection.Place
            /// In the footer.
            var start = 0
            var range: Range<Int> { start..<start + Int(stored.byteCount) }
        }

        private var entries: [Entry] = []

        /// More sections than this are none of ours.
        static let countMax = 64
        /// As many bytes of a footer have its head and section table.
        package static let headByteCountMax =
            end(ofTable: countMax) + SegmentFooter.checksumField.byteCount

        private static func end(ofTable count: Int) -> Int {
            SegmentFooter.layout.byteCount + count * Entry.layout.byteCount
        }

        /// - Parameters:
        ///   - bytes: begin with head and table, which are under the footer's checksum.
        ///   - byteCount: of the whole footer.
        init(_ bytes: [UInt8], count: Int, footerByteCount byteCount: Int) throws(FormatError) {
            var reader = FieldReader(bytes)
            try reader.begin(SegmentFooter.layout.byteCount)
            var end = Self.end(ofTable: count) + SegmentFooter.checksumField.byteCount
            for _ in 0..<count {
                let entry = try Self.entry(
                    &reader, at: end, of: byteCount, after: entries.last?.kind)
                end = entry.range.upperBound
                entries.append(entry)
            }
            guard end == byteCount else {
                throw .corrupt(
                    "footer byte count", at: end, got: byteCount, expected: .exactly(end))
            }
        }

        /// Where a section lies in the footer, as it is stored.
        /// **Errors** `corrupt` if it is not there.
        package func range(of section: Section) throws(FormatError) -> Range<Int> {
            try entry(of: section).range
        }

        private func entry(of section: Section) throws(FormatError) -> Entry {
            if let entry = entries.first(where: { $0.kind == section.rawValue }) { return entry }
            throw .corrupt(
                "section kind", at: SegmentFooter.layout.byteCount, got: 0,
                expected: .exactly(section.rawValue))
        }

        /// Holds all sections of a whole footer, also those of a later release, against their checksums.
        func checkAll(_ footer: [UInt8]) throws(FormatError) {
            for (index, entry) in entries.enumerated() {
                try Self.check(entry, at: index, footer[entry.range])
            }
        }

        /// The bytes of a section before they were stored.
        /// - Parameter stored: its bytes in the footer.
        /// **Errors** `corrupt` for another checksum, and if it cannot be restored.
        package func raw(
            _ section: Section, _ stored: ArraySlice<UInt8>
        ) throws(FormatError) -> [UInt8] {
            let entry = try entry(of: section)
            try Self.check(
                entry, at: entries.firstIndex { $0.kind == entry.kind } ?? 0, stored)
            return try StoredSection.restore(stored, entry.stored, at: entry.start)
        }

        /// As `raw`, of a whole footer.
        func raw(_ section: Section, of footer: [UInt8]) throws(FormatError) -> [UInt8] {
            let entry = try entry(of: section)
            return try StoredSection.restore(footer[entry.range], entry.stored, at: entry.start)
        }

        /// Holds the length of a section against what the head says of it.
        static func expect(_ raw: [UInt8], byteCount: Int) throws(FormatError) {
            guard raw.count == byteCount else {
                throw .corrupt(
                    "raw byte count", at: SegmentFooter.layout.byteCount, got: raw.count,
                    expected: .exactly(byteCount))
            }
        }

        private static func check(
            _ entry: Entry, at index: Int, _ stored: ArraySlice<UInt8>
        ) throws(FormatError) {
            let found = Checksum.crc32c(stored)
            guard found == entry.stored.checksum, stored.count == entry.range.count else {
                let field = Entry.layout.checksum
                throw .corrupt(
                    field.name, at: end(ofTable: index) + field.offset,
                    got: entry.stored.checksum, expected: .exactly(found))
            }
        }

        private static func entry(
            _ reader: inout FieldReader, at start: Int, of byteCount: Int, after last: UInt16?
        ) throws(FormatError) -> Entry {
            let field = Entry.layout
            var entry = try field.next(
                &reader, into: Entry(kind: 0, stored: StoredSection.Place(), start: start))
            if let last, entry.kind <= last {
                throw reader.corrupt(field.kind, .atLeast(UInt32(last) + 1))
            }
            guard Section(rawValue: entry.kind) != nil || entry.kind >= Section.firstOptionalKind
            else {
                throw .newerFormat(
                    field.kind.name, at: reader.start, got: entry.kind,
                    expected: .atMost(Section.attributions.rawValue))
            }
            let stored = try reader.count(field.storedByteCount, max: max(0, byteCount - start))
            // How much memory the section will take.
            _ = try reader.load(
                field.rawByteCount,
                in: entry.stored.encoding.rawByteCounts(
                    ofStored: stored, max: Limits.footerByteCountMax))
            entry.start = start
            return entry
        }
    }
}

/// The tables of a footer, found without the rest of it: where their pages lie, and their indexes.
package struct FooterTables: Sendable {
    /// Bytes of the file of the segment.
    private let footerOffset: UInt64
    private let sections: SegmentFooter.SectionTable
    private let head: FieldReader

    /// One table of a footer.
    package struct Part: Sendable {
        package let table: TableKind
        fileprivate let pages: SegmentFooter.Section
        fileprivate let index: SegmentFooter.Section
        fileprivate let rowCount: FormatField
        fileprivate let pageCount: FormatField
    }

    package static let rewardDays = Part(
        table: .rewardDays, pages: .rewardDayPages, index: .rewardDayIndex,
        rowCount: SegmentFooter.layout.keyDayCount, pageCount: SegmentFooter.layout.pageCount)
    package static let days = Part(
        table: .days, pages: .dayPages, index: .dayIndex,
        rowCount: SegmentFooter.layout.dayRowCount, pageCount: SegmentFooter.layout.dayPageCount)

    /// - Parameter bytes: the first `SectionTable.headByteCountMax` bytes of a footer, or all of them.
    /// **Errors** as `SegmentFooter.decode`.
    package init(head bytes: [UInt8], trailer: SegmentTrailer) throws(FormatError) {
        (head, sections) = try SegmentFooter.openHead(bytes, trailer: trailer)
        footerOffset = trailer.footerOffset
    }

    /// The end of the segment in the log, and when it was sealed.
    package var end: LogPosition {
        LogPosition(
            segment: SegmentNumber(rawValue: head.u32(SegmentFooter.layout.segment)),
            blockCount: head.u32(SegmentFooter.layout.blockCount))
    }

    /// Where the pages of a table lie in the file.
    package func pagesRange(_ part: Part) throws(FormatError) -> Range<UInt64> {
        try range(part.pages)
    }

    /// Where the index of a table lies in the file.
    package func indexRange(_ part: Part) throws(FormatError) -> Range<UInt64> {
        try range(part.index)
    }

    private func range(_ section: SegmentFooter.Section) throws(FormatError) -> Range<UInt64> {
        let range = try sections.range(of: section)
        return footerOffset + UInt64(range.lowerBound)..<footerOffset + UInt64(range.upperBound)
    }

    /// Where the attributions of the reward-days lie in the file.
    package func attributionsRange() throws(FormatError) -> Range<UInt64> {
        try range(.attributions)
    }

    /// - Parameter stored: the bytes at `attributionsRange`.
    package func decodeAttributions(_ stored: [UInt8]) throws(FormatError) -> AttributionList {
        try SegmentFooter.decodeAttributions(head, sections.raw(.attributions, stored[...]))
    }

    /// The index of a table.
    /// - Parameter stored: the bytes at `indexRange`.
    package func decodeIndex(
        _ part: Part, _ stored: [UInt8]
    ) throws(FormatError) -> CounterPageIndex {
        try Self.decodeIndex(
            part, head, raw: sections.raw(part.index, stored[...]),
            pagesByteCount: sections.range(of: part.pages).count)
    }

    /// The table of a whole footer.
    static func decode(
        _ part: Part, _ head: FieldReader, _ sections: SegmentFooter.SectionTable,
        of footer: [UInt8]
    ) throws(FormatError) -> CounterTable {
        let pages = try sections.raw(part.pages, of: footer)
        return CounterTable(
            hasDay: true, pages: pages,
            index: try decodeIndex(
                part, head, raw: sections.raw(part.index, of: footer), pagesByteCount: pages.count))
    }

    private static func decodeIndex(
        _ part: Part, _ head: FieldReader, raw: [UInt8], pagesByteCount: Int
    ) throws(FormatError) -> CounterPageIndex {
        let rowCount = try head.count(part.rowCount, max: Limits.segmentKeyDayCountMax)
        let pageCount = try head.count(part.pageCount, max: rowCount)
        try SegmentFooter.SectionTable.expect(
            raw, byteCount: pageCount * CounterPageIndex.Entry.byteCount)
        return try CounterPageIndex.decode(raw, pagesByteCount: pagesByteCount, rowCount: rowCount)
    }
}

extension SegmentFooter.Section {
    /// Whether it holds pages, which are packed already, and read one by one.
    var hasPages: Bool { self == .rewardDayPages || self == .dayPages }
}

/// A stretch of bytes as it is stored: as it is, or as an LZ4 block where that saves a twentieth.
struct StoredSection {
    enum Encoding: UInt8, Sendable {
        case plain = 0
        case lz4 = 1

        /// How many bytes `stored` ones can have been: LZ4 cannot expand by more than 255 to 1.
        func rawByteCounts(ofStored stored: Int, max: Int) -> ClosedRange<UInt64> {
            let least = UInt64(stored)
            return self == .plain
                ? least...least : least...Swift.max(least, UInt64(min(255 * stored, max)))
        }
    }

    /// What a header says of such a stretch behind it.
    struct Place: Hashable, Sendable {
        var encoding = Encoding.plain
        var byteCount: UInt32 = 0
        var rawByteCount: UInt32 = 0
        /// CRC-32C of the stored bytes.
        var checksum: UInt32 = 0
    }

    var place: Place {
        Place(
            encoding: encoding, byteCount: UInt32(bytes.count), rawByteCount: UInt32(rawByteCount),
            checksum: Checksum.crc32c(bytes))
    }

    /// Shorter ones are stored as they are: there is nothing to win, and their bytes are the same with
    /// every version of LZ4.
    static let compressedByteCountMin = 512

    var encoding: Encoding
    var rawByteCount: Int
    var bytes: [UInt8]

    /// - Parameter isCompressible: `false` for what is packed already.
    init(_ raw: [UInt8], compressor: LZ4Compressor, isCompressible: Bool = true) {
        rawByteCount = raw.count
        encoding = .plain
        bytes = raw
        guard isCompressible, raw.count >= Self.compressedByteCountMin,
            let compressed = Self.compress(raw, compressor)
        else { return }
        encoding = .lz4
        bytes = compressed
    }

    private static func compress(_ raw: [UInt8], _ compressor: LZ4Compressor) -> [UInt8]? {
        var isSmaller = false
        // SAFETY: both buffers are valid inside their closures; the target has room for raw.count.
        let target = unsafe [UInt8](unsafeUninitializedCapacity: raw.count) { target, count in
            unsafe raw.withUnsafeBytes { source in
                guard let from = source.baseAddress, let to = target.baseAddress else { return }
                if let written = unsafe compressor.compress(
                    from, byteCount: raw.count, as: .text, to: to)
                {
                    isSmaller = true
                    count = written
                }
            }
        }
        return isSmaller ? target : nil
    }

    /// The bytes before they were stored.
    /// - Parameters:
    ///   - stored: exactly the section; its checksum has been checked.
    ///   - place: its raw byte count has been held against a limit.
    /// **Errors** `corrupt` if they do not come to `rawByteCount` bytes.
    static func restore(
        _ stored: ArraySlice<UInt8>, _ place: Place, at offset: Int
    ) throws(FormatError) -> [UInt8] {
        let rawByteCount = Int(place.rawByteCount)
        guard place.encoding == .lz4 else {
            guard stored.count == rawByteCount else {
                throw .corrupt(
                    "raw byte count", at: offset, got: rawByteCount,
                    expected: .exactly(stored.count))
            }
            return Array(stored)
        }
        var isWhole = false
        // SAFETY: both buffers are valid inside their closures; the target has room for rawByteCount,
        // and all of it is written where the decompressor says so.
        let raw = unsafe [UInt8](unsafeUninitializedCapacity: rawByteCount) { target, count in
            unsafe stored.withUnsafeBytes { source in
                guard let from = source.baseAddress, let to = target.baseAddress else { return }
                isWhole = unsafe LZ4Decompressor.decompress(
                    from, byteCount: stored.count, to: to, exactByteCount: rawByteCount)
                count = isWhole ? rawByteCount : 0
            }
        }
        guard isWhole else {
            throw .corrupt("LZ4 block", at: offset, got: 0, expected: .exactly(rawByteCount))
        }
        return raw
    }
}
