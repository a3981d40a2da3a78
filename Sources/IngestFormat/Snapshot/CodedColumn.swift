// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
import CIngestLinux

/// One column of a page where it lies, coded: its head is read and checked, its values not yet. It is
/// passed over by that alone; it gives all of its values, or a single one. It does not own its bytes.
///
/// **Layout** that of `CounterColumnCodec`.
/// **Errors** of everything here: `torn` where the bytes end, `corrupt` for a form, patch, padding bit or
/// value that the encoder cannot have written. What is not read is not checked.
/// **Cost** 3–5 ns to pass over; a single value as much again, and 1 ns a patch.
@safe struct CodedColumn {
    /// Values of the column; 0 … 1024.
    let count: Int
    private(set) var width = 0
    private(set) var base: UInt64 = 0
    private var patchCount = 0
    private var patchWidth = 0
    /// Of the form, and of the first part behind the head.
    private var offset: Int
    private var partsOffset = 0
    private var values: UnsafeRawPointer
    private var places: UnsafeRawPointer
    private var highs: UnsafeRawPointer

    /// Whether all values are `base`.
    var isConstant: Bool { width == 0 && patchCount == 0 }
    var isZero: Bool { isConstant && base == 0 }

    /// Reads the head of the next column and goes past the column.
    @inline(__always)
    init(_ reader: inout ColumnReader, count: Int) throws(FormatError) {
        self.count = count
        offset = reader.offset
        let form = try reader.u8("column form", in: 0...UInt8.max)
        width = Int(form & ~CounterColumnCodec.patchedBit)
        base = try reader.varint("column base", in: 0...UInt64.max)
        // SAFETY: no bytes at all, for what is set below where there is anything.
        unsafe values = try reader.packed("column values", count: 0, width: 0)
        unsafe (places, highs) = (values, values)
        if form == 0 { return }
        try readParts(&reader, isPatched: form & CounterColumnCodec.patchedBit != 0)
    }

    private mutating func readParts(
        _ reader: inout ColumnReader, isPatched: Bool
    ) throws(FormatError) {
        guard width <= 64, !isPatched || (width < 64 && count > 1) else {
            let form = UInt8(width) | (isPatched ? CounterColumnCodec.patchedBit : 0)
            throw .corrupt("column form", at: offset, got: form, expected: .atMost(64))
        }
        if isPatched {
            patchCount = Int(try reader.varint("patch count", in: 1...UInt64(count - 1)))
            patchWidth = Int(try reader.u8("patch width", in: 1...UInt8(64 - width)))
        }
        partsOffset = reader.offset
        unsafe values = try reader.packed("column values", count: count, width: width)
        unsafe places = try reader.packed(
            "patch places", count: patchCount, width: CounterColumnCodec.placeWidth)
        unsafe highs = try reader.packed("patch values", count: patchCount, width: patchWidth)
    }

    /// Decodes all values.
    /// - Parameter target: room for `count` values.
    func decode(into target: UnsafeMutablePointer<UInt64>) throws(FormatError) {
        guard !isConstant else {
            // SAFETY: the caller has room for count values.
            return unsafe target.update(repeating: base, count: count)
        }
        try checkPadding()
        if width == 0 {
            unsafe target.update(repeating: base, count: count)
        } else {
            unsafe unpackValues(into: target)
        }
        if patchCount > 0 { try unsafe addPatches(to: target) }
        guard canOverflow else { return }
        // A wrapped sum is below the base.
        for i in 0..<count where unsafe target[i] < base {
            throw unsafe wrapped(target[i])
        }
    }

    private func unpackValues(into target: UnsafeMutablePointer<UInt64>) {
        // SAFETY: the head was read past count values of width, all of which are there.
        if unsafe ingest_unpack(target, values, count, UInt32(width), base) { return }
        unsafe BitPacking.unpack(count: count, width: width, from: values) {
            unsafe target[$0] = base &+ $1
        }
    }

