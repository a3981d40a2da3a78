// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

/// A sealed segment as the manifest knows it: enough to tell whether the file is the one that was sealed.
package struct SealedSegment: Hashable, Sendable {
    /// What is left of the segment.
    package enum State: UInt8, Sendable, CaseIterable {
        case whole = 0
        /// Retention removed the rows; the footer is the evidence.
        case footerOnly = 1
    }
    package var number: SegmentNumber
    package var state: State = .whole
    /// Byte count of the whole file.
    package var byteCount: UInt64
    /// `SegmentTrailer.footerChecksum`: through it every byte of the file is covered.
    package var footerChecksum: UInt32
    /// Block ordinals given in it, lost ones included.
    package var blockCount: UInt32
    package var rowCount: UInt64
    /// Event times of its rows, microseconds; both 0 where `rowCount` is 0.
    package var minTimestamp: Int64
    package var maxTimestamp: Int64

    package init(
        number: SegmentNumber, byteCount: UInt64, footerChecksum: UInt32, blockCount: UInt32,
        rowCount: UInt64, minTimestamp: Int64, maxTimestamp: Int64
    ) {
        self.number = number
        self.byteCount = byteCount
        self.footerChecksum = footerChecksum
        self.blockCount = blockCount
        self.rowCount = rowCount
        self.minTimestamp = minTimestamp
        self.maxTimestamp = maxTimestamp
    }
}

/// A run of a counter table as the manifest knows it.
package struct RunEntry: Hashable, Sendable {
    package var table: TableKind
    package var fileNumber: FileNumber
    package var byteCount: UInt64
    /// `RunHeader.checksum`: through it every byte of the file is covered.
    package var checksum: UInt32
    package var span: LogSpan
    package var rowCount: UInt64

    package init(
        table: TableKind, fileNumber: FileNumber, byteCount: UInt64, checksum: UInt32,
        span: LogSpan, rowCount: UInt64
    ) {
        self.table = table
        self.fileNumber = fileNumber
        self.byteCount = byteCount
        self.checksum = checksum
        self.span = span
        self.rowCount = rowCount
    }
    package var fileName: FileName { .run(table, fileNumber) }
}

/// A names run as the manifest knows it.
package struct NamesRunEntry: Hashable, Sendable {
    package var fileNumber: FileNumber
    package var byteCount: UInt64
    /// `NamesRun.Header.checksum`: through it every byte of the file is covered.
    package var checksum: UInt32
    package var names: Range<UInt32>
    package var keys: Range<UInt32>

    package init(
        fileNumber: FileNumber, byteCount: UInt64, checksum: UInt32, names: Range<UInt32>,
        keys: Range<UInt32>
    ) {
        self.fileNumber = fileNumber
        self.byteCount = byteCount
        self.checksum = checksum
        self.names = names
        self.keys = keys
    }
    package var fileName: FileName { .run(.names, fileNumber) }
}

/// An unclean stop that a start found: what was received and not yet durable then is unknown.
package struct UncleanStop: Hashable, Sendable {
    /// When the next start found it, microseconds since 1970.
    package var foundAt: Int64
    /// The end of what survived.
    package var position: LogPosition
    package init(foundAt: Int64, position: LogPosition) {
        self.foundAt = foundAt
        self.position = position
    }
}

/// Where one shard's log stands. There is one shard today.
package struct ShardState: Hashable, Sendable {
    package var shard: UInt16 = 0
    /// Everything up to here is in the runs, nothing after it is.
    package var cut: LogPosition = .start
    /// The next ordinals to be given at the cut.
    package var nextName: UInt32 = 1
    package var nextKey: UInt32 = 0
    /// The commit epoch and the header checksum of the last block before the cut; 0 at the start.
    package var commitEpoch: UInt64 = 0
    package var lastBlockChecksum: UInt32 = 0
    package init() {}
}

/// A generation of the directory: which files make it up, and the position of the log that they cover.
/// Written whole, published by a rename, never changed.
package struct Manifest: Hashable, Sendable {
    package var generation: Generation
    package var directory: DirectoryID
    /// Microseconds since 1970; of the directory and of this generation.
    package var directoryCreatedAt: Int64
    package var createdAt: Int64
    /// Algorithm and key of `KeyedHash`: chosen with generation 0, carried on unchanged.
    package var hashAlgorithm: UInt8
    /// 32 bytes.
    package var hashKey: [UInt8]
    package var nextFileNumber: FileNumber
    package var shard: ShardState
    /// By number.
    package var sealed: [SealedSegment]
    /// By table, then by span; the spans of a table are contiguous from segment 1 to the cut.
    package var runs: [RunEntry]
    /// By ordinal; contiguous from the first name and key.
    package var namesRuns: [NamesRunEntry]
    /// By (segment, block).
    package var lost: [LostRange]
    /// By position.
    package var uncleanStops: [UncleanStop]

    /// Generation 0 of a new directory.
    package init(directory: DirectoryID, createdAt: Int64, hashAlgorithm: UInt8, hashKey: [UInt8]) {
        generation = Generation(rawValue: 0)
        self.directory = directory
        directoryCreatedAt = createdAt
        self.createdAt = createdAt
        self.hashAlgorithm = hashAlgorithm
        self.hashKey = hashKey
        nextFileNumber = FileNumber(rawValue: 1)
        shard = ShardState()
        sealed = []
        runs = []
        namesRuns = []
        lost = []
        uncleanStops = []
    }

    package var cut: LogPosition { shard.cut }
}

extension Manifest {
    package static let magic: UInt32 = 0x314D_4749  // "IGM1"

    /// The bytes of the whole file.
    package func encode() -> [UInt8] { fatalError("being written") }

    /// Checks and decodes a whole manifest file.
    /// - Parameters:
    ///   - directory: the directory that the file lies in, where it is known from another file.
    ///   - generation: the number in the file's name.
    package static func decode(
        _ bytes: [UInt8], directory: DirectoryID? = nil, generation: Generation? = nil
    ) throws(FormatError) -> Manifest {
        fatalError("being written")
    }
}
