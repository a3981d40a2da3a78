// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import IngestFormat
import IngestStorage

/// Checks a segment without a sound footer, from block to block; a daemon may be writing to it.
struct LiveSegmentScan<Files: FileSystem>: Sendable {
    let segment: SegmentScan<Files>
    let file: Files.File

    private typealias Walk = BlockWalk<Files.File>

    /// What looks like damage behind the durable blocks may be a write under way: it is looked at again.
    private static var attemptCount: Int { 4 }

    private var name: String { segment.name }

    /// - Returns: how many block ordinals were given in it.
    func run(
        _ memory: ScanMemory, _ recount: inout SegmentRecount
    ) throws(StorageError) -> UInt32 {
        let number = segment.number
        var walk = BlockWalk(
            file,
            place: BlockPlace(directory: segment.directory, segment: number, blockOrdinal: 0))
        var attempt = 1
        var tail = Tail(
            scan: BlockScan(file: file, directory: segment.directory, segment: number, end: 0))
        while !segment.meter.isStopped {
            // The recount checks the chain, and goes on where it is broken: here only places count.
            walk.resume(at: walk.offset, ordinal: walk.ordinal)
            let (offset, ordinal) = (walk.offset, walk.ordinal)
            let step = try walk.next(into: memory.buffer)
            if case .block = step {
                // Its checksums are right: what cannot be decoded then was made wrong.
                if segment.count(memory, at: offset, ordinal: ordinal, &recount) == nil {
                    recount.miss()
                }
                attempt = 1
            } else if try !goOn(
                &walk, from: step, isLast: attempt >= Self.attemptCount, memory.buffer, &tail,
                &recount)
            {
                return ordinal
            } else if walk.offset == offset {
                attempt += 1
                segment.pause()
            }
        }
        return walk.ordinal
    }

    /// Where the bytes end that are not zeros: looked for once, however many places are no block.
    private struct Tail {
        private var end: UInt64 = 0
        private var scan: BlockScan<Files.File>

        init(scan: BlockScan<Files.File>) { self.scan = scan }

        /// The first whole block behind what is none at the walk's place.
        mutating func block(
            behind walk: Walk, before end: UInt64, _ buffer: ReadBuffer
        ) throws(StorageError) -> (offset: UInt64, ordinal: UInt32)? {
            scan.end = end
            return try scan.next(from: walk.offset, at: walk.place, into: buffer)
                .map { ($0.offset, $0.header.context.blockOrdinal) }
        }

        /// Behind the last byte from `start` on that is not zero; `nil` if there is none.
        mutating func end(
            in file: Files.File, from start: UInt64
        ) throws(StorageError) -> UInt64? {
            if start >= end {
                let content = try TailContent(file, from: start)
                guard content.firstNonzero != nil else { return nil }
                end = content.end
            }
            return end
        }
    }

    /// Deals with what is no block at the walk's place.
    /// - Returns: whether to look again, at the walk's place, which may have been moved on; else the
    ///   segment ends here.
    private func goOn(
        _ walk: inout Walk, from step: Walk.Step, isLast: Bool, _ buffer: ReadBuffer,
        _ tail: inout Tail, _ recount: inout SegmentRecount
    ) throws(StorageError) -> Bool {
        let (offset, ordinal) = (walk.offset, walk.ordinal)
        if ordinal < segment.segment.durableBlockCount {
            report(durable: step, at: offset, ordinal: ordinal, &recount)
            if case .damaged(let header, _) = step {
                walk.move(past: header)
                return true
            }
            guard let found = try tail.block(behind: walk, before: file.byteCount(), buffer)
            else { return false }
            walk.resume(at: found.offset, ordinal: found.ordinal)
            return true
        }
        // Behind a sealed segment's blocks is its footer, which was reported.
        if segment.entry != nil { return false }
        var found: (offset: UInt64, ordinal: UInt32)?
        if let end = try tail.end(in: file, from: offset) {
            found = try tail.block(behind: walk, before: end, buffer)
        }
        guard let found else {
            // Only where no block follows can it be a footer, or a write that did not finish.
            if try wasSealedMeanwhile(blockCount: ordinal, &recount) { return false }
            let (judgement, isFooter) = try judge(step, at: offset)
            return try !report(
                judgement, isFooter: isFooter, at: offset, isLast: isLast, &recount)
        }
        // A block is written only after the one before was synced: what is here is final, and if it is
        // no block, a durable one is gone. It may have been finished since it was looked at.
        walk.resume(at: offset, ordinal: ordinal)
        if case .block = try walk.next(into: buffer) {
            walk.resume(at: offset, ordinal: ordinal)
            return true
        }
        report(
            lost: offset..<found.offset, ordinals: ordinal..<max(ordinal, found.ordinal), &recount)
        walk.resume(at: found.offset, ordinal: found.ordinal)
        return true
    }

