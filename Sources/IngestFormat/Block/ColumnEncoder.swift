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
