import TestSupport
import Testing

@testable import IngestFormat

/// Blocks that somebody made on purpose, with all checksums right.
@Suite struct BlockHostileTests {
    private typealias Header = BlockLayout.Header
    private typealias Section = BlockLayout.Section
    private let decoder = BlockDecoder()
    private let rows = BlockRows()

    /// A block in which every form occurs, and LZ4.
    private static let rich: BlockContent = {
        var random = SeededRandom(seed: 77)
        var content = BlockContent.example
        content.names = (0..<60).map { "campaign-of-november-\($0)" }
        content.context.firstKey = KeyOrdinal(rawValue: 1000)
        content.rows = (0..<600).map { i in
            Row(
                key: UInt32(random.below(1001)),
                timestamp: random.oneIn(60)
                    ? Int64(i) : 1_000_000_000_000 + Int64(random.below(1000)),
                day: i < 300 ? 1 : 2, platform: UInt32(1 + random.below(60)),
                campaign: [7, 9, 40][random.below(3)], eventHash: random.next(),
                money: .init(revenue: Int64(random.below(50)) * 10_000, spend: 0))
        }
        return content
    }()

    @Test func `The block of these tests has every form, and compressed sections`() throws {
        let sections = try decoder.sections(Self.rich.encoded().span.bytes)
        #expect(Set(sections.compactMap(\.encoding.form)) == Set(ColumnForm.allCases))
        #expect(sections.contains { $0.encoding.isCompressed })
        #expect(sections.contains { $0.encoding.exponent == 4 })
        #expect(try decoder.decode(Self.rich.encoded()) == Self.rich)
    }

    /// Rows that were accepted must be sound: what reads them makes no further checks.
    private func isSound(_ block: DecodedBlock) -> Bool {
        let header = block.header
        var counts = (0, 0, 0, 0, 0)
        var isSound = true
        for i in 0..<rows.rowCount {
            let bits = RowAttributes(rawValue: rows.attributes[i])
            counts.0 += bits.hasEventID ? 1 : 0
            counts.1 += bits.isMeasured ? 1 : 0
            counts.2 += bits.hasMoney ? 1 : 0
            counts.3 += bits.hasSession ? 1 : 0
            counts.4 += bits.isOverflow ? 1 : 0
            isSound =
                isSound && bits.isValid && rows.key[i] < header.nextKey.rawValue
                && rows.timestamp[i] >= header.minTimestamp
                && rows.timestamp[i] <= header.maxTimestamp
                && rows.platform[i] < header.nextName.rawValue
                && (rows.campaign[i] < header.nextName.rawValue
                    || rows.campaign[i] == Attribution.other)
        }
        for i in 0..<rows.moneyCount {
            isSound = isSound && 0...Limits.moneyMicrosMax ~= rows.revenue[i]
        }
        for key in block.keys {
            isSound = isSound && key.reward.rawValue >= 1 && key.reward < header.nextName
        }
        let stored = (
            rows.eventHashCount, rows.measuredCount, rows.moneyCount, rows.sessionCount,
            rows.rewardHashCount
        )
        return isSound && counts == stored
    }

