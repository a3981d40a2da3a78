// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// Checks one segment file byte by byte and recounts its rows.
///
/// A segment with a sound footer is read by its index, one without by going from block to block.
struct SegmentCheck<Files: FileSystem> {
    let files: Files
    let number: SegmentNumber
    /// What the manifest says of it; `nil` if that does not call it sealed.
    let entry: SealedSegment?
    /// How many of its blocks were durable when `verify` began; only for one that is not sealed.
    let durableBlockCount: UInt32
    /// Whether the log goes on behind it, so that nothing in it can be unfinished.
    let isFollowed: Bool
    let buffer: ReadBuffer
    /// Lets a write that is under way come to its end.
    let pause: () -> Void

    var name: String { FileName.segment(number).text }

    /// - Returns: `false` if there is no such file and need not be.
    func run(_ recount: inout LogRecount) throws(ReaderError) -> Bool {
        let file: Files.File
        do throws(StorageError) { file = try files.open(name, .read) } catch {
            guard case .notFound = error else { throw ReaderError(error) }
            if entry == nil && durableBlockCount == 0 && !isFollowed { return false }
            recount.report.add(Finding(.corruption, file: name, what: "the segment is missing"))
            recount.breakChain()
            if entry != nil { recount.isTotalComplete = false }
            return isFollowed || entry != nil
        }
        do throws(StorageError) { try check(file, &recount) } catch {
            guard error.isOfData else { throw ReaderError(error) }
            recount.report.add(Finding(error, file: name, what: "segment"))
            recount.breakChain()
            if entry != nil { recount.isTotalComplete = false }
        }
        return true
    }

    private func check(
        _ file: Files.File, _ recount: inout LogRecount
    ) throws(StorageError) {
        recount.beginSegment(isBeforeCut: entry != nil && number <= recount.cut.segment)
        let header = try readHeader(file, &recount)
        if let (footer, trailer) = try readFooter(file, &recount) {
            try SealedSegmentCheck(segment: self, footer: footer, trailer: trailer, file: file)
                .run(header, &recount)
        } else {
            let end = try LiveSegmentCheck(segment: self, file: file).run(&recount)
            if entry != nil {
                // The footer was reported; what the blocks say is all there is.
                recount.isTotalComplete = false
                recount.isSegmentWhole = false
            }
            recount.endSegment(at: LogPosition(segment: number, blockCount: end))
        }
    }

    private func readHeader(
        _ file: Files.File, _ recount: inout LogRecount
    ) throws(StorageError) -> SegmentHeader? {
        let bytes = try file.readArray(at: 0, byteCount: SegmentHeader.byteCount)
        do throws(FormatError) {
            let header = try SegmentHeader.decode(
                bytes, directory: recount.directory, segment: number)
            let chain = recount.chain
            recount.expect(
                header.previousChecksum, chain.endsInLoss ? nil : chain.previousChecksum,
                "checksum of the block before", in: name, at: 0)
            recount.expect(
                header.firstName.rawValue, chain.nextName, "first name", in: name, at: 0)
            recount.expect(header.firstKey.rawValue, chain.nextKey, "first key", in: name, at: 0)
            recount.chain.previousChecksum = header.previousChecksum
            recount.chain.nextName = header.firstName.rawValue
            recount.chain.nextKey = header.firstKey.rawValue
            recount.chain.endsInLoss = false
            return header
        } catch {
            if recount.chain.endsInLoss { recount.chain.previousChecksum = nil }
            recount.chain.endsInLoss = false
            // A segment that is being created has no header yet, or part of one, and no block.
            let isUnfinished =
                bytes.count < SegmentHeader.byteCount || bytes.allSatisfy { $0 == 0 }
            if isUnfinished && entry == nil && durableBlockCount == 0 && !isFollowed { return nil }
            recount.report.add(Finding(error, file: name, what: "header"))
            return nil
        }
    }

    /// The footer, if there is one that can be believed; of a sealed segment, else, a finding.
    func readFooter(
        _ file: Files.File, _ recount: inout LogRecount
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
                end, fileByteCount: byteCount, directory: recount.directory, segment: number)
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
    func countBuffered(
        at offset: UInt64, ordinal: UInt32, _ recount: inout LogRecount
    ) -> BlockHeader? {
        let place = BlockPlace(
            directory: recount.directory, segment: number, blockOrdinal: ordinal)
        return buffer.withBytes { bytes in
            recount.count(bytes, in: name, at: offset, place: place)
        }
    }

    /// Reports the first byte of a range that is not zero.
    func checkZeros(
        _ file: Files.File, _ range: Range<UInt64>, _ recount: inout LogRecount
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
