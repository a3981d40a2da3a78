// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestCounting
import IngestFormat

extension LogRebuild {
    mutating func makeTables(_ bad: Set<FileName>?) throws(StorageError) {
        guard let bad else {
            next.runs = []
            let first = LogPosition.start.segment.next
            if next.cut > .start {
                try makeRuns(of: LogSpan(firstSegment: first, end: next.cut))
            }
            return
        }
        for span in spans(of: bad) { try makeRuns(of: span) }
        for whole in next.runs(of: .rewardDays) {
            for (place, run) in next.runs.enumerated()
            where run.span == whole.span && bad.contains(run.fileName) {
                next.runs[place] = try makeRun(run, of: whole)
                made.append(next.runs[place].fileName)
            }
        }
    }

    /// What bad reward-days runs cover, each with the runs beside it on which an expired run lies as well: its rows cannot be
    /// told apart.
    private func spans(of bad: Set<FileName>) -> [LogSpan] {
        var groups: [(span: LogSpan, isBad: Bool)] = []
        for run in next.runs(of: .rewardDays) {
            let isBad = bad.contains(run.fileName)
            if let last = groups.last,
                next.expired.contains(where: {
                    $0.span.contains(last.span.lastSegment)
                        && $0.span.contains(run.span.firstSegment)
                })
            {
                let span = LogSpan(firstSegment: last.span.firstSegment, end: run.span.end)
                groups[groups.count - 1] = (span, last.isBad || isBad)
            } else {
                groups.append((run.span, isBad))
            }
        }
        return groups.filter(\.isBad).map(\.span)
    }

    /// Makes a run of reward-days: a reward is the sum of its days, a day that of its rewards.
    private mutating func makeRun(
        _ run: RunEntry, of whole: RunEntry
    ) throws(StorageError) -> RunEntry {
        let reader = try RunReader(whole, directory: next.directory, in: store.files)
        guard run.table == .days else {
            return try RunWriter.merge(
                run.table, takeNumbers(1), of: run.span, for: next, metadata: RunMetadata(),
                MergedRows([reader], for: run.table), in: store.files, isStopped: isStopped) ?? run
        }
        let keys = try store.readKeys(of: next)
        if keys.contains(where: { $0.business.rawValue == 0 }) {
            guard loss != .nothing else {
                throw .corrupt(path: reader.path, offset: 0, detail: "rows of lost keys")
            }
            isLossy = true
        }
        let sums = DaySums(keys: keys)
        try add(reader, to: sums)
        return try write(sums, of: run.span)
    }

    /// Makes runs of footers, and of what is left of expired segments.
    private mutating func makeRuns(of span: LogSpan) throws(StorageError) {
        isLossy = isLossy || loss != .nothing || !next.lost.isEmpty
        let places = next.sealed.indices.filter { span.contains(next.sealed[$0].number) }
        var left = (places.first ?? 0)..<(places.last ?? -1) + 1
        if loss == .blocks { try repair(left) }
        var whole = TableMerge(for: next, in: store.files)
        try addExpired(next.expired.filter { span.contains($0.span.firstSegment) }, to: &whole)
        while left.count > Limits.level0MergeCountMax {
            let segments = next.sealed[left.prefix(Limits.level0MergeCountMax)]
            left = left.dropFirst(Limits.level0MergeCountMax)
            var part = TableMerge(for: next, in: store.files)
            for segment in segments { try part.add(segment) }
            let end = segments[segments.endIndex - 1]
            let runs = try write(
                part, makesRewards: false,
                of: LogSpan(
                    firstSegment: segments[segments.startIndex].number,
                    end: LogPosition(segment: end.number, blockCount: end.blockCount)))
            scratch += runs.map(\.fileName)
            try whole.add(runs)
        }
        for segment in next.sealed[left] { try whole.add(segment) }
        let runs = try write(whole, of: span)
        made += runs.map(\.fileName)
        next.runs.removeAll { span.contains($0.span.firstSegment) }
        next.runs = (next.runs + runs).sorted {
            ($0.table.rawValue, $0.span.firstSegment) < ($1.table.rawValue, $1.span.firstSegment)
        }
    }

