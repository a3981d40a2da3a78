// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

import IngestFormat
import IngestStorage

/// Tells an unfinished write behind the last whole block of a segment from damage.
///
/// A write is *torn* if part of it did not arrive: a sector that it must fill holds zeros, or the file ends
/// inside it. Where every byte of a header, a section or a footer is there and its checksum fails all the
/// same, bytes have been changed.
///
/// A disk writes sectors of 512 bytes whole or not at all. What was written over preallocated zeros and did
/// not arrive is therefore a *piece* of zeros: a whole sector, or the part of one behind the start.
///
/// Recovery's `DamageVerdict` calls everything torn here that nothing durable follows: it must start. This is
/// stricter, so that no flipped bit passes; what is torn here is torn there too.
///
/// **Cost** Reads the file from the start to its end once; zeros at about 5 GB/s.
struct TailJudge {
    enum Judgement {
        /// Nothing but zeros.
        case empty
        /// `byteCount` bytes of a write that did not finish.
        case torn(byteCount: UInt64)
        case damage(offset: UInt64, what: String)
    }

    /// What a write began as.
    enum Beginning {
        /// A block: its header can be believed.
        case block(BlockHeader)
        case footer
        case unknown
    }

    private static let sectorByteCount: UInt64 = 512
    private static let windowByteCount: UInt64 = 16 << 10
    /// Fewer bytes are left by no write.
    private static let writtenByteCountMin = 16

    private let start: UInt64
    private let fileByteCount: UInt64
    private var firstNonzero: UInt64?
    /// Behind the last byte that is not zero.
    private var end: UInt64
    private var nonzeroCount = 0
    private var setBitCount = 0
    /// Pieces of zeros, joined where they touch.
    private var zeros: [Range<UInt64>] = []

    /// Looks at the bytes of `file` from `start`, where `beginning` was found, to its end.
    static func judge(
        _ file: some StorageFile, from start: UInt64, _ beginning: Beginning
    ) throws(StorageError) -> Judgement {
        let judge = try TailJudge(file, from: start)
        if judge.firstNonzero == nil { return .empty }
        switch beginning {
        case .block(let header):
            let buffer = ReadBuffer()
            try buffer.read(file, at: start, byteCount: header.byteCount)
            let sections = buffer.withBytes { try? BlockDecoder().sections($0) }
            return judge.judgement(
                of: header, sections ?? [], buffer.array(0..<buffer.byteCount))
        case .footer:
            let first = try file.readArray(at: start, byteCount: BlockDecoder.headerByteCountMax)
            if Self.isBlockHeader(first) { return judge.damage("a block with a footer's magic") }
            let trailer = UInt64(SegmentTrailer.byteCount)
            let last = judge.fileByteCount - min(trailer, judge.fileByteCount)
            return judge.judgement(
                footerEnding: try file.readArray(at: last, byteCount: Int(trailer)))
        case .unknown:
            let bytes = try file.readArray(at: start, byteCount: BlockLayout.headerByteCountMin)
            return judge.judgement(beginning: bytes)
        }
    }

    /// Whether part of the footer from `start` on did not arrive.
    static func isTornFooter(
        _ file: some StorageFile, from start: UInt64
    ) throws(StorageError) -> Bool {
        if case .torn = try judge(file, from: start, .footer) { true } else { false }
    }

    // MARK: What lies there

    private init(_ file: some StorageFile, from start: UInt64) throws(StorageError) {
        (self.start, end) = (start, start)
        fileByteCount = try file.byteCount()
        let buffer = ReadBuffer(capacity: Int(Self.windowByteCount))
        var offset = start
        while offset < fileByteCount {
            // Windows end at sectors, so that no sector is looked at in two pieces.
            let window = min(
                fileByteCount - offset, Self.windowByteCount - offset % Self.sectorByteCount)
            try buffer.read(file, at: offset, byteCount: Int(window))
            if buffer.byteCount == 0 { break }
            // Most of what was preallocated is zeros, which is seen at once.
            let isZero = buffer.isZero
            let bytes = isZero ? [] : buffer.array(0..<buffer.byteCount)
            let windowEnd = offset + UInt64(buffer.byteCount)
            while offset < windowEnd {
                let sectorEnd = offset - offset % Self.sectorByteCount + Self.sectorByteCount
                let next = isZero ? windowEnd : min(windowEnd, sectorEnd)
                let first = bytes.count - Int(windowEnd - offset)
                look(
                    at: isZero ? [] : bytes[first..<first + Int(next - offset)], offset..<next)
                offset = next
            }
        }
    }

