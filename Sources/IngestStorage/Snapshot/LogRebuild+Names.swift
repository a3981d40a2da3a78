// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestFormat

extension LogRebuild {
    /// Makes one names run, of the runs that can be read up to the first that cannot, of the blocks behind them, and of what
    /// pages that can be read have of names whose blocks are gone. What is nowhere is lost: its ordinals stay.
    mutating func makeNames() throws(StorageError) {
        var parts = try soundNames()
        let witnesses = try witnesses()
        var (blocks, byteCount): ([NamesOfBlock], Int) = ([], 0)
        for segment in next.sealed {
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
