// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import Dispatch
import IngestFormat
import IngestStorage

/// Makes the rule of repeats at start: from the rows of the sealed segments, as far back as the window reaches.
///
/// **Cost** Claims are read on one thread and entered on another, which takes longer: 35–45 ns an id. Memory is
/// taken for as many as there are.
struct LoadedIDs<Files: FileSystem>: ~Copyable {
    private var index: DedupIndex
    private let policy: CountingPolicy
    private let completeSince: Int64
    private let leadMicroseconds: Int64
    /// For the log: what of the window cannot be read, if something cannot.
    let warning: String?

    private static var farDistance: Int { 16 }
    private static var nearDistance: Int { 8 }

    /// Enters the ids of the sealed segments of which claims may hold.
    ///
    /// - Parameter now: µs since 1970. A block that says to be newer, since the clock was ahead, is as old as this.
    /// **Errors** `io`, `newerFormat`. What is damaged is left out: repeats of its rows are not found, and what is older
    /// than the rows behind it counts as outside the window.
    init(
        _ policy: CountingPolicy, of manifest: Manifest, now: Int64, in files: Files
    ) throws(PipelineError) {
        self.policy = policy
        index = DedupIndex(
            keyCountMax: policy.keyCountMax, windowMicroseconds: policy.windowMicroseconds)
        do throws(StorageError) {
            let reach = try ClaimReach(of: manifest, policy, now: now, in: files)
            index.reserve(keyCount: min(reach.claimCountMin, policy.keyCountMax))
            let logged = LoggedClaims(manifest, reach, policy, now: now, in: files)
            var (current, next) = (ClaimBatch(), ClaimBatch())
            var isMore = try logged.read(into: current)
            while isMore {
                let ahead = Self.read(logged, into: next)
                Self.enter(current, into: &index)
                isMore = try ahead.wait()
                swap(&current, &next)
            }
            Self.enter(current, into: &index)
            (completeSince, leadMicroseconds) = (logged.completeSince, logged.leadMicroseconds)
            warning = logged.warning
        } catch {
            throw .storage(error)
        }
    }

    /// The rule, and from when on it knows all ids.
    consuming func finish() -> RepeatRule {
        RepeatRule(
            index, policy, completeSince: completeSince, leadMicroseconds: leadMicroseconds)
    }

    private static func enter(_ batch: ClaimBatch, into index: inout DedupIndex) {
        let count = batch.claims.count
        var place = 0
        for block in batch.blocks {
            index.open(admissionTime: block.admissionTime, committedAt: block.committedAt)
            while place < block.end {
                index.prefetch(batch.claims[min(place + farDistance, count - 1)].hash)
                index.prefetchFurther(batch.claims[min(place + nearDistance, count - 1)].hash)
                let claim = batch.claims[place]
                index.load(claim.hash, check: claim.check)
                place += 1
            }
        }
    }

    private static func read(_ logged: LoggedClaims<Files>, into batch: ClaimBatch) -> ReadAhead {
        ReadAhead { () throws(StorageError) in try logged.read(into: batch) }
    }
}

/// A read that is done by another thread meanwhile.
private final class ReadAhead: @unchecked Sendable {
    private let group = DispatchGroup()
    /// Written before the group is left, read after it was waited for.
    private var result: Result<Bool, StorageError> = .success(false)

    init(_ body: @escaping @Sendable () throws(StorageError) -> Bool) {
        DispatchQueue.global().async(group: group) { [self] in
            do throws(StorageError) { result = .success(try body()) } catch {
                result = .failure(error)
            }
        }
    }

    func wait() throws(StorageError) -> Bool {
        group.wait()
        return try result.get()
    }
}

/// Claims of the log in their order, as many as are handed over at a time. Used by one thread at a time.
final class ClaimBatch: @unchecked Sendable {
    /// The claims of one block, up to `end`.
    struct Block {
        let admissionTime: Int64
        /// By the log: later, where its clock was ahead.
        let committedAt: Int64
        let end: Int
    }

    fileprivate(set) var claims: [(hash: UInt64, check: UInt16)] = []
    fileprivate(set) var blocks: [Block] = []
}

/// Reads which ids were counted, and when, from the blocks of sealed segments. Used by one thread at a time.
///
/// What cannot be read is left out and moves `completeSince`: whatever was in it was committed before the first
/// block behind it that can be read, or before this start.
///
/// **Cost** Of each block the columns of claims, about 10 ns an id, 1 µs a block.
final class LoggedClaims<Files: FileSystem>: @unchecked Sendable {
    private let files: Files
    private let directory: DirectoryID
    private let now: Int64
    private let windowMicroseconds: Int64
    private let reach: ClaimReach
    private var segments: ArraySlice<SealedSegment>
    /// The newest commit time of rows that are not read, µs since 1970; `Int64.min` if all are.
    private(set) var completeSince: Int64
    /// How far ahead the times of their events may be, by the rules of any of the segments that are read: those of older ones
    /// are not known.
    private(set) var leadMicroseconds: Int64 = 0
    /// Whether rows before the next block were not read, and it is not known when they were committed.
    private var isPartUnknown: Bool
    /// Blocks of the segments that are looked at, and that cannot be read.
    private var damage: (count: Int, first: String) = (0, "")