    /// - Parameter piece: the bytes of the range; none where all are zeros.
    private mutating func look(at piece: ArraySlice<UInt8>, _ range: Range<UInt64>) {
        guard let last = piece.lastIndex(where: { $0 != 0 }) else {
            if let known = zeros.last, known.upperBound == range.lowerBound {
                zeros[zeros.count - 1] = known.lowerBound..<range.upperBound
            } else {
                zeros.append(range)
            }
            return
        }
        nonzeroCount += piece.count { $0 != 0 }
        setBitCount += piece.reduce(0) { $0 + $1.nonzeroBitCount }
        if firstNonzero == nil {
            let first = piece.firstIndex { $0 != 0 } ?? last
            firstNonzero = range.lowerBound + UInt64(first - piece.startIndex)
        }
        end = range.lowerBound + UInt64(last - piece.startIndex) + 1
    }

    /// Whether the file ends before `range` does.
    private func isShort(_ range: Range<UInt64>) -> Bool { range.upperBound > fileByteCount }

    /// Whether a piece of `range` is not there: it holds zeros, or the file ends before it.
    private func isMissing(_ range: Range<UInt64>) -> Bool {
        isShort(range) || zeros.contains { $0.overlaps(range) }
    }

    private var torn: Judgement { .torn(byteCount: end - start) }

    private func damage(_ what: String, at offset: UInt64? = nil) -> Judgement {
        .damage(offset: offset ?? start, what: what)
    }

    private func isBeyond(_ byteCount: Int) -> Judgement? {
        let limit = start + UInt64(byteCount)
        return end > limit ? damage("bytes where no write can have put them", at: limit) : nil
    }

    // MARK: A block

    /// - Parameter bytes: of the block, as many as the file has.
    private func judgement(
        of header: BlockHeader, _ sections: [BlockSectionEntry], _ bytes: [UInt8]
    ) -> Judgement {
        if let judgement = isBeyond(header.byteCount) { return judgement }
        let wholly = damage("a block that is wholly there and cannot be read")
        let isShort = self.isShort(start..<start + UInt64(header.byteCount))
        let bad = sections.filter { section in
            let end = section.offset + section.byteCount
            return end > bytes.count
                || Checksum.crc32c(bytes[section.offset..<end]) != section.checksum
        }
        guard isShort || !bad.isEmpty else { return wholly }
        for section in bad {
            let place = start + UInt64(section.offset)
            if !isMissing(place..<place + UInt64(section.byteCount)) { return wholly }
        }
        // Zeros may be what was written: then one bad section can be one flipped bit.
        if !isShort, bad.count == 1, Self.isOneBit(off: bad[0], in: bytes) { return wholly }
        return torn
    }

    private static func isOneBit(off section: BlockSectionEntry, in bytes: [UInt8]) -> Bool {
        let stored = bytes[section.offset..<section.offset + section.byteCount]
        return isOneBit(Checksum.crc32c(stored) ^ section.checksum, byteCount: section.byteCount)
    }

    /// Whether one flipped bit in `byteCount` bytes makes this difference between two CRC-32C.
    static func isOneBit(_ difference: UInt32, byteCount: Int) -> Bool {
        // What the last bit does; each bit before it goes through one more step of the division.
        let polynomial: UInt32 = 0x82F6_3B78
        var effect = polynomial
        for _ in 0..<8 * byteCount {
            if effect == difference { return true }
            effect = effect >> 1 ^ (effect & 1 == 1 ? polynomial : 0)
        }
        return false
    }

    // MARK: A header that cannot be read

