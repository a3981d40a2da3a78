import IngestFormat

// Footers, runs, names runs, manifests, marks and file names, whatever is in them. Where a checksum would
// keep a mutation from getting any further, it is made right first.

extension FuzzTarget {
    static let segmentFooter = FuzzTarget(
        name: "segment-footer", seeds: { [SnapshotSample.footerBytes] },
        run: { bytes in
            let input = Reseal.footer(Array(bytes))
            let trailer = SnapshotSample.trailer(of: input)
            guard let footer = try? SegmentFooter.decode(input, trailer: trailer) else { return }
            let again = footer.encode(at: trailer.footerOffset)
            let body = Array(again.bytes.dropLast(SegmentTrailer.byteCount))
            let second = try? SegmentFooter.decode(body, trailer: again.trailer)
            fuzzExpect(second == footer, "a footer that does not come back")
            fuzzExpect(
                footer.gaps(footerOffset: trailer.footerOffset).allSatisfy { !$0.isEmpty },
                "an empty gap")
            checkRows(footer.counters)
        })

    static let run = FuzzTarget(
        name: "run", seeds: { [SnapshotSample.run.encode()] },
        run: { bytes in
            guard let run = try? Run.decode(Reseal.run(Array(bytes))) else { return }
            fuzzExpect(run.encode().count == Int(run.header.fileByteCount), "a run's length")
            checkRows(run.counters)
        })

    static let namesRun = FuzzTarget(
        name: "names-run", seeds: { [SnapshotSample.namesBytes] },
        run: { bytes in
            guard let run = try? NamesRun.decode(Reseal.names(Array(bytes))) else { return }
            var encoder = NamesRunEncoder(
                fileNumber: run.header.fileNumber, directory: run.header.directory,
                firstName: NameOrdinal(rawValue: run.names.lowerBound),
                firstKey: KeyOrdinal(rawValue: run.keys.lowerBound), hash: SnapshotSample.hash,
                generation: run.header.generation, createdAt: run.header.createdAt)
            encoder.append(contentsOf: run)
            guard let again = try? NamesRun.decode(encoder.finish().bytes) else {
                fatalError("names that do not come back")
            }
            fuzzExpect(
                run.names.allSatisfy {
                    run.name(NameOrdinal(rawValue: $0)) == again.name(NameOrdinal(rawValue: $0))
                }, "another name")
            fuzzExpect(
                run.keys.allSatisfy {
                    run.key(KeyOrdinal(rawValue: $0)) == again.key(KeyOrdinal(rawValue: $0))
                }, "another key")
        })

    static let manifest = FuzzTarget(
        name: "manifest", seeds: { [SnapshotSample.manifest.encode()] },
        run: { bytes in
            let input = Reseal.tail(Array(bytes))
            guard let manifest = try? Manifest.decode(input) else { return }
            fuzzExpect(manifest.encode() == input, "a manifest of other bytes")
        })

    static let durableMark = FuzzTarget(
        name: "durable-mark",
        seeds: {
            [
                DurableMark(directory: SnapshotSample.directory, position: SnapshotSample.cut)
                    .encode()
            ]
        },
        run: { bytes in
            guard let mark = try? DurableMark.decode(Array(bytes)) else { return }
            fuzzExpect(mark.encode() == Array(bytes.prefix(64)), "a mark of other bytes")
        })

    static let fileName = FuzzTarget(
        name: "file-name",
        seeds: {
            [
                "LOCK", "0000000007.segment", "0000000012.reward-days.run.tmp",
                "12345678901.manifest",
            ]
            .map { Array($0.utf8) }
        },
        run: { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            guard let name = FileName(text) else { return }
            fuzzExpect(name.text == text, "a name with two spellings")
        })

