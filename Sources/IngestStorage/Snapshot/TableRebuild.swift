// packet → decode → ring → admit → block → [segment] → [compaction] → snapshot → query
import IngestCounting
import IngestFormat

/// Makes the counter tables again, from the footers of all segments and what is left of expired ones, as one run of
/// each table: what a start does that misses one or cannot read it, and `ingest-reader rebuild`. For the same
/// directory it writes the same bytes.
///
/// Order: runs of 64 segments each, where there are more; a run of each table; a manifest that names these three alone.
/// A crash before that leaves files with numbers still to be given, which a start removes.
///
/// **Cost** That of `TableMerge`, once or twice; 8 bytes a key.
package struct TableRebuild<Files: FileSystem> {
    private let store: ManifestStore<Files>
    private var next: Manifest
    /// Files that are merged again.
    private var scratch: [RunEntry] = []

    /// Publishes the next generation, with tables that were made again.
    ///
    /// **Errors** `corrupt`, `notFound` for a footer, an expired one or a names run that cannot be read: then the
    /// tables that are there are all that there is. Those of writing.
    package static func run(
        _ store: ManifestStore<Files>, after manifest: Manifest
    ) throws(StorageError) -> Manifest {
        var rebuild = TableRebuild(store, manifest)
        defer { rebuild.removeFiles(rebuild.scratch) }
        try rebuild.makeTables()
        do throws(StorageError) { try store.publish(rebuild.next) } catch {
            rebuild.removeFiles(rebuild.next.runs)
            throw error
        }
        return rebuild.next
    }

    private init(_ store: ManifestStore<Files>, _ manifest: Manifest) {
        self.store = store
        next = manifest
        next.generation = manifest.generation.next
        next.runs = []
    }

    private mutating func makeTables() throws(StorageError) {
        if next.cut == .start { return }
        var whole = newMerge()
        try addExpired(to: &whole)
        var first = 0
        while next.sealed.count - first > Limits.level0MergeCountMax {
            let segments = next.sealed[first..<first + Limits.level0MergeCountMax]
            first = segments.endIndex
            var part = newMerge()
            for segment in segments { try part.add(segment) }
            let runs = try write(part, of: segments, makesRewards: false)
            scratch += runs
            try whole.add(runs)
        }
        for segment in next.sealed[first...] { try whole.add(segment) }
        next.runs = try write(whole, of: next.sealed[...])
    }

    private func newMerge() -> TableMerge<Files> { TableMerge(for: next, in: store.files) }

    /// - Parameter segments: whose counters the runs have; with all of them, those of expired ones too.
    private mutating func write(
        _ merge: TableMerge<Files>, of segments: ArraySlice<SealedSegment>,
        makesRewards: Bool = true
    ) throws(StorageError) -> [RunEntry] {
        let first = makesRewards ? nil : segments.first?.number
        let last = makesRewards ? nil : segments.last
        let span = LogSpan(
            firstSegment: first ?? LogPosition.start.segment.next,
            end: last.map { LogPosition(segment: $0.number, blockCount: $0.blockCount) } ?? next.cut
        )
        return try merge.run(
            of: span, firstNumber: takeNumbers(TableKind.counterTables.count),
            makesRewards: makesRewards) ?? []
    }

    /// Adds what is left of expired segments: reward-days as they lie, and days made of them.
    private mutating func addExpired(to merge: inout TableMerge<Files>) throws(StorageError) {
        guard let last = next.expired.last else { return }
        let sums = DaySums(keys: try store.readKeys(of: next))
        for entry in next.expired {
            let reader = try ExpiredFooterReader(
                entry, directory: next.directory, in: store.files)
            merge.add(rewardDays: reader.counters)
            var rows = DaySumming(reader.counters.makeCursor(), into: sums)
            do { try rows.drain() } catch {
                if case .source(let error) = error { throw error }
                throw .corrupt(
                    path: "\(store.files.path)/\(entry.fileName.text)", offset: 0,
                    detail: "counters that cannot be: \(error)")
            }
        }
        let span = LogSpan(firstSegment: LogPosition.start.segment.next, end: last.span.end)
        let run: RunEntry
        do {
            run = try RunWriter.write(
                .days, number: takeNumbers(1), of: span, for: next, in: store.files
            ) { sums.makeCursor() }
        } catch {
            switch error {
            case .storage(let error): throw error
            }
        }
        scratch.append(run)
        merge.add(days: try RunReader(run, directory: next.directory, in: store.files))
    }

    private mutating func takeNumbers(_ count: Int) -> FileNumber {
        defer { next.nextFileNumber = next.nextFileNumber.advanced(by: count) }
        return next.nextFileNumber
    }

    private func removeFiles(_ runs: [RunEntry]) {
        for run in runs { try? store.unlink(run.fileName) }
    }
}
