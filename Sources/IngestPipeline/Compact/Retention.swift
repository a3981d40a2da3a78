// packet → decode → ring → admit → block → segment → [compaction → snapshot] → query
import IngestFormat
import IngestStorage

/// Removes the rows of old segments and keeps what they add up to. Owned by the compact queue; `step` is one
/// turn of it, between two blocks.
///
/// Whole segments go, the oldest first, that a newer generation than the one that sealed them covers: their
/// counters are in the runs and their names in names runs, so no answer changes. Order
/// (docs/durability.md): their footers folded into one file, which is durable → a manifest that names that file and
/// no longer the segments → a minute later they are unlinked. A crash anywhere leaves the one or the other.
///
/// **Cost** Nothing while nothing is due, but a look at the sealed segments once a minute, or once a generation
/// where their bytes are bounded. A turn reads one footer, or folds 64 pages.
package struct Retention<Files: FileSystem, Clock: IngestClock>: ~Copyable {
    private let files: Files
    private let policy: RetentionPolicy
    private let calendar: BusinessCalendar
    private let clock: Clock
    private var wallClock: RetentionClock<Clock>
    private let counters: PipelineCounters
    private let say: @Sendable (String) -> Void

    private var batch: RetentionBatch<Files>?
    private var fold: RetentionFold<Files>?
    private var newest: RetentionBatch<Files>.CommitTime?
    /// When ages are looked at next.
    private var nextLookNanoseconds: UInt64
    /// Whether the batch or the fold at hand came of such a look.
    private var looksAtAges = false
    /// Before then nothing is looked at: the last look found what could not go.
    private var restsUntilNanoseconds: UInt64 = 0
    /// A generation that is to be followed by a merge before there is more to look for.
    private var waitsBehind: Generation?
    /// The generation whose bytes were added up last.
    private var measured: Generation?
    /// Whether the last fold's file had to be given up.
    private var hasFailed = false
    /// Whether the disk did not take the last one, for a `Shortage`, and none has been done since.
    package private(set) var isRefused = false

    /// Ages change by the day, and a file that cannot be read now may be there again in a minute.
    private static var lookNanoseconds: UInt64 { 60_000_000_000 }

    /// - Parameter say: takes a line for the log, and never blocks.
    package init(
        _ configuration: PipelineConfiguration, files: Files, clock: Clock,
        counters: PipelineCounters, say: @escaping @Sendable (String) -> Void
    ) {
        self.files = files
        policy = configuration.retention
        calendar = configuration.calendar
        self.clock = clock
        wallClock = RetentionClock(clock)
        self.counters = counters
        self.say = say
        nextLookNanoseconds = clock.monotonicNanoseconds() &+ Self.lookNanoseconds
    }

    /// Whether there is something to go on with at once.
    package var isWorking: Bool { batch != nil || fold != nil }

    /// One turn.
    ///
    /// **Errors** What ends the daemon: a disk that fails, a file of a newer format. After a `Shortage` it begins
    /// anew, after the second in a row a minute later.
    package mutating func step(
        _ publisher: inout SnapshotPublisher<Files, Clock>
    ) throws(PipelineError) {
        if fold != nil {
            try goOn(&publisher)
        } else if batch != nil {
            try gather(&publisher)
        } else {
            look(at: publisher.manifest)
        }
    }

    /// Gives up what is not published.
    package mutating func stop() {
        batch = nil
        if let fold = fold.take() { fold.abandon() }
    }

    // MARK: What is due

    private mutating func look(at manifest: Manifest) {
        let now = clock.monotonicNanoseconds()
        guard now >= restsUntilNanoseconds, !manifest.sealed.isEmpty else { return }
        if let waitsBehind {
            if manifest.generation == waitsBehind { return }
            (self.waitsBehind, measured) = (nil, nil)
            if looksAtAges { nextLookNanoseconds = 0 }
        }
        var excess: UInt64 = 0
        if policy.byteCountMax > 0, manifest.generation != measured {
            excess = policy.excessByteCount(of: manifest)
            measured = manifest.generation
        }
        var age: RetentionAge?
        if policy.dayCountMax > 0, now >= nextLookNanoseconds {
            age = RetentionAge(
                policy, now: wallClock.wallMicroseconds(), calendar: calendar)
            nextLookNanoseconds = now &+ Self.lookNanoseconds
        }
        guard excess > 0 || age != nil else { return }
        looksAtAges = age != nil
        batch = RetentionBatch(
            after: manifest, excessByteCount: excess, age: age, newest: newest, in: files)
    }

    /// What cannot be read now is no reason to stop counting: rows stay for longer, and the log says why.
    ///
    /// **Errors** What else went wrong.
    private mutating func wait(after error: PipelineError) throws(PipelineError) {
        if error.shortage != nil { throw beginAgain(after: error) }
        switch error {
        case .storage(.io), .storage(.corrupt), .storage(.notFound):
            say("retention failed, retrying in a minute: \(error)")
            rest()
        default: throw error
        }
    }

    /// What was begun is given up; there may be more room for it the next time.
    private mutating func beginAgain(after error: PipelineError) -> PipelineError {
        if looksAtAges { nextLookNanoseconds = 0 }
        measured = nil
        isRefused = true
        if hasFailed { rest() }
        hasFailed.toggle()
        return error
    }

    private mutating func rest() {
        restsUntilNanoseconds = clock.monotonicNanoseconds() &+ Self.lookNanoseconds
    }

    // MARK: The fold

    private mutating func gather(
        _ publisher: inout SnapshotPublisher<Files, Clock>
    ) throws(PipelineError) {
        guard var gathered = batch.take() else { return }
        let manifest = publisher.manifest
        do throws(StorageError) {
            if try gathered.takeNext(of: manifest) {
                batch = gathered
                return
            }
        } catch {
            return try wait(after: .storage(error))
        }
        newest = gathered.newest
        if gathered.waitsForMerge {
            publisher.hurryMerge()
            waitsBehind = manifest.generation
        }
        if let sums = gathered.sums {
            do throws(PipelineError) {
                fold = try RetentionFold(gathered, sums, into: manifest, in: files)
            } catch { try wait(after: error) }
        } else if gathered.segmentCount > 0 {
            // Something is due, and nothing of it can be read.
            rest()
        }
    }

    private mutating func goOn(
        _ publisher: inout SnapshotPublisher<Files, Clock>
    ) throws(PipelineError) {
        guard var writing = fold.take() else { return }
        do throws(RetentionFailure) {
            guard try writing.step() else {
                fold = consume writing
                return
            }
            var next = publisher.makeNext()
            let entry = try writing.finish(for: next)
            next.expire(entry)
            next.nextFileNumber = entry.fileNumber.next
            do throws(PipelineError) { try publisher.publish(next) } catch {
                if error.shortage != nil { try? files.unlink(entry.fileName.text) }
                throw .publish(error)
            }
            (hasFailed, isRefused) = (false, false)
            tell(writing.sums, entry)
        } catch {
            writing.abandon()
            switch error {
            case .source(let error): return try wait(after: error)
            case .file(let cause):
                let cause = cause.ofUnneededBytes
                if cause.shortage != nil { throw beginAgain(after: .storage(cause)) }
                guard error.isWorthANewFile, !hasFailed else { throw .storage(cause) }
                hasFailed = true
            case .publish(let error):
                throw error.shortage == nil ? error : beginAgain(after: error)
            }
        }
        // There may be more.
        if looksAtAges { nextLookNanoseconds = 0 }
        measured = nil
    }

    private func tell(_ sums: ExpiredSums, _ entry: ExpiredEntry) {
        counters.compact.add(.segmentsExpired, sums.segmentCount)
        counters.compact.add(.rowsExpired, sums.rowCount)
        counters.compact.add(.expiredBytes, entry.byteCount)
        let (first, last) = (sums.span.firstSegment.rawValue, sums.span.lastSegment.rawValue)
        var line =
            "retention: \(sums.rowCount) rows expired with segments \(first) to \(last), their counters stay"
        if sums.missingCount > 0 {
            line +=
                "; \(sums.missingCount) of them could not be read, their counters are unverified"
        }
        say(line)
    }
}
