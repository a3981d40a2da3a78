// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → [query]

extension SegmentFooter {
    /// The sections of a footer whose head has been checked: each under its checksum, in order, and
    /// together exactly the rest of the footer.
    struct SectionTable {
        private struct Entry {
            var kind: UInt16
            var encoding: StoredSection.Encoding
            var rawByteCount: Int
            var range: Range<Int>
        }

        private let bytes: [UInt8]
        private var entries: [Entry] = []

        /// - Parameter bytes: the whole footer; its head and the table are under the checksum.
        init(_ bytes: [UInt8], count: Int) throws(FormatError) {
            self.bytes = bytes
            var reader = FieldReader(bytes)
            try reader.begin(SegmentLayout.Footer.byteCount)
            var end =
                SegmentLayout.Footer.byteCount + count * SegmentLayout.Section.byteCount
                + SegmentFooter.checksumField.byteCount
            for _ in 0..<count {
                try reader.begin(SegmentLayout.Section.byteCount)
                let entry = try Self.entry(reader, at: end, in: bytes, after: entries.last?.kind)
                end = entry.range.upperBound
                entries.append(entry)
            }
            guard end == bytes.count else {
                throw .corrupt(
                    "footer byte count", at: end, got: bytes.count, expected: .exactly(end))
            }
        }

        /// The bytes of a section before they were stored.
        /// **Errors** `corrupt` if it is not there or cannot be restored.
        func raw(_ section: Section) throws(FormatError) -> [UInt8] {
            guard let entry = entries.first(where: { $0.kind == section.rawValue }) else {
                throw .corrupt(
                    "section kind", at: SegmentLayout.Footer.byteCount, got: 0,
                    expected: .exactly(section.rawValue))
            }
            return try StoredSection.restore(
                bytes[entry.range], encoding: entry.encoding, rawByteCount: entry.rawByteCount,
                at: entry.range.lowerBound)
        }

        /// Holds the length of a section against what the head says of it.
        static func expect(
            _ raw: [UInt8], byteCount: Int, _ section: Section
        ) throws(FormatError) {
            guard raw.count == byteCount else {
                throw .corrupt(
                    "raw byte count", at: SegmentLayout.Footer.byteCount, got: raw.count,
                    expected: .exactly(byteCount))
            }
        }

        /// Where a section that is stored as it is lies in the footer.
        func range(of section: Section) -> Range<Int>? {
            entries.first { $0.kind == section.rawValue && $0.encoding == .plain }?.range
        }

        private typealias Field = SegmentLayout.Section

        private static func entry(
            _ reader: FieldReader, at offset: Int, in bytes: [UInt8], after last: UInt16?
        ) throws(FormatError) -> Entry {
            try reader.expectZeros(Field.fields)
            let kind = reader.u16(Field.kind)
            if let last, kind <= last {
                throw reader.corrupt(Field.kind, .atLeast(UInt32(last) + 1))
            }
            guard Section(rawValue: kind) != nil || kind >= Section.firstOptionalKind else {
                throw .newerFormat(
                    Field.kind.name, at: reader.start, got: kind,
                    expected: .atMost(Section.windows.rawValue))
            }
            guard
                let encoding = StoredSection.Encoding(
                    rawValue: UInt8(truncatingIfNeeded: reader.load(Field.encoding)))
            else {
                throw reader.corrupt(
                    Field.encoding, .atMost(StoredSection.Encoding.lz4.rawValue))
            }
            let stored = try reader.count(Field.storedByteCount, max: bytes.count - offset)
            let range = offset..<offset + stored
            try reader.expect(Field.checksum, Checksum.crc32c(bytes[range]))
            // How much memory the section will take.
            let raw = try reader.load(
                Field.rawByteCount,
                in: encoding.rawByteCounts(ofStored: stored, max: Limits.footerByteCountMax))
            return Entry(kind: kind, encoding: encoding, rawByteCount: Int(raw), range: range)
        }
    }
}
