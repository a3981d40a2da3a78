// packet → decode → ring → admit → [block] → segment → compaction → snapshot → query

/// What of a column is tried beyond plain packing; each costs time where it does not pay.
struct ColumnTrials: OptionSet {
    let rawValue: UInt8
    /// A power of ten that all differences are multiples of. Almost free: given up at the first
    /// differences that are none.
    static let scale = ColumnTrials(rawValue: 1)
    /// Few distinct values. Given up after the first few hundred values of a column that has many.
    static let dictionary = ColumnTrials(rawValue: 2)
    /// A few values far from the others, such as late events. Given up on a sample of 64.
    static let patch = ColumnTrials(rawValue: 4)
}

struct EncodedColumn {
    var encoding: SectionEncoding
    var parameter: Int
    var byteCount: Int
    /// The least and the greatest value.
    var range: ClosedRange<Int64> = 0...0
}

/// The quotients of a column, worked out as they are asked for.
@unsafe struct Quotients<Value: FixedWidthInteger & BitwiseCopyable> {
    let source: UnsafePointer<Value>
    let base: UInt64
    let exponent: Int
    private let shift: UInt64
    private let inverse: UInt64

    @inline(__always)
    init(_ source: UnsafePointer<Value>, base: Value, exponent: Int) {
        unsafe self.source = source
        unsafe self.base = UInt64(truncatingIfNeeded: base)
        unsafe self.exponent = exponent
        unsafe shift = UInt64(truncatingIfNeeded: exponent)
        unsafe inverse = PowerOfTen.inverseOfFives(exponent)
    }

    @inline(__always)
    func quotient(_ value: Value) -> UInt64 {
        unsafe ((UInt64(truncatingIfNeeded: value) &- base) &>> shift) &* inverse
    }

    /// SAFETY of use: `i` is below the column's count.
    @inline(__always)
    subscript(_ i: Int) -> UInt64 { unsafe quotient(source[i]) }
}

/// Chooses the smallest form for a column and writes it. Owned by the block encoder, reused.
///
/// **Cost** 2–4 ns a value, nothing allocated.
@safe final class ColumnEncoder {
    private let dictionary = DictionaryBuilder()
    private let sample: UnsafeMutablePointer<UInt64>

    init() { unsafe sample = .allocate(capacity: PatchPlan.sampleCount) }
    deinit { unsafe sample.deallocate() }

    /// Encodes `count` (1 … `Limits.blockEventCountMax`) values.
    /// - Parameter target: room for 8 bytes more than the values themselves take, 8 at least, and
    ///   `BitPacking.slackByteCount` more.
    func encode<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: UnsafePointer<Value>, count: Int, trials: ColumnTrials,
        to target: UnsafeMutableRawPointer
    ) -> EncodedColumn {
        let (low, high) = unsafe range(source, count: count)
        var column = unsafe encode(
            source, count: count, low: low, high: high, trials: trials, to: target)
        column.range = Int64(truncatingIfNeeded: low)...Int64(truncatingIfNeeded: high)
        return column
    }

    @inline(__always)
    private func encode<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: UnsafePointer<Value>, count: Int, low: Value, high: Value,
        trials: ColumnTrials, to target: UnsafeMutableRawPointer
    ) -> EncodedColumn {
        unsafe target.storeBytes(of: Int64(truncatingIfNeeded: low).littleEndian, as: Int64.self)
        if low == high {
            return EncodedColumn(encoding: SectionEncoding(.constant), parameter: 0, byteCount: 8)
        }
        let exponent =
            trials.contains(.scale) ? unsafe commonExponent(source, count: count, base: low) : 0
        let column = unsafe Quotients(source, base: low, exponent: exponent)
        let width = unsafe BitPacking.width(max: column.quotient(high))
        var bitCount = count &* width

        var patch: PatchPlan?
        if trials.contains(.patch) {
            patch = unsafe PatchPlan.find(column, count: count, width: width, sample: sample)
            if let patch { bitCount = patch.bitCount }
        }
        if trials.contains(.dictionary) {
            let entryCount = unsafe dictionary.build(
                column, count: count, width: width, bitCountMax: bitCount)
            if entryCount > 0 {
                return unsafe writeDictionary(
                    column, entryCount: entryCount, width: width, count: count, to: target)
            }
        }
        if let patch { return unsafe patch.write(column, count: count, to: target) }
        let packed = unsafe BitPacking.pack(count: count, width: width, to: target + 8) {
            unsafe column[$0]
        }
        return EncodedColumn(
            encoding: SectionEncoding(.packed, exponent: exponent), parameter: width,
            byteCount: 8 &+ packed)
    }

    @inline(__always)
    private func range<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: UnsafePointer<Value>, count: Int
    ) -> (Value, Value) {
        var low = unsafe source[0]
        var high = low
        for i in 1..<max(count, 1) {
            // SAFETY: i < count.
            let value = unsafe source[i]
            low = min(low, value)
            high = max(high, value)
        }
        return (low, high)
    }

    @inline(__always)
    private func commonExponent<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: UnsafePointer<Value>, count: Int, base: Value
    ) -> Int {
        let base = UInt64(truncatingIfNeeded: base)
        var exponent = PowerOfTen.exponentMax
        var test = PowerOfTen.Test(exponent)
        for i in 0..<count {
            // SAFETY: i < count.
            let difference = unsafe UInt64(truncatingIfNeeded: source[i]) &- base
            while !test.divides(difference) {
                exponent &-= 1
                if exponent == 0 { return 0 }
                test = PowerOfTen.Test(exponent)
            }
        }
        return exponent
    }

    @inline(__always)
    private func writeDictionary<Value>(
        _ column: Quotients<Value>, entryCount: Int, width: Int, count: Int,
        to target: UnsafeMutableRawPointer
    ) -> EncodedColumn {
        let entries = unsafe dictionary.entries
        let codes = unsafe dictionary.codes
        let codeWidth = BitPacking.width(max: UInt64(truncatingIfNeeded: entryCount &- 1))
        // SAFETY: the dictionary was chosen because it is smaller than what target has room for.
        unsafe target.storeBytes(
            of: UInt16(truncatingIfNeeded: entryCount).littleEndian, toByteOffset: 8,
            as: UInt16.self)
        unsafe target.storeBytes(
            of: UInt16(truncatingIfNeeded: width).littleEndian, toByteOffset: 10, as: UInt16.self)
        var byteCount = ColumnLayout.dictionaryByteCount
        byteCount &+= unsafe BitPacking.pack(
            count: entryCount, width: width, to: target + byteCount
        ) { unsafe UInt64(entries[$0]) }
        byteCount &+= unsafe BitPacking.pack(
            count: count, width: codeWidth, to: target + byteCount
        ) { unsafe UInt64(codes[$0]) }
        return unsafe EncodedColumn(
            encoding: SectionEncoding(.dictionary, exponent: column.exponent),
            parameter: codeWidth, byteCount: byteCount)
    }
}

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
