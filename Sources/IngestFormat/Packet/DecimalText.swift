// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// A decimal number in text, times a power of ten, without ever going through floating point.
struct DecimalText {
    /// The number times 10^scale, cut to an integer.
    let value: UInt64
    /// Whether the value is that of the text: nothing but zeros was cut off, and it fits 64 bits.
    let isExact: Bool

    /// Reads a number of JSON's grammar that fills `text` (so `cursor.number()` has taken it). `nil` if
    /// it is negative (and not zero). What does not fit 64 bits is the largest value that does.
    @unsafe init?(_ text: UnsafePointer<UInt8>, _ byteCount: Int, scale: Int) {
        // SAFETY: every index below is less than `byteCount`, for which the caller vouches.
        let isNegative = unsafe text[0] == UInt8(ascii: "-")
        var mantissaEnd = byteCount
        var pointAt: Int?
        for i in 0..<byteCount {
            let byte = unsafe text[i]
            if byte == UInt8(ascii: ".") { pointAt = i }
            if byte | 0x20 == UInt8(ascii: "e") {
                mantissaEnd = i
                break
            }
        }
        let exponent = unsafe Self.exponent(text, mantissaEnd + 1, byteCount)
        let first = isNegative ? 1 : 0
        let integerDigitCount = (pointAt ?? mantissaEnd) - first
        // How many of the digits stand before the point, once scaled.
        var keep = integerDigitCount + exponent + scale
        var value: UInt64 = 0
        var isExact = true
        for i in first..<mantissaEnd where i != pointAt {
            let digit = unsafe UInt64(text[i] &- UInt8(ascii: "0"))
            if keep > 0 {
                isExact = Self.append(digit, to: &value) && isExact
                keep -= 1
            } else if digit != 0 {
                isExact = false
            }
        }
        while keep > 0 && value != 0 && isExact {
            isExact = Self.append(0, to: &value) && isExact
            keep -= 1
        }
        if isNegative && (value != 0 || !isExact) { return nil }
        self.value = value
        self.isExact = isExact
    }

    /// Adds a digit behind the others; `false`, and the largest value from then on, if that is too much.
    private static func append(_ digit: UInt64, to value: inout UInt64) -> Bool {
        let (product, overflow) = value.multipliedReportingOverflow(by: 10)
        let (sum, carry) = product.addingReportingOverflow(digit)
        value = overflow || carry ? .max : sum
        return !overflow && !carry
    }

    /// The exponent's value, held within a range in which sums of counts cannot overflow; 0 if none.
    private static func exponent(_ text: UnsafePointer<UInt8>, _ start: Int, _ end: Int) -> Int {
        var value = 0
        var isNegative = false
        var at = start
        while at < end {
            // SAFETY: at < end, the text's byte count.
            let byte = unsafe text[at]
            if byte == UInt8(ascii: "-") {
                isNegative = true
            } else if byte != UInt8(ascii: "+") {
                value = min(value * 10 + Int(byte &- UInt8(ascii: "0")), 1_000_000)
            }
            at += 1
        }
        return isNegative ? -value : value
    }
}
