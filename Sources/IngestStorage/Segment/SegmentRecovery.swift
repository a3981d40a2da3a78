// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestCounting
import IngestFormat

/// Seals what a crash left unsealed, before anything else looks at the log (docs/durability.md).
///
/// 0. A segment of level 0 whose header or footer cannot be read, which is all that there is of its counters, is sealed again
/// as one that never was.
/// 1. Every segment that the manifest does not call sealed is read whole; nothing is written yet.
/// 2. For each is planned what stays, what was lost, what is cut; *torn* and *bad* are told apart by what
/// lies behind them in the whole log (`DamageVerdict`).
/// 3. In order of numbers: bytes that go are copied to `aside/`; then the valid blocks, byte by byte at the same
/// places, and a footer go to `N.segment.tmp` → fsync → read back → rename → fsync of the directory. A file
/// in which nothing was ever durable is removed instead.
///
/// A crash at any point leaves a directory for which all of this can be done again, with the same bytes.
///
/// **Cost** The unsealed tail is read twice and written once; memory is that of its footers.
package enum SegmentRecovery {
    /// More segments than this missing in a row are no accident of a disk.
    static let missingSegmentCountMax: UInt32 = 1024

    /// - Parameters:
    ///   - keys: the names of every key of the manifest, by ordinal.
    ///   - now: for the footers; microseconds since 1970.
    ///   - usesReserve: whether the disk is full: then copies are written over the reserve, which is what the segment was
    ///     afterwards.
    /// **Errors** `diskFull`: the directory is as it was, start again with space. `corrupt`: the log is not the one
    /// that the manifest describes. `newerFormat`, `durabilityLost`, `io`.
    package static func run<Files: FileSystem>(
        in files: Files, after manifest: Manifest, keys: [RewardKey], now: Int64,
        usesReserve: Bool = false
    ) throws(StorageError) -> RecoveryReport {
        let mark = try DurableMarkFile.read(in: files, directory: manifest.directory)
        let bound = try max(mark ?? .start, knownEnd(in: files, manifest))
        let repaired = try FooterRepair(
            files: files, range: manifest.level0.indices, manifest: manifest, now: now,
            usesReserve: usesReserve, mayLose: true
        ).run { keys }
        let manifest = repaired.manifest
        let surveys = try survey(files, manifest, bound: bound)
        try checkContinuity(surveys, manifest, path: files.path)
        let history = try WindowHistory.read(of: manifest, in: files)
        var report = RecoveryReport(
            repaired: repaired.segments, manifest: manifest, lastSegment: manifest.lastSealed,
            next: LogAnchor(cutOf: manifest), mark: mark, windows: history.windows,
            lastAdmissionTime: history.lastAdmissionTime)
        let plans = plan(surveys, manifest, bound: bound, now: now)
        var copy = SegmentCopy(
            files: files, directory: manifest.directory, keys: keys, now: now)
        copy.usesReserve = usesReserve
        let end = plans.lastIndex { !$0.isEmpty }.map { $0 + 1 } ?? 0
        for var plan in plans[..<end] {
            plan.putHeaderAside()
            var segment = try copy.seal(plan, windows: report.windows)
            if plan.hasDamagedHeader { segment.repair = .damaged }
            report.windows = segment.file.footer.windows
            report.segments.append(segment)
            report.lastSegment = plan.survey.number
            // As the next start will find it, also where a block turned out not to be countable.
            report.next = LogAnchor(
                after: segment.file.footer, startingAt: LogAnchor(startOf: plan.header))
            report.lastAdmissionTime = plan.lastAdmissionTime ?? report.lastAdmissionTime
        }
        for plan in plans[end...] where plan.survey.path != nil {
            report.asideOfDropped += try copy.drop(plan)
            report.dropped.append(plan.survey.number)
        }
        return report
    }

    /// The furthest that a manifest has the log: those that are left may say more than one that was made from it.
    private static func knownEnd<Files: FileSystem>(
        in files: Files, _ manifest: Manifest
    ) throws(StorageError) -> LogPosition {
        var end = manifest.cut
        for case .manifest(let generation)? in try files.names().map(FileName.init) {
            let found = try StorageError.readable { () throws(StorageError) in
                try ManifestStore(files: files).read(generation)
            }
            if let found, found.directory == manifest.directory { end = max(end, found.cut) }
        }
        return end
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
                bound: bound, directory: manifest.directory, origin: manifest.origin, now: now)
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
                var anchor = LogAnchor(before: block)
                // The blocks before it were lost in its own segment.
                anchor.commitEpoch -= Swift.min(
                    anchor.commitEpoch, UInt64(block.context.blockOrdinal))
                return anchor
            }
        }
        return nil
    }
}

