import IngestFormat
import TestSupport

/// The bytes of a block that a test damages on purpose, with a way to make the checksums right again,
/// so that only a check of the values can find the damage.
struct BlockImage {
    var bytes: [UInt8]

    init(_ content: BlockContent = .example) { bytes = content.encoded() }

    subscript(field: FormatField) -> UInt64 {
        get { bytes.number(field) }
        set { bytes.put(newValue, field) }
    }

    /// A field of the section table's entry for a kind.
    subscript(kind: BlockSectionKind, field: FormatField) -> UInt64 {
        get { entryOffset(kind).map { bytes.number(field, at: $0) } ?? 0 }
        set { if let offset = entryOffset(kind) { bytes.put(newValue, field, at: offset) } }
    }

    /// The stored bytes of a section.
    subscript(kind: BlockSectionKind) -> ArraySlice<UInt8> {
        get { range(kind).map { bytes[$0] } ?? [] }
        set {
            if let range = range(kind), range.count == newValue.count {
                bytes.replaceSubrange(range, with: newValue)
            }
        }
    }

    var kinds: [BlockSectionKind] {
        entryOffsets.compactMap {
            BlockSectionKind(
                rawValue: UInt16(truncatingIfNeeded: bytes.number(BlockLayout.Section.kind, at: $0))
            )
        }
    }

    func range(_ kind: BlockSectionKind) -> Range<Int>? {
        var start = Int(self[BlockLayout.Header.headerByteCount])
        for offset in entryOffsets {
            let end = start + Int(bytes.number(BlockLayout.Section.byteCount, at: offset))
            if bytes.number(BlockLayout.Section.kind, at: offset) == UInt64(kind.rawValue) {
                return start..<end
            }
            start = end
        }
        return nil
    }

    /// Sets the checksums of all sections that lie inside the bytes, then the header's.
    mutating func fixChecksums() {
        var start = Int(self[BlockLayout.Header.headerByteCount])
        for offset in entryOffsets {
            let end = start + Int(bytes.number(BlockLayout.Section.byteCount, at: offset))
            guard end <= bytes.count else { break }
            bytes.put(
                Checksum.crc32c(bytes[start..<end]),
                at: offset + BlockLayout.Section.checksum.offset)
            start = end
        }
        fixHeaderChecksum()
    }

    mutating func fixHeaderChecksum() {
        let end = min(bytes.count, Int(self[BlockLayout.Header.headerByteCount]))
        let field = BlockLayout.Header.headerChecksum
        guard end >= BlockLayout.headerByteCountMin else { return }
        let before = Checksum.crc32c(bytes[..<field.offset])
        self[field] = UInt64(Checksum.crc32c(bytes[field.end..<end], seed: before))
    }

    private var entryOffsets: [Int] {
        (0..<Int(self[BlockLayout.Header.sectionCount])).map {
            BlockLayout.headerByteCountMin + $0 * BlockLayout.sectionEntryByteCount
        }.filter { $0 + BlockLayout.sectionEntryByteCount <= bytes.count }
    }

    private func entryOffset(_ kind: BlockSectionKind) -> Int? {
        entryOffsets.first {
            bytes.number(BlockLayout.Section.kind, at: $0) == UInt64(kind.rawValue)
        }
    }
}

/// The four answers that a decoder may give to bytes that it refuses.
enum Refusal: Equatable {
    case torn, corrupt, newerFormat, notThisFile

    init(_ error: FormatError) {
        self =
            switch error {
            case .torn: .torn
            case .corrupt: .corrupt
            case .newerFormat: .newerFormat
            case .notThisFile: .notThisFile
            }
    }

    /// What `body` was refused with; `nil` if it was not.
    static func of(_ body: () throws(FormatError) -> Void) -> (Refusal, FormatFault)? {
        do {
            try body()
            return nil
        } catch {
            return (Refusal(error), error.fault)
        }
    }
}
