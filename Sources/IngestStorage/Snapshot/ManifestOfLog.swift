// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestFormat

extension LogRebuild {
    /// The manifest of a directory that has none that can be believed, from headers and footers: expired runs, the
    /// sealed segments behind them up to the first that has no sound footer, and the names runs that are there. No
    /// runs; `run` makes them, with numbers behind those of all files that are there. What lies behind is the tail, which
    /// recovery seals.
    ///
    /// **Errors** `missingManifest` where nothing says which directory this is. `newerFormat`, `io`.
    /// **Cost** All footers once.
    package static func manifest(of files: Files) throws(StorageError) -> Manifest {
        let names = try files.names().compactMap { FileName($0) }
        let segments = names.compactMap(\.segmentNumber).sorted()
        guard let first = try firstHeader(of: segments, in: files) else {
            throw .missingManifest(
                directory: files.path, fileCount: names.count { $0.belongsToLog })
        }
        var manifest = Manifest(
            directory: first.directory, createdAt: first.origin.createdAt,
            hashAlgorithm: first.origin.hashAlgorithm, hashKey: first.origin.hashKey)
        manifest.generation = names.compactMap(\.generation).max() ?? manifest.generation
        try manifest.addExpired(names, in: files)
        // Were the log gone on with behind a gap, what is before it would be given up.
        if let first = segments.first, first > manifest.lastExpired.next {
            throw .corrupt(
                path: files.path, offset: 0,
                detail:
                    "the log begins with segment \(first.rawValue), expired runs of those before "
                    + "end with segment \(manifest.lastExpired.rawValue)")
        }
        try manifest.checkNoGap(segments, path: files.path)
        try manifest.addSealed(segments, in: files)
        try manifest.addNamesRuns(names, in: files)
        let numbers = manifest.fileNames.compactMap(\.fileNumber)
        manifest.nextFileNumber = numbers.max()?.next ?? manifest.nextFileNumber
        return manifest
    }

    /// A manifest with its sealed segments: as its sound runs list them, or else the footers. Those of which neither can be
    /// read are in the list by their numbers, for `run` to seal them again.
    package static func complete(
        _ manifest: Manifest, _ bad: BadRuns, _ store: ManifestStore<Files>
    ) throws(StorageError) -> Manifest {
        guard bad.areSegmentsBad else { return try store.complete(manifest) }
        var whole = manifest
        var listed = Dictionary(manifest.level0.map { ($0.number, $0) }) { $1 }
        for run in manifest.runs(of: .rewardDays) where !bad.counterRuns.contains(run.fileName) {
            let found = try RunReader(run, directory: manifest.directory, in: store.files)
                .readSegments()
            for entry in found.entries { listed[entry.number] = entry }
            whole.lost += found.lost
        }
        whole.sealed = []
        var number = manifest.lastExpired
        while number < manifest.cut.segment {
            number = number.next
            let count = number == manifest.cut.segment ? manifest.cut.blockCount : nil
            if let entry = listed[number] {
                whole.sealed.append(entry)
            } else if let found = try readSealed(number, manifest.directory, store.files),
                found.entry.blockCount == count ?? found.entry.blockCount
            {
                whole.sealed.append(found.entry)
                whole.lost += found.footer.lost
            } else {
                whole.sealed.append(
                    SealedSegment(
                        number: number, byteCount: 0, footerChecksum: 0, blockCount: count ?? 0,
                        rowCount: 0, minTimestamp: 0, maxTimestamp: 0, lastCommitTime: 0))
            }
        }
        whole.lost.removeAll { $0.segment <= manifest.lastExpired }
        whole.lost.sort { ($0.segment, $0.firstBlock) < ($1.segment, $1.firstBlock) }
        return whole
    }

    /// The first header of a segment that can be read.
    private static func firstHeader(
        of segments: [SegmentNumber], in files: Files
    ) throws(StorageError) -> SegmentHeader? {
        for number in segments {
            let header = try StorageError.readable { () throws(StorageError) in
                let file = try files.open(FileName.segment(number).text, .read)
                let bytes = try file.readArray(at: 0, byteCount: SegmentHeader.byteCount)
                return try StorageError.decoding(file.path) { () throws(FormatError) in
                    try SegmentHeader.decode(bytes, segment: number)
                }
            }
            if let header, header.origin.hashAlgorithm > 0 { return header }
        }
        return nil
    }
}

/// Header and footer of a segment, and what a manifest says of it; `nil` where they cannot be read.
private func readSealed<Files: FileSystem>(
    _ number: SegmentNumber, _ directory: DirectoryID, _ files: Files
) throws(StorageError) -> (header: SegmentHeader, footer: SegmentFooter, entry: SealedSegment)? {
    try StorageError.readable { () throws(StorageError) in
        let reader = try SegmentReader(number, directory: directory, in: files)
        let sealed = try SegmentFooterFile.read(reader.file, number: number, directory: directory)
        return (reader.header, sealed.footer, sealed.footer.entry(trailer: sealed.trailer))
    }
}

