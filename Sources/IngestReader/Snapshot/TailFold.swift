// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

import IngestCounting
import IngestFormat
import IngestStorage

/// The durable blocks that no run covers, folded: a table for each segment that they lie in.
package struct TailFold {
    package struct Result: Sendable {
        /// reward-days tables, one a segment.
        package var tables: [CounterTable] = []
        package var totals = LogTotals()
        /// The end of what was folded.
        package var position: LogPosition = .start
        /// The next ordinals by the heads of its blocks: rows may have keys whose own block was lost.
        var nextName: UInt32 = 0
        var nextKey: UInt32 = 0
    }

    private var result = Result()
    private let counters = SegmentCounters()
    private let rows = BlockRows()
    private let decoder = BlockDecoder()
    private let buffer = ReadBuffer()

    package init() {}

    /// Folds the durable blocks after the manifest's cut, and enters the names that they introduce.
    ///
    /// **Errors** `corrupt` where a block that was durable cannot be read: without it the numbers would
    /// fall. What is bad behind the last block of the log is left alone: it may be being written.
    mutating func fold<Files: FileSystem>(
        after manifest: Manifest, mark: LogPosition?, in files: Files, names: inout NameTable
    ) throws(StorageError) {
        var tail = LogTail(after: manifest, mark: mark, in: files)
        result.position = manifest.cut
        while let block = try tail.next(into: buffer) {
            if block.end.segment != result.position.segment { takeTable() }
            try fold(block.header, at: block.offset, path: files.path, names: &names)
            result.position = block.end
        }
        takeTable()
        guard let mark, result.position < mark else { return }
        throw tail.damage
            ?? .corrupt(
                path: files.path, offset: 0,
                detail: "the log ends at \(result.position.text), the durable mark is "
                    + mark.text)
    }

    private mutating func fold(
        _ header: BlockHeader, at offset: UInt64, path: String, names: inout NameTable
    ) throws(StorageError) {
        let file = "\(path)/\(FileName.segment(header.context.segment).text)"
        let block = try StorageError.decoding(file, at: offset) { () throws(FormatError) in
            try buffer.withBytes { (bytes) throws(FormatError) in
                try decoder.decode(
                    bytes, wanted: [.counters, .dictionary, .ledger], into: rows)
            }
        }
        names.enter(block)
        result.nextName = max(result.nextName, header.nextName.rawValue)
        result.nextKey = max(result.nextKey, header.nextKey.rawValue)
        result.totals.add(block.ledger)
        result.totals.rowCount += UInt64(rows.rowCount)
        var outcome = counters.fold(rows)
        if outcome == .tooManyKeyDays || outcome == .tooManyRows || outcome == .moneyOverflow {
            takeTable()
            outcome = counters.fold(rows)
        }
        guard outcome == .folded else {
            throw .corrupt(path: file, offset: offset, detail: "invalid rows: \(outcome)")
        }
    }

    private mutating func takeTable() {
        if counters.rowCount > 0 { result.tables.append(counters.encodeTable()) }
        counters.removeAll()
    }

    package func finish() -> Result { result }
}

extension LogPosition {
    package var text: String { "segment \(segment.rawValue) block \(blockCount)" }

    package var cut: Cut { Cut(segment: segment.rawValue, block: blockCount) }
}
