// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// What recovery will do with one unsealed segment: which blocks it keeps, what it reports as lost, what it
/// cuts. Made from surveys alone; nothing is written yet.
struct SegmentPlan<Files: FileSystem> {
    enum Step {
        case keep(offset: UInt64, BlockHeader)
        case lose(LostRange)
    }

    let survey: SegmentSurvey<Files>
    let header: SegmentHeader
    private(set) var steps: [Step] = []
    /// Bytes to be put aside before the file is replaced.
    private(set) var aside: [Range<UInt64>] = []
    private(set) var torn: TornTail?
    /// Behind the segment.
    private(set) var end: LogAnchor
    private var ordinal: UInt32 = 0

    /// Ordinals below this one were durable for certain; `nil` = all that were given.
    private let durableBlockCount: UInt32?
    /// The first place behind the segment of which anything is known.
    private let next: LogAnchor?

    /// - Parameters:
    ///   - start: behind the segment before; `nil` at the start of the log, or if it is not known.
    ///   - next: the first anchor in a later segment.
    ///   - bound: the greater of durable mark and cut.
    ///   - origin, now: for the header of a segment that has lost its own.
    init(
        _ survey: SegmentSurvey<Files>, start: LogAnchor?, next: LogAnchor?, bound: LogPosition,
        directory: DirectoryID, origin: DirectoryOrigin, now: Int64
    ) {
        self.survey = survey
        self.next = next
        header = Self.header(
            of: survey, start: start, directory: directory, origin: origin, now: now)
        end = LogAnchor(startOf: header)
        switch bound.segment {
        case survey.number: durableBlockCount = bound.blockCount
        case let segment where segment < survey.number: durableBlockCount = 0
        default: durableBlockCount = nil
        }
        if let footer = intact?.footer {
            for case .block(let offset, let header) in survey.pieces {
                steps.append(.keep(offset: offset, header))
            }
            end = LogAnchor(after: footer, startingAt: end)
            ordinal = footer.blockCount
        } else {
            for index in survey.pieces.indices { take(index) }
            takeMissingEnd()
        }
    }

    /// The segment's footer, if it is whole and has all that was durable: a copy from earlier days, put in the place
    /// of a damaged segment, may have less.
    var intact: (footer: SegmentFooter, offset: UInt64)? {
        guard let intact = survey.intact, intact.footer.blockCount >= durableBlockCount ?? 0 else {
            return nil
        }
        return intact
    }

    /// Whether the segment has its header, every block that `entry` counts but those that are known to be `lost`, and ends
    /// where the log goes on: links from block to block say that they are the same.
    func isWhole(_ entry: SealedSegment, lost known: [LostRange], upTo next: LogAnchor?) -> Bool {
        var (rowCount, lost): (UInt64, [LostRange]) = (0, intact?.footer.lost ?? [])
        for step in steps {
            switch step {
            case .keep(_, let header): rowCount += UInt64(header.rowCount)
            case .lose(let range): lost.append(range)
            }
        }
        let places = { (range: LostRange) in
            range.firstBlock..<range.firstBlock &+ range.blockCount
        }
        guard var next, survey.header != nil, torn == nil, ordinal == entry.blockCount,
            rowCount == entry.rowCount, lost.map(places) == known.map(places)
        else { return false }
        // The link behind a lost block is to that.
        if lost.last.map(places)?.upperBound == ordinal {
            next.previousChecksum = end.previousChecksum
        }
        return end == next
    }

    /// Says of lost ranges what was said of them when they were lost.
    mutating func recall(_ lost: [LostRange]) {
        for (place, step) in steps.enumerated() {
            guard case .lose(let range) = step,
                let known = lost.first(where: {
                    $0.firstBlock == range.firstBlock && $0.blockCount == range.blockCount
                })
            else { continue }
            steps[place] = .lose(known)
        }
    }

    /// Puts header and footer aside too: of a segment that was sealed, they were damaged.
    mutating func putEndsAside() {
        if intact != nil || survey.path == nil { return }
        let footerOffset = steps.last?.endOffset ?? SegmentLayout.blocksOffset
        putAside(min(footerOffset, survey.byteCount)..<survey.byteCount)
        putHeaderAside()
    }

    /// Puts a header aside that cannot be believed.
    mutating func putHeaderAside() {
        guard hasDamagedHeader else { return }
        putAside(0..<min(UInt64(SegmentHeader.byteCount), survey.byteCount))
    }

    private mutating func putAside(_ range: Range<UInt64>) {
        if !aside.contains(where: range.overlaps) { aside.append(range) }
    }

    /// A header was durable before the first block.
    var hasDamagedHeader: Bool { survey.header == nil && survey.path != nil }

    /// Whether nothing of the segment was ever durable: a file that was begun when the crash came.
    var isEmpty: Bool { steps.isEmpty && intact == nil }

