// [packet] → decode → ring → admit → block → segment → compaction → snapshot → query
// Where packets are received, and where they are sent to, as a person writes it.

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