extension SegmentPlan {
    fileprivate var lastAdmissionTime: Int64? {
        for step in steps.reversed() {
            if case .keep(_, let header) = step { return header.lastAdmissionTime }
        }
        return nil
    }
}

/// Seals segments by copy, as planned, one after the other. Owns the memory for it.
struct SegmentCopy<Files: FileSystem> {
    let files: Files
    let directory: DirectoryID
    let now: Int64
    var usesReserve = false
    /// Whether a block with sound bytes that no encoder of ours makes is lost; else it is an error.
    var mayLose = true
    /// Of the segments so far.
    private var keys: [RewardKey]
    private let buffer = ReadBuffer()
    private let decoder = BlockDecoder()
    private let rows = BlockRows()
    private let counters = SegmentCounters()

    init(files: Files, directory: DirectoryID, keys: [RewardKey], now: Int64) {
        self.files = files
        self.directory = directory
        self.keys = keys
        self.now = now
    }

    /// Seals a segment by copy under its own number: everything that can be counted, and a footer that says so, or the one
    /// that was there, if the file is as that says.
    ///
    /// - Parameter windows: as the segment before left them.
    mutating func seal(
        _ plan: SegmentPlan<Files>, windows: SenderWindows
    ) throws(StorageError) -> RecoveredSegment {
        let file = plan.survey.path == nil ? nil : try plan.survey.open(in: files)
        let name = FileName.segment(plan.survey.number)
        var spare: FileName?
        if usesReserve, file != nil {
            // One that is sealed, and in no generation, is written over itself: the same bytes, so that no crash tears it.
            if try hasBytes(of: plan, file) {
                spare = name
            } else if try DiskReserve.isHeld(in: files) {
                spare = .reserve
            }
        }
        let recovered: RecoveredSegment
        do throws(StorageError) {
            recovered = try DurableFile.write(name, over: spare, in: files) {
                (recorder) throws(StorageError) in
                try copy(plan, file, windows, to: &recorder)
            }
        } catch {
            guard case .diskFull(let path, let call, let errno, _) = error else { throw error }
            // Nothing less will do, and whoever has to make room wants to know how much.
            throw .diskFull(
                path: path,
                call: "copy of a segment of \(plan.survey.byteCount) bytes, \(call)",
                errno: errno)
        }
        try files.syncDirectory()
        keys.append(recovered.file.names, upTo: recovered.file.footer.keys.upperBound)
        return recovered
    }

    /// Whether the file of a sealed segment has just the bytes that its copy is to have. Those of blocks are copied as
    /// they are; header and footer are compared with what they are encoded to.
    private func hasBytes(
        of plan: SegmentPlan<Files>, _ file: Files.File?
    ) throws(StorageError) -> Bool {
        guard let (footer, offset) = plan.intact, let file else { return false }
        let (head, tail) = (plan.header.encode(), footer.encode(at: offset).bytes)
        guard try file.byteCount() == offset + UInt64(tail.count) else { return false }
        guard try file.readArray(at: 0, byteCount: head.count) == head else { return false }
        return try file.readArray(at: offset, byteCount: tail.count) == tail
    }

    /// Everything that goes into the new file. What goes nowhere is put aside before that takes the place of the old one.
    private func copy(
        _ plan: SegmentPlan<Files>, _ file: Files.File?, _ windows: SenderWindows,
        to recorder: inout WriteRecorder<Files.File>
    ) throws(StorageError) -> RecoveredSegment {
        counters.removeAll()
        var segment = SegmentAccumulator(
            header: plan.header, counters: counters, windows: windows)
        try recorder.write(plan.header.encode(), at: 0)
        let aside = try copyBlocks(plan, file, to: &recorder, &segment)
        let footer: SegmentFooter
        if let intact = plan.intact {
            footer = intact.footer
        } else {
            footer = try self.footer(of: segment, plan)
        }
        try check(footer, path: plan.survey.path)
        let offset = plan.intact?.offset ?? segment.endOffset
        let (bytes, trailer) = footer.encode(at: offset)
        try recorder.write(bytes, at: offset)
        // On a full disk, what of the reserve is too much has room for what goes aside.
        try recorder.trim()
        return RecoveredSegment(
            file: SealedSegmentFile(
                footer: footer, entry: footer.entry(trailer: trailer), names: segment.names),
            torn: plan.torn, aside: try putAside(aside, of: plan.survey, file),
            hole: plan.survey.hole)
    }

