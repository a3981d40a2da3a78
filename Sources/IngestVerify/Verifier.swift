// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import Glibc
import IngestFormat
import IngestStorage
import Synchronization

/// Recounts every row of the log and holds footers, runs and ledgers against it; checks every byte of every
/// file present. It counts by code of its own: a fault in the daemon's counting shows as a difference.
///
/// Works beside a running daemon, with a lease on the segments: what retention removes all the same, after an hour or where
/// the disk is full, is noted and no fault. Works on a directory that was left uncleanly: what a crash leaves unfinished
/// behind the durable blocks is noted and is no fault. Nothing is changed. The report is the same however many
/// threads made it, and in whatever order they came to their ends.
///
/// **Cost** Reads the whole log once, and a segment again whose footer is wrong. Memory: for each thread some MiB; the
/// windows of all senders; 8 bytes a name and a key, 9 and 5 more for each thread while names runs are read. Where
/// counters differ, 300 bytes for each key and day of a segment whose footer is wrong, the sums of a window
/// for each thread, and those of all businesses and days.
public struct Verifier {
    /// Called on the thread of `run`, about ten times a second; `false` ends it as soon as each thread has done its
    /// block. There is no report of a part: `run` throws an error that `isCancelled` then.
    public typealias Progress = (VerifyProgress) -> Bool

    private let path: String

    /// How many threads read and count. Of themselves they are as many as the machine has processors.
    public var workerCount = processorCount

    /// Whether to judge every retained row again by the counting rules of its time, and to look for ids that were counted
    /// twice. **Cost** Two more passes over the log, one of them for each 6 million ids; 256 MiB.
    public var isDeep = false

    public init(directory path: String) { self.path = path }

    /// **Errors** `VerifyError` if there is nothing to verify, if the system refused a call, and if `progress` ended
    /// it. What is wrong with the data is in the report and no error.
    public func run(_ progress: Progress = { _ in true }) throws(VerifyError) -> VerifyReport {
        let files: LinuxFileSystem
        do throws(StorageError) { files = try LinuxFileSystem(path: path, create: false) } catch {
            throw VerifyError(cause: error)
        }
        // Longer than a write takes.
        return try Self.run(
            files, workerCount: workerCount, deepByteCountMax: isDeep ? 256 << 20 : nil, progress,
            pause: { usleep(20_000) })
    }

    /// As `run`, through the file system seam.
    /// - Parameters:
    ///   - deepByteCountMax: what the ids of a deep check may take; `nil` for none.
    ///   - pause: before what may be a write under way is looked at again; on any thread.
    package static func run(
        _ files: some FileSystem, workerCount: Int = processorCount, deepByteCountMax: Int? = nil,
        _ progress: Progress = { _ in true }, pause: @escaping @Sendable () -> Void = {}
    ) throws(VerifyError) -> VerifyReport {
        let run = VerifyRun(
            files: files, workerCount: workerCount, deepByteCountMax: deepByteCountMax, pause: pause
        )
        do throws(StorageError) {
            let report = try run.run(progress)
            if !run.meter.isStopped { return report }
        } catch {
            throw VerifyError(cause: run.meter.isStopped ? nil : error)
        }
        throw VerifyError(cause: nil)
    }
}

/// How far `verify` has come.
public struct VerifyProgress: Sendable {
    /// Bytes of blocks that were counted, and of the files that hold them.
    public let doneByteCount: UInt64
    public let totalByteCount: UInt64
}

/// Why there is no report.
public struct VerifyError: Error, Equatable, CustomStringConvertible {
    /// `nil` if the caller ended it.
    package let cause: StorageError?

    /// Whether the caller ended it.
    public var isCancelled: Bool { cause == nil }

    /// One line: what, where, what to do.
    public var description: String { cause.map { "\($0)" } ?? "stopped: run it again" }
}

/// How far the workers of a `verify` have come, and whether they shall go on. Shared by all of them.
final class WorkMeter: Sendable {
    private let byteCount = Atomic<UInt64>(0)
    private let stopped = Atomic(false)

    /// Relaxed, both: a figure for people; what was read is handed over by `OrderedWork`'s lock.
    var doneByteCount: UInt64 { byteCount.load(ordering: .relaxed) }