    private mutating func write(
        _ merge: TableMerge<Files>, makesRewards: Bool = true, of span: LogSpan
    ) throws(StorageError) -> [RunEntry] {
        try merge.run(
            of: span, firstNumber: takeNumbers(TableKind.counterTables.count),
            makesRewards: makesRewards, isStopped: isStopped) ?? []
    }

    /// Seals segments again whose footers cannot be read. A crash leaves the manifest that was there; what was sealed again is
    /// taken as it is by the next attempt.
    private mutating func repair(_ places: Range<Int>) throws(StorageError) {
        let names = Set(try store.files.names())
        for segment in next.sealed[places] {
            let name = FileName.segment(segment.number).text
            if !names.contains(name) { throw .notFound(path: "\(store.files.path)/\(name)") }
        }
        let repaired = try FooterRepair(
            files: store.files, range: places, manifest: next, now: next.createdAt, mayLose: true
        ).run { [store, next] () throws(StorageError) in try store.readKeys(of: next) }
        losses += RecoveryReport.messages(of: repaired.segments)
        next = repaired.manifest
    }

    /// Adds what is left of expired segments: reward-days as they lie, and days made of them.
    private mutating func addExpired(
        _ expired: [ExpiredEntry], to merge: inout TableMerge<Files>
    ) throws(StorageError) {
        guard let first = expired.first, let last = expired.last else { return }
        let keys = try store.readKeys(of: next)
        // The run that is replaced may have the days of keys whose business is lost.
        isLossy = isLossy || keys.contains { $0.business.rawValue == 0 }
        let sums = DaySums(keys: keys)
        for entry in expired {
            let run = try RunReader(entry.run, directory: next.directory, in: store.files)
            let count = try run.readExpired().missingCount
            guard count == 0 || loss != .nothing else {
                throw .corrupt(
                    path: run.path, offset: 0,
                    detail: "\(count) segments without a footer: their counters are in runs only")
            }
            missingCount += UInt64(count)
            merge.add(rewardDays: run)
            try add(run, to: sums)
        }
        let span = LogSpan(firstSegment: first.span.firstSegment, end: last.span.end)
        let run = try write(sums, of: span)
        scratch.append(run.fileName)
        merge.add(days: try RunReader(run, directory: next.directory, in: store.files))
    }

    private func add(_ run: RunReader<Files>, to sums: DaySums) throws(StorageError) {
        var rows = DaySumming(run.makeCursor(keys: CounterKeys.rewards), into: sums)
        do { try rows.drain() } catch {
            if case .source(let error) = error { throw error }
            throw .corrupt(
                path: run.path, offset: 0, detail: "counters that cannot be: \(error)")
        }
    }

    private mutating func write(
        _ sums: DaySums, of span: LogSpan
    ) throws(StorageError) -> RunEntry {
        do {
            return try RunWriter.write(
                .days, number: takeNumbers(1), of: span, for: next, in: store.files
            ) { sums.makeCursor() }
        } catch {
            switch error {
            case .storage(let error): throw error
            }
        }
    }
}

extension LogRebuild {
    /// Makes one names run, of the runs that can be read up to the first that cannot, of the blocks behind them, and of what
    /// pages that can be read have of names whose blocks are gone. What is nowhere is lost: its ordinals stay.
    mutating func makeNames() throws(StorageError) {
        var parts = try soundNames()
        let witnesses = try witnesses()
        var (blocks, byteCount): ([NamesOfBlock], Int) = ([], 0)
        for segment in next.sealed {
            if isStopped() { return }
            let found = try SealedBlocks(segment, directory: next.directory, in: store.files)
            let names = try found.readNames(of: segment.number, next.directory)
            blocks += names
            byteCount += names.reduce(0) { $0 + $1.names.byteCount }
            if byteCount >= Limits.rollNameByteCount, let last = blocks.last {
                try add(
                    blocks, upTo: (last.nameRange.upperBound, last.keyRange.upperBound), witnesses,
                    to: &parts)
                (blocks, byteCount) = ([], 0)
            }
        }
        try add(blocks, upTo: (next.shard.nextName, next.shard.nextKey), witnesses, to: &parts)
        if parts.count < 2 && parts.allSatisfy({ $0.table == .names }) {
            scratch.removeAll { name in parts.contains { $0.fileName == name } }
        } else {
            let end = parts.reach
            parts = [
                try write(
                    parts, FreshNames(of: [], names: end.0..<end.0, keys: end.1..<end.1))
            ]
        }
        made += parts.map(\.fileName)
        next.namesRuns = parts
    }

