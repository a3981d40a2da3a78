// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// Checks a segment without a sound footer; a daemon may be writing to it.
struct LiveSegmentScan<Files: FileSystem>: Sendable {
    private typealias Survey = SegmentSurvey<Files>

    let segment: SegmentScan<Files>
    let file: Files.File

    /// What looks like damage behind the durable blocks may be a write under way: it is looked at again.
    private static var attemptCount: Int { 4 }

    private var name: String { segment.name }
    private var durableBlockCount: UInt32 { segment.segment.durableBlockCount }

    /// - Returns: how many block ordinals were given in it.
    func run(
        _ memory: ScanMemory, _ recount: inout SegmentRecount
    ) throws(StorageError) -> UInt32 {
        var (survey, tail) = try look()
        for attempt in 1..<Self.attemptCount {
            // What a block follows is looked at once more: that was written only after this was synced.
            let isSure = attempt > 1 || survey.pieces.allSatisfy(\.isBlock)
            if isSure && tail?.isFinal != false { break }
            segment.pause()
            (survey, tail) = try look()
        }
        var next: UInt32 = 0
        for (index, piece) in survey.pieces.enumerated() where !segment.meter.isStopped {
            if tail != nil && index == survey.pieces.count - 1 { break }
            // The recount checks the chain, and goes on where it is broken: here only places count.
            switch piece {
            case .block(let offset, let header), .damaged(let offset, let header):
                try memory.buffer.read(file, at: offset, byteCount: header.byteCount)
                let ordinal = header.context.blockOrdinal
                let found = segment.count(memory, at: offset, ordinal: ordinal, &recount)
                // Where its checksums are right and it cannot be decoded, it was made wrong.
                if found == nil { recount.miss() }
                next = ordinal &+ 1
            case .unreadable(let range, _):
                let following = survey.pieces[(index + 1)...].first?.ordinal
                if segment.entry != nil && following == nil && next >= durableBlockCount {
                    continue
                }
                recount.report.add(
                    .corruption, "\(range.count) bytes that cannot be read", in: name,
                    at: range.lowerBound, got: "block \(following ?? durableBlockCount) next",
                    expected: "block \(next)")
                recount.miss()
            }
        }
        let isReported = if case .unreadable? = survey.pieces.last { true } else { false }
        if next < durableBlockCount && !isReported && !segment.meter.isStopped {
            recount.report.add(
                .corruption, "durable blocks are missing", in: name, got: "\(next) blocks",
                expected: "\(durableBlockCount)")
            recount.miss()
        }
        if let tail { report(tail, &recount) }
        return next
    }

    // MARK: What lies behind the last whole block

    private struct Tail {
        let judgement: TailJudge.Judgement
        let isFooter: Bool
        let offset: UInt64
        /// Else the file is to be looked at again.
        let isFinal: Bool
    }

    /// Only where no block follows can it be a footer, or a write that did not finish.
    private func look() throws(StorageError) -> (Survey, Tail?) {
        let survey = try Survey(segment.number, directory: segment.directory, of: file)
        let ordinal = survey.pieces.dropLast().last?.ordinal.map { $0 &+ 1 } ?? 0
        // Behind a sealed segment's blocks is its footer, which was reported.
        if segment.entry != nil || ordinal < durableBlockCount { return (survey, nil) }
        switch survey.pieces.last {
        case .damaged(let offset, let header):
            return (survey, try judge(offset, .block(header)))
        case .unreadable(let range, let content):
            return (survey, try judge(range.lowerBound, content == .footer ? .footer : .unknown))
        default: return (survey, nil)
        }
    }

    private func judge(
        _ offset: UInt64, _ beginning: TailJudge.Beginning
    ) throws(StorageError) -> Tail {
        let judgement = try TailJudge.judge(file, from: offset, beginning)
        let isFooter = if case .footer = beginning { true } else { false }
        let isFinal =
            switch judgement {
            case .empty: true
            case .torn: isFooter || !segment.segment.isFollowed
            case .damage: false
            }
        return Tail(judgement: judgement, isFooter: isFooter, offset: offset, isFinal: isFinal)
    }

    private func report(_ tail: Tail, _ recount: inout SegmentRecount) {
        switch tail.judgement {
        case .empty: break
        case .torn(let byteCount) where tail.isFinal:
            recount.report.add(
                .note,
                "\(byteCount) bytes of \(tail.isFooter ? "a footer" : "a block") that was not "
                    + "finished; nothing durable is in them", in: name, at: tail.offset)
        case .torn(let byteCount):
            recount.report.add(
                .corruption,
                "\(byteCount) bytes that are no block, and the log goes on behind them",
                in: name, at: tail.offset)
            recount.miss()
        case .damage(let place, let what):
            recount.report.add(.corruption, what, in: name, at: place)
            recount.isWhole = false
        }
    }
}

extension SegmentSurvey.Piece {
    fileprivate var isBlock: Bool { if case .block = self { true } else { false } }

    /// Of the block, where its header can be believed.
    fileprivate var ordinal: UInt32? {
        switch self {
        case .block(_, let header), .damaged(_, let header): header.context.blockOrdinal
        case .unreadable: nil
        }
    }
}
