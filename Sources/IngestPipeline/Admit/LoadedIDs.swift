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
    private let policy: RepeatPolicy
    private let completeSince: Int64

    private static var farDistance: Int { 16 }
    private static var nearDistance: Int { 8 }

    /// Enters the ids of the sealed segments of which claims may hold.
    ///
    /// - Parameter now: µs since 1970. A block that says to be newer, since the clock was ahead, is as old as this.
    /// **Errors** `io`, `newerFormat`. What is damaged is left out: repeats of its rows are not found, and what is older
    /// than the rows behind it counts as outside the window.
    init(
        _ policy: RepeatPolicy, of manifest: Manifest, now: Int64, in files: Files
    ) throws(PipelineError) {
        self.policy = policy
        index = DedupIndex(
            keyCountMax: policy.keyCountMax, windowMicroseconds: policy.windowMicroseconds)
        do throws(StorageError) {
            let reach = try ClaimReach(of: manifest, policy, now: now, in: files)
            index.reserve(keyCount: min(reach.claimCountMin, policy.keyCountMax))
            let logged = LoggedClaims(manifest, reach, now: now, in: files)
            var (current, next) = (ClaimBatch(), ClaimBatch())
            var isMore = try logged.read(into: current)
            while isMore {
                let ahead = Self.read(logged, into: next)
                Self.enter(current, into: &index)
                isMore = try ahead.wait()
                swap(&current, &next)
            }
            Self.enter(current, into: &index)
            completeSince = logged.completeSince
        } catch {
            throw .storage(error)
        }
    }

    /// The rule, and from when on it knows all ids.
    consuming func finish() -> RepeatRule {
        RepeatRule(index, policy, completeSince: completeSince)
    }

    private static func enter(_ batch: ClaimBatch, into index: inout DedupIndex) {
        let count = batch.claims.count
        var place = 0
        for block in batch.blocks {
            index.open(admissionTime: block.admissionTime)
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
