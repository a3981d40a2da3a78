import IngestFormat
import IngestStorage
import TestSupport

/// Makes the blocks of a log, one after the other, as the commit stage would: chained, with names, keys,
/// rows of all types and a ledger entry each. Everything follows from the seed.
struct TestLog {
    struct Block {
        let header: BlockContext
        let bytes: [UInt8]
        let summary: BlockSummary
        var end: LogPosition {
            LogPosition(segment: header.segment, blockCount: header.blockOrdinal + 1)
        }
    }

    static let directory = DirectoryID(rawValue: 0x0123_4567_89AB_CDEF)
    static let now: Int64 = 1_800_000_000_000_000

    private(set) var segment = SegmentNumber(rawValue: 0)
    private(set) var ordinal: UInt32 = 0
    private(set) var anchor = LogAnchor(
        commitEpoch: 1, previousChecksum: 0, nextName: 1, nextKey: 0)
    private var random: SeededRandom
    private let rows = BlockRows()
    private let encoder = BlockEncoder()

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    /// Continues behind what a recovery found.
    init(seed: UInt64, after report: RecoveryReport) {
        self.init(seed: seed)
        segment = report.lastSegment
        anchor = report.next
    }

    static func manifest() -> Manifest {
        Manifest(
            directory: directory, createdAt: now, hashAlgorithm: 1,
            hashKey: [UInt8](repeating: 7, count: 32))
    }

    mutating func startSegment() -> SegmentHeader {
        segment = segment.next
        ordinal = 0
        return SegmentHeader(
            directory: Self.directory, segment: segment,
            createdAt: Self.now + Int64(anchor.commitEpoch),
            previousChecksum: anchor.previousChecksum,
            firstName: NameOrdinal(rawValue: anchor.nextName),
            firstKey: KeyOrdinal(rawValue: anchor.nextKey), commitEpoch: anchor.commitEpoch,
            origin: Self.manifest().origin)
    }

    /// The next block; with three new names and two new keys, and rows of the keys there are then.
    mutating func block(rowCount: Int = 20, ledger more: [LedgerEntry] = []) -> Block {
        let context = BlockContext(
            directory: Self.directory, segment: segment, blockOrdinal: ordinal,
            commitEpoch: anchor.commitEpoch, previousChecksum: anchor.previousChecksum,
            admissionTime: Self.now + Int64(anchor.commitEpoch), policyVersion: 1,
            firstName: NameOrdinal(rawValue: anchor.nextName),
            firstKey: KeyOrdinal(rawValue: anchor.nextKey))
        var names = NewNames()
        let first = anchor.nextName
        for index in 0..<3 { names.append(Array("name-\(first)-\(index)".utf8).span.bytes) }
        let keys = [
            RewardKey(
                reward: NameOrdinal(rawValue: first), business: NameOrdinal(rawValue: first + 2)),
            RewardKey(
                reward: NameOrdinal(rawValue: first + 1), business: NameOrdinal(rawValue: first + 2)
            ),
        ]
        fillRows(rowCount, keyCount: anchor.nextKey + 2)
        var entry = LedgerEntry(key: .plain)
        entry.packets[Int(PacketResult.accepted.rawValue)] = 1
        entry.events[Int(Verdict.counted.rawValue)] = UInt64(rowCount)
        let buffer = BlockBuffer()
        let summary = encoder.encode(
            rows: rows, names: names, keys: keys, ledger: [entry] + more, context: context,
            into: buffer)
        ordinal += 1
        anchor = LogAnchor(
            commitEpoch: anchor.commitEpoch + 1, previousChecksum: summary.headerChecksum,
            nextName: first + 3, nextKey: anchor.nextKey + 2)
        return Block(header: context, bytes: buffer.copy, summary: summary)
    }

    private mutating func fillRows(_ count: Int, keyCount: UInt32) {
        rows.removeAll()
        for row in 0..<count {
            let type = UInt8(1 + random.below(3))
            let hasMoney = type == EventType.redemption.rawValue
            rows.key[row] = UInt32(random.below(UInt64(keyCount)))
            rows.timestamp[row] = Self.now - Int64(random.below(86_400_000_000))
            rows.day[row] = 20_833 - Int32(random.below(2))
            rows.platform[row] = 0
            rows.campaign[row] = 0
            rows.source[row] = 0
            rows.attributes[row] =
                RowAttributes(
                    type: type, verdict: .counted, consent: 1, format: 0,
                    bits: RowAttributes.eventID | (hasMoney ? RowAttributes.money : 0)
                ).rawValue
            rows.eventHash[rows.eventHashCount] = random.next()
            rows.mark.eventHash += 1
            if hasMoney {
                rows.revenue[rows.moneyCount] = Int64(random.below(5_000_000))
                rows.spend[rows.moneyCount] = Int64(random.below(1_000_000))
                rows.mark.money += 1
            }
            rows.mark.row += 1
        }
    }
}

/// The blocks of a directory as a reader finds them.
func tailBlocks<Files: FileSystem>(
    in files: Files, after manifest: Manifest
) throws -> [BlockContext] {
    let mark = try DurableMarkFile.read(in: files, directory: manifest.directory)
    var tail = LogTail(after: manifest, mark: mark, in: files)
    let buffer = ReadBuffer()
    var found: [BlockContext] = []
    while let block = try tail.next(into: buffer) { found.append(block.header.context) }
    return found
}