    /// Rows that can be read are in order, and are the same when they are written again.
    private static func checkRows(_ table: CounterTable) {
        var encoder = CounterTableEncoder(hasDay: table.hasDay)
        guard (try? encoder.append(contentsOf: table.makeCursor())) != nil else { return }
        let again = encoder.finish()
        fuzzExpect(again.rowCount == table.rowCount, "another number of rows")
        var (left, right) = (table.makeCursor(), again.makeCursor())
        var (first, second) = (RowList(), RowList())
        fuzzExpect(first.fill(&left) && second.fill(&right), "rows that do not come back")
        fuzzExpect(first == second, "other rows")
        checkPoints(table)
    }

    /// A table that decodes whole gives the same rows by point and by range, and the same columns alone.
    private static func checkPoints(_ table: CounterTable) {
        let columns = CounterColumnSet([.impressions, .revenueMicros])
        let (page, part) = (CounterPage(), CounterPage())
        var (all, some) = (table.makeCursor(), table.makeCursor(columns: columns))
        while (try? all.nextPage(into: page)) == true {
            fuzzExpect((try? some.nextPage(into: part)) == true, "no projection of a good page")
            for row in 0..<page.rowCount {
                fuzzExpect(
                    page.value(.revenueMicros, row) == part.value(.revenueMicros, row),
                    "another value of a column alone")
            }
            for row in stride(from: 0, to: page.rowCount, by: 1 + page.rowCount / 8) {
                let (key, day) = (page.key(row), page.day(row))
                let found = try? table.rows(of: CounterPoint(key: key, days: day...day))
                let expected = CounterDayRow(day: day, counters: page.counters(row))
                fuzzExpect(found == [expected], "another row of a point")
                var range = table.makeCursor(keys: key...key)
                fuzzExpect((try? range.nextPage(into: part)) == true, "no row of a range")
                fuzzExpect(part.key(0) == key, "a row of another key")
            }
        }
    }
}

/// The rows of a table, as one list of numbers.
private struct RowList: Equatable {
    private var numbers: [UInt64] = []

    mutating func fill(_ cursor: inout CounterTable.Cursor) -> Bool {
        let page = CounterPage()
        do {
            while try cursor.nextPage(into: page) {
                for row in 0..<page.rowCount {
                    numbers.append(CounterPage.order(key: page.key(row), day: page.day(row)))
                    let counters = page.counters(row)
                    numbers += CounterColumn.allCases.map { counters[$0] }
                }
            }
            return true
        } catch {
            return false
        }
    }
}

/// Checksums made right, as far as what they cover is there.
private enum Reseal {
    static func footer(_ bytes: [UInt8]) -> [UInt8] {
        typealias Section = SegmentLayout.Section
        let head = SegmentLayout.Footer.byteCount
        guard bytes.count >= head else { return bytes }
        var bytes = bytes
        let count = Int(number(bytes, SegmentLayout.Footer.sectionCount, 0))
        let covered = head + count * Section.byteCount
        guard covered + 4 <= bytes.count else { return bytes }
        var offset = covered + 4
        for section in 0..<count {
            let entry = head + section * Section.byteCount
            let end = offset + Int(number(bytes, Section.storedByteCount, entry))
            guard end <= bytes.count else { break }
            put(Checksum.crc32c(bytes[offset..<end]), at: entry + Section.checksum.offset, &bytes)
            offset = end
        }
        put(Checksum.crc32c(bytes[..<covered]), at: covered, &bytes)
        return bytes
    }

    static func run(_ bytes: [UInt8]) -> [UInt8] {
        typealias Field = CounterLayout.RunHeader
        return pages(
            bytes, index: Field.pageIndexOffset, checksum: Field.pageIndexChecksum,
            entryByteCount: CounterLayout.PageEntry.byteCount,
            byteCount: CounterLayout.PageEntry.pageByteCount,
            entryChecksum: CounterLayout.PageEntry.checksum)
    }

    static func names(_ bytes: [UInt8]) -> [UInt8] {
        typealias Field = NamesLayout.Header
        return pages(
            bytes, index: Field.pageIndexOffset, checksum: Field.pageIndexChecksum,
            entryByteCount: NamesLayout.PageEntry.byteCount,
            byteCount: NamesLayout.PageEntry.pageByteCount,
            entryChecksum: NamesLayout.PageEntry.checksum)
    }

