// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// Checks one segment file byte by byte and recounts its rows, without a look at any other.
///
/// A segment with a sound footer is read by its index, one without by going from block to block. Both share the
/// counting of their blocks, stretch by stretch.
struct SegmentCheck<Files: FileSystem>: Sendable {
    let files: Files
    let directory: DirectoryID
    let segment: VerifyTarget<Files>.Segment
    let stretchRowCount: Int
    let meter: WorkMeter
    /// Lets a write that is under way come to its end.
    let pause: @Sendable () -> Void

    var number: SegmentNumber { segment.number }
    var name: String { FileName.segment(number).text }
    /// What the manifest says of it; `nil` if that does not call it sealed.
    var entry: SealedSegment? { segment.entry }

    /// - Parameter thread: what the counting thread has of its own.
    func run(_ thread: RecountThread) -> SegmentRecount {
        var recount = SegmentRecount(
            number, isBeforeCut: segment.isBeforeCut, stops: segment.stops)
        do throws(StorageError) {
            let file = try files.open(name, .read)
            try check(file, thread, &recount)
        } catch {
            if error.isOfData {
                recount.report.add(Finding(error, file: name, what: "segment"))
                recount.breakChain()
                recount.lacksRows = true
            } else {
                recount.outcome = outcome(of: error)
            }
        }
        return recount
    }

    private func outcome(of error: StorageError) -> SegmentRecount.Outcome {
        guard case .notFound = error else { return .failed(ReaderError(error)) }
        return segment.mayBeAbsent ? .absent : .missing
    }

    private func check(
        _ file: Files.File, _ thread: RecountThread, _ recount: inout SegmentRecount
    ) throws(StorageError) {
        try readHeader(file, &recount)
        if let (footer, trailer) = try readFooter(file, &recount) {
            try SealedSegmentCheck(segment: self, footer: footer, trailer: trailer, file: file)
                .run(thread, &recount)
        } else {
            let end = try LiveSegmentCheck(segment: self, file: file).run(thread, &recount)
            if entry != nil {
                // The footer was reported; what the blocks say is all there is.
                recount.lacksRows = true
                recount.isWhole = false
            }
            recount.close(at: LogPosition(segment: number, blockCount: end))
        }
    }

    private func readHeader(
        _ file: Files.File, _ recount: inout SegmentRecount
    ) throws(StorageError) {
        let bytes = try file.readArray(at: 0, byteCount: SegmentHeader.byteCount)
        do throws(FormatError) {
            recount.begin(
                try SegmentHeader.decode(bytes, directory: directory, segment: number))
        } catch {
            // A segment that is being created has no header yet, or part of one, and no block.
            let isUnfinished =
                bytes.count < SegmentHeader.byteCount || bytes.allSatisfy { $0 == 0 }
            if isUnfinished && segment.mayBeAbsent { return }
            recount.report.add(Finding(error, file: name, what: "header"))
        }
    }

    /// The footer, if there is one that can be believed; of a sealed segment, else, a finding.
    func readFooter(
        _ file: Files.File, _ recount: inout SegmentRecount
    ) throws(StorageError) -> (SegmentFooter, SegmentTrailer)? {
        let byteCount = try file.byteCount()
        let trailerOffset = byteCount &- UInt64(SegmentTrailer.byteCount)
        guard byteCount >= UInt64(SegmentHeader.byteCount + SegmentTrailer.byteCount) else {
            if entry != nil {
                recount.report.add(
                    Finding(.corruption, file: name, offset: byteCount, what: "the file ends early")
                )
            }
            return nil
        }
        let end = try file.readArray(at: trailerOffset, byteCount: SegmentTrailer.byteCount)
        let trailer: SegmentTrailer
        do throws(FormatError) {
            trailer = try SegmentTrailer.decode(
                end, fileByteCount: byteCount, directory: directory, segment: number)
        } catch {
            if entry != nil {
                recount.report.add(
                    Finding(error, file: name, offset: trailerOffset, what: "trailer"))
            }
            return nil
        }
        let bytes = try file.readArray(
            at: trailer.footerOffset, byteCount: Int(trailer.footerByteCount))
        do throws(FormatError) {
            return (try SegmentFooter.decode(bytes, trailer: trailer), trailer)
        } catch {
            // Its end may have reached the disk and its beginning not.
            if entry == nil, try TailJudge.isTornFooter(file, from: trailer.footerOffset) {
                return nil
            }
            recount.report.add(
                Finding(error, file: name, offset: trailer.footerOffset, what: "footer"))
            return nil
        }
    }

    /// Counts the block whose bytes are in the buffer.
    /// - Returns: its header; `nil` if it cannot be read, which has been reported.
    func countBuffered(
        at offset: UInt64, ordinal: UInt32, _ memory: RecountMemory,
        _ recount: inout SegmentRecount
    ) -> BlockHeader? {
        let place = BlockPlace(directory: directory, segment: number, blockOrdinal: ordinal)
        let block: DecodedBlock
        do throws(FormatError) {
            // Event hashes are any 64 bits: there is nothing in them to check but their checksum.
            block = try memory.buffer.withBytes { (bytes) throws(FormatError) in
                try memory.decoder.decode(
                    bytes, at: place, wanted: .all.subtracting(.eventHash), checksRest: true,
                    into: memory.rows)
            }
        } catch {
            recount.report.add(Finding(error, file: name, offset: offset, what: "block"))
            return nil
        }
        recount.add(block, memory, at: offset)
        meter.add(byteCount: memory.buffer.byteCount)
        return block.header
    }

    /// Reports the first byte of a range that is not zero.
    func checkZeros(
        _ file: Files.File, _ range: Range<UInt64>, _ recount: inout SegmentRecount
    ) throws(StorageError) {
        var offset = range.lowerBound
        while offset < range.upperBound {
            let count = Int(min(range.upperBound - offset, 1 << 20))
            let bytes = try file.readArray(at: offset, byteCount: count)
            if let index = bytes.firstIndex(where: { $0 != 0 }) {
                recount.report.add(
                    Finding(
                        .corruption, file: name, offset: offset + UInt64(index),
                        what: "a byte between blocks", got: "\(bytes[index])", expected: "0"))
                return
            }
            if bytes.count < count { return }
            offset += UInt64(count)
        }
    }
}

/// What a worker needs for one block after the other, whatever the segment.
///
/// **Cost** About 5 MiB, and the largest block.
final class RecountMemory {
    let rows = BlockRows()
    let decoder = BlockDecoder()
    let buffer = ReadBuffer()
    var recount = RowRecount()
    let gathers: GatherPool
    /// Of names, in this process.
    let hash: KeyedHash

    init(_ gathers: GatherPool, hash: KeyedHash) {
        self.gathers = gathers
        self.hash = hash
    }
}

/// The thread that counts a segment: its memory, and how it shares its work.
struct RecountThread {
    let memory: RecountMemory
    /// Lets other threads do a part of the segment that this one has begun, as `OrderedWork` says.
    var share: (@escaping @Sendable (RecountMemory) -> Bool) -> Void
}
