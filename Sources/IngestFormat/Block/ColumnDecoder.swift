// packet → decode → ring → admit → [block] → segment → compaction → snapshot → [query]

/// A column's section → values, whatever its bytes say. Owned by the block decoder, reused.
///
/// **Errors** `corrupt` for a form, width, count, padding bit or value that an encoder does not write.
/// What was written into the target by then is of no meaning.
/// **Cost** With AVX2 0.1–0.5 ns a value (from packed to dictionary), else 0.6–1 ns; nothing allocated.
@safe final class ColumnDecoder {
    /// Values of a dictionary's entries; as many as a code of the greatest width can name.
    private let entries: UnsafeMutablePointer<UInt64>
    /// Some codes of a dictionary, which stay in the first-level cache.
    private let codes: UnsafeMutablePointer<UInt16>
    private static let codeCountMax = 4096

    init() {
        unsafe entries = .allocate(capacity: ColumnLayout.dictionaryEntryCountMax)
        unsafe entries.initialize(repeating: 0, count: ColumnLayout.dictionaryEntryCountMax)
        unsafe codes = .allocate(capacity: Self.codeCountMax)
    }
    deinit {
        unsafe entries.deallocate()
        unsafe codes.deallocate()
    }

    /// Decodes all values of the column into `target`, which has room for them.
    /// - Returns: the least and the greatest value.
    func decode<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: ColumnSource, into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> ClosedRange<Int64> {
        try unsafe source.requireFixedPart(ColumnLayout.baseByteCount)
        try unsafe source.require(
            "exponent of ten", source.encoding.exponent, min: 0, max: PowerOfTen.exponentMax)
        let largest: UInt64
        switch unsafe source.encoding.form {
        case .constant: largest = try unsafe constant(source, into: target)
        case .packed: largest = try unsafe packed(source, into: target)
        case .dictionary: largest = try unsafe dictionary(source, into: target)
        case .patched: largest = try unsafe patched(source, into: target)
        case .raw, nil:
            throw unsafe source.fault(
                "encoding", got: source.encoding.rawValue,
                expected: .atLeast(ColumnForm.constant.rawValue))
        }
        return try unsafe checkedRange(source, largestQuotient: largest)
    }

    /// Holds base and greatest value against the domain, without overflow: values lie between them.
    private func checkedRange(
        _ source: ColumnSource, largestQuotient: UInt64
    ) throws(FormatError) -> ClosedRange<Int64> {
        let base = unsafe source.load(at: 0, as: Int64.self)
        let domain = unsafe source.domain
        guard base >= domain.lowerBound else {
            throw unsafe source.fault("value", got: base, expected: .atLeast(domain.lowerBound))
        }
        guard base <= domain.upperBound else {
            throw unsafe source.fault("value", got: base, expected: .atMost(domain.upperBound))
        }
        let room = UInt64(bitPattern: domain.upperBound &- base)
        let (distance, overflow) = unsafe largestQuotient.multipliedReportingOverflow(
            by: PowerOfTen.value(source.encoding.exponent))
        guard !overflow, distance <= room else {
            throw unsafe source.fault(
                "value", got: base &+ Int64(bitPattern: distance),
                expected: .atMost(domain.upperBound))
        }
        return base...(base &+ Int64(bitPattern: distance))
    }

    @inline(__always)
    private func constant<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: ColumnSource, into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> UInt64 {
        try unsafe source.require("raw byte count", source.byteCount, is: 8)
        try unsafe source.require("parameter", source.parameter, is: 0)
        try unsafe source.require("exponent of ten", source.encoding.exponent, is: 0)
        let value = unsafe Value(truncatingIfNeeded: source.load(at: 0, as: Int64.self))
        // SAFETY: target has room for count values.
        unsafe target.update(repeating: value, count: source.count)
        return 0
    }

