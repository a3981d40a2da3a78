// packet → decode → ring → admit → block → [segment] → compaction → snapshot → [query]

import Glibc
import IngestFormat
import IngestStorage

/// Checks a segment without a sound footer, from block to block; a daemon may be writing to it.
struct LiveSegmentCheck<Files: FileSystem> {
    let segment: SegmentCheck<Files>
    let file: Files.File

    /// What looks like damage behind the durable blocks may be a write under way: it is looked at again.
    private static var attemptCount: Int { 4 }
    private static var pauseMicroseconds: UInt32 { 20_000 }

    private var name: String { segment.name }

    /// - Returns: how many block ordinals were given in it.
    func run(_ recount: inout LogRecount) throws(StorageError) -> UInt32 {
        var walk = BlockWalk(
            file,
            place: BlockPlace(
                directory: recount.directory, segment: segment.number, blockOrdinal: 0))
        var attempt = 1
        while true {
            let (offset, ordinal) = (walk.offset, walk.ordinal)
            // The recount checks the chain, and goes on where it is broken: here only places count.
            walk.resume(at: offset, ordinal: ordinal)
            let step = try walk.next(into: segment.buffer)
            if case .block = step {
                _ = segment.countBuffered(at: offset, ordinal: ordinal, &recount)
                attempt = 1
                continue
            }
            if ordinal < segment.durableBlockCount {
                report(durable: step, at: offset, ordinal: ordinal, &recount)
                guard case .damaged(let header, _) = step else { return ordinal }
                walk.move(past: header)
                continue
            }
            // Behind a sealed segment's blocks is its footer, which was reported.
            if segment.entry != nil { return ordinal }
            let isLast = attempt >= Self.attemptCount
            if try wasSealedMeanwhile(blockCount: ordinal, &recount) { return ordinal }
            if try judge(step, at: offset, isLast: isLast, &recount) { return ordinal }
            attempt += 1
            usleep(Self.pauseMicroseconds)
        }
    }

    private func report(
        durable step: BlockWalk<Files.File>.Step, at offset: UInt64, ordinal: UInt32,
        _ recount: inout LogRecount
    ) {
        switch step {
        case .damaged(_, let error), .unreadable(let error):
            recount.report.add(Finding(error, file: name, offset: offset, what: "durable block"))
        case .nothing, .block:
            recount.report.add(
                Finding(
                    .corruption, file: name, offset: offset, what: "durable blocks are missing",
                    got: "\(ordinal) blocks", expected: "\(segment.durableBlockCount)"))
        }
        recount.chain.forget()
        if segment.number <= recount.cut.segment { recount.isTotalComplete = false }
    }

    /// Whether a daemon has ended the segment since its footer was looked for. Its blocks have all been
    /// counted then, and its footer is held against them the next time.
    private func wasSealedMeanwhile(
        blockCount: UInt32, _ recount: inout LogRecount
    ) throws(StorageError) -> Bool {
        // A footer that cannot be believed has been reported.
        let report = recount.report
        defer { recount.report = report }
        guard let (footer, _) = try segment.readFooter(file, &recount) else { return false }
        return footer.blockCount == blockCount
    }

    /// Judges what lies behind the last whole block.
    /// - Returns: whether that is final; else the file is to be looked at again.
    private func judge(
        _ step: BlockWalk<Files.File>.Step, at offset: UInt64, isLast: Bool,
        _ recount: inout LogRecount
    ) throws(StorageError) -> Bool {
        let isFooter = try beginsAsFooter(at: offset)
        var beginning: TailJudge.Beginning = isFooter ? .footer : .unknown
        if case .damaged(let header, _) = step { beginning = .block(byteCount: header.byteCount) }
        switch try TailJudge.judge(file, from: offset, beginning) {
        case .empty: return true
        case .torn(let byteCount) where isFooter || !segment.isFollowed:
            let what = isFooter ? "a footer" : "a block"
            recount.report.add(
                Finding(
                    .note, file: name, offset: offset,
                    what:
                        "\(byteCount) bytes of \(what) that was not finished; nothing durable is in them"
                ))
            return true
        case .torn(let byteCount):
            guard isLast else { return false }
            recount.report.add(
                Finding(
                    .corruption, file: name, offset: offset,
                    what: "\(byteCount) bytes that are no block, and the log goes on behind them"))
            return true
        case .damage(let place, let what):
            guard isLast else { return false }
            recount.report.add(Finding(.corruption, file: name, offset: place, what: what))
            return true
        }
    }

    private func beginsAsFooter(at offset: UInt64) throws(StorageError) -> Bool {
        let bytes = try file.readArray(at: offset, byteCount: 4)
        return bytes.count == 4
            && bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) } == SegmentFooter.magic
    }
}
