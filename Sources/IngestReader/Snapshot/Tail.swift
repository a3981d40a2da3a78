// packet → decode → ring → admit → block → segment → [compaction] → [snapshot] → [query]

import IngestCounting
import IngestFormat
import IngestStorage
import Synchronization

/// The durable blocks that no run covers: level 0 as the log has it. Shared by all queries of one cut.
///
/// Opening reads the heads of the blocks. Their counters folded are made when they are first asked for; a point is answered
/// from the sections of keys, and from the blocks that have the key.
///
/// **Errors** `corrupt` where a part of a block cannot be read that is asked for: without it the numbers would fall.
/// **Cost** Opening 2 µs a block. A point half a nanosecond a row of the tail, and one a row of a block that has the key. Folding
/// 10 ns a row, in 12 bytes a key and 64 a (key, day) beside.
final class Tail<Files: FileSystem>: Sendable {
    private struct Folded: Sendable {
        /// Of reward-days, one a segment, and the attributions of each.
        var tables: [CounterTable] = []
        var attributions: [AttributionList] = []
        /// The same by business and day; made when it is first asked for.
        var days: CounterTable?
        var totals = LogTotals()
    }

    /// The end of the last block.
    let position: LogPosition
    /// The next ordinals by the heads of the blocks: rows may have keys whose own block was lost.
    let nextName: UInt32
    let nextKey: UInt32
    let rowCount: UInt64
    private let blocks: [TailBlock<Files>]
    private let folded = Mutex<Folded?>(nil)
    let names: TailNames<Files>

    /// - Parameters:
    ///   - mark: of `DurableMarkFile`, read before this.
    ///   - names: an empty table of those after the runs.
    init(
        after manifest: Manifest, mark: LogPosition?, in files: Files, names: NameTable
    ) throws(StorageError) {
        var tail = LogTail(after: manifest, mark: mark, in: files, isHeadOnly: true)
        let (buffer, decoder) = (ReadBuffer(), BlockDecoder())
        var blocks: [TailBlock<Files>] = []
        var position = manifest.cut
        var next = (name: manifest.shard.nextName, key: manifest.shard.nextKey)
        while let block = try tail.next(into: buffer) {
            let sections = try StorageError.decoding(block.file.path, at: block.offset) {
                () throws(FormatError) in
                try buffer.withBytes { (bytes) throws(FormatError) in try decoder.sections(bytes) }
            }
            blocks.append(
                TailBlock(
                    header: block.header, offset: block.offset, file: block.file,
                    sections: sections))
            position = block.end
            let context = block.header.context
            guard context.firstName.rawValue >= next.name, context.firstKey.rawValue >= next.key
            else {
                throw .corrupt(
                    path: block.file.path, offset: block.offset,
                    detail: "names or keys that were given before")
            }
            next = (block.header.nextName.rawValue, block.header.nextKey.rawValue)
        }
        self.blocks = blocks
        self.position = position
        nextName = blocks.reduce(0) { max($0, $1.header.nextName.rawValue) }
        nextKey = blocks.reduce(0) { max($0, $1.header.nextKey.rawValue) }
        rowCount = blocks.reduce(0) { $0 + UInt64($1.header.rowCount) }
        self.names = TailNames(blocks, from: names)
    }

    // MARK: Points

