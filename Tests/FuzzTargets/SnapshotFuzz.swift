import IngestCounting
import IngestFormat
import TestSupport

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
            checkRows(footer.rewardDays)
        })

    static let run = FuzzTarget(
        name: "run", seeds: { [SnapshotSample.run.encode()] },
        run: { bytes in
            guard let run = try? Run.decode(Reseal.run(Array(bytes))) else { return }
            fuzzExpect(run.encode().count == Int(run.header.fileByteCount), "a run's length")
            checkRows(run.counters)
        })

    static let expiredRun = FuzzTarget(
        name: "expired-run", seeds: { [SnapshotSample.expired.encode()] },
        run: { bytes in
            guard let run = try? Run.decode(Reseal.run(Array(bytes))) else { return }
            checkRows(run.counters)
            guard let raw = try? run.header.decodeMetadata(run.metadata),
                let segments = try? ExpiredSegments.decode(raw, of: run.header.span)
            else { return }
            fuzzExpect(segments.encode() == raw, "metadata of other bytes")
            var sum = LedgerSum()
            sum.add(segments.ledger)
            fuzzExpect(sum.entries == segments.ledger, "a ledger that is no sum of itself")
        })

    static let namesRun = FuzzTarget(
        name: "names-run", seeds: { [SnapshotSample.namesBytes] },
        run: { bytes in
            guard let run = try? DecodedNames(Reseal.names(Array(bytes))) else { return }
            var encoder = NamesRunEncoder(
                fileNumber: run.header.fileNumber, directory: run.header.directory,
                firstName: NameOrdinal(rawValue: run.header.names.lowerBound),
                firstKey: KeyOrdinal(rawValue: run.header.keys.lowerBound),
                generation: run.header.generation, createdAt: run.header.createdAt)
            for name in run.names { encoder.append(name: name[...]) }
            for key in run.keys { encoder.append(key: key) }
            guard let again = try? DecodedNames(encoder.finish().bytes) else {
                fatalError("names that do not come back")
            }
            fuzzExpect(run.names == again.names, "another name")
            fuzzExpect(run.keys == again.keys, "another key")
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
                fuzzExpect(found?.map(\.day) == [day], "another day of a point")
                fuzzExpect(
                    found?.map(\.counters) == [page.counters(row)], "other counters of a point")
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
    /// The last section is as long as there are bytes for it; what is not compressed has the length that is stored.
    static func footer(_ bytes: [UInt8]) -> [UInt8] {
        let field = SegmentFooter.SectionTable.Entry.layout
        let head = SegmentFooter.layout.byteCount
        guard bytes.count >= head else { return bytes }
        var bytes = bytes
        let count = Int(bytes.number(SegmentFooter.layout.sectionCount))
        let covered = head + count * field.byteCount
        guard covered + 4 <= bytes.count else { return bytes }
        var offset = covered + 4
        for section in 0..<count {
            let entry = head + section * field.byteCount
            let left = UInt64(bytes.count - offset)
            let stored =
                section == count - 1 ? left : bytes.number(field.storedByteCount, at: entry)
            guard stored <= left else { break }
            let end = offset + Int(stored)
            bytes.put(stored, field.storedByteCount, at: entry)
            if bytes.number(field.encoding, at: entry) == 0 {
                bytes.put(stored, field.rawByteCount, at: entry)
            }
            bytes.put(Checksum.crc32c(bytes[offset..<end]), at: entry + field.checksum.offset)
            offset = end
        }
        bytes.put(Checksum.crc32c(bytes[..<covered]), at: covered)
        return bytes
    }

    /// Also the checksum of the metadata behind the index.
    static func run(_ bytes: [UInt8]) -> [UInt8] {
        let field = RunHeader.layout
        typealias Entry = CounterLayout.PageEntry
        guard bytes.count >= field.byteCount else { return bytes }
        let metadataByteCount = bytes.number(field.metadataByteCount)
        let end = bytes.count - Int(min(metadataByteCount, UInt64(bytes.count - field.byteCount)))
        var head = Array(bytes[..<end])
        head.put(Checksum.crc32c(bytes[end...]), at: field.metadataChecksum.offset)
        return pages(
            head, index: field.pageIndexOffset, checksum: field.pageIndexChecksum,
            entryByteCount: Entry.byteCount, byteCount: Entry.pageByteCount,
            entryChecksum: Entry.checksum) + bytes[end...]
    }

    static func names(_ bytes: [UInt8]) -> [UInt8] {
        let field = NamesRun.Header.layout
        return pages(
            bytes, index: field.pageIndexOffset, checksum: field.pageIndexChecksum,
            entryByteCount: NamesLayout.PageEntry.byteCount,
            byteCount: NamesLayout.PageEntry.pageByteCount,
            entryChecksum: NamesLayout.PageEntry.checksum)
    }

    /// A checksum of everything before it, in the last four bytes.
    static func tail(_ bytes: [UInt8]) -> [UInt8] {
        bytes.count < 4 ? bytes : bytes.sealed(bytes.count)
    }

    /// A header, pages, an index of them to the end.
    private static func pages(
        _ bytes: [UInt8], index: FormatField, checksum: FormatField, entryByteCount: Int,
        byteCount: FormatField, entryChecksum: FormatField
    ) -> [UInt8] {
        let head = 128
        guard bytes.count >= head else { return bytes }
        var bytes = bytes
        let start = bytes.number(index)
        if start >= UInt64(head), start <= UInt64(bytes.count) {
            var entry = Int(start)
            var offset = head
            while entry + entryByteCount <= bytes.count {
                let end = offset + Int(bytes.number(byteCount, at: entry))
                guard end <= Int(start) else { break }
                bytes.put(Checksum.crc32c(bytes[offset..<end]), at: entry + entryChecksum.offset)
                offset = end
                entry += entryByteCount
            }
            bytes.put(Checksum.crc32c(bytes[Int(start)...]), at: checksum.offset)
        }
        bytes.put(Checksum.crc32c(bytes[..<(head - 4)]), at: head - 4)
        return bytes
    }
}
