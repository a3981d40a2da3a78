// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]
import IngestFormat
import IngestStorage

/// One `verify` of one directory: workers recount segments side by side, this joins them in the order of the log, and
/// then holds runs and names against them.
struct VerifyRun<Files: FileSystem> {
    let files: Files
    let workerCount: Int
    let pause: @Sendable () -> Void
    let meter = WorkMeter()
    let hash = CounterHash()

    init(files: Files, workerCount: Int, pause: @escaping @Sendable () -> Void) {
        self.files = files
        self.workerCount = workerCount
        self.pause = pause
    }

    /// - Returns: a report of no meaning if `meter.isStopped`.
    func run(_ progress: Verifier.Progress) throws(StorageError) -> VerifyReport {
        let target: Target<Files>
        do throws(StorageError) { target = try Target(files) } catch {
            guard error.isOfData else { throw error }
            // Without a manifest that can be believed there is nothing to hold the files against.
            var report = VerifyReport()
            report.add(Finding(error, file: error.fileName, what: "the newest manifest"))
            return report
        }
        let manifest = target.manifest
        var report = target.report
        report.generation = manifest.generation.rawValue
        let fileSet = FileSetCheck(files: files, manifest: manifest, reported: target.badNewest)
        let unlisted = try fileSet.run(&report)
        let names = LogNames(
            try target.names(), nameCount: Int(manifest.shard.nextName),
            keyCount: Int(manifest.shard.nextKey))
        var recount = LogRecount(
            newest: .init(file: FileName.manifest(manifest.generation).text, state: manifest.shard),
            older: unlisted.claims, names: names, report: report)
        let log = try target.segments(
            coveredUpTo: ([manifest.cut] + unlisted.runs.map(\.span.end)).max() ?? .start)
        let total = log.reduce(UInt64(0)) { $0.saturatingSum($1.byteCount) }
        func wait() -> Bool {
            if meter.isStopped { return false }
            let done = min(meter.doneByteCount, total)
            if progress(VerifyProgress(doneByteCount: done, totalByteCount: total)) { return true }
            meter.stop()
            return false
        }
        try attest(target, &recount, wait)
        try recountLog(log, target, &recount, wait)
        recount.checkEnd(target.bound)
        // What is only skipped of a segment was done with too.
        meter.add(byteCount: Int(total - min(total, meter.doneByteCount)))
        if !meter.isStopped { try checkNames(target, unlisted, &recount, wait) }
        if !meter.isStopped { try checkRuns(target, unlisted, &recount, wait) }
        if wait() { try fileSet.noteAside(&recount.report) }
        return recount.report
    }

    // MARK: The log

    /// Begins the log with what the expired runs attest.
    private func attest(
        _ target: Target<Files>, _ recount: inout LogRecount, _ wait: () -> Bool
    ) throws(StorageError) {
        let (readers, entries, meter) = (target.expired, target.manifest.expired, meter)
        var index = 0
        try OrderedWork<Void, ExpiredOutcome?>(count: readers.count, workerCount: workerCount).run(
            work: { readers[$0].map { ExpiredOutcome($0, meter) } }, wait: wait
        ) { (outcome) throws(StorageError) in
            if let outcome, let error = outcome.failure {
                guard error.isOfData else { throw error }
                recount.report.add(
                    Finding(error, file: outcome.file.text, what: "expired run"))
            }
            recount.add(entries[index], outcome)
            index += 1
            return true
        }
        for run in target.expiredNames { try recount.names.enter(expired: run) }
    }

    private func recountLog(
        _ log: [Target<Files>.Segment], _ target: Target<Files>, _ recount: inout LogRecount,
        _ wait: () -> Bool
    ) throws(StorageError) {
        let scans = log.map {
            SegmentScan(
                files: files, directory: target.manifest.directory, segment: $0, meter: meter,
                pause: pause)
        }
        try OrderedWork<ScanMemory, SegmentRecount>(count: log.count, workerCount: workerCount).run(
            makeMemory: { [hash, names = recount.names.hash] in ScanMemory(hash, names: names) },
            work: { index, memory in scans[index].run(memory) }, wait: wait
        ) { (segment) throws(StorageError) in
            switch segment.outcome {
            case .failed(let error): throw error
            case .absent: return false
            // A segment that an older manifest names may have expired since.
            case .missing: recount.miss(segment, isCorruption: target.badNewest == nil)
            case .counted: recount.add(segment)
            }
            return true
        }
    }

    // MARK: Names