    @Test(arguments: [11, 12, 13, 14] as [UInt64])
    func `Random damage under right checksums is refused or sound, and never traps`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let good = [BlockImage(), BlockImage(Self.rich)]
        var refusedCount = 0
        for round in 0..<1500 {
            var image = good[random.below(2)]
            for _ in 0...random.below(3) {
                let place = random.below(image.bytes.count)
                image.bytes[place] =
                    random.oneIn(2)
                    ? image.bytes[place] ^ 1 << UInt8(random.below(8))
                    : UInt8(truncatingIfNeeded: random.next())
            }
            image.fixChecksums()
            let refused = Refusal.of { () throws(FormatError) in
                let block = try decoder.decode(image.bytes.span.bytes, into: rows)
                #expect(isSound(block), "round \(round)")
            }
            if refused != nil { refusedCount += 1 }
        }
        // Most damage hits hashes, names or times, which may be anything.
        #expect(refusedCount > 400)
    }

    @Test func `Columns of random bytes are refused or inside their domain, and never trap`() {
        var random = SeededRandom(seed: 21)
        let decoder = ColumnDecoder()
        let target = UnsafeMutablePointer<UInt32>.allocate(capacity: 100)
        defer { target.deallocate() }
        var accepted: Set<ColumnForm> = []
        for _ in 0..<40_000 {
            let column = RandomColumn(&random)
            column.bytes.withUnsafeBytes { buffer in
                let source = ColumnSource(
                    bytes: buffer.baseAddress!, byteCount: buffer.count,
                    encoding: column.encoding, parameter: column.parameter, count: column.count,
                    domain: 0...Int64(UInt32.max), name: "random", offset: 0)
                guard let range = try? decoder.decode(source, into: target) else { return }
                accepted.insert(column.encoding.form!)
                let values = UnsafeBufferPointer(start: target, count: column.count)
                #expect(Int64(values.min()!) == range.lowerBound)
                #expect(Int64(values.max()!) == range.upperBound)
            }
        }
        #expect(accepted == Set(ColumnForm.allCases).subtracting([.raw]))
    }

    /// The fixed part of some form with small numbers, then random bytes of about the right count.
    private struct RandomColumn {
        var bytes: [UInt8] = []
        let count: Int
        let parameter: Int
        let encoding: SectionEncoding

        init(_ random: inout SeededRandom) {
            count = 1 + random.below(random.oneIn(4) ? 100 : 6)
            let form = ColumnForm.allCases[random.below(5)]
            let exponent = random.oneIn(3) ? random.below(8) : 0
            encoding = SectionEncoding(form, exponent: exponent)
            parameter = form == .constant ? 0 : random.below(random.oneIn(6) ? 70 : 5)
            append(random.below(3), byteCount: 8)
            var packed = form == .constant ? 0 : BitPacking.byteCount(count, width: parameter)
            if form == .dictionary || form == .patched {
                if form == .patched { append(random.below(4), byteCount: 8) }
                let (few, width) = (random.below(5), random.below(random.oneIn(6) ? 66 : 4))
                append(few, byteCount: 2)
                append(width, byteCount: 2)
                if form == .patched { bytes += random.bytes(count: 2 * few).map { $0 & 1 } }
                packed += BitPacking.byteCount(few, width: width)
            }
            bytes += random.bytes(count: packed).map { random.oneIn(2) ? $0 & 0x0f : $0 & 0x11 }
            if random.oneIn(20) { bytes.append(0) }
            if random.oneIn(20) && bytes.count > 8 { bytes.removeLast() }
        }

        private mutating func append(_ value: Int, byteCount: Int) {
            bytes += (0..<byteCount).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
        }
    }

    // MARK: LZ4

    /// A block of one name section that says it is `rawByteCount` long and holds `stored`.
    private func names(_ stored: [UInt8], rawByteCount: Int, nameCount: Int) -> [UInt8] {
        var image = BlockImage(BlockContent())
        image[Header.sectionCount] = 1
        image[Header.headerByteCount] += 16
        image[Header.nameCount] = UInt64(nameCount)
        let table = BlockLayout.headerByteCountMin
        image.bytes = Array(image.bytes[..<table]) + Array(repeating: 0, count: 16)
        image.bytes[table] = UInt8(BlockSectionKind.names.rawValue)
        image[.names, Section.encoding] = 0x80
        image[.names, Section.rawByteCount] = UInt64(rawByteCount)
        image[.names, Section.byteCount] = UInt64(stored.count)
        image.bytes += stored
        image.bytes += Array(repeating: 0, count: -image.bytes.count & 4095)
        image[Header.byteCount] = UInt64(image.bytes.count)
        image.fixChecksums()
        return image.bytes
    }

    /// LZ4 of one byte `count` times: a literal, then one match that goes on and on.
    private func bomb(_ byte: UInt8, count: Int) -> [UInt8] {
        // The format ends with 5 literals at least; the match before takes the rest.
        var match = count - 1 - 5 - 4 - 15
        var bytes: [UInt8] = [0x1f, byte, 1, 0]
        while match >= 255 {
            bytes.append(255)
            match -= 255
        }
        return bytes + [UInt8(match), 0x50] + Array(repeating: byte, count: 5)
    }

    @Test func `A small section may grow to its limit, and is decoded`() throws {
        // Names of one byte each, whose length byte is the same byte.
        let count = Limits.blockNameCountMax
        let block = try decoder.decode(
            names(bomb(1, count: 2 * count), rawByteCount: 2 * count, nameCount: count).span.bytes,
            into: rows)
        #expect(block.names.count == count)
        #expect(block.names.name(count - 1) == [1])
    }

    @Test func `A section that grows beyond what its values can take is refused before memory is`()
    {
        for rawByteCount in [130 * 10, 1 << 24, 0xffff_fff0] {
            let bytes = names(bomb(1, count: 2000), rawByteCount: rawByteCount, nameCount: 10)
            let found = Refusal.of { () throws(FormatError) in
                _ = try decoder.decode(bytes.span.bytes, into: rows)
            }
            #expect(found?.0 == .corrupt)
            #expect(found?.1.field == "names: raw byte count")
        }
    }

    @Test func `A section that decompresses to less or more than it says is refused`() {
        for difference in [-40, -1, 1, 40] {
            let bytes = names(
                bomb(1, count: 2000), rawByteCount: 2000 + difference, nameCount: 1000 - 20)
            let found = Refusal.of { () throws(FormatError) in
                _ = try decoder.decode(bytes.span.bytes, into: rows)
            }
            #expect(found?.0 == .corrupt)
            #expect(found?.1.field == "names: LZ4")
        }
    }

    @Test func `LZ4 bytes that were cut or damaged are refused or give names`() {
        var random = SeededRandom(seed: 31)
        let good = bomb(1, count: 2000)
        var refusedCount = 0
        for _ in 0..<500 {
            var stored = good
            stored[random.below(stored.count)] = UInt8(truncatingIfNeeded: random.next())
            if random.oneIn(3) { stored.removeLast(1 + random.below(stored.count - 1)) }
            let bytes = names(stored, rawByteCount: 2000, nameCount: 1000)
            let found = Refusal.of { () throws(FormatError) in
                _ = try decoder.decode(bytes.span.bytes, into: rows)
            }
            if found != nil { refusedCount += 1 }
        }
        #expect(refusedCount > 300)
    }

    // MARK: Ledger

    @Test func `A ledger that says it has more than its bytes is refused before memory is taken`() {
        for bytes: [UInt8] in [[], [1], [1, 0], [0, 1, 2, 3], [3, 0, 0xff, 0xff, 0xff]] {
            let found = Refusal.of { () throws(FormatError) in
                try ByteReader.reading(bytes) { reader throws(FormatError) in
                    _ = try LedgerCodec.decode(
                        &reader, entryCount: Limits.blockSenderCountMax, rangeCountMax: 1 << 16)
                }
            }
            #expect(found?.0 == .corrupt)
        }
    }

    @Test
    func `Ledger entries are refused for order, masks, zero counts and ranges beyond 64 bits`() {
        let framed: [UInt8] = [0] + Array(repeating: 0, count: 16)
        let huge: [UInt8] = Array(repeating: 0xff, count: 9) + [1]
        let bad: [[UInt8]] = [
            [1, 0, 0, 1, 0, 0],  // plain twice
            [3, 0, 0, 1, 0, 0],  // unidentified before plain
            [1, 0x80, 0x80, 2, 0, 0, 0],  // a packet result that there is not
            [1, 0, 0x80, 0x40, 0, 0],  // a verdict that there is not
            [1, 1, 0, 0],  // a count of 0
            framed + [0, 0, 1] + huge + [1],  // a range beyond the last sequence
            framed + [0, 0, 2] + huge + [0, 0, 0],  // a range after the last sequence
            framed + [0, 0, 0x81, 0x80, 4],  // too many ranges
            [1, 0x80, 0, 0],  // a varint that is too long
        ]
        for bytes in bad {
            let found = Refusal.of { () throws(FormatError) in
                try ByteReader.reading(bytes) { reader throws(FormatError) in
                    _ = try LedgerCodec.decode(
                        &reader, entryCount: bytes[0] == 0 ? 1 : 2, rangeCountMax: 1 << 16)
                }
            }
            #expect(found?.0 == .corrupt, "\(bytes)")
        }
    }
}