    /// A checksum of everything before it, in the last four bytes.
    static func tail(_ bytes: [UInt8]) -> [UInt8] {
        guard bytes.count >= 4 else { return bytes }
        var bytes = bytes
        put(Checksum.crc32c(bytes.dropLast(4)), at: bytes.count - 4, &bytes)
        return bytes
    }

    /// A header of 128 bytes, pages, an index of them to the end.
    private static func pages(
        _ bytes: [UInt8], index: FormatField, checksum: FormatField, entryByteCount: Int,
        byteCount: FormatField, entryChecksum: FormatField
    ) -> [UInt8] {
        guard bytes.count >= 128 else { return bytes }
        var bytes = bytes
        let start = number(bytes, index, 0)
        if start >= 128, start <= UInt64(bytes.count) {
            var entry = Int(start)
            var offset = 128
            while entry + entryByteCount <= bytes.count {
                let end = offset + Int(number(bytes, byteCount, entry))
                guard end <= Int(start) else { break }
                put(Checksum.crc32c(bytes[offset..<end]), at: entry + entryChecksum.offset, &bytes)
                offset = end
                entry += entryByteCount
            }
            put(Checksum.crc32c(bytes[Int(start)...]), at: checksum.offset, &bytes)
        }
        put(Checksum.crc32c(bytes[..<124]), at: 124, &bytes)
        return bytes
    }

    private static func number(_ bytes: [UInt8], _ field: FormatField, _ start: Int) -> UInt64 {
        (0..<field.byteCount).reduce(0) {
            $0 | UInt64(bytes[start + field.offset + $1]) << UInt64(8 * $1)
        }
    }

    private static func put(_ value: UInt32, at place: Int, _ bytes: inout [UInt8]) {
        for i in 0..<4 { bytes[place + i] = UInt8(truncatingIfNeeded: value >> UInt32(8 * i)) }
    }
}

/// Small files of every kind.
private enum SnapshotSample {
    static let directory = DirectoryID(rawValue: 7)
    static let hash = KeyedHash(key: InlineArray(repeating: 3))
    static let cut = LogPosition(segment: SegmentNumber(rawValue: 3), blockCount: 2)
    private static let footerOffset: UInt64 = 4_096

    static let counters: CounterTable = {
        var encoder = CounterTableEncoder(hasDay: true)
        for key in 0..<40 as Range<UInt32> {
            var row = CounterRow()
            row[.impressions] = UInt64(key) * 7
            row[.clicks] = key == 9 ? 1 << 40 : 1
            row[.revenueMicros] = UInt64(key % 3) * 12_500_000
            encoder.append(key: key * 2, day: Int32(key), counters: row)
        }
        return encoder.finish()
    }()

    private static let footer: SegmentFooter = {
        let header = SegmentHeader(
            directory: directory, segment: cut.segment, createdAt: 1, previousChecksum: 5,
            firstName: NameOrdinal(rawValue: 3), firstKey: KeyOrdinal(rawValue: 1), commitEpoch: 9)
        var footer = SegmentFooter(header: header, headerChecksum: 4, sealedAt: 2)
        footer.blocks = (0..<2).map { ordinal in
            BlockIndexEntry(
                ordinal: ordinal, offset: 128 + UInt64(ordinal) * 1_024,
                summary: BlockSummary(
                    byteCount: 512, headerChecksum: ordinal, rowCount: 2, minTimestamp: 5,
                    maxTimestamp: 6, firstName: NameOrdinal(rawValue: 3 + ordinal), nameCount: 1,
                    firstKey: KeyOrdinal(rawValue: 1), keyCount: 0, eventHashCount: 2,
                    ledgerEntryCount: 1, commitEpoch: 9 + UInt64(ordinal), admissionTime: 7))
        }
        footer.blockCount = 3
        footer.names = 3..<5
        footer.rowCount = 4
        footer.minTimestamp = 5
        footer.maxTimestamp = 6
        footer.lastBlockChecksum = 1
        footer.commitEpoch = 10
        footer.counters = counters
        var entry = LedgerEntry(
            key: SenderKey(
                kind: .framed, sender: SenderID(rawValue: 8), epoch: SenderEpoch(rawValue: 1)))
        entry.packets[0] = 2
        entry.events[0] = 4
        entry.sequences = [0...0, 5...9]
        footer.ledger = [entry]
        footer.lost = [lost]
        return footer
    }()

