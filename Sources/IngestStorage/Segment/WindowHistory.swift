// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// Seals sealed segments again whose footers cannot be read: from their blocks, as far as these can be, and as lost blocks
/// where the file is gone. Those of level 0, of whose counters there is nothing else; or those whose runs are
/// made again too. Counters that runs have already stay as they are.
///
/// Where it may not lose anything it looks at all of them first, and seals none unless each has all of its blocks.
///
/// **Cost** The footers where there is nothing to do; otherwise such a segment twice or three times, and all footers.
struct FooterRepair<Files: FileSystem> {
    let files: Files
    /// Places in the manifest's list.
    let range: Range<Int>
    var manifest: Manifest
    let now: Int64
    var usesReserve = false
    let mayLose: Bool

    /// - Parameter readKeys: asked where there is something to seal.
    /// - Returns: what was sealed again, and the manifest with that in it, of the same generation.
    /// **Errors** As `SegmentRecovery.run`; `corrupt` for what is lost and may not be: nothing has changed then.
    consuming func run(
        keys readKeys: () throws(StorageError) -> [RewardKey]
    ) throws(StorageError) -> (segments: [RecoveredSegment], manifest: Manifest) {
        var places: [Int] = []
        for place in range where try !isReadable(manifest.sealed[place]) { places.append(place) }
        if places.isEmpty { return ([], manifest) }
        if !mayLose { for place in places { _ = try plan(place) } }
        let keys = try readKeys()
        var repaired: [RecoveredSegment] = []
        for place in places {
            let (plan, windows) = try plan(place)
            var copy = SegmentCopy(
                files: files, directory: manifest.directory, keys: keys, now: now)
            (copy.usesReserve, copy.mayLose) = (usesReserve, mayLose)
            var segment = try copy.seal(plan, windows: windows)
            segment.repair =
                plan.survey.path == nil
                ? .missing : mayLose && plan.intact != nil ? .exchanged : .damaged
            manifest.sealed[place] = segment.file.entry
            manifest.replaceLost(
                of: manifest.sealed[place].number, by: segment.file.footer.lost)
            repaired.append(segment)
        }
        if let totals = try LogTotals(sealedIn: manifest, files) {
            manifest.shard.totals = totals
        }
        return (repaired, manifest)
    }

    private func isReadable(_ entry: SealedSegment) throws(StorageError) -> Bool {
        try StorageError.readable { () throws(StorageError) in
            try SegmentReader(entry.number, directory: manifest.directory, in: files)
                .readFooter(of: entry)
        } != nil
    }

    private func plan(
        _ place: Int
    ) throws(StorageError) -> (plan: SegmentPlan<Files>, windows: SenderWindows) {
        let entry = manifest.sealed[place]
        let name = FileName.segment(entry.number).text
        let survey =
            try files.names().contains(name)
            ? SegmentSurvey(entry.number, directory: manifest.directory, in: files)
            : SegmentSurvey(missing: entry.number)
        let (start, windows) = try before(place)
        let next = try anchor(behind: entry)
        // Where nothing is left to say it: the commits that the manifest counts behind it.
        let count = manifest.sealed[place...].reduce(UInt64(0)) { $0 + UInt64($1.blockCount) }
        var plan = SegmentPlan(
            survey, start: start ?? LogAnchor(cutOf: manifest).moved(back: count), next: next,
            bound: LogPosition(segment: entry.number, blockCount: entry.blockCount),
            directory: manifest.directory, origin: manifest.origin, now: now)
        let lost = manifest.lost.filter { $0.segment == entry.number }
        guard mayLose || plan.isWhole(entry, lost: lost, upTo: next) else {
            throw .corrupt(
                path: "\(files.path)/\(name)", offset: 0,
                detail: survey.path == nil
                    ? "missing file named by the manifest"
                    : "the footer cannot be read, and header or blocks are not those that were sealed"
            )
        }
        plan.recall(lost)
        plan.putEndsAside()
        return (plan, windows)
    }

    /// Where the log goes on behind a segment: as the next one says, or the manifest.
    private func anchor(behind entry: SealedSegment) throws(StorageError) -> LogAnchor? {
        if entry.number == manifest.cut.segment { return LogAnchor(cutOf: manifest) }
        return try StorageError.readable { () throws(StorageError) in
            let next = try SegmentReader(
                entry.number.next, directory: manifest.directory, in: files)
            return LogAnchor(startOf: next.header)
        }
    }

    /// What the log had come to before a segment, as far as that is known.
    private func before(
        _ place: Int
    ) throws(StorageError) -> (start: LogAnchor?, windows: SenderWindows) {
        var earlier = manifest
        earlier.sealed.removeSubrange(place...)
        let windows = try WindowHistory.read(of: earlier, in: files).windows
        guard let last = earlier.sealed.last else {
            let isFirst = manifest.expired.isEmpty
            return (isFirst ? LogAnchor(cutOf: ShardState()) : nil, windows)
        }
        let start = try StorageError.readable { () throws(StorageError) in
            let reader = try SegmentReader(
                last.number, directory: manifest.directory, in: files)
            return reader.anchor(behind: try reader.readFooter(of: last))
        }
        return (start, windows)
    }
}

