// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query
import IngestFormat

/// What names runs have of names and keys whose blocks are gone, as far as their pages can be read.
///
/// **Cost** Nothing where blocks have all; else the pages of names and keys, each once, and 8 bytes for each ordinal.
struct KnownNames {
    /// By ordinal from the first on: where a name ends in `bytes`, and how long it is; 0 of one that is not known.
    private var places: [UInt64] = []
    private var bytes: [UInt8] = []
    private var keys: [RewardKey?] = []
    private let firstName: UInt32
    private let firstKey: UInt32

    /// - Parameters:
    ///   - names, keys: those that are looked for, but for those in `blocks`.
    ///   - runs: some may be damaged or missing.
    /// **Errors** Those of reading that are not of what is on the disk there.
    init<Files: FileSystem>(
        _ names: Range<UInt32>, _ keys: Range<UInt32>, notIn blocks: [NamesOfBlock],
        of runs: [NamesRunEntry], directory: DirectoryID, in files: Files
    ) throws(StorageError) {
        (firstName, firstKey) = (names.lowerBound, keys.lowerBound)
        let ofBlocks = (
            blocks.reduce(0) { $0 + names.clamped(to: $1.nameRange).count },
            blocks.reduce(0) { $0 + keys.clamped(to: $1.keyRange).count }
        )
        let isMissing = (names: ofBlocks.0 < names.count, keys: ofBlocks.1 < keys.count)
        if isMissing.names { places = [UInt64](repeating: 0, count: names.count) }
        if isMissing.keys { self.keys = [RewardKey?](repeating: nil, count: keys.count) }
        for entry in runs where isMissing.names || isMissing.keys {
            let run = try StorageError.readable { () throws(StorageError) in
                try NamesRunReader(entry, directory: directory, in: files)
            }
            guard let run else { continue }
            if isMissing.names && run.names.overlaps(names) {
                try run.readNames { ordinal, name in
                    if names.contains(ordinal.rawValue) { enter(ordinal.rawValue, name) }
                }
            }
            if isMissing.keys && run.keys.overlaps(keys) {
                try run.readKeys { ordinal, key in
                    guard keys.contains(ordinal.rawValue) else { return }
                    let place = Int(ordinal.rawValue - firstKey)
                    self.keys[place] = self.keys[place] ?? key
                }
            }
        }
    }

    /// The first run that has a name says what it is, as of keys: others say the same.
    private mutating func enter(_ ordinal: UInt32, _ name: [UInt8]) {
        guard places[Int(ordinal - firstName)] == 0 else { return }
        bytes += name
        places[Int(ordinal - firstName)] = UInt64(bytes.count) << 8 | UInt64(name.count)
    }

    /// The bytes of a name; none of one that is not known.
    func name(_ ordinal: UInt32) -> ArraySlice<UInt8> {
        guard ordinal >= firstName, Int(ordinal - firstName) < places.count else { return [] }
        let place = places[Int(ordinal - firstName)]
        return bytes[Int(place >> 8) - Int(place & 255)..<Int(place >> 8)]
    }

    func key(_ ordinal: UInt32) -> RewardKey? {
        guard ordinal >= firstKey, Int(ordinal - firstKey) < keys.count else { return nil }
        return keys[Int(ordinal - firstKey)]
    }
}

extension NamesRunReader {
    /// Gives the names of all pages that can be read, as they come; lost ones are left out.
    ///
    /// **Errors** Those of reading that are not of what is on the disk there.
    fileprivate func readNames(_ body: (NameOrdinal, [UInt8]) -> Void) throws(StorageError) {
        let batch = NameBatch()
        try forEachReadablePage(.names) { (page, number) throws(FormatError) in
            try NamePage.decode(
                page, count: header.itemCount(.names, page: number), ordinals: names,
                into: batch)
        } then: { _ in
            for place in 0..<batch.count where !batch.isLost(place) {
                body(batch.ordinal(place), batch.name(place))
            }
        }
    }

    /// As `readNames`, of keys.
    fileprivate func readKeys(_ body: (KeyOrdinal, RewardKey) -> Void) throws(StorageError) {
        let batch = PairBatch()
        try forEachReadablePage(.keys) { (page, number) throws(FormatError) in
            try PairPage.decode(
                page, count: header.itemCount(.keys, page: number),
                bounds: bounds(.keys, number), into: batch)
        } then: { number in
            let first = keys.lowerBound + UInt32(number * NamesPageKind.keys.capacity)
            for place in 0..<batch.count where batch[place] >> 32 != 0 {
                body(
                    KeyOrdinal(rawValue: first + UInt32(place)),
                    RewardKey(
                        reward: NameOrdinal(
                            rawValue: UInt32(truncatingIfNeeded: batch[place] >> 32)),
                        business: NameOrdinal(rawValue: UInt32(truncatingIfNeeded: batch[place]))))
            }
        }
    }

    /// Decodes the pages of a kind; `body` has the number of each that could be.
    private func forEachReadablePage(
        _ kind: NamesPageKind, decode: ([UInt8], Int) throws(FormatError) -> Void,
        then body: (Int) -> Void
    ) throws(StorageError) {
        for number in 0..<header.pageCount(kind) {
            let isRead: Void? = try StorageError.readable { () throws(StorageError) in
                let page = try pageAround(kind, number)
                try decoding(kind, number) { () throws(FormatError) in try decode(page, number) }
            }
            if isRead != nil { body(number) }
        }
    }

    /// As `page`, where many that follow each other may be unreadable.
    private func pageAround(_ kind: NamesPageKind, _ number: Int) throws(StorageError) -> [UInt8] {
        let entry = index.entries[index.pages(kind).lowerBound + number]
        let buffer = ReadBuffer(capacity: Int(entry.byteCount))
        try buffer.readAround(file, at: entry.offset, byteCount: Int(entry.byteCount))
        let page = buffer.array(0..<buffer.byteCount)
        try decoding(kind, number) { () throws(FormatError) in try entry.check(page) }
        return page
    }
}
