// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// One `verify` of one directory: workers recount segments side by side, this joins them in the order of the log.
struct VerifyRun<Files: FileSystem> {
    let files: Files
    let workerCount: Int
    let pause: @Sendable () -> Void
    private let meter = WorkMeter()

    private typealias Outcome = TableComparison<Files>.Outcome

    init(files: Files, workerCount: Int, pause: @escaping @Sendable () -> Void) {
        self.files = files
        self.workerCount = workerCount
        self.pause = pause
    }

    func run(_ progress: Verifier.Progress) throws(ReaderError) -> VerifyReport {
        let target: VerifyTarget<Files>
        do throws(StorageError) { target = try VerifyTarget(files) } catch {
            guard error.isOfData else { throw ReaderError(error) }
            // Without a manifest that can be believed there is nothing to hold the files against.
            var report = VerifyReport()
            report.add(Finding(error, file: error.fileName, what: "the newest manifest"))
            return report
        }
        var report = target.report
        report.generation = target.manifest.generation.rawValue
        let fileSet = FileSetCheck(files: files, manifest: target.manifest)
        let unlisted: FileSetCheck<Files>.Unlisted
        do throws(StorageError) { unlisted = try fileSet.run(&report) } catch {
            throw ReaderError(error)
        }
        var recount = LogRecount(
            newest: .init(
                file: FileName.manifest(target.manifest.generation).text,
                state: target.manifest.shard),
            older: unlisted.claims, spans: unlisted.runs.map(\.header.span),
            names: RecountNames(copies: target.namesRuns.map(\.contents)), report: report)
        try recountLog(target, unlisted, &recount, progress)
        try compare(target, &recount, progress)
        for (name, contents) in unlisted.namesRuns {
            NamesComparison(name: name, contents: contents, isListed: false).run(&recount)
        }
        do throws(StorageError) { try fileSet.noteAside(&recount.report) } catch {
            throw ReaderError(error)
        }
        return recount.report
    }

    // MARK: The log

    private func recountLog(
        _ target: VerifyTarget<Files>, _ unlisted: FileSetCheck<Files>.Unlisted,
        _ recount: inout LogRecount, _ progress: Verifier.Progress
    ) throws(ReaderError) {
        let log: [VerifyTarget<Files>.Segment]
        do throws(StorageError) {
            log = try target.segments(
                stoppingAt: Set(
                    unlisted.runs.map(\.header.span.end) + unlisted.claims.map(\.state.cut)
                        + [target.manifest.cut]))
        } catch { throw ReaderError(error) }
        let total = log.reduce(UInt64(0)) { $0.saturatingSum($1.byteCount) }
        var runs = unlisted.runs
        let work = OrderedWork<SegmentRecount>(count: log.count, workerCount: workerCount)
        try work.run(
            makeWorker: makeWorker(log, target.manifest.directory),
            wait: { goesOn(progress, min(meter.doneByteCount, total), of: total) }
        ) { (segment) throws(ReaderError) in try join(segment, &runs, &recount) }
        if meter.isStopped { throw .cancelled(files.path) }
        _ = progress(VerifyProgress(doneByteCount: total, totalByteCount: total))
        // Of what is left, not all rows can be read, or the log does not go so far.
        for run in runs { try check(run, against: nil, &recount) }
        recount.reportMissingCut()
        if target.bound.cut > recount.report.cut && recount.report.corruptionCount == 0 {
            recount.report.add(
                Finding(
                    .corruption, file: FileName.durableMark.text, what: "the log ends before it",
                    got: target.bound.text, expected: "at most \(recount.report.cut.text)"))
        }
    }

    private func makeWorker(
        _ log: [VerifyTarget<Files>.Segment], _ directory: DirectoryID
    ) -> @Sendable () -> (Int) -> SegmentRecount {
        { [files, meter, pause] in
            let memory = RecountMemory()
            return { index in
                SegmentCheck(
                    files: files, directory: directory, segment: log[index], memory: memory,
                    meter: meter, pause: pause
                ).run()
            }
        }
    }

