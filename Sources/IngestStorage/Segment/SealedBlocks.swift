// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// Which blocks of a sealed segment can be read, also where its footer cannot.
///
/// **Cost** That of the footer; without it, that of reading the segment.
package struct SealedBlocks<Files: FileSystem> {
    /// `nil` where the segment is missing.
    package let file: Files.File?
    /// In the order of the log. Ordinals of blocks that were lost are missing.
    package let entries: [BlockIndexEntry]
    /// Block ordinals given in the segment.
    package let ordinalCount: UInt32
    /// `nil` if it cannot be believed.
    package let footer: SegmentFooter?

    /// **Errors** `io`; `newerFormat`. A segment that is missing or damaged has the blocks that are left of it.
    package init(
        _ segment: SealedSegment, directory: DirectoryID, in files: Files
    ) throws(StorageError) {
        ordinalCount = segment.blockCount
        let sealed = try StorageError.readable { () throws(StorageError) in
            let reader = try SegmentReader(segment.number, directory: directory, in: files)
            return (file: reader.file, footer: try reader.readFooter(of: segment))
        }
        if let sealed {
            (file, entries, footer) = (sealed.file, sealed.footer.blocks, sealed.footer)
            return
        }
        footer = nil
        let found = try StorageError.readable { () throws(StorageError) in
            let survey = try SegmentSurvey(segment.number, directory: directory, in: files)
            return (file: try survey.open(in: files), pieces: survey.pieces)
        }
        file = found?.file
        entries = (found?.pieces ?? []).compactMap { piece in
            guard case .block(let offset, let header) = piece else { return nil }
            return BlockIndexEntry(
                ordinal: header.context.blockOrdinal, offset: offset, summary: header.summary)
        }
    }
}
