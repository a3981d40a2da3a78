// packet → decode → ring → admit → block → segment → compaction → snapshot → query

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
