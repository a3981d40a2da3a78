// packet → [decode] → ring → admit → block → segment → compaction → snapshot → query
// The grammar of JSON, strictly as RFC 8259 has it, over bytes that are known to be UTF-8.

/// Where a text or a number lies, counted from the packet's first byte.
struct JSONPlace: BitwiseCopyable {
    var offset: Int
    var byteCount: Int
}

/// One value, as far as an event cares. Only strings and numbers have a place.
struct JSONToken: BitwiseCopyable {
    enum Kind: UInt8, BitwiseCopyable {
        /// Not there, or `null`.
        case absent
        case string
        case number
        case object
        case `true`
        case `false`
        /// An array: nothing that any field of an event can be.
        case other
    }

    var kind = Kind.absent
    private var storedByteCount: UInt16 = 0
    private var storedOffset: UInt16 = 0

    /// Whether it is a string without bytes.
    var isEmpty: Bool { kind == .string && storedByteCount == 0 }

    init(_ kind: Kind = .absent) { self.kind = kind }
    init(_ kind: Kind, _ place: JSONPlace) {
        self.kind = kind
        // Packets are shorter than 2^16, so nothing is lost.
        storedOffset = UInt16(truncatingIfNeeded: place.offset)
        storedByteCount = UInt16(truncatingIfNeeded: place.byteCount)
    }

    var place: JSONPlace {
        JSONPlace(offset: Int(storedOffset), byteCount: Int(storedByteCount))
    }
}

/// A place in a JSON text and the text's end. A string that holds escapes is unescaped in place: its text
/// only gets shorter, so an offset and a count are enough to name it. `nil` and `false` mean that the
/// text is not JSON; the cursor is then of no further use.
///
/// It does not own the bytes: its maker keeps them in place while it lives.
@safe struct JSONCursor {
    private let base: UnsafeMutablePointer<UInt8>
    private(set) var at: Int
    private let end: Int

    /// Covers `place` of the packet at `base`.
    @unsafe init(_ base: UnsafeMutablePointer<UInt8>, _ place: JSONPlace) {
        unsafe self.base = base
        at = place.offset
        end = place.offset + place.byteCount
    }

    /// The next byte that is not white space, without passing it; 0 (which no JSON holds) at the end.
    @inline(__always)
    mutating func peek() -> UInt8 {
        // SAFETY: at < end, checked here, and `end` is inside the packet.
        while at < end {
            let byte = unsafe base[at]
            guard byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D else { return byte }
            at &+= 1
        }
        return 0
    }

    /// Passes `byte`, after white space.
    @inline(__always)
    mutating func accept(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        at &+= 1
        return true
    }

    /// Whether only white space is left.
    mutating func isAtEnd() -> Bool { peek() == 0 && at == end }

    // MARK: Values

    /// Any value; objects and arrays are checked and passed. `depth` is that of the value around it.
    mutating func value(depth: Int) -> JSONToken? {
        switch peek() {
        case UInt8(ascii: "\""): return string().map { JSONToken(.string, $0) }
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            return number().map { JSONToken(.number, $0) }
        case UInt8(ascii: "n"): return literal("null") ? JSONToken(.absent) : nil
        case UInt8(ascii: "t"): return literal("true") ? JSONToken(.true) : nil
        case UInt8(ascii: "f"): return literal("false") ? JSONToken(.false) : nil
        case UInt8(ascii: "["): return skipArray(depth: depth + 1) ? JSONToken(.other) : nil
        case UInt8(ascii: "{"): return skipObject(depth: depth + 1) ? JSONToken(.object) : nil
        default: return nil
        }
    }

    private mutating func skipArray(depth: Int) -> Bool {
        guard depth <= Limits.jsonDepthMax, accept(UInt8(ascii: "[")) else { return false }
        if accept(UInt8(ascii: "]")) { return true }
        repeat {
            guard value(depth: depth) != nil else { return false }
        } while accept(UInt8(ascii: ","))
        return accept(UInt8(ascii: "]"))
    }

    private mutating func skipObject(depth: Int) -> Bool {
        guard depth <= Limits.jsonDepthMax, accept(UInt8(ascii: "{")) else { return false }
        if accept(UInt8(ascii: "}")) { return true }
        repeat {
            guard key() != nil, value(depth: depth) != nil else { return false }
        } while accept(UInt8(ascii: ","))
        return accept(UInt8(ascii: "}"))
    }

    /// A member's name and the colon after it.
    mutating func key() -> JSONPlace? {
        guard peek() == UInt8(ascii: "\""), let name = string(), accept(UInt8(ascii: ":")) else {
            return nil
        }
        return name
    }

    private mutating func literal(_ text: StaticString) -> Bool {
        guard end - at >= text.utf8CodeUnitCount else { return false }
        for i in 0..<text.utf8CodeUnitCount {
            // SAFETY: at + i < end, checked above; i is inside the literal.
            if unsafe base[at + i] != text.utf8Start[i] { return false }
        }
        at += text.utf8CodeUnitCount
        return true
    }

