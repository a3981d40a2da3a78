// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// A durable block that no run covers: its head, and where the rest of it is read.
///
/// **Errors** `corrupt` where a part of it cannot be read that is asked for.
struct TailBlock<Files: FileSystem>: Sendable {
    let header: BlockHeader
    let offset: UInt64
    let file: Files.File
    let sections: [BlockSectionEntry]

    /// Others than the wanted bytes are read too where they are fewer: a read costs as much as copying some of them.
    private static var passedByteCountMin: Int { 8 << 10 }

    /// Of rows that cannot be.
    var invalidRows: ReaderError {
        ReaderError(.corrupt(path: file.path, offset: offset, detail: "invalid rows"))
    }

    /// Reads all of it, and checks it.
    func read(into buffer: ReadBuffer, _ decoder: BlockDecoder) throws(ReaderError) {
        let found = try reading { () throws(StorageError) in
            try buffer.read(file, at: offset, byteCount: header.byteCount)
        } decode: { () throws(FormatError) in
            try buffer.withBytes { (bytes) throws(FormatError) in try decoder.check(bytes) }
        }
        guard found == header else { throw invalidRows }
    }

    /// Decodes parts of it.
    /// - Parameter checksRest: whether damage in the other parts is an error.
    func decode(
        _ parts: BlockSections, checksRest: Bool, _ buffer: ReadBuffer, _ decoder: BlockDecoder,
        into rows: BlockRows
    ) throws(ReaderError) -> DecodedBlock {
        let decoded = try reading { () throws(StorageError) in
            if !checksRest { return try read(parts, into: buffer) }
            try buffer.read(file, at: offset, byteCount: header.byteCount)
        } decode: { () throws(FormatError) in
            try buffer.withBytes { (bytes) throws(FormatError) in
                try decoder.decode(
                    bytes, wanted: parts, isWhole: checksRest, checksRest: checksRest, into: rows)
            }
        }
        // Somebody may have written over it since.
        guard decoded.header == header else { throw invalidRows }
        return decoded
    }

    /// Reads one section alone.
    /// - Parameter decode: gets its bytes as they are in the file.
    /// - Returns: `nil` where the block has no such section.
    func section<Output>(
        _ kind: BlockSectionKind, _ buffer: ReadBuffer,
        _ decode: (RawSpan, BlockSectionEntry) throws(FormatError) -> Output
    ) throws(ReaderError) -> Output? {
        guard let entry = sections.first(where: { $0.kind == kind }) else { return nil }
        return try reading { () throws(StorageError) in
            try buffer.read(file, at: offset + UInt64(entry.offset), byteCount: entry.byteCount)
        } decode: { () throws(FormatError) in
            try buffer.withBytes { (bytes) throws(FormatError) in try decode(bytes, entry) }
        }
    }

    /// Reads the head and parts, each to its place: half of a block are ids, which few ask for.
    private func read(_ parts: BlockSections, into buffer: ReadBuffer) throws(StorageError) {
        buffer.removeAll()
        var end = header.headerByteCount
        func append() throws(StorageError) {
            try buffer.append(
                file, at: offset + UInt64(buffer.byteCount), byteCount: end - buffer.byteCount)
        }
        for section in sections where !parts.isDisjoint(with: section.kind.part) {
            if section.offset - end >= Self.passedByteCountMin {
                try append()
                // A file that ends here is told by who decodes it.
                guard buffer.byteCount == end else { return }
                buffer.pass(section.offset - end)
            }
            end = section.offset + section.byteCount
        }
        try append()
    }

    private func reading<Output>(
        _ read: () throws(StorageError) -> Void, decode: () throws(FormatError) -> Output
    ) throws(ReaderError) -> Output {
        try ReaderError.reading { () throws(StorageError) in
            try read()
            return try StorageError.decoding(file.path, at: offset, decode)
        }
    }
}
