// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// The blocks of one cut, in the order of the log, from the oldest segment that still has its rows. A segment is
/// opened when it is its turn, so that their number is no matter.
///
/// **Errors** `corrupt` for a block that fails its check, as for a segment that is missing; `io` where retention
/// removed a segment before it was its turn: what was given until then is not the whole.
/// **Cost** One pass over the blocks that are wanted; the memory of one block and one footer.
struct CutBlocks<Files: FileSystem> {
    private let files: Files
    private let manifest: Manifest
    private let tail: Tail<Files>
    private let isWanted: (BlockSummary) -> Bool
    private let buffer = ReadBuffer()

    /// Takes the header and the bytes of each wanted block; `false` ends the pass.
    typealias Body = (BlockHeader, ReadBuffer) throws(ReaderError) -> Bool

    init(
        of snapshot: Snapshot<Files>, isWanted: @escaping (BlockSummary) -> Bool
    ) throws(ReaderError) {
        files = snapshot.files
        manifest = try ReaderError.reading { () throws(StorageError) in try snapshot.whole() }
        tail = snapshot.tail
        self.isWanted = isWanted
    }

    /// - Parameters:
    ///   - mayHold: whether a sealed segment has wanted blocks; others are not opened.
    ///   - points: where given, a segment whose footer has no row of any of these in its tables is passed over.
    func forEach(
        whereSealed mayHold: (SealedSegment) -> Bool,
        with points: [(table: TableKind, point: CounterPoint)]? = nil, _ body: Body
    ) throws(ReaderError) {
        for entry in manifest.sealed where mayHold(entry) {
            if let points, try !hasRow(of: points, entry) { continue }
            let (reader, footer) = try openSealed(entry)
            guard try give(footer.blocks, of: reader, body) else { return }
        }
        try forEachBehindSealed(body)
    }

    /// The footers of the sealed segments, one at a time.
    func forEachFooter(_ body: (SegmentFooter) -> Void) throws(ReaderError) {
        for entry in manifest.sealed { body(try openSealed(entry).footer) }
    }

    private func openSealed(
        _ entry: SealedSegment
    ) throws(ReaderError) -> (reader: SegmentReader<Files>, footer: SegmentFooter) {
        let reader = try open(entry.number)
        let footer = try ReaderError.reading { () throws(StorageError) in
            try reader.readFooter(of: entry)
        }
        return (reader, footer)
    }

    /// The blocks behind the manifest's sealed segments, up to the cut: all of them were durable when it was made.
    func forEachBehindSealed(_ body: Body) throws(ReaderError) {
        try tail.forEachBlock(where: isWanted, into: buffer, body)
    }

    /// **Cost** Some small reads.
    private func hasRow(
        of points: [(table: TableKind, point: CounterPoint)], _ entry: SealedSegment
    ) throws(ReaderError) -> Bool {
        do throws(StorageError) {
            let tables = try RunReader.openFooter(
                of: entry, directory: manifest.directory, in: files)
            for (table, point) in points {
                let part = table == .days ? tables.days : tables.rewardDays
                if try !part.rows(of: point, buffer: buffer).isEmpty { return true }
            }
            return false
        } catch {
            throw try explained(error)
        }
    }

    private func open(_ number: SegmentNumber) throws(ReaderError) -> SegmentReader<Files> {
        do throws(StorageError) {
            return try SegmentReader(number, directory: manifest.directory, in: files)
        } catch {
            throw try explained(error)
        }
    }

    /// What it means that a segment cannot be opened.
    private func explained(_ error: StorageError) throws(ReaderError) -> ReaderError {
        guard case .notFound(let path) = error else { return ReaderError(error) }
        return try isOutdated() ? .expired(path) : .missing(path)
    }

    /// Whether a newer generation may explain that a segment is gone.
    private func isOutdated() throws(ReaderError) -> Bool {
        try ReaderError.reading { () throws(StorageError) in
            try ManifestStore(files: files).readNewest(isWhole: false).generation
                > manifest.generation
        }
    }

    // MARK: Segments

    private func give(
        _ blocks: some Sequence<BlockIndexEntry>, of reader: SegmentReader<Files>, _ body: Body
    ) throws(ReaderError) -> Bool {
        for block in blocks where isWanted(block.summary) {
            let header = try ReaderError.reading { () throws(StorageError) in
                try reader.read(block, into: buffer)
            }
            guard try body(header, buffer) else { return false }
        }
        return true
    }
}

extension ReaderError {
    /// Retention was faster than who read the rows.
    static func expired(_ path: String) -> ReaderError {
        ReaderError(
            kind: .io, what: "retention removed rows before they were read", path: path,
            advice: "open the directory again")
    }
}
