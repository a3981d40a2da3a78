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
    private(set) var report: VerifyReport
    /// Of the segments, which are opened when it is their turn.
    private let leases: SegmentLeases<Files>

    /// Segments that no list can be read of and that are looked for all the same.
    private static var unlistedCountMax: Int { 1 << 20 }

    /// **Errors** those of `SegmentLeases.newest`, where no older manifest can be believed either.
    init(_ files: Files) throws(StorageError) {
        do throws(StorageError) {
            self = try SegmentLeases.newest(of: files) {
                (manifest, leases, isLast) throws(StorageError) in
                let target = try Target(files, manifest, leases)
                // A file is missing: dropped by a newer generation, or lost.
                return target.report.corruptionCount == 0 || isLast ? target : nil
            }
        } catch {
            let store = ManifestStore(files: files)
            guard error.isOfData, let older = try Self.newestSound(store) else { throw error }
            var report = VerifyReport()
            report.add(error, "the newest manifest")
            report.add(
                .note, "checked by this manifest, for want of the newest",
                in: FileName.manifest(older.manifest.generation).text)
            let leases = SegmentLeases(in: files)
            leases.take(of: older.manifest)
            self = try Target(files, older.manifest, leases, badNewest: older.bad, report)
        }
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
            let found = try optional { () throws(StorageError) in try store.read(generation) }
            if let found { return (found, .manifest(generations[0])) }
        }
        return nil
    }

    private init(
        _ files: Files, _ manifest: Manifest, _ leases: SegmentLeases<Files>,
        badNewest: FileName? = nil, _ report: VerifyReport = VerifyReport()
    ) throws(StorageError) {
        (self.files, self.manifest, self.badNewest) = (files, manifest, badNewest)
        self.leases = leases
        self.report = report
        let directory = manifest.directory
        let mark = try DurableMarkFile.read(in: files, directory: directory)
        bound = max(mark ?? .start, manifest.cut)
        runs = try open(manifest.runs, \.fileName) { (entry) throws(StorageError) in
            try RunReader(entry, directory: directory, in: files)
        }.compactMap { $0 }
        expired = try open(manifest.expired, \.run.fileName) { (entry) throws(StorageError) in
            try RunReader(entry.run, directory: directory, in: files)
        }
        let names = try open(
            manifest.expired.map(\.names) + manifest.namesRuns, \.fileName
        ) { (entry) throws(StorageError) in
            try NamesRunReader(entry, directory: directory, in: files)
        }
        expiredNames = names.prefix(manifest.expired.count).compactMap { $0 }
        namesRuns = names.dropFirst(manifest.expired.count).compactMap { $0 }
        // Without one of the runs, the segments that it lists are checked by themselves.
        let opened = runs.filter { $0.header.table == .rewardDays }
        if opened.count == manifest.runs(of: .rewardDays).count, let last = opened.last {
            let whole = try open([last], \.header.entry.fileName) { (_) throws(StorageError) in
                try manifest.completed(by: opened)
            }
            self.manifest = whole.first.flatMap { $0 } ?? manifest
        }
    }

    /// A file for each entry of the manifest; `nil`, and a finding, for one that cannot be opened.
    private mutating func open<Entry, Reader>(
        _ entries: [Entry], _ name: (Entry) -> FileName,
        _ read: (Entry) throws(StorageError) -> Reader
    ) throws(StorageError) -> [Reader?] {
        var readers: [Reader?] = []
        for entry in entries {
            do { readers.append(try read(entry)) } catch {
                readers.append(nil)
                let file = name(entry).text
                if error.isOfData {
                    report.add(error, "run")
                } else if case .notFound = error {
                    report.add(
                        badNewest == nil ? .corruption : .note,
                        "run missing, and the manifest names the file", in: file)
                } else {
                    throw error
                }
            }
        }
        return readers
    }

    /// Names and keys as the log will introduce them, and where else they are known.
    func makeNames() -> LogNames {
        let (runs, files) = (expiredNames + namesRuns, files)
        var lookup = LogNames.Lookup()
        lookup.name = { ordinal in
            runs.lazy.compactMap { run in
                run.names.contains(ordinal.rawValue) ? try? run.name(ordinal) : nil
            }.first
        }
        lookup.key = { ordinal in
            runs.lazy.compactMap { run in
                run.keys.contains(ordinal.rawValue) ? try? run.key(ordinal) : nil
            }.first
        }
        lookup.nameInBlock = { segment, offset, ordinal in
            let (buffer, file) = (
                ReadBuffer(), try? files.open(FileName.segment(segment).text, .read)
            )
            guard let file else { return nil }
            var walk = BlockWalk(file, from: offset, place: .anywhere)
            guard case .block(let header)? = try? walk.next(into: buffer) else { return nil }
            let block = buffer.withBytes {
                try? BlockDecoder().decode($0, wanted: .dictionary, into: BlockRows())
            }
            let index = Int(ordinal) - Int(header.context.firstName.rawValue)
            guard let block, (0..<block.names.count).contains(index) else { return nil }
            return block.names.name(index)
        }
        var names = LogNames(
            lookup, nameCount: Int(manifest.shard.nextName), keyCount: Int(manifest.shard.nextKey))
        names.names.next = manifest.expired.last?.names.names.upperBound ?? 0
        names.keys.next = manifest.expired.last?.names.keys.upperBound ?? 0
        return names
    }

    // MARK: Segments

    /// All segments of the log, in order, those that must be there and are not included, and how large each is.
    func segments() throws(StorageError) -> [(segment: Segment, byteCount: UInt64)] {
        var sizes: [SegmentNumber: UInt64] = [:]
        for text in try files.names() {
            guard case .segment(let number)? = FileName(text) else { continue }
            do { sizes[number] = try files.open(text, .read).byteCount() } catch {
                if case .notFound = error { continue }
                // What is no file that can be read is found to be so when it is checked.
                guard error.isOfData else { throw error }
                sizes[number] = 0
            }
        }
        let sealed = Dictionary(
            manifest.sealed.map { ($0.number, $0) }, uniquingKeysWith: { first, _ in first })
        // What is not newer than the cut and not in the manifest is no part of the log.
        let isWhole = sealed.count == manifest.sealedCount
        let live = sizes.keys.filter {
            ($0 >= manifest.cut.segment || !isWhole) && $0 > manifest.lastExpired
                && sealed[$0] == nil
        }
        let lastWithBlock = try lastSegmentWithBlock(live)
        let lost = Dictionary(grouping: manifest.lost, by: \.segment)
        let needed = [bound, manifest.cut].filter { $0.segment > manifest.lastExpired }
        var numbers = Set(sealed.keys).union(live).union(needed.map(\.segment))
        if !isWhole && manifest.sealedCount <= Self.unlistedCountMax {
            for number in manifest.lastExpired.rawValue..<manifest.lastSealed.rawValue {
                numbers.insert(SegmentNumber(rawValue: number).next)
            }
        }
        return numbers.sorted().map { number in
            let known = needed.filter { $0.segment == number }.map(\.blockCount)
            let segment = Segment(
                number: number, entry: sealed[number], lost: lost[number] ?? [],
                durableBlockCount: sealed[number]?.blockCount ?? known.max() ?? 0,
                isFollowed: lastWithBlock.map { number < $0 } ?? false)
            return (segment, sizes[number] ?? 0)
        }
    }

    /// Where the boundary of what has expired is now, if it is behind a segment: a lease ends after an hour, and earlier
    /// where the disk is full.
    func expired(since number: SegmentNumber) throws(StorageError) -> SegmentNumber? {
        let newest = try Self.optional { () throws(StorageError) in
            try ManifestStore(files: files).readNewest(isWhole: false).lastExpired
        }
        return newest.flatMap { $0 >= number ? $0 : nil }
    }

    private func lastSegmentWithBlock(
        _ live: [SegmentNumber]
    ) throws(StorageError) -> SegmentNumber? {
        let buffer = ReadBuffer()
        for number in live.sorted(by: >) {
            let hasBlock = try Self.optional { () throws(StorageError) in
                var walk = try SegmentReader(number, directory: manifest.directory, in: files)
                    .makeWalk()
                if case .block = try walk.next(into: buffer) { return true }
                return false
            }
            if hasBlock == true { return number }
        }
        return manifest.lastSealed == LogPosition.start.segment ? nil : manifest.lastSealed
    }

    /// The value; `nil` where its file is missing, or its bytes are to blame.
    static func optional<Value>(
        _ body: () throws(StorageError) -> Value
    ) throws(StorageError) -> Value? {
        do { return try body() } catch {
            if case .notFound = error { return nil }
            guard error.isOfData else { throw error }
            return nil
        }
    }
}