    // MARK: What is reported

    private func report(
        durable step: Walk.Step, at offset: UInt64, ordinal: UInt32, _ recount: inout SegmentRecount
    ) {
        switch step {
        case .damaged(_, let error), .unreadable(let error):
            recount.report.add(Finding(error, file: name, offset: offset, what: "durable block"))
        case .nothing, .block:
            recount.report.add(
                Finding(
                    .corruption, file: name, offset: offset, what: "durable blocks are missing",
                    got: "\(ordinal) blocks", expected: "\(segment.segment.durableBlockCount)"))
        }
        recount.miss()
    }

    private func report(
        lost range: Range<UInt64>, ordinals: Range<UInt32>, _ recount: inout SegmentRecount
    ) {
        recount.report.add(
            Finding(
                .corruption, file: name, offset: range.lowerBound,
                what: "\(range.count) bytes that cannot be read, and blocks follow",
                got: "block \(ordinals.upperBound) next", expected: "block \(ordinals.lowerBound)"))
        recount.miss()
    }

    /// Whether a daemon has ended the segment since its footer was looked for. Its blocks have all been
    /// counted then, and its footer is held against them the next time.
    private func wasSealedMeanwhile(
        blockCount: UInt32, _ recount: inout SegmentRecount
    ) throws(StorageError) -> Bool {
        // A footer that cannot be believed has been reported.
        let report = recount.report
        defer { recount.report = report }
        guard let footer = try segment.readFooter(file, &recount) else { return false }
        return footer.footer.blockCount == blockCount
    }

    /// What lies behind the last whole block, and whether it begins as a footer does.
    private func judge(
        _ step: Walk.Step, at offset: UInt64
    ) throws(StorageError) -> (TailJudge.Judgement, isFooter: Bool) {
        if case .damaged(let header, _) = step {
            return (try TailJudge.judge(file, from: offset, .block(header)), false)
        }
        let isFooter = try beginsAsFooter(at: offset)
        return (try TailJudge.judge(file, from: offset, isFooter ? .footer : .unknown), isFooter)
    }

    /// Reports what lies behind the last whole block, which no other follows in this segment.
    /// - Returns: whether that is final; else the file is to be looked at again.
    private func report(
        _ judgement: TailJudge.Judgement, isFooter: Bool, at offset: UInt64, isLast: Bool,
        _ recount: inout SegmentRecount
    ) throws(StorageError) -> Bool {
        switch judgement {
        case .empty: return true
        case .torn(let byteCount) where isFooter || !segment.segment.isFollowed:
            let what = isFooter ? "a footer" : "a block"
            recount.report.add(
                Finding(
                    .note, file: name, offset: offset,
                    what:
                        "\(byteCount) bytes of \(what) that was not finished; nothing durable is in them"
                ))
        case .torn(let byteCount):
            guard isLast else { return false }
            recount.report.add(
                Finding(
                    .corruption, file: name, offset: offset,
                    what: "\(byteCount) bytes that are no block, and the log goes on behind them"))
            recount.miss()
        case .damage(let place, let what, _):
            guard isLast else { return false }
            recount.report.add(Finding(.corruption, file: name, offset: place, what: what))
            recount.isWhole = false
        }
        return true
    }

    private func beginsAsFooter(at offset: UInt64) throws(StorageError) -> Bool {
        let bytes = try file.readArray(at: offset, byteCount: 4)
        return bytes.count == 4
            && bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) } == SegmentFooter.magic
    }
}
