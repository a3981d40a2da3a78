// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query
import IngestFormat
import IngestStorage

/// What `verify` holds against the log: one generation with its files open, so that all of it stays readable
/// while a daemon goes on.
struct Target<Files: FileSystem> {
    struct Segment: Sendable {
        let number: SegmentNumber
        /// What the manifest says of it; `nil` if that does not call it sealed.
        let entry: SealedSegment?
        /// What the manifest says is lost of it.
        let lost: [LostRange]
        /// How many of its blocks were durable when `verify` began.
        let durableBlockCount: UInt32
        /// Whether the log goes on behind it, so that nothing in it can be unfinished.
        let isFollowed: Bool
        /// Whether the manifest's cut lies behind it.
        let isBeforeCut: Bool
        /// Whether some run covers all of it.
        let isCovered: Bool
        let byteCount: UInt64

        var mayBeAbsent: Bool { entry == nil && durableBlockCount == 0 && !isFollowed }
    }

    let files: Files
    private(set) var manifest: Manifest
    /// The newest manifest, where that cannot be believed: an older one stands in for it, and files that it names may have
    /// been dropped since.
    let badNewest: FileName?
    /// Everything before it was durable when `verify` began.
    let bound: LogPosition
    /// Those that could be opened.
    private(set) var runs: [RunReader<Files>] = []
    private(set) var namesRuns: [NamesRunReader<Files>] = []
    /// By place among those that the manifest lists; `nil` for one that could not be opened.
    private(set) var expired: [RunReader<Files>?] = []
    /// Of expired segments; those that could be opened.
    private(set) var expiredNames: [NamesRunReader<Files>] = []
    private(set) var report = VerifyReport()

    /// Segments that no list can be read of and that are looked for all the same.
    private static var unlistedCountMax: Int { 1 << 20 }
    /// Generations come by the second, and an attempt takes some milliseconds: as many mean something else.
    private static var attemptCount: Int { 1_000 }

    /// **Errors** those of `ManifestStore.readNewest`, where no older one can be believed either; `io` where new
    /// generations come all the time.
    init(_ files: Files) throws(StorageError) {
        let store = ManifestStore(files: files)
        var failed: Generation?
        for _ in 0..<Self.attemptCount {
            let manifest: Manifest
            do throws(StorageError) { manifest = try store.readNewest(isWhole: false) } catch {
                guard error.isOfData, let older = try Self.newestSound(store) else { throw error }
                self = try Target(files, older.manifest, badNewest: older.bad)
                report.insert(
                    Finding(error, file: older.bad.text, what: "the newest manifest"),
                    Finding(
                        .note, file: FileName.manifest(older.manifest.generation).text,
                        what: "checked by this manifest, for want of the newest"))
                return
            }
            let target = try Target(files, manifest)
            // A file is missing: dropped by a newer generation, or lost.
            if target.isComplete || failed == manifest.generation {
                self = target
                return
            }
            failed = manifest.generation
        }
        throw .io(
            path: files.path, call: "a new generation at every attempt to read one", errno: 11)
    }

    /// The newest manifest that can be believed, and the newest that there is; `nil` if none can be.
    private static func newestSound(
        _ store: ManifestStore<Files>
    ) throws(StorageError) -> (manifest: Manifest, bad: FileName)? {
        var generations: [Generation] = []
        for case .manifest(let generation)? in try store.files.names().map(FileName.init) {
            generations.append(generation)
        }
        generations.sort(by: >)
        for generation in generations.dropFirst() {
            do throws(StorageError) {
                return (try store.read(generation), .manifest(generations[0]))
            } catch {
                if case .notFound = error { continue }
                guard error.isOfData else { throw error }
            }
        }
        return nil
    }

    private var isComplete: Bool { report.corruptionCount == 0 }

    private init(
        _ files: Files, _ manifest: Manifest, badNewest: FileName? = nil
    ) throws(StorageError) {
        self.files = files
        self.manifest = manifest
        self.badNewest = badNewest
        let mark = try DurableMarkFile.read(in: files, directory: manifest.directory)
        bound = max(mark ?? .start, manifest.cut)
        for entry in manifest.runs {
            let run = try reporting(entry.fileName) { () throws(StorageError) in
                try RunReader(entry, directory: manifest.directory, in: files)
            }
            if let run { runs.append(run) }
        }
        for entry in manifest.expired {
            expired.append(
                try reporting(entry.run.fileName) { () throws(StorageError) in
                    try RunReader(entry.run, directory: manifest.directory, in: files)
                })
            let names = try reporting(entry.names.fileName) { () throws(StorageError) in
                try NamesRunReader(entry.names, directory: manifest.directory, in: files)
            }
            if let names { expiredNames.append(names) }
        }
        // Without one of the runs, the segments that it lists are checked by themselves.
        if runs.count == manifest.runs.count, let last = runs.last {
            let opened = runs
            let whole = try reporting(last.header.entry.fileName) { () throws(StorageError) in
                try manifest.completed(by: opened)
            }
            self.manifest = whole ?? manifest
        }
        for entry in manifest.namesRuns {
            let run = try reporting(entry.fileName) { () throws(StorageError) in
                try NamesRunReader(entry, directory: manifest.directory, in: files)
            }
            if let run { namesRuns.append(run) }
        }
    }