    /// Whether the caller wants it to go on; else the workers end soon.
    private func goesOn(
        _ progress: Verifier.Progress, _ done: UInt64, of total: UInt64
    ) -> Bool {
        if progress(VerifyProgress(doneByteCount: done, totalByteCount: total)) { return true }
        meter.stop()
        return false
    }

    /// Joins the next segment to the log.
    /// - Parameter runs: those that the newest manifest does not name; those whose span has ended are held
    ///   against its rows and taken out.
    /// - Returns: whether the log goes on.
    private func join(
        _ segment: SegmentRecount, _ runs: inout [RunReader<Files>], _ recount: inout LogRecount
    ) throws(ReaderError) -> Bool {
        switch segment.outcome {
        case .failed(let error): throw error
        case .absent: return false
        case .missing: recount.miss(segment)
        case .counted:
            recount.begin(segment)
            for stop in segment.stops {
                recount.pass(stop, of: segment)
                let position = LogPosition(segment: segment.number, blockCount: stop.blockCount)
                try compare(&runs, endingAt: position, &recount) { $0.tally(of: $1, at: stop) }
            }
            recount.finish(segment)
            try compare(&runs, endingAt: recount.end, &recount) {
                $0.spans.tally(of: $1, at: $0.end)
            }
        }
        return true
    }

    /// Holds the runs whose span ends at `position`, and whose rows are known, against these.
    private func compare(
        _ runs: inout [RunReader<Files>], endingAt position: LogPosition,
        _ recount: inout LogRecount, known: (LogRecount, LogSpan) -> Tally?
    ) throws(ReaderError) {
        guard runs.contains(where: { $0.header.span.end == position }) else { return }
        var others: [RunReader<Files>] = []
        for run in runs {
            if run.header.span.end == position, let total = known(recount, run.header.span) {
                try check(run, against: total, &recount)
            } else {
                others.append(run)
            }
        }
        runs = others
    }

    private func check(
        _ run: RunReader<Files>, against total: Tally?, _ recount: inout LogRecount
    ) throws(ReaderError) {
        try recount.take(
            TableComparison(
                table: run.header.table, runs: [run], total: total, names: recount.names
            ).run())
    }

    // MARK: The snapshot

    private func compare(
        _ target: VerifyTarget<Files>, _ recount: inout LogRecount, _ progress: Verifier.Progress
    ) throws(ReaderError) {
        for names in target.namesRuns {
            NamesComparison(
                name: names.entry.fileName.text, contents: names.contents, isListed: true
            ).run(&recount)
        }
        let isComplete = recount.isTotalComplete
        let comparisons = TableKind.counterTables.map { table in
            TableComparison(
                table: table, runs: target.runs.filter { $0.header.table == table },
                total: isComplete && !target.unreadableTables.contains(table)
                    ? recount.total : nil,
                names: recount.names)
        }
        let work = OrderedWork<Outcome>(count: comparisons.count, workerCount: workerCount)
        try work.run(makeWorker: { { comparisons[$0].run() } }, wait: { true }) {
            (outcome) throws(ReaderError) in
            try recount.take(outcome)
            return true
        }
        if !isComplete {
            recount.report.add(
                Finding(
                    .note, file: FileName.manifest(target.manifest.generation).text,
                    what: "the runs were not held against the rows: not all rows can be read"))
        }
    }
}

extension ReaderError {
    static func cancelled(_ path: String) -> ReaderError {
        ReaderError(kind: .cancelled, what: "stopped", path: path, advice: "run it again")
    }
}

extension StorageError {
    /// The last component of the path.
    fileprivate var fileName: String {
        let path =
            switch self {
            case .corrupt(let path, _, _), .newerFormat(let path, _), .overLimit(let path, _): path
            default: ""
            }
        return path.split(separator: "/").last.map(String.init) ?? path
    }
}