    /// Gives the counters of a key by day, in any order.
    func forEachRow(
        of point: CounterPoint, _ body: (Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        if blocks.isEmpty { return }
        if let tables = folded.withLock({ $0?.tables }) {
            for table in tables {
                for row in try table.found(point) { try body(row.day, row.counters) }
            }
            return
        }
        let (buffer, decoder, rows) = (ReadBuffer(), BlockDecoder(), BlockRows())
        var counters: SegmentCounters?
        for block in blocks {
            guard point.key < block.header.nextKey.rawValue else { continue }
            let keys: Void? = try block.section(.key, buffer) {
                (bytes, keys) throws(FormatError) in
                try decoder.decodeKeys(bytes, keys, of: block.header, into: rows)
            }
            // One of heartbeats has none.
            if keys == nil { continue }
            let found = rows.rows(ofKey: point.key)
            if found.isEmpty { continue }
            _ = try block.decode(
                [.attributes, .day, .money], checksRest: false, buffer, decoder, into: rows)
            rows.keep(found)
            let sum = counters ?? SegmentCounters()
            counters = sum
            if sum.fold(rows) == .folded { continue }
            // What does not fit beside the rows before it.
            try Self.give(sum, point.days, body)
            sum.removeAll()
            guard sum.fold(rows) == .folded else { throw block.invalidRows }
        }
        if let counters { try Self.give(counters, point.days, body) }
    }

    private static func give(
        _ counters: SegmentCounters, _ days: ClosedRange<Int32>,
        _ body: (Int32, CounterRow) throws(ReaderError) -> Void
    ) throws(ReaderError) {
        let page = CounterPage()
        var cursor = counters.makeCursor()
        while cursor.nextPage(into: page) {
            for row in 0..<page.rowCount where days.contains(page.day(row)) {
                try body(page.day(row), page.counters(row))
            }
        }
    }

    // MARK: Folding

    /// Of its blocks.
    var segments: [SegmentNumber] { Array(Set(blocks.map(\.header.context.segment))) }

    /// What the blocks add to the totals of the log.
    func totals() throws(ReaderError) -> LogTotals {
        try withFolded { (folded) throws(ReaderError) in folded.totals }
    }

    /// The counters of reward-days, which stand for those of rewards too, or those of days.
    /// - Parameter names: of the query that asks.
    func tables(
        of table: TableKind, _ names: any NameSource
    ) throws(ReaderError) -> [CounterTable] {
        try withFolded { (folded) throws(ReaderError) in
            guard table == .days, !folded.tables.isEmpty else { return folded.tables }
            if let days = folded.days { return [days] }
            let days = try Self.sumByBusiness(folded.tables, names)
            folded.days = days
            return [days]
        }
    }

    /// The attributed rows of each segment.
    func attributedParts() throws(ReaderError) -> [AttributedPart] {
        let (tables, lists) = try withFolded { (folded) throws(ReaderError) in
            (folded.tables, folded.attributions)
        }
        var parts: [AttributedPart] = []
        for (table, list) in zip(tables, lists) where list.count > 0 {
            parts.append(
                AttributedPart(list, makeCursor: { table.makeCursor(columns: .known, keys: $0) }) {
                    (cursor, page) throws(ReaderError) in try table.next(&cursor, into: page)
                })
        }
        return parts
    }

    private func withFolded<Output>(
        _ body: (inout Folded) throws(ReaderError) -> Output
    ) throws(ReaderError) -> Output {
        try folded.withLock { (folded) throws(ReaderError) in
            var present: Folded
            if let folded { present = folded } else { present = try fold() }
            defer { folded = present }
            return try body(&present)
        }
    }

    private func fold() throws(ReaderError) -> Folded {
        var folded = Folded()
        let counters = SegmentCounters()
        func takeTable() {
            if counters.rowCount > 0 {
                let (table, attributions) = counters.encodeTableAndAttributions()
                folded.tables.append(table)
                folded.attributions.append(attributions)
            }
            counters.removeAll()
        }
        var segment: SegmentNumber?
        try forEachBlock(
            [.counters, .attribution, .ledger], checksRest: true, where: { _ in true }
        ) { (block, rows) throws(ReaderError) in
            let header = block.header
            if segment != header.context.segment { takeTable() }
            segment = header.context.segment
            folded.totals.add(block.ledger)
            folded.totals.rowCount += UInt64(rows.rowCount)
            var outcome = counters.fold(rows)
            if outcome == .tooManyKeyDays || outcome == .tooManyRows || outcome == .moneyOverflow {
                takeTable()
                outcome = counters.fold(rows)
            }
            return outcome == .folded
        }
        takeTable()
        return folded
    }

    // MARK: Blocks

    /// Decodes parts of the blocks that `isWanted` is true of.
    /// - Parameter checksRest: whether damage in the other parts is an error.
    /// - Parameter body: `false` for rows that cannot be.
    private func forEachBlock(
        _ parts: BlockSections, checksRest: Bool, where isWanted: (BlockHeader) -> Bool,
        _ body: (DecodedBlock, BlockRows) throws(ReaderError) -> Bool
    ) throws(ReaderError) {
        let (buffer, decoder, rows) = (ReadBuffer(), BlockDecoder(), BlockRows())
        for block in blocks where isWanted(block.header) {
            let decoded = try block.decode(
                parts, checksRest: checksRest, buffer, decoder, into: rows)
            guard try body(decoded, rows) else { throw block.invalidRows }
        }
    }

    /// Gives the blocks that `isWanted` is true of, each with its bytes in the buffer, from the files that were open when
    /// the cut was made: a segment that has been sealed since may have been rewritten.
    /// - Parameter body: `false` ends the pass.
    func forEachBlock(
        where isWanted: (BlockSummary) -> Bool, into buffer: ReadBuffer,
        _ body: CutBlocks<Files>.Body
    ) throws(ReaderError) {
        let decoder = BlockDecoder()
        for block in blocks where isWanted(block.header.summary) {
            try block.read(into: buffer, decoder)
            guard try body(block.header, buffer) else { return }
        }
    }

    // MARK: Days

    /// **Cost** A look-up of the key's business for each row; 200 bytes a row while it is made.
    private static func sumByBusiness(
        _ tables: [CounterTable], _ names: any NameSource
    ) throws(ReaderError) -> CounterTable {
        var places: [UInt64: Int] = [:]
        var rows: [(order: UInt64, counters: CounterRow)] = []
        let page = CounterPage()
        for table in tables {
            var cursor = table.makeCursor(keys: CounterKeys.rewards)
            while try table.next(&cursor, into: page) {
                for row in 0..<page.rowCount {
                    let key = KeyOrdinal(rawValue: page.key(row))
                    let order = CounterPage.order(
                        key: try names.names(of: key).business.rawValue, day: page.day(row))
                    if let place = places[order] {
                        guard rows[place].counters.add(page.counters(row)) else {
                            throw .overflow
                        }
                    } else {
                        places[order] = rows.count
                        rows.append((order, page.counters(row)))
                    }
                }
            }
        }
        rows.sort { $0.order < $1.order }
        var encoder = CounterTableEncoder(hasDay: true)
        for row in rows {
            encoder.append(
                key: UInt32(truncatingIfNeeded: row.order >> 32),
                day: CounterPage.day(ofOrder: row.order), counters: row.counters)
        }
        return encoder.finish()
    }
}

// Tables that this process has encoded; an error is one of its memory.
extension CounterTable {
    func next(
        _ cursor: inout CounterTable.Cursor, into page: CounterPage
    ) throws(ReaderError) -> Bool {
        do throws(FormatError) { return try cursor.nextPage(into: page) } catch {
            throw ReaderError(error, path: "counters in memory")
        }
    }

    func found(_ point: CounterPoint) throws(ReaderError) -> [CounterDayRow] {
        do throws(FormatError) { return try rows(of: point) } catch {
            throw ReaderError(error, path: "counters in memory")
        }
    }
}

extension LogPosition {
    package var cut: Cut { Cut(segment: segment.rawValue, block: blockCount) }
}
