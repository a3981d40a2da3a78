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
    /// Fewer bytes are left by no write.
    private static let writtenByteCountMin = 16

    private let start: UInt64
    private let fileByteCount: UInt64
    /// Behind the last byte that is not zero.
    private let end: UInt64
    private var firstNonzero: UInt64?
    private var nonzeroCount = 0
    private var setBitCount = 0
    /// Pieces of zeros.
    private var zeros: [Range<UInt64>] = []

    /// Looks at the bytes of `file` from `start`, where `beginning` was found, to its end.
    /// - Returns: `nil` where there is nothing but zeros.
    static func judge(
        _ file: some StorageFile, from start: UInt64, _ beginning: Beginning
    ) throws(StorageError) -> Judgement? {
        do { return try judgement(file, from: start, beginning) } catch {
            // No crash leaves bytes that the disk cannot read.
            guard case .corrupt(_, let offset, let detail) = error else { throw error }
            return .damage(offset: offset, what: detail)
        }
    }

    private static func judgement(
        _ file: some StorageFile, from start: UInt64, _ beginning: Beginning
    ) throws(StorageError) -> Judgement? {
        let judge = try TailJudge(file, from: start)
        if judge.end == start { return nil }
        func bytes(_ count: Int, at offset: UInt64? = nil) throws(StorageError) -> [UInt8] {
            try file.readArray(at: offset ?? start, byteCount: count)
        }
        switch beginning {
        case .block(let header):
            let buffer = ReadBuffer()
            try buffer.read(file, at: start, byteCount: header.byteCount)
            let sections = buffer.withBytes { try? BlockDecoder().sections($0) }
            return judge.judgement(
                of: header, sections ?? [], buffer.array(0..<buffer.byteCount))
        case .footer:
            if Self.isBlockHeader(try bytes(BlockDecoder.headerByteCountMax)) {
                return judge.damage("a block with a footer's magic")
            }
            let last = min(UInt64(SegmentTrailer.byteCount), judge.fileByteCount)
            return judge.judgement(
                footerEnding: try bytes(Int(last), at: judge.fileByteCount - last))
        case .unknown:
            return judge.judgement(beginning: try bytes(BlockLayout.headerByteCountMin))
        }
    }

    // MARK: What lies there

    private init(_ file: some StorageFile, from start: UInt64) throws(StorageError) {
        (self.start, fileByteCount) = (start, try file.byteCount())
        end = try file.endOfContent(in: start..<max(start, fileByteCount))
        var offset = start
        while offset < fileByteCount {
            let sectorEnd = offset - offset % Self.sectorByteCount + Self.sectorByteCount
            // Most of what was preallocated is zeros, behind all content.
            let next = offset < end ? min(fileByteCount, sectorEnd) : fileByteCount
            let count = offset < end ? Int(next - offset) : 0
            let bytes = try file.readArray(at: offset, byteCount: count)
            if let first = bytes.firstIndex(where: { $0 != 0 }) {
                firstNonzero = firstNonzero ?? offset + UInt64(first)
                nonzeroCount += bytes.count { $0 != 0 }
                setBitCount += bytes.reduce(0) { $0 + $1.nonzeroBitCount }
            } else {
                zeros.append(offset..<next)
            }
            offset = next
        }
    }

    /// Whether a piece of these bytes is not there: it holds zeros, or the file ends before it.
    private func isMissing(_ offset: UInt64, _ byteCount: Int) -> Bool {
        let range = offset..<offset + UInt64(byteCount)
        return range.upperBound > fileByteCount || zeros.contains { $0.overlaps(range) }
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
        let isShort = start + UInt64(header.byteCount) > fileByteCount
        let bad = sections.filter { section in
            let end = section.offset + section.byteCount
            return end > bytes.count
                || Checksum.crc32c(bytes[section.offset..<end]) != section.checksum
        }
        guard isShort || !bad.isEmpty,
            bad.allSatisfy({ isMissing(start + UInt64($0.offset), $0.byteCount) })
        else { return wholly }
        // Zeros may be what was written: then one bad section can be one flipped bit.
        if !isShort, bad.count == 1 {
            let stored = bytes[bad[0].offset..<bad[0].offset + bad[0].byteCount]
            let difference = Checksum.crc32c(stored) ^ bad[0].checksum
            if Self.isOneBit(difference, byteCount: stored.count) { return wholly }
        }
        return torn
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
        let byteCountMax = BlockBuffer.capacity
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
        return isMissing(start, headerByteCount)
            ? torn : damage("a block header that is wholly there and cannot be read")
    }

    /// Whether a header can be so long, as far as what arrived of it tells.
    private func isPlausible(_ headerByteCount: Int, _ bytes: [UInt8]) -> Bool {
        let sizes = BlockLayout.headerByteCountMin...BlockDecoder.headerByteCountMax
        guard sizes.contains(headerByteCount) else { return false }
        let field = BlockLayout.Header.sectionCount
        if isMissing(start + UInt64(field.offset), field.byteCount) { return true }
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
        if !hasTrailer || isMissing(start, Int(fileByteCount - start)) { return torn }
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
