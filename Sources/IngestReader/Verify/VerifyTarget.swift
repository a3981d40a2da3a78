// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query

import IngestFormat
import IngestStorage

/// What `verify` holds against the log: one generation with its files open, so that all of it stays readable
/// while a daemon goes on.
struct VerifyTarget<Files: FileSystem> {
    struct NamesFile {
        let entry: NamesRunEntry
        let contents: NamesRun
    }

    struct Segment: Sendable {
        let number: SegmentNumber
        /// What the manifest says of it; `nil` if that does not call it sealed.
        let entry: SealedSegment?
        /// How many of its blocks were durable when `verify` began.
        let durableBlockCount: UInt32
        /// Whether the log goes on behind it, so that nothing in it can be unfinished.
        let isFollowed: Bool
        /// Whether the manifest's cut lies behind it.
        let isBeforeCut: Bool
        /// The block counts at which a run or a cut ends; ascending.
        let stops: [UInt32]
        let byteCount: UInt64

        var mayBeAbsent: Bool { entry == nil && durableBlockCount == 0 && !isFollowed }
    }

    let files: Files
    let manifest: Manifest
    /// Everything before it was durable when `verify` began.
    let bound: LogPosition
    private(set) var runs: [RunReader<Files>] = []
    private(set) var namesRuns: [NamesFile] = []
    /// Tables of which a run could not be opened.
    private(set) var unreadableTables: Set<TableKind> = []
    private(set) var report = VerifyReport()

    private static var attemptCount: Int { 8 }

    /// **Errors** those of `ManifestStore.readNewest`.
    init(_ files: Files) throws(StorageError) {
        let store = ManifestStore(files: files)
        var attempt = 1
        while true {
            let manifest = try store.readNewest()
            let target = try VerifyTarget(files, manifest, store)
            if target.isComplete || attempt >= Self.attemptCount {
                self = target
                return
            }
            // A file is missing: dropped by a newer generation, or lost.
            attempt +=
                try store.readNewest().generation == manifest.generation
                ? Self.attemptCount : 1
        }
    }

    private var isComplete: Bool { report.corruptionCount == 0 }

    private init(
        _ files: Files, _ manifest: Manifest, _ store: ManifestStore<Files>
    ) throws(StorageError) {
        self.files = files
        self.manifest = manifest
        let mark = try DurableMarkFile.read(in: files, directory: manifest.directory)
        bound = max(mark ?? .start, manifest.cut)
        for entry in manifest.runs {
            let run = try reporting(entry.fileName) { () throws(StorageError) in
                try RunReader(entry, directory: manifest.directory, in: files)
            }
            if let run { runs.append(run) } else { unreadableTables.insert(entry.table) }
        }
        for entry in manifest.namesRuns {
            let contents = try reporting(entry.fileName) { () throws(StorageError) in
                try store.readNames(
                    entry, directory: manifest.directory, hash: KeyedHash(key: manifest.hashKey))
            }
            if let contents { namesRuns.append(NamesFile(entry: entry, contents: contents)) }
        }
    }

    /// The value, or `nil` after a finding.
    private mutating func reporting<Value>(
        _ name: FileName, _ body: () throws(StorageError) -> Value
    ) throws(StorageError) -> Value? {
        do throws(StorageError) { return try body() } catch {
            switch error {
            case _ where error.isOfData:
                report.add(Finding(error, file: name.text, what: "run"))
            case .notFound:
                report.add(
                    Finding(
                        .corruption, file: name.text,
                        what: "the run is missing, and the manifest names it"))
            default: throw error
            }
            return nil
        }
    }

    // MARK: Segments

    /// All segments of the log, in order, those that must be there and are not included.
    /// - Parameter ends: where a run or a cut ends.
    func segments(stoppingAt ends: Set<LogPosition>) throws(StorageError) -> [Segment] {
        var sizes: [SegmentNumber: UInt64] = [:]
        for text in try files.names() {
            guard case .segment(let number)? = FileName(text) else { continue }
            sizes[number] = try size(of: text)
        }
        let sealed = Dictionary(
            manifest.sealed.map { ($0.number, $0) }, uniquingKeysWith: { first, _ in first })
        // What is not newer than the cut and not in the manifest is no part of the log.
        let sealedNumbers = Set(sealed.keys)
        let live = sizes.keys.filter { $0 >= manifest.cut.segment && !sealedNumbers.contains($0) }
        let lastWithBlock = try lastSegmentWithBlock(live)
        var stops: [SegmentNumber: [UInt32]] = [:]
        for end in ends { stops[end.segment, default: []].append(end.blockCount) }
        let needed = [bound.segment, manifest.cut.segment].filter { $0.rawValue > 0 }
        return sealedNumbers.union(live).union(needed).sorted().map { number in
            let entry = sealed[number]
            return Segment(
                number: number, entry: entry,
                durableBlockCount: entry?.blockCount ?? durableBlockCount(of: number),
                isFollowed: lastWithBlock.map { number < $0 } ?? false,
                isBeforeCut: entry != nil && number <= manifest.cut.segment,
                stops: (stops[number] ?? []).sorted(), byteCount: sizes[number] ?? 0)
        }
    }

    /// Of a segment that the manifest does not call sealed.
    private func durableBlockCount(of number: SegmentNumber) -> UInt32 {
        let known = [bound, manifest.cut].filter { $0.segment == number }.map(\.blockCount)
        return known.max() ?? 0
    }

    private func size(of name: String) throws(StorageError) -> UInt64? {
        do throws(StorageError) { return try files.open(name, .read).byteCount() } catch {
            if case .notFound = error { return nil }
            throw error
        }
    }

    private func lastSegmentWithBlock(
        _ live: [SegmentNumber]
    ) throws(StorageError) -> SegmentNumber? {
        let buffer = ReadBuffer()
        for number in live.sorted(by: >) {
            do throws(StorageError) {
                let reader = try SegmentReader(number, directory: manifest.directory, in: files)
                var walk = reader.makeWalk()
                if case .block = try walk.next(into: buffer) { return number }
            } catch {
                if case .notFound = error { continue }
                guard error.isOfData else { throw error }
            }
        }
        return manifest.lastSealed == LogPosition.start.segment ? nil : manifest.lastSealed
    }
}