    /// The value, or `nil` after a finding.
    private mutating func reporting<Value>(
        _ name: FileName, _ what: String = "run", _ body: () throws(StorageError) -> Value
    ) throws(StorageError) -> Value? {
        do throws(StorageError) { return try body() } catch {
            switch error {
            case _ where error.isOfData:
                report.add(Finding(error, file: name.text, what: what))
            case .notFound:
                report.add(
                    Finding(
                        badNewest == nil ? .corruption : .note, file: name.text,
                        what: "\(what) missing, and the manifest names the file"))
            default: throw error
            }
            return nil
        }
    }

    /// What is known of names and keys beside what the log's blocks introduce.
    func names() throws(StorageError) -> LogNames.Elsewhere {
        var names = LogNames.Elsewhere()
        names.nextName = manifest.expired.last?.names.names.upperBound ?? 0
        names.nextKey = manifest.expired.last?.names.keys.upperBound ?? 0
        let (runs, files) = (expiredNames + namesRuns, files)
        names.name = { ordinal in
            runs.lazy.compactMap { run in
                run.names.contains(ordinal.rawValue) ? try? run.name(ordinal) : nil
            }.first
        }
        names.key = { ordinal in
            runs.lazy.compactMap { run in
                run.keys.contains(ordinal.rawValue) ? try? run.key(ordinal) : nil
            }.first
        }
        names.nameInBlock = { segment, offset, ordinal in
            guard let file = try? files.open(FileName.segment(segment).text, .read) else {
                return nil
            }
            let buffer = ReadBuffer()
            var walk = BlockWalk(file, from: offset, place: .anywhere)
            guard case .block? = try? walk.next(into: buffer) else { return nil }
            let block = buffer.withBytes {
                try? BlockDecoder().decode($0, wanted: .dictionary, into: BlockRows())
            }
            guard let block else { return nil }
            let index = Int(ordinal) - Int(block.header.context.firstName.rawValue)
            return (0..<block.names.count).contains(index) ? block.names.name(index) : nil
        }
        return names
    }

    // MARK: Segments

    /// All segments of the log, in order, those that must be there and are not included.
    /// - Parameter covered: up to here some run covers it.
    func segments(coveredUpTo covered: LogPosition) throws(StorageError) -> [Segment] {
        var sizes: [SegmentNumber: UInt64] = [:]
        for text in try files.names() {
            guard case .segment(let number)? = FileName(text) else { continue }
            sizes[number] = try size(of: text)
        }
        let sealed = Dictionary(
            manifest.sealed.map { ($0.number, $0) }, uniquingKeysWith: { first, _ in first })
        // What is not newer than the cut and not in the manifest is no part of the log.
        let sealedNumbers = Set(sealed.keys)
        let isWhole = sealedNumbers.count == manifest.sealedCount
        let live = sizes.keys.filter {
            ($0 >= manifest.cut.segment || !isWhole) && $0 > manifest.lastExpired
                && !sealedNumbers.contains($0)
        }
        let lastWithBlock = try lastSegmentWithBlock(live)
        let lost = Dictionary(grouping: manifest.lost, by: \.segment)
        var needed = [bound.segment, manifest.cut.segment].filter { $0 > manifest.lastExpired }
        if !isWhole && manifest.sealedCount <= Self.unlistedCountMax {
            needed += (manifest.lastExpired.rawValue..<manifest.lastSealed.rawValue).map {
                SegmentNumber(rawValue: $0).next
            }
        }
        return sealedNumbers.union(live).union(needed).sorted().map { number in
            let entry = sealed[number]
            return Segment(
                number: number, entry: entry, lost: lost[number] ?? [],
                durableBlockCount: entry?.blockCount ?? durableBlockCount(of: number),
                isFollowed: lastWithBlock.map { number < $0 } ?? false,
                isBeforeCut: entry != nil && number <= manifest.cut.segment,
                isCovered: number <= covered.segment, byteCount: sizes[number] ?? 0)
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
            // What is no file that can be read is found to be so when it is checked.
            if error.isOfData { return 0 }
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
