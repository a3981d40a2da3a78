// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import IngestFormat
import IngestStorage

/// One `verify` of one directory: workers recount segments side by side, this joins them in the order of the log.
struct VerifyRun<Files: FileSystem> {
    let files: Files
    let workerCount: Int
    /// Some milliseconds of work: threads end at nearly the same time, and look for work seldom.
    let stretchRowCount: Int
    let pause: @Sendable () -> Void
    let meter = WorkMeter()

    init(
        files: Files, workerCount: Int, stretchRowCount: Int,
        pause: @escaping @Sendable () -> Void
    ) {
        self.files = files
        self.workerCount = workerCount
        self.stretchRowCount = stretchRowCount
        self.pause = pause
    }

    func run(_ progress: (VerifyProgress) -> Bool) throws(ReaderError) -> VerifyReport {
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
        let fileSet = FileSetCheck(
            files: files, manifest: target.manifest, reported: target.badNewest)
        let unlisted: FileSetCheck<Files>.Unlisted
        do throws(StorageError) { unlisted = try fileSet.run(&report) } catch {
            throw ReaderError(error)
        }
        var recount = LogRecount(
            newest: .init(
                file: FileName.manifest(target.manifest.generation).text,
                state: target.manifest.shard),
            older: unlisted.claims, spans: unlisted.runs.map(\.span),
            names: try readNames(target), report: report)
        recount.noteLosses(of: target.manifest)
        let total = try recountLog(target, unlisted, &recount, progress)
        try compare(target, &recount) { goesOn(progress, total, of: total) }
        for header in unlisted.namesRuns { try check(header, target.manifest, &recount) }
        for header in unlisted.expired { try check(header, &recount) }
        try stopIfAsked()
        do throws(StorageError) { try fileSet.noteAside(&recount.report) } catch {
            throw ReaderError(error)
        }
        return recount.report
    }

    // MARK: The log

    /// - Returns: the bytes of the log.
    private func recountLog(
        _ target: VerifyTarget<Files>, _ unlisted: FileSetCheck<Files>.Unlisted,
        _ recount: inout LogRecount, _ progress: (VerifyProgress) -> Bool
    ) throws(ReaderError) -> UInt64 {
        let log: [VerifyTarget<Files>.Segment]
        do throws(StorageError) {
            log = try target.segments(
                stoppingAt: Set(
                    unlisted.runs.map(\.span.end) + unlisted.claims.map(\.state.cut)
                        + [target.manifest.cut]))
        } catch { throw ReaderError(error) }
        let total = log.reduce(UInt64(0)) { $0.saturatingSum($1.byteCount) }
        var runs = unlisted.runs
        try attest(target, &runs, &recount) { goesOn(progress, 0, of: total) }
        let work = OrderedWork<RecountMemory, SegmentRecount>(
            count: log.count, workerCount: workerCount)
        let directory = target.manifest.directory
        let gathers = GatherPool(
            itemCount: Int(target.manifest.shard.nextKey), countMax: workerCount + 1)
        try work.run(
            makeMemory: { [hash = recount.names.hash] in RecountMemory(gathers, hash: hash) },
            work: { [files, meter, pause, stretchRowCount] index, memory, share in
                SegmentCheck(
                    files: files, directory: directory, segment: log[index],
                    stretchRowCount: stretchRowCount, meter: meter, pause: pause
                ).run(RecountThread(memory: memory, share: share))
            },
            wait: { goesOn(progress, min(meter.doneByteCount, total), of: total) }
        ) { (segment) throws(ReaderError) in
            try join(segment, &runs, &recount, mayBeDropped: target.badNewest != nil) {
                goesOn(progress, min(meter.doneByteCount, total), of: total)
            }
        }
        try stopIfAsked()
        // Of what is left, not all rows can be read, or the log does not go so far.
        try check(runs.map { RunCheck(header: $0, total: nil, lostRowCount: 0) }, &recount) {
            goesOn(progress, total, of: total)
        }
        recount.reportMissingCut()
        if target.bound.cut > recount.report.cut && recount.report.corruptionCount == 0 {
            recount.report.add(
                Finding(
                    .corruption, file: FileName.durableMark.text, what: "the log ends before it",
                    got: target.bound.text, expected: "at most \(recount.report.cut.text)"))
        }
        return total
    }

    private func readNames(_ target: VerifyTarget<Files>) throws(ReaderError) -> RecountNames {
        try ReaderError.reading { () throws(StorageError) in
            var names = RecountNames(
                copies: target.nameCopies, attested: try target.readAttested())
            let shard = target.manifest.shard
            names.reserve(nameCount: Int(shard.nextName), keyCount: Int(shard.nextKey))
            return names
        }
    }

    // MARK: Expired segments

    /// Begins the log with what the expired footers attest, side by side.
    private func attest(
        _ target: VerifyTarget<Files>, _ runs: inout [RunHeader], _ recount: inout LogRecount,
        _ wait: () -> Bool
    ) throws(ReaderError) {
        let (readers, entries) = (target.expired, target.manifest.expired)
        let work = OrderedWork<Void, (Int, ExpiredCheck<Files>.Outcome?)>(
            count: readers.count, workerCount: workerCount)
        let meter = meter
        try work.run(
            work: { ($0, readers[$0].map { ExpiredCheck(reader: $0, meter: meter).run() }) },
            wait: wait,
            take: { (result) throws(ReaderError) in
                let (index, outcome) = result
                if let outcome, let error = outcome.failure {
                    guard error.isOfData else { throw ReaderError(error) }
                    recount.report.add(
                        Finding(error, file: outcome.file, what: "expired footers"))
                }
                recount.attest(entries[index], outcome)
                try compare(&runs, endingAt: recount.end, &recount, wait) {
                    $0.spans.tally(of: $1, at: $0.end)
                }
                return true
            })
        try stopIfAsked()
    }