    func add(byteCount count: Int) {
        byteCount.wrappingAdd(UInt64(max(0, count)), ordering: .relaxed)
    }

    private let heldFileCount = Atomic(0)

    /// Whether a segment's file may be kept open to the end: a log may have more segments than a process open files.
    func mayHoldFile() -> Bool {
        // Relaxed: only the number matters.
        heldFileCount.add(1, ordering: .relaxed).newValue <= ProcessStart.descriptorCountMax / 2
    }

    /// Relaxed, both: nothing else depends on the order in which it is seen.
    var isStopped: Bool { stopped.load(ordering: .relaxed) }

    func stop() { stopped.store(true, ordering: .relaxed) }
}

/// One `verify` of one directory: workers recount segments side by side, this joins them in the order of the log, and
/// then holds runs and names against them.
struct VerifyRun<Files: FileSystem> {
    private typealias Unlisted = FileSetCheck<Files>.Unlisted

    let files: Files
    let workerCount: Int
    /// What the ids of a deep check may take; `nil` for none.
    let deepByteCountMax: Int?
    let pause: @Sendable () -> Void
    let meter = WorkMeter()
    let hash = CounterHash.drawn

    init(
        files: Files, workerCount: Int, deepByteCountMax: Int?,
        pause: @escaping @Sendable () -> Void
    ) {
        (self.files, self.workerCount, self.pause) = (files, workerCount, pause)
        self.deepByteCountMax = deepByteCountMax
    }

    /// - Returns: a report of no meaning if `meter.isStopped`.
    func run(_ progress: Verifier.Progress) throws(StorageError) -> VerifyReport {
        let target: Target<Files>
        do throws(StorageError) { target = try Target(files) } catch {
            guard error.isOfData else { throw error }
            // Without a manifest that can be believed there is nothing to hold the files against.
            var report = VerifyReport()
            report.add(error, "the newest manifest")
            return report
        }
        let manifest = target.manifest
        var report = target.report
        report.generation = manifest.generation.rawValue
        let fileSet = FileSetCheck(files: files, manifest: manifest, reported: target.badNewest)
        let unlisted = try fileSet.run(&report)
        var recount = LogRecount(
            manifest, older: unlisted.claims, names: target.makeNames(), report: report)
        let log = try target.segments()
        let total = log.reduce(UInt64(0)) { $0.saturatingSum($1.byteCount) }
        func wait() -> Bool {
            if meter.isStopped { return false }
            let done = min(meter.doneByteCount, total)
            if progress(VerifyProgress(doneByteCount: done, totalByteCount: total)) { return true }
            meter.stop()
            return false
        }
        try attest(target, &recount, wait)
        try recountLog(log.map(\.segment), target, &recount, wait)
        recount.checkEnd(target.bound)
        // What is only skipped of a segment was done with too.
        meter.add(byteCount: Int(total - min(total, meter.doneByteCount)))
        if !meter.isStopped { try checkNames(target, unlisted, &recount, wait) }
        if !meter.isStopped { try checkRuns(target, unlisted, &recount, wait) }
        if wait() { try fileSet.noteAside(&recount.report) }
        if let deepByteCountMax, !meter.isStopped {
            var check = DeepCheck(
                log.map(\.segment), of: manifest.directory, in: files,
                memoryByteCountMax: deepByteCountMax)
            try check.run(while: wait)
            recount.report.append(check.report)
            recount.report.judgedRowCount = check.report.judgedRowCount
        }
        return recount.report
    }

    // MARK: The log

    /// Begins the log with what the expired runs attest.
    private func attest(
        _ target: Target<Files>, _ recount: inout LogRecount, _ wait: () -> Bool
    ) throws(StorageError) {
        let (readers, meter) = (target.expired, meter)
        try OrderedWork.run(readers.count, workerCount: workerCount, wait: wait) {
            { index in readers[index].map { ExpiredOutcome($0, meter) } }
        } take: { (index, outcome) throws(StorageError) in
            if let error = outcome?.failure {
                guard error.isOfData else { throw error }
                recount.report.add(error, "expired run")
            }
            recount.add(target.manifest.expired[index], outcome)
        }
        for run in target.expiredNames { try recount.names.enter(expired: run) }
    }