extension Manifest {
    /// Takes the expired runs from segment 1 on, the longest where several begin at one segment: the others were
    /// merged into it.
    ///
    /// **Errors** `corrupt` for one that cannot be read, or that is of segments behind a gap: the log has nothing else
    /// of them.
    fileprivate mutating func addExpired<Files: FileSystem>(
        _ names: [FileName], in files: Files
    ) throws(StorageError) {
        let store = ManifestStore(files: files)
        var found: [RunHeader] = []
        // Its names are written behind it: without them it was not finished, and its segments are there.
        for case .run(.expired, let number) in names
        where names.contains(.run(.expiredNames, number.next)) {
            found.append(try store.runHeader(number, of: .expired, directory))
            generation = max(generation, found[found.count - 1].generation)
        }
        while let header = found.filter({ $0.span.firstSegment == lastExpired.next })
            .max(by: { $0.span.end < $1.span.end })
        {
            let run = try RunReader(header.entry, directory: directory, in: files)
            let segments = try run.readExpired()
            // The two files have numbers that follow each other.
            let names = try store.namesEntry(
                header.fileNumber.next, of: .expiredNames, directory)
            expired.append(ExpiredEntry(run: header.entry, names: names))
            createdAt = max(createdAt, header.createdAt)
            shard.cut = header.span.end
            shard.commitEpoch = segments.nextCommitEpoch &- 1
            shard.lastBlockChecksum = segments.lastBlockChecksum
            (shard.nextName, shard.nextKey) = (segments.nextName, segments.nextKey)
            for stop in segments.uncleanStops { note(stop) }
            shard.totals.add(segments.ledger)
            shard.totals.rowCount = shard.totals.rowCount.saturatingSum(segments.rowCount)
        }
        if let beyond = found.first(where: { $0.span.lastSegment > lastExpired }) {
            throw .corrupt(
                path: "\(files.path)/\(beyond.entry.fileName.text)", offset: 0,
                detail:
                    "expired run from segment \(beyond.span.firstSegment.rawValue) on, "
                    + "those before end with segment \(lastExpired.rawValue)")
        }
    }

    /// A segment that is missing between others may be a run's alone, and no manifest is left that says so: it is not given up.
    fileprivate func checkNoGap(
        _ segments: [SegmentNumber], path: String
    ) throws(StorageError) {
        var number = lastExpired
        for present in segments where present > lastExpired {
            number = number.next
            guard present > number else { continue }
            throw .corrupt(
                path: "\(path)/\(FileName.segment(number).text)", offset: 0,
                detail: "the segment is missing, and no manifest is left that says what it held")
        }
    }

    /// Takes the sealed segments that follow, up to the first without a sound footer.
    fileprivate mutating func addSealed<Files: FileSystem>(
        _ segments: [SegmentNumber], in files: Files
    ) throws(StorageError) {
        for number in segments where number == lastSealed.next {
            guard let (header, footer, entry) = try readSealed(number, directory, files) else {
                return
            }
            if header.uncleanStopAt != 0 {
                note(UncleanStop(foundAt: header.uncleanStopAt, position: shard.cut))
            }
            add(
                footer, entry,
                next: LogAnchor(
                    after: footer, startingAt: LogAnchor(startOf: header)))
            createdAt = max(createdAt, footer.sealedAt)
            idsCompleteSince = max(idsCompleteSince, footer.idsCompleteSince)
        }
    }

    /// Takes the names runs that go on from each other from the first name on, the longest where several begin at one.
    fileprivate mutating func addNamesRuns<Files: FileSystem>(
        _ names: [FileName], in files: Files
    ) throws(StorageError) {
        var found: [NamesRunEntry] = []
        let store = ManifestStore(files: files)
        for case .run(.names, let number) in names {
            let entry = try StorageError.readable { () throws(StorageError) in
                try store.namesEntry(number, of: .names, directory)
            }
            if let entry { found.append(entry) }
        }
        while let run = found.filter({
            $0.names.lowerBound == namesRuns.last?.names.upperBound ?? 1
                && $0.keys.lowerBound == namesRuns.last?.keys.upperBound ?? 0
                && $0.names.upperBound <= shard.nextName && $0.keys.upperBound <= shard.nextKey
                && !($0.names.isEmpty && $0.keys.isEmpty)
        }).max(by: {
            ($0.names.upperBound, $0.keys.upperBound) < ($1.names.upperBound, $1.keys.upperBound)
        }) {
            namesRuns.append(run)
        }
    }

    /// Adds a segment that was sealed behind the cut, and moves that behind it.
    /// - Parameter next: what the log goes on with there.
    package mutating func add(_ footer: SegmentFooter, _ entry: SealedSegment, next: LogAnchor) {
        sealed.append(entry)
        lost.append(contentsOf: footer.lost)
        shard.totals.add(LogTotals(footer))
        shard.cut = footer.end
        (shard.nextName, shard.nextKey) = (footer.names.upperBound, footer.keys.upperBound)
        // The epochs of blocks that were lost at the end are not given again.
        shard.commitEpoch = next.commitEpoch &- 1
        shard.lastBlockChecksum = next.previousChecksum
    }
}

extension FileName {
    fileprivate var segmentNumber: SegmentNumber? {
        if case .segment(let number) = self { number } else { nil }
    }

    /// The number, if it is a run.
    var fileNumber: FileNumber? {
        switch self {
        case .run(_, let number): number
        default: nil
        }
    }
}