    private func checkNames(
        _ target: Target<Files>, _ unlisted: FileSetCheck<Files>.Unlisted,
        _ recount: inout LogRecount, _ wait: () -> Bool
    ) throws(StorageError) {
        let (manifest, meter, hash, names, files) = (
            target.manifest, meter, hash, recount.names, files
        )
        let isWhole = recount.report.corruptionCount == 0 && recount.report.evidenceLostCount == 0
        typealias Check = NamesCheck<Files>
        // Of those that the manifest names; behind them, all of one that it does not name is a piece.
        let pieces = (target.expiredNames + target.namesRuns).flatMap { run in
            Check.parts(of: run).map { (run, $0) }
        }
        let work = OrderedWork<Void, Check.Outcome>(
            count: pieces.count + unlisted.namesRuns.count, workerCount: workerCount)
        var (index, orders, failed) = (0, [String: UInt64](), Set<String>())
        try work.run(
            work: { index in
                func check(
                    _ run: NamesRunReader<Files>, _ parts: [Check.Part], isWhole: Bool
                ) -> Check.Outcome {
                    let check = Check(
                        reader: run, names: names, hash: hash, areNamesComplete: isWhole,
                        meter: meter)
                    var outcome = Check.Outcome(file: run.header.entry.fileName.text)
                    for part in parts { check.add(part, to: &outcome) }
                    return outcome
                }
                if index < pieces.count {
                    return check(pieces[index].0, [pieces[index].1], isWhole: isWhole)
                }
                let entry = unlisted.namesRuns[index - pieces.count]
                do throws(StorageError) {
                    let run = try NamesRunReader(entry, directory: manifest.directory, in: files)
                    return check(run, Check.parts(of: run), isWhole: false)
                } catch { return Check.Outcome(file: entry.fileName.text, failure: error) }
            }, wait: wait
        ) { (outcome) throws(StorageError) in
            recount.report.append(outcome.report)
            let isOwn = index < pieces.count
            // A page between two parts is read by both.
            if let error = outcome.failure, failed.insert(outcome.file).inserted {
                try recount.report.add(error, of: outcome.file, mayBeGone: !isOwn)
            }
            orders[outcome.file] = (orders[outcome.file] ?? 0) &+ outcome.orders
            index += 1
            return true
        }
        for (file, sum) in orders.sorted(by: { $0.key < $1.key })
        where sum != 0 && !failed.contains(file) && !meter.isStopped {
            try recount.report.add(Check.differingOrders(in: file), of: file, mayBeGone: false)
        }
        try checkRepeats(target, &recount, wait)
    }

    /// Looks for names and keys that were given more than once.
    private func checkRepeats(
        _ target: Target<Files>, _ recount: inout LogRecount, _ wait: () -> Bool
    ) throws(StorageError) {
        let names = recount.names
        var found: (names: [LogNames.Repeat], keys: [LogNames.Repeat]) = ([], [])
        OrderedWork<Void, (names: [LogNames.Repeat], keys: [LogNames.Repeat])>(
            count: LogNames.partCount, workerCount: workerCount
        ).run(work: { names.repeats(part: $0) }, wait: wait) { part in
            found.names += part.names
            found.keys += part.keys
            return true
        }
        let manifest = FileName.manifest(target.manifest.generation).text
        recount.report.add(found, names, manifest: manifest)
    }

    // MARK: Runs

    /// Holds the tables of the newest generation against the rows, and then each run that it does not name.
    private func checkRuns(
        _ target: Target<Files>, _ unlisted: FileSetCheck<Files>.Unlisted,
        _ recount: inout LogRecount, _ wait: () -> Bool
    ) throws(StorageError) {
        let (manifest, end) = (target.manifest, target.manifest.mergedEnd)
        let span = LogSpan(firstSegment: SegmentNumber(rawValue: 1), end: end)
        let tables = TableKind.counterTables.map { table in
            TableCheck.Table(
                kind: table,
                runs: target.runs.filter { $0.header.table == table }
                    .map { RowSource($0, name: $0.header.entry.fileName) },
                lostRowCount: recount.lostRowCount(in: span))
        }
        let isOpen = target.runs.count == manifest.runs.count && recount.hasCut
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
        for header in unlisted.runs where !meter.isStopped {
            let name = header.entry.fileName
            do throws(StorageError) {
                let run = try RunReader(header.entry, directory: header.directory, in: files)
                _ = try run.readMetadata()
                if header.table == .expired {
                    let outcome = ExpiredOutcome(run, meter)
                    recount.report.append(outcome.report)
                    if let error = outcome.failure { throw error }
                    continue
                }
                let table = TableCheck.Table(
                    kind: header.table, runs: [RowSource(run, name: name)],
                    lostRowCount: recount.lostRowCount(in: header.span))
                try check([table], recount.rows(of: header.span), mayBeGone: true, &recount, wait)
            } catch { try recount.report.add(error, of: name.text, mayBeGone: true) }
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
        for failure in failures {
            try recount.report.add(failure.error, of: failure.file.text, mayBeGone: mayBeGone)
        }
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
    /// Reports that a file cannot be read.
    /// - Parameter mayBeGone: whether a daemon may have dropped it meanwhile, since the newest manifest does not name it.
    /// **Errors** those that are not of its bytes.
    fileprivate mutating func add(
        _ error: StorageError, of file: String, mayBeGone: Bool
    ) throws(StorageError) {
        if case .notFound = error, mayBeGone {
            fileCount -= 1
            return
        }
        guard error.isOfData else { throw error }
        add(Finding(error, file: file, what: mayBeGone ? "file" : "run"))
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