    private func recountLog(
        _ log: [Target<Files>.Segment], _ target: Target<Files>, _ recount: inout LogRecount,
        _ wait: () -> Bool
    ) throws(StorageError) {
        let (files, directory, meter, pause) = (files, target.manifest.directory, meter, pause)
        var isEnded = false
        try OrderedWork.run(log.count, workerCount: workerCount, wait: wait) {
            [hash, names = recount.names.hash] in
            let memory = ScanMemory(hash, names: names)
            return { index in
                SegmentScan(log[index], of: directory, in: files, memory, meter, pause: pause).run()
            }
        } take: { (_, segment) throws(StorageError) in
            if isEnded { return }
            switch segment.outcome {
            case .failed(let error): throw error
            case .absent: isEnded = true
            case .missing:
                recount.miss(
                    segment, boundary: try target.expired(since: segment.number),
                    isCorruption: target.badNewest == nil)
            case .counted: recount.add(segment)
            }
        }
    }

    // MARK: Names

    private func checkNames(
        _ target: Target<Files>, _ unlisted: Unlisted, _ recount: inout LogRecount,
        _ wait: () -> Bool
    ) throws(StorageError) {
        typealias Check = NamesCheck<Files>
        let (files, directory, others) = (files, target.manifest.directory, unlisted.namesRuns)
        // Of those that the manifest names; behind them, all of one that it does not name is a piece.
        let listed = target.expiredNames + target.namesRuns
        let pieces = listed.flatMap { run in Check.parts(of: run).map { (run, $0) } }
        let isWhole =
            recount.report.corruptionCount == 0 && recount.report.evidenceLostCount == 0
            && !recount.hasMissed
        let own = Check(
            names: recount.names, hash: hash, areNamesComplete: isWhole, meter: meter)
        var outcomes: [Check.Outcome] = []
        OrderedWork.run(pieces.count + others.count, workerCount: workerCount, wait: wait) {
            { index in
                if index < pieces.count { return own.check(pieces[index].1, of: pieces[index].0) }
                let entry = others[index - pieces.count]
                var outcome = Check.Outcome(file: entry.fileName.text)
                do throws(StorageError) {
                    let run = try NamesRunReader(entry, directory: directory, in: files)
                    var other = own
                    (other.areNamesComplete, other.mayLack) = (false, true)
                    for part in Check.parts(of: run) { outcome.add(other.check(part, of: run)) }
                } catch { outcome.failure = error }
                return outcome
            }
        } take: { index, outcome in
            if outcomes.last?.file == outcome.file {
                outcomes[outcomes.count - 1].add(outcome)
            } else {
                outcomes.append(outcome)
            }
        }
        if meter.isStopped { return }
        for (index, outcome) in outcomes.enumerated() {
            recount.report.append(outcome.report)
            let (names, keys) = outcome.lost
            if index < listed.count && names + keys > 0 {
                recount.report.add(
                    .evidenceLost,
                    "\(names) names and \(keys) keys: (lost:N) stands for them, their counters stay",
                    in: outcome.file)
            }
            try recount.report.add(outcome.error, mayBeGone: index >= listed.count)
        }
        checkRepeats(target, &recount, wait)
    }

    /// Looks for names and keys that were given more than once.
    private func checkRepeats(
        _ target: Target<Files>, _ recount: inout LogRecount, _ wait: () -> Bool
    ) {
        let (names, manifest) = (recount.names, FileName.manifest(target.manifest.generation).text)
        for kind in NameKind.allCases {
            let words = names[kind]
            var found: [NameWords.Repeat] = []
            OrderedWork.run(NameWords.partCount, workerCount: workerCount, wait: wait) {
                { words.repeats(part: $0) }
            } take: {
                found += $1
            }
            for found in found.sorted(by: { ($0.ordinal, $0.other) < ($1.ordinal, $1.other) }) {
                let place = names.introduction(of: kind, found.ordinal)
                let what = names.describe(kind, found.ordinal)
                recount.report.add(
                    .difference, "\(kind == .name ? "name " : "")\(what) given twice",
                    in: place?.file ?? manifest, at: place?.offset,
                    got: "ordinal \(found.ordinal)", expected: "ordinal \(found.other)")
            }
        }
    }

