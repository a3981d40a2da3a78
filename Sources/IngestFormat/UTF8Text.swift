// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query

/// Checks on short texts in place.
enum UTF8Text {
    /// Whether `byteCount` bytes are well-formed UTF-8 (no surrogates, no longer form than needed, at
    /// most U+10FFFF). **Source** Unicode 15, table 3-7.
    @inline(__always)
    @unsafe static func isValid(_ bytes: UnsafeRawPointer, _ byteCount: Int) -> Bool {
        unsafe isASCII(bytes, byteCount) || isWellFormed(bytes, byteCount)
    }

    @inline(__always)
    @unsafe private static func isASCII(_ bytes: UnsafeRawPointer, _ byteCount: Int) -> Bool {
        // SAFETY: every load ends at or before `byteCount`; the last one may overlap the one before.
        var high: UInt64 = 0
        if byteCount >= 8 {
            var at = 0
            while at &+ 8 < byteCount {
                unsafe high |= bytes.loadUnaligned(fromByteOffset: at, as: UInt64.self)
                at &+= 8
            }
            unsafe high |= bytes.loadUnaligned(fromByteOffset: byteCount &- 8, as: UInt64.self)
        } else {
            for at in 0..<byteCount {
                unsafe high |= UInt64(bytes.load(fromByteOffset: at, as: UInt8.self))
            }
        }
        return high & 0x8080_8080_8080_8080 == 0
    }

    @inline(never)
    @unsafe private static func isWellFormed(_ bytes: UnsafeRawPointer, _ byteCount: Int) -> Bool {
        // SAFETY: `at` is checked against `byteCount` before each load.
        var at = 0
        while at < byteCount {
            let first = unsafe bytes.load(fromByteOffset: at, as: UInt8.self)
            at &+= 1
            if first < 0x80 { continue }
            // How many bytes follow, and what the first of them may be.
            let more: Int
            let second: ClosedRange<UInt8>
            switch first {
            case 0xC2...0xDF: (more, second) = (1, 0x80...0xBF)
            case 0xE0: (more, second) = (2, 0xA0...0xBF)
            case 0xED: (more, second) = (2, 0x80...0x9F)
            case 0xE1...0xEF: (more, second) = (2, 0x80...0xBF)
            case 0xF0: (more, second) = (3, 0x90...0xBF)
            case 0xF1...0xF3: (more, second) = (3, 0x80...0xBF)
            case 0xF4: (more, second) = (3, 0x80...0x8F)
            default: return false
            }
            guard byteCount &- at >= more,
                unsafe second.contains(bytes.load(fromByteOffset: at, as: UInt8.self))
            else { return false }
            for i in 1..<more {
                let next = unsafe bytes.load(fromByteOffset: at &+ i, as: UInt8.self)
                if next & 0xC0 != 0x80 { return false }
            }
            at &+= more
        }
        return true
    }

    @inline(__always)
    @unsafe static func contains(
        _ byte: UInt8, _ bytes: UnsafeRawPointer, _ byteCount: Int
    ) -> Bool {
        // SAFETY: at < byteCount.
        for at in 0..<byteCount {
            if unsafe bytes.load(fromByteOffset: at, as: UInt8.self) == byte { return true }
        }
        return false
    }
}
