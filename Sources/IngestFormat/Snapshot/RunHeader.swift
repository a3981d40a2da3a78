// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The first bytes of a run: which table, of which stretch of the log, and what its index must sum to.
///
/// **Layout** docs/format/run.md. Fixed 128 bytes; then the pages, then the page index to the file's end.
package struct RunHeader: Hashable, Sendable {
    package static let byteCount = 128
    package static let magic: UInt32 = 0x3152_4749  // "IGR1"

    /// Never `names`.
    package var table: TableKind
    package var fileNumber: FileNumber
    package var directory: DirectoryID
    package var span: LogSpan
    package var rowCount: UInt64
    package var pageCount: Int
    package var pageIndexOffset: UInt64
    /// CRC-32C of the page index, which holds that of each page.
    package var pageIndexChecksum: UInt32
    /// Generation and time that it was made for.
    package var generation: Generation
    package var createdAt: Int64
    /// CRC-32C of the header's other bytes, and so, by the index, of the whole file. Set by `encode`
    /// and `decode`; what the manifest holds.
    package internal(set) var checksum: UInt32 = 0

    package var pageIndexByteCount: Int { pageCount * CounterPageIndex.Entry.byteCount }
    /// Of the whole file.
    package var fileByteCount: UInt64 { pageIndexOffset + UInt64(pageIndexByteCount) }

    /// The header of a run whose pages have all been encoded.
    package init(
        table: TableKind, fileNumber: FileNumber, directory: DirectoryID, span: LogSpan,
        generation: Generation, createdAt: Int64, index: CounterPageIndex
    ) {
        fatalError("being written")
    }

    package func encode() -> [UInt8] { fatalError("being written") }

    /// Checks and decodes the first 128 bytes of a run.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, table: TableKind? = nil,
        fileNumber: FileNumber? = nil
    ) throws(FormatError) -> RunHeader {
        fatalError("being written")
    }

    /// Checks and decodes the page index that follows the pages.
    /// - Parameter bytes: `pageIndexByteCount` bytes from `pageIndexOffset` on.
    package func decodeIndex(_ bytes: [UInt8]) throws(FormatError) -> CounterPageIndex {
        fatalError("being written")
    }

    /// What the manifest keeps of the run.
    package var entry: RunEntry {
        RunEntry(
            table: table, fileNumber: fileNumber, byteCount: fileByteCount, checksum: checksum,
            span: span, rowCount: rowCount)
    }
}
