// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
// Part of `verify`: shares no code with what folds and merges counters.
import Glibc
import IngestFormat
import IngestStorage

/// Checks the files that are not part of the log or of the newest generation's tables: every manifest, the
/// mark, the lock, the keys of sessions, and runs that an older generation used and that are still there.
struct FileSetCheck<Files: FileSystem> {
    let files: Files
    let manifest: Manifest
    /// A file of which everything has been said.
    let reported: FileName?

    /// Files that the newest manifest does not name and that begin soundly, to be held against the log. They are
    /// opened again one by one then: there may be more of them than files that a process can have open.
    struct Unlisted {
        var runs: [RunHeader] = []
        var namesRuns: [NamesRunEntry] = []
        /// What manifests before the newest say of the log at their cuts.
        var claims: [LogRecount.ShardClaim] = []
    }

    func run(_ report: inout VerifyReport) throws(StorageError) -> Unlisted {
        let listed = manifest.fileNames
        var unlisted = Unlisted()
        for text in try files.names() {
            guard let name = FileName(text) else {
                report.add(.note, "not a file of ingestd", in: text)
                continue
            }
            report.fileCount += 1
            if name == reported { continue }
            do throws(StorageError) {
                try check(name, isListed: listed.contains(name), &unlisted, &report)
            } catch {
                switch error {
                // Dropped meanwhile by a daemon; what must be there is missed elsewhere.
                case .notFound: report.fileCount -= 1
                case _ where error.isOfData:
                    report.add(error, "file")
                default: throw error
                }
            }
        }
        return unlisted
    }

    /// Notes what lies in `aside/`. Its bytes are under no checksum: they were bad when they came there.
    func noteAside(_ report: inout VerifyReport) throws(StorageError) {
        let folder = FileName.aside.text
        let names: [String]
        do throws(StorageError) {
            names = try files.subdirectory(folder, create: false).names()
        } catch {
            if case .notFound = error { return }
            guard case .io(_, _, errno: ENOTDIR) = error else { throw error }
            report.add(.corruption, "no folder, and must be one", in: folder)
            return
        }
        let shown = names.prefix(Self.asideNoteCountMax)
        for name in shown {
            report.add(
                .note, "put aside by a start or rebuild: not read, and under no checksum",
                in: "\(folder)/\(name)")
        }
        if names.count > shown.count {
            report.add(.note, "\(names.count - shown.count) more files", in: folder)
        }
    }

    /// So that they do not hide what matters.
    private static var asideNoteCountMax: Int { 20 }

    private func check(
        _ name: FileName, isListed: Bool, _ unlisted: inout Unlisted,
        _ report: inout VerifyReport
    ) throws(StorageError) {
        let directory = manifest.directory
        switch name {
        case .manifest(let generation):
            let found = try ManifestStore(files: files).read(generation)
            if found.directory != directory {
                report.add(.corruption, "a manifest of another directory", in: name.text)
            } else if generation < manifest.generation {
                unlisted.claims.append(.init(file: name.text, state: found.shard))
            }
        case .durableMark:
            _ = try DurableMarkFile.readSound(in: files, directory: directory)
            let byteCount = try files.open(name.text, .read).byteCount()
            report.hold([("byte count", byteCount, DurableMark.byteCount)], in: name.text)
        case .lock:
            let bytes = try files.open(name.text, .read).readArray(at: 0, byteCount: 256)
            if !LockHolder.isWellFormed(bytes) {
                report.add(.corruption, "neither empty nor what a daemon wrote", in: name.text)
            }
        // Index and pages of a run are checked when it is held against the log.
        case .run(let table, let number) where !isListed && table.isNames:
            unlisted.namesRuns.append(
                try ManifestStore(files: files).namesEntry(number, of: table, directory))
        case .run(let table, let number) where !isListed:
            unlisted.runs.append(
                try ManifestStore(files: files).runHeader(number, of: table, directory))
        case .segment(let number) where number <= manifest.lastExpired:
            report.add(.note, "expired; the daemon removes it in a minute", in: name.text)
        case .temporary:
            report.add(
                .note, "being written, or left by a crash; the next start removes it", in: name.text
            )
        case .sessionKeys:
            do throws(StorageError) {
                _ = try SessionKeyStore(files: files, directory: directory).read()
            } catch .corrupt(_, let offset, let detail) {
                report.add(
                    .corruption, "\(detail) at byte \(offset); the next start makes new keys",
                    in: name.text)
            } catch {
                // For the daemon's eyes alone: a reader of its group may not open it.
                guard case .io(_, _, errno: EACCES) = error else { throw error }
                report.add(.note, "this user may not read it", in: name.text)
            }
        case .run, .segment: break
        case .aside, .reserve, .leases: report.fileCount -= 1
        }
    }
}

