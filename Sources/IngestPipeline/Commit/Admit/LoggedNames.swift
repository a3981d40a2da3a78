// packet → decode → ring → [admit] → block → segment → compaction → snapshot → query
import IngestFormat
import IngestStorage

/// Fills the dictionary at start: from the names runs, then from the segments that recovery has sealed.
/// An ordinal whose name was lost with its block stays reserved and finds nothing.
///
/// **Cost** The runs are read page by page (50 ns a name; a key is two look-ups and two hashes), and the lines of a
/// page's names, of the rewards of its keys and of its pairs are fetched together. 8 bytes a name beside the
/// dictionary, until it is taken.
struct LoadedNames: ~Copyable {
    private let hash: KeyedHash
    private var dictionary: NameDictionary
    /// By ordinal: where a key's reward is found. 0 for names that were lost.
    private var hashes: [UInt64] = []
    /// The names of every key, by ordinal; (none, none) for one that was lost.
    private(set) var keys: [RewardKey] = []
    private var isFull = false

    private static var lostKey: RewardKey { RewardKey(reward: .none, business: .none) }

    /// - Parameter hash: the directory's.
    /// **Errors** as `NamesRunReader`; `overLimit` for more names than `Limits` allow.
    init<Files: FileSystem>(
        hash: KeyedHash, of directory: DataDirectory<Files>
    ) throws(PipelineError) {
        let manifest = directory.manifest
        self.hash = hash
        dictionary = NameDictionary(
            expectedNameCount: Int(manifest.shard.nextName),
            expectedKeyCount: Int(manifest.shard.nextKey))
        hashes.reserveCapacity(Int(manifest.shard.nextName))
        keys.reserveCapacity(Int(manifest.shard.nextKey))
        for entry in manifest.namesRuns {
            do {
                let run = try NamesRunReader(
                    entry, directory: manifest.directory, in: directory.store.files)
                try loadNames(of: run)
                try loadKeys(of: run)
            } catch {
                throw .storage(error)
            }
            if isFull {
                throw .storage(
                    .overLimit(path: entry.fileName.text, detail: "more names than fit in memory"))
            }
        }
    }

    private mutating func loadNames<Files: FileSystem>(
        of run: NamesRunReader<Files>
    ) throws(StorageError) {
        let missing = Int(run.names.upperBound) - hashes.count
        if missing > 0 { hashes.append(contentsOf: repeatElement(0, count: missing)) }
        var cursor = run.makeNameCursor()
        let batch = NameBatch()
        while try cursor.nextNames(into: batch) {
            for place in 0..<batch.count {
                // SAFETY: the batch does not change while its names are read.
                let name = unsafe batch.pointer(place)
                guard unsafe !name.isEmpty else { continue }
                let hash = unsafe hash.name(name)
                hashes[Int(batch.ordinal(place).rawValue)] = hash
                dictionary.prefetch(hash: hash)
            }
            for place in 0..<batch.count {
                let name = unsafe batch.pointer(place)
                unsafe restore(batch.ordinal(place), name)
            }
        }
    }

    private mutating func loadKeys<Files: FileSystem>(
        of run: NamesRunReader<Files>
    ) throws(StorageError) {
        let missing = Int(run.keys.lowerBound) - keys.count
        if missing > 0 { keys.append(contentsOf: repeatElement(Self.lostKey, count: missing)) }
        let step = NamesPageKind.keys.capacity
        var pairs: [(KeyOrdinal, PairHash)] = []
        for first in stride(from: keys.count, to: Int(run.keys.upperBound), by: step) {
            let end = min(first + step, Int(run.keys.upperBound))
            try run.readKeys(UInt32(first)..<UInt32(end), to: &keys)
            for place in first..<end {
                dictionary.prefetch(hash: nameHash(keys[place].reward))
            }
            for place in first..<end {
                dictionary.prefetchRecord(hash: nameHash(keys[place].reward))
            }
            for place in first..<end {
                guard let pair = takePair(of: keys[place]) else { continue }
                dictionary.prefetch(pair)
                pairs.append((KeyOrdinal(rawValue: UInt32(place)), pair))
            }
            for (key, pair) in pairs { restore(key, pair) }
            pairs.removeAll(keepingCapacity: true)
        }
    }

