// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query

/// A narrow window that holds nearly all quotients of a column, and the exceptions outside of it: what
/// keeps one late event from doubling the width of every time in its block.
struct PatchPlan {
    static let sampleCount = 64
    /// How many of the sample's smallest and largest may lie outside.
    private static let trimCount = 2

    var window: UInt64
    /// Largest quotient inside, less `window`.
    var span: UInt64
    var exceptionCount: Int
    var exceptionMax: UInt64
    var bitCount: Int

    private var width: Int { BitPacking.width(max: span) }
    private var exceptionWidth: Int { BitPacking.width(max: exceptionMax) }

    /// The best plan that is smaller than packing at `width`, if a sample says that there may be one.
    /// - Parameter sample: memory for `sampleCount` values.
    @inline(__always)
    static func find<Value>(
        _ column: Quotients<Value>, count: Int, width: Int, sample: UnsafeMutablePointer<UInt64>
    ) -> PatchPlan? {
        guard count >= 4 * sampleCount, width > 2 else { return nil }
        for i in 0..<sampleCount {
            // SAFETY: i < sampleCount; the place is below count.
            unsafe sample[i] = column[i &* count / sampleCount]
        }
        unsafe sort(sample)
        let low = unsafe sample[trimCount]
        let span = unsafe sample[sampleCount - 1 - trimCount] - low
        let narrow = BitPacking.width(max: span)
        guard narrow + 2 < width else { return nil }
        let bitCountMax = count &* width
        let first = unsafe PatchPlan(
            column, count: count, width: narrow, from: low, span: span, bitCountMax: bitCountMax)
        // A wider window costs a bit a value and saves its exceptions at most.
        if let first, first.exceptionCount &* (16 &+ first.exceptionWidth) <= count { return first }
        let second = unsafe PatchPlan(
            column, count: count, width: narrow + 1, from: low, span: span,
            bitCountMax: first?.bitCount ?? bitCountMax)
        return second ?? first
    }

    /// A window of 2^width that has `low … low + span` in its middle; `nil` if it is not smaller.
    @inline(__always)
    private init?<Value>(
        _ column: Quotients<Value>, count: Int, width: Int, from low: UInt64, span: UInt64,
        bitCountMax: Int
    ) {
        let mask = BitPacking.mask(width: width)
        let margin = (mask &- span) / 2
        let start = low > margin ? low &- margin : 0
        var least = UInt64.max
        var largest: UInt64 = 0
        exceptionCount = 0
        exceptionMax = 0
        for i in 0..<count {
            // SAFETY: i < count.
            let quotient = unsafe column[i]
            let code = quotient &- start
            if code <= mask {
                least = min(least, code)
                largest = max(largest, code)
            } else {
                exceptionCount &+= 1
                exceptionMax = max(exceptionMax, quotient)
            }
        }
        guard exceptionCount > 0, exceptionCount <= count / 8 else { return nil }
        window = start &+ least
        self.span = largest &- least
        bitCount =
            8 &* (ColumnLayout.patchedByteCount &- ColumnLayout.baseByteCount) &+ 16
            &+ count &* BitPacking.width(max: self.span)
            &+ exceptionCount &* (16 &+ BitPacking.width(max: exceptionMax))
        if bitCount >= bitCountMax { return nil }
    }

    /// Writes the section; the base is there already.
    @inline(__always)
    func write<Value>(
        _ column: Quotients<Value>, count: Int, to target: UnsafeMutableRawPointer
    ) -> EncodedColumn {
        let (window, span) = (window, span)
        // SAFETY: the plan was chosen because it is smaller than what target has room for.
        unsafe target.storeBytes(of: window.littleEndian, toByteOffset: 8, as: UInt64.self)
        unsafe target.storeBytes(
            of: UInt16(truncatingIfNeeded: exceptionCount).littleEndian, toByteOffset: 16,
            as: UInt16.self)
        unsafe target.storeBytes(
            of: UInt16(truncatingIfNeeded: exceptionWidth).littleEndian, toByteOffset: 18,
            as: UInt16.self)
        var byteCount = ColumnLayout.patchedByteCount
        let positions = unsafe target + byteCount
        unsafe writePositions(column, count: count, to: positions)
        byteCount &+= 2 &* exceptionCount
        byteCount &+= unsafe BitPacking.pack(
            count: exceptionCount, width: exceptionWidth, to: target + byteCount
        ) {
            let place = unsafe positions.loadUnaligned(fromByteOffset: 2 &* $0, as: UInt16.self)
            return unsafe column[Int(UInt16(littleEndian: place))]
        }
        byteCount &+= unsafe BitPacking.pack(count: count, width: width, to: target + byteCount) {
            let code = unsafe column[$0] &- window
            return code <= span ? code : 0
        }
        return unsafe EncodedColumn(
            encoding: SectionEncoding(.patched, exponent: column.exponent), parameter: width,
            byteCount: byteCount)
    }

    @inline(__always)
    private func writePositions<Value>(
        _ column: Quotients<Value>, count: Int, to target: UnsafeMutableRawPointer
    ) {
        var written = 0
        for i in 0..<count where unsafe column[i] &- window > span {
            // SAFETY: exactly exceptionCount quotients are outside, for which there is room.
            unsafe target.storeBytes(
                of: UInt16(truncatingIfNeeded: i).littleEndian, toByteOffset: 2 &* written,
                as: UInt16.self)
            written &+= 1
        }
    }

    /// Insertion sort: 64 values, once a column.
    private static func sort(_ sample: UnsafeMutablePointer<UInt64>) {
        for i in 1..<sampleCount {
            // SAFETY: 0 ≤ place ≤ i < sampleCount.
            let value = unsafe sample[i]
            var place = i
            while place > 0, unsafe sample[place - 1] > value {
                unsafe sample[place] = sample[place - 1]
                place -= 1
            }
            unsafe sample[place] = value
        }
    }
}