    @inline(__always)
    private func packed<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: ColumnSource, into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> UInt64 {
        let (count, width) = unsafe (source.count, source.parameter)
        try unsafe source.require("width", width, min: 1, max: 64)
        try unsafe source.require(
            "raw byte count", source.byteCount, is: 8 + BitPacking.byteCount(count, width: width))
        try unsafe source.requirePadding(count, width: width, at: 8)
        // SAFETY: target has room for count values.
        return try unsafe quotients(source, count, "width", width, at: 8, into: target)
    }

    /// Decodes quotients, of which the least is 0 and the greatest needs the whole width.
    /// - Returns: the greatest.
    @inline(__always)
    private func quotients<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: ColumnSource, _ count: Int, _ field: String, _ width: Int, at offset: Int,
        into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> UInt64 {
        let base = unsafe source.load(at: 0, as: UInt64.self)
        let factor = unsafe PowerOfTen.value(source.encoding.exponent)
        // SAFETY: the caller vouches for the target.
        let (least, largest) = unsafe BitPacking.unpack(
            count: count, width: width, from: source.bytes + offset, base: base, factor: factor,
            into: target)
        try unsafe source.require("least quotient", least, is: 0)
        try unsafe source.require(field, width, is: BitPacking.width(max: largest))
        return largest
    }

    @inline(__always)
    private func dictionary<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: ColumnSource, into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> UInt64 {
        try unsafe source.requireFixedPart(ColumnLayout.dictionaryByteCount)
        let (count, codeWidth) = unsafe (source.count, source.parameter)
        let entryCount = unsafe Int(source.load(at: 8, as: UInt16.self))
        let width = unsafe Int(source.load(at: 10, as: UInt8.self))
        try unsafe source.require("reserved", source.load(at: 11, as: UInt8.self), is: 0)
        try unsafe source.require(
            "entry count", entryCount, min: 2,
            max: min(count, ColumnLayout.dictionaryEntryCountMax))
        try unsafe source.require("entry width", width, min: 1, max: 32)
        try unsafe source.require(
            "code width", codeWidth, is: BitPacking.width(max: UInt64(entryCount - 1)))
        let codeStart = try unsafe source.requireCodes(
            codeWidth: codeWidth, behind: entryCount, valueWidth: width,
            at: ColumnLayout.dictionaryByteCount)

        // SAFETY: entryCount ≤ dictionaryEntryCountMax.
        let largest = try unsafe quotients(
            source, entryCount, "entry width", width, at: ColumnLayout.dictionaryByteCount,
            into: self.entries)
        // Codes are given in the order of their first rows; so each entry is used if the last one is.
        let (entries, codes) = unsafe (entries, codes)
        var next: UInt64 = 0
        var isInOrder = true
        for first in stride(from: 0, to: count, by: Self.codeCountMax) {
            let codeCount = min(Self.codeCountMax, count &- first)
            // SAFETY: the codes before these fill whole bytes.
            let greatest = unsafe BitPacking.unpack(
                count: codeCount, width: codeWidth,
                from: source.bytes + codeStart + first / 8 &* codeWidth, into: codes
            ).greatest
            var i = 0
            while i < codeCount && next <= greatest {
                let code = unsafe UInt64(codes[i])
                isInOrder = isInOrder && code <= next
                next &+= code == next ? 1 : 0
                i &+= 1
            }
            for i in 0..<codeCount {
                // SAFETY: target has room for count values; code < 2^12, so many entries there are.
                unsafe target[first &+ i] = Value(truncatingIfNeeded: entries[Int(codes[i])])
            }
        }
        try unsafe source.require("order of codes", isInOrder ? 1 : 0, is: 1)
        try unsafe source.require("entries in use", next, is: UInt64(entryCount))
        return largest
    }