    private static let lost = LostRange(
        segment: cut.segment, firstBlock: 2, blockCount: 1, offset: 2_000, byteCount: 100,
        rowCount: nil, names: 5..<5, keys: 1..<1)

    static let footerBytes = Array(
        footer.encode(at: footerOffset).bytes.dropLast(SegmentTrailer.byteCount))

    /// The trailer that belongs to these bytes.
    static func trailer(of bytes: [UInt8]) -> SegmentTrailer {
        let sections = bytes.count >= 8 ? Int(bytes[6]) | Int(bytes[7]) << 8 : 0
        let covered = min(bytes.count, 128 + 16 * sections)
        return SegmentTrailer(
            directory: directory, segment: cut.segment, footerOffset: footerOffset,
            footerByteCount: UInt64(bytes.count), footerChecksum: Checksum.crc32c(bytes[..<covered])
        )
    }

    static let run = Run(
        header: RunHeader(
            table: .rewardDays, fileNumber: FileNumber(rawValue: 5), directory: directory,
            span: LogSpan(firstSegment: SegmentNumber(rawValue: 1), end: cut),
            generation: Generation(rawValue: 2), createdAt: 3, index: counters.index),
        counters: counters)

    static let namesBytes: [UInt8] = {
        var encoder = NamesRunEncoder(
            fileNumber: FileNumber(rawValue: 6), directory: directory,
            firstName: NameOrdinal(rawValue: 1), firstKey: KeyOrdinal(rawValue: 0), hash: hash,
            generation: Generation(rawValue: 2), createdAt: 3)
        for i in 0..<60 { encoder.append(name: Array("name-\(i * i)".utf8)[...]) }
        encoder.append(name: [])
        for i in 1..<9 as Range<UInt32> {
            encoder.append(
                key: i == 5
                    ? nil
                    : RewardKey(
                        reward: NameOrdinal(rawValue: i), business: NameOrdinal(rawValue: 1 + i % 2)
                    ))
        }
        return encoder.finish().bytes
    }()

    static let manifest: Manifest = {
        var manifest = Manifest(
            directory: directory, createdAt: 1, hashAlgorithm: KeyedHash.algorithm,
            hashKey: [UInt8](repeating: 3, count: KeyedHash.keyByteCount))
        manifest.generation = Generation(rawValue: 2)
        manifest.nextFileNumber = FileNumber(rawValue: 20)
        manifest.shard.cut = cut
        manifest.shard.nextName = 62
        manifest.shard.nextKey = 8
        manifest.sealed = [
            SealedSegment(
                number: cut.segment, byteCount: 9_000, footerChecksum: 4, blockCount: 2,
                rowCount: 4,
                minTimestamp: 5, maxTimestamp: 6)
        ]
        manifest.runs = TableKind.counterTables.map { table in
            RunEntry(
                table: table, fileNumber: FileNumber(rawValue: 10 + UInt64(table.rawValue)),
                byteCount: 900, checksum: 8, span: run.header.span, rowCount: 40)
        }
        manifest.namesRuns = [
            NamesRunEntry(
                fileNumber: FileNumber(rawValue: 6), byteCount: 700, checksum: 9, names: 1..<62,
                keys: 0..<8)
        ]
        manifest.lost = [lost]
        manifest.uncleanStops = [UncleanStop(foundAt: 4, position: cut)]
        return manifest
    }()
}