    private static func header(
        of survey: SegmentSurvey<Files>, start: LogAnchor?, directory: DirectoryID,
        origin: DirectoryOrigin, now: Int64
    ) -> SegmentHeader {
        if let header = survey.header { return header }
        var anchor = start
        var createdAt = now
        var shard: UInt16 = 0
        if let first = survey.pieces.first?.header, first.context.blockOrdinal == 0 {
            anchor = LogAnchor(before: first)
            createdAt = first.context.admissionTime
            shard = first.context.shard
        }
        return SegmentHeader(
            directory: directory, shard: shard, segment: survey.number, createdAt: createdAt,
            previousChecksum: anchor?.previousChecksum ?? 0,
            firstName: NameOrdinal(rawValue: anchor?.nextName ?? 1),
            firstKey: KeyOrdinal(rawValue: anchor?.nextKey ?? 0),
            commitEpoch: anchor?.commitEpoch ?? 1, origin: origin)
    }

    // MARK: Pieces

    private mutating func take(_ index: Int) {
        switch survey.pieces[index] {
        case .block(let offset, let header) where continues(header):
            steps.append(.keep(offset: offset, header))
            move(past: header)
        case .block(let offset, let header):
            takeDamaged(header, at: offset, isFollowed: true)
        case .damaged(let offset, let header):
            takeDamaged(header, at: offset, isFollowed: isFollowed(index))
        case .unreadable(let range, let content):
            takeUnreadable(range, before: index + 1, content)
        }
    }

    /// Whether the ordinals that a sound block gives were still free: no encoder gives one twice.
    private func continues(_ header: BlockHeader) -> Bool {
        header.context.firstName.rawValue >= end.nextName
            && header.context.firstKey.rawValue >= end.nextKey
    }

    private mutating func takeDamaged(_ header: BlockHeader, at offset: UInt64, isFollowed: Bool) {
        let fileEnd = max(offset, survey.byteCount)
        let range = offset..<min(offset &+ UInt64(header.byteCount), fileEnd)
        let verdict = DamageVerdict(
            missingBlockCount: header.commitCount,
            // A rewritten block was durable before its file had its name.
            isFollowed: isFollowed || header.context.rewritten != nil,
            isBelowBound: isBelowBound, isFooter: false)
        aside.append(range)
        if verdict == .torn {
            cut(range, header)
        } else {
            append(SegmentPlan.lost(header, at: range))
            let before = end
            move(past: header)
            // The chain goes on from the last block that is still there, as the footer says.
            end.previousChecksum = before.previousChecksum
            end.nextName = max(end.nextName, before.nextName)
            end.nextKey = max(end.nextKey, before.nextKey)
        }
    }

    private mutating func takeUnreadable(
        _ range: Range<UInt64>, before index: Int, _ content: SegmentSurvey<Files>.Content
    ) {
        let following = index < survey.pieces.count ? survey.pieces[index].header : nil
        let later = following.map { LogAnchor(before: $0) } ?? next
        let missing =
            following.map { $0.context.blockOrdinal &- ordinal } ?? missingAtEnd()
        let verdict = DamageVerdict(
            missingBlockCount: missing, isFollowed: later != nil, isBelowBound: isBelowBound,
            isFooter: content == .footer)
        if content != .zeros && !(verdict == .remnant && content == .footer) { aside.append(range) }
        switch verdict {
        case .lost: lose(missing, range, upTo: later)
        case .torn: cut(range, nil)
        case .remnant: break
        }
    }

    /// Blocks that were durable, of which there are not even bytes: the file is too short.
    private mutating func takeMissingEnd() {
        let missing = missingAtEnd()
        if missing == 0 || torn != nil { return }
        let offset = steps.last.map(\.endOffset) ?? SegmentLayout.blocksOffset
        lose(missing, offset..<offset, upTo: next)
    }

    private var isBelowBound: Bool { durableBlockCount.map { ordinal < $0 } ?? true }

    private func isFollowed(_ index: Int) -> Bool {
        next != nil
            || survey.pieces[(index + 1)...].contains { $0.header != nil }
    }

    /// How many blocks are known to have followed the last one in this segment.
    private func missingAtEnd() -> UInt32 {
        let byAnchor = next.map { end.blockCount(to: $0) } ?? 0
        let bound = durableBlockCount ?? 0
        let byBound = bound > ordinal ? bound - ordinal : 0
        // The walk gives no ordinal beyond the limit.
        return min(max(byAnchor, byBound), UInt32(Limits.segmentBlockCountMax) &- ordinal)
    }

    // MARK: Steps

    private mutating func move(past header: BlockHeader) {
        ordinal = header.endOrdinal
        end = LogAnchor(after: header)
    }

    /// - Parameter header: of the block there, if it can be believed.
    private mutating func cut(_ range: Range<UInt64>, _ header: BlockHeader?) {
        let start = torn?.range.lowerBound ?? range.lowerBound
        torn = TornTail(
            range: start..<max(start, range.upperBound),
            isHeaderReadable: torn?.isHeaderReadable ?? false || header != nil,
            rowCount: (torn?.rowCount ?? 0).saturatingSum(UInt64(header?.rowCount ?? 0)),
            hasHole: survey.hole != nil)
    }

