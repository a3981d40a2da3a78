// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

import IngestFormat
import IngestStorage

/// Tells an unfinished write behind the last block of a log from damage.
///
/// A block is one write over zeros that were preallocated. A disk writes sectors of 512 bytes whole or not
/// at all, so an unfinished block *misses* sectors: somewhere in it a whole sector still holds zeros. Bytes
/// that miss nothing and still fail their checksums have been changed, and so have bytes where no block
/// can have put them.
struct TailJudge {
    enum Judgement: Equatable {
        /// Nothing but zeros.
        case empty
        /// `byteCount` bytes of a write that did not finish.
        case torn(byteCount: UInt64)
        case damage(offset: UInt64, what: String)
    }

    private static let sectorByteCount: UInt64 = 512
    private static let windowByteCount: UInt64 = 16 << 10
    /// Less than the smallest piece of a block that is worth the name; a few stray bits are no write.
    private static let nonzeroByteCountMin = 16
    /// A sector that holds only the last bytes of a block may be all padding.
    private static let paddingByteCountMax: UInt64 = 8

    private static let blockByteCountMax =
        BlockDecoder.headerByteCountMax + Limits.blockByteCountMax

    /// What a write began as.
    enum Beginning {
        /// A block of this byte count: its header can be believed.
        case block(byteCount: Int)
        case footer
        case unknown

        fileprivate var byteCountMax: UInt64 {
            switch self {
            case .block(let byteCount): UInt64(byteCount)
            case .footer: UInt64(Limits.footerByteCountMax)
            case .unknown: UInt64(TailJudge.blockByteCountMax)
            }
        }
    }

    /// Where the last whole block ends.
    private let start: UInt64
    private let beginning: Beginning
    private let fileByteCount: UInt64

    // What is found in the bytes from `start` on.
    private var firstNonzero: UInt64?
    private var contentEnd: UInt64
    private var nonzeroCount = 0
    /// Sector-aligned pieces that hold zeros only, between bytes that are not.
    private var missing: [Range<UInt64>] = []
    private var zeroPieceStart: UInt64?

    private init(start: UInt64, beginning: Beginning, fileByteCount: UInt64) {
        self.start = start
        self.beginning = beginning
        self.fileByteCount = fileByteCount
        contentEnd = start
    }

    /// Looks at the bytes of `file` from `start`, where `beginning` was found, to its end.
    static func judge(
        _ file: some StorageFile, from start: UInt64, _ beginning: Beginning
    ) throws(StorageError) -> Judgement {
        let end = try file.byteCount()
        var tail = TailJudge(start: start, beginning: beginning, fileByteCount: end)
        let buffer = ReadBuffer(capacity: Int(windowByteCount))
        var offset = start
        while offset < end {
            // Windows end at sectors, so that no sector is looked at in two pieces.
            let window = min(end - offset, windowByteCount - offset % sectorByteCount)
            try buffer.read(file, at: offset, byteCount: Int(window))
            if buffer.byteCount == 0 { break }
            // Most of what was preallocated is zeros, which is seen at once.
            if buffer.isZero {
                if tail.zeroPieceStart == nil { tail.zeroPieceStart = offset }
            } else {
                tail.look(at: buffer.array(0..<buffer.byteCount)[...], from: offset)
            }
            offset += UInt64(buffer.byteCount)
        }
        return tail.judgement
    }

    /// Takes the next bytes; all but the last call end at a sector's end.
    private mutating func look(at bytes: ArraySlice<UInt8>, from offset: UInt64) {
        var place = bytes.startIndex
        var offset = offset
        while place < bytes.endIndex {
            let left = Self.sectorByteCount - offset % Self.sectorByteCount
            let end = min(bytes.endIndex, place + Int(left))
            look(atPiece: bytes[place..<end], from: offset)
            offset += UInt64(end - place)
            place = end
        }
    }

    private mutating func look(atPiece piece: ArraySlice<UInt8>, from offset: UInt64) {
        guard let last = piece.lastIndex(where: { $0 != 0 }) else {
            if zeroPieceStart == nil { zeroPieceStart = offset }
            return
        }
        if let zeroPieceStart { missing.append(zeroPieceStart..<offset) }
        zeroPieceStart = nil
        nonzeroCount += piece.count { $0 != 0 }
        if firstNonzero == nil {
            let first = piece.firstIndex { $0 != 0 } ?? last
            firstNonzero = offset + UInt64(first - piece.startIndex)
        }
        contentEnd = offset + UInt64(last - piece.startIndex) + 1
    }

    private var judgement: Judgement {
        guard let firstNonzero else { return .empty }
        let limit = start + beginning.byteCountMax
        if contentEnd > limit {
            return .damage(offset: limit, what: "bytes where no block can have put them")
        }
        if nonzeroCount < Self.nonzeroByteCountMin {
            return .damage(offset: firstNonzero, what: "stray bytes behind the last block")
        }
        if isMissingSector { return .torn(byteCount: contentEnd - start) }
        return .damage(offset: start, what: "a write that is wholly there and cannot be read")
    }

    /// Whether some sector of the write is not there.
    private var isMissingSector: Bool {
        if !missing.isEmpty { return true }
        let lastSectorEnd =
            (contentEnd + Self.sectorByteCount - 1) / Self.sectorByteCount * Self.sectorByteCount
        switch beginning {
        case .block(let byteCount):
            return start + UInt64(byteCount) > lastSectorEnd + Self.paddingByteCountMax
        case .footer:
            // A footer that is wholly there is the end of its file.
            return contentEnd + UInt64(SegmentTrailer.byteCount) < fileByteCount
        case .unknown:
            // The header cannot be read: with all that came it fails only if it was cut itself.
            return contentEnd == lastSectorEnd
                && contentEnd - start < UInt64(BlockDecoder.headerByteCountMax)
        }
    }
}
