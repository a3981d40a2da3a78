import IngestFormat
import IngestStorage
import TestSupport

// A segment file as a start finds it, whatever is in it.

extension FuzzTarget {
    /// Recovers a directory whose only segment is these bytes: as they are or, since few of them have
    /// right checksums, with all checksums and the chain made right.
    static let segmentRecovery = FuzzTarget(
        name: "segment-recovery", seeds: { [SegmentSample.bytes] },
        run: { bytes in
            let input = Array(bytes)
            let isResealed = input.reduce(UInt8(0), ^) & 1 == 0
            recover(isResealed ? SegmentSample.resealed(input) : input)
        })

    private static func recover(_ bytes: [UInt8]) {
        let files = SimulatedFileSystem(seed: 1)
        do {
            let manifest = try DataDirectory.open(files) { SegmentSample.manifest }.manifest
            let file = try files.create("0000000001.segment")
            try file.write(bytes, at: 0)
            let report = try recoverSegments(in: files, after: manifest, now: 1)
            for segment in report.segments { try check(segment, in: files) }
            let image = files.disk.contents("0000000001.segment")
            let again = try recoverSegments(in: files, after: manifest, now: 2)
            fuzzExpect(again.next == report.next, "a second recovery ends elsewhere")
            fuzzExpect(
                files.disk.contents("0000000001.segment") == image,
                "a second recovery leaves other bytes")
        } catch {
            // Of a later version, not chained to its manifest, or damaged in too many places.
            fuzzExpect((error as? StorageError)?.exitCode == 65, "\(error)")
        }
    }

    /// What was sealed can be read as what it was sealed as.
    private static func check(
        _ segment: RecoveredSegment, in files: SimulatedFileSystem
    ) throws {
        let entry = segment.file.entry
        let reader = try SegmentReader(
            entry.number, directory: SegmentSample.manifest.directory, in: files)
        let footer = try reader.readFooter(of: entry)
        fuzzExpect(footer == segment.file.footer, "the footer read back")
        let buffer = ReadBuffer()
        var rowCount: UInt64 = 0
        for block in footer.blocks {
            rowCount += UInt64(try reader.read(block, into: buffer).rowCount)
        }
        fuzzExpect(rowCount == entry.rowCount, "the rows of the blocks")
    }
}

/// A small segment of three blocks.
private enum SegmentSample {
    static let manifest = Manifest(
        directory: DirectoryID(rawValue: 7), createdAt: 1, hashAlgorithm: KeyedHash.algorithm,
        hashKey: [UInt8](repeating: 3, count: KeyedHash.keyByteCount))

    static let bytes: [UInt8] = {
        let header = SegmentHeader(
            directory: manifest.directory, segment: SegmentNumber(rawValue: 1), createdAt: 1,
            previousChecksum: 0, firstName: NameOrdinal(rawValue: 1),
            firstKey: KeyOrdinal(rawValue: 0), commitEpoch: 1)
        var bytes =
            header.encode()
            + [UInt8](
                repeating: 0, count: Int(SegmentLayout.blocksOffset) - SegmentHeader.byteCount)
        var previous: UInt32 = 0
        for ordinal in 0..<3 as Range<UInt32> {
            let block = block(ordinal, previous: previous)
            bytes += block.bytes
            previous = block.checksum
        }
        return bytes
    }()

    private static func block(
        _ ordinal: UInt32, previous: UInt32
    ) -> (bytes: [UInt8], checksum: UInt32) {
        let context = BlockContext(
            directory: manifest.directory, segment: SegmentNumber(rawValue: 1),
            blockOrdinal: ordinal, commitEpoch: UInt64(ordinal) + 1, previousChecksum: previous,
            admissionTime: 1, policyVersion: 1, firstName: NameOrdinal(rawValue: 1 + 2 * ordinal),
            firstKey: KeyOrdinal(rawValue: ordinal))
        let rows = BlockRows()
        for row in 0..<3 {
            rows.key[row] = ordinal
            rows.timestamp[row] = Int64(row)
            rows.day[row] = 1
            rows.platform[row] = 0
            rows.campaign[row] = 0
            rows.source[row] = 0
            rows.attributes[row] =
                RowAttributes(type: 1, verdict: .counted, consent: 0, format: 0, bits: 0).rawValue
        }
        rows.mark.row = 3
        var names = NewNames()
        names.append([UInt8(ascii: "r")].span.bytes)
        names.append([UInt8(ascii: "b")].span.bytes)
        let key = RewardKey(reward: context.firstName, business: context.firstName)
        let buffer = BlockBuffer()
        let summary = BlockEncoder().encode(
            rows: rows, names: names, keys: [key], ledger: [LedgerEntry(key: .plain)],
            context: context, into: buffer)
        return (buffer.copy, summary.headerChecksum)
    }

    /// The same bytes with right checksums and a whole chain, as far as there are blocks.
    static func resealed(_ input: [UInt8]) -> [UInt8] {
        var bytes = input
        guard bytes.count >= Int(SegmentLayout.blocksOffset) else { return bytes }
        bytes = bytes.sealed(128)
        var start = Int(SegmentLayout.blocksOffset)
        var previous = UInt32(bytes.number(FormatField("previous checksum", 12, 4)))
        let decoder = BlockDecoder()
        let fields = BlockLayout.Header.self
        while start + BlockLayout.headerByteCountMin <= bytes.count {
            let headerByteCount = Int(bytes.number(fields.headerByteCount, at: start))
            guard headerByteCount >= BlockLayout.headerByteCountMin,
                start + headerByteCount <= bytes.count
            else { break }
            bytes.put(previous, at: start + fields.previousChecksum.offset)
            sealHeader(at: start, headerByteCount, in: &bytes)
            let rest = Array(bytes[start...])
            guard let sections = try? decoder.sections(rest.span.bytes) else { break }
            for (index, section) in sections.enumerated() {
                guard section.offset + section.byteCount <= rest.count else { break }
                let content = rest[section.offset..<section.offset + section.byteCount]
                let place =
                    start + BlockLayout.headerByteCountMin
                    + BlockLayout.sectionEntryByteCount * index
                bytes.put(
                    Checksum.crc32c(content), at: place + BlockLayout.Section.checksum.offset)
            }
            sealHeader(at: start, headerByteCount, in: &bytes)
            previous = UInt32(bytes.number(fields.headerChecksum, at: start))
            start += max(8, Int(bytes.number(fields.byteCount, at: start)))
        }
        return bytes
    }

    private static func sealHeader(at start: Int, _ byteCount: Int, in bytes: inout [UInt8]) {
        let place = start + BlockLayout.Header.headerChecksum.offset
        let before = Checksum.crc32c(bytes[start..<place])
        let checksum = Checksum.crc32c(bytes[(place + 4)..<(start + byteCount)], seed: before)
        bytes.put(checksum, at: place)
    }
}