extension LogTotals {
    /// What all sealed segments add up to, those that have expired included; `nil` where a footer cannot be read.
    ///
    /// **Cost** Reads all footers.
    init?<Files: FileSystem>(sealedIn manifest: Manifest, _ files: Files) throws(StorageError) {
        self.init()
        for entry in manifest.expired {
            let run = try RunReader(entry.run, directory: manifest.directory, in: files)
            let segments = try run.readExpired()
            rowCount = rowCount.saturatingSum(segments.rowCount)
            add(segments.ledger)
        }
        for entry in manifest.sealed {
            let footer = try StorageError.readable { () throws(StorageError) in
                try SegmentReader(entry.number, directory: manifest.directory, in: files)
                    .readFooter(of: entry)
            }
            guard let footer else { return nil }
            add(LogTotals(footer))
        }
    }
}

/// The windows of all senders where a manifest's sealed segments end, and the time of the last block there: what
/// a start goes on from.
///
/// The footer of the last sealed segment has them. Where it cannot be believed, they are made again from the
/// nearest one before that can, or from what is left of expired segments, and the ledgers of the blocks since.
///
/// **Cost** One footer; without it, that of reading the segments behind the nearest. One more footer for each segment
/// that has lost all its blocks.
struct WindowHistory {
    var windows = SenderWindows()
    /// Admission time of the last block; 0 if there is none.
    var lastAdmissionTime: Int64 = 0

    /// **Errors** `io`; `newerFormat`. What is missing or damaged is no error: the sequences of its blocks
    /// count as not arrived.
    static func read<Files: FileSystem>(
        of manifest: Manifest, in files: Files
    ) throws(StorageError) -> WindowHistory {
        var behind: [SealedSegment] = []
        for (index, entry) in manifest.sealed.enumerated().reversed() {
            guard let found = try history(behind: entry, manifest.directory, files) else {
                behind.append(entry)
                continue
            }
            var history = try found.goingOn(
                through: behind.reversed(), manifest.directory, files)
            if history.lastAdmissionTime == 0 {
                history.lastAdmissionTime = try lastAdmissionTime(
                    of: manifest.sealed[..<index].reversed(), manifest.directory, files)
            }
            return history
        }
        return try WindowHistory(windows: windowsOfExpired(manifest, files))
            .goingOn(through: behind.reversed(), manifest.directory, files)
    }

    private static func history<Files: FileSystem>(
        behind entry: SealedSegment, _ directory: DirectoryID, _ files: Files
    ) throws(StorageError) -> WindowHistory? {
        try StorageError.readable { () throws(StorageError) in
            let footer = try SegmentReader(entry.number, directory: directory, in: files)
                .readFooter(of: entry)
            return WindowHistory(
                windows: footer.windows,
                lastAdmissionTime: footer.blocks.last?.summary.lastAdmissionTime ?? 0)
        }
    }

    /// The time of the last block that is left behind an earlier footer, where the segment itself has lost all of them.
    private static func lastAdmissionTime<Files: FileSystem>(
        of segments: some Sequence<SealedSegment>, _ directory: DirectoryID, _ files: Files
    ) throws(StorageError) -> Int64 {
        for entry in segments {
            let found = try history(behind: entry, directory, files)
            if let found, found.lastAdmissionTime > 0 { return found.lastAdmissionTime }
        }
        return 0
    }

    private static func windowsOfExpired<Files: FileSystem>(
        _ manifest: Manifest, _ files: Files
    ) throws(StorageError) -> SenderWindows {
        var windows = SenderWindows()
        for entry in manifest.expired {
            let ledger = try StorageError.readable { () throws(StorageError) in
                try RunReader(entry.run, directory: manifest.directory, in: files)
                    .readExpired().ledger
            }
            windows.apply(ledger ?? [])
        }
        return windows
    }

    private func goingOn<Files: FileSystem>(
        through segments: [SealedSegment], _ directory: DirectoryID, _ files: Files
    ) throws(StorageError) -> WindowHistory {
        var history = self
        let (buffer, decoder, rows) = (ReadBuffer(), BlockDecoder(), BlockRows())
        for entry in segments {
            let found = try StorageError.readable { () throws(StorageError) in
                let survey = try SegmentSurvey(entry.number, directory: directory, in: files)
                return (survey.pieces, try survey.open(in: files))
            }
            guard let (pieces, file) = found else { continue }
            for case .block(let offset, let header) in pieces {
                try buffer.read(file, at: offset, byteCount: header.byteCount)
                let block = buffer.withBytes { bytes in
                    try? decoder.decode(bytes, wanted: .ledger, into: rows)
                }
                history.windows.apply(block?.ledger ?? [], at: header.summary.ledgerTime)
                history.lastAdmissionTime = header.lastAdmissionTime
            }
        }
        return history
    }
}