/// What an expired run attests: its rows are gone, so nobody can count them again. Its counters and its
/// ledger were summed apart from each other, and must say the same.
struct ExpiredOutcome: Sendable {
    /// `nil` if the file could not be read.
    var segments: ExpiredSegments?
    let file: FileName
    var report = VerifyReport()
    /// `nil` if the file could not be read.
    var rows: RowSource?
    var totals = TotalsRecount()
    var ledger = LedgerRecount()
    /// Why it could not be read.
    var failure: StorageError?

    /// Checks all of a file byte by byte; on any thread.
    init<Files>(_ run: RunReader<Files>, _ meter: WorkMeter) {
        file = .run(.expired, run.header.fileNumber)
        do throws(StorageError) {
            let segments = try run.readExpired()
            let columns = try Self.columns(of: run, segments, meter)
            ledger.add(segments.ledger, at: nil)
            totals = TotalsRecount(ledger, rowCount: segments.rowCount)
            compare(columns, segments)
            rows = try RowSource(run, name: file) { run }
            self.segments = segments
        } catch { failure = error }
    }

    /// The sums of all rows.
    private static func columns<Files>(
        of run: RunReader<Files>, _ segments: ExpiredSegments, _ meter: WorkMeter
    ) throws(StorageError) -> CounterSum {
        let page = CounterPage()
        var columns = CounterSum()
        // Attributed rows are of the same events.
        var cursor = run.makeCursor(keys: CounterKeys.rewards)
        while !meter.isStopped, try cursor.nextPage(into: page) {
            for row in 0..<page.rowCount where page.key(row) >= segments.nextKey {
                throw .corrupt(
                    path: run.path, offset: UInt64(RunHeader.byteCount),
                    detail: "a row of key \(page.key(row)), which was given later")
            }
            for row in 0..<page.rowCount { columns.add(page.counters(row)) }
        }
        return columns
    }

    /// Holds counters, ledger and row count against each other: every row is of one verdict, and of one
    /// column of those that gross is the sum of.
    private mutating func compare(_ columns: CounterSum, _ segments: ExpiredSegments) {
        let events = totals.events
        func sum(_ wanted: [CounterColumn]) -> UInt64 {
            wanted.reduce(0) { $0.saturatingSum(UInt64(clamping: columns[$1])) }
        }
        func sum(_ verdicts: [Verdict]) -> UInt64 {
            verdicts.reduce(0) { $0.saturatingSum(events[Int($1.rawValue)]) }
        }
        // Of these only some are rows: those whose names are known.
        let bounded: [(what: String, got: UInt64, most: UInt64)] = [
            ("not viewable", sum([.notViewableImpressions]), sum([.notViewable])),
            (
                "invalid", sum([.invalidImpressions, .invalidClicks, .invalidRedemptions]),
                sum([.invalidTraffic])
            ),
            (
                "refused", sum([.refusedImpressions, .refusedClicks, .refusedRedemptions]),
                sum([.undetermined, .tooOld, .tooEarly, .outsideWindow, .noConsent])
            ),
            (
                "conflict", sum([.conflictImpressions, .conflictClicks, .conflictRedemptions]),
                sum([.conflict])
            ),
        ]
        let pairs: [(what: String, got: UInt64, expected: UInt64)] =
            [
                ("counted", sum([.impressions, .clicks, .redemptions]), sum([.counted])),
                (
                    "duplicate",
                    sum([.duplicateImpressions, .duplicateClicks, .duplicateRedemptions]),
                    sum([.duplicate, .sessionRepeat])
                ),
            ] + bounded.map { ($0.what, $0.got, min($0.got, $0.most)) }
        for pair in pairs where pair.got != pair.expected {
            report.add(
                .difference, "events \(pair.what) in the counters", in: file.text,
                got: "\(pair.got)",
                expected: "\(pair.expected), as in the ledger")
        }
        let rowCount = pairs.reduce(UInt64(0)) { $0.saturatingSum($1.got) }
        if rowCount != segments.rowCount || !columns.fits {
            report.add(
                .difference, "rows in the metadata", in: file.text, got: "\(segments.rowCount)",
                expected: "\(rowCount)")
        }
    }
}
