// packet → decode → ring → admit → block → [segment] → compaction → [snapshot] → query

import IngestFormat
import IngestStorage

/// Describes the structure of one file of a data directory as text. It believes nothing that fails a
/// check, prints what it could read, and says what it cannot see.
package struct Inspector<Files: FileSystem> {
    let files: Files
    let name: String
    /// What the file's name says it is, where it is a name of ours.
    let meant: FileName?
    private let emit: (String) -> Void
    /// Whether everything that was read passed its checks.
    private(set) var isSound = true

    private static var magicByteCount: Int { 4 }

    package init(_ files: Files, name: String, emit: @escaping (String) -> Void) {
        self.files = files
        self.name = name
        meant = FileName(name)
        self.emit = emit
    }

    /// Prints the file.
    /// - Returns: whether all of it is sound.
    /// **Errors** `notFound`, `io`. Damage is no error: it is printed.
    package mutating func run() throws(ReaderError) -> Bool {
        do throws(StorageError) {
            try describe(try files.open(name, .read))
        } catch {
            guard error.exitCode == 65 else { throw ReaderError(error) }
            bad("\(error)")
        }
        return isSound
    }

    private mutating func describe(_ file: Files.File) throws(StorageError) {
        let byteCount = try file.byteCount()
        let head = try file.readArray(at: 0, byteCount: Self.magicByteCount)
        let magic = head.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        line("file", "\(name), \(byteCount) bytes")
        if meant == .reserve { return try describeReserve(file, byteCount: byteCount) }
        if meant == .leases && byteCount == 0 {
            return line("leases", "without contents: readers hold locks on it")
        }
        switch magic {
        case SegmentHeader.magic: try describeSegment(file, byteCount: byteCount)
        case RunHeader.magic: try describeRun(file)
        case NamesRun.Header.magic: try describeNames(file)
        case Manifest.magic: try describeManifest(file)
        case DurableMark.magic: try describeMark(file)
        case SessionKeys.magic: try describeSessionKeys(file)
        default:
            if name == FileName.lock.text {
                describeLock(try file.readArray(at: 0, byteCount: 256))
            } else {
                bad("not a file of ingestd: it begins with \(Self.hex(magic))")
            }
        }
    }

    // MARK: Lines

    func line(_ label: String, _ text: String) {
        let gap = String(repeating: " ", count: max(1, 11 - label.utf8.count))
        emit("\(label)\(gap)\(text)")
    }

    func indented(_ text: String) { emit("           \(text)") }

    mutating func bad(_ text: String) {
        isSound = false
        line("CORRUPT", text)
    }

    /// Decodes a part at `offset`; `nil` after a line that says what is wrong.
    mutating func decoding<Value>(
        _ what: String, at offset: UInt64, _ body: () throws(FormatError) -> Value
    ) -> Value? {
        do throws(FormatError) { return try body() } catch {
            bad("\(what) at offset \(offset): \(error)")
            return nil
        }
    }

    /// The fields of an image, by the table that encodes and decodes it too.
    static func text<Record>(_ image: [UInt8], _ layout: Layout<Record>) -> String {
        layout.values(in: image).map { name, value in
            if name.hasSuffix("checksum") || name == "directory" || name == "magic" {
                return "\(name) \(hex(value))"
            }
            let isTime = name.hasSuffix(" at") || name.hasSuffix("timestamp")
            return "\(name) \(isTime ? TimeText.utc(Int64(bitPattern: value)) : String(value))"
        }.joined(separator: ", ")
    }

    func list<Record>(_ label: String, _ entries: [Record], _ layout: Layout<Record>) {
        for entry in entries { line(label, Self.text(layout.image(of: entry), layout)) }
    }

    static func hex(_ value: some FixedWidthInteger) -> String { "0x" + String(value, radix: 16) }

    // MARK: Small files

    private mutating func describeMark(_ file: Files.File) throws(StorageError) {
        let mark = try record("durable mark", in: file, DurableMark.byteCount) {
            (bytes) throws(FormatError) in try DurableMark.decode(bytes)
        }
        guard let mark else { return }
        line("mark", "everything before \(mark.position.text) is durable")
        line("directory", Self.hex(mark.directory.rawValue))
        cannotSee("the log: it may be durable further than the mark says")
    }

    private mutating func describeReserve(
        _ file: Files.File, byteCount: UInt64
    ) throws(StorageError) {
        let end = try file.endOfContent(in: 0..<byteCount)
        if end > 0 { return bad("a reserve is zeros: byte \(end - 1) is none") }
        line("reserve", "room that the daemon keeps for a disk that is full")
    }

    /// The one record of a file, which ends there; `nil` after a line that says what is wrong.
    private mutating func record<Record>(
        _ what: String, in file: Files.File, _ byteCount: Int,
        _ decode: ([UInt8]) throws(FormatError) -> Record
    ) throws(StorageError) -> Record? {
        let bytes = try file.readArray(at: 0, byteCount: byteCount)
        let record = decoding(what, at: 0) { () throws(FormatError) in try decode(bytes) }
        if record != nil, try file.byteCount() > UInt64(byteCount) {
            bad("bytes behind the end, at offset \(byteCount)")
        }
        return record
    }

    /// Says of the keys when they were made, and not what they are.
    private mutating func describeSessionKeys(_ file: Files.File) throws(StorageError) {
        let keys = try record("session keys", in: file, SessionKeys.byteCount) {
            (bytes) throws(FormatError) in try SessionKeys.decode(bytes)
        }
        guard let keys else { return }
        line("directory", Self.hex(keys.directory.rawValue))
        for key in keys.keys where key.madeAt != 0 {
            line("key", "made at \(TimeText.utc(key.madeAt))")
        }
        for time in keys.destroyedAt where time != 0 {
            line("key", "destroyed at \(TimeText.utc(time))")
        }
    }

    private mutating func describeLock(_ bytes: [UInt8]) {
        if !LockHolder.isWellFormed(bytes) {
            bad("neither empty nor what a daemon wrote")
        } else {
            let pid = String(decoding: bytes.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self)
            line("lock", bytes.isEmpty ? "never held" : "last held by process \(pid)")
        }
        cannotSee("whether it is held: the kernel knows")
    }

    func cannotSee(_ what: String) { line("not seen", what) }
}

