// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// Names and keys in order → the bytes of a names run. Owned by one stage.
///
/// **Cost** The coded file in memory, and one page.
package struct NamesRunEncoder {
    private let fileNumber: FileNumber
    private let directory: DirectoryID
    private let firstName: UInt32
    private let firstKey: UInt32
    private let generation: Generation
    private let createdAt: Int64
    private let compressor = LZ4Compressor()

    private var namePages: [StoredSection] = []
    private var keyPages: [StoredSection] = []
    private var lengths: [UInt8] = []
    private var nameBytes: [UInt8] = []
    private var pairs: [RewardKey] = []
    /// Names and keys taken so far, lost ones included.
    package private(set) var nameCount = 0
    package private(set) var keyCount = 0

    package init(
        fileNumber: FileNumber, directory: DirectoryID, firstName: NameOrdinal,
        firstKey: KeyOrdinal, generation: Generation, createdAt: Int64
    ) {
        self.fileNumber = fileNumber
        self.directory = directory
        self.firstName = firstName.rawValue
        self.firstKey = firstKey.rawValue
        self.generation = generation
        self.createdAt = createdAt
    }

    /// The next name, or (empty) the gap of one that was lost.
    /// - Parameter name: at most `Limits.nameByteCountMax` bytes.
    package mutating func append(name: ArraySlice<UInt8>) {
        precondition(name.count <= Limits.nameByteCountMax)
        if lengths.count == NamesLayout.pageCapacity { flushNames() }
        lengths.append(UInt8(name.count))
        nameBytes.append(contentsOf: name)
        nameCount += 1
    }

    /// The next key, or (`nil`) the gap of one that was lost.
    package mutating func append(key: RewardKey?) {
        if pairs.count == NamesLayout.pageCapacity { flushKeys() }
        pairs.append(key ?? RewardKey(reward: .none, business: .none))
        keyCount += 1
    }

    /// All names and keys of a run that goes on where this one stands.
    package mutating func append(contentsOf run: NamesRun) {
        precondition(run.names.lowerBound == firstName + UInt32(nameCount))
        precondition(run.keys.lowerBound == firstKey + UInt32(keyCount))
        for ordinal in run.names { append(name: run.name(NameOrdinal(rawValue: ordinal))) }
        for ordinal in run.keys { append(key: run.key(KeyOrdinal(rawValue: ordinal))) }
    }

    /// The whole file, and what the manifest keeps of it.
    package mutating func finish() -> (bytes: [UInt8], entry: NamesRunEntry) {
        flushNames()
        flushKeys()
        let pages = namePages + keyPages
        let index = Self.index(of: pages)
        var header = NamesRun.Header(
            fileNumber: fileNumber, directory: directory,
            names: firstName..<firstName + UInt32(nameCount),
            keys: firstKey..<firstKey + UInt32(keyCount), generation: generation,
            createdAt: createdAt)
        header.pageIndexOffset += UInt64(pages.reduce(0) { $0 + $1.bytes.count })
        header.pageIndexChecksum = Checksum.crc32c(index)
        var bytes = header.encode()
        for page in pages { bytes.append(contentsOf: page.bytes) }
        bytes.append(contentsOf: index)
        return (bytes, header.entry)
    }

    private static func index(of pages: [StoredSection]) -> [UInt8] {
        typealias Field = NamesLayout.PageEntry
        var writer = FieldWriter(capacity: pages.count * Field.byteCount)
        for page in pages {
            writer.begin(Field.byteCount)
            writer.put(page.encoding.rawValue, Field.encoding)
            writer.put(page.rawByteCount, Field.rawByteCount)
            writer.put(page.bytes.count, Field.storedByteCount)
            writer.put(Checksum.crc32c(page.bytes), Field.checksum)
        }
        return writer.bytes
    }

    private mutating func flushNames() {
        guard !lengths.isEmpty else { return }
        namePages.append(StoredSection(lengths + nameBytes, compressor: compressor))
        lengths.removeAll(keepingCapacity: true)
        nameBytes.removeAll(keepingCapacity: true)
    }

    private mutating func flushKeys() {
        guard !pairs.isEmpty else { return }
        keyPages.append(
            StoredSection(
                NamesPage.encodeKeys(pairs), compressor: compressor, isCompressible: false))
        pairs.removeAll(keepingCapacity: true)
    }
}
