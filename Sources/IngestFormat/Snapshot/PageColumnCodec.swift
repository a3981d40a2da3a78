// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
import CIngestLinux

/// One column of a page, of counters or of names: values packed as differences from their smallest, the few largest
/// apart. Without these, in *plain* columns, any value can be read by itself.
///
/// Most counters of most keys are 0 and some are not; a page's impressions lie close together but for
/// its one popular reward. So a column is a *base*, `width` low bits of every value less the base, and
/// *patches*, the high bits of the values that need more. A column of equal values costs two bytes.
///
/// **Layout** `form` u8: width (0–64) in bits 0–6, bit 7 = patches follow; base varint; if patched: patch
/// count varint (1 … count − 1), patch width u8 (1 … 64 − width); then, each padded with zero bits to a
/// whole byte: the low bits of all values, the patches' places (10 bits, ascending), their high bits
/// (not zero).
///
/// **Cost** 1–2 ns a value to encode, 0.2–0.4 ns to decode (2 and 1 without AVX2); some ns in all for a column
/// of zeros.
enum PageColumnCodec {
    static let patchedBit: UInt8 = 0x80
    /// Bits of a row's place in its page.
    static let placeWidth = 10
    /// Bytes that the encoder may write beyond its result.
    static let slackByteCount = 16
    /// The most that a column of `count` values takes: form, base and plain packing.
    static func byteCountMax(_ count: Int) -> Int { 1 + 10 + 8 * count }

    /// Encodes `count` (0 … 1024) values.
    /// - Parameter target: room for `byteCountMax(count)` and `slackByteCount` bytes.
    /// - Returns: the bytes written.
    static func encode(
        _ values: UnsafePointer<UInt64>, count: Int, isPlain: Bool = false,
        to target: UnsafeMutableRawPointer
    ) -> Int {
        let (base, top) = unsafe range(values, count: count)
        let spanWidth = BitPacking.width(max: top &- base)
        let (width, patchCount) =
            spanWidth == 0 || isPlain
            ? (spanWidth, 0) : unsafe plan(values, count: count, base: base, spanWidth)
        let form = UInt8(truncatingIfNeeded: width) | (patchCount > 0 ? patchedBit : 0)
        // SAFETY: every write is inside byteCountMax: a patched column is smaller than a plain one.
        unsafe target.storeBytes(of: form, as: UInt8.self)
        var end = unsafe 1 &+ writeVarint(base, to: target + 1)
        if patchCount > 0 {
            unsafe end &+= writeVarint(UInt64(truncatingIfNeeded: patchCount), to: target + end)
            unsafe target.storeBytes(
                of: UInt8(truncatingIfNeeded: spanWidth &- width), toByteOffset: end, as: UInt8.self
            )
            end &+= 1
        }
        end &+= unsafe pack(values, count: count, width: width, base: base, to: target + end)
        guard patchCount > 0 else { return end }
        let patches = ColumnPatches(
            base: base, width: width, highWidth: spanWidth &- width, count: patchCount)
        return unsafe end
            &+ writePatches(patches, of: values, count: count, to: target + end)
    }

    private struct ColumnPatches {
        var base: UInt64
        var width: Int
        var highWidth: Int
        var count: Int
    }

    /// The places and the high bits of the values that need more than the width.
    private static func writePatches(
        _ patches: ColumnPatches, of values: UnsafePointer<UInt64>, count: Int,
        to target: UnsafeMutableRawPointer
    ) -> Int {
        let shift = UInt64(truncatingIfNeeded: patches.width)
        return unsafe withUnsafeTemporaryAllocation(
            of: UInt16.self, capacity: patches.count &+ 4
        ) { room in
            let places = room.baseAddress!
            let found = unsafe findPlaces(patches, of: values, count: count, into: places)
            let end = unsafe BitPacking.pack(count: found, width: placeWidth, to: target) {
                unsafe UInt64(places[$0])
            }
            return unsafe end
                &+ BitPacking.pack(count: found, width: patches.highWidth, to: target + end) {
                    unsafe (values[Int(places[$0])] &- patches.base) &>> shift
                }
        }
    }

