// packet → decode → ring → admit → block → [segment] → compaction → snapshot → query

import IngestFormat
import IngestStorage

/// What lies in a file from some place on, sector by sector: where there are bytes, and where only zeros.
///
/// A disk writes sectors of 512 bytes whole or not at all. What was written over preallocated zeros and did
/// not arrive is therefore a *piece* of zeros: a whole sector, or the part of one behind `start`.
///
/// **Cost** Reads the file from `start` to its end once; zeros at about 5 GB/s.
struct TailContent {
    private static let sectorByteCount: UInt64 = 512
    private static let windowByteCount: UInt64 = 16 << 10

    let start: UInt64
    let fileByteCount: UInt64
    private(set) var firstNonzero: UInt64?
    /// Behind the last byte that is not zero.
    private(set) var end: UInt64
    private var nonzeroCount = 0
    private var setBitCount = 0
    /// Pieces of zeros, joined where they touch.
    private var zeros: [Range<UInt64>] = []

    init(_ file: some StorageFile, from start: UInt64) throws(StorageError) {
        self.start = start
        fileByteCount = try file.byteCount()
        end = start
        let buffer = ReadBuffer(capacity: Int(Self.windowByteCount))
        var offset = start
        while offset < fileByteCount {
            // Windows end at sectors, so that no sector is looked at in two pieces.
            let window = min(
                fileByteCount - offset, Self.windowByteCount - offset % Self.sectorByteCount)
            try buffer.read(file, at: offset, byteCount: Int(window))
            if buffer.byteCount == 0 { break }
            // Most of what was preallocated is zeros, which is seen at once.
            if buffer.isZero {
                addZeros(offset..<offset + UInt64(buffer.byteCount))
            } else {
                look(at: buffer.array(0..<buffer.byteCount)[...], from: offset)
            }
            offset += UInt64(buffer.byteCount)
        }
    }

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
            return addZeros(offset..<offset + UInt64(piece.count))
        }
        nonzeroCount += piece.count { $0 != 0 }
        setBitCount += piece.reduce(0) { $0 + $1.nonzeroBitCount }
        if firstNonzero == nil {
            let first = piece.firstIndex { $0 != 0 } ?? last
            firstNonzero = offset + UInt64(first - piece.startIndex)
        }
        end = offset + UInt64(last - piece.startIndex) + 1
    }

    private mutating func addZeros(_ range: Range<UInt64>) {
        if let last = zeros.last, last.upperBound == range.lowerBound {
            zeros[zeros.count - 1] = last.lowerBound..<range.upperBound
        } else {
            zeros.append(range)
        }
    }

    /// Whether the file ends before `range` does.
    func isShort(_ range: Range<UInt64>) -> Bool { range.upperBound > fileByteCount }

    /// Whether a piece of `range` is not there: it holds zeros, or the file ends before it.
    func isMissing(_ range: Range<UInt64>) -> Bool {
        isShort(range) || zeros.contains { $0.overlaps(range) }
    }

    /// Whether this is less than any write leaves: one bit, or a few bytes of which the first are not at the start
    /// of a sector, as the rest of a write is of which a sector is missing.
    var isStray: Bool {
        guard let firstNonzero else { return false }
        return setBitCount == 1
            || nonzeroCount <= Self.strayByteCountMax && firstNonzero % Self.sectorByteCount >= 8
    }

    private static let strayByteCountMax = 15

    /// Whether there are bytes in the sector in which a write from `start` on begins.
    var beginsAtStart: Bool {
        guard let firstNonzero else { return false }
        return firstNonzero / Self.sectorByteCount == start / Self.sectorByteCount
    }
}