    private func footer(
        of segment: borrowing SegmentAccumulator, _ plan: SegmentPlan<Files>
    ) throws(StorageError) -> SegmentFooter {
        var keys = keys
        keys.append(segment.names, upTo: segment.nextKey)
        do {
            var footer = try segment.footer(
                sealedAt: plan.survey.footer?.sealedAt ?? now, keys: keys)
            footer.idsCompleteSince =
                plan.survey.footer?.idsCompleteSince ?? SegmentFooter.unknownCompleteSince
            return footer
        } catch {
            throw .corrupt(
                path: plan.survey.path ?? files.path, offset: 0,
                detail: "counters that cannot be: \(error)")
        }
    }

    private func check(_ footer: SegmentFooter, path: String?) throws(StorageError) {
        guard let over = footer.countOverLimit else { return }
        throw .corrupt(
            path: path ?? files.path, offset: 0,
            detail: "\(over.name) of \(over.count), a footer holds \(over.max)")
    }

    /// Copies and counts the blocks that stay, each at its place.
    ///
    /// - Returns: the bytes to be put aside.
    private func copyBlocks(
        _ plan: SegmentPlan<Files>, _ file: Files.File?,
        to recorder: inout WriteRecorder<Files.File>, _ segment: inout SegmentAccumulator
    ) throws(StorageError) -> [Range<UInt64>] {
        var aside = plan.aside
        for step in plan.steps {
            switch step {
            case .lose(let lost): segment.add(lost)
            case .keep(let offset, let header):
                guard let file else { continue }
                try buffer.read(file, at: offset, byteCount: header.byteCount)
                if try add(offset, header, path: file.path, to: &segment) || plan.intact != nil {
                    try buffer.withBytes { (bytes) throws(StorageError) in
                        try recorder.write(bytes, at: offset)
                    }
                } else {
                    // Sound bytes that no encoder of ours makes: as a bad block.
                    guard mayLose else {
                        throw .corrupt(
                            path: file.path, offset: offset,
                            detail:
                                "a block whose checksum is right and whose rows cannot be decoded or counted"
                        )
                    }
                    let range = offset..<offset + UInt64(header.byteCount)
                    segment.add(SegmentPlan<Files>.lost(header, at: range))
                    aside.append(range)
                }
            }
        }
        return aside
    }

    /// Counts the block in the buffer.
    ///
    /// - Returns: whether it could be counted.
    private func add(
        _ offset: UInt64, _ header: BlockHeader, path: String,
        to segment: inout SegmentAccumulator
    ) throws(StorageError) -> Bool {
        let decoded = try buffer.withBytes { (bytes) throws(StorageError) -> DecodedBlock? in
            guard (try? decoder.check(bytes)) == header else {
                throw .corrupt(path: path, offset: offset, detail: "changed while it was read")
            }
            return try? decoder.decode(bytes, wanted: .all, into: rows)
        }
        guard let decoded else { return false }
        return segment.add(
            header.summary, ordinal: header.context.blockOrdinal, offset: offset, rows: rows,
            names: decoded.names, keys: decoded.keys, ledger: decoded.ledger) == .folded
    }

    /// Removes a segment file in which nothing was ever durable.
    /// - Returns: the copies of what was in it.
    func drop(_ plan: SegmentPlan<Files>) throws(StorageError) -> [String] {
        let survey = plan.survey
        var ranges = plan.aside
        let file = try survey.open(in: files)
        if survey.header == nil {
            // A header that was not finished, or was never one of ours.
            let head = 0..<UInt64(SegmentHeader.byteCount)
            let end = try file.endOfContent(in: head)
            if end > 0 { ranges.insert(0..<end, at: 0) }
        }
        let aside = try putAside(ranges, of: survey, file)
        try files.unlink(FileName.segment(survey.number).text)
        try files.syncDirectory()
        return aside
    }

    private func putAside(
        _ ranges: [Range<UInt64>], of survey: SegmentSurvey<Files>, _ file: Files.File?
    ) throws(StorageError) -> [String] {
        guard let file, ranges.contains(where: { !$0.isEmpty }) else { return [] }
        let aside = try AsideDirectory(of: files)
        var names: [String] = []
        for range in ranges where !range.isEmpty {
            let name = SegmentCopyName.text(of: survey.number, at: range.lowerBound)
            names.append(try aside.copy(range, of: file, as: name))
        }
        return names
    }
}