    /// Adds a run of what blocks have behind the parts so far, and of what is known of names whose blocks are gone.
    private mutating func add(
        _ blocks: [NamesOfBlock], upTo end: (UInt32, UInt32), _ witnesses: [NamesRunEntry],
        to parts: inout [NamesRunEntry]
    ) throws(StorageError) {
        let start = parts.reach
        guard end.0 > start.0 || end.1 > start.1 else { return }
        let (names, keys) = (start.0..<max(start.0, end.0), start.1..<max(start.1, end.1))
        let known = try KnownNames(
            names, keys, notIn: blocks, of: witnesses, directory: next.directory, in: store.files)
        let fresh = FreshNames(
            of: blocks, names: names, keys: keys, name: known.name, key: known.key)
        parts.append(try write([], fresh))
        scratch.append(parts[parts.count - 1].fileName)
    }

    /// The runs from the first on that can be read: they may have names of blocks that are lost. Where they have not
    /// all names of expired segments, what is left of those.
    private mutating func soundNames() throws(StorageError) -> [NamesRunEntry] {
        damagedNames = try store.damagedNames(of: next.namesRuns, next.directory)
        let parts = try wholePrefix(of: next.namesRuns, without: damagedNames)
        let expired = next.expired.map(\.names)
        let left = try wholePrefix(
            of: expired, without: store.damagedNames(of: expired, next.directory))
        let isWhole = parts.reach.name >= left.reach.name && parts.reach.key >= left.reach.key
        return isWhole ? parts : left
    }

    /// The runs up to the first of which a page cannot be read or something is lost: that may be elsewhere now, blocks that
    /// were given up in a copy that has come back.
    private func wholePrefix(
        of runs: [NamesRunEntry], without damaged: [FileName]
    ) throws(StorageError) -> [NamesRunEntry] {
        var whole: [NamesRunEntry] = []
        for entry in runs.prefix(while: { !damaged.contains($0.fileName) }) {
            let run = try NamesRunReader(entry, directory: next.directory, in: store.files)
            if try run.lostNames().count + run.lostKeys().count > 0 { break }
            whole.append(entry)
        }
        return whole
    }

    /// The runs that may have names whose blocks are gone: those of the manifest, of names and of what is left of
    /// expired segments, and others that are there, of a generation whose manifest is gone. An ordinal is never given twice,
    /// so that they cannot say different things.
    private func witnesses() throws(StorageError) -> [NamesRunEntry] {
        var runs = next.namesRuns + next.expired.map(\.names)
        for name in unlistedNames {
            guard case .run(let table, let number) = name else { continue }
            let entry = try StorageError.readable { () throws(StorageError) in
                try store.namesEntry(number, of: table, next.directory)
            }
            if let entry { runs.append(entry) }
        }
        return runs
    }

    private mutating func write(
        _ parts: [NamesRunEntry], _ fresh: FreshNames
    ) throws(StorageError) -> NamesRunEntry {
        var readers: [NamesRunReader<Files>] = []
        for part in parts {
            readers.append(
                try NamesRunReader(part, directory: next.directory, in: store.files))
        }
        return try NamesRunWriter.write(
            takeNumbers(1), merging: readers, and: fresh, for: next, in: store.files)
    }
}

extension [NamesRunEntry] {
    /// The ordinals behind runs that follow each other.
    fileprivate var reach: (name: UInt32, key: UInt32) {
        (last?.names.upperBound ?? 1, last?.keys.upperBound ?? 0)
    }
}