extension Inspector {
    // MARK: Runs of counters

    mutating func describeRun(_ file: Files.File) throws(StorageError) {
        let head = try file.readArray(at: 0, byteCount: RunHeader.byteCount)
        let header = decoding("header", at: 0) { [meant] () throws(FormatError) in
            guard case .run(let table, let number)? = meant else {
                return try RunHeader.decode(head)
            }
            return try RunHeader.decode(head, table: table, fileNumber: number)
        }
        guard let header else { return }
        line("header", "\(header.table.name) run \(header.fileNumber.rawValue)")
        indented(Self.text(header.encode(), RunHeader.layout))
        let run = try RunReader<Files>(header.entry, directory: nil, file)
        try describePages(run)
        switch header.table {
        case .expired:
            try describing("metadata") { (inspector) throws(StorageError) in
                inspector.describe(try run.readExpired())
            }
            cannotSee("the rows: they have expired, and this file is what attests them")
        case .rewardDays:
            try describing("metadata") { (inspector) throws(StorageError) in
                let segments = try run.readSegments()
                inspector.list("sealed", segments.entries, SealedSegment.layout)
                inspector.list("lost", segments.lost, LostRange.layout)
                inspector.describe(segments.attributions)
            }
        default: break
        }
        cannotSee("names: keys and businesses are ordinals, see the names runs")
    }

    private func describe(_ segments: ExpiredSegments) {
        list("expired", [segments], ExpiredSegments.layout)
        list("lost", segments.lost, LostRange.layout)
        list("unclean", segments.uncleanStops, UncleanStop.layout)
        let rangeCount = segments.ledger.reduce(0) { $0 + $1.sequences.count }
        line("ledger", "\(segments.ledger.count) senders, \(rangeCount) ranges of sequences")
        describe(segments.attributions)
    }

    private func describe(_ attributions: AttributionList) {
        line("attributions", "\(attributions.count) of keys, campaigns and sources")
    }

    /// Goes on after a part that is damaged.
    private mutating func describing(
        _ part: String, _ body: (inout Self) throws(StorageError) -> Void
    ) throws(StorageError) {
        do throws(StorageError) { try body(&self) } catch {
            guard error.exitCode == 65 else { throw error }
            bad("\(part): \(error)")
        }
    }