    /// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
    mutating func number() -> JSONPlace? {
        let start = at
        passIf { $0 == UInt8(ascii: "-") }
        let first = at
        guard passDigits() > 0 else { return nil }
        // SAFETY: a digit is at `first`.
        if unsafe base[first] == UInt8(ascii: "0") && at - first > 1 { return nil }
        if passIf({ $0 == UInt8(ascii: ".") }) {
            guard passDigits() > 0 else { return nil }
        }
        if passIf({ $0 | 0x20 == UInt8(ascii: "e") }) {
            passIf { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") }
            guard passDigits() > 0 else { return nil }
        }
        return JSONPlace(offset: start, byteCount: at - start)
    }

    @inline(__always) @discardableResult
    private mutating func passIf(_ isWanted: (UInt8) -> Bool) -> Bool {
        // SAFETY: at < end.
        guard at < end, unsafe isWanted(base[at]) else { return false }
        at &+= 1
        return true
    }

    private mutating func passDigits() -> Int {
        let start = at
        while passIf({ $0 &- UInt8(ascii: "0") < 10 }) {}
        return at - start
    }

    // MARK: Strings

    /// A string, its place without the quotes, unescaped.
    @inline(__always)
    mutating func string() -> JSONPlace? {
        at &+= 1
        let start = at
        passPlainText()
        // SAFETY: at < end.
        guard at < end else { return nil }
        if unsafe base[at] == UInt8(ascii: "\"") {
            at &+= 1
            return JSONPlace(offset: start, byteCount: at &- 1 &- start)
        }
        return escapedString(start)
    }

    /// Goes to the next quote, backslash or control character, or the end.
    @inline(__always)
    private mutating func passPlainText() {
        while end &- at >= 8 {
            // SAFETY: 8 bytes are there, checked above.
            let word = unsafe UInt64(
                littleEndian: UnsafeRawPointer(base + at).loadUnaligned(as: UInt64.self))
            let special = Self.specialBytes(word)
            if special != 0 {
                at &+= special.trailingZeroBitCount &>> 3
                return
            }
            at &+= 8
        }
        // SAFETY: at < end.
        while at < end, unsafe Self.isPlain(base[at]) { at &+= 1 }
    }

    @inline(__always)
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    /// The top bit of each byte that is a quote, a backslash or below 0x20. A byte above one that is
    /// marked may be marked wrongly (a borrow), so only the lowest mark is to be believed.
    @inline(__always)
    private static func specialBytes(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let tops: UInt64 = 0x8080_8080_8080_8080
        let quote = word ^ (ones &* 0x22)
        let backslash = word ^ (ones &* 0x5C)
        let isQuote = (quote &- ones) & ~quote
        let isBackslash = (backslash &- ones) & ~backslash
        let isControl = (word &- ones &* 0x20) & ~word
        return (isQuote | isBackslash | isControl) & tops
    }

    /// The rest of a string from its first escape on. Text moves down over the escapes.
    @inline(never)
    private mutating func escapedString(_ start: Int) -> JSONPlace? {
        var to = at
        while at < end {
            // SAFETY: at < end; to < at + 1, since every escape is longer than what it stands for.
            let byte = unsafe base[at]
            at &+= 1
            if byte == UInt8(ascii: "\"") { return JSONPlace(offset: start, byteCount: to - start) }
            if byte == UInt8(ascii: "\\") {
                guard unescape(&to) else { return nil }
            } else {
                guard byte >= 0x20 else { return nil }
                unsafe base[to] = byte
                to &+= 1
            }
        }
        return nil
    }

    private mutating func unescape(_ to: inout Int) -> Bool {
        guard at < end else { return false }
        // SAFETY: at < end; to < at, see above.
        let byte = unsafe base[at]
        at &+= 1
        let plain: UInt8
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): plain = byte
        case UInt8(ascii: "b"): plain = 0x08
        case UInt8(ascii: "f"): plain = 0x0C
        case UInt8(ascii: "n"): plain = 0x0A
        case UInt8(ascii: "r"): plain = 0x0D
        case UInt8(ascii: "t"): plain = 0x09
        case UInt8(ascii: "u"): return unescapeUnicode(&to)
        default: return false
        }
        unsafe base[to] = plain
        to &+= 1
        return true
    }

    /// `\uXXXX`, or two of them that are a surrogate pair; a surrogate alone is refused.
    private mutating func unescapeUnicode(_ to: inout Int) -> Bool {
        guard var code = hexadecimal() else { return false }
        if code >= 0xDC00 && code <= 0xDFFF { return false }
        if code >= 0xD800 && code <= 0xDBFF {
            guard passIf({ $0 == UInt8(ascii: "\\") }), passIf({ $0 == UInt8(ascii: "u") }),
                let low = hexadecimal(), low >= 0xDC00, low <= 0xDFFF
            else { return false }
            code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(code) else { return false }
        for unit in UTF8.encode(scalar)! {
            // SAFETY: at most 3 bytes for 6 of escape, 4 for 12.
            unsafe base[to] = unit
            to &+= 1
        }
        return true
    }

    private mutating func hexadecimal() -> UInt32? {
        guard end - at >= 4 else { return nil }
        var value: UInt32 = 0
        for i in 0..<4 {
            // SAFETY: at + i < end, checked above.
            let digit = unsafe Hexadecimal.value(base[at + i])
            guard digit < 16 else { return nil }
            value = value << 4 | UInt32(digit)
        }
        at += 4
        return value
    }
}
