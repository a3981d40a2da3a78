// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
import IngestCounting
import IngestFormat

/// Merges what is left of segments whose rows expire, and of some that expired before, into one expired run and the
/// names that go with it. It counts once a manifest names it in the place of the segments.
///
/// A segment of which no footer can be read goes along with the next one that has one: what it held is in the runs,
/// and nobody can verify that any more.
///
/// **Cost** The footers, and the blocks with new names; that of `RunWriter` and `NamesRunWriter`. In memory: a page a
/// part, the names of `nameByteCountMax`, a ledger of one footer's size.
package struct ExpiredMerge<Files: FileSystem> {
    private let files: Files
    private let manifest: Manifest
    private var sums: ExpiredSegments?
    private var ledger = LedgerSum()
    private var rows: [RunReader<Files>] = []
    private var names: [NamesOfBlock] = []
    private var damaged: [SegmentNumber] = []
    private var footerCount = 0
    /// Since the last segment with a footer.
    private var unreadable: [(number: SegmentNumber, isThere: Bool)] = []
    private var firstSegment: SegmentNumber

    /// - Parameter manifest: the generation that it is made for, as far as it is known: with the segments.
    package init(for manifest: Manifest, in files: Files) {
        self.manifest = manifest
        self.files = files
        firstSegment = manifest.lastExpired.next
    }

    /// Takes the first of `segments`, as many as one merge takes, and writes the two files.
    ///
    /// - Parameters:
    ///   - segments: those that follow the last that has expired, none of level 0.
    ///   - older: the newest entries of the manifest, which are merged with them.
    ///   - isStopped: asked once a segment and once a page: whether to end early.
    /// - Returns: `nil` if it was stopped, or if no footer can be read; nothing is left of it then, nor after an error.
    /// **Errors** `corrupt`, `notFound` with the path of an older part that cannot be read; those of writing.
    package mutating func run(
        _ segments: [SealedSegment], older: ArraySlice<ExpiredEntry>, firstNumber: FileNumber,
        isStopped: @escaping @Sendable () -> Bool = { false }
    ) throws(StorageError) -> ExpiredOutput? {
        var nameByteCount = 0
        for segment in segments
        where nameByteCount < Limits.rollNameByteCount && footerCount < Limits.level0MergeCountMax {
            if isStopped() { return nil }
            let first = names.count
            try take(segment)
            nameByteCount += names[first...].reduce(0) {
                $0 + $1.names.byteCount + 8 * $1.keys.count
            }
        }
        guard var added = sums else { return nil }
        let span = added.span
        // Those of segments without a footer too.
        added.lost = manifest.lost.filter { span.contains($0.segment) }
        added.uncleanStops = manifest.uncleanStops.filter {
            span.contains($0.position.segment.next)
        }
        var whole = added
        for entry in older.reversed() {
            let run = try RunReader(entry.run, directory: manifest.directory, in: files)
            let before = try run.readExpired()
            guard let joined = before.joined(with: whole) else {
                throw .corrupt(
                    path: "\(files.path)/\(entry.run.fileName.text)", offset: 0,
                    detail: "expired run does not end where the next segment begins")
            }
            whole = joined
            rows.append(run)
            add(before.ledger)
        }
        whole.ledger = ledger.entries()
        let merged = try MergedRows(rows, for: .expired)
        whole.attributions = merged.attributions
        let written = try RunWriter.merge(
            .expired, firstNumber, of: whole.span, for: manifest,
            metadata: RunMetadata(whole.encode()), merged, in: files, isStopped: isStopped)
        guard let run = written else { return nil }
        do throws(StorageError) {
            if !isStopped() {
                let names = try writeNames(upTo: added, older, firstNumber.next)
                return ExpiredOutput(
                    entry: ExpiredEntry(run: run, names: names), segments: added, damaged: damaged)
            }
        } catch {
            try? files.unlink(run.fileName.text)
            throw error
        }
        try? files.unlink(run.fileName.text)
        return nil
    }

    private mutating func add(_ entries: [LedgerEntry]) {
        ledger.add(
            entries, countMax: Limits.segmentSenderCountMax,
            rangeCountMax: Limits.segmentSequenceRangeCountMax)
    }

    private func writeNames(
        upTo segments: ExpiredSegments, _ older: ArraySlice<ExpiredEntry>, _ number: FileNumber
    ) throws(StorageError) -> NamesRunEntry {
        let last = manifest.expired.last?.names
        var runs: [NamesRunReader<Files>] = []
        for entry in older {
            runs.append(
                try NamesRunReader(entry.names, directory: manifest.directory, in: files))
        }
        let (firstName, firstKey) = (last?.names.upperBound ?? 1, last?.keys.upperBound ?? 0)
        let (nextName, nextKey) = (
            max(firstName, segments.nextName), max(firstKey, segments.nextKey)
        )
        let blocks = try filled(names, names: firstName..<nextName, keys: firstKey..<nextKey)
        let fresh = FreshNames(
            of: blocks, names: firstName..<nextName, keys: firstKey..<nextKey)
        return try NamesRunWriter.write(
            number, of: .expiredNames, merging: runs, and: fresh, for: manifest, in: files)
    }

    /// The names and keys of blocks; what no block has, as names runs have it.
    private func filled(
        _ blocks: [NamesOfBlock], names: Range<UInt32>, keys: Range<UInt32>
    ) throws(StorageError) -> [NamesOfBlock] {
        var (nextName, nextKey) = (names.lowerBound, keys.lowerBound)
        var runs: [NamesRunReader<Files>]?
        var filled: [NamesOfBlock] = []
        func fill(_ endName: UInt32, _ endKey: UInt32) throws(StorageError) {
            if nextName >= endName && nextKey >= endKey { return }
            if runs == nil { runs = try readableNames() }
            let known = runs ?? []
            for ordinal in nextName..<max(nextName, endName) {
                var found: [UInt8]?
                for run in known where found == nil {
                    found = try run.name(NameOrdinal(rawValue: ordinal))
                }
                guard let found else { continue }
                filled.append(
                    NamesOfBlock(
                        firstName: NameOrdinal(rawValue: ordinal), names: NewNames(found),
                        firstKey: KeyOrdinal(rawValue: nextKey), keys: []))
            }
            for ordinal in nextKey..<max(nextKey, endKey) {
                var found: RewardKey?
                for run in known where found == nil {
                    found = try run.key(KeyOrdinal(rawValue: ordinal))
                }
                guard let found else { continue }
                filled.append(
                    NamesOfBlock(
                        firstName: NameOrdinal(rawValue: max(nextName, endName)), names: NewNames(),
                        firstKey: KeyOrdinal(rawValue: ordinal), keys: [found]))
            }
        }
        for block in blocks {
            try fill(block.firstName.rawValue, block.firstKey.rawValue)
            filled.append(block)
            nextName = max(nextName, block.firstName.rawValue + UInt32(block.names.count))
            nextKey = max(nextKey, block.firstKey.rawValue + UInt32(block.keys.count))
        }
        try fill(names.upperBound, keys.upperBound)
        return filled
    }

    private func readableNames() throws(StorageError) -> [NamesRunReader<Files>] {
        var runs: [NamesRunReader<Files>] = []
        for entry in manifest.namesRuns {
            let run = try StorageError.readable { () throws(StorageError) in
                try NamesRunReader(entry, directory: manifest.directory, in: files)
            }
            if let run { runs.append(run) }
        }
        return runs
    }

    // MARK: Segments

    private mutating func take(_ segment: SealedSegment) throws(StorageError) {
        do {
            let reader = try SegmentReader(
                segment.number, directory: manifest.directory, in: files)
            let footer = try reader.readFooter(of: segment)
            let table = try RunReader.openFooter(
                of: segment, directory: manifest.directory, in: files
            ).rewardDays
            // So that no page is found bad while the run is written.
            let page = CounterPage()
            var cursor = table.makeCursor()
            while try cursor.nextPage(into: page) {}
            let found = try reader.readNames(by: footer, mayMiss: true)
            try add(footer, reader.anchor(behind: footer))
            rows.append(table)
            names += found
        } catch {
            switch error {
            case .notFound: unreadable.append((segment.number, isThere: false))
            case .corrupt: unreadable.append((segment.number, isThere: true))
            default: throw error
            }
        }
    }

    private mutating func add(
        _ footer: SegmentFooter, _ next: LogAnchor
    ) throws(StorageError) {
        let one = ExpiredSegments(
            footer, from: firstSegment, nextCommitEpoch: next.commitEpoch)
        guard let joined = sums.map({ $0.joined(with: one) }) ?? one else {
            throw .corrupt(
                path: "\(files.path)/\(FileName.segment(footer.segment).text)", offset: 0,
                detail: "footer does not go on from the one before")
        }
        sums = joined
        footerCount += 1
        firstSegment = footer.segment.next
        damaged += unreadable.filter(\.isThere).map(\.number)
        unreadable = []
        add(footer.ledger)
    }
}

/// What came of an `ExpiredMerge`.
package struct ExpiredOutput: Sendable {
    package let entry: ExpiredEntry
    /// Of the segments that were added.
    package let segments: ExpiredSegments
    /// Those of them that are there and damaged.
    package let damaged: [SegmentNumber]

    /// For the log.
    package var text: String {
        let span = segments.span
        let text =
            "\(segments.rowCount) rows expired with segments \(span.firstSegment.rawValue) to "
            + "\(span.lastSegment.rawValue), their counters stay"
        return segments.missingCount == 0
            ? text
            : text
                + "; \(segments.missingCount) of them could not be read, their counters are unverified"
    }
}
