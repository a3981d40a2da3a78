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
        try describePages(
            RunReader(header.entry, in: files), from: UInt64(RunHeader.byteCount))
        cannotSee("names: keys and businesses are ordinals, see the names runs")
    }

    /// - Parameter start: where the first page begins in the file.
    mutating func describePages(_ run: RunReader<Files>, from start: UInt64) throws(StorageError) {
        let page = CounterPage()
        let buffer = ReadBuffer()
        for (number, entry) in run.index.entries.enumerated() {
            let day =
                run.header.table.hasDay ? " on \(CivilDay(dayNumber: entry.firstDay))" : ""
            line(
                "page \(number)",
                "offset \(start + UInt64(entry.offset)), \(entry.byteCount) bytes, "
                    + "\(entry.rowCount) rows from ordinal \(entry.firstKey)\(day)")
            do throws(StorageError) {
                try run.read(page: number, into: page, buffer: buffer)
            } catch {
                guard error.exitCode == 65 else { throw error }
                bad("page \(number): \(error)")
            }
        }
    }

    // MARK: Names runs

    mutating func describeNames(_ file: Files.File) throws(StorageError) {
        let bytes = try file.readArray(at: 0, byteCount: NamesRun.Header.byteCount)
        let header = decoding("header", at: 0) { [meant] () throws(FormatError) in
            guard case .run(.names, let number)? = meant else {
                return try NamesRun.Header.decode(bytes)
            }
            return try NamesRun.Header.decode(bytes, fileNumber: number)
        }
        guard let header else { return }
        line("header", "names run \(header.fileNumber.rawValue)")
        indented(Self.text(header.encode(), NamesRun.Header.layout))
        do throws(StorageError) {
            let run = try NamesRunReader<Files>(file, header)
            let (lostNames, lostKeys) = (try run.lostNames().count, try run.lostKeyCount())
            try readOrders(of: run)
            line("lost", "\(lostNames) names and \(lostKeys) keys")
        } catch {
            guard error.exitCode == 65 else { throw error }
            bad("names run: \(error)")
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
        indented(
            "\(shard.totals.rowCount) rows before the cut, "
                + "\(Money(micros: shard.sealedMoneyMicros)) counted")
        describeEntries(manifest)
        cannotSee(
            "whether the files are there and what they should be: ingest-reader verify checks")
    }

    private func describeEntries(_ manifest: Manifest) {
        list("expired", manifest.expired, ExpiredEntry.layout)
        list("sealed", manifest.sealed, SealedSegment.layout)
        list("run", manifest.runs, RunEntry.layout)
        list("names", manifest.namesRuns, NamesRunEntry.layout)
        list("lost", manifest.lost, LostRange.layout)
        list("unclean", manifest.uncleanStops, UncleanStop.layout)
    }
}

extension Inspector {
    mutating func describeExpired(_ file: Files.File) throws(StorageError) {
        let head = try file.readArray(at: 0, byteCount: ExpiredHeader.byteCount)
        let header = decoding("header", at: 0) { [meant] () throws(FormatError) in
            guard case .expired(let number)? = meant else { return try ExpiredHeader.decode(head) }
            return try ExpiredHeader.decode(head, fileNumber: number)
        }
        guard let header else { return }
        describe(header)
        let reader = try ExpiredFooterReader(header.entry, in: files)
        try describePages(reader.counters, from: UInt64(ExpiredHeader.byteCount))
        do throws(StorageError) {
            let ledger = try reader.readLedger()
            let rangeCount = ledger.reduce(0) { $0 + $1.sequences.count }
            line("ledger", "\(ledger.count) senders, \(rangeCount) ranges of sequences")
        } catch {
            guard error.exitCode == 65 else { throw error }
            bad("ledger: \(error)")
        }
        cannotSee("the rows: they have expired, and this file is what attests them")
    }

    private func describe(_ header: ExpiredHeader) {
        let sums = header.sums
        line("header", "expired footers \(header.fileNumber.rawValue)")
        indented("directory \(Self.hex(header.directory.rawValue))")
        indented(
            "of the log from segment \(sums.span.firstSegment.rawValue) to \(sums.span.end.text): "
                + "\(sums.footerCount) footers, \(sums.missingCount) could not be read")
        indented(
            "made \(TimeText.utc(header.createdAt)) for generation \(header.generation.rawValue), "
                + "checksum \(Self.hex(header.checksum))")
        line("rows", "\(sums.rowCount) in \(sums.logByteCount) bytes of segments")
        if sums.rowCount > 0 {
            indented(
                "event times from \(TimeText.utc(sums.minTimestamp)) to "
                    + TimeText.utc(sums.maxTimestamp))
        }
        line(
            "behind it",
            "next name \(sums.nextName), next key \(sums.nextKey), commit epoch "
                + "\(sums.nextCommitEpoch), last block's checksum \(Self.hex(sums.lastBlockChecksum))"
        )
        line("counters", "\(header.keyDayCount) rows in \(header.pageCount) pages")
    }
}