    private mutating func lose(_ count: UInt32, _ range: Range<UInt64>, upTo later: LogAnchor?) {
        let lost = lostRange(count, range, upTo: later)
        append(lost)
        ordinal = lost.firstBlock &+ lost.blockCount
        end.commitEpoch &+= UInt64(lost.blockCount)
        end.nextName = lost.names.upperBound
        end.nextKey = lost.keys.upperBound
    }

    /// Adds lost blocks, as one range with those just before them.
    private mutating func append(_ lost: LostRange) {
        guard case .lose(let last)? = steps.last,
            last.firstBlock + last.blockCount == lost.firstBlock
        else {
            steps.append(.lose(lost))
            return
        }
        var both = last
        both.blockCount += lost.blockCount
        let end = max(last.offset + last.byteCount, lost.offset + lost.byteCount)
        both.byteCount = end - last.offset
        both.rowCount = last.rowCount.flatMap { first in lost.rowCount.map { first &+ $0 } }
        both.names = last.names.lowerBound..<max(last.names.upperBound, lost.names.upperBound)
        both.keys = last.keys.lowerBound..<max(last.keys.upperBound, lost.keys.upperBound)
        steps[steps.count - 1] = .lose(both)
    }

    /// What is known of blocks that cannot be read: from a footer that was there, else from what follows.
    private func lostRange(
        _ count: UInt32, _ range: Range<UInt64>, upTo later: LogAnchor?
    ) -> LostRange {
        if let known = survey.footer?.lost.first(where: {
            $0.firstBlock == ordinal && $0.blockCount == count
        }) {
            return known
        }
        let ordinals = ordinal..<ordinal + count
        let indexed = survey.footer?.blocks.filter { ordinals.contains($0.ordinal) } ?? []
        let rowCount = indexed.reduce(UInt64(0)) { $0 &+ UInt64($1.summary.rowCount) }
        let indexedCount = indexed.reduce(0) { $0 &+ $1.summary.commitCount }
        // Whole units of 8, as blocks are, so that a footer behind them stays aligned.
        let byteCount = (UInt64(range.count) + 7) / 8 * 8
        return LostRange(
            segment: survey.number, firstBlock: ordinal, blockCount: count,
            offset: range.lowerBound, byteCount: byteCount,
            rowCount: indexedCount == count ? rowCount : nil,
            names: end.nextName..<max(end.nextName, later?.nextName ?? 0),
            keys: end.nextKey..<max(end.nextKey, later?.nextKey ?? 0))
    }

    /// A block whose header can be believed, and nothing else of it.
    static func lost(_ header: BlockHeader, at range: Range<UInt64>) -> LostRange {
        let context = header.context
        return LostRange(
            segment: context.segment, firstBlock: context.blockOrdinal,
            blockCount: header.commitCount,
            offset: range.lowerBound, byteCount: UInt64(range.count),
            rowCount: UInt64(header.rowCount),
            names: context.firstName
                .rawValue..<max(
                    context.firstName.rawValue, header.nextName.rawValue),
            keys: context.firstKey
                .rawValue..<max(
                    context.firstKey.rawValue, header.nextKey.rawValue))
    }
}

extension SegmentSurvey.Piece {
    /// The header of the block, where there is one that can be believed.
    var header: BlockHeader? {
        switch self {
        case .block(_, let header), .damaged(_, let header): header
        case .unreadable: nil
        }
    }
}

extension SegmentPlan.Step {
    /// Where it ends in the file.
    var endOffset: UInt64 {
        switch self {
        case .keep(let offset, let header): offset &+ UInt64(header.byteCount)
        case .lose(let lost): lost.offset &+ lost.byteCount
        }
    }
}

/// What bytes in an unsealed segment are that are no whole block. The one place where *torn* and *bad* are
/// told apart (docs/durability.md).
enum DamageVerdict: Equatable {
    /// Blocks that were durable are missing here: a gap in the ordinals, reported as lost.
    case lost
    /// The write that a crash cut off: never durable, never acked. Cut, and kept aside.
    case torn
    /// No block can have been here: a footer that was not finished, or bytes that belong to nobody.
    case remnant

    /// - Parameters:
    ///   - missingBlockCount: ordinals that were given and of which no block was found here.
    ///   - isFollowed: whether the sound header of a block or segment lies further on in the log. A block is
    ///     written, and a segment begun, only after the block before was synced: what is followed was durable.
    ///   - isBelowBound: whether the durable mark or the manifest's cut lies behind the first missing block.
    ///   - isFooter: whether the bytes begin as a footer does.
    init(missingBlockCount: UInt32, isFollowed: Bool, isBelowBound: Bool, isFooter: Bool) {
        if isFollowed || isBelowBound {
            self = missingBlockCount > 0 ? .lost : .remnant
        } else {
            self = isFooter ? .remnant : .torn
        }
    }
}