    /// - Parameter bytes: the first of the write, as many of a header's fixed part as the file has.
    private func judgement(beginning bytes: [UInt8]) -> Judgement {
        let byteCountMax = BlockDecoder.headerByteCountMax + Limits.blockByteCountMax
        if let judgement = isBeyond(byteCountMax) { return judgement }
        let first = firstNonzero ?? start
        guard first / Self.sectorByteCount == start / Self.sectorByteCount else {
            // One bit, or a few bytes of which the first are not at the start of a sector, as the rest of a write is of
            // which a sector is missing.
            let isStray =
                setBitCount == 1
                || nonzeroCount < Self.writtenByteCountMin && first % Self.sectorByteCount >= 8
            return isStray ? damage("stray bytes behind the last block", at: first) : torn
        }
        // A sector ends at a multiple of 8, so that what begins in it shows its magic and its length.
        let isBlock = Self.begins(bytes, BlockLayout.magic)
        guard isBlock || Self.begins(bytes, SegmentFooter.magic) else {
            return damage("bytes that begin no block")
        }
        typealias Field = BlockLayout.Header
        guard bytes.count >= Field.byteCount.offset else { return torn }
        guard isBlock else { return damage("a footer's magic behind which there is none") }
        let headerByteCount = Int(bytes.littleEndian(Field.headerByteCount))
        guard isPlausible(headerByteCount, bytes) else {
            return damage("a block header of \(headerByteCount) bytes")
        }
        return isMissing(start..<start + UInt64(headerByteCount))
            ? torn : damage("a block header that is wholly there and cannot be read")
    }

    /// Whether a header can be so long, as far as what arrived of it tells.
    private func isPlausible(_ headerByteCount: Int, _ bytes: [UInt8]) -> Bool {
        let sizes = BlockLayout.headerByteCountMin...BlockDecoder.headerByteCountMax
        guard sizes.contains(headerByteCount) else { return false }
        let field = BlockLayout.Header.sectionCount
        let place = start + UInt64(field.offset)
        if isMissing(place..<place + UInt64(field.byteCount)) { return true }
        let sectionCount = Int(bytes.littleEndian(field))
        return headerByteCount
            == BlockLayout.headerByteCountMin + sectionCount * BlockLayout.sectionEntryByteCount
    }

    /// Whether these bytes are a sound block header but for the magic, which is one flipped bit away from
    /// that of a footer.
    private static func isBlockHeader(_ bytes: [UInt8]) -> Bool {
        typealias Field = BlockLayout.Header
        guard bytes.count >= BlockLayout.headerByteCountMin else { return false }
        let byteCount = Int(bytes.littleEndian(Field.headerByteCount))
        guard byteCount >= BlockLayout.headerByteCountMin, byteCount <= bytes.count else {
            return false
        }
        let magic = (0..<4).map { UInt8(truncatingIfNeeded: BlockLayout.magic >> (8 * $0)) }
        let before = Checksum.crc32c(magic + bytes[4..<Field.headerChecksum.offset])
        let checksum = Checksum.crc32c(bytes[Field.headerChecksum.end..<byteCount], seed: before)
        return UInt64(checksum) == bytes.littleEndian(Field.headerChecksum)
    }

    private static func begins(_ bytes: [UInt8], _ magic: UInt32) -> Bool {
        bytes.prefix(4).enumerated().allSatisfy { index, byte in
            byte == UInt8(truncatingIfNeeded: magic >> UInt32(8 * index))
        }
    }

    // MARK: A footer

    /// - Parameter bytes: the last of the file, as many as a trailer has.
    private func judgement(footerEnding bytes: [UInt8]) -> Judgement {
        let byteCountMax = Limits.footerByteCountMax + SegmentTrailer.byteCount
        if let judgement = isBeyond(byteCountMax) { return judgement }
        // A footer that is wholly there ends its file; a flipped bit leaves one of the two as it was.
        let hasTrailer =
            bytes.count == SegmentTrailer.byteCount
            && (Self.begins(bytes, SegmentTrailer.magic)
                || bytes.littleEndian(SegmentTrailer.layout.footerOffset) == start)
        if !hasTrailer || isMissing(start..<fileByteCount) { return torn }
        return damage("a footer that is wholly there and cannot be read")
    }
}

extension [UInt8] {
    /// An unsigned field of at most 8 bytes, all of which are there.
    fileprivate func littleEndian(_ field: FormatField) -> UInt64 {
        self[field.offset..<field.offset + field.byteCount].reversed().reduce(0) {
            $0 << 8 | UInt64($1)
        }
    }
}
