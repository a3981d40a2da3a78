// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → [query]

import Glibc
import IngestFormat
import IngestStorage

/// Recounts every row of the log and holds footers, runs and ledgers against it; checks every byte of every
/// file present. It counts by code of its own: a fault in the daemon's counting shows as a difference.
///
/// Works beside a running daemon, and on a directory that was left uncleanly: what a crash leaves unfinished
/// behind the durable blocks is noted and is no fault. Nothing is changed.
///
/// **Cost** Reads the whole log once; memory is about 600 bytes for each (reward, business, day), and as much
/// again for each stretch of the log that only older manifests have runs of.
public struct Verifier {
    /// Called now and then; `false` stops with `ReaderError.Kind.cancelled`.
    public typealias Progress = (VerifyProgress) -> Bool

    private let path: String

    public init(directory path: String) { self.path = path }

    /// **Errors** `notFound` and `missingManifest` if there is nothing to verify; `io`; `cancelled`. What is wrong
    /// with the data is in the report and no error.
    public func run(_ progress: Progress = { _ in true }) throws(ReaderError) -> VerifyReport {
        let files: LinuxFileSystem
        do throws(StorageError) { files = try LinuxFileSystem(path: path, create: false) } catch {
            throw ReaderError(error)
        }
        // Longer than a write takes.
        return try Self.run(files, progress, pause: { usleep(20_000) })
    }

    /// As `run`, through the file system seam.
    /// - Parameter pause: before what may be a write under way is looked at again.
    package static func run(
        _ files: some FileSystem, _ progress: Progress = { _ in true },
        pause: @escaping () -> Void = {}
    ) throws(ReaderError) -> VerifyReport {
        try VerifyRun(files: files, pause: pause).run(progress)
    }
}

/// One `verify` of one directory.
struct VerifyRun<Files: FileSystem> {
    let files: Files
    let pause: () -> Void

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
            directory: target.manifest.directory, cut: target.manifest.cut,
            spans: unlisted.runs.map(\.header.span))
        recount.report = report
        for names in target.namesRuns { recount.names.keep(names.contents) }
        try recountLog(target, unlisted.runs, &recount, progress)
        try compare(target, &recount)
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
        _ target: VerifyTarget<Files>, _ unlisted: [RunReader<Files>],
        _ recount: inout LogRecount, _ progress: Verifier.Progress
    ) throws(ReaderError) {
        var unlisted = unlisted
        let log: [VerifyTarget<Files>.Segment]
        do throws(StorageError) { log = try target.segments() } catch { throw ReaderError(error) }
        let buffer = ReadBuffer()
        let total = log.reduce(UInt64(0)) { $0.saturatingSum($1.byteCount) }
        var done: UInt64 = 0
        for segment in log {
            guard progress(VerifyProgress(doneByteCount: done, totalByteCount: total)) else {
                throw .cancelled(files.path)
            }
            let check = SegmentCheck(
                files: files, number: segment.number, entry: segment.entry,
                durableBlockCount: segment.durableBlockCount, isFollowed: segment.isFollowed,
                buffer: buffer, pause: pause)
            if try !check.run(&recount) { break }
            try compare(&unlisted, &recount)
            done = done.saturatingSum(segment.byteCount)
        }
        _ = progress(VerifyProgress(doneByteCount: total, totalByteCount: total))
        // Of what is left, not all rows can be read, or the log does not go so far.
        for run in unlisted {
            try TableComparison(table: run.header.table, runs: [run]).run(&recount, against: nil)
        }
        if target.bound.cut > recount.report.cut && recount.report.corruptionCount == 0 {
            recount.report.add(
                Finding(
                    .corruption, file: FileName.durableMark.text, what: "the log ends before it",
                    got: target.bound.text, expected: "at most \(recount.report.cut.text)"))
        }
    }

    // MARK: The snapshot

    /// Holds each run that the newest manifest does not name against the rows of its own span, once these
    /// have been counted, and takes it out of `unlisted`.
    private func compare(
        _ unlisted: inout [RunReader<Files>], _ recount: inout LogRecount
    ) throws(ReaderError) {
        var others: [RunReader<Files>] = []
        for run in unlisted {
            if let total = recount.spans.tally(of: run.header.span, at: recount.end) {
                try TableComparison(table: run.header.table, runs: [run])
                    .run(&recount, against: total)
            } else {
                others.append(run)
            }
        }
        unlisted = others
    }

    private func compare(
        _ target: VerifyTarget<Files>, _ recount: inout LogRecount
    ) throws(ReaderError) {
        compareCut(target.manifest, &recount)
        let isComplete = recount.isTotalComplete
        for names in target.namesRuns {
            NamesComparison(
                name: names.entry.fileName.text, contents: names.contents, isListed: true
            ).run(&recount)
        }
        for table in TableKind.counterTables {
            let runs = target.runs.filter { $0.header.table == table }
            let isWhole = !target.unreadableTables.contains(table)
            try TableComparison(table: table, runs: runs)
                .run(&recount, against: isComplete && isWhole ? recount.total : nil)
        }
        if !isComplete {
            recount.report.add(
                Finding(
                    .note, file: FileName.manifest(target.manifest.generation).text,
                    what: "the runs were not held against the rows: not all rows can be read"))
        }
    }

    /// What the manifest says of the log at the cut.
    private func compareCut(_ manifest: Manifest, _ recount: inout LogRecount) {
        let file = FileName.manifest(manifest.generation).text
        guard let chain = recount.chainAtCut else {
            if recount.report.corruptionCount == 0 {
                recount.report.add(
                    Finding(
                        .corruption, file: file, what: "no block ends at the cut",
                        got: manifest.cut.text, expected: recount.report.cut.text))
            }
            return
        }
        let shard = manifest.shard
        recount.expect(
            shard.lastBlockChecksum, chain.previousChecksum,
            "checksum of the last block before the cut",
            in: file, at: nil)
        recount.expect(shard.nextName, chain.nextName, "next name at the cut", in: file, at: nil)
        recount.expect(shard.nextKey, chain.nextKey, "next key at the cut", in: file, at: nil)
        recount.expect(
            shard.commitEpoch, chain.endEpoch, "commit epoch at the cut", in: file, at: nil)
    }
}

extension ReaderError {
    static func cancelled(_ path: String) -> ReaderError {
        ReaderError(kind: .cancelled, what: "stopped", path: path, advice: "run it again")
    }
}

extension Cut {
    fileprivate var text: String { "segment \(segment) block \(block)" }
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
