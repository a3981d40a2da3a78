// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]
import IngestFormat

/// Names runs that follow each other, and the names behind them that are in no run yet → one names run. The stored
/// orders are merged, never sorted again.
///
/// **Cost** A page an input and kind, 4 bytes a name for the ranks, and a few hundred KiB to write; 300 to
/// 400 ns a name with its key, read back from the disk included.
package enum NamesRunWriter {
    /// Bytes that are put together before they are written.
    private static var writeByteCount: Int { 256 << 10 }

    /// Writes a run of all names and keys of `runs` and `fresh`.
    ///
    /// Its bytes are durable at return; its name is after the next `ManifestStore.publish`.
    /// - Parameters:
    ///   - runs: each goes on where the one before ends.
    ///   - fresh: sorted; goes on where the last run ends.
    ///   - manifest: the generation that the run is made for.
    ///   - isNamed: as in `DurableFile.write`.
    /// **Errors** `corrupt` with the path of a run that cannot be merged; those of writing.
    package static func write<Files: FileSystem>(
        _ number: FileNumber, merging runs: [NamesRunReader<Files>], and fresh: FreshNames,
        for manifest: Manifest, in files: Files, isNamed: Bool = true
    ) throws(StorageError) -> NamesRunEntry {
        for (run, next) in zip(runs, runs.dropFirst()) {
            precondition(run.names.upperBound == next.names.lowerBound)
            precondition(run.keys.upperBound == next.keys.lowerBound)
        }
        precondition(runs.last.map { $0.names.upperBound == fresh.firstName } ?? true)
        precondition(runs.last.map { $0.keys.upperBound == fresh.firstKey } ?? true)
        return try DurableFile.write(.run(.names, number), in: files, isNamed: isNamed) {
            (recorder) throws(StorageError) in
            let builder = NamesRunBuilder(
                fileNumber: number, directory: manifest.directory,
                names: (runs.first?.names.lowerBound ?? fresh.firstName)..<fresh.names.upperBound,
                keys: (runs.first?.keys.lowerBound ?? fresh.firstKey)..<fresh.keyRange.upperBound,
                generation: manifest.generation, createdAt: manifest.createdAt)
            var merge = Merge(runs: runs, fresh: fresh, builder: builder)
            try merge.writeNames(to: &recorder)
            try merge.writeKeys(to: &recorder)
            try merge.writePairs(.hashes, to: &recorder)
            try merge.writePairs(.rewards, to: &recorder)
            return try merge.finish(&recorder)
        }
    }

    /// One attempt; the input behind the last run is what is fresh.
    private struct Merge<Files: FileSystem> {
        let runs: [NamesRunReader<Files>]
        var fresh: FreshNames
        var builder: NamesRunBuilder
        var offset = UInt64(NamesRun.Header.byteCount)

        private var inputCount: Int { runs.count + 1 }

        init(runs: [NamesRunReader<Files>], fresh: FreshNames, builder: NamesRunBuilder) {
            self.runs = runs
            self.fresh = fresh
            self.builder = builder
        }

        mutating func writeNames(
            to recorder: inout WriteRecorder<Files.File>
        ) throws(StorageError) {
            let target = NameBatch()
            if runs.isEmpty {
                while fresh.nextNames(into: target) {
                    try append(target, to: recorder)
                    try write(to: &recorder)
                }
                return
            }
            let merge = NameMerge(inputCount: inputCount)
            var cursors = runs.map { $0.makeNameCursor() }
            var waiting = Array(0..<inputCount)
            while true {
                while let input = waiting.popLast() {
                    let batch = merge.batch(input)
                    let hasNames =
                        input < runs.count
                        ? try cursors[input].nextNames(into: batch) : fresh.nextNames(into: batch)
                    if hasNames { merge.enter(input) }
                }
                let step = merge.run(into: target)
                if case .usedUp(let input) = step {
                    waiting.append(input)
                    continue
                }
                try append(target, to: recorder)
                target.removeAll()
                try write(to: &recorder)
                if step == .isAtEnd { return }
            }
        }

        private mutating func append(
            _ names: NameBatch, to recorder: borrowing WriteRecorder<Files.File>
        ) throws(StorageError) {
            guard names.count > 0, !builder.appendNames(names) else { return }
            throw .corrupt(
                path: recorder.file.path, offset: 0,
                detail: "a name twice, or of another run, in the runs that were merged")
        }

        /// Keys follow each other as the runs do.
        mutating func writeKeys(
            to recorder: inout WriteRecorder<Files.File>
        ) throws(StorageError) {
            let target = PairBatch()
            if runs.isEmpty { return try writeFresh(.keys, target, to: &recorder) }
            let batch = PairBatch()
            for input in 0..<inputCount {
                var cursor = input < runs.count ? runs[input].makePairCursor(.keys) : nil
                while try cursor?.nextPairs(into: batch) ?? fresh.nextPairs(.keys, into: batch) {
                    for place in 0..<batch.count {
                        target.append(batch[place])
                        guard target.count == target.capacity else { continue }
                        builder.appendPairs(target)
                        target.removeAll()
                    }
                    try write(to: &recorder)
                }
            }
            if target.count > 0 { builder.appendPairs(target) }
        }

        mutating func writePairs(
            _ kind: NamesPageKind, to recorder: inout WriteRecorder<Files.File>
        ) throws(StorageError) {
            let target = PairBatch(capacity: kind.capacity)
            if runs.isEmpty { return try writeFresh(kind, target, to: &recorder) }
            let merge = PairMerge(inputCount: inputCount)
            var cursors = runs.map { $0.makePairCursor(kind) }
            var waiting = Array(0..<inputCount)
            while true {
                while let input = waiting.popLast() {
                    let batch = merge.batch(input)
                    let hasPairs =
                        input < runs.count
                        ? try cursors[input].nextPairs(into: batch)
                        : fresh.nextPairs(kind, into: batch)
                    if hasPairs { merge.enter(input) }
                }
                let step = merge.run(into: target)
                if case .usedUp(let input) = step {
                    waiting.append(input)
                    continue
                }
                if target.count > 0 { builder.appendPairs(target) }
                target.removeAll()
                try write(to: &recorder)
                if step == .isAtEnd { return }
            }
        }

        /// Pairs that nothing has to be merged with.
        private mutating func writeFresh(
            _ kind: NamesPageKind, _ target: PairBatch, to recorder: inout WriteRecorder<Files.File>
        ) throws(StorageError) {
            while fresh.nextPairs(kind, into: target) {
                builder.appendPairs(target)
                try write(to: &recorder)
            }
        }

        /// Writes what has been put together, once it is much.
        private mutating func write(
            to recorder: inout WriteRecorder<Files.File>, isLast: Bool = false
        ) throws(StorageError) {
            guard builder.waitingByteCount >= (isLast ? 1 : writeByteCount) else { return }
            let bytes = builder.takeBytes()
            try recorder.write(bytes, at: offset)
            offset += UInt64(bytes.count)
        }

        mutating func finish(
            _ recorder: inout WriteRecorder<Files.File>
        ) throws(StorageError) -> NamesRunEntry {
            try write(to: &recorder, isLast: true)
            let (header, index) = builder.finish()
            if !index.isEmpty { try recorder.write(index, at: offset) }
            try recorder.write(header.encode(), at: 0)
            return header.entry
        }
    }
}
