// packet → decode → ring → admit → block → segment → compaction → snapshot → [query]

/// Text from outside, made fit for a terminal. Ids come from whoever sends events: one may hold escape
/// sequences that move the cursor, or marks that turn the direction of what follows.
package enum TerminalText {
    /// `text` with everything that a terminal would act on escaped as `\n`, `\t` or `\u{1b}`.
    package static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isActedOn) else { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": escaped += "\\n"
            case "\r": escaped += "\\r"
            case "\t": escaped += "\\t"
            case _ where isActedOn(scalar):
                escaped += "\\u{\(String(scalar.value, radix: 16))}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    private static func isActedOn(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.value >= 0x20 && scalar.value < 0x7F { return false }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: return true
        default: return false
        }
    }

    /// How many columns of a terminal the text takes.
    package static func width(_ text: String) -> Int {
        text.unicodeScalars.reduce(0) { $0 + width($1) }
    }

    /// As much of the beginning as fits into so many columns.
    package static func prefix(_ text: String, width limit: Int) -> String {
        if text.utf8.count <= limit { return text }
        var kept = String.UnicodeScalarView()
        var taken = 0
        for scalar in text.unicodeScalars {
            taken += width(scalar)
            if taken > limit { break }
            kept.append(scalar)
        }
        return String(kept)
    }

    private static func width(_ scalar: Unicode.Scalar) -> Int {
        if scalar.value < 0x300 { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }
}