    /// The places of the values that need more than the width, which the plan has counted.
    /// - Parameter places: room for four more than there are.
    private static func findPlaces(
        _ patches: ColumnPatches, of values: UnsafePointer<UInt64>, count: Int,
        into places: UnsafeMutablePointer<UInt16>
    ) -> Int {
        let width = UInt32(truncatingIfNeeded: patches.width)
        // SAFETY: count values are there. Vectors compare values below 2^63 alone.
        if patches.width &+ patches.highWidth < 64,
            unsafe ingest_column_places(values, count, patches.base, width, places)
        {
            return patches.count
        }
        var found = 0
        for i in 0..<count {
            // SAFETY: a place is written for each value, and stays if it is one of those.
            unsafe places[found] = UInt16(truncatingIfNeeded: i)
            found &+= unsafe (values[i] &- patches.base) &>> UInt64(width) != 0 ? 1 : 0
        }
        return found
    }

    /// The low bits of all values.
    private static func pack(
        _ values: UnsafePointer<UInt64>, count: Int, width: Int, base: UInt64,
        to target: UnsafeMutableRawPointer
    ) -> Int {
        guard width > 0 else { return 0 }
        // SAFETY: the target has room for the result and the slack that packers ask for.
        if unsafe ingest_pack(target, values, count, UInt32(width), base) {
            return BitPacking.byteCount(count, width: width)
        }
        let mask = BitPacking.mask(width: width)
        return unsafe BitPacking.pack(count: count, width: width, to: target) {
            unsafe (values[$0] &- base) & mask
        }
    }

    /// The least and the greatest value.
    private static func range(
        _ values: UnsafePointer<UInt64>, count: Int
    ) -> (base: UInt64, top: UInt64) {
        guard count > 0 else { return (0, 0) }
        // SAFETY: count values are there, one at least.
        var base = unsafe values[0]
        var top = base
        if unsafe isConstant(values, count: count) { return (base, base) }
        if unsafe ingest_column_range(values, count, &base, &top) { return (base, top) }
        for i in 1..<count {
            // SAFETY: i < count.
            let value = unsafe values[i]
            base = min(base, value)
            top = max(top, value)
        }
        return (base, top)
    }

    /// Whether all values are the same: what most columns of most pages are. It looks no further than to
    /// the first that is another, and a few beyond.
    private static func isConstant(_ values: UnsafePointer<UInt64>, count: Int) -> Bool {
        let first = unsafe values[0]
        var place = 0
        while place < count {
            let end = min(place &+ 32, count)
            var difference: UInt64 = 0
            // SAFETY: end ≤ count.
            for i in place..<end { unsafe difference |= values[i] ^ first }
            if difference != 0 { return false }
            place = end
        }
        return true
    }

    /// The width that makes the column smallest, and how many values need patches then.
    ///
    /// Widths are tried from the largest down. The fewer bits, the more patches, and each of them takes
    /// more: once the patches alone take more than the best width in all, no smaller width is better.
    private static func plan(
        _ values: UnsafePointer<UInt64>, count: Int, base: UInt64, _ spanWidth: Int
    ) -> (width: Int, patchCount: Int) {
        var best = (width: spanWidth, patchCount: 0)
        var bestBitCount = count &* spanWidth
        var counts = ColumnWidthCounts(base: base, spanWidth: spanWidth)
        for width in stride(from: spanWidth &- 1, through: 0, by: -1) {
            let patchCount = unsafe counts.patchCount(values, count: count, width: width)
            // Two varint bytes at most, the patch width, and padding of two more packed parts.
            let patchBitCount = patchCount &* (placeWidth &+ spanWidth &- width) &+ 38
            if count &* width &+ patchBitCount < bestBitCount {
                bestBitCount = count &* width &+ patchBitCount
                best = (width, patchCount)
            }
            if patchBitCount >= bestBitCount { break }
        }
        return best
    }

    private static func writeVarint(_ value: UInt64, to target: UnsafeMutableRawPointer) -> Int {
        var rest = value
        var count = 0
        while rest >= 0x80 {
            // SAFETY: at most ten bytes, for which the caller has room.
            unsafe target.storeBytes(
                of: UInt8(truncatingIfNeeded: rest) | 0x80, toByteOffset: count, as: UInt8.self)
            rest >>= 7
            count &+= 1
        }
        unsafe target.storeBytes(
            of: UInt8(truncatingIfNeeded: rest), toByteOffset: count, as: UInt8.self)
        return count &+ 1
    }
}