    /// Adds those of blocks that the names runs do not have.
    mutating func add(_ blocks: [NamesOfBlock]) {
        for block in blocks {
            for index in 0..<block.names.count {
                let ordinal = NameOrdinal(rawValue: block.firstName.rawValue + UInt32(index))
                add(ordinal, block.names.name(index))
            }
            for (index, key) in block.keys.enumerated() {
                let ordinal = Int(block.firstKey.rawValue) + index
                if ordinal < keys.count { continue }
                while keys.count < ordinal { keys.append(Self.lostKey) }
                keys.append(key)
                guard let pair = takePair(of: key) else { continue }
                restore(KeyOrdinal(rawValue: UInt32(ordinal)), pair)
            }
        }
    }

    mutating func reserve(upTo next: LogAnchor) {
        dictionary.reserve(nextName: next.nextName, nextKey: next.nextKey)
    }

    consuming func takeDictionary() -> NameDictionary { dictionary }

    private mutating func add(_ ordinal: NameOrdinal, _ name: [UInt8]) {
        while hashes.count <= Int(ordinal.rawValue) { hashes.append(0) }
        hashes[Int(ordinal.rawValue)] = hash.name(name)
        // SAFETY: the bytes are used inside the closure only.
        unsafe name.withUnsafeBytes { unsafe restore(ordinal, $0) }
    }

    /// - Parameter name: its hash is in `hashes`; none if it was lost.
    private mutating func restore(_ ordinal: NameOrdinal, _ name: UnsafeRawBufferPointer) {
        guard unsafe !name.isEmpty else { return }
        // SAFETY: the name has as many bytes as it says.
        let slot = unsafe dictionary.restore(
            ordinal, hash: hashes[Int(ordinal.rawValue)], name)
        if slot == nil { isFull = true }
    }

    /// The hash of a key's names; the key is counted for its business, which owns the reward if it is the first. `nil` where a
    /// name was lost: such a key is never asked for, who sends that name again gets a new ordinal.
    private mutating func takePair(of key: RewardKey) -> PairHash? {
        guard key.reward != .none,
            let reward = dictionary.slot(of: key.reward, hash: nameHash(key.reward)),
            let business = dictionary.slot(of: key.business, hash: nameHash(key.business))
        else { return nil }
        // SAFETY: the dictionary's records stay where they are.
        let bytes = unsafe dictionary.bytes(of: reward)
        if unsafe !OtherRewards.isName(bytes) { dictionary.addKey(of: business) }
        dictionary.noteOwner(of: reward, business)
        return unsafe hash.pair(reward: bytes, business: dictionary.bytes(of: business))
    }

    private mutating func restore(_ key: KeyOrdinal, _ pair: PairHash) {
        if !dictionary.restoreKey(key, pair, of: keys[Int(key.rawValue)]) { isFull = true }
    }

    private func nameHash(_ name: NameOrdinal) -> UInt64 {
        name.rawValue < hashes.count ? hashes[Int(name.rawValue)] : 0
    }
}

/// Decodes blocks of sealed segments for a start: one after the other in their order, with those behind it where they are
/// small. Used by one thread at a time.
final class LoggedBlocks<Files: FileSystem>: @unchecked Sendable {
    private let directory: DirectoryID
    private let decoder = BlockDecoder()
    private let buffer = ReadBuffer(capacity: windowByteCount)
    /// What of which file is in the buffer: bytes from here on, several blocks if they are small.
    private var path = ""
    private var windowStart: UInt64 = 0
    /// Of the block that was decoded last.
    let rows = BlockRows()

    private static var windowByteCount: Int { 1 << 20 }

    init(directory: DirectoryID) { self.directory = directory }