    private var segment: SealedBlocks<Files>?
    private var nextBlock = 0
    private var isFirst = true
    private let blocks: LoggedBlocks<Files>

    private static var batchClaimCount: Int { 1 << 16 }
    private static var batchBlockCount: Int { 1 << 12 }

    /// - Parameter now: the time of this start; no claim counts as newer.
    init(
        _ manifest: Manifest, _ reach: ClaimReach, _ policy: CountingPolicy, now: Int64,
        in files: Files
    ) {
        self.files = files
        self.now = now
        windowMicroseconds = policy.windowMicroseconds
        self.reach = reach
        directory = manifest.directory
        blocks = LoggedBlocks(directory: manifest.directory)
        segments = manifest.sealed[reach.firstSegment...]
        completeSince = reach.completeSince
        isPartUnknown = reach.isPartUnknown
    }

    /// For the log, if blocks cannot be read.
    var warning: String? {
        damage.count == 0
            ? nil
            : "\(damage.count) blocks of sealed segments cannot be read: they stay counted, repeats of their "
                + "events are not found; run ingest-reader verify, and check the disk; the first: "
                + damage.first
    }

    /// Reads the next claims, instead of those that are in the batch.
    ///
    /// - Returns: whether blocks may be left.
    /// **Errors** `io`, `newerFormat`.
    func read(into batch: ClaimBatch) throws(StorageError) -> Bool {
        batch.claims.removeAll(keepingCapacity: true)
        batch.blocks.removeAll(keepingCapacity: true)
        while batch.claims.count < Self.batchClaimCount
            && batch.blocks.count < Self.batchBlockCount
        {
            guard let segment else {
                guard let next = segments.popFirst() else {
                    if isPartUnknown { completeSince = max(completeSince, now) }
                    return false
                }
                let opened = try SealedBlocks(next, directory: directory, in: files)
                note(opened.unreadableCount, of: next.number)
                leadMicroseconds = max(
                    leadMicroseconds, opened.header?.policy.leadMicrosecondsMax ?? 0)
                segment = opened
                nextBlock = isFirst ? reach.firstBlock : 0
                isFirst = false
                continue
            }
            if nextBlock < segment.entries.count {
                try read(segment, into: batch)
                nextBlock += 1
            } else {
                let end = segment.entries.last?.endOrdinal ?? 0
                if end < segment.ordinalCount { isPartUnknown = true }
                self.segment = nil
            }
        }
        return true
    }

    /// When something was committed: by the log, whose clock may have been ahead, but no more than a window from now, lest all
    /// were outside of it for as long as that clock was ahead.
    private func believed(_ admissionTime: Int64) -> Int64 {
        min(admissionTime, now &+ windowMicroseconds)
    }

    /// Notes blocks of which nobody knows where they are.
    private func note(_ blockCount: Int, of number: SegmentNumber) {
        if blockCount == 0 { return }
        if damage.count == 0 {
            damage.first = "\(blockCount) blocks of \(FileName.segment(number).text)"
        }
        damage.count += blockCount
    }

    /// Reads the next block of a segment.
    private func read(
        _ segment: SealedBlocks<Files>, into batch: ClaimBatch
    ) throws(StorageError) {
        let block = segment.entries[nextBlock]
        let committedAt = believed(block.summary.lastAdmissionTime)
        let time = min(committedAt, now)
        let expected = nextBlock > 0 ? segment.entries[nextBlock - 1].endOrdinal : 0
        if isPartUnknown || block.ordinal != expected {
            completeSince = max(completeSince, committedAt)
        }
        isPartUnknown = false
        if block.summary.eventHashCount == 0 { return }
        guard time >= reach.oldest else {
            completeSince = max(completeSince, time)
            return
        }
        guard let commits = try blocks.decode(block, of: segment, wanted: .identity)?.commits else {
            if damage.count == 0 { damage.first = try blocks.text(ofDamaged: block, in: segment) }
            damage.count += 1
            completeSince = max(completeSince, committedAt)
            return
        }
        appendClaims(commits, to: batch)
    }