    /// Checks a file of expired footers that the newest manifest does not name.
    private func check(
        _ header: ExpiredHeader, _ recount: inout LogRecount
    ) throws(ReaderError) {
        do throws(StorageError) {
            let reader = try ExpiredFooterReader(
                header.entry, directory: header.directory, in: files)
            let outcome = ExpiredCheck(reader: reader, meter: meter).run()
            recount.report.append(outcome.report)
            if let error = outcome.failure { throw error }
        } catch { try recount.take(error, ofDroppable: .expired(header.fileNumber)) }
    }

    /// Whether the caller wants it to go on; else the workers end soon.
    private func goesOn(
        _ progress: (VerifyProgress) -> Bool, _ done: UInt64, of total: UInt64
    ) -> Bool {
        if progress(VerifyProgress(doneByteCount: done, totalByteCount: total)) { return true }
        meter.stop()
        return false
    }

    /// **Errors** `cancelled` if the caller has said so.
    func stopIfAsked() throws(ReaderError) {
        if meter.isStopped { throw .cancelled(files.path) }
    }

    /// Joins the next segment to the log.
    /// - Parameters:
    ///   - runs: those that the newest manifest does not name; those whose span has ended are held against its
    ///     rows and taken out.
    ///   - mayBeDropped: whether a segment that the manifest names may have expired since.
    ///   - wait: asks the caller whether to go on.
    /// - Returns: whether the log goes on.
    private func join(
        _ segment: SegmentRecount, _ runs: inout [RunHeader], _ recount: inout LogRecount,
        mayBeDropped: Bool, _ wait: () -> Bool
    ) throws(ReaderError) -> Bool {
        switch segment.outcome {
        case .failed(let error): throw error
        case .absent: return false
        case .missing: recount.miss(segment, isCorruption: !mayBeDropped)
        case .counted:
            recount.begin(segment)
            for stop in segment.stops {
                recount.pass(stop, of: segment)
                let position = LogPosition(segment: segment.number, blockCount: stop.blockCount)
                try compare(&runs, endingAt: position, &recount, wait) {
                    $0.tally(of: $1, at: stop)
                }
            }
            recount.finish(segment)
            try compare(&runs, endingAt: recount.end, &recount, wait) {
                $0.spans.tally(of: $1, at: $0.end)
            }
        }
        return true
    }

    /// Holds the runs whose span ends at `position`, and whose rows are known, against these, side by side.
    private func compare(
        _ runs: inout [RunHeader], endingAt position: LogPosition, _ recount: inout LogRecount,
        _ wait: () -> Bool, known: (LogRecount, LogSpan) -> Tally?
    ) throws(ReaderError) {
        guard runs.contains(where: { $0.span.end == position }) else { return }
        var (others, checks): ([RunHeader], [RunCheck]) = ([], [])
        for run in runs {
            if run.span.end == position, let total = known(recount, run.span) {
                checks.append(
                    RunCheck(
                        header: run, total: total, lostRowCount: recount.lostRowCount(in: run.span))
                )
            } else {
                others.append(run)
            }
        }
        runs = others
        try check(checks, &recount, wait)
    }

    /// A run that the newest manifest does not name, and what its rows must be, if that is known.
    private struct RunCheck: Sendable {
        let header: RunHeader
        let total: Tally?
        let lostRowCount: UInt64
    }

    private func check(
        _ checks: [RunCheck], _ recount: inout LogRecount, _ wait: () -> Bool
    ) throws(ReaderError) {
        typealias Checked = Result<TableComparison<Files>.Outcome, StorageError>
        let work = OrderedWork<Void, (FileName, Checked)>(
            count: checks.count, workerCount: min(workerCount, checks.count))
        let (files, meter, names) = (files, meter, recount.names)
        try work.run(
            work: { index in
                let (header, total) = (checks[index].header, checks[index].total)
                let checked = Checked { () throws(StorageError) in
                    let run = try RunReader(header.entry, directory: header.directory, in: files)
                    return TableComparison(
                        table: header.table, runs: [run], total: total, names: names,
                        lostRowCount: checks[index].lostRowCount, meter: meter
                    ).run()
                }
                return (header.entry.fileName, checked)
            }, wait: wait,
            take: { (name, checked) throws(ReaderError) in
                switch checked {
                case .success(let outcome): try recount.take(outcome)
                case .failure(let error): try recount.take(error, ofDroppable: name)
                }
                return true
            })
        try stopIfAsked()
    }

    private func check(
        _ header: NamesRun.Header, _ manifest: Manifest, _ recount: inout LogRecount
    ) throws(ReaderError) {
        do throws(StorageError) {
            let run = try NamesRunReader(
                header.entry, directory: manifest.directory, in: files)
            let outcome = NamesComparison(
                reader: run, names: recount.names, areNamesComplete: false, meter: meter
            ).run()
            recount.report.append(outcome.report)
            if let failure = outcome.failure { throw failure }
        } catch { try recount.take(error, ofDroppable: header.entry.fileName) }
    }
}

extension LogRecount {
    /// Reports that a file that the newest manifest does not name cannot be read.
    ///
    /// **Errors** `io`.
    fileprivate mutating func take(
        _ error: StorageError, ofDroppable name: FileName
    ) throws(ReaderError) {
        if case .notFound = error {
            // Dropped meanwhile by a daemon.
            report.fileCount -= 1
            return
        }
        guard error.isOfData else { throw ReaderError(error) }
        report.add(Finding(error, file: name.text, what: "file"))
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
