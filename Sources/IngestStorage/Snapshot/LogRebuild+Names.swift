// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestFormat

extension LogRebuild {
    /// Makes one names run, of the runs that can be read up to the first that cannot, of the blocks behind them, and of what
    /// pages that can be read have of names whose blocks are gone. What is nowhere is lost: its ordinals stay.
    mutating func makeNames() throws(StorageError) {
        var parts = try soundNames()
        var start = (parts.last?.names.upperBound ?? 1, parts.last?.keys.upperBound ?? 0)
        let witnesses = try witnesses()
        var (blocks, byteCount): ([NamesOfBlock], Int) = ([], 0)
        for (place, segment) in next.sealed.enumerated() {
            let isLast = place == next.sealed.count - 1
            let found = try SealedBlocks(segment, directory: next.directory, in: store.files)
            let names = try found.readNames(of: segment.number, next.directory)
            blocks += names
            byteCount += names.reduce(0) { $0 + $1.names.byteCount }
            guard isLast || byteCount >= Limits.rollNameByteCount else { continue }
            let reach =
                blocks.last.map { ($0.nameRange.upperBound, $0.keyRange.upperBound) } ?? start
            let end = isLast ? (next.shard.nextName, next.shard.nextKey) : reach
            if end.0 > start.0 || end.1 > start.1 {
                let (names, keys) = (start.0..<max(start.0, end.0), start.1..<max(start.1, end.1))
                let known = try KnownNames(
                    names, keys, notIn: blocks, of: witnesses, directory: next.directory,
                    in: store.files)
                let fresh = FreshNames(
                    of: blocks, names: names, keys: keys, name: known.name, key: known.key)
                parts.append(try write([], fresh))
                scratch.append(parts[parts.count - 1].fileName)
                start = (fresh.names.upperBound, fresh.keyRange.upperBound)
            }
            (blocks, byteCount) = ([], 0)
        }
        if parts.count < 2 && parts.allSatisfy({ $0.table == .names }) {
            scratch.removeAll { name in parts.contains { $0.fileName == name } }
        } else {
            parts = [
                try write(
                    parts, FreshNames(of: [], names: start.0..<start.0, keys: start.1..<start.1))
            ]
        }
        made += parts.map(\.fileName)
        next.namesRuns = parts
    }

    /// The runs from the first on that can be read: they may have names of blocks that are lost. Where they have not
    /// all names of expired segments, what is left of those.
    private mutating func soundNames() throws(StorageError) -> [NamesRunEntry] {
        damagedNames = try store.damagedNames(of: next.namesRuns, next.directory)
        var parts = Array(next.namesRuns.prefix { !damagedNames.contains($0.fileName) })
        // Blocks that were given up may be there again, from a copy.
        for (place, entry) in parts.enumerated() {
            let run = try NamesRunReader(entry, directory: next.directory, in: store.files)
            if try run.lostNames().count + run.lostKeyCount() == 0 { continue }
            parts.removeSubrange(place...)
            break
        }
        guard let expired = next.expired.last?.names else { return parts }
        let isWhole =
            parts.last?.names.upperBound ?? 1 >= expired.names.upperBound
            && parts.last?.keys.upperBound ?? 0 >= expired.keys.upperBound
        return isWhole ? parts : next.expired.map(\.names)
    }

    /// The runs that may have names whose blocks are gone: those of the manifest, and others that are there, of a generation
    /// whose manifest is gone. An ordinal is never given twice, so that they cannot say different things.
    private func witnesses() throws(StorageError) -> [NamesRunEntry] {
        var runs = next.namesRuns
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