    /// One value, without those before it.
    /// - Parameter row: 0 ..< count.
    func value(at row: Int) throws(FormatError) -> UInt64 {
        precondition(row >= 0 && row < count)
        guard !isConstant else { return base }
        try checkPadding()
        // SAFETY: row < count, and count values of width are there.
        var bits = unsafe BitPacking.value(row, count: count, width: width, from: values)
        if let patch = try patch(of: row) {
            // SAFETY: patch < patchCount, and so many of patchWidth are there.
            let high = unsafe BitPacking.value(
                patch, count: patchCount, width: patchWidth, from: highs)
            guard high != 0 else { throw badPatches }
            bits |= high &<< UInt64(truncatingIfNeeded: width)
        }
        let (value, overflow) = base.addingReportingOverflow(bits)
        if overflow { throw wrapped(value) }
        return value
    }

    /// Which patch is that of `row`. All places are looked at: they ascend, or none of them is believed.
    private func patch(of row: Int) throws(FormatError) -> Int? {
        var found: Int?
        var last = -1
        for patch in 0..<patchCount {
            // SAFETY: patch < patchCount, and so many places are there.
            let place = unsafe Int(
                truncatingIfNeeded: BitPacking.value(
                    patch, count: patchCount, width: CounterColumnCodec.placeWidth, from: places))
            guard place > last, place < count else { throw badPatches }
            if place == row { found = patch }
            last = place
        }
        return found
    }

    private func addPatches(to target: UnsafeMutablePointer<UInt64>) throws(FormatError) {
        let shift = UInt64(truncatingIfNeeded: width)
        let isValid = unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: patchCount) {
            room in
            // SAFETY: unpack gives the indices 0 ..< patchCount; a place is used only after it was
            // found to be below count.
            let place = room.baseAddress!
            unsafe BitPacking.unpack(
                count: patchCount, width: CounterColumnCodec.placeWidth, from: places
            ) {
                unsafe place[$0] = $1
            }
            var isValid = unsafe place[patchCount &- 1] < UInt64(count)
            for i in 1..<max(patchCount, 1) {
                let ascends = unsafe place[i &- 1] < place[i]
                isValid = isValid && ascends
            }
            guard isValid else { return false }
            unsafe BitPacking.unpack(count: patchCount, width: patchWidth, from: highs) {
                isValid = isValid && $1 != 0
                unsafe target[Int(place[$0])] &+= $1 &<< shift
            }
            return isValid
        }
        guard isValid else { throw badPatches }
    }

    /// The bits behind each of the three parts are zero.
    private func checkPadding() throws(FormatError) {
        var end = partsOffset
        try unsafe checkPadding("column values", values, count: count, width: width, &end)
        guard patchCount > 0 else { return }
        try unsafe checkPadding(
            "patch places", places, count: patchCount, width: CounterColumnCodec.placeWidth, &end)
        try unsafe checkPadding("patch values", highs, count: patchCount, width: patchWidth, &end)
    }

    private func checkPadding(
        _ part: String, _ bytes: UnsafeRawPointer, count: Int, width: Int, _ end: inout Int
    ) throws(FormatError) {
        end &+= BitPacking.byteCount(count, width: width)
        // SAFETY: count values of width are there.
        guard unsafe BitPacking.isPaddingZero(count: count, width: width, from: bytes) else {
            throw .corrupt(part, at: end - 1, got: 1, expected: .exactly(0))
        }
    }

    /// Whether a value of so many bits can pass 64 bits with the base.
    private var canOverflow: Bool {
        base.addingReportingOverflow(BitPacking.mask(width: width + patchWidth)).overflow
    }

    private var badPatches: FormatError {
        .corrupt("patches", at: partsOffset, got: patchCount, expected: .atMost(count - 1))
    }

    private func wrapped(_ value: UInt64) -> FormatError {
        .corrupt("column value", at: partsOffset, got: value, expected: .atLeast(base))
    }
}