    /// Decodes parts of a block into `rows`, each row under the key that its event was judged by.
    /// - Returns: the other parts; `nil` if it is not whole.
    func decode(
        _ block: BlockIndexEntry, of segment: SealedBlocks<Files>, wanted: BlockSections
    ) throws(StorageError) -> DecodedBlock? {
        guard let file = segment.file else { return nil }
        if file.path != path || block.offset < windowStart
            || block.end > windowStart + UInt64(buffer.byteCount)
        {
            try read(
                file, at: block.offset,
                byteCount: max(Self.windowByteCount, block.summary.byteCount))
        }
        let first = Int(block.offset - windowStart)
        guard first + block.summary.byteCount <= buffer.byteCount else { return nil }
        let place = BlockPlace(directory: directory, blockOrdinal: block.ordinal)
        return buffer.withBytes { bytes in
            let decoded = try? decoder.decode(
                bytes.extracting(first..<first + block.summary.byteCount), at: place,
                wanted: wanted.union(.rewardHash), into: rows)
            guard decoded?.header.summary == block.summary else { return nil }
            tellOthersApart()
            return decoded
        }
    }

    private func tellOthersApart() {
        if rows.rewardHashCount == 0 { return }
        var place = 0
        for row in 0..<rows.rowCount {
            // SAFETY: the decoder has filled `rowCount` rows, and a hash for each whose attributes say so.
            guard unsafe RowAttributes(rawValue: rows.attributes[row]).isOverflow else { continue }
            let key = unsafe KeyOrdinal(rawValue: rows.key[row])
            unsafe rows.key[row] =
                OtherRewards.judgedKey(rows.rewardHash[place], of: key).rawValue
            place += 1
        }
    }

    /// The header of a block alone; `nil` if it cannot be read.
    func header(
        _ block: BlockIndexEntry, of segment: SealedBlocks<Files>
    ) throws(StorageError) -> BlockHeader? {
        guard let file = segment.file else { return nil }
        let bytes = try StorageError.readable { () throws(StorageError) in
            try file.readArray(at: block.offset, byteCount: BlockDecoder.headerByteCountMax)
        }
        guard let bytes else { return nil }
        // SAFETY: bytes of an array are initialised; the span ends with the call.
        return unsafe try? decoder.header(bytes.span.bytes)
    }

    /// What is wrong with a block, or where it lies: of its own bytes, since those behind it were read too.
    func text(
        ofDamaged block: BlockIndexEntry, in segment: SealedBlocks<Files>
    ) throws(StorageError) -> String {
        let place = "block \(block.ordinal), \(segment.file?.path ?? "") at byte \(block.offset)"
        guard let file = segment.file else { return place }
        try read(file, at: block.offset, byteCount: block.summary.byteCount)
        return buffer.hole.map { "\($0)" } ?? place
    }

    private func read(
        _ file: Files.File, at offset: UInt64, byteCount: Int
    ) throws(StorageError) {
        path = ""
        try buffer.readAround(file, at: offset, byteCount: byteCount)
        (path, windowStart) = (file.path, offset)
    }
}

/// Enters the sessions of the newest rows of the log, as far back as a session can reach: 48 hours, which is the life of the
/// key of its pseudonym, or `Limits.sessionRowCountMax` rows.
///
/// A session that went on, or that begins less than a time-out behind, where rows were not read or are lost may have rows
/// among them: what it had counted is not known, and its impressions are shown as unchecked.
///
/// **Cost** Blocks with sessions: 10 ns a row and 100 ns a row with a session. Others: their headers, 1 µs each. The index of
/// each segment is read twice, so that one file is open at a time.
struct LoggedSessions<Files: FileSystem>: ~Copyable {
    private let now: Int64
    private let policy: SessionPolicy
    private let blocks: LoggedBlocks<Files>
    /// Whether there are rows before the next block that are lost.
    private var isPartUnknown = false

    private init(_ policy: SessionPolicy, _ directory: DirectoryID, now: Int64) {
        (self.policy, self.now) = (policy, now)
        blocks = LoggedBlocks(directory: directory)
    }

