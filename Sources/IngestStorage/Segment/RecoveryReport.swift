// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// The end of the log that a crash cut off.
package struct TornTail: Hashable, Sendable {
    /// Where the bytes were in the segment file.
    package let range: Range<UInt64>
    /// Whether the header of a whole block was readable there: then the block may have been acked by a
    /// disk that did not keep it.
    package let isHeaderReadable: Bool
    /// How many events such blocks have.
    package let rowCount: UInt64
    /// Whether the disk could not read all of it: then nobody knows what it was.
    package let hasHole: Bool
}

/// A segment that has just been sealed, by the compact stage or by recovery: all that the next generation
/// needs of it, so that nothing has to be read back.
package struct SealedSegmentFile: Sendable {
    package let footer: SegmentFooter
    /// What the manifest keeps of it.
    package let entry: SealedSegment
    /// The names and keys that it introduced, by block.
    package let names: [NamesOfBlock]

    package init(footer: SegmentFooter, entry: SealedSegment, names: [NamesOfBlock]) {
        self.footer = footer
        self.entry = entry
        self.names = names
    }

    /// Of its footer, and of the names that it introduced: what it takes while it waits for a generation.
    ///
    /// **Cost** Encodes the footer.
    package var waitingByteCount: UInt64 {
        let trailer = footer.encode(at: SegmentLayout.blocksOffset).trailer
        return names.reduce(UInt64(trailer.footerByteCount)) {
            $0 &+ UInt64($1.names.bytes.count)
        }
    }
}

/// What recovery did with one segment.
package struct RecoveredSegment: Sendable {
    /// Its footer has what was lost.
    package let file: SealedSegmentFile
    package let torn: TornTail?
    /// Copies of bytes that were cut or lost, by name below the data directory.
    package let aside: [String]
    /// What was wrong with the first bytes that the disk could not read, if there were such.
    package let hole: StorageError?
    /// What was wrong with one that was sealed before; `nil` for what a crash left.
    package internal(set) var repair: SegmentRepair?

    /// Whether bytes from this place of it on were put aside.
    fileprivate func hasAside(_ offset: UInt64) -> Bool {
        let name =
            "\(FileName.aside.text)/"
            + SegmentCopyName.text(of: file.entry.number, at: offset)
        return aside.contains { $0 == name || $0.hasPrefix(name + ".") }
    }
}

/// Why a segment that was sealed was sealed again.
package enum SegmentRepair: String, Sendable {
    case missing = "the file is missing, and what it held is lost"
    case exchanged = "another file than the manifest lists, taken as it is"
    case damaged = "header or footer was damaged, sealed again from its blocks"
}

/// The name in `aside/` of bytes of a segment.
enum SegmentCopyName {
    static func text(of segment: SegmentNumber, at offset: UInt64) -> String {
        "\(FileName.segment(segment).text).at-\(offset)"
    }
}

/// What a start found and did, for the log and for the stages that go on from there.
package struct RecoveryReport: Sendable {
    /// The segments that were sealed, by number; all but those in the manifest.
    package internal(set) var segments: [RecoveredSegment] = []
    /// Those of level 0 that were sealed already and had to be sealed again, and the manifest with them.
    package let repaired: [RecoveredSegment]
    package let manifest: Manifest
    /// Segments that had been begun and hold no block: removed, their numbers are free again.
    package internal(set) var dropped: [SegmentNumber] = []
    /// What was put aside of those.
    package internal(set) var asideOfDropped: [String] = []
    /// The highest segment number in use; 0 if there is none.
    package internal(set) var lastSegment: SegmentNumber
    /// What the next block must begin with.
    package internal(set) var next: LogAnchor
    /// The durable mark that was found, if one could be believed.
    package internal(set) var mark: LogPosition?
    /// Of all senders, behind the last block.
    package internal(set) var windows: SenderWindows
    /// Admission time of the last block, sealed before or recovered; 0 if there is none.
    package internal(set) var lastAdmissionTime: Int64 = 0

    /// Whether the log had been ended properly: nothing to seal, nothing begun.
    package var isClean: Bool { segments.isEmpty && dropped.isEmpty }

    package var lost: [LostRange] { (repaired + segments).flatMap(\.file.footer.lost) }

    /// One line for each thing that an operator should know, worst first.
    package var messages: [String] {
        Self.messages(of: repaired) + Self.messages(of: segments)
            + dropped.map { "segment \($0.rawValue): no block of this log, removed" }
    }

    /// As above, of segments that were sealed again.
    static func messages(of segments: [RecoveredSegment]) -> [String] {
        segments.flatMap { segment in
            segment.file.footer.lost.map {
                message($0, isAside: $0.byteCount > 0 && segment.hasAside($0.offset))
            }
        } + segments.compactMap(holeMessage) + segments.compactMap(tornMessage)
            + segments.map { segment in
                let entry = segment.file.entry
                let what = segment.repair?.rawValue ?? "sealed by copy"
                return
                    "segment \(entry.number.rawValue): \(what), \(entry.blockCount) blocks, "
                    + "\(entry.rowCount) rows"
            }
    }

    private static func message(_ lost: LostRange, isAside: Bool) -> String {
        let rows = lost.rowCount.map { "\($0) rows" } ?? "an unknown number of rows"
        return "segment \(lost.segment.rawValue): corrupt, \(rows) lost in blocks "
            + "\(lost.firstBlock) to \(lost.firstBlock &+ lost.blockCount &- 1), "
            + "\(lost.byteCount) bytes at \(lost.offset)" + (isAside ? " put aside" : "")
    }

    private static func tornMessage(_ segment: RecoveredSegment) -> String? {
        guard let torn = segment.torn else { return nil }
        return
            "segment \(segment.file.entry.number.rawValue): torn tail of \(torn.range.count) bytes at "
            + "\(torn.range.lowerBound) truncated and moved to aside/"
            + (torn.isHeaderReadable
                ? "; a block header in it was intact: acked data may be lost, \(torn.rowCount) events"
                : torn.hasHole ? "; not all of it can be read: acked data may be lost" : "")
    }

    private static func holeMessage(_ segment: RecoveredSegment) -> String? {
        guard case .corrupt(let path, let offset, let detail)? = segment.hole else { return nil }
        return
            "\(detail), \(path) at byte \(offset), check the disk: what can be read is copied to a "
            + "new file"
    }
}
