// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

extension Snapshot {
    package func status() throws(ReaderError) -> DirectoryStatus {
        let names = makeNames()
        let nameCount = try Int(names.nextName) - 1 - names.lostNames().count
        let keyCount = try Int(names.nextKey) - names.lostKeyCount()
        let totals = try totals()
        do throws(StorageError) {
            return try readStatus(nameCount: nameCount, keyCount: keyCount, totals)
        } catch {
            throw ReaderError(error)
        }
    }

    private func readStatus(
        nameCount: Int, keyCount: Int, _ totals: LogTotals
    ) throws(StorageError) -> DirectoryStatus {
        let mark = try DurableMarkFile.read(in: files, directory: manifest.directory)
        let present = try presentFiles()
        let expired = try readExpired()
        return DirectoryStatus(
            cut: cut, generation: manifest.generation.rawValue, compacted: manifest.cut.cut,
            durable: max(mark?.cut ?? cut, cut), sealedSegmentCount: manifest.sealedCount,
            unsealedSegmentCount: present.count { file in
                guard case .segment(let number) = file.name else { return false }
                // Of segments that came since the opening this cut knows nothing.
                let came = number.rawValue > cut.segment && number.rawValue - 1 != cut.segment
                return manifest.mayHoldTail(number) && !came
            },
            expired: ExpiredPart(expired),
            fileCount: present.count,
            byteCount: present.reduce(0) { $0.saturatingSum($1.byteCount) },
            nameCount: nameCount, keyCount: keyCount, rowCount: totals.rowCount,
            packets: PacketResult.counts(totals.packets),
            events: Verdict.counts(totals.events),
            uncleanStops: manifest.uncleanStops.map {
                .init(foundAtMicroseconds: $0.foundAt, position: $0.position.cut)
            },
            lostRangeCount: try whole().lost.count
                + expired.reduce(0) { $0 + $1.lost.count },
            idsCompleteSinceMicroseconds: manifest.idsCompleteSince == 0
                ? nil : manifest.idsCompleteSince)
    }

    /// The files of ours and their sizes; one that is dropped meanwhile is left out.
    private func presentFiles() throws(StorageError) -> [(name: FileName, byteCount: UInt64)] {
        var present: [(name: FileName, byteCount: UInt64)] = []
        for text in try files.names() {
            guard let name = FileName(text), name != .aside else { continue }
            do {
                present.append((name, try files.open(text, .read).byteCount()))
            } catch {
                guard case .notFound = error else { throw error }
            }
        }
        return present
    }
}

extension ExpiredPart {
    fileprivate init?(_ parts: [ExpiredSegments]) {
        guard let last = parts.last else { return nil }
        self.init(
            lastSegment: last.span.lastSegment.rawValue,
            rowCount: parts.reduce(0) { $0.saturatingSum($1.rowCount) },
            newestEventMicroseconds: parts.filter { $0.rowCount > 0 }.map(\.maxTimestamp).max(),
            missingSegmentCount: parts.reduce(0) { $0 + Int($1.missingCount) })
    }
}

/// What a data directory holds, as of one cut.
public struct DirectoryStatus: Sendable, Equatable {
    /// What queries answer from.
    public let cut: Cut
    /// Of the manifest that was read.
    public let generation: UInt64
    /// What the runs cover; the rest of the cut is folded by the reader.
    public let compacted: Cut
    /// What the durable mark, or (where it lags) the log itself, says is durable.
    public let durable: Cut
    public let sealedSegmentCount: Int
    public let unsealedSegmentCount: Int
    /// What retention has removed the rows of; their counters stay. `nil` if nothing has expired.
    public let expired: ExpiredPart?
    /// Files of ours in the directory, and their bytes; what lies in `aside/` is not among them.
    public let fileCount: Int
    public let byteCount: UInt64
    public let nameCount: Int
    public let keyCount: Int
    /// Rows of the whole log, expired ones included.
    public let rowCount: UInt64
    /// Packets by what became of them, and events by verdict; those that there are.
    public let packets: [PacketResult: UInt64]
    public let events: [Verdict: UInt64]
    /// Starts that found the log without a clean end: what had been received and was not durable then
    /// is unknown.
    public let uncleanStops: [UncleanStopRecord]
    /// Pieces of the log that could not be read when their segment was sealed.
    public let lostRangeCount: Int
    /// Of event ids that were counted later than this, all repeats had been found when the generation was made. `nil` if
    /// the daemon had forgotten none. Microseconds since 1970 UTC.
    public let idsCompleteSinceMicroseconds: Int64?

    public struct UncleanStopRecord: Sendable, Equatable {
        /// When the next start found it. Microseconds since 1970 UTC.
        public let foundAtMicroseconds: Int64
        /// The end of what had survived.
        public let position: Cut
    }
}

/// The oldest part of the log, of which retention has left what the rows add up to.
public struct ExpiredPart: Sendable, Equatable {
    /// All segments up to this one have expired; rows begin in the next.
    public let lastSegment: UInt32
    /// Rows that it held.
    public let rowCount: UInt64
    /// The greatest event time among them. Microseconds since 1970 UTC; `nil` without rows.
    public let newestEventMicroseconds: Int64?
    /// Segments of it that were missing or damaged when they expired: nothing attests what they held.
    public let missingSegmentCount: Int
}

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

    /// By which the events of all segments were judged.
    func policies() throws(ReaderError) -> Set<CountingPolicy> {
        var policies: Set<CountingPolicy> = []
        for number in Set(manifest.sealed.map(\.number) + tail.segments) {
            policies.insert(try open(number).header.policy)
        }
        return policies
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