extension PageColumnCodec {
    /// The most that a plain column of `count` values of 32 bits takes.
    static func plainByteCountMax(_ count: Int) -> Int { 1 + 5 + 4 * count }

    /// Appends the plain column of `value(0) ..< value(count)` to a page.
    static func append(count: Int, to page: inout [UInt8], _ value: (Int) -> UInt32) {
        unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: count &+ 1) { values in
            for place in 0..<count { unsafe values[place] = UInt64(value(place)) }
            let start = page.count
            let room = plainByteCountMax(count) + slackByteCount
            page.append(contentsOf: repeatElement(0, count: room))
            let byteCount = unsafe page.withUnsafeMutableBytes { target in
                // SAFETY: both have the room that `encode` asks for.
                unsafe encode(
                    values.baseAddress!, count: count, isPlain: true,
                    to: target.baseAddress! + start)
            }
            page.removeLast(room - byteCount)
        }
    }
}

/// Reads the parts of coded columns, and throws where a value cannot be. It does not own the bytes, which
/// must stay where they are while it is used.
///
/// **Errors** `torn` where the bytes end, `corrupt` where a value is out of its range; each with the part's
/// name and offset.
@safe struct ColumnReader {
    private let bytes: UnsafeRawBufferPointer
    private(set) var offset = 0

    @unsafe init(_ bytes: UnsafeRawBufferPointer) { unsafe self.bytes = bytes }

    var remainingByteCount: Int { unsafe bytes.count &- offset }

    mutating func u8(_ part: String, in range: ClosedRange<UInt8>) throws(FormatError) -> UInt8 {
        let at = offset
        guard remainingByteCount > 0 else { throw torn(part, 1) }
        // SAFETY: a byte remains.
        let found = unsafe bytes[at]
        offset = at &+ 1
        try Self.check(
            UInt64(found), UInt64(range.lowerBound)...UInt64(range.upperBound), part, at)
        return found
    }

    mutating func varint(
        _ part: String, in range: ClosedRange<UInt64>
    ) throws(FormatError) -> UInt64 {
        let at = offset
        // Nearly all are of one byte.
        // SAFETY: a byte remains where it is looked at.
        if remainingByteCount > 0, unsafe bytes[at] < 0x80 {
            offset = at &+ 1
            let found = unsafe UInt64(bytes[at])
            try Self.check(found, range, part, at)
            return found
        }
        // SAFETY: the reader lives no longer than this call.
        var reader = unsafe ByteReader(bytes)
        guard reader.seek(to: at), let found = reader.readVarint() else { throw torn(part, 1) }
        offset = reader.offset
        try Self.check(found, range, part, at)
        return found
    }

    /// Goes past the next `count` packed values of `width` bits.
    /// - Returns: where they begin; `BitPacking.byteCount(count, width: width)` bytes are there.
    @inline(__always)
    mutating func packed(
        _ part: String, count: Int, width: Int
    ) throws(FormatError) -> UnsafeRawPointer {
        let byteCount = BitPacking.byteCount(count, width: width)
        guard byteCount <= remainingByteCount, let base = unsafe bytes.baseAddress else {
            throw torn(part, byteCount)
        }
        defer { offset &+= byteCount }
        // SAFETY: offset + byteCount ≤ the bytes' count.
        return unsafe base + offset
    }

    private func torn(_ part: String, _ byteCount: Int) -> FormatError {
        unsafe .torn(part, at: offset, available: bytes.count, needed: offset + byteCount)
    }

    @inline(__always)
    private static func check(
        _ found: UInt64, _ range: ClosedRange<UInt64>, _ part: String, _ offset: Int
    ) throws(FormatError) {
        if found < range.lowerBound {
            throw .corrupt(part, at: offset, got: found, expected: .atLeast(range.lowerBound))
        }
        if found > range.upperBound {
            throw .corrupt(part, at: offset, got: found, expected: .atMost(range.upperBound))
        }
    }
}
