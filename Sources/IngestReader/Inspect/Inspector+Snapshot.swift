// packet → decode → ring → admit → block → segment → compaction → [snapshot] → query

import IngestFormat
import IngestStorage

extension Inspector {
    // MARK: Runs of counters

    mutating func describeRun(_ file: Files.File) throws(StorageError) {
        let head = try file.readArray(at: 0, byteCount: RunHeader.byteCount)
        let header = decoding("header", at: 0) { [meant] () throws(FormatError) in
            guard case .run(let table, let number)? = meant else {
                return try RunHeader.decode(head)
            }
            return try RunHeader.decode(head, table: table, fileNumber: number)
        }
        guard let header else { return }
        line("header", "\(header.table.name) run \(header.fileNumber.rawValue)")
        indented(Self.text(header.encode(), RunHeader.layout))
        let run = try RunReader(header.entry, in: files)
        try describePages(run)
        switch header.table {
        case .expired:
            try describing("metadata") { (inspector) throws(StorageError) in
                inspector.describe(try run.readExpired())
            }
            cannotSee("the rows: they have expired, and this file is what attests them")
        case .rewardDays:
            try describing("metadata") { (inspector) throws(StorageError) in
                let segments = try run.readSegments()
                inspector.list("sealed", segments.entries, SealedSegment.layout)
                inspector.list("lost", segments.lost, LostRange.layout)
                inspector.describe(segments.attributions)
            }
        default: break
        }
        cannotSee("names: keys and businesses are ordinals, see the names runs")
    }

    private func describe(_ segments: ExpiredSegments) {
        list("expired", [segments], ExpiredSegments.layout)
        list("lost", segments.lost, LostRange.layout)
        list("unclean", segments.uncleanStops, UncleanStop.layout)
        let rangeCount = segments.ledger.reduce(0) { $0 + $1.sequences.count }
        line("ledger", "\(segments.ledger.count) senders, \(rangeCount) ranges of sequences")
        describe(segments.attributions)
    }

    private func describe(_ attributions: AttributionList) {
        line("attributions", "\(attributions.count) of keys, campaigns and sources")
    }

    /// Goes on after a part that is damaged.
    private mutating func describing(
        _ part: String, _ body: (inout Self) throws(StorageError) -> Void
    ) throws(StorageError) {
        do throws(StorageError) { try body(&self) } catch {
            guard error.exitCode == 65 else { throw error }
            bad("\(part): \(error)")
        }
    }

    private mutating func describePages(_ run: RunReader<Files>) throws(StorageError) {
        let page = CounterPage()
        let buffer = ReadBuffer()
        for (number, entry) in run.index.entries.enumerated() {
            let day =
                run.header.table.hasDay ? " on \(CivilDay(dayNumber: entry.firstDay))" : ""
            line(
                "page \(number)",
                "offset \(UInt64(RunHeader.byteCount) + UInt64(entry.offset)), \(entry.byteCount) bytes, "
                    + "\(entry.rowCount) rows from ordinal \(entry.firstKey)\(day)")
            try describing("page \(number)") { (_) throws(StorageError) in
                try run.read(page: number, into: page, buffer: buffer)
            }
        }
    }

    // MARK: Names runs

    mutating func describeNames(_ file: Files.File) throws(StorageError) {
        let bytes = try file.readArray(at: 0, byteCount: NamesRun.Header.byteCount)
        let header = decoding("header", at: 0) { [meant] () throws(FormatError) in
            guard case .run(let table, let number)? = meant else {
                return try NamesRun.Header.decode(bytes)
            }
            return try NamesRun.Header.decode(bytes, table: table, fileNumber: number)
        }
        guard let header else { return }
        line("header", "\(header.table.name) run \(header.fileNumber.rawValue)")
        indented(Self.text(header.encode(), NamesRun.Header.layout))
        try describing("names run") { (inspector) throws(StorageError) in
            let run = try NamesRunReader<Files>(file, header)
            let (lostNames, lostKeys) = (try run.lostNames().count, try run.lostKeys().count)
            try inspector.readOrders(of: run)
            inspector.line("lost", "\(lostNames) names and \(lostKeys) keys")
        }
        cannotSee("which names are rewards: one list holds those of every kind")
    }

    /// Checks every page; whether the orders are of the same names, `verify` knows.
    private func readOrders(of run: NamesRunReader<Files>) throws(StorageError) {
        let (names, pairs) = (NameBatch(), PairBatch())
        var cursor = run.makeNameCursor()
        while try cursor.nextNames(into: names) {}
        for kind in [NamesPageKind.ranks, .keys, .rewards] {
            var cursor = run.makePairCursor(kind)
            while try cursor.nextPairs(into: pairs) {}
        }
    }

    // MARK: Manifests

    mutating func describeManifest(_ file: Files.File) throws(StorageError) {
        let bytes = try file.readAll(byteCountMax: Limits.manifestByteCountMax)
        let manifest = decoding("manifest", at: 0) { [meant] () throws(FormatError) in
            guard case .manifest(let generation)? = meant else { return try Manifest.decode(bytes) }
            return try Manifest.decode(bytes, generation: generation)
        }
        guard let manifest else { return }
        line("manifest", "generation \(manifest.generation.rawValue)")
        indented("directory \(Self.hex(manifest.directory.rawValue))")
        indented(
            "made \(TimeText.utc(manifest.createdAt)), the directory "
                + TimeText.utc(manifest.directoryCreatedAt))
        // The key itself is not printed: with it, event ids could be tried against the log.
        indented(
            "event ids hashed by algorithm \(manifest.hashAlgorithm), next file number "
                + "\(manifest.nextFileNumber.rawValue)")
        let shard = manifest.shard
        line("cut", "runs cover everything before \(manifest.cut.text), shard \(shard.shard)")
        indented(
            "next name \(shard.nextName), next key \(shard.nextKey), commit epoch "
                + "\(shard.commitEpoch), last block's checksum \(Self.hex(shard.lastBlockChecksum))"
        )
        indented("\(shard.totals.rowCount) rows before the cut")
        describeEntries(manifest)
        cannotSee(
            "whether the files are there and what they should be: ingest-reader verify checks")
    }

    private func describeEntries(_ manifest: Manifest) {
        list("expired", manifest.expired.map(\.run), RunEntry.layout)
        list("expired", manifest.expired.map(\.names), NamesRunEntry.layout)
        list("sealed", manifest.sealed, SealedSegment.layout)
        list("run", manifest.runs, RunEntry.layout)
        list("names", manifest.namesRuns, NamesRunEntry.layout)
        list("lost", manifest.lost, LostRange.layout)
        list("unclean", manifest.uncleanStops, UncleanStop.layout)
    }
}