    /// The counted rows of the block that was decoded, commit by commit.
    private func appendClaims(_ commits: BlockCommits, to batch: ClaimBatch) {
        let rows = blocks.rows
        // SAFETY, of all reads: the decoder has filled `rowCount` rows, and of the sparse columns as many values as the
        // attributes of the rows say.
        var (hash, money) = (0, 0)
        commits.forEach { (place, ownRows) in
            let committedAt = believed(commits.admissionTimes[place])
            let time = min(committedAt, now)
            let (isTooOld, firstHash) = (time < reach.oldest, hash)
            for row in ownRows {
                let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
                let (revenue, spend) =
                    unsafe attributes.hasMoney
                    ? (rows.revenue[money], rows.spend[money]) : (0, 0)
                if attributes.hasMoney { money += 1 }
                guard attributes.hasEventID else { continue }
                if attributes.verdict == .counted && !isTooOld {
                    let check = unsafe RepeatRule.check(
                        key: rows.key[row], revenue: revenue,
                        spend: spend)
                    batch.claims.append((unsafe rows.eventHash[hash], check))
                }
                hash += 1
            }
            if hash == firstHash { return }
            if isTooOld { return completeSince = max(completeSince, time) }
            batch.blocks.append(
                ClaimBatch.Block(
                    admissionTime: time, committedAt: committedAt, end: batch.claims.count))
        }
    }
}

/// How far back claims can be that hold.
struct ClaimReach {
    /// Place in the manifest's list of the segment with the oldest of them.
    let firstSegment: Int
    /// Blocks of that segment before them.
    var firstBlock = 0
    /// Claims that were committed earlier are too old, µs since 1970.
    let oldest: Int64
    /// The newest commit time of the claims before these; `Int64.min` if there are none.
    let completeSince: Int64
    /// Whether there are rows before these of which no commit time is known.
    let isPartUnknown: Bool
    /// How many claims there are, at least.
    let claimCountMin: Int
}

extension ClaimReach {
    /// Segments that are looked at behind the first that is too old, in case that one's clock was behind theirs.
    private static let segmentCountBehind = 16

    /// Looks back through the footers from the newest segment on, as far as the window and the number of keys reach.
    ///
    /// - Parameter now: the time of this start; no claim counts as newer.
    /// **Errors** `io`, `newerFormat`.
    init<Files: FileSystem>(
        of manifest: Manifest, _ policy: CountingPolicy, now: Int64, in files: Files
    ) throws(StorageError) {
        var newest = Int64.min
        var newestTooOld = Int64.min
        var tooOldCount = 0
        var claimCount = 0
        // The index drops its oldest claims by 64ths of what it keeps.
        let claimCountMax = policy.keyCountMax + policy.keyCountMax / 32
        for (place, segment) in manifest.sealed.enumerated().reversed() {
            let blocks = try SealedBlocks(
                segment, directory: manifest.directory, countsClaims: true, in: files)
            guard let last = blocks.entries.last else { continue }
            let time = min(last.summary.lastAdmissionTime, now)
            newest = max(newest, time)
            let oldest = newest &- policy.windowMicroseconds
            if time < oldest {
                newestTooOld = max(newestTooOld, time)
                tooOldCount += 1
                if tooOldCount <= Self.segmentCountBehind && place > 0 { continue }
                self.init(
                    firstSegment: place + tooOldCount, oldest: oldest,
                    completeSince: newestTooOld, isPartUnknown: false, claimCountMin: claimCount)
                return
            }
            tooOldCount = 0
            claimCount += blocks.claimCountMin
            if claimCount > claimCountMax {
                let (firstBlock, idCount) = Self.skipped(blocks.entries, claimCount - claimCountMax)
                self.init(
                    firstSegment: place, firstBlock: firstBlock, oldest: oldest,
                    completeSince: newestTooOld,
                    isPartUnknown: place > 0 || firstBlock > 0 || manifest.hasExpired,
                    claimCountMin: claimCount - idCount)
                return
            }
        }
        self.init(
            firstSegment: 0,
            oldest: newest == .min ? .min : newest &- policy.windowMicroseconds,
            completeSince: newestTooOld, isPartUnknown: manifest.hasExpired,
            claimCountMin: claimCount)
    }

    /// How many blocks, from the first on, have so few ids together; and how many they have.
    private static func skipped(
        _ blocks: [BlockIndexEntry], _ idCountMax: Int
    ) -> (blockCount: Int, idCount: Int) {
        var idCount = 0
        for (place, block) in blocks.enumerated() {
            let next = idCount + block.summary.eventHashCount
            if next > idCountMax { return (place, idCount) }
            idCount = next
        }
        return (blocks.count, idCount)
    }
}

extension Manifest {
    fileprivate var hasExpired: Bool { lastExpired.rawValue > 0 }
}
