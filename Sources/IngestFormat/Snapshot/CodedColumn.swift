// packet → decode → ring → admit → block → [segment] → [compaction] → [snapshot] → [query]
import CIngestLinux

/// One column of a page where it lies, coded: its head is read and checked, its values not yet. It is
/// passed over by that alone; it gives all of its values, or a single one. It does not own its bytes.
///
/// **Layout** that of `PageColumnCodec`.
/// **Errors** of everything here: `torn` where the bytes end, `corrupt` for a form, patch, padding bit or
/// value that the encoder cannot have written. What is not read is not checked.
/// **Cost** 3–5 ns to pass over; a single value some ns more, and 1 ns a patch.
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

    /// What no value is above, by the head alone.
    var ceiling: UInt64 {
        let (sum, overflow) = base.addingReportingOverflow(
            BitPacking.mask(width: width + patchWidth))
        return overflow ? .max : sum
    }

    /// Reads the head of the next column and goes past the column.
    @inline(__always)
    init(_ reader: inout ColumnReader, count: Int) throws(FormatError) {
        self.count = count
        offset = reader.offset
        let form = try reader.u8("column form", in: 0...UInt8.max)
        width = Int(form & ~PageColumnCodec.patchedBit)
        base = try reader.varint("column base", in: 0...UInt64.max)
        // SAFETY: no bytes at all, for what is set below where there is anything.
        unsafe values = try reader.packed("column values", count: 0, width: 0)
        unsafe (places, highs) = (values, values)
        if form == 0 { return }
        try readParts(&reader, isPatched: form & PageColumnCodec.patchedBit != 0)
    }

    /// As `init`, of a plain column of 32-bit values; checked but for what its values can be.
    init(plain reader: inout ColumnReader, count: Int) throws(FormatError) {
        try self.init(&reader, count: count)
        guard width <= 32, patchCount == 0 else {
            throw .corrupt(
                "column form", at: offset, got: width + (patchCount > 0 ? 0x80 : 0),
                expected: .atMost(32))
        }
        guard base <= UInt64(UInt32.max) else {
            throw .corrupt("column base", at: offset, got: base, expected: .atMost(UInt32.max))
        }
        try checkPadding()
    }

    /// A value of a plain column, up to 2^33: its user holds it against what it can be.
    ///
    /// **Cost** 2 ns.
    /// - Parameter place: 0 ..< count.
    @inline(__always)
    func value(_ place: Int) -> UInt64 {
        // SAFETY: place < count, and count values of width are there.
        unsafe base &+ BitPacking.value(place, count: count, width: width, from: values)
    }

    /// All values of a plain column.
    /// - Parameter target: room for `count` values.
    func unpack(into target: UnsafeMutablePointer<UInt64>) {
        // SAFETY: as above.
        unsafe BitPacking.unpack(count: count, width: width, from: values, base: base, into: target)
    }

    /// The first place of a value that is not below `wanted`, in a plain column that ascends.
    func lowerBound(_ wanted: UInt64) -> Int {
        (0..<count).firstPlace { value($0) >= wanted }
    }

    private mutating func readParts(
        _ reader: inout ColumnReader, isPatched: Bool
    ) throws(FormatError) {
        guard width <= 64, !isPatched || (width < 64 && count > 1) else {
            let form = UInt8(width) | (isPatched ? PageColumnCodec.patchedBit : 0)
            throw .corrupt("column form", at: offset, got: form, expected: .atMost(64))
        }
        if isPatched {
            patchCount = Int(try reader.varint("patch count", in: 1...UInt64(count - 1)))
            patchWidth = Int(try reader.u8("patch width", in: 1...UInt8(64 - width)))
        }
        partsOffset = reader.offset
        unsafe values = try reader.packed("column values", count: count, width: width)
        unsafe places = try reader.packed(
            "patch places", count: patchCount, width: PageColumnCodec.placeWidth)
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
        // SAFETY: the head was read past count values of width, all of which are there.
        unsafe BitPacking.unpack(
            count: count, width: width, from: values, base: base, into: target)
        if patchCount > 0 { try unsafe addPatches(to: target) }
        guard canOverflow else { return }
        // A wrapped sum is below the base.
        for i in 0..<count where unsafe target[i] < base {
            throw unsafe wrapped(target[i])
        }
    }

    /// Single values, without those before them.
    /// - Parameters:
    ///   - rows: inside `0 ..< count`.
    ///   - room: for `count` values.
    func pick(
        _ rows: Range<Int>, room: UnsafeMutablePointer<UInt64>,
        _ body: (Int, UInt64) throws(FormatError) -> Void
    ) throws(FormatError) {
        precondition(rows.lowerBound >= 0 && rows.upperBound <= count)
        if isConstant {
            for row in rows { try body(row, base) }
            return
        }
        try checkPadding()
        if patchCount > 0 { try unsafe unpackPlaces(into: room) }
        for row in rows {
            // SAFETY: row < count, and count values of width are there.
            var bits = unsafe BitPacking.value(row, count: count, width: width, from: values)
            if let patch = unsafe patch(of: row, in: room) {
                // SAFETY: patch < patchCount, and so many of patchWidth are there.
                let high = unsafe BitPacking.value(
                    patch, count: patchCount, width: patchWidth, from: highs)
                guard high != 0 else { throw badPatches }
                bits |= high &<< UInt64(truncatingIfNeeded: width)
            }
            let (value, overflow) = base.addingReportingOverflow(bits)
            if overflow { throw wrapped(value) }
            try body(row, value)
        }
    }

    /// Which patch is that of `row`, by binary search in the places, which ascend.
    private func patch(of row: Int, in places: UnsafePointer<UInt64>) -> Int? {
        // SAFETY: there are patchCount places.
        let patch = (0..<patchCount).firstPlace { unsafe places[$0] >= UInt64(row) }
        return unsafe patch < patchCount && places[patch] == UInt64(row) ? patch : nil
    }

    /// The rows that have patches: ascending and below `count`, or none of them is believed.
    private func unpackPlaces(into room: UnsafeMutablePointer<UInt64>) throws(FormatError) {
        // SAFETY: there is room for count values, more than there are patches, and so many places.
        unsafe BitPacking.unpack(
            count: patchCount, width: PageColumnCodec.placeWidth, from: places, into: room)
        var descents = 0
        for i in 1..<max(patchCount, 1) {
            descents &+= unsafe room[i] <= room[i &- 1] ? 1 : 0
        }
        guard descents == 0, unsafe room[patchCount &- 1] < UInt64(count) else { throw badPatches }
    }

    private func addPatches(to target: UnsafeMutablePointer<UInt64>) throws(FormatError) {
        try unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: count) {
            (room) throws(FormatError) in
            let room = room.baseAddress!
            try unsafe unpackPlaces(into: room)
            let shift = UInt64(truncatingIfNeeded: width)
            var zeroCount = 0
            // SAFETY: the places were found to be below count, for which the target has room.
            unsafe BitPacking.unpack(count: patchCount, width: patchWidth, from: highs) {
                zeroCount &+= $1 == 0 ? 1 : 0
                unsafe target[Int(room[$0])] &+= $1 &<< shift
            }
            guard zeroCount == 0 else { throw badPatches }
        }
    }

    /// The bits behind each of the three parts are zero.
    private func checkPadding() throws(FormatError) {
        var end = partsOffset
        try unsafe checkPadding("column values", values, count: count, width: width, &end)
        guard patchCount > 0 else { return }
        try unsafe checkPadding(
            "patch places", places, count: patchCount, width: PageColumnCodec.placeWidth, &end)
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

/// How many values of a column need more than so many bits: asked for widths from the largest down, and
/// counted when asked, since the encoder seldom gets far. Of a column that is the base but for few values all widths are
/// tried, and these few are counted one by one.
///
/// **Cost** With AVX2 0.3 ns a value for four widths, and 0.6 ns a value and 1 ns one of the few for all of them; without,
/// 2 ns a value for all of them at the first question.
struct ColumnWidthCounts {
    private let base: UInt64
    /// Of the greatest value less the base.
    private let spanWidth: Int
    /// Values that need more than `firstWidth` … `firstWidth` + 3 bits.
    private var counts = InlineArray<4, UInt32>(repeating: 0)
    private var firstWidth: Int
    /// The same for all widths, if `knowsAll`.
    private var all = InlineArray<65, UInt32>(repeating: 0)
    private var knowsAll = false

    init(base: UInt64, spanWidth: Int) {
        self.base = base
        self.spanWidth = spanWidth
        firstWidth = spanWidth
    }

    /// - Parameter width: below `spanWidth`, and one less than at the last call.
    mutating func patchCount(
        _ values: UnsafePointer<UInt64>, count: Int, width: Int
    ) -> Int {
        if width < firstWidth && !knowsAll { unsafe look(values, count: count, width: width) }
        return Int(knowsAll ? all[width] : counts[width &- firstWidth])
    }

    private mutating func look(_ values: UnsafePointer<UInt64>, count: Int, width: Int) {
        let isFirst = firstWidth == spanWidth
        // With so few bits there are two looks at most.
        if isFirst, spanWidth > 8, unsafe countFew(values, count: count) { return }
        if unsafe countFour(values, count: count, from: max(0, width &- 3)) { return }
        for i in 0..<count {
            // SAFETY: i < count.
            unsafe note(values[i])
        }
        sumUp()
    }

    /// Counts the values that need more than `first` … `first` + 3 bits.
    /// - Returns: `false` where vectors cannot.
    private mutating func countFour(
        _ values: UnsafePointer<UInt64>, count: Int, from first: Int
    ) -> Bool {
        firstWidth = first
        var span = counts.mutableSpan
        return unsafe span.withUnsafeMutableBufferPointer { counts in
            // SAFETY: the buffer has four counts, and count values are there. Vectors compare values
            // below 2^63 alone.
            unsafe spanWidth < 64 && first < 60
                && ingest_column_counts(
                    values, count, base, UInt32(truncatingIfNeeded: first), counts.baseAddress!)
        }
    }

    /// Counts all widths, if one value in eight at most is not the base: of amounts and of rare counters with seven looks
    /// at each width a page took half as long again.
    private mutating func countFew(_ values: UnsafePointer<UInt64>, count: Int) -> Bool {
        guard unsafe countFour(values, count: count, from: 0), Int(counts[0]) <= count / 8 else {
            return false
        }
        return unsafe withUnsafeTemporaryAllocation(
            of: UInt16.self, capacity: Int(counts[0]) &+ 4
        ) { places in
            // SAFETY: there is room for the places of the values that were counted, and for four more.
            guard unsafe ingest_column_places(values, count, base, 0, places.baseAddress!) else {
                return false
            }
            for i in 0..<Int(counts[0]) { unsafe note(values[Int(places[i])]) }
            sumUp()
            return true
        }
    }

    private mutating func note(_ value: UInt64) {
        let needed = BitPacking.width(max: value &- base)
        if needed > 0 { all[needed &- 1] &+= 1 }
    }

    /// From the values that need so many bits to those that need as many or more.
    private mutating func sumUp() {
        for width in stride(from: 63, through: 0, by: -1) { all[width] &+= all[width &+ 1] }
        knowsAll = true
    }
}
