// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// The pages of a names run in memory: found by its index, each under its checksum.
struct NamesPages {
    private let bytes: [UInt8]
    private let header: NamesRun.Header
    private var entries: [Entry] = []

    private struct Entry {
        var encoding: StoredSection.Encoding
        var rawByteCount: Int
        var range: Range<Int>
        var checksum: UInt32
    }

    /// Checks the file's length and the index.
    init(_ bytes: [UInt8], header: NamesRun.Header) throws(FormatError) {
        self.bytes = bytes
        self.header = header
        guard UInt64(bytes.count) >= header.fileByteCount else {
            throw .torn(
                "file byte count", at: 0, available: bytes.count, needed: Int(header.fileByteCount))
        }
        guard UInt64(bytes.count) == header.fileByteCount else {
            throw .corrupt(
                "file byte count", at: 0, got: bytes.count, expected: .exactly(header.fileByteCount)
            )
        }
        let index = Array(bytes[Int(header.pageIndexOffset)...])
        let computed = Checksum.crc32c(index)
        guard computed == header.pageIndexChecksum else {
            throw .corrupt(
                "page index checksum", at: Int(header.pageIndexOffset), got: computed,
                expected: .exactly(header.pageIndexChecksum))
        }
        do { try decodeIndex(index) } catch { throw error.moved(by: Int(header.pageIndexOffset)) }
    }

    private typealias Field = NamesLayout.PageEntry

    private mutating func decodeIndex(_ index: [UInt8]) throws(FormatError) {
        var reader = FieldReader(index)
        var end = NamesLayout.Header.byteCount
        entries.reserveCapacity(header.namePageCount + header.keyPageCount)
        while reader.end < index.count {
            try reader.begin(Field.byteCount)
            try reader.expectZeros(Field.fields)
            guard
                let encoding = StoredSection.Encoding(
                    rawValue: UInt8(truncatingIfNeeded: reader.load(Field.encoding)))
            else {
                throw reader.corrupt(
                    Field.encoding, .atMost(StoredSection.Encoding.lz4.rawValue))
            }
            let raw = try reader.count(Field.rawByteCount, max: NamesPage.byteCountMax)
            let left = Int(header.pageIndexOffset) - end
            let stored = try reader.count(Field.storedByteCount, max: min(left, raw))
            entries.append(
                Entry(
                    encoding: encoding, rawByteCount: raw, range: end..<end + stored,
                    checksum: reader.u32(Field.checksum)))
            end += stored
        }
        guard end == Int(header.pageIndexOffset) else {
            throw .corrupt(
                "page index offset", at: 0, got: header.pageIndexOffset, expected: .exactly(end))
        }
    }

    func appendNames(
        ofPage page: Int, to bytes: inout [UInt8], ends: inout [UInt32]
    ) throws(FormatError) {
        let count = NamesPage.count(page, of: header.names.count)
        do {
            try NamesPage.appendNames(raw(page), count: count, to: &bytes, ends: &ends)
        } catch {
            throw error.moved(by: entries[page].range.lowerBound)
        }
    }

    func appendKeys(ofPage page: Int, to pairs: inout [RewardKey]) throws(FormatError) {
        let place = header.namePageCount + page
        let count = NamesPage.count(page, of: header.keys.count)
        do {
            try NamesPage.appendKeys(raw(place), count: count, to: &pairs)
        } catch {
            throw error.moved(by: entries[place].range.lowerBound)
        }
    }

    /// The bytes of a page before they were stored.
    private func raw(_ place: Int) throws(FormatError) -> [UInt8] {
        let entry = entries[place]
        let stored = bytes[entry.range]
        let computed = Checksum.crc32c(stored)
        guard computed == entry.checksum else {
            throw .corrupt(
                "page checksum", at: 0, got: computed, expected: .exactly(entry.checksum))
        }
        return try StoredSection.restore(
            stored, encoding: entry.encoding, rawByteCount: entry.rawByteCount, at: 0)
    }
}

/// What is in one page, before it is stored.
///
/// **Layout** Names: the length of each, u8 (0 = lost), then their bytes back to back. Keys: two columns as
/// `CounterColumnCodec` writes them, the ordinals of the rewards and of the businesses (both 0 = lost).
enum NamesPage {
    static let byteCountMax = NamesLayout.pageCapacity * (1 + Limits.nameByteCountMax)

    /// How many of `total` are in page `page`.
    static func count(_ page: Int, of total: Int) -> Int {
        min(NamesLayout.pageCapacity, total - page * NamesLayout.pageCapacity)
    }

    static func appendNames(
        _ raw: [UInt8], count: Int, to bytes: inout [UInt8], ends: inout [UInt32]
    ) throws(FormatError) {
        guard raw.count >= count else {
            throw .torn("name lengths", at: 0, available: raw.count, needed: count)
        }
        var end = bytes.count
        for place in 0..<count {
            guard raw[place] <= Limits.nameByteCountMax else {
                throw .corrupt(
                    "name length", at: place, got: raw[place],
                    expected: .atMost(Limits.nameByteCountMax))
            }
            end += Int(raw[place])
            ends.append(UInt32(end))
        }
        guard end - bytes.count == raw.count - count else {
            throw .corrupt(
                "name bytes", at: count, got: raw.count - count,
                expected: .exactly(end - bytes.count))
        }
        bytes.append(contentsOf: raw[count...])
    }

    static func encodeKeys(_ pairs: [RewardKey]) -> [UInt8] {
        CounterColumnCodec.encode(pairs.map { UInt64($0.reward.rawValue) })
            + CounterColumnCodec.encode(pairs.map { UInt64($0.business.rawValue) })
    }

    static func appendKeys(
        _ raw: [UInt8], count: Int, to pairs: inout [RewardKey]
    ) throws(FormatError) {
        let columns = try CounterColumnCodec.decode(raw, columnCount: 2, count: count)
        for place in 0..<count {
            let (reward, business) = (columns[0][place], columns[1][place])
            let most = UInt64(Limits.nameCountMax)
            guard reward <= most, business <= most, (reward == 0) == (business == 0) else {
                throw .corrupt("key", at: 0, got: max(reward, business), expected: .atMost(most))
            }
            pairs.append(
                RewardKey(
                    reward: NameOrdinal(rawValue: UInt32(reward)),
                    business: NameOrdinal(rawValue: UInt32(business))))
        }
    }
}