    /// **Errors** `io`, `newerFormat`. What is damaged is left out, as rows that were not read.
    static func load(
        into rule: inout SessionRule, _ policy: SessionPolicy, of manifest: Manifest, now: Int64,
        rowCountMax: Int = Limits.sessionRowCountMax, in files: Files
    ) throws(StorageError) {
        guard rule.isOn else { return }
        var loaded = LoggedSessions(policy, manifest.directory, now: now)
        rule.beginLoading(now: now)
        let reach = try loaded.reach(manifest, rowCountMax: rowCountMax, in: files)
        if let unread = reach.unread { rule.missRows(upTo: unread) }
        for (sealed, firstBlock) in reach.segments {
            // One file is open at a time.
            let segment = try SealedBlocks(sealed, directory: manifest.directory, in: files)
            for index in segment.entries.indices.dropFirst(firstBlock) {
                try loaded.enter(index, of: segment, into: &rule)
            }
            if segment.entries.last?.endOrdinal ?? 0 < segment.ordinalCount {
                loaded.isPartUnknown = true
            }
        }
        if loaded.isPartUnknown { rule.missRows(upTo: now) }
        rule.endLoading()
    }

    private var timeoutMicroseconds: Int64 { Int64(policy.timeoutSeconds) * 1_000_000 }

    /// The segments that are read, in their order, each from a block on; and the admission time of the row before them, if it
    /// matters.
    private mutating func reach(
        _ manifest: Manifest, rowCountMax: Int, in files: Files
    ) throws(StorageError) -> (
        segments: [(segment: SealedSegment, firstBlock: Int)], unread: Int64?
    ) {
        var unread: Int64?
        var found: [(segment: SealedSegment, firstBlock: Int)] = []
        var rowCount = 0
        for sealed in manifest.sealed.reversed() {
            // Nothing that is going on can be behind the newest row that ended all of it.
            let isOver =
                found.isEmpty && now &- sealed.lastCommitTime > timeoutMicroseconds
                && sealed.rowCount > 0
            if isOver { return ([], nil) }
            let segment = try SealedBlocks(sealed, directory: manifest.directory, in: files)
            var first = segment.entries.count
            while first > 0 {
                let block = segment.entries[first - 1].summary
                rowCount += block.rowCount
                // No key that is left is so old as 48 hours, and so no session that can be told.
                let isTooOld = now &- block.lastAdmissionTime > SessionKeys.lifeMicroseconds
                if isTooOld || rowCount > rowCountMax {
                    unread = min(block.lastAdmissionTime, now)
                    break
                }
                first -= 1
            }
            found.append((sealed, first))
            if first > 0 { return (found.reversed(), unread) }
        }
        isPartUnknown = manifest.lastExpired.rawValue > 0
        return (found.reversed(), nil)
    }

    private mutating func enter(
        _ index: Int, of segment: SealedBlocks<Files>, into rule: inout SessionRule
    ) throws(StorageError) {
        let block = segment.entries[index]
        let expected = index > 0 ? segment.entries[index - 1].endOrdinal : 0
        if isPartUnknown || block.ordinal != expected {
            rule.missRows(upTo: min(block.summary.admissionTime, now))
        }
        isPartUnknown = false
        guard block.summary.rowCount > 0 else { return }
        let last = min(block.summary.lastAdmissionTime, now)
        // Sessions of these cannot be told, or were not kept: there is no key of their time.
        if last < rule.keysSince { return rule.missRows(upTo: last) }
        let header = try blocks.header(block, of: segment)
        if let header, header.sessionCount == 0 { return }
        let wanted: BlockSections = [.attributes, .key, .timestamp, .session, .commits]
        guard let decoded = try blocks.decode(block, of: segment, wanted: wanted) else {
            return rule.missRows(upTo: last)
        }
        let rows = blocks.rows
        var place = 0
        decoded.commits.forEach { (commit, ownRows) in
            let time = min(decoded.commits.admissionTimes[commit], now)
            for row in ownRows {
                // SAFETY: the decoder has filled `rowCount` rows, and a pseudonym for each whose attributes say so.
                let attributes = unsafe RowAttributes(rawValue: rows.attributes[row])
                guard attributes.hasSession else { continue }
                unsafe rule.load(
                    rows.session[place], attributes, key: rows.key[row],
                    timestamp: rows.timestamp[row], admissionTime: time)
                place += 1
            }
        }
    }
}