    private mutating func describePages(_ run: RunReader<Files>) throws(StorageError) {
        let page = CounterPage()
        let buffer = ReadBuffer()
        for (number, entry) in run.index.entries.enumerated() {
            let day =
                run.header.table.hasDay ? " on \(CivilDay(dayNumber: entry.firstDay))" : ""
            line(
                "page \(number)",
                "offset \(UInt64(RunHeader.byteCount) + UInt64(entry.offset)), \(entry.byteCount) bytes, "
                    + "\(entry.rowCount) rows from ordinal \(entry.firstKey)\(day)")
            try describing("page \(number)") { (_) throws(StorageError) in
                try run.read(page: number, into: page, buffer: buffer)
            }
        }
    }

    // MARK: Names runs

    mutating func describeNames(_ file: Files.File) throws(StorageError) {
        let bytes = try file.readArray(at: 0, byteCount: NamesRun.Header.byteCount)
        let header = decoding("header", at: 0) { [meant] () throws(FormatError) in
            guard case .run(let table, let number)? = meant else {
                return try NamesRun.Header.decode(bytes)
            }
            return try NamesRun.Header.decode(bytes, table: table, fileNumber: number)
        }
        guard let header else { return }
        line("header", "\(header.table.name) run \(header.fileNumber.rawValue)")
        indented(Self.text(header.encode(), NamesRun.Header.layout))
        try describing("names run") { (inspector) throws(StorageError) in
            let run = try NamesRunReader<Files>(file, header)
            let (lostNames, lostKeys) = (try run.lostNames().count, try run.lostKeys().count)
            try inspector.readOrders(of: run)
            inspector.line("lost", "\(lostNames) names and \(lostKeys) keys")
        }
        cannotSee("which names are rewards: one list holds those of every kind")
    }

    /// Checks every page; whether the orders are of the same names, `verify` knows.
    private func readOrders(of run: NamesRunReader<Files>) throws(StorageError) {
        let (names, pairs) = (NameBatch(), PairBatch())
        var cursor = run.makeNameCursor()
        while try cursor.nextNames(into: names) {}
        for kind in [NamesPageKind.ranks, .keys, .rewards] {
            var cursor = run.makePairCursor(kind)
            while try cursor.nextPairs(into: pairs) {}
        }
    }

    // MARK: Manifests

    mutating func describeManifest(_ file: Files.File) throws(StorageError) {
        let bytes = try file.readAll(byteCountMax: Limits.manifestByteCountMax)
        let manifest = decoding("manifest", at: 0) { [meant] () throws(FormatError) in
            guard case .manifest(let generation)? = meant else { return try Manifest.decode(bytes) }
            return try Manifest.decode(bytes, generation: generation)
        }
        guard let manifest else { return }
        line("manifest", "generation \(manifest.generation.rawValue)")
        indented("directory \(Self.hex(manifest.directory.rawValue))")
        indented(
            "made \(TimeText.utc(manifest.createdAt)), the directory "
                + TimeText.utc(manifest.directoryCreatedAt))
        // The key itself is not printed: with it, event ids could be tried against the log.
        indented(
            "event ids hashed by algorithm \(manifest.hashAlgorithm), next file number "
                + "\(manifest.nextFileNumber.rawValue)")
        let shard = manifest.shard
        line("cut", "runs cover everything before \(manifest.cut.text), shard \(shard.shard)")
        indented(
            "next name \(shard.nextName), next key \(shard.nextKey), commit epoch "
                + "\(shard.commitEpoch), last block's checksum \(Self.hex(shard.lastBlockChecksum))"
        )
        indented("\(shard.totals.rowCount) rows before the cut")
        describeEntries(manifest)
        cannotSee(
            "whether the files are there and what they should be: ingest-reader verify checks")
    }

    private func describeEntries(_ manifest: Manifest) {
        list("expired", manifest.expired.map(\.run), RunEntry.layout)
        list("expired", manifest.expired.map(\.names), NamesRunEntry.layout)
        list("sealed", manifest.sealed, SealedSegment.layout)
        list("run", manifest.runs, RunEntry.layout)
        list("names", manifest.namesRuns, NamesRunEntry.layout)
        list("lost", manifest.lost, LostRange.layout)
        list("unclean", manifest.uncleanStops, UncleanStop.layout)
    }
}
