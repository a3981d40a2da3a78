// packet → decode → ring → admit → block → segment → compaction → snapshot → query

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

/// Text from outside, made fit for one line of a log or of a terminal: names, paths and values that
/// come from outside, and whatever messages quote of them.
///
/// **Cost** Made for what is printed now and then; never for each packet.
package enum OneLine {
    /// Longer lines lose their middle: what happened stands at the front, what to do at the end.
    package static let byteCountMax = 2_000

    /// `text` with everything that starts a line or that a terminal would act on escaped, as `\n`, `\t` or
    /// `\u{1b}`, and no longer than `byteCountMax` bytes of UTF-8.
    package static func escaped(_ text: String, byteCountMax: Int = byteCountMax) -> String {
        let scalars = text.unicodeScalars
        let whole = pieces(of: scalars, byteCountMax: byteCountMax)
        if whole.count == scalars.count { return whole.joined() }
        let gap = " … "
        let room = max(0, byteCountMax - gap.utf8.count)
        let tail = pieces(of: scalars.reversed(), byteCountMax: room / 4)
        let head = pieces(of: scalars, byteCountMax: room - room / 4)
        return head.joined() + gap + tail.reversed().joined()
    }

    /// A message of several lines, as a library may write one, as one that a sentence can go on behind.
    package static func joined(_ message: String) -> String {
        var joined = message.split(whereSeparator: \.isNewline).joined(separator: " ")
        while joined.last == "." || joined.last == " " { joined.removeLast() }
        return joined
    }

    /// The first scalars, each as it is printed, as many as fit.
    private static func pieces(
        of scalars: some Sequence<Unicode.Scalar>, byteCountMax: Int
    ) -> [String] {
        var pieces: [String] = []
        var byteCount = 0
        for scalar in scalars {
            let piece = piece(scalar)
            byteCount += piece.utf8.count
            if byteCount > byteCountMax { break }
            pieces.append(piece)
        }
        return pieces
    }

    private static func piece(_ scalar: Unicode.Scalar) -> String {
        if scalar.value >= 0x20 && scalar.value < 0x7F { return String(scalar) }
        switch scalar {
        case "\n": return "\\n"
        case "\r": return "\\r"
        case "\t": return "\\t"
        default: break
        }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator:
            return "\\u{\(String(scalar.value, radix: 16))}"
        default: return String(scalar)
        }
    }
}

/// The number of this release, the same for every program of the project.
package enum Release {
    package static let version = "0.1.0"
    /// The framed packet's version, as its magic names it.
    package static let packetVersion = "IGD1"
}

// MARK: Where packets are received, and where they are sent to, as a person writes it

/// HOST:PORT: a name or an IPv4 address as it is, an IPv6 address in brackets.
package struct HostPort: Equatable, Sendable {
    package let host: String
    /// 0 … 65,535.
    package let port: UInt16

    /// `nil` for an empty host, half a bracket, an IPv6 address without brackets, whose last group could not be told from
    /// a port, and a port that is no whole number up to 65,535.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        guard let port = UInt16(digits), digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let host = Self.host(text[..<colon])
        else { return nil }
        self.host = host
        self.port = port
    }

    private static func host(_ text: Substring) -> String? {
        let isBracketed = text.hasPrefix("[") && text.hasSuffix("]")
        let inner = isBracketed ? text.dropFirst().dropLast() : text
        guard !inner.isEmpty, !inner.contains(where: { "[]".contains($0) }),
            inner.contains(":") == isBracketed
        else { return nil }
        return String(inner)
    }
}
