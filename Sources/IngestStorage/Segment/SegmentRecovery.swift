// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// Seals what a crash left unsealed, before anything else looks at the log (docs/durability.md).
///
/// 1. Every segment that the manifest does not call sealed is read whole; nothing is written yet.
/// 2. For each is planned what stays, what was lost, what is cut; *torn* and *bad* are told apart by what
/// lies behind them in the whole log (`DamageVerdict`).
/// 3. In order of numbers: bytes that go are copied to `aside/`; then the valid blocks, byte by byte at the same
/// places, and a footer go to `N.segment.tmp` → fsync → read back → rename → fsync of the directory. A file
/// in which nothing was ever durable is removed instead.
///
/// A crash at any point leaves a directory for which all of this can be done again, with the same bytes.
///
/// **Cost** The unsealed tail is read three times and written once; memory is that of its footers.
package enum SegmentRecovery {
    /// More segments than this missing in a row are no accident of a disk.
    static let missingSegmentCountMax: UInt32 = 1024

    /// - Parameter now: for the footers; microseconds since 1970.
    /// **Errors** `diskFull`: the directory is as it was, start again with space. `corrupt`: the log is not the one
    /// that the manifest describes. `newerFormat`, `durabilityLost`, `io`.
    package static func run<Files: FileSystem>(
        in files: Files, after manifest: Manifest, now: Int64
    ) throws(StorageError) -> RecoveryReport {
        let mark = try DurableMarkFile.read(in: files, directory: manifest.directory)
        let bound = max(mark ?? .start, manifest.cut)
        let surveys = try survey(files, manifest, bound: bound)
        try checkContinuity(surveys, manifest, path: files.path)
        let history = try WindowHistory.read(of: manifest, in: files)
        var report = RecoveryReport(
            lastSegment: manifest.lastSealed,
            next: LogAnchor(cutOf: manifest), mark: mark,
            windows: history.windows, lastAdmissionTime: history.lastAdmissionTime)
        let plans = plan(surveys, manifest, bound: bound, now: now)
        let rebuild = SegmentRebuild(files: files, directory: manifest.directory, now: now)
        let end = plans.lastIndex { !$0.isEmpty }.map { $0 + 1 } ?? 0
        for plan in plans[..<end] {
            let segment = try rebuild.seal(plan, windows: report.windows)
            report.windows = segment.file.footer.windows
            report.segments.append(segment)
            report.lastSegment = plan.survey.number
            // As the next start will find it, also where a block turned out not to be countable.
            report.next = LogAnchor(
                after: segment.file.footer, startingAt: LogAnchor(startOf: plan.header))
            report.lastAdmissionTime = plan.lastAdmissionTime ?? report.lastAdmissionTime
        }
        for plan in plans[end...] where plan.survey.path != nil {
            report.asideOfDropped += try rebuild.drop(plan)
            report.dropped.append(plan.survey.number)
        }
        return report
    }

    /// All segments from the first unsealed to the last there is or must have been.
    private static func survey<Files: FileSystem>(
        _ files: Files, _ manifest: Manifest, bound: LogPosition
    ) throws(StorageError) -> [SegmentSurvey<Files>] {
        var present: Set<SegmentNumber> = []
        for name in try files.names() {
            if case .segment(let number)? = FileName(name), manifest.mayHoldTail(number) {
                present.insert(number)
            }
        }
        var number = manifest.firstUnsealed
        let last = max(present.max() ?? LogPosition.start.segment, bound.segment)
        guard number <= last else { return [] }
        let count = last.rawValue - number.rawValue + 1
        guard count <= UInt32(present.count) + missingSegmentCountMax else {
            throw .corrupt(
                path: "\(files.path)/\(FileName.segment(number).text)", offset: 0,
                detail: "\(Int(count) - present.count) segments up to \(last.rawValue) are missing")
        }
        var surveys: [SegmentSurvey<Files>] = []
        for _ in 0..<count {
            surveys.append(
                present.contains(number)
                    ? try SegmentSurvey(number, directory: manifest.directory, in: files)
                    : SegmentSurvey(missing: number))
            number = number.next
        }
        return surveys
    }

    /// The log after the cut must go on where the manifest says that it was.
    private static func checkContinuity<Files: FileSystem>(
        _ surveys: [SegmentSurvey<Files>], _ manifest: Manifest, path: String
    ) throws(StorageError) {
        guard let first = surveys.first, !first.follows(manifest.shard) else { return }
        throw .corrupt(
            path: "\(path)/\(FileName.segment(first.number).text)", offset: 0,
            detail: "does not continue the log of manifest \(manifest.generation.rawValue)")
    }

    private static func plan<Files: FileSystem>(
        _ surveys: [SegmentSurvey<Files>], _ manifest: Manifest, bound: LogPosition, now: Int64
    ) -> [SegmentPlan<Files>] {
        var plans: [SegmentPlan<Files>] = []
        var anchor: LogAnchor? = LogAnchor(cutOf: manifest)
        for (index, survey) in surveys.enumerated() {
            let plan = SegmentPlan(
                survey, start: anchor, next: surveys[(index + 1)...].firstAnchor(),
                bound: bound, directory: manifest.directory, now: now)
            anchor = plan.end
            plans.append(plan)
        }
        return plans
    }
}

extension SegmentSurvey {
    /// Whether the segment can be the first after the cut; one without a header can.
    fileprivate func follows(_ shard: ShardState) -> Bool {
        guard number == shard.cut.segment.next, let header else { return true }
        return header.previousChecksum == shard.lastBlockChecksum
    }
}

extension ArraySlice {
    /// The first place in these segments of which anything is known.
    fileprivate func firstAnchor<Files: FileSystem>() -> LogAnchor?
    where Element == SegmentSurvey<Files> {
        for survey in self {
            if let header = survey.header { return LogAnchor(startOf: header) }
            if let block = survey.pieces.lazy.compactMap(\.header).first {
                return LogAnchor(before: block)
            }
        }
        return nil
    }
}

extension SegmentPlan {
    fileprivate var lastAdmissionTime: Int64? {
        if let intact { return intact.footer.blocks.last?.summary.admissionTime }
        for step in steps.reversed() {
            if case .keep(_, let header) = step { return header.context.admissionTime }
        }
        return nil
    }
}