    // MARK: Runs

    /// Holds the tables of the newest generation against the rows, and then each run that it does not name.
    private func checkRuns(
        _ target: Target<Files>, _ unlisted: Unlisted, _ recount: inout LogRecount,
        _ wait: () -> Bool
    ) throws(StorageError) {
        let (manifest, end) = (target.manifest, target.manifest.mergedEnd)
        let span = LogSpan(firstSegment: SegmentNumber(rawValue: 1), end: end)
        var (tables, isOpen): ([TableCheck.Table], Bool) = (
            [], target.runs.count == manifest.runs.count && recount.hasCut
        )
        for table in TableKind.counterTables {
            var sources: [RowSource] = []
            for run in target.runs where run.header.table == table {
                do {
                    sources.append(try RowSource(run, name: run.header.entry.fileName) { run })
                } catch {
                    try recount.report.add(error, mayBeGone: false)
                    isOpen = false
                }
            }
            tables.append(
                TableCheck.Table(
                    kind: table, runs: sources, lostRowCount: recount.lostRowCount(in: span)))
        }
        let rows = isOpen ? end == .start ? [] : recount.rows(of: span) : nil
        try check(tables, rows, mayBeGone: false, &recount, wait)
        if rows == nil {
            recount.report.add(
                .note, "the runs were not held against the rows: not all rows can be read",
                in: FileName.manifest(manifest.generation).text)
        }
        if end < manifest.cut {
            let level0 = LogSpan(firstSegment: end.segment.next, end: manifest.cut)
            let days = TableCheck.Table(kind: .days, runs: recount.days(of: level0))
            try check([days], recount.rows(of: level0), mayBeGone: false, &recount, wait)
        }
        let directory = manifest.directory
        for header in unlisted.runs where !meter.isStopped {
            do throws(StorageError) {
                let run = try RunReader(header.entry, directory: directory, in: files)
                if header.table == .rewardDays { _ = try run.readSegments() }
                if header.table == .expired {
                    let outcome = ExpiredOutcome(run, meter)
                    recount.report.append(outcome.report)
                    if let error = outcome.failure { throw error }
                    continue
                }
                let table = TableCheck.Table(
                    kind: header.table,
                    runs: [try RowSource(run, name: header.entry.fileName) { run }],
                    lostRowCount: recount.lostRowCount(in: header.span))
                try check([table], recount.rows(of: header.span), mayBeGone: true, &recount, wait)
            } catch { try recount.report.add(error, mayBeGone: true) }
        }
    }

    private func check(
        _ tables: [TableCheck.Table], _ rows: [RowSource]?, mayBeGone: Bool,
        _ recount: inout LogRecount, _ wait: () -> Bool
    ) throws(StorageError) {
        let check = TableCheck(
            tables: tables, expected: rows,
            business: { [names = recount.names] in names.business(ofKey: $0) }, hash: hash,
            workerCount: workerCount, meter: meter)
        let (outcomes, failures) = check.run(wait: wait)
        for error in failures { try recount.report.add(error, mayBeGone: mayBeGone) }
        for outcome in outcomes {
            let table = outcome.table.kind
            let file = outcome.table.runs.map(\.name.text).joined(separator: "+")
            if outcome.lostRowCount > 0 {
                recount.report.add(
                    .evidenceLost,
                    "\(outcome.lostRowCount) events in the \(table.name) table whose "
                        + "rows are recorded as lost", in: file)
            }
            recount.report.add(
                outcome.differences, in: file.isEmpty ? "no \(table.name) run" : file,
                of: "\(table.name) table", table, recount.names)
        }
    }
}

extension VerifyReport {
    /// Reports that a file cannot be read, if so.
    /// - Parameter mayBeGone: whether a daemon may have dropped it meanwhile, since the newest manifest does not name it.
    /// **Errors** those that are not of its bytes.
    fileprivate mutating func add(_ error: StorageError?, mayBeGone: Bool) throws(StorageError) {
        guard let error else { return }
        if case .notFound = error, mayBeGone {
            fileCount -= 1
        } else if error.isOfData {
            add(error, mayBeGone ? "file" : "run")
        } else {
            throw error
        }
    }
}