    @inline(__always)
    private func patched<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: ColumnSource, into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> UInt64 {
        try unsafe source.requireFixedPart(ColumnLayout.patchedByteCount)
        let (count, width) = unsafe (source.count, source.parameter)
        let window = unsafe source.load(at: 8, as: UInt64.self)
        let exceptionCount = unsafe Int(source.load(at: 16, as: UInt16.self))
        let exceptionWidth = unsafe Int(source.load(at: 18, as: UInt8.self))
        try unsafe source.require("reserved", source.load(at: 19, as: UInt8.self), is: 0)
        try unsafe source.require("width", width, min: 0, max: 63)
        try unsafe source.require("exception width", exceptionWidth, min: 0, max: 64)
        try unsafe source.require("exception count", exceptionCount, min: 1, max: count)
        let exceptionStart = ColumnLayout.patchedByteCount + 2 * exceptionCount
        let codeStart = try unsafe source.requireCodes(
            codeWidth: width, behind: exceptionCount, valueWidth: exceptionWidth,
            at: exceptionStart)

        let base = unsafe source.load(at: 0, as: UInt64.self)
        let factor = unsafe PowerOfTen.value(source.encoding.exponent)
        let unpatched = base &+ window &* factor
        // SAFETY: target has room for count values.
        let largestCode = unsafe BitPacking.unpack(
            count: count, width: width, from: source.bytes + codeStart, base: unpatched,
            factor: factor, into: target
        ).greatest
        var zeroCount = 0
        for i in 0..<count {
            zeroCount &+= unsafe target[i] == Value(truncatingIfNeeded: unpatched) ? 1 : 0
        }
        try unsafe source.require("width", width, is: BitPacking.width(max: largestCode))
        // The window begins at the least quotient inside, which is no exception.
        guard zeroCount > exceptionCount else {
            throw unsafe source.fault(
                "codes of 0", got: zeroCount, expected: .atLeast(exceptionCount + 1))
        }
        let (largestInside, overflow) = window.addingReportingOverflow(largestCode)
        if overflow {
            throw unsafe source.fault("window", got: window, expected: .atMost(~0 - largestCode))
        }
        let exceptions = try unsafe patch(
            source, count: exceptionCount, width: exceptionWidth, window: window, into: target)
        try unsafe source.require(
            "least quotient", min(window, exceptions.lowerBound), is: UInt64(0))
        return max(largestInside, exceptions.upperBound)
    }

    /// Puts the exceptions in their places, where the codes must have been 0.
    /// - Returns: the least and the greatest of their quotients.
    private func patch<Value: FixedWidthInteger & BitwiseCopyable>(
        _ source: ColumnSource, count: Int, width: Int, window: UInt64,
        into target: UnsafeMutablePointer<Value>
    ) throws(FormatError) -> ClosedRange<UInt64> {
        let base = unsafe source.load(at: 0, as: UInt64.self)
        let factor = unsafe PowerOfTen.value(source.encoding.exponent)
        let unpatched = Value(truncatingIfNeeded: base &+ window &* factor)
        let positions = ColumnLayout.patchedByteCount
        var previous = -1
        for i in 0..<count {
            let position = unsafe Int(source.load(at: positions + 2 * i, as: UInt16.self))
            try unsafe source.require(
                "position", position, min: previous + 1, max: source.count - 1)
            // SAFETY: position < count of the column.
            if unsafe target[position] != unpatched {
                throw unsafe source.fault("code of an exception", got: 1, expected: .exactly(0))
            }
            previous = position
        }
        var (least, largest) = (UInt64.max, UInt64(0))
        unsafe BitPacking.unpack(
            count: count, width: width, from: source.bytes + positions + 2 * count
        ) { i, quotient in
            least = min(least, quotient)
            largest = max(largest, quotient)
            let position = unsafe Int(source.load(at: positions + 2 * i, as: UInt16.self))
            // SAFETY: every position was checked above.
            unsafe target[position] = Value(truncatingIfNeeded: base &+ quotient &* factor)
        }
        try unsafe source.require("exception width", width, is: BitPacking.width(max: largest))
        return least...largest
    }
}
