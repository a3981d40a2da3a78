// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
import IngestFormat

/// Decides what becomes of the files that the newest generation does not name: those that may be all that has what is in
/// them are kept.
struct Leftovers<Files: FileSystem> {
    private let store: ManifestStore<Files>
    private let newest: Manifest
    private(set) var retired: [FileName] = []
    private(set) var movedAside: [String] = []
    /// Once something is moved there.
    private var aside: AsideDirectory<Files>?
    private var present: Set<FileName> = []
    /// Runs of counters of which each page was read: whether that was possible.
    private var isSound: [RunEntry: Bool] = [:]
    /// What the names runs of the newest generation have lost, once somebody has asked.
    private var knownLost: (names: [UInt32], keys: [UInt32])?

    init(store: ManifestStore<Files>, newest: Manifest) {
        self.store = store
        self.newest = newest
    }

    mutating func clear(_ names: [FileName]) throws(StorageError) {
        present = Set(names)
        let older = names.compactMap(\.generation).filter { $0 < newest.generation }
        var usedBefore: Set<FileName> = []
        for generation in older {
            guard let manifest = try readOlder(generation) else { continue }
            usedBefore.formUnion(manifest.fileNames)
        }
        let used = newest.fileNames
        let areListedNamesDamaged = try areNamesDamaged(where: names)
        for name in names where !used.contains(name) {
            switch name {
            case .temporary(.segment(let number)) where !present.contains(.segment(number)):
                try moveAside(name)
            // Copies of what the log still has: work that a crash cut off. Were they kept, every start on a
            // full disk would add to them.
            case .temporary: try store.unlink(name)
            // It may have the names of a damaged page: `remakingNames` reads it.
            case .run(let table, let number)
            where table.isNames && isUnpublished(number) && areListedNamesDamaged:
                break
            case .run:
                if try !isElsewhere(name) {
                    try moveAside(name)
                } else if usedBefore.contains(name) {
                    retired.append(name)
                } else {
                    // A reader that goes by an older manifest, which is gone, reads the newest instead.
                    try store.unlink(name)
                }
            // Its rows had expired, and the time to remove it had not come.
            case .segment(let number) where number <= newest.lastExpired: retired.append(name)
            // What is not sealed is the end of the log: sealed segments have no gaps.
            case .segment: break
            case .lock, .aside, .durableMark, .reserve, .leases, .sessionKeys, .manifest: break
            }
        }
    }

    /// An older manifest, for the files that it names; one that is out of date is removed, a bad one
    /// is put aside.
    private mutating func readOlder(_ generation: Generation) throws(StorageError) -> Manifest? {
        let name = FileName.manifest(generation)
        do {
            let manifest = try store.read(generation)
            let age = newest.generation.rawValue - generation.rawValue
            if age > ManifestStore<Files>.olderManifestCount { try store.unlink(name) }
            return manifest
        } catch {
            guard case .corrupt = error else { throw error }
            try moveAside(name)
            return nil
        }
    }

    /// Removes what starts that were killed while they made runs again have left: else each of many would add its own. Of runs
    /// that cannot be made again for certain one stays of those that are the same page for page. To be called before the next
    /// attempt.
    mutating func clearUnfinished() throws(StorageError) {
        var known: Set<[AnyHashable]> = []
        for name in try store.files.names().compactMap({ FileName($0) }) {
            switch name {
            case .temporary(.run): try store.unlink(name)
            case .run(let table, let number) where isUnpublished(number) && table.isDerived:
                if table != .names, try isInFooters(table, number) {
                    try store.unlink(name)
                    continue
                }
                let found = try StorageError.readable { () throws(StorageError) in
                    try contents(table, number)
                }
                // A run that cannot be read is compared with none.
                if let found, !known.insert(found).inserted { try store.unlink(name) }
            default: break
            }
        }
    }

    /// Runs from the next number on were never published, or are of generations whose manifests are gone.
    private func isUnpublished(_ number: FileNumber) -> Bool { number >= newest.nextFileNumber }

    /// The same for two runs whose pages are, of which each is read.
    private func contents(
        _ table: TableKind, _ number: FileNumber
    ) throws(StorageError) -> [AnyHashable] {
        if table.isNames {
            let entry = try store.namesEntry(number, of: table, newest.directory)
            let run = try NamesRunReader(entry, directory: newest.directory, in: store.files)
            try run.checkPages()
            return [run.names, run.keys, run.index]
        }
        let entry = try store.runHeader(number, of: table, newest.directory).entry
        let run = try RunReader(entry, directory: newest.directory, in: store.files)
        try run.checkPages()
        return [table, entry.span, run.index, try run.readAttributions()]
    }

    /// Whether names cannot all be read, where there are names runs that were never published.
    private func areNamesDamaged(where names: [FileName]) throws(StorageError) -> Bool {
        let isAny = names.contains { name in
            guard case .run(let table, let number) = name else { return false }
            return table.isNames && isUnpublished(number)
        }
        guard isAny else { return false }
        return try !store.damagedNames(
            of: newest.namesRuns, newest.directory, [.names, .keys]
        ).isEmpty
    }

