// packet → [decode] → ring → admit → block → segment → compaction → snapshot → [query]

/// The text form of a UUID: 36 bytes, `8-4-4-4-12` hexadecimal digits of either case.
///
/// An event id in this form is the same id as its 16 bytes, whichever way it came.
package enum UUIDText {
    package static let byteCount = 36

    /// The 16 bytes of the UUID whose 36 bytes of text are at `text`; `nil` if it is not one.
    @unsafe package static func parse(_ text: UnsafeRawPointer) -> InlineArray<16, UInt8>? {
        // SAFETY: the caller vouches for 36 bytes; every offset below is less than 36.
        guard unsafe text.load(fromByteOffset: 8, as: UInt8.self) == UInt8(ascii: "-"),
            unsafe text.load(fromByteOffset: 13, as: UInt8.self) == UInt8(ascii: "-"),
            unsafe text.load(fromByteOffset: 18, as: UInt8.self) == UInt8(ascii: "-"),
            unsafe text.load(fromByteOffset: 23, as: UInt8.self) == UInt8(ascii: "-")
        else { return nil }
        var uuid = InlineArray<16, UInt8>(repeating: 0)
        var at = 0
        for i in 0..<16 {
            if at == 8 || at == 13 || at == 18 || at == 23 { at &+= 1 }
            let high = Hexadecimal.value(unsafe text.load(fromByteOffset: at, as: UInt8.self))
            let low = Hexadecimal.value(unsafe text.load(fromByteOffset: at &+ 1, as: UInt8.self))
            if (high | low) > 15 { return nil }
            uuid[i] = high << 4 | low
            at &+= 2
        }
        return uuid
    }
}

enum Hexadecimal {
    /// The value of a digit of either case, 255 for any other byte.
    static func value(_ byte: UInt8) -> UInt8 {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte &- UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte &- UInt8(ascii: "a") &+ 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte &- UInt8(ascii: "A") &+ 10
        default: 255
        }
    }
}