    /// Whether all that is in a run that no manifest names is in the newest generation, or can be made again.
    private mutating func isElsewhere(_ name: FileName) throws(StorageError) -> Bool {
        guard case .run(let table, let number) = name else { return false }
        do {
            if table == .names, try mayHaveLost(number) { return false }
            // It was merged into one that is listed; after a rebuild, what that could not make again is in aside/.
            guard isUnpublished(number) else { return try store.isReplaced(name, by: newest) }
            if table.isNames {
                return try areInLog(store.namesEntry(number, of: table, newest.directory))
            }
            if table.isDerived, try isInRuns(table, number) { return true }
            return try isInFooters(table, number)
        } catch {
            switch error {
            case .corrupt, .notFound: return false
            default: throw error
            }
        }
    }

    /// Whether a names run may have names or keys that those of the newest generation have lost.
    private mutating func mayHaveLost(_ number: FileNumber) throws(StorageError) -> Bool {
        let entry = try store.namesEntry(number, of: .names, newest.directory)
        let run = try NamesRunReader(entry, directory: newest.directory, in: store.files)
        let (names, keys) = (Set(try run.lostNames()), Set(try run.lostKeys()))
        let lost = try lost()
        return lost.names.contains { run.names.contains($0) && !names.contains($0) }
            || lost.keys.contains { run.keys.contains($0) && !keys.contains($0) }
    }

    private mutating func lost() throws(StorageError) -> (names: [UInt32], keys: [UInt32]) {
        if let knownLost { return knownLost }
        let lost = try store.lost(of: newest)
        knownLost = lost
        return lost
    }

    /// Whether the counters of a run are in reward-days, of which the other tables can be made, and level 0 of the newest
    /// generation, of which each page is read.
    ///
    /// **Cost** Those runs, once.
    private mutating func isInRuns(
        _ table: TableKind, _ number: FileNumber
    ) throws(StorageError) -> Bool {
        let span = try store.runHeader(number, of: table, newest.directory).span
        if span.end > newest.cut { return false }
        if try mayHaveDaysOfLostKeys(table) { return false }
        for segment in newest.level0 where span.contains(segment.number) {
            try checkFooter(of: segment)
        }
        for run in newest.runs(of: .rewardDays) where run.span.overlaps(span) {
            if isSound[run] == nil {
                isSound[run] = try store.damagedRuns(of: [run], newest.directory).isEmpty
            }
            if isSound[run] == false { return false }
        }
        return true
    }

    /// Whether what is in a run can be made again of the footers of its segments, and of what is left of expired ones, of
    /// which each page is read.
    private mutating func isInFooters(
        _ table: TableKind, _ number: FileNumber
    ) throws(StorageError) -> Bool {
        let found = try StorageError.readable { () throws(StorageError) in
            let span = try store.runHeader(number, of: table, newest.directory).span
            if span.end > newest.cut { return false }
            let expired = newest.expired.map(\.run).filter { $0.span.overlaps(span) }
            // Runs of counters may be older than the loss.
            if table.isDerived {
                if newest.lost.contains(where: { span.contains($0.segment) }) { return false }
                if !expired.isEmpty, try mayHaveDaysOfLostKeys(table) { return false }
            }
            for entry in expired {
                let run = try RunReader(entry, directory: newest.directory, in: store.files)
                if table.isDerived, try run.readExpired().missingCount > 0 { return false }
                try run.checkPages()
            }
            for segment in newest.sealed where span.contains(segment.number) {
                try checkFooter(of: segment)
            }
            return true
        }
        return found ?? false
    }

    /// The days of a key whose business is lost cannot be made of its reward-days.
    private mutating func mayHaveDaysOfLostKeys(_ table: TableKind) throws(StorageError) -> Bool {
        guard table == .days else { return false }
        return try !lost().keys.isEmpty
    }

    private func checkFooter(of segment: SealedSegment) throws(StorageError) {
        _ = try SegmentReader(segment.number, directory: newest.directory, in: store.files)
            .readFooter(of: segment)
    }

    /// Whether names that the newest generation has not are in blocks behind the cut.
    private func areInLog(_ run: NamesRunEntry) throws(StorageError) -> Bool {
        var number = newest.firstUnsealed
        var (nextName, nextKey) = (newest.shard.nextName, newest.shard.nextKey)
        while nextName < run.names.upperBound || nextKey < run.keys.upperBound {
            let reader = try SegmentReader(number, directory: newest.directory, in: store.files)
            let footer = try SegmentFooterFile.read(
                reader.file, number: number, directory: newest.directory
            ).footer
            _ = try reader.readNames(by: footer)
            (nextName, nextKey) = (footer.names.upperBound, footer.keys.upperBound)
            number = number.next
        }
        return run.table == .names
            || newest.sealed.allSatisfy { present.contains(.segment($0.number)) }
    }

    private mutating func moveAside(_ name: FileName) throws(StorageError) {
        let aside: AsideDirectory<Files>
        if let known = self.aside { aside = known } else { aside = try .init(of: store.files) }
        self.aside = aside
        movedAside.append(try aside.take(name.text))
    }
}
